/* SPDX-License-Identifier: MIT */
/*
 * plan.c: plans a transaction: each store becomes a word of data, each site that has to
 * follow becomes a word of text, with the bytes expected there.
 */
#include <string.h>

#include "patch/parts.h"

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
		err = list_add(&t->data, at - skip, 0, bytes << (8 * skip), byte_mask(n) << (8 * skip), 0);
		if (err)
			return err;
		at += n;
		from += n;
		size -= n;
	}
	return 0;
}

uint64_t txn_value_of(const struct txn *t, uint64_t at, unsigned size)
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
	uint64_t old = memory_value(object, size), new = txn_value_of(t, object, size);

	k->object = object;
	k->shape = shape;
	k->old_length = immediate_image(e, old, &k->old);
	if (new == old) {
		k->new_length = k->old_length;
		k->new = k->old;
	} else {
		k->new_length = immediate_image(e, new, &k->new);
	}
	if (e->form == ETCH_FORM_MOV64 && ((old | new) >> 32)) /* may be a lea: for this site alone */
		k->shape = 0;
}

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
		if (plan == PLAN_SET || !part_others.is_immediate(e, out))
			return ETCH_ECODE;
	}
	want = plan == PLAN_LOAD || t->memo.new_length != len ? load : t->memo.new;
	if (want == bytes)
		return 0;
	if (!etch_site_is_live(site, len))
		return txn_site(t, site, len, (const uint8_t *)&bytes, (const uint8_t *)&want, have_load && bytes == load);
	t->sites++;
	return list_add(&t->text, site & ~(uint64_t)7, bytes << shift, want << shift, byte_mask(len) << shift, 1);
}

int txn_plan_site(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan)
{
	if (etch_form_is_pv(e->form) || etch_imv_len(e) > 8)
		return &part_objects ? part_objects.plan(t, e, at, o, plan) : ETCH_EFORMAT;
	return plan_load(t, e, at, plan);
}
