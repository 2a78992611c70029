/* SPDX-License-Identifier: MIT */
/*
 * patch.c: changes of memory and of instructions, as one transaction.
 *
 * Everything is planned first: each store as a word of data, each site as a
 * word of text with the bytes that must be found there. Then the pages are
 * opened (text: W is added, X never dropped), memory is stored, text is stored,
 * membarrier(2) makes every thread of the process pass a serializing
 * instruction, and the pages are closed. What fails before the barrier is taken
 * back while the pages are still open.
 *
 * One site is one instruction inside one aligned 8-byte word, replaced by one
 * aligned store: AMD64 APM vol. 2, 7.6.1 promises that another processor then
 * executes the old or the new one. PRIVATE_EXPEDITED_SYNC_CORE is the barrier
 * that Linux offers for code modified under running threads, membarrier(2).
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "sys.h"

/* linux/membarrier.h, which may be older than the kernel. */
#define MEMBARRIER_QUERY     0
#define MEMBARRIER_SYNC_CORE (1 << 5)
#define MEMBARRIER_REGISTER  (1 << 6)

/* ---- lists of words -------------------------------------------------------- */

/* Where the text list is: there is one at a time, under the lock. At first in
 * text_space; later in the largest mapping of late, which is kept, since a fresh
 * one costs a page fault for every 128 sites. */
static struct word sort_space[LIST_FIXED], text_space[LIST_FIXED];
static struct word *spare;
static size_t spare_capacity;
#define SPARE_MOST ((size_t)64 << 10) /* words kept at most: 2 MiB */

/* flags: MAP_POPULATE where all of it will be used, which costs a fraction of
 * the page faults. */
