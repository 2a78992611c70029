/* SPDX-License-Identifier: MIT */
/* plan_bytes.c: plans new bytes of text, wherever they lie. */
#include "patch/parts.h"

/* Plans at most 8 bytes, in one word or two. */
static int eight_bytes(struct txn *t, uint64_t site, unsigned len, uint64_t old, uint64_t new)
{
	unsigned shift = 8 * (site & 7);
	uint64_t at = site & ~(uint64_t)7, mask = byte_mask(len);
	int err = list_add(&t->text, at, old << shift, new << shift, mask << shift, 1);

	if (err || shift + 8 * len <= 64)
		return err;
	shift = 64 - shift;
	return list_add(&t->text, at + 8, old >> shift, new >> shift, mask >> shift, 1);
}

int txn_bytes(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want)
{
	int err = 0;

	t->sites++;
	while (len && !err) {
		unsigned n = len < 8 ? len : 8;
		uint64_t old = 0, new = 0;

		for (unsigned i = n; i--;) {
			old = old << 8 | have[i];
			new = new << 8 | want[i];
		}
		err = eight_bytes(t, site, n, old, new);
		site += n;
		have += n;
		want += n;
		len -= n;
	}
	return err;
}

int txn_site(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want, int is_load)
{
	if (etch_site_is_live(site, len))
		return txn_bytes(t, site, len, have, want);
	return &part_objects ? part_objects.plan_across(t, site, len, have, want, is_load) : ETCH_EFORMAT;
}
