/* SPDX-License-Identifier: MIT */
/* all_forms.c: libetch's one copy of the larger functions of etch/forms.h and etch/pv_forms.h. */
#include "patch/parts.h"

unsigned forms_size(unsigned form) { return etch_form_size(form); }

struct etch_form_info forms_info(unsigned form) { return etch_form_info(form); }

unsigned forms_load(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16])
{
	return etch_form_load(e, site, object, out);
}

unsigned forms_imm(const struct etch_imv *e, uint64_t value, uint8_t out[16])
{
	return etch_form_imm(e, site_address(e), (const uint8_t *)&value, out);
}

unsigned forms_flags(const struct etch_imv_more *m, unsigned flags, unsigned len, uint8_t out[16])
{
	return etch_form_flags(m, flags, len, out);
}

/* Is the record the second one of the entry before it? */
static int more_ok(const struct module *m, const struct etch_imv *e)
{
	const struct sites *s = &m->sites[SITES_LOAD];

	return e > s->entry && (e[-1].flags & ETCH_IMV_MORE) && entry_is_site(&e[-1]);
}

int forms_valid(const struct module *m, const struct etch_imv *e, int call)
{
	const struct sites *s = &m->sites[SITES_LOAD];

	if (call)
		return etch_pv_valid(e);
	if (e->form == ETCH_FORM_MORE)
		return more_ok(m, e);
	return etch_imv_valid(e) &&
	       (!(e->flags & ETCH_IMV_MORE) || (e + 1 != s->entry + s->count && etch_more_valid(e, etch_imv_more(e))));
}

unsigned pv_load(const struct etch_imv *e, uint64_t site, uint64_t slot, uint8_t out[16])
{
	return etch_pv_load(e, site, slot, out);
}

unsigned pv_image(const struct etch_imv *e, uint64_t site, uint64_t target, const struct etch_pv_body *body,
                  uint8_t out[16], unsigned *count)
{
	return etch_pv_image(e, site, target, body, out, count);
}