static struct word *words_map(size_t count, int flags)
{
	long at = sys_call6(SYS_mmap, 0, (long)(count * sizeof(struct word)), PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return at < 0 && at > -4096 ? NULL : (struct word *)at;
}

static void words_unmap(struct word *w, size_t count)
{
	if (w != text_space)
		sys_munmap(w, count * sizeof(*w));
}

/* fixed: its first room, or null. */
static void list_begin(struct list *l, struct word *fixed, size_t capacity)
{
	l->word = l->fixed = fixed;
	l->count = 0;
	l->capacity = capacity;
}

static void list_end(struct list *l)
{
	if (l->word != l->fixed && l->word != spare)
		words_unmap(l->word, l->capacity);
}

static void list_move(struct list *l, struct word *w, size_t capacity, int text)
{
	if (l->count)
		memcpy(w, l->word, l->count * sizeof(*w));
	if (l->word != l->fixed && l->word != spare)
		words_unmap(l->word, l->capacity);
	if (text && w != spare && capacity <= SPARE_MOST) {
		if (spare)
			words_unmap(spare, spare_capacity);
		spare = w;
		spare_capacity = capacity;
	}
	l->word = w;
	l->capacity = capacity;
}

static int list_grow(struct list *l, int text)
{
	size_t capacity = l->capacity * 4;
	struct word *w;

	if (text && !spare) {
		spare = text_space;
		spare_capacity = LIST_FIXED;
	}
	if (text && spare_capacity > l->capacity) {
		w = spare;
		capacity = spare_capacity;
	} else {
		w = words_map(capacity, 0);
		if (!w)
			return ETCH_ENOMEM;
	}
	list_move(l, w, capacity, text);
	return 0;
}

static inline int list_add(struct list *l, struct word w, int text)
{
	if (l->count == l->capacity) {
		int err = list_grow(l, text);

		if (err)
			return err;
	}
	l->word[l->count++] = w;
	return 0;
}

/* First position after i where the order breaks. */
static size_t run_end(const struct word *w, size_t i, size_t n)
{
	for (i++; i < n && w[i - 1].at <= w[i].at; i++)
		;
	return i < n ? i : n;
}

/* The same, but a strictly descending run is turned round first. gcc emits
 * variables last to first, so a batch in the order of the source is one. */
static size_t run_make(struct word *w, size_t i, size_t n)
{
	size_t end = i + 1;

	while (end < n && w[end].at < w[end - 1].at)
		end++;
	for (size_t a = i, b = end - 1; a < b; a++, b--) {
		struct word x = w[a];

		w[a] = w[b];
		w[b] = x;
	}
	return run_end(w, end - 1, n);
}

/*
 * By address; equal ones keep their order. A merge of the runs that are there:
 * tables are sorted, so a list is one run, or a run per field. Under the lock.
 */
static int list_sort(struct list *l)
{
	struct word *temp = sort_space, *from = l->word, *to, *w;
	size_t n = l->count, runs = 0, a, b, c, i, j, k;

	for (i = 0; i < n; runs++)
		i = run_make(from, i, n);
	if (runs <= 1)
		return 0;
	if (n > LIST_FIXED) {
		temp = words_map(n, MAP_POPULATE);
		if (!temp)
			return ETCH_ENOMEM;
	}
	to = temp;
	while (run_end(from, 0, n) < n) {
		for (a = k = 0; a < n; a = c) {
			b = run_end(from, a, n);
			c = b < n ? run_end(from, b, n) : n;
			for (i = a, j = b; i < b || j < c;)
				to[k++] = j >= c || (i < b && from[i].at <= from[j].at) ? from[i++] : from[j++];
		}
		w = from;
		from = to;
		to = w;
	}
	if (from != l->word)
		memcpy(l->word, from, n * sizeof(*from));
	if (temp != sort_space)
		sys_munmap(temp, n * sizeof(*temp));
	return 0;
}

/* ---- transactions: the stores ---------------------------------------------- */

void txn_begin(struct txn *t)
{
	list_begin(&t->data, t->fixed, LIST_FIXED);
	list_begin(&t->text, NULL, 0);
	t->run = t->run_end = 0;
	t->memo.shape = 0;
	t->memo.object = 0;
	t->slot.at = 0;
	t->alone = -1;
	t->lonely = 0;
}

void txn_reserve(struct txn *t, size_t sites)
{
	struct word *w = NULL;

	if (sites > t->text.capacity && sites > spare_capacity)
		w = words_map(sites, MAP_POPULATE);
	if (w)
		list_move(&t->text, w, sites, 1);
}

void txn_end(struct txn *t)
{
	list_end(&t->data);
	list_end(&t->text);
}

static uint64_t byte_mask(unsigned count)
{
	return count >= 8 ? ~(uint64_t)0 : ((uint64_t)1 << (8 * count)) - 1;
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
		err = list_add(&t->data, (struct word){.at = at - skip, .new = bytes << (8 * skip),
		                                       .mask = byte_mask(n) << (8 * skip)}, 0);
		if (err)
			return err;
		at += n;
		from += n;
		size -= n;
	}
	return 0;
}

static uint64_t word_load(uint64_t at)
{
	return __atomic_load_n((const uint64_t *)(uintptr_t)at, __ATOMIC_RELAXED);
}

/* ---- transactions: the sites ------------------------------------------------ */

/* What [at, at+size) holds, and with `after` what it will hold. size <= 8. */
static uint64_t value_at(const struct txn *t, uint64_t at, unsigned size, int after)
{
	uint64_t word[2] = {0, 0}, first = at & ~(uint64_t)7;
	unsigned shift = (at & 7) * 8;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t w = first + 8 * i;

		if (i && (at & 7) + size <= 8)
			break;
		if (after && t->run < t->run_end && w >= t->data.word[t->run].at &&
		    w <= t->data.word[t->run_end - 1].at)
			word[i] = t->data.word[t->run + ((w - t->data.word[t->run].at) >> 3)].new;
		else
			word[i] = word_load(w);
	}
	word[0] >>= shift;
	if (shift)
		word[0] |= word[1] << (64 - shift);
	return word[0] & byte_mask(size);
}

uint64_t txn_value(const struct txn *t, uint64_t slot) { return value_at(t, slot, 8, 1); }

static unsigned immediate_form(const struct etch_imv *e, uint64_t value, uint8_t out[16])
{
	uint8_t bytes[8];

	memcpy(bytes, &value, 8);
	return etch_form_imm(e, bytes, out);
}

