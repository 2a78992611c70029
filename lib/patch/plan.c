/* SPDX-License-Identifier: MIT */
/*
 * plan.c: plans a transaction: each store becomes a word of data, each site that has to
 * follow becomes a word of text, with the bytes expected there.
 */
#include <string.h>

#include "patch/patch.h"

void txn_begin(struct txn *t)
{
	list_begin(&t->data, t->fixed, LIST_STACK);
	list_begin(&t->text, NULL, 0);
	t->run = t->run_end = 0;
	t->memo.shape = 0;
	t->memo.object = 0;
	t->slot.at = 0;
	t->alone = -1;
	t->needs_alone = 0;
	t->sites = 0;
}

void txn_reserve(struct txn *t, size_t sites) { list_reserve(&t->text, sites); }

void txn_end(struct txn *t)
{
	list_end(&t->data);
	list_end(&t->text);
}

int txn_store(struct txn *t, uint64_t at, const void *value, size_t size)
{
	const uint8_t *from = value;
	int err;

	while (size) {
		unsigned skip = at & 7, n = 8 - skip;
		uint64_t bytes = 0;

		if (n > size)
			n = (unsigned)size;
		memcpy(&bytes, from, n);
		err =
			list_add(&t->data,
		             (struct word){.at = at - skip, .new = bytes << (8 * skip), .mask = byte_mask(n) << (8 * skip)}, 0);
		if (err)
			return err;
		at += n;
		from += n;
		size -= n;
	}
	return 0;
}

/* The value of [at, at+size) after the transaction. size <= 8. */
static uint64_t value_after(const struct txn *t, uint64_t at, unsigned size)
{
	uint64_t word[2] = {0, 0}, first = at & ~(uint64_t)7;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t w = first + 8 * i;

		if (i && (at & 7) + size <= 8)
			break;
		if (t->run < t->run_end && w >= t->data.word[t->run].at && w <= t->data.word[t->run_end - 1].at)
			word[i] = t->data.word[t->run + ((w - t->data.word[t->run].at) >> 3)].new;
		else
			word[i] = word_load(w);
	}
	return value_in(word, at, size);
}

uint64_t txn_value(const struct txn *t, uint64_t slot) { return value_after(t, slot, 8); }

uint64_t txn_value_of(const struct txn *t, uint64_t at, unsigned size) { return value_after(t, at, size); }

static unsigned immediate_image(const struct etch_imv *e, uint64_t value, uint64_t *image)
{
	uint8_t out[16] = {0};
	unsigned n = immediate_form(e, value, out);

	memcpy(image, out, 8);
	return n;
}

static void memo_fill(struct txn *t, const struct etch_imv *e, uint64_t object, uint32_t shape)
{
	struct memo *k = &t->memo;
	unsigned size = form_size(e->form);
	uint64_t old = memory_value(object, size), new = value_after(t, object, size);

	k->object = object;
	k->shape = shape;
	k->old_length = immediate_image(e, old, &k->old);
	if (new == old) {
		k->new_length = k->old_length;
		k->new = k->old;
	} else {
		k->new_length = immediate_image(e, new, &k->new);
	}
	if (form_info(e->form).imm == ETCH_IMM_MOV64 && ((old | new) >> 32)) /* may be a lea: for this site alone */
		k->shape = 0;
}

int txn_bytes(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want)
{
	int err = 0;

	t->sites++;
	while (len && !err) {
		unsigned skip = site & 7, n = 8 - skip < len ? 8 - skip : len;
		uint64_t old = 0, new = 0;

		memcpy(&old, have, n);
		memcpy(&new, want, n);
		err = list_add(&t->text,
		               (struct word){.at = site - skip,
		                             .old = old << (8 * skip),
		                             .new = new << (8 * skip),
		                             .mask = byte_mask(n) << (8 * skip)},
		               1);
		site += n;
		have += n;
		want += n;
		len -= n;
	}
	return err;
}

static int txn_alone(struct txn *t)
{
	if (t->alone < 0)
		t->alone = sync_alone();
	return t->alone;
}

/*
 * Plans new bytes for a site that crosses an aligned word. While there are other threads its page is
 * swapped; where that cannot be, a site that holds its load may keep it. With one thread, stores are
 * cheaper.
 */
static int plan_across(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want,
                       int is_load)
{
	size_t i = t->text.count;
	int err;

	if (txn_alone(t)) {
		t->needs_alone = 1;
		return txn_bytes(t, site, len, have, want);
	}
	if (is_load && swap_refused)
		return 0;
	if (!text_swappable(site, len))
		return is_load ? 0 : ETCH_ETHREADS;
	err = txn_bytes(t, site, len, have, want);
	for (; i < t->text.count; i++)
		t->text.word[i].swap = is_load ? WORD_SWAP_OPTIONAL : WORD_SWAP;
	return err;
}

int txn_site(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want, int is_load)
{
	return etch_site_is_live(site, len) ? txn_bytes(t, site, len, have, want)
	                                    : plan_across(t, site, len, have, want, is_load);
}

