/* SPDX-License-Identifier: MIT */
/*
 * site_bytes.c: classifies the bytes at a site: its load or indirect call, an immediate or direct call for the
 * current value, one for another value, or foreign bytes.
 */
#include <string.h>

#include "patch/patch.h"

/* Encodes the form that reads memory: the load or the indirect call. */
static unsigned load_form(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16])
{
	return etch_form_is_pv(e->form) ? pv_load(e, site, object, out) : form_load(e, site, object, out);
}

static enum site_state call_state(const struct etch_imv *e, uint64_t site, uint64_t object, const uint8_t *bytes)
{
	struct target now = {.at = memory_value(object, 8)};
	unsigned len = etch_imv_len(e), count;
	uint8_t out[16];

	if (pv_image(e, site, now.at, NULL, out, &count) == len && same_bytes(out, bytes, len))
		return SITE_IMMEDIATE;
	pv_target(&now, 0);
	if (now.known && pv_image(e, site, now.at, &now.body, out, &count) == len && same_bytes(out, bytes, len))
		return SITE_INLINE;
	if (pv_some_body(e, site, bytes))
		return now.known || !pv_unknown(now.at) ? SITE_STALE : SITE_INLINE;
	return pv_some_direct(e, bytes) ? SITE_STALE : SITE_UNKNOWN;
}

enum site_state site_state_of(const struct etch_imv *e, uint64_t object, const uint8_t *bytes)
{
	uint64_t site = site_address(e);
	unsigned len = etch_imv_len(e);
	uint8_t out[16];

	if (bytes[0] == 0xcc)
		return SITE_BUSY;
	if (load_form(e, site, object, out) == len && same_bytes(out, bytes, len))
		return SITE_LOAD;
	if (etch_form_is_pv(e->form))
		return call_state(e, site, object, bytes);
	if (immediate_form(e, memory_value(object, form_size(e->form)), out) == len && same_bytes(out, bytes, len))
		return SITE_IMMEDIATE;
	return immediate_of_some_value(e, bytes) ? SITE_STALE : SITE_UNKNOWN;
}

enum site_state site_state(const struct etch_imv *e, uint64_t object)
{
	uint64_t site = site_address(e), bytes;
	unsigned len = etch_imv_len(e);
	uint8_t have[16];

	if (etch_site_is_live(site, len)) {
		bytes = site_bytes(site, len);
		memcpy(have, &bytes, 8);
	} else {
		memcpy(have, (const void *)(uintptr_t)site, len);
	}
	return site_state_of(e, object, have);
}
