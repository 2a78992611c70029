/* SPDX-License-Identifier: MIT */
/*
 * plan.c: plans the change of a site that has to follow: a word of text, with the bytes expected there.
 */
#include "patch/parts.h"

void txn_begin(struct txn *t)
{
	memset(t, 0, offsetof(struct txn, fixed));
	t->data.word = t->data.fixed = t->fixed;
	t->data.capacity = LIST_STACK;
	t->alone = -1;
}

void txn_end(struct txn *t)
{
	list_end(&t->data);
	list_end(&t->text);
}

/* The value of [at, at+size) when these contiguous words of data are stored. */
static uint64_t value_with(const struct word *w, size_t count, uint64_t at, unsigned size)
{
	uint64_t word[2] = {0, 0}, first = at & ~(uint64_t)7;

	for (unsigned i = 0; i < 2 && (!i || (at & 7) + size > 8); i++, first += 8)
		word[i] = count && (first - w->at) / 8 < count ? w[(first - w->at) / 8].new : word_load(first);
	return value_in(word, at, size);
}

uint64_t txn_value_of(const struct txn *t, uint64_t at, unsigned size)
{
	return value_with(&t->data.word[t->run], t->run_end - t->run, at, size);
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
	uint64_t old = value_with(NULL, 0, object, size), new = txn_value_of(t, object, size);

	k->object = object;
	k->shape = shape;
	k->old_length = immediate_image(e, old, &k->old);
	k->new = k->old;
	k->new_length = new == old ? k->old_length : immediate_image(e, new, &k->new);
	if (e->form == ETCH_FORM_MOV64 && ((old | new) >> 32)) /* may be a lea: for this site alone */
		k->shape = 0;
}

/* Is what a breakpoint is in the place of a load, by the bytes after the first, and not this immediate? Then it stays
 * one: it is right as it is, also when the breakpoint has gone. */
static int is_load_below(uint64_t bytes, uint64_t load, uint64_t immediate, unsigned len)
{
	uint64_t rest = byte_mask(len) & ~(uint64_t)0xff;

	return !((bytes ^ load) & rest) && ((bytes ^ immediate) & rest);
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

	bytes = value_with(NULL, 0, site, len);
	if (bytes != t->memo.old || t->memo.old_length != len || plan == PLAN_LOAD || t->memo.new_length != len) {
		have_load = 1;
		if (form_load(e, site, object, out) != len)
			return ETCH_EFORMAT;
		memcpy(&load, out, 8);
	}
	if (!(t->memo.old_length == len && bytes == t->memo.old) && !(have_load && bytes == load)) {
		if ((bytes & 0xff) == 0xcc)
			return is_load_below(bytes, load, t->memo.old_length == len ? t->memo.old : ~bytes, len) ? 0 : ETCH_EBUSY;
		memcpy(out, &bytes, 8);
		if (plan == PLAN_SET || !part_others.is_immediate(e, out))
			return ETCH_ECODE;
	}
	want = plan == PLAN_LOAD || t->memo.new_length != len ? load : t->memo.new;
	if (want == bytes)
		return 0;
	if (!etch_site_is_live(site, len))
		return &part_objects ? part_objects.plan_word_across(t, site, len, bytes, want, have_load && bytes == load)
		                     : ETCH_EFORMAT;
	t->sites++;
	return list_add(&t->text, site & ~(uint64_t)7, bytes << shift, want << shift, byte_mask(len) << shift, 1);
}

int txn_plan_site(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan)
{
	if (etch_form_is_pv(e->form) || etch_imv_len(e) > 8)
		return &part_objects ? part_objects.plan(t, e, at, o, plan) : ETCH_EFORMAT;
	return plan_load(t, e, at, plan);
}