/* Plans a load of more than 8 bytes. */
static int plan_wide(struct txn *t, const struct etch_imv *e, uint64_t object, enum plan plan)
{
	unsigned len = etch_imv_len(e), size = form_size(e->form);
	uint64_t site = site_address(e);
	uint8_t have[16], load[16], old[16], new[16];
	const uint8_t *want = new;
	int is_load;

	memcpy(have, (const void *)(uintptr_t)site, len);
	if (form_load(e, site, object, load) != len)
		return ETCH_EFORMAT;
	is_load = same_bytes(have, load, len);
	if (!is_load && (immediate_form(e, memory_value(object, size), old) != len || !same_bytes(have, old, len))) {
		if (have[0] == 0xcc)
			return ETCH_EBUSY;
		if (plan == PLAN_SET || !immediate_of_some_value(e, have))
			return ETCH_ECODE;
	}
	if (plan == PLAN_LOAD || immediate_form(e, value_after(t, object, size), new) != len)
		want = load;
	if (same_bytes(have, want, len))
		return 0;
	return plan_across(t, site, len, have, want, is_load);
}

static void slot_fill(struct txn *t, uint64_t at)
{
	struct slot *k = &t->slot;

	k->at = at;
	k->old = (struct target){.at = memory_value(at, 8)};
	k->new = (struct target){.at = value_after(t, at, 8)};
	pv_target(&k->new, 1);
	if (k->new.at == k->old.at)
		k->old = k->new;
	else
		pv_target(&k->old, 0);
}

/* Encodes the site's form for a target, with at most `most` instructions. */
static unsigned call_image(const struct etch_imv *e, uint64_t site, const struct target *to, unsigned most,
                           uint8_t out[16], unsigned *count)
{
	unsigned n = pv_image(e, site, to->at, to->known ? &to->body : NULL, out, count);

	return n && *count > most ? pv_image(e, site, to->at, NULL, out, count) : n;
}

/* The bytes at a site are neither the indirect form nor what this transaction would write for the
 * old value. Could etch have written them? Yes for a direct call, written when the function's body
 * was unknown or not wanted; and for the body of a function that is now unloaded or contains a
 * breakpoint. */
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
 * Plans a call or a tail jump. While other threads run, one instruction may only be replaced by
 * one: for a longer body a direct call is used, and a sealed site that holds several instructions
 * cannot be changed: a thread may be between two of them.
 */
static int plan_call(struct txn *t, const struct etch_imv *e, uint64_t at, int sealed, enum plan plan)
{
	uint64_t site = site_address(e);
	unsigned len = etch_imv_len(e), live = (unsigned)etch_site_is_live(site, len);
	unsigned most = sealed ? ETCH_NATIVE_MOST : 1, was, count = 1, is_load = 0, n = 0;
	uint8_t have[16], load[16], image[16];
	const uint8_t *want = image;
	int err;

	if (t->slot.at != at)
		slot_fill(t, at);
	memcpy(have, (const void *)(uintptr_t)site, len);
	if (call_image(e, site, &t->slot.old, most, image, &was) != len || !same_bytes(have, image, len)) {
		was = 1;
		if (pv_load(e, site, at, load) != len)
			return ETCH_EFORMAT;
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
	return live ? txn_bytes(t, site, len, have, want) : plan_across(t, site, len, have, want, (int)is_load);
}

/* Plans a load of at most 8 bytes, in one word or across two. */
static int plan_load(struct txn *t, const struct etch_imv *e, uint64_t object, enum plan plan)
{
	uint64_t site = site_address(e), bytes, want, load = 0;
	unsigned len = etch_imv_len(e), shift = (site & 7) * 8, have_load = 0;
	uint32_t shape;
	uint8_t out[16] = {0};

	memcpy(&shape, &e->form, sizeof(shape));
	shape &= 0x00ffffff; /* without the flags */
	if (shape != t->memo.shape || (e->flags & ETCH_IMV_MORE) || object != t->memo.object)
		memo_fill(t, e, object, shape);

	bytes = memory_value(site, len);
	if (bytes != t->memo.old || t->memo.old_length != len || plan == PLAN_LOAD || t->memo.new_length != len) {
		have_load = 1;
		if (form_load(e, site, object, out) != len)
			return ETCH_EFORMAT;
		memcpy(&load, out, 8);
	}
	if (!(t->memo.old_length == len && bytes == t->memo.old) && !(have_load && bytes == load)) {
		if ((bytes & 0xff) == 0xcc)
			return ETCH_EBUSY;
		memcpy(out, &bytes, 8);
		if (plan == PLAN_SET || !immediate_of_some_value(e, out))
			return ETCH_ECODE;
	}
	want = plan == PLAN_LOAD || t->memo.new_length != len ? load : t->memo.new;
	if (want == bytes)
		return 0;
	if (!etch_site_is_live(site, len))
		return plan_across(t, site, len, (const uint8_t *)&bytes, (const uint8_t *)&want, have_load && bytes == load);
	t->sites++;
	return list_add(
		&t->text,
		(struct word){
			.at = site & ~(uint64_t)7, .old = bytes << shift, .new = want << shift, .mask = byte_mask(len) << shift},
		1);
}

int txn_plan_site(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan)
{
	if (etch_form_is_pv(e->form))
		return plan_call(t, e, at, !!(o->flags & OBJECT_SEALED), plan);
	return etch_imv_len(e) <= 8 ? plan_load(t, e, at, plan) : plan_wide(t, e, at, plan);
}
