/* SPDX-License-Identifier: MIT */
/*
 * encoders.c: encodes the forms of sites (etch/forms.h): the two forms of imv_read, or all of them if all_forms.c is
 * linked.
 *
 * Those two forms fit in a word, which is built here; etch_form_load() and etch_form_imm(), which know every form,
 * build the same bytes one by one (tests/data/parts/encoders.c).
 */
#include "patch/parts.h"

static int is_int32(uint64_t v) { return v == (uint64_t)(int32_t)v; }

/* Writes `n` bytes of an instruction, with prefixes before them and 4 bytes of a number after them: `len` bytes in
 * all. */
static unsigned put(uint64_t head, unsigned n, unsigned len, uint64_t number, uint8_t out[16])
{
	unsigned pad = 8 * (len - 4 - n);
	uint64_t image = (uint32_t)number;

	image = image << 8 * (len - 4) | head << pad | (0x2e2e2e2e & (((uint64_t)1 << pad) - 1));
	memcpy(out, &image, sizeof(image));
	return len;
}

static unsigned core_load(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16])
{
	unsigned reg = etch_imv_reg(e), base = etch_imv_base(e), mode = etch_imv_addressing(e), n = 2;
	unsigned rex = 0x40 | (e->form == ETCH_FORM_MOV64 ? 8 : 0) | (reg & 8) >> 1 | base >> 3;
	uint64_t head = 0x8b | (reg & 7) << 11;

	if (base == 4 || (mode < ETCH_ADDR_BASE && base) || (rex != 0x40 && !etch_imv_rex(e)))
		return 0;
	if (mode == ETCH_ADDR_RIP) {
		head |= 0x0500;
		object -= site + 6 + etch_imv_rex(e);
	} else if (mode == ETCH_ADDR_ABS) {
		head |= 0x250400;
		n = 3;
	} else {
		head |= 0x8000 | (base & 7) << 8;
		object = 0;
		if (base == 12) {
			head |= 0x240000;
			n = 3;
		}
	}
	if (etch_imv_rex(e)) {
		head = head << 8 | rex;
		n++;
	}
	return is_int32(object) ? put(head, n, n + 4, object, out) : 0;
}

static unsigned core_imm(const struct etch_imv *e, uint64_t value, uint8_t out[16])
{
	unsigned reg = etch_imv_reg(e), len = etch_imv_len(e), rex = 0x40 | reg >> 3, n = 2;
	uint64_t head = 0xc0c7 | (reg & 7) << 8;

	/* mov $imm32,%r32 clears the upper half. */
	if (e->form == ETCH_FORM_MOV64 && is_int32(value)) {
		rex |= 8;
	} else if (e->form == ETCH_FORM_MOV64 && value > UINT32_MAX) { /* lea */
		head = 0x058d | (reg & 7) << 11;
		rex = 0x48 | (reg & 8) >> 1;
		value -= site_address(e) + len;
		if (!is_int32(value))
			return 0;
	}
	if (rex != 0x40 || len > 6) {
		head = head << 8 | rex;
		n = 3;
	}
	return n + 4 > len ? 0 : put(head, n, len, value, out);
}

unsigned form_size(unsigned form)
{
	if (form == ETCH_FORM_MOV64)
		return 8;
	return form == ETCH_FORM_MOV32 || !&part_objects ? 4 : part_objects.size(form);
}

unsigned form_load(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16])
{
	return (&part_objects ? part_objects.load : core_load)(e, site, object, out);
}

unsigned immediate_form(const struct etch_imv *e, uint64_t value, uint8_t out[16])
{
	return (&part_objects ? part_objects.imm : core_imm)(e, value, out);
}

int form_valid(const struct module *m, const struct etch_imv *e, int call)
{
	static const struct etch_imv none;
	struct etch_imv x = *e;

	if (&part_objects)
		return part_objects.valid(m, e, call);
	if (call || e->form == ETCH_FORM_NONE || !etch_form_is_core(e))
		return !call && !memcmp(e, &none, sizeof(none));
	x.form = ETCH_FORM_MOV32; /* both forms have the same requirements */
	return etch_imv_valid(&x) && etch_site_is_live(site_address(e), etch_imv_len(e));
}
