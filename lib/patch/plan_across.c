/* SPDX-License-Identifier: MIT */
/* plan_across.c: plans sites that cross an aligned word. */
#include "patch/parts.h"

int txn_alone(struct txn *t)
{
	if (t->alone < 0)
		t->alone = sync_alone();
	return t->alone;
}

/*
 * How a site that crosses an aligned word is changed. While there are other threads its page is swapped; where that
 * cannot be, a site that holds its load may keep it (WORD_DROPPED). With one thread, stores are cheaper; but a swap is
 * right, too, so that a process which has had other threads is not asked whether they have ended, unless the swap
 * fails (commit.c). Or an etch_error, negative.
 */
static int across_how(struct txn *t, uint64_t site, unsigned len, int is_load)
{
	const struct segment *s = t->segment;

	if (!s || site < s->start || site >= s->end || len > s->end - site)
		s = t->segment = text_swappable(site, len);
	if ((!s || swap_refused || t->alone > 0 || !sync_had_threads()) && txn_alone(t)) {
		t->needs_alone = 1;
		return WORD_STORE;
	}
	if (is_load)
		return s && !swap_refused ? WORD_SWAP_OPTIONAL : WORD_DROPPED;
	return s ? WORD_SWAP : -ETCH_ETHREADS;
}

int plan_across(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want, int is_load)
{
	int how = across_how(t, site, len, is_load);

	if (how < 0 || how == WORD_DROPPED)
		return how < 0 ? -how : 0;
	return txn_bytes_by(t, site, len, have, want, (enum word_swap)how);
}

int plan_word_across(struct txn *t, uint64_t site, unsigned len, uint64_t have, uint64_t want, int is_load)
{
	int how = across_how(t, site, len, is_load);

	if (how < 0 || how == WORD_DROPPED)
		return how < 0 ? -how : 0;
	t->sites++;
	return txn_eight_bytes(t, site, len, have, want, (enum word_swap)how);
}
