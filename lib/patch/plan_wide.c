/* SPDX-License-Identifier: MIT */
/*
 * plan_wide.c: plans the sites that the core does not plan: sites that cross an aligned word, calls, and loads of
 * more than 8 bytes.
 */
#include "patch/parts.h"

/* ---- bytes of text ------------------------------------------------------------------- */

/* Adds the one or two words that change at most 8 bytes. */
static int txn_eight_bytes(struct txn *t, uint64_t site, unsigned len, uint64_t old, uint64_t new, enum word_swap how)
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

static int txn_bytes_by(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want,
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

/* ---- across words ---------------------------------------------------------------------- */

int txn_alone(struct txn *t)
{
	if (t->alone < 0)
		t->alone = sync_alone();
	return t->alone;
}

/*
 * How a site that crosses an aligned word is changed. While there are other threads, its page is swapped; if that is
 * impossible, a site that holds its load may keep it (WORD_DROPPED). With one thread, stores are cheaper. But a swap
 * is correct, too, so a process that has had other threads is not asked whether they have ended, unless the swap
 * fails (commit_any()). Returns an enum word_swap, or a negated etch_error.
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

/* Adds the words that change a site that crosses a word, in the way that across_how() gives. Returns 0 or an
 * etch_error. */
static int bytes_across(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want,
                        int is_load)
{
	int how = across_how(t, site, len, is_load);

	if (how < 0 || how == WORD_DROPPED)
		return how < 0 ? -how : 0;
	return txn_bytes_by(t, site, len, have, want, (enum word_swap)how);
}

int plan_across(struct txn *t, uint64_t site, unsigned len, uint64_t have, uint64_t want, int is_load)
{
	int how = across_how(t, site, len, is_load);

	if (how < 0 || how == WORD_DROPPED)
		return how < 0 ? -how : 0;
	t->sites++;
	return txn_eight_bytes(t, site, len, have, want, (enum word_swap)how);
}

/* ---- loads of more than 8 bytes --------------------------------------------------------- */

/* Are two instructions of `len` bytes equal, apart from the first byte, which in `have` may be a breakpoint? A load
 * with a breakpoint stays a load. */
static int rest_same(const uint8_t *have, const uint8_t *other, unsigned len)
{
	return same_bytes(have + 1, other + 1, len - 1);
}

/* Is there a breakpoint at a site that otherwise holds its indirect call? If the bytes after the breakpoint also fit a
 * direct call or the body of the function that the slot holds now, the answer is no. */
static int is_call_below(const struct etch_imv *e, uint64_t site, uint64_t target, const uint8_t *have,
                         const uint8_t *load, const uint8_t *image, unsigned len)
{
	uint8_t direct[16];
	unsigned count;

	if (have[0] != 0xcc || !rest_same(have, load, len) || rest_same(have, image, len))
		return 0;
	return pv_image(e, site, target, NULL, direct, &count) != len || !rest_same(have, direct, len);
}

/* Plans a load of more than 8 bytes. */
static int plan_wide(struct txn *t, const struct etch_imv *e, uint64_t object, enum plan plan)
{
	unsigned len = etch_imv_len(e), size = form_size(e->form);
	uint64_t site = site_address(e);
	uint8_t have[16], load[16], old[16] = {0}, new[16];
	const uint8_t *want = new;
	int is_load;

	memcpy(have, (const void *)(uintptr_t)site, len);
	if (form_load(e, site, object, load) != len)
		return ETCH_EFORMAT;
	is_load = same_bytes(have, load, len);
	if (!is_load && (immediate_form(e, memory_value(object, size), old) != len || !same_bytes(have, old, len))) {
		if (have[0] == 0xcc)
			return rest_same(have, load, len) && !rest_same(have, old, len) ? 0 : ETCH_EBUSY;
		if (plan == PLAN_SET || !immediate_of_some_value(e, have))
			return ETCH_ECODE;
	}
	if (plan == PLAN_LOAD || immediate_form(e, txn_value_of(t, object, size), new) != len)
		want = load;
	if (same_bytes(have, want, len))
		return 0;
	return bytes_across(t, site, len, have, want, is_load);
}

/* ---- calls ------------------------------------------------------------------------------ */

static void slot_fill(struct txn *t, uint64_t at)
{
	struct slot *k = &t->slot;

	k->at = at;
	k->old = (struct target){.at = memory_value(at, 8)};
	k->new = (struct target){.at = txn_value_of(t, at, 8)};
	pv_target(&k->new, 1);
	if (k->new.at == k->old.at)
		k->old = k->new;
	else
		pv_target(&k->old, 0);
}

/* Encodes the bytes of a site for a target: the body of that function if it has at most `most` instructions, else a
 * direct call. */
static unsigned call_image(const struct etch_imv *e, uint64_t site, const struct target *to, unsigned most,
                           uint8_t out[16], unsigned *count)
{
	unsigned n = pv_image(e, site, to->at, to->known ? &to->body : NULL, out, count);

	return n && *count > most ? pv_image(e, site, to->at, NULL, out, count) : n;
}

/* Called if the bytes at a site are neither the indirect form nor those that this transaction would write for the old
 * value. Could etch have written them? It could if they are a direct call, written when the function's body was
 * unknown or not wanted, or the body of a function that is now unloaded or contains a breakpoint. */
static int call_expected(const struct etch_imv *e, uint64_t site, uint64_t old, const uint8_t *have, enum plan plan,
                         unsigned *count)
{
	unsigned len = etch_imv_len(e);
	uint8_t out[16];

	if (have[0] == 0xcc)
		return ETCH_EBUSY;
	if (pv_image(e, site, old, NULL, out, count) == len && same_bytes(have, out, len))
		return 0;
	*count = pv_some_body(e, site, have);
	if (*count)
		return 0;
	*count = 1;
	return plan != PLAN_SET && pv_some_direct(e, have) ? 0 : ETCH_ECODE;
}

/*
 * Plans a call or a tail jump. While other threads run, only one instruction may replace one instruction: for a
 * longer body a direct call is used, and a sealed site that holds several instructions cannot be changed, because a
 * thread may be between two of them.
 */
static int plan_call(struct txn *t, const struct etch_imv *e, uint64_t at, int sealed, enum plan plan)
{
	uint64_t site = site_address(e);
	unsigned len = etch_imv_len(e), live = (unsigned)etch_site_is_live(site, len);
	unsigned most = sealed ? ETCH_NATIVE_MOST : 1, was, count = 1, is_load = 0, n = 0;
	uint8_t have[16], load[16], image[16] = {0};
	const uint8_t *want = image;
	int err;

	if (t->slot.at != at)
		slot_fill(t, at);
	memcpy(have, (const void *)(uintptr_t)site, len);
	if (call_image(e, site, &t->slot.old, most, image, &was) != len || !same_bytes(have, image, len)) {
		was = 1;
		if (pv_load(e, site, at, load) != len)
			return ETCH_EFORMAT;
		if (is_call_below(e, site, t->slot.old.at, have, load, image, len))
			return 0;
		is_load = (unsigned)same_bytes(have, load, len);
		err = is_load ? 0 : call_expected(e, site, t->slot.old.at, have, plan, &was);
		if (err)
			return err;
	}
	if (plan != PLAN_LOAD)
		n = call_image(e, site, &t->slot.new, most, image, &count);
	if (n == len && same_bytes(have, image, len))
		return 0;
	if (n == len && count > 1 && !txn_alone(t))
		n = call_image(e, site, &t->slot.new, 1, image, &count);
	if (n != len) {
		count = 1;
		want = load;
		if (pv_load(e, site, at, load) != len)
			return ETCH_EFORMAT;
	}
	if (same_bytes(have, want, len))
		return 0;
	if (was > 1 || count > 1) {
		if (!txn_alone(t))
			return ETCH_ETHREADS;
		t->needs_alone = 1;
	}
	return live ? txn_bytes(t, site, len, have, want) : bytes_across(t, site, len, have, want, (int)is_load);
}

int plan_any(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan)
{
	return etch_form_is_pv(e->form) ? plan_call(t, e, at, !!(o->flags & OBJECT_SEALED), plan)
	                                : plan_wide(t, e, at, plan);
}
