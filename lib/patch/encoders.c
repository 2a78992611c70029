/* SPDX-License-Identifier: MIT */
/* encoders.c: libetch's one copy of the larger functions of etch/forms.h and etch/pv_forms.h. */
#include "patch/internal.h"

unsigned form_size(unsigned form) { return etch_form_size(form); }

struct etch_form_info form_info(unsigned form) { return etch_form_info(form); }

unsigned form_load(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16])
{
	return etch_form_load(e, site, object, out);
}

unsigned form_imm(const struct etch_imv *e, uint64_t site, const uint8_t *bytes, uint8_t out[16])
{
	return etch_form_imm(e, site, bytes, out);
}

unsigned form_flags(const struct etch_imv_more *m, unsigned flags, unsigned len, uint8_t out[16])
{
	return etch_form_flags(m, flags, len, out);
}

int form_valid(const struct etch_imv *e) { return etch_imv_valid(e); }

unsigned pv_load(const struct etch_imv *e, uint64_t site, uint64_t slot, uint8_t out[16])
{
	return etch_pv_load(e, site, slot, out);
}

unsigned pv_image(const struct etch_imv *e, uint64_t site, uint64_t target, const struct etch_pv_body *body,
                  uint8_t out[16], unsigned *count)
{
	return etch_pv_image(e, site, target, body, out, count);
}
