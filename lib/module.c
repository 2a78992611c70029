/* SPDX-License-Identifier: MIT */
/*
 * module.c: what is loaded: the program and its shared objects, their tables,
 * and which of their objects are armed.
 *
 * A module that has been through the link step is taken as it is: its __imv is
 * searched in place, its armed objects are armed. For another one the index is
 * built here, facts are folded, and what has none is armed, before threads can
 * be in its code. Both kinds may refer to objects of other modules through the
 * GOT, and let facts be known about them; load order does not matter.
 *
 * Nothing here calls the dynamic linker under the lock: a thread in dlopen(3)
 * holds the linker's lock and waits for ours in the constructor.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>

#include "internal.h"
#include "sys.h"

struct module *module_list;
unsigned long module_patched;

/* Blocks of modules that were unloaded. Never unmapped: the fault handler may
 * be reading one (trap.c). */
static struct module *module_free;

static uint64_t program_dynamic, program_bias, program_start;

/* ---- the lock ---------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Forks and loaders that wait. Threads that set without a pause would otherwise
 * take the mutex again and again before a waiter has woken up: a dlopen(3) was
 * seen to take a second. */
static uint32_t urgent;

void etch_lock(void)
{
	uint32_t n;

	while ((n = __atomic_load_n(&urgent, __ATOMIC_RELAXED)))
		sys_call6(SYS_futex, (long)&urgent, FUTEX_WAIT_PRIVATE, (long)n, 0, 0, 0);
	pthread_mutex_lock(&mutex);
}

