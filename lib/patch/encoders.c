/* SPDX-License-Identifier: MIT */
/* encoders.c: the forms of sites (etch/forms.h): the two of imv_read, or all of them where all_forms.c is linked. */
#include "patch/parts.h"

/* etch_form_info() of the core's forms, in which the compiler finds constants. */
static inline __attribute__((always_inline)) struct etch_form_info core_info(unsigned form)
{
	struct etch_form_info f = {.digit = 8, .opcode = 0x8b, .imm_op = 0xc7};

	f.mem = f.width = form == ETCH_FORM_MOV64 ? 8 : 4;
	f.imm = form == ETCH_FORM_MOV64 ? ETCH_IMM_MOV64 : ETCH_IMM_32;
	return f;
}

unsigned form_size(unsigned form)
{
	return form == ETCH_FORM_MOV64 ? 8 : form == ETCH_FORM_MOV32 || !&part_objects ? 4 : part_objects.size(form);
}

unsigned form_load(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16])
{
	if (&part_objects)
		return part_objects.load(e, site, object, out);
	return etch_info_load(core_info(e->form), e, NULL, site, object, out);
}

unsigned immediate_form(const struct etch_imv *e, uint64_t value, uint8_t out[16])
{
	if (&part_objects)
		return part_objects.imm(e, site_address(e), (const uint8_t *)&value, out);
	return etch_info_imm(core_info(e->form), e, NULL, site_address(e), (const uint8_t *)&value, out);
}

int form_valid(const struct module *m, const struct etch_imv *e, int call)
{
	static const struct etch_imv none;
	struct etch_imv x = *e;

	if (&part_objects)
		return part_objects.valid(m, e, call);
	if (call || e->form == ETCH_FORM_NONE || !etch_form_is_core(e))
		return !call && !memcmp(e, &none, sizeof(none));
	x.form = ETCH_FORM_MOV32; /* the same is asked of both */
	return etch_imv_valid(&x) && etch_site_is_live(site_address(e), etch_imv_len(e));
}
