/* SPDX-License-Identifier: MIT */
/* plan_bytes.c: plans new bytes of text, wherever they lie. */
#include "patch/parts.h"

int txn_eight_bytes(struct txn *t, uint64_t site, unsigned len, uint64_t old, uint64_t new, enum word_swap how)
{
	struct list *l = &t->text;
	unsigned shift = 8 * (site & 7), second = shift + 8 * len > 64;
	uint64_t at = site & ~(uint64_t)7, mask = byte_mask(len);
	struct word *w;

	while (l->capacity - l->count < 2) {
		int err = list_capacity(l, 4 * l->capacity, 1, 0);

		if (err)
			return err;
	}
	w = l->word + l->count;
	l->count += 1 + second;
	*w = (struct word){at, old << shift, new << shift, mask << shift, how};
	shift = 64 - shift;
	if (second)
		w[1] = (struct word){at + 8, old >> shift, new >> shift, mask >> shift, how};
	return 0;
}

int txn_bytes_by(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want,
                 enum word_swap how)
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
		err = txn_eight_bytes(t, site, n, old, new, how);
		site += n;
		have += n;
		want += n;
		len -= n;
	}
	return err;
}

int txn_bytes(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want)
{
	return txn_bytes_by(t, site, len, have, want, WORD_STORE);
}

int txn_site(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want, int is_load)
{
	if (etch_site_is_live(site, len))
		return txn_bytes(t, site, len, have, want);
	return &part_objects ? part_objects.plan_across(t, site, len, have, want, is_load) : ETCH_EFORMAT;
}