static void lock_first(void)
{
	__atomic_add_fetch(&urgent, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&mutex);
	if (!__atomic_sub_fetch(&urgent, 1, __ATOMIC_RELAXED))
		sys_call3(SYS_futex, (long)&urgent, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

void etch_unlock(void) { pthread_mutex_unlock(&mutex); }

/* A fork meets no set half done; the child starts with a lock of its own. */
static void fork_child(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	memcpy(&mutex, &fresh, sizeof(mutex));
	urgent = 0;
}

static void fork_register(void) { pthread_atfork(lock_first, etch_unlock, fork_child); }

/* ---- looking up ----------------------------------------------------------------- */

struct module *module_at(uint64_t at)
{
	for (struct module *m = module_list; m; m = m->next)
		if (at >= m->image.start && at < m->image.end && image_segment(&m->image, at, 1))
			return m;
	return NULL;
}

size_t module_object_from(const struct module *m, uint64_t at)
{
	size_t low = 0, high = m->object_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (m->object[mid].addr + m->object[mid].size <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct object *module_object(const struct module *m, uint64_t at)
{
	size_t i = module_object_from(m, at);

	return i < m->object_count && m->object[i].addr <= at ? &m->object[i] : NULL;
}

/* The module and the object that hold this address, of all that are no wreck. */
static struct object *object_anywhere(uint64_t at, struct module **owner)
{
	struct module *m = module_at(at);

	*owner = m;
	return m && !m->bad ? module_object(m, at) : NULL;
}

/* Null where copy.c is not linked in. It has its pages to itself. */
extern const char copy_ops[] __asm__("etch_copy_ops") __attribute__((weak, visibility("hidden")));
__asm__(".weak etch_copy_ops\n\t.hidden etch_copy_ops");

int module_own_table(uint64_t at) { return copy_ops && PAGE_OF(at) == (uint64_t)(uintptr_t)copy_ops; }

/* ---- protection of data ------------------------------------------------------------ */

int module_page_readonly(const struct module *m, uint64_t at)
{
	uint64_t i;

	if (at < m->page)
		return 0;
	i = (at - m->page) / ETCH_PAGE;
	return i < m->pages && (m->readonly[i / 8] >> (i % 8) & 1);
}

/* Does all of this page belong to etched sections? Their bounds say so; without
 * bounds (a linker script of its own) the padding of etch/imv.h promises it. */
static int page_is_ours(const struct module *m, uint64_t page)
{
	uint64_t have = 0;

	if (m->etched[0].start == m->etched[0].stop && m->etched[1].start == m->etched[1].stop)
		return 1;
	for (int i = 0; i < 2; i++) {
		uint64_t from = m->etched[i].start, to = m->etched[i].stop;

		if (from < page)
			from = page;
		if (to > page + ETCH_PAGE)
			to = page + ETCH_PAGE;
		if (from < to)
			have += to - from;
	}
	return have == ETCH_PAGE;
}

/* Read-only if and only if every object on it is armed. */
static int page_wanted_readonly(const struct module *m, uint64_t page)
{
	size_t i = module_object_from(m, page), some = 0;

	for (; i < m->object_count && m->object[i].addr < page + ETCH_PAGE; i++) {
		if (!(m->object[i].flags & OBJECT_ARMED))
			return 0;
		some = 1;
	}
	return some && page_is_ours(m, page);
}

int module_protect(struct module *m, uint64_t from, uint64_t to)
{
	uint64_t page, end, next;
	int err = 0;

	for (page = PAGE_OF(from); page < to; page = end) {
		int want = page_wanted_readonly(m, page), have = module_page_readonly(m, page);
		const struct segment *s = image_segment(&m->image, page < from ? from : page, 1);
		long ret;

		end = page + ETCH_PAGE;
		if (want == have || !s)
			continue;
		for (; end < to && end < s->end; end += ETCH_PAGE)
			if (page_wanted_readonly(m, end) != want || module_page_readonly(m, end) != have)
				break;
		/* A program that marks no object of its own keeps SIGSEGV to itself. */
		if (want && !(module_own_table(page) && end - page == ETCH_PAGE))
			trap_install();
		ret = sys_mprotect(page, end - page, want ? s->prot & ~PROT_WRITE : s->prot);
		if (ret < 0) {
			err = errno_to_etch(ret);
			continue;
		}
		for (next = page; next < end; next += ETCH_PAGE) {
			uint64_t i = (next - m->page) / ETCH_PAGE;

			m->readonly[i / 8] = (uint8_t)((m->readonly[i / 8] & ~(1u << (i % 8))) |
			                               (unsigned)want << (i % 8));
		}
	}
	return err;
}

static int natives_ok(const struct module *m)
{
	for (size_t i = 0; i < m->native_count; i++)
		if (!table_native_ok(m, &m->native[i]))
			return 0;
	return 1;
}

int module_check(struct module *m)
{
	if (m->bad)
		return ETCH_EFORMAT;
	if (m->checked)
		return 0;
	m->checked = 1;
	if (table_linked_ok(m) && natives_ok(m) && inlines_ok(m))
		return 0;
	m->bad = 1;
	for (size_t i = 0; i < m->object_count; i++)
		m->object[i].flags &= ~OBJECT_ARMED;
	if (m->pages)
		module_protect(m, m->page, m->page + m->pages * ETCH_PAGE);
	return ETCH_EFORMAT;
}

/* ---- R_X86_64_COPY ------------------------------------------------------------------- */

/* The dynamic linker has added the bias to most d_ptr, in place; a static PIE's
 * start-up code, and a musl, have not. */
static uint64_t dynamic_pointer(uint64_t value, uint64_t bias, uint64_t start)
{
	return value < start ? value + bias : value;
}

struct dynamic {
	uint64_t rela, rela_size, symtab, strtab, strsize, gnu_hash, hash;
};

static void dynamic_read(struct dynamic *d, uint64_t at, uint64_t bias, uint64_t start)
{
	memset(d, 0, sizeof(*d));
	for (const ElfW(Dyn) *p = (const ElfW(Dyn) *)(uintptr_t)at; p && p->d_tag != DT_NULL; p++) {
		uint64_t v = dynamic_pointer(p->d_un.d_ptr, bias, start);

		switch (p->d_tag) {
		case DT_RELA: d->rela = v; break;
		case DT_RELASZ: d->rela_size = p->d_un.d_val; break;
		case DT_SYMTAB: d->symtab = v; break;
		case DT_STRTAB: d->strtab = v; break;
		case DT_STRSZ: d->strsize = p->d_un.d_val; break;
		case DT_GNU_HASH: d->gnu_hash = v; break;
		case DT_HASH: d->hash = v; break;
		}
	}
}

/* Number of dynamic symbols: nowhere written, but both hash tables imply it. */
static uint64_t dynamic_symbols(const struct dynamic *d)
{
	const uint32_t *h;
	const uint32_t *bucket, *chain;
	uint32_t last = 0;

	if (d->hash)
		return ((const uint32_t *)(uintptr_t)d->hash)[1];
	if (!d->gnu_hash)
		return 0;
	h = (const uint32_t *)(uintptr_t)d->gnu_hash; /* nbuckets, symoffset, bloom_size, shift */
	bucket = h + 4 + (size_t)h[2] * 2;
	chain = bucket + h[0];
	for (uint32_t i = 0; i < h[0]; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < h[1])
		return h[1];
	while (!(chain[last - h[1]] & 1))
		last++;
	return (uint64_t)last + 1;
}

static int in_etched(const struct module *m, uint64_t at)
{
	if (!m->bad && module_object(m, at))
		return 1;
	for (int i = 0; i < 2; i++)
		if (at >= m->etched[i].start && at < m->etched[i].stop)
			return 1;
	return 0;
}

static int module_defines(const struct module *m, const char *name)
{
	struct dynamic d;
	const ElfW(Sym) *s;

	if (!m->image.dynamic)
		return 0;
	dynamic_read(&d, m->image.dynamic, m->image.bias, m->image.start);
	s = (const ElfW(Sym) *)(uintptr_t)d.symtab;
	for (uint64_t i = 1, n = dynamic_symbols(&d); s && d.strtab && i < n; i++)
		if (s[i].st_shndx != SHN_UNDEF && s[i].st_name < d.strsize &&
		    in_etched(m, m->image.bias + s[i].st_value) &&
		    !strcmp((const char *)(uintptr_t)d.strtab + s[i].st_name, name))
			return 1;
	return 0;
}

int module_copied(uint64_t at, uint64_t size)
{
	struct dynamic d;
	const ElfW(Rela) *r;

	dynamic_read(&d, program_dynamic, program_bias, program_start);
	r = (const ElfW(Rela) *)(uintptr_t)d.rela;
	for (uint64_t i = 0; r && d.symtab && d.strtab && i < d.rela_size / sizeof(*r); i++) {
		const ElfW(Sym) *s;
		uint64_t to = program_bias + r[i].r_offset;

		if (ELF64_R_TYPE(r[i].r_info) != R_X86_64_COPY)
			continue;
		s = (const ElfW(Sym) *)(uintptr_t)d.symtab + ELF64_R_SYM(r[i].r_info);
		if (at < to || at - to >= s->st_size || s->st_name >= d.strsize)
			continue;
		for (struct module *m = module_list; m; m = m->next)
			if (!m->image.program &&
			    module_defines(m, (const char *)(uintptr_t)d.strtab + s->st_name))
				return size <= s->st_size - (at - to) ? 1 : -1;
	}
	return 0;
}

/* ---- building the indexes --------------------------------------------------------------- */

/* Stable, by key: a radix sort of the bytes in which keys differ. Table order is
 * mostly text order, and stays so among equals. temp: room for n more. */
static void pairs_sort(struct pair *p, size_t n, struct pair *temp)
{
	uint64_t any = 0, first = n ? p[0].key : 0;
	struct pair *from = p, *to = temp, *swap;
	int sorted = 1, falling = 1;

	for (size_t i = 1; i < n; i++) {
		any |= p[i].key ^ first;
		sorted &= p[i - 1].key <= p[i].key;
		falling &= p[i - 1].key > p[i].key;
	}
	/* gcc emits variables last to first. */
	for (size_t i = 0; falling && i < n / 2; i++) {
		struct pair x = p[i];

		p[i] = p[n - 1 - i];
		p[n - 1 - i] = x;
	}
	sorted |= falling;
	for (unsigned shift = 0; !sorted && shift < 64; shift += 8) {
		size_t count[256] = {0}, at = 0;

		if (!(any >> shift & 0xff))
			continue;
		for (size_t i = 0; i < n; i++)
			count[from[i].key >> shift & 0xff]++;
		for (unsigned i = 0; i < 256; i++) {
			size_t c = count[i];

			count[i] = at;
			at += c;
		}
		for (size_t i = 0; i < n; i++)
			to[count[from[i].key >> shift & 0xff]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	if (from != p)
		memcpy(p, from, n * sizeof(*p));
}

static size_t round16(size_t n) { return (n + 15) & ~(size_t)15; }

static void *pages_map(size_t bytes, int flags)
{
	long at = sys_call6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return at < 0 && at > -4096 ? NULL : (void *)at;
}

/* A zeroed block: one that was given back, or a new mapping. */
static struct module *block_new(size_t bytes)
{
	struct module **p, *m;
	size_t capacity = PAGE_UP(bytes);

	for (p = &module_free; (m = *p); p = &m->next)
		if (m->capacity >= bytes && m->capacity / 4 <= capacity) {
			*p = m->next;
			capacity = m->capacity;
			memset(m, 0, bytes);
			m->capacity = capacity;
			return m;
		}
	/* Of many pages nearly all will be used; of few it saves nothing. */
	m = pages_map(capacity, capacity > 4 * ETCH_PAGE ? MAP_POPULATE : 0);
	if (m)
		m->capacity = capacity;
	return m;
}

struct counts {
	size_t own[SITES_KINDS], got, objects, facts;
	int rising, falling; /* the objects' addresses, in table order */
};

static int objects_count(const struct module *m, struct counts *c)
{
	uint64_t before = 0, at;

	for (size_t i = 0; i < m->obj_count; i++) {
		const struct etch_obj *r = &m->obj[i];

		if (!table_object_ok(m, r))
			return 0;
		if (r->kind == ETCH_OBJ_OBJECT) {
			at = record_object(r);
			if (c->objects++) {
				c->rising &= before <= at;
				c->falling &= before >= at;
			}
			before = at;
		} else if (r->kind != ETCH_OBJ_NONE) {
			c->facts++;
		}
	}
	return 1;
}

/* A linked table is not walked, so that start-up costs nothing for it: where the
 * direct entries and those through the GOT end is searched for, and the whole is
 * looked at before its first use (module_check). */
static int linked_count(const struct module *m, int kind, struct counts *c)
{
	const struct sites *s = &m->sites[kind];
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->entry[mid].form != ETCH_FORM_NONE && !(s->entry[mid].flags & ETCH_IMV_GOT))
			low = mid + 1;
		else
			high = mid;
	}
	c->own[kind] = low;
	for (; low < s->count && s->entry[low].form != ETCH_FORM_NONE; low++, c->got++)
		if (!(s->entry[low].flags & ETCH_IMV_GOT) || !table_site_ok(m, &s->entry[low], kind == SITES_CALL))
			return 0;
	return 1;
}

static int sites_count(const struct module *m, int kind, struct counts *c)
{
	const struct sites *s = &m->sites[kind];

	for (size_t i = 0; i < s->count; i++) {
		const struct etch_imv *e = &s->entry[i];

		if (!table_site_ok(m, e, kind == SITES_CALL) || (e->flags & ETCH_IMV_BAKED))
			return 0;
		if (e->form == ETCH_FORM_NONE)
			continue;
		if (e->flags & ETCH_IMV_GOT)
			c->got++;
		else
			c->own[kind]++;
	}
	return 1;
}

/* Checks and counts. */
static int tables_count(struct module *m, struct counts *c)
{
	*c = (struct counts){.rising = 1, .falling = 1};
	if (!objects_count(m, c))
		return 0;
	if (m->linked)
		return linked_count(m, SITES_LOAD, c) && linked_count(m, SITES_CALL, c);
	m->checked = 1;
	return sites_count(m, SITES_LOAD, c) && sites_count(m, SITES_CALL, c) && natives_ok(m) && inlines_ok(m);
}

/* Objects come in ascending order; records of one (from several files) become one. */
static void object_add(struct module *m, const struct etch_obj *r)
{
	struct object *last = m->object_count ? &m->object[m->object_count - 1] : NULL;
	uint64_t at = record_object(r), end = at + r->size;
	uint32_t flags = 0;

	if (!r->size)
		return;
	if (r->flags & ETCH_OBJ_ARMED)
		flags |= OBJECT_ARMED;
	/* Without the link step nobody has seen the files that it is open to. */
	if ((r->flags & (ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED)) || (!m->linked && (r->flags & ETCH_OBJ_OPEN)))
		flags |= OBJECT_FACT;
	if (last && at < last->addr + last->size) {
		if (end > last->addr + last->size)
			last->size = (uint32_t)(end - last->addr);
		last->flags |= flags;
		return;
	}
	m->object[m->object_count++] = (struct object){.addr = at, .size = r->size, .flags = flags,
		.record = (uint32_t)(r - m->obj)};
}

static int is_object(const struct etch_obj *r) { return r->kind == ETCH_OBJ_OBJECT; }

/* The link step leaves them in order, gcc emits those of one file last to first;
 * else they are sorted in pair. */
static void objects_fill(struct module *m, const struct counts *c, struct pair *pair)
{
	size_t n = 0, i;

	if (c->rising) {
		for (i = 0; i < m->obj_count; i++)
			if (is_object(&m->obj[i]))
				object_add(m, &m->obj[i]);
	} else if (c->falling) {
		for (i = m->obj_count; i--;)
			if (is_object(&m->obj[i]))
				object_add(m, &m->obj[i]);
	} else {
		for (i = 0; i < m->obj_count; i++)
			if (is_object(&m->obj[i]))
				pair[n++] = (struct pair){record_object(&m->obj[i]), i};
		pairs_sort(pair, n, pair + n);
		for (i = 0; i < n; i++)
			object_add(m, &m->obj[pair[i].value]);
	}
	if (m->object_count) {
		const struct object *last = &m->object[m->object_count - 1];

		m->page = PAGE_OF(m->object[0].addr);
		m->pages = (PAGE_UP(last->addr + last->size) - m->page) / ETCH_PAGE;
	}
}

/* The object of this module that a fact about this byte concerns: the one that
 * holds it, or, since `&array[n]` and a tail of padding are spoken of too, the
 * one before it in the etched sections. */
static struct object *fact_object(const struct module *m, uint64_t at)
{
	size_t i = module_object_from(m, at);

	if (i < m->object_count && m->object[i].addr <= at)
		return &m->object[i];
	if (i && PAGE_UP(m->object[i - 1].addr + m->object[i - 1].size) >= at)
		return &m->object[i - 1];
	return NULL;
}

static void indexes_fill(struct module *m, const struct counts *c, struct pair *temp)
{
	size_t far = 0, n, i;

	for (int kind = 0; kind < SITES_KINDS; kind++) {
		struct sites *s = &m->sites[kind];
		uint64_t which = kind == SITES_CALL ? PAIR_CALL : 0;

		for (i = n = 0; !m->linked && i < s->count; i++)
			if (s->entry[i].form != ETCH_FORM_NONE && !(s->entry[i].flags & ETCH_IMV_GOT))
				s->own[n++] = (struct pair){site_object(&s->entry[i]), i | which};
		pairs_sort(s->own, n, temp);
		/* Of a linked table, no further than linked_count() has looked. */
		for (i = m->linked ? s->own_count : 0;
		     c->got && i < s->count && !(m->linked && s->entry[i].form == ETCH_FORM_NONE); i++)
			if (s->entry[i].flags & ETCH_IMV_GOT)
				m->far[far++] = (struct pair){site_object(&s->entry[i]), i | which};
	}
	for (i = 0; c->facts && i < m->obj_count; i++) {
		const struct etch_obj *r = &m->obj[i];
		struct object *o;
		uint64_t at;

		if (r->kind != ETCH_OBJ_STORE && r->kind != ETCH_OBJ_ESCAPE)
			continue;
		at = record_object(r);
		o = fact_object(m, at);
		if (o)
			o->flags |= OBJECT_FACT;
		else
			m->far[far++] = (struct pair){at, i | PAIR_FACT};
	}
	m->far_count = far;
	pairs_sort(m->far, far, temp);
}

/* A module of this image, with its indexes; marked bad if it is malformed. Null
 * if there is no memory. */
static struct module *module_new(const struct image *im, const struct module_arguments *args, const char *path)
{
	struct module look = {.image = *im, .desc = args->desc}, *m;
	struct counts c = {0};
	size_t path_size = strlen(path) + 1, own, far, pages, size, temp_count;
	struct pair *temp = NULL;
	uint8_t *at;

	look.bad = im->crowded || !table_locate(&look, args) || !tables_count(&look, &c);
	if (look.bad)
		memset(&c, 0, sizeof(c));
	own = look.linked ? 0 : c.own[SITES_LOAD] + c.own[SITES_CALL];
	far = c.got + c.facts;
	/* Objects lie inside the image, so their pages are no more than its. */
	pages = c.objects ? (PAGE_UP(im->end) - PAGE_OF(im->start)) / ETCH_PAGE : 0;
	size = round16(sizeof(*m)) + round16(c.objects * sizeof(struct object)) +
	       (own + far) * sizeof(struct pair) + round16(pages / 8 + 1) + round16(path_size);
	m = block_new(size);
	if (!m)
		return NULL;
	look.capacity = m->capacity;
	*m = look;
	at = (uint8_t *)m + round16(sizeof(*m));
	m->object = (struct object *)at;
	at += round16(c.objects * sizeof(struct object));
	for (int kind = 0; kind < SITES_KINDS; kind++) {
		m->sites[kind].own_count = c.own[kind];
		m->sites[kind].own = look.linked ? NULL : (struct pair *)at;
		at += look.linked ? 0 : c.own[kind] * sizeof(struct pair);
	}
	m->far = (struct pair *)at;
	at += far * sizeof(struct pair);
	m->readonly = at;
	at += round16(pages / 8 + 1);
	memcpy(at, path, path_size);
	m->path = (const char *)at;
	m->etched[0] = args->etched;
	m->etched[1] = args->scalar;
	if (m->bad || (!c.objects && !own && !far))
		return m;

	temp_count = c.rising || c.falling ? 0 : 2 * c.objects;
	if (temp_count < own)
		temp_count = own;
	if (temp_count < far)
		temp_count = far;
	temp = temp_count ? pages_map(temp_count * sizeof(*temp), 0) : NULL;
	if (temp_count && !temp) {
		m->next = module_free;
		module_free = m;
		return NULL;
	}
	objects_fill(m, &c, temp);
	indexes_fill(m, &c, temp);
	if (temp)
		sys_munmap(temp, temp_count * sizeof(*temp));
	return m;
}

/* ---- arming at load ------------------------------------------------------------------------ */

/* Sites through the GOT of `m` to objects that are armed; an entry that cannot be
 * patched stays a load, which is right too. */
static void plan_far_sites(struct txn *t, const struct module *m)
{
	struct object *o;
	struct module *owner;

	for (size_t i = 0; i < m->far_count; i++) {
		if (m->far[i].value & PAIR_FACT)
			continue;
		o = object_anywhere(m->far[i].key, &owner);
		/* Its own ones objects_arm() has planned. */
		if (o && (owner != m || m->linked) && (o->flags & OBJECT_ARMED))
			txn_plan_site(t, pair_site(m, m->far[i].value), m->far[i].key, o, PLAN_ARM);
	}
}

/* Sites through the GOT of modules that came before, to armed objects of m. */
static void plan_far_sites_to(struct txn *t, const struct module *m)
{
	for (const struct module *k = module_list; k; k = k->next)
		for (size_t i = 0; k != m && i < k->far_count; i++) {
			struct object *o;

			if ((k->far[i].value & PAIR_FACT) || k->far[i].key < m->image.start ||
			    k->far[i].key >= m->image.end)
				continue;
			o = module_object(m, k->far[i].key);
			if (o && (o->flags & OBJECT_ARMED))
				txn_plan_site(t, pair_site(k, k->far[i].value), k->far[i].key, o, PLAN_ARM);
		}
}

/* Calls of a linked module that the link step could not bake, because the dynamic
 * linker fills in their slot: now it is known. */
static void plan_late_calls(struct txn *t, const struct module *m)
{
	const struct sites *s = &m->sites[SITES_CALL];
	const struct object *o = NULL;

	for (size_t i = 0; i < s->own_count; i++) {
		const struct etch_imv *e = &s->entry[i];
		uint64_t at;

		if ((e->flags & ETCH_IMV_BAKED) || e->form == ETCH_FORM_NONE || !table_site_ok(m, e, 1))
			continue;
		at = site_object(e);
		if (!o || at < o->addr || at - o->addr >= o->size)
			o = module_object(m, at);
		if (o && (o->flags & OBJECT_ARMED))
			txn_plan_site(t, e, at, o, PLAN_ARM);
	}
}

/* An armed object that a module with a fact about it has met: loads again. */
static void object_disarm(struct module *owner, struct object *o)
{
	struct txn t;

	txn_begin(&t);
	o->flags |= OBJECT_FACT;
	if ((o->flags & OBJECT_ARMED) && !txn_plan_object(&t, o, PLAN_LOAD, NULL) && !txn_commit(&t)) {
		module_patched += t.text.count;
		o->flags &= ~(OBJECT_ARMED | OBJECT_SEALED);
		module_protect(owner, o->addr, o->addr + o->size);
	}
	/* Where that fails it stays read-only, and the plain store is caught. */
	txn_end(&t);
}

static void facts_fold(struct module *m)
{
	for (struct module *k = module_list; k; k = k->next)
		for (size_t i = 0; i < k->far_count; i++) {
			struct module *owner;
			struct object *o;

			/* What m says of others, and what others say of m. */
			if (!(k->far[i].value & PAIR_FACT))
				continue;
			owner = module_at(k->far[i].key);
			if (!owner || owner->bad || (k != m && owner != m))
				continue;
			o = fact_object(owner, k->far[i].key);
			if (o)
				object_disarm(owner, o);
		}
}

/* The objects without facts of a module that the link step has not seen. */
static void objects_arm(struct txn *t, struct module *m)
{
	size_t own[SITES_KINDS] = {0};

	txn_reserve(t, m->sites[SITES_LOAD].count + m->sites[SITES_CALL].count);
	for (size_t i = 0; i < m->object_count; i++) {
		struct object *o = &m->object[i];
		size_t mark = t->text.count;

		if (o->flags & OBJECT_FACT)
			continue;
		/* Trouble is per object: a breakpoint at one site keeps one a load. */
		if (txn_plan_object(t, o, PLAN_ARM, own))
			t->text.count = mark;
		else
			o->flags |= OBJECT_ARMED;
	}
}

static void module_start(struct module *m)
{
	struct txn t;
	int err;

	facts_fold(m);
	txn_begin(&t);
	if (m->linked) {
		plan_far_sites_to(&t, m);
		plan_far_sites(&t, m);
		plan_late_calls(&t, m);
		/* Calls in place, likewise: those of armed objects. */
		if (inlines_ok(m))
			txn_plan_inlines(&t, m, 0, UINT64_MAX, PLAN_SET);
		if (sync_available() && !txn_commit(&t))
			module_patched += t.text.count;
	} else {
		/* Without the barrier no later set could be made under threads: then
		 * leave loads, and sets stay plain stores. */
		if (sync_available()) {
			objects_arm(&t, m);
			plan_far_sites(&t, m);
			err = txn_commit(&t);
			if (!err)
				module_patched += t.text.count;
			for (size_t i = 0; err && i < m->object_count; i++)
				m->object[i].flags &= ~OBJECT_ARMED;
		}
	}
	txn_end(&t);
	if (m->pages)
		module_protect(m, m->page, m->page + m->pages * ETCH_PAGE);
}

/* ---- loading and unloading ---------------------------------------------------------------------- */

struct search {
	uint64_t address;
	struct image image;
	const char *path;
	int found, first;
};

static int search_image(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	struct image im = {.bias = info->dlpi_addr, .program = s->first};
	int hit = 0;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = im.bias + p->p_vaddr, end = start + p->p_memsz;

		if (p->p_type == PT_DYNAMIC)
			im.dynamic = start;
		if (p->p_type != PT_LOAD || !p->p_memsz)
			continue;
		if (!im.segments || start < im.start)
			im.start = start;
		if (end > im.end)
			im.end = end;
		if (s->address >= start && s->address < end)
			hit = 1;
		if (im.segments++ < IMAGE_SEGMENTS)
			im.segment[im.segments - 1] = (struct segment){start, end,
				(p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
				(p->p_flags & PF_X ? PROT_EXEC : 0)};
	}
	if (s->first) {
		s->first = 0;
		program_dynamic = im.dynamic;
		program_bias = im.bias;
		program_start = im.start;
	}
	if (!hit)
		return 0;
	if (im.segments > IMAGE_SEGMENTS) {
		im.segments = IMAGE_SEGMENTS;
		im.crowded = 1;
	}
	s->image = im;
	s->path = info->dlpi_name ? info->dlpi_name : "";
	s->found = 1;
	return 1;
}

static struct module *module_of(const struct etch_module *desc)
{
	struct module *m;

	for (m = module_list; m && m->desc != desc; m = m->next)
		;
	return m;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct bounds bounds_of(const void *start, const void *stop)
{
	return (struct bounds){(uint64_t)(uintptr_t)start, (uint64_t)(uintptr_t)stop};
}

static void module_load(const struct module_arguments *args)
{
	const struct etch_module *desc = args->desc;
	struct search s = {.address = (uint64_t)(uintptr_t)desc, .first = 1};
	struct module *m;
	int known;

	lock_first();
	known = module_of(desc) != NULL;
	etch_unlock();
	if (known)
		return;
	pthread_once(&once, fork_register);
	if (!dl_iterate_phdr(search_image, &s))
		return;

	lock_first();
	if (!module_of(desc)) {
		m = module_new(&s.image, args, s.path);
		if (m) {
			m->next = module_list;
			__atomic_store_n(&module_list, m, __ATOMIC_RELEASE);
			if (!m->bad)
				module_start(m);
		}
	}
	etch_unlock();
}

ETCH_API void etch_module_load_v2(const struct etch_module *desc, const struct etch_bounds *bounds, unsigned count)
{
	struct bounds b[7] = {{0, 0}};

	for (unsigned i = 0; i < count && i < 7; i++)
		b[i] = bounds_of(bounds[i].start, bounds[i].stop);
	module_load(&(struct module_arguments){desc, b[0], b[1], b[2], b[3], b[4], b[5], b[6]});
}

ETCH_API void etch_module_load_v1(const struct etch_module *desc, const void *imv_start, const void *imv_stop,
                                  const void *obj_start, const void *obj_stop, const void *etched_start,
                                  const void *etched_stop, const void *scalar_start, const void *scalar_stop)
{
	module_load(&(struct module_arguments){.desc = desc, .imv = bounds_of(imv_start, imv_stop),
		.obj = bounds_of(obj_start, obj_stop), .etched = bounds_of(etched_start, etched_stop),
		.scalar = bounds_of(scalar_start, scalar_stop)});
}

ETCH_API void etch_module_unload_v1(const struct etch_module *desc)
{
	struct module **p, *m;

	lock_first();
	for (p = &module_list; (m = *p); p = &m->next)
		if (m->desc == desc) {
			/* The program's text and data outlive its destructors, and so
			 * may threads that set. */
			if (m->image.program)
				break;
			__atomic_store_n(p, m->next, __ATOMIC_RELEASE);
			m->next = module_free;
			module_free = m;
			break;
		}
	etch_unlock();
}