static unsigned immediate_image(const struct etch_imv *e, uint64_t value, uint64_t *image)
{
	uint8_t out[16] = {0};
	unsigned n = immediate_form(e, value, out);

	memcpy(image, out, 8);
	return n;
}

/* Are these bytes the immediate form for any value at all? The immediate is the
 * end of the instruction; what it stands for gives back all the other bytes. */
static int immediate_of_some_value(const struct etch_imv *e, const uint8_t *bytes)
{
	struct etch_form_info f = etch_form_info(e->form);
	unsigned len = etch_imv_len(e), imm = f.width == 1 ? 1 : f.width == 2 ? 2 : 4;
	uint64_t tail = 0;
	uint8_t out[16];

	memcpy(&tail, bytes + len - imm, imm);
	if (immediate_form(e, tail, out) == len && !memcmp(out, bytes, len))
		return 1;
	tail = (uint64_t)((int64_t)(tail << (64 - 8 * imm)) >> (64 - 8 * imm));
	return immediate_form(e, tail, out) == len && !memcmp(out, bytes, len);
}

/* Of a live site. */
static uint64_t site_bytes(uint64_t site, unsigned len)
{
	return (word_load(site & ~(uint64_t)7) >> ((site & 7) * 8)) & byte_mask(len);
}

static int same_bytes(const uint8_t *a, const uint8_t *b, unsigned n) { return !memcmp(a, b, n); }

/* The form that reads memory. */
static unsigned load_form(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16])
{
	return etch_form_is_pv(e->form) ? etch_pv_load(e, site, object, out) : etch_form_load(e, site, object, out);
}

static enum site_state call_state(const struct etch_imv *e, uint64_t site, uint64_t object, const uint8_t *bytes)
{
	struct target now = {.at = value_at(NULL, object, 8, 0)};
	unsigned len = etch_imv_len(e), count;
	uint8_t out[16];

