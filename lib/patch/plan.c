/* SPDX-License-Identifier: MIT */
/*
 * plan.c: plans a set in three steps (best read from the end of the file): it finds the sites that read the bytes
 * that the set stores (txn_plan_stores()), decides for each whether it follows and what it becomes (txn_plan_site()),
 * and adds the word of text, with the bytes that are expected there (txn_site()). Sites that the core does not know
 * are planned in plan_wide.c.
 */
#include "patch/parts.h"
#include "shared/search.h"

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

/* ---- values and their images --------------------------------------------------------- */

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

/* Encodes the immediate form as a number of 8 bytes. Returns its length, or 0 if there is none. */
static unsigned immediate_image(const struct etch_imv *e, uint64_t value, uint64_t *image)
{
	uint8_t out[16] = {0};
	unsigned n = immediate_form(e, value, out);

	memcpy(image, out, 8);
	return n;
}

/* Computes the old and the new bytes of a site, and remembers them. */
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
	if (e->form == ETCH_FORM_MOV64 && ((old | new) >> 32)) /* it may be a lea, which is valid for this site alone */
		k->shape = 0;
}

/* The first byte of a site is a breakpoint: are the other bytes those of its load, and not those of this immediate?
 * Then the site stays a load, which is correct as it is, also when the breakpoint is removed. */
static int is_load_below(uint64_t bytes, uint64_t load, uint64_t immediate, unsigned len)
{
	uint64_t rest = byte_mask(len) & ~(uint64_t)0xff;

	return !((bytes ^ load) & rest) && ((bytes ^ immediate) & rest);
}

/* ---- a site ----------------------------------------------------------------------- */

int txn_site(struct txn *t, uint64_t site, unsigned len, uint64_t have, uint64_t want, int is_load)
{
	unsigned shift = (site & 7) * 8;

	if (!etch_site_is_live(site, len))
		return &part_objects ? part_objects.plan_across(t, site, len, have, want, is_load) : ETCH_EFORMAT;
	t->sites++;
	return list_add(&t->text, site & ~(uint64_t)7, have << shift, want << shift, byte_mask(len) << shift, 1);
}

/* Plans a load of at most 8 bytes. */
static int plan_load(struct txn *t, const struct etch_imv *e, uint64_t object, enum plan plan)
{
	uint64_t site = site_address(e), bytes, want, load = 0;
	unsigned len = etch_imv_len(e);
	int is_old, is_load = 0, has_new;
	uint32_t shape;
	uint8_t out[16] = {0};

	memcpy(&shape, &e->form, sizeof(shape));
	shape &= 0x00ffffff; /* without the flags */
	if (shape != t->memo.shape || (e->flags & ETCH_IMV_MORE) || object != t->memo.object)
		memo_fill(t, e, object, shape);

	bytes = value_with(NULL, 0, site, len);
	is_old = t->memo.old_length == len && bytes == t->memo.old;
	has_new = plan != PLAN_LOAD && t->memo.new_length == len;
	if (!is_old || !has_new) {
		if (form_load(e, site, object, out) != len)
			return ETCH_EFORMAT;
		memcpy(&load, out, 8);
		is_load = bytes == load;
	}
	if (!is_old && !is_load) {
		if ((bytes & 0xff) == 0xcc) {
			uint64_t immediate = t->memo.old_length == len ? t->memo.old : ~bytes;

			return is_load_below(bytes, load, immediate, len) ? 0 : ETCH_EBUSY;
		}
		memcpy(out, &bytes, 8);
		if (plan == PLAN_SET || !part_others.is_immediate(e, out))
			return ETCH_ECODE;
	}
	want = has_new ? t->memo.new : load;
	return want == bytes ? 0 : txn_site(t, site, len, bytes, want, is_load);
}

int txn_plan_site(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan)
{
	if (etch_form_is_pv(e->form) || etch_imv_len(e) > 8)
		return &part_objects ? part_objects.plan(t, e, at, o, plan) : ETCH_EFORMAT;
	return plan_load(t, e, at, plan);
}

/* ---- the sites of a set ------------------------------------------------------------- */

size_t sites_from(const struct sites *s, uint64_t from)
{
	return SEARCH(s->own_count, i, site_own_object(&s->entry[i] - (s->entry[i].form == ETCH_FORM_MORE)) < from);
}

int txn_plan_read(struct txn *t, struct range_read *r, const struct etch_imv *e, uint64_t at)
{
	unsigned size = site_size(e);

	if (!r->o || at < r->o->addr || at - r->o->addr >= r->o->size)
		r->o = module_object(r->owner, at);
	if (at + size <= r->from || !r->o || !module_reads_armed(r->owner, r->o, at, size))
		return 0;
	return txn_plan_site(t, e, at, r->o, PLAN_SET);
}

/* Plans the sites of a linked table that do not go through the GOT. */
static int plan_own(struct txn *t, struct range_read *r, const struct sites *s)
{
	/* No form reads more than 8 bytes, so sites that start up to 7 bytes before the range count, too. */
	size_t i = sites_from(s, r->from - 7);
	int err = 0;

	for (; i < s->own_count && !err; i++) {
		const struct etch_imv *e = &s->entry[i];

		if (e->form == ETCH_FORM_MORE)
			continue;
		if (site_own_object(e) >= r->to)
			break;
		err = txn_plan_read(t, r, e, site_own_object(e));
	}
	return err;
}

int txn_plan_tables(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan)
{
	int err = &part_objects ? part_objects.plan_inlines(t, m, from, to, plan) : 0;

	return err || !&part_branches ? err : part_branches.plan(t, m, from, to, plan);
}

/* Plans the stores of the contiguous data words [first, end). */
static int plan_stores_run(struct txn *t, size_t first, size_t end)
{
	struct range_read r = {.from = t->data.word[first].at, .to = t->data.word[end - 1].at + 8};
	struct module *owner = module_at(r.from);
	int err;

	if (!owner || !owner->object_count)
		return 0;
	t->run = first;
	t->run_end = end;
	t->memo.shape = 0; /* its images are those of other values */
	t->slot.at = 0;
	r.owner = owner;
	err = module_check(owner);
	for (int kind = 0; owner->linked && kind < SITES_KINDS && !err; kind++)
		err = plan_own(t, &r, &owner->sites[kind]);
	if (!err)
		err = txn_plan_tables(t, owner, r.from, r.to, PLAN_SET);
	if (!err && &part_others)
		err = part_others.plan_reads(t, &r);
	return err;
}

int txn_plan_stores(struct txn *t)
{
	struct list *l = &t->data;
	struct word *w = l->word;
	size_t i, n = 0, first;
	int err = 0;

	for (i = 0; i < l->count; i++) {
		w[i].old = word_load(w[i].at);
		w[i].new |= w[i].old & ~w[i].mask;
		if (w[i].old != w[i].new)
			w[n++] = w[i];
	}
	l->count = n;
	for (first = 0; first < n && !err; first = i) {
		for (i = first + 1; i < n && w[i].at == w[i - 1].at + 8; i++)
			;
		err = plan_stores_run(t, first, i);
	}
	return err;
}
