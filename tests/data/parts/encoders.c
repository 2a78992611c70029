/* SPDX-License-Identifier: MIT */
/* The core's encoders (lib/patch/encoders.c) make what the functions of etch/forms.h make. */
#include <etch/imv.h>
#include <etch/forms.h>
#include <stdint.h>

#include "parts/use.h"

unsigned core_load(const struct etch_imv *, uint64_t, uint64_t, uint8_t *) __asm__("etch_in_form_load");
unsigned core_imm(const struct etch_imv *, uint64_t, uint8_t *) __asm__("etch_in_immediate_form");

DEFINE_IMV(int, v) = 3;

static const int64_t numbers[] = {0,          1,          -1,          0x7f,          0x80,          INT32_MAX, INT32_MAX + 1l,
                                  INT32_MIN,  INT32_MIN - 1l, UINT32_MAX, UINT32_MAX + 1l, INT64_MAX, INT64_MIN, 0x1234567890abcdef};
#define COUNT (sizeof(numbers) / sizeof(numbers[0]))

static unsigned long loads, immediates;

static int compare(const struct etch_imv *e)
{
	uint64_t site = (uint64_t)(uintptr_t)&e->site + (uint64_t)(int64_t)e->site;

	for (unsigned i = 0; i < 3 * COUNT; i++) {
		/* Also near the site, and where a displacement just fits or does not. */
		uint64_t number = (uint64_t)numbers[i % COUNT] + (i / COUNT) * (site + (i / COUNT == 2 ? etch_imv_len(e) : 0));
		uint8_t a[16] = {0}, b[16] = {0};
		unsigned n = etch_form_load(e, site, number, a);

		CHECK(core_load(e, site, number, b) == n && !memcmp(a, b, n));
		loads += n != 0;
		n = etch_form_imm(e, site, (const uint8_t *)&number, a);
		CHECK(core_imm(e, number, b) == n && !memcmp(a, b, n));
		for (; n && n < 8; n++)
			CHECK(!b[n]);
		immediates += n != 0;
	}
	return 0;
}

int main(void)
{
	static struct etch_imv pair[2], *const e = &pair[0];

	CHECK(!imv_set(v, 4) && imv_read(v) == 4);
	for (int form = ETCH_FORM_MOV32; form <= ETCH_FORM_MOV64; form++)
		for (unsigned regs = 0; regs < 256; regs++)
			for (unsigned shape = 0; shape < 128; shape++)
				for (long site = -0x40000000; site <= 0x40000000; site += 0x40000000) {
					*e = (struct etch_imv){.site = (int32_t)site, .form = (uint8_t)form, .regs = (uint8_t)regs, .shape = (uint8_t)shape};
					/* What form_valid() lets through. */
					if (etch_imv_valid(e) && etch_form_is_core(e) && etch_imv_len(e) <= 8 && compare(e))
						return 1;
				}
	printf("%lu loads, %lu immediates\n", loads, immediates);
	return 0;
}