	if (etch_pv_image(e, site, now.at, NULL, out, &count) == len && same_bytes(out, bytes, len))
		return SITE_IMMEDIATE;
	pv_target(&now, 0);
	if (now.known && etch_pv_image(e, site, now.at, &now.body, out, &count) == len && same_bytes(out, bytes, len))
		return SITE_INLINE;
	if (pv_some_body(e, site, bytes))
		return now.known || !pv_unsure(now.at) ? SITE_STALE : SITE_INLINE;
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
	if (immediate_form(e, value_at(NULL, object, etch_form_size(e->form), 0), out) == len &&
	    same_bytes(out, bytes, len))
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

static void memo_fill(struct txn *t, const struct etch_imv *e, uint64_t object, uint32_t shape)
{
	struct memo *k = &t->memo;
	unsigned size = etch_form_size(e->form);
	uint64_t old = value_at(t, object, size, 0), new = value_at(t, object, size, 1);

	k->object = object;
	k->shape = shape;
	k->old_length = immediate_image(e, old, &k->old);
	if (new == old) {
		k->new_length = k->old_length;
		k->new = k->old;
	} else {
		k->new_length = immediate_image(e, new, &k->new);
	}
}

int txn_bytes(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want)
{
	int err = 0;

	while (len && !err) {
		unsigned skip = site & 7, n = 8 - skip < len ? 8 - skip : len;
		uint64_t old = 0, new = 0;

		memcpy(&old, have, n);
		memcpy(&new, want, n);
		err = list_add(&t->text, (struct word){.at = site - skip, .old = old << (8 * skip),
		                                       .new = new << (8 * skip), .mask = byte_mask(n) << (8 * skip)}, 1);
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

/* A load of a sealed object that is not live. */
static int plan_wide(struct txn *t, const struct etch_imv *e, uint64_t object, enum plan plan)
{
	unsigned len = etch_imv_len(e), size = etch_form_size(e->form);
	uint64_t site = site_address(e);
	uint8_t have[16], load[16], old[16], new[16];
	const uint8_t *want = new;
	int is_load;

	memcpy(have, (const void *)(uintptr_t)site, len);
	if (etch_form_load(e, site, object, load) != len)
		return ETCH_EFORMAT;
	is_load = same_bytes(have, load, len);
	if (!is_load && (immediate_form(e, value_at(t, object, size, 0), old) != len || !same_bytes(have, old, len))) {
		if (have[0] == 0xcc)
			return ETCH_EBUSY;
		if (plan == PLAN_SET || !immediate_of_some_value(e, have))
			return ETCH_ECODE;
	}
	if (plan == PLAN_LOAD || immediate_form(e, value_at(t, object, size, 1), new) != len)
		want = load;
	if (same_bytes(have, want, len))
		return 0;
	if (!txn_alone(t))
		return is_load ? 0 : ETCH_ETHREADS;
	t->lonely = 1;
	return txn_bytes(t, site, len, have, want);
}

static void slot_fill(struct txn *t, uint64_t at)
{
	struct slot *k = &t->slot;

	k->at = at;
	k->old = (struct target){.at = value_at(t, at, 8, 0)};
	k->new = (struct target){.at = value_at(t, at, 8, 1)};
	pv_target(&k->new, 1);
	if (k->new.at == k->old.at)
		k->old = k->new;
	else
		pv_target(&k->old, 0);
}

/* What stands at a site for a target, in at most so many instructions. */
static unsigned call_image(const struct etch_imv *e, uint64_t site, const struct target *to, unsigned most,
                           uint8_t out[16], unsigned *count)
{
	unsigned n = etch_pv_image(e, site, to->at, to->known ? &to->body : NULL, out, count);

	return n && *count > most ? etch_pv_image(e, site, to->at, NULL, out, count) : n;
}

/* Are these bytes, which are neither the indirect form nor what this transaction
 * would have put there for the old value, ours all the same? A direct call, where the
 * function's body was not known then, or is not wanted; the body of a function whose
 * code is gone, or has a breakpoint now. */
static int call_expected(const struct etch_imv *e, uint64_t site, uint64_t old, const uint8_t *have,
                         enum plan plan, unsigned *count)
{
	unsigned len = etch_imv_len(e);
	uint8_t out[16];

	if (have[0] == 0xcc)
		return ETCH_EBUSY;
	if (etch_pv_image(e, site, old, NULL, out, count) == len && same_bytes(have, out, len))
		return 0;
	*count = pv_some_body(e, site, have);
	if (*count)
		return 0;
	*count = 1;
	return plan != PLAN_SET && pv_some_direct(e, have) ? 0 : ETCH_ECODE;
}

/*
 * A call or a tail jump. While other threads run, one instruction replaces one: where
 * a body has more, a direct call stands, and where a sealed site has more now, it
 * cannot be changed.
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
		if (etch_pv_load(e, site, at, load) != len)
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
	if (n == len && (!live || was > 1 || count > 1) && !txn_alone(t)) {
		if (!live && is_load)
			return 0; /* as good as any */
		if (live && count > 1)
			n = call_image(e, site, &t->slot.new, 1, image, &count);
	}
	if (n != len) {
		count = 1;
		want = load;
		if (etch_pv_load(e, site, at, load) != len)
			return ETCH_EFORMAT;
	}
	if (same_bytes(have, want, len))
		return 0;
	if (!live || was > 1 || count > 1) {
		if (!txn_alone(t))
			return ETCH_ETHREADS;
		t->lonely = 1;
	}
	return txn_bytes(t, site, len, have, want);
}

/* A load that is live. */
static int plan_load(struct txn *t, const struct etch_imv *e, uint64_t object, enum plan plan)
{
	uint64_t site = site_address(e), bytes, want, load = 0;
	unsigned len = etch_imv_len(e), shift = (site & 7) * 8, have_load = 0;
	uint32_t shape;
	uint8_t out[16] = {0};

	memcpy(&shape, &e->form, sizeof(shape));
	shape &= 0x00ffffff; /* without the flags */
	if (shape != t->memo.shape || object != t->memo.object)
		memo_fill(t, e, object, shape);

	bytes = site_bytes(site, len);
	if (bytes != t->memo.old || t->memo.old_length != len || plan == PLAN_LOAD || t->memo.new_length != len) {
		have_load = 1;
		if (etch_form_load(e, site, object, out) != len)
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
	return list_add(&t->text, (struct word){.at = site & ~(uint64_t)7, .old = bytes << shift,
	                                        .new = want << shift, .mask = byte_mask(len) << shift}, 1);
}

int txn_plan_site(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan)
{
	int sealed = !!(o->flags & OBJECT_SEALED), live = etch_site_is_live(site_address(e), etch_imv_len(e));

	if (!live && !sealed)
		return 0; /* a load for good */
	if (etch_form_is_pv(e->form))
		return plan_call(t, e, at, sealed, plan);
	return live ? plan_load(t, e, at, plan) : plan_wide(t, e, at, plan);
}

/* May this site, which starts in object o of module m, be armed? Not when it
 * reads into the next object, whose stores are another's. */
static int site_fits(const struct module *m, const struct object *o, uint64_t at, unsigned size)
{
	return o + 1 == m->object + m->object_count || at + size <= o[1].addr;
}

/* A walk over the sites that read from `at` on, of one module. */
struct walk {
	const struct module *m;
	const struct etch_imv *entry; /* of a linked table; null: by pair */
	const struct pair *pair;
	size_t at, end;
};

static size_t pair_from(const struct pair *p, size_t n, uint64_t key)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p[mid].key < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* kind: SITES_*. at: where to begin, at or before `from`; null if that is not known. */
static struct walk walk_own(const struct module *m, int kind, uint64_t from, const size_t *at)
{
	const struct sites *s = &m->sites[kind];
	struct walk w = {.m = m, .entry = m->linked ? s->entry : NULL, .pair = s->own, .end = s->own_count};

	if (at) {
		w.at = *at;
	} else if (!w.entry) {
		w.at = pair_from(s->own, s->own_count, from);
	} else {
		size_t low = 0, high = s->own_count;

		while (low < high) {
			size_t mid = low + (high - low) / 2;

			if (site_object(&s->entry[mid]) < from)
				low = mid + 1;
			else
				high = mid;
		}
		w.at = low;
	}
	return w;
}

static struct walk walk_far(const struct module *m, uint64_t from)
{
	return (struct walk){.m = m, .pair = m->far, .end = m->far_count,
	                     .at = pair_from(m->far, m->far_count, from)};
}

/* The next site and the first byte that it reads; null at the end. */
static inline const struct etch_imv *walk_next(struct walk *w, uint64_t *object)
{
	const struct etch_imv *e;

	for (; w->at < w->end; w->at++) {
		if (w->entry) {
			e = &w->entry[w->at++];
			*object = site_object(e);
			return e;
		}
		if (w->pair[w->at].value & PAIR_FACT)
			continue;
		e = pair_site(w->m, w->pair[w->at].value);
		*object = w->pair[w->at++].key;
		return e;
	}
	return NULL;
}

/* The sites of one walk that read any byte of [from, to), where their object is armed. */
static int plan_stores_walk(struct txn *t, const struct module *owner, struct walk w, uint64_t from, uint64_t to)
{
	const struct object *o = NULL;
	const struct etch_imv *e;
	uint64_t at;
	int err;

	while ((e = walk_next(&w, &at)) && at < to) {
		unsigned size = site_size(e);

		if (at + size <= from)
			continue;
		if (!o || at < o->addr || at - o->addr >= o->size) {
			o = module_object(owner, at);
			if (!o)
				continue;
		}
		if (!(o->flags & OBJECT_ARMED) || !site_fits(owner, o, at, size))
			continue;
		err = txn_plan_site(t, e, at, o, PLAN_SET);
		if (err)
			return err;
	}
	return 0;
}

/* The cells [first, end) lie one after another. */
static int plan_stores_run(struct txn *t, size_t first, size_t end)
{
	uint64_t from = t->data.word[first].at, to = t->data.word[end - 1].at + 8;
	struct module *owner = module_at(from), *m;
	int err;

	if (!owner || !owner->object_count)
		return 0;
	t->run = first;
	t->run_end = end;
	t->memo.shape = 0; /* its images were for other values */
	t->slot.at = 0;
	err = module_check(owner);
	/* No form reads more than 8 bytes. */
	for (int kind = 0; kind < SITES_KINDS && !err; kind++)
		err = plan_stores_walk(t, owner, walk_own(owner, kind, from - 7, NULL), from, to);
	if (!err)
		err = txn_plan_inlines(t, owner, from, to, PLAN_SET);
	for (m = module_list; m && !err; m = m->next)
		if (m->far_count)
			err = plan_stores_walk(t, owner, walk_far(m, from - 7), from, to);
	return err;
}

int txn_plan_stores(struct txn *t)
{
	struct list *l = &t->data;
	struct word *w = l->word;
	size_t i, n = 0, first;
	int err = list_sort(l);

	if (err)
		return err;
	for (i = 0; i < l->count; i++) {
		if (n && w[n - 1].at == w[i].at) { /* the later one wins */
			w[n - 1].new = (w[n - 1].new & ~w[i].mask) | w[i].new;
			w[n - 1].mask |= w[i].mask;
		} else {
			w[n++] = w[i];
		}
	}
	l->count = n;
	for (i = n = 0; i < l->count; i++) {
		w[i].old = word_load(w[i].at);
		w[i].new |= w[i].old & ~w[i].mask;
		if (w[i].old != w[i].new)
			w[n++] = w[i];
	}
	l->count = n;
	for (first = 0; first < n; first = i) {
		for (i = first + 1; i < n && w[i].at == w[i - 1].at + 8; i++)
			;
		err = plan_stores_run(t, first, i);
		if (err)
			return err;
	}
	return 0;
}

/* The sites of one walk that start in the object. */
static int plan_object_walk(struct txn *t, const struct module *owner, const struct object *o, struct walk *w,
                            enum plan plan)
{
	const struct etch_imv *e;
	uint64_t at;
	int err;

	while ((e = walk_next(w, &at))) {
		if (at < o->addr)
			continue;
		if (at - o->addr >= o->size) {
			w->at--;
			break;
		}
		if (!site_fits(owner, o, at, site_size(e)))
			continue;
		err = txn_plan_site(t, e, at, o, plan);
		if (err)
			return err;
	}
	return 0;
}

int txn_plan_object(struct txn *t, const struct object *o, enum plan plan, size_t own[SITES_KINDS])
{
	struct module *owner = module_at(o->addr), *m;
	struct walk w;
	int err;

	t->run = t->run_end = 0;
	err = module_check(owner);
	if (err)
		return err;
	for (int kind = 0; kind < SITES_KINDS && !err; kind++) {
		w = walk_own(owner, kind, o->addr, own ? &own[kind] : NULL);
		err = plan_object_walk(t, owner, o, &w, plan);
		if (own)
			own[kind] = w.at;
	}
	if (!err)
		err = txn_plan_inlines(t, owner, o->addr, o->addr + o->size, plan);
	for (m = module_list; m && !err; m = m->next)
		if (m->far_count) {
			w = walk_far(m, o->addr);
			err = plan_object_walk(t, owner, o, &w, plan);
		}
	return err;
}

/* ---- protection -------------------------------------------------------------- */

int errno_to_etch(long negative)
{
	return negative == -ENOMEM ? ETCH_ENOMEM : ETCH_EPERM;
}

/*
 * Opens (W added) or closes the pages of a sorted list, one mprotect(2) a run of
 * adjacent pages. Of data: the pages that are read-only outside a set. What a
 * page is closed to follows from its segment, so that text gets back exactly
 * what it had. Stops after `limit` runs or at the first failure, says how many
 * runs it did, and returns 0 or a negative errno.
 */
static long runs_protect(const struct list *l, int text, int open, size_t limit, size_t *done)
{
	const struct segment *s = NULL;
	struct module *m = NULL;
	uint64_t start = 0, end = 0; /* the run so far; none if equal */
	int prot = 0, run_prot = 0;
	size_t i, runs = 0;
	long ret;

	for (i = 0; i <= l->count; i++) {
		uint64_t at = i < l->count ? l->word[i].at : 0, page = PAGE_OF(at);

		if (i < l->count) {
			if (start != end && at >= start && at < end)
				continue;
			if (!s || at < s->start || at >= s->end) {
				m = module_at(at);
				s = m ? image_segment(&m->image, at, 1) : NULL;
				prot = s ? s->prot : PROT_READ | PROT_WRITE;
			}
			/* A variable copied into a program that is no module of ours, or
			 * a page that anyone may write to. */
			if (text ? prot & PROT_WRITE : !m || !module_page_readonly(m, at))
				continue;
			if (start != end && page == end && prot == run_prot) {
				end += ETCH_PAGE;
				continue;
			}
		}
		if (start != end) {
			if (runs == limit)
				break;
			ret = sys_mprotect(start, end - start,
			                   open ? run_prot | PROT_WRITE : text ? run_prot : run_prot & ~PROT_WRITE);
			if (ret < 0) {
				*done = runs;
				return ret;
			}
			runs++;
		}
		start = page;
		end = page + ETCH_PAGE;
		run_prot = prot;
	}
	*done = runs;
	return 0;
}

static int pages_open(const struct list *l, int text)
{
	size_t done, ignored;
	long ret = runs_protect(l, text, 1, SIZE_MAX, &done);

	if (!ret)
		return 0;
	/* With the one that failed: mprotect(2) may have changed a part of it. */
	runs_protect(l, text, 0, done + 1, &ignored);
	return errno_to_etch(ret);
}

/*
 * Closing asks for less than is there, which no policy refuses. Out of mappings
 * it can fail when the open page was merged with a neighbour and the kernel has
 * no room left to split them: the change is whole by then and stands, and the
 * next set on the page closes it.
 */
static void pages_close(const struct list *l, int text)
{
	size_t done;

	if (runs_protect(l, text, 0, SIZE_MAX, &done))
		runs_protect(l, text, 0, SIZE_MAX, &done);
}

/* ---- synchronization ----------------------------------------------------------- */

/* glibc 2.32 and later: true while no second thread was ever made. */
extern char __libc_single_threaded __attribute__((weak));

int sync_alone(void)
{
	struct stat st;

	/* Links of the task directory: two, and one for each thread. */
	if (sys_call3(SYS_stat, (long)"/proc/self/task", (long)&st, 0) == 0)
		return st.st_nlink == 3;
	return &__libc_single_threaded && __libc_single_threaded;
}

static int sync_registered;

/* The registration is the address space's: fork keeps it, execve clears it
 * together with this variable. */
static int sync_register(void)
{
	if (!sync_registered)
		sync_registered = sys_membarrier(MEMBARRIER_REGISTER) == 0;
	return sync_registered;
}

int sync_available(void)
{
	long commands;

	if (!sync_register())
		return 0;
	commands = sys_membarrier(MEMBARRIER_QUERY);
	return commands >= 0 && (commands & MEMBARRIER_SYNC_CORE);
}

static int sync_cores(void)
{
	if (sys_membarrier(MEMBARRIER_SYNC_CORE) == 0)
		return 0;
	/* A checkpoint restored without the registration, say. */
	sync_registered = 0;
	if (sync_register() && sys_membarrier(MEMBARRIER_SYNC_CORE) == 0)
		return 0;
	return ETCH_ENOSYNC;
}

static void serialize_self(void)
{
	uint32_t a = 0, b, c = 0, d;

	__asm__ __volatile__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
}

/*
 * valgrind keeps translations of code that comes from a file, and has to be told
 * when it changes: its client request DISCARD_TRANSLATIONS. Elsewhere the four
 * rotations, by 128 bits in all, and the exchange are a slow no-op.
 */
static void tell_valgrind(uint64_t from, uint64_t to)
{
	uint64_t request[6] = {0x1002, from, to - from, 0, 0, 0}, result = 0;

	__asm__ __volatile__("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
	                     "xchgq %%rbx, %%rbx"
	                     : "+d"(result) : "a"(request) : "cc", "memory");
}

/* ---- transactions: the change --------------------------------------------------- */

typedef uint16_t __attribute__((aligned(1), may_alias)) u16_any;
typedef uint32_t __attribute__((aligned(1), may_alias)) u32_any;

/* Stores `count` bytes of a word: each field of 1, 2, 4 or 8 bytes by one store. */
static void bytes_store(uint64_t at, uint64_t bytes, unsigned count)
{
	while (count) {
		unsigned n = count >= 8 ? 8 : count >= 4 ? 4 : count >= 2 ? 2 : 1;

		/* An odd rest: keep each piece aligned. */
		if (n != count)
			while (at & (n - 1))
				n >>= 1;
		if (n == 8)
			__atomic_store_n((uint64_t *)(uintptr_t)at, bytes, __ATOMIC_RELAXED);
		else if (n == 4)
			*(volatile u32_any *)(uintptr_t)at = (uint32_t)bytes;
		else if (n == 2)
			*(volatile u16_any *)(uintptr_t)at = (uint16_t)bytes;
		else
			*(volatile uint8_t *)(uintptr_t)at = (uint8_t)bytes;
		at += n;
		count -= n;
		bytes = n < 8 ? bytes >> (8 * n) : 0;
	}
}

/*
 * On a page that only sets may write to, the whole word by one store: a site
 * that reads two fields sees both or neither. Elsewhere no byte but those of
 * the change: the program may be storing to its neighbours.
 */
static void data_store(const struct word *w, uint64_t value)
{
	const struct module *m = module_at(w->at);
	unsigned i, n;

	if (m && module_page_readonly(m, w->at)) {
		__atomic_store_n((uint64_t *)(uintptr_t)w->at, value, __ATOMIC_RELAXED);
		return;
	}
	for (i = 0; i < 8; i += n) {
		for (n = 0; i + n < 8 && (w->mask >> (8 * (i + n)) & 0xff); n++)
			;
		if (n)
			bytes_store(w->at + i, value >> (8 * i), n);
		else
			n = 1;
	}
}

/* One site. Its neighbours in the word are taken from memory now: a debugger may
 * have put a breakpoint there since the plan was made. */
static int text_store(const struct word *w, uint64_t from, uint64_t to)
{
	uint64_t now = word_load(w->at);

	if ((now ^ from) & w->mask)
		return ETCH_EBUSY;
	__atomic_store_n((uint64_t *)(uintptr_t)w->at, (now & ~w->mask) | (to & w->mask), __ATOMIC_RELAXED);
	return 0;
}

int txn_commit(struct txn *t)
{
	size_t i, stored = 0;
	int err, alone = 0;

	if (!t->data.count && !t->text.count)
		return 0;
	if (t->text.count) {
		err = list_sort(&t->text);
		if (err)
			return err;
		if (!sync_available()) {
			if (!sync_alone())
				return ETCH_ENOSYNC;
			alone = 1;
		}
	}
	err = pages_open(&t->data, 0);
	if (err)
		return err;
	err = pages_open(&t->text, 1);
	if (err) {
		pages_close(&t->data, 0);
		return err;
	}

	for (i = 0; i < t->data.count; i++)
		data_store(&t->data.word[i], t->data.word[i].new);
	/* x86-64 keeps stores in order; the compiler is told to. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	for (; stored < t->text.count && !err; stored++) {
		const struct word *w = &t->text.word[stored];

		/* Two entries for one instruction want the same. */
		if (stored && w[-1].at == w->at && w[-1].mask == w->mask && w[-1].new == w->new)
			continue;
		err = text_store(w, w->old, w->new);
		if (err)
			break;
	}
	if (t->text.count)
		tell_valgrind(t->text.word[0].at, t->text.word[t->text.count - 1].at + 8);
	if (t->text.count && !err) {
		if (alone || t->lonely)
			serialize_self();
		if (!alone)
			err = sync_cores();
	}

	if (err) {
		while (stored--) {
			const struct word *w = &t->text.word[stored];

			text_store(w, w->new, w->old);
		}
		for (i = t->data.count; i--;)
			data_store(&t->data.word[i], t->data.word[i].old);
		if (t->text.count)
			tell_valgrind(t->text.word[0].at, t->text.word[t->text.count - 1].at + 8);
		sync_cores();
	}
	pages_close(&t->text, 1);
	pages_close(&t->data, 0);
	return err;
}
