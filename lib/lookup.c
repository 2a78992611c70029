/* SPDX-License-Identifier: MIT */
/*
 * lookup.c: from an address of code to the unwind table of its module.
 *
 * RULES OF THIS FILE. lookup_module() and lookup_target() run in signal context: no
 * malloc, no lock, no thread-local storage, no libc but _dl_find_object(3), which is
 * async-signal-safe and called without the PLT. Do not introduce any dependency there.
 * etch_unwind_prepare() and what only it calls are ordinary code under a mutex.
 *
 * What is remembered about a module that has a table of its own is only how to get at
 * its arrays. That follows from where its table is and from the table's header; so a
 * look-up asks the dynamic linker what is mapped there now, and uses what it remembers
 * if that module has the same program header for the table's segment and the same bytes
 * in the table's header. A dlclose(3) and a dlopen(3) in its place cannot make it wrong.
 *
 * Tables made for other modules are kept for good, found by the address where the
 * module was, and believed only if the module there now is the one they were made for:
 * the same ELF header (which has the file's section header offset) and the same
 * build-id, or without one the same .eh_frame. They are published with release stores and never changed or freed, so
 * that a reader needs no lock. The same file at another address uses the same table.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "eh_frame.h"
#include "unwind_internal.h"

/* tool/elf/segment.h: the note that a segment of etch's begins with. */
struct note {
	uint32_t namesz, descsz, type;
	char name[8];
	uint32_t version, first, zero;
};
#define NOTE_TYPE    0x67657365u
#define NOTE_VERSION 1u

#define PAGE_DOWN(x) ((x) & ~(uint64_t)4095)

/* ---- what is loaded ------------------------------------------------------------ */

/* Where _dl_find_object is missing: what dl_iterate_phdr(3) said at start and at the
 * last etch_unwind_prepare(). Never freed. */
struct snapshot {
	size_t count;
	struct prepare_image image[];
};
static struct snapshot *snapshot;

/*
 * The main program, which stays. glibc's _dl_find_object knows only the first segment
 * of a static one (2.36).
 */
static struct prepare_image program;

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* libetch is compiled with -fno-plt: lazy binding has no business in a signal handler. */
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));
#endif

/* Reads an ELF header and program headers in memory. */
static int image_headers(struct prepare_image *im)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)(uintptr_t)im->start;
	uint32_t magic;

	if (im->end - im->start >= sizeof(*h)) {
		memcpy(&magic, h->e_ident, 4);
		if (magic == 0x464c457fu && h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_phentsize == sizeof(Elf64_Phdr) &&
		    h->e_phnum < PN_XNUM && !(h->e_phoff & 7) && h->e_phoff <= im->end - im->start &&
		    h->e_phnum <= (im->end - im->start - h->e_phoff) / sizeof(Elf64_Phdr)) {
			im->phdr = (const Elf64_Phdr *)(uintptr_t)(im->start + h->e_phoff);
			im->phnum = h->e_phnum;
			return 1;
		}
	}
	return 0;
}

int lookup_image(uint64_t at, struct prepare_image *im)
{
	const struct snapshot *s;

	if (at - program.start < program.end - program.start) {
		*im = program;
		return 1;
	}
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	struct dl_find_object o;

	if (_dl_find_object) {
		if (_dl_find_object((void *)(uintptr_t)at, &o))
			return 0;
		im->start = (uint64_t)(uintptr_t)o.dlfo_map_start;
		im->end = (uint64_t)(uintptr_t)o.dlfo_map_end;
		im->bias = o.dlfo_link_map->l_addr;
		return image_headers(im);
	}
#endif
	s = __atomic_load_n(&snapshot, __ATOMIC_ACQUIRE);
	for (size_t i = 0; s && i < s->count; i++)
		if (at - s->image[i].start < s->image[i].end - s->image[i].start) {
			*im = s->image[i];
			/* A libc of this kind may have unmapped it since. */
			return stack_page_readable(im->start) && stack_page_readable((uint64_t)(uintptr_t)im->phdr);
		}
	return 0;
}

static int inside(const struct prepare_image *im, uint64_t at, uint64_t size)
{
	return at >= im->start && at <= im->end && size <= im->end - at;
}

/* Is all of this range inside a segment that can be read? */
static int readable(const struct prepare_image *im, uint64_t at, uint64_t size)
{
	for (unsigned i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t start = im->bias + p->p_vaddr;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && at >= start && at - start <= p->p_memsz &&
		    size <= p->p_memsz - (at - start))
			return inside(im, at, size);
	}
	return 0;
}

/* The table in the module itself, the number of the program header of its segment and
 * the bytes that may be read there; or null. */
static const struct etch_unwind *image_table(const struct prepare_image *im, unsigned *index, uint64_t *size)
{
	/* From the last: the tool puts its segment above every other. */
	for (unsigned i = im->phnum; i--;) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t at = im->bias + p->p_vaddr;
		struct note n;

		if (p->p_type != PT_LOAD || (p->p_flags & (PF_R | PF_W | PF_X)) != PF_R || p->p_filesz < sizeof(n) ||
		    !inside(im, at, p->p_filesz))
			continue;
		memcpy(&n, (const void *)(uintptr_t)at, sizeof(n));
		if (n.type != NOTE_TYPE || n.namesz != 5 || n.descsz != 12 || n.version != NOTE_VERSION ||
		    n.name[0] != 'e' || n.name[1] != 't' || n.name[2] != 'c' || n.name[3] != 'h' || n.name[4])
			continue;
		if (n.first > p->p_filesz || ((at + n.first) & 7))
			return NULL;
		*index = i;
		*size = p->p_filesz - n.first;
		return (const struct etch_unwind *)(uintptr_t)(at + n.first);
	}
	return NULL;
}

static int orc_open(const struct prepare_image *im, const struct etch_unwind *u, struct etch_orc_table *t)
{
	uint64_t lookups = ((u->text_size + 255) >> 8) + 1;

	if (!u->rows || !readable(im, im->bias + u->orc_ip, (uint64_t)u->rows * 4) ||
	    !readable(im, im->bias + u->orc, (uint64_t)u->rows * sizeof(struct etch_orc)) ||
	    !readable(im, im->bias + u->orc_lookup, lookups * 4))
		return 0;
	t->ip = (const int32_t *)(uintptr_t)(im->bias + u->orc_ip);
	t->orc = (const struct etch_orc *)(uintptr_t)(im->bias + u->orc);
	t->lookup = (const uint32_t *)(uintptr_t)(im->bias + u->orc_lookup);
	t->rows = u->rows;
	t->ip_addr = u->orc_ip;
	t->text = u->text;
	t->text_size = u->text_size;
	return 1;
}

/* The header has been found valid. */
static void module_open(struct unwind_module *m, const struct etch_unwind *u, uint64_t bias)
{
	m->text = bias + u->text;
	m->text_size = u->text_size;
	m->encoding = u->encoding;
	if (u->encoding == ETCH_ENCODING_BLOCK)
		etch_block_open(u, &m->block);
}

/* ---- tables in modules --------------------------------------------------------- */

#define HEADER_WORDS (sizeof(struct etch_unwind) / 8)
_Static_assert(sizeof(struct etch_unwind) % 8 == 0, "headers are compared by words");

/* An opened table, and what it was opened from. Written once. */
struct opened {
	uint64_t start, end;
	uint64_t index;  /* of the program header */
	Elf64_Phdr phdr;
	const struct etch_unwind *table;
	struct etch_unwind header;
	struct unwind_module module;
};

/* Places are taken in signal context too and never given back. Later modules, and those
 * whose slot another one has, are opened at each look-up. */
#define OPENED_PLACES 64
#define OPENED_SLOTS  128
static struct opened opened_place[OPENED_PLACES];
static unsigned opened_count;
static struct opened *opened[OPENED_SLOTS];

static struct opened **opened_slot(uint64_t start)
{
	return &opened[(start >> 12) * 0x9e3779b97f4a7c15u >> 57];
}

static inline __attribute__((always_inline)) int same_words(const void *a, const void *b, size_t count)
{
	const uint64_t *x = a, *y = b;
	uint64_t differ = 0;

	for (size_t i = 0; i < count; i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

static const struct unwind_module *opened_find(const struct prepare_image *im)
{
	const struct opened *o = __atomic_load_n(opened_slot(im->start), __ATOMIC_ACQUIRE);

	if (o && o->start == im->start && o->end == im->end && o->index < im->phnum &&
	    same_words(&o->phdr, &im->phdr[o->index], sizeof(o->phdr) / 8) &&
	    same_words(&o->header, o->table, HEADER_WORDS))
		return &o->module;
	return NULL;
}

static void opened_add(const struct prepare_image *im, const struct etch_unwind *u, unsigned index, const struct unwind_module *m)
{
	struct opened **slot = opened_slot(im->start), *o, *none = NULL;
	unsigned n = __atomic_load_n(&opened_count, __ATOMIC_RELAXED);

	if (n >= OPENED_PLACES || __atomic_load_n(slot, __ATOMIC_RELAXED))
		return;
	n = __atomic_fetch_add(&opened_count, 1, __ATOMIC_RELAXED);
	if (n >= OPENED_PLACES) {
		__atomic_store_n(&opened_count, OPENED_PLACES, __ATOMIC_RELAXED);
		return;
	}
	o = &opened_place[n];
	o->start = im->start;
	o->end = im->end;
	o->index = index;
	o->phdr = im->phdr[index];
	o->table = u;
	o->header = *u;
	o->module = *m;
	__atomic_compare_exchange_n(slot, &none, o, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* ---- tables for modules that have none ------------------------------------------ */

/* What makes a file the one that it was. */
struct identity {
	Elf64_Ehdr header;
	Elf64_Phdr note; /* the PT_NOTE that holds the build-id; all zero: none */
	uint32_t note_index, id_offset, id_size;
	uint8_t id[32];
	uint64_t sum;    /* without a build-id: of program headers and .eh_frame */
};

struct made {
	struct made *next;
	uint64_t start, end;
	struct identity identity;
	const struct etch_unwind *table;
	uint64_t size;
	struct unwind_module module;
};

#define MADE_BUCKETS 64
static struct made *made[MADE_BUCKETS];

static struct made **made_bucket(uint64_t start)
{
	return &made[(start >> 12) * 0x9e3779b97f4a7c15u >> 58];
}

static uint64_t sum_add(uint64_t sum, const void *p, uint64_t size)
{
	uint64_t lane[4] = { sum, 1, 2, 3 }, word;

	for (uint64_t i = 0; i + 32 <= size; i += 32)
		for (unsigned k = 0; k < 4; k++) {
			memcpy(&word, (const uint8_t *)p + i + 8 * k, 8);
			lane[k] = (lane[k] ^ word) * 0x9e3779b97f4a7c15u;
			lane[k] ^= lane[k] >> 32;
		}
	for (uint64_t i = size & ~(uint64_t)31; i < size; i++)
		lane[0] = (lane[0] ^ ((const uint8_t *)p)[i]) * 0x9e3779b97f4a7c15u;
	for (unsigned k = 1; k < 4; k++)
		lane[0] = (lane[0] ^ lane[k]) * 0x9e3779b97f4a7c15u;
	return lane[0];
}

/*
 * Program headers, .eh_frame_hdr and .eh_frame: what a table is made from. All of it at
 * each look-up, 100 KB in some 10 us: a file without a build-id may be another one with
 * the same layout. More than SUM_MOST is not looked at: such a module gets no table,
 * unless it is the program, which stays.
 */
#define SUM_MOST (1u << 20)

static int image_sum(const struct prepare_image *im, uint64_t *out)
{
	struct etch_cfi_hdr h;
	struct etch_cfi cfi;
	uint64_t sum = sum_add(0, im->phdr, im->phnum * sizeof(*im->phdr));

	*out = sum;
	if (im->start == program.start)
		return 1;
	if (!eh_frame_open(im, &h, &cfi) || cfi.size > SUM_MOST)
		return 0;
	sum = sum_add(sum, h.table, 8 * h.count);
	*out = sum_add(sum, cfi.bytes, cfi.size);
	return 1;
}

static int image_is(const struct prepare_image *im, const struct identity *id)
{
	uint64_t at, sum;

	if (!same_words((const void *)(uintptr_t)im->start, &id->header, sizeof(id->header) / 8))
		return 0;
	if (!id->id_size)
		return image_sum(im, &sum) && sum == id->sum;
	/* The header is the same, and so is the number of program headers. */
	if (!same_words(&im->phdr[id->note_index], &id->note, sizeof(id->note) / 8))
		return 0;
	at = im->bias + id->note.p_vaddr;
	if (!inside(im, at, id->note.p_memsz))
		return 0;
	for (uint32_t i = 0; i < id->id_size; i++)
		if (((const uint8_t *)(uintptr_t)(at + id->id_offset))[i] != id->id[i])
			return 0;
	return 1;
}

static const struct made *made_find(const struct prepare_image *im)
{
	const struct made *e = __atomic_load_n(made_bucket(im->start), __ATOMIC_ACQUIRE);

	for (; e; e = e->next)
		if (e->start == im->start && e->end == im->end && image_is(im, &e->identity))
			return e;
	return NULL;
}

/* ---- looking up -------------------------------------------------------------------- */

static const struct unwind_module *image_open(const struct prepare_image *im, struct unwind_module *room)
{
	const struct unwind_module *m = opened_find(im);
	const struct etch_unwind *u;
	const struct made *e;
	unsigned index;
	uint64_t size;

	if (m)
		return m;
	u = image_table(im, &index, &size);
	if (!u) {
		e = made_find(im);
		return e ? &e->module : NULL;
	}
	if (!etch_unwind_header_valid(u, size) || (u->encoding == ETCH_ENCODING_ORC && !orc_open(im, u, &room->orc)))
		return NULL;
	module_open(room, u, im->bias);
	if (u->encoding == ETCH_ENCODING_BLOCK)
		opened_add(im, u, index, room);
	return room;
}

const struct unwind_module *lookup_module(uint64_t at, struct unwind_module *room)
{
	const struct unwind_module *m;
	struct prepare_image im;

	if (!lookup_image(at, &im))
		return NULL;
	m = image_open(&im, room);
	return m && at - m->text < m->text_size ? m : NULL;
}

/* Where a target's orc array is, given its link-time address. */
static const void *target_array(const struct etch_target_module *t, uint64_t address, uint64_t size)
{
	uint64_t at = address - t->address;

	if (address < t->address || at > t->size || size > t->size - at)
		return NULL;
	return (const uint8_t *)t->table + at;
}

static int target_orc_open(const struct etch_target_module *t, struct etch_orc_table *o)
{
	const struct etch_unwind *u = t->table;

	o->rows = u->rows;
	o->ip_addr = u->orc_ip;
	o->text = u->text;
	o->text_size = u->text_size;
	o->ip = target_array(t, u->orc_ip, (uint64_t)u->rows * 4);
	o->orc = target_array(t, u->orc, (uint64_t)u->rows * sizeof(struct etch_orc));
	o->lookup = target_array(t, u->orc_lookup, (((u->text_size + 255) >> 8) + 1) * 4);
	return u->rows && o->ip && o->orc && o->lookup;
}

const struct unwind_module *lookup_target(const struct etch_target *target, uint64_t at, struct unwind_module *room)
{
	const struct etch_target_module *t;
	size_t lo = 0, hi = target->module_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (target->modules[mid].end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == target->module_count)
		return NULL;
	t = &target->modules[lo];
	if (at < t->start || !t->table || !etch_unwind_header_valid(t->table, t->size) ||
	    (t->table->encoding == ETCH_ENCODING_ORC && !target_orc_open(t, &room->orc)))
		return NULL;
	module_open(room, t->table, t->bias);
	return at - room->text < room->text_size ? room : NULL;
}

/* ---- preparing ----------------------------------------------------------------------- */

/*
 * Taken inside dl_iterate_phdr's callback only, so that the order is always the dynamic
 * linker's lock first: a constructor that calls etch_unwind_prepare() holds that one.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static char sidecars[4096];
static int sidecars_set;
static uint64_t generation;       /* of what prepare works from, beside the modules */
static struct {
	unsigned long long adds, subs;
	uint64_t generation;
	int missing, done;
} last;

/* A child of fork(2) whose parent was preparing in another thread. */
static void fork_child(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	memcpy(&mutex, &fresh, sizeof(mutex));
	last.done = 0;
}

static void *map_new(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Small blocks that are never freed. Under the mutex. */
static void *keep(uint64_t size)
{
	static uint8_t *room;
	static uint64_t left;
	void *p;

	size = (size + 15) & ~(uint64_t)15;
	if (size > left) {
		left = size < 65536 ? 65536 : size;
		room = map_new(left);
		if (!room) {
			left = 0;
			return NULL;
		}
	}
	p = room;
	room += size;
	left -= size;
	return p;
}

/* The build-id note of a module (gABI "Note Section"): into id. */
static void image_build_id(const struct prepare_image *im, struct identity *id)
{
	for (unsigned i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t align = p->p_align == 8 ? 8 : 4, at = im->bias + p->p_vaddr, left = p->p_memsz, next;
		Elf64_Nhdr n;

		if (p->p_type != PT_NOTE || (at & 3) || !readable(im, at, left))
			continue;
		while (left >= sizeof(n)) {
			memcpy(&n, (const void *)(uintptr_t)at, sizeof(n));
			next = sizeof(n) + (((uint64_t)n.n_namesz + align - 1) & ~(align - 1));
			if (next > left || n.n_descsz > left - next)
				break;
			if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
			    !memcmp((const void *)(uintptr_t)(at + sizeof(n)), "GNU", 4) && n.n_descsz >= 4 &&
			    n.n_descsz <= sizeof(id->id) && !(n.n_descsz & 3)) {
				id->note = *p;
				id->note_index = i;
				id->id_offset = (uint32_t)(at + next - (im->bias + p->p_vaddr));
				id->id_size = n.n_descsz;
				memcpy(id->id, (const void *)(uintptr_t)(at + next), n.n_descsz);
				return;
			}
			next += ((uint64_t)n.n_descsz + align - 1) & ~(align - 1);
			if (next > left)
				break;
			at += next;
			left -= next;
		}
	}
}

static int identity_of(const struct prepare_image *im, struct identity *id)
{
	if (!inside(im, im->start, sizeof(id->header)))
		return 0;
	memset(id, 0, sizeof(*id));
	memcpy(&id->header, (const void *)(uintptr_t)im->start, sizeof(id->header));
	/* image_is() trusts that equal headers mean equally many program headers. */
	if ((uint64_t)(uintptr_t)im->phdr != im->start + id->header.e_phoff || im->phnum != id->header.e_phnum)
		return 0;
	image_build_id(im, id);
	return id->id_size || image_sum(im, &id->sum);
}

/* The whole file in memory of its own: a table that has been checked must not change,
 * and a file may. */
static uint8_t *file_read(const char *path, uint64_t *size)
{
	uint8_t *p = NULL;
	uint64_t have = 0;
	struct stat st;
	ssize_t n = 1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof(struct etch_unwind) &&
	    st.st_size <= (off_t)UINT32_MAX && (p = map_new((uint64_t)st.st_size))) {
		*size = (uint64_t)st.st_size;
		while (have < *size && n > 0) {
			n = read(fd, p + have, *size - have);
			if (n > 0)
				have += (uint64_t)n;
			else if (n < 0 && errno == EINTR)
				n = 1;
		}
		if (have < *size) {
			munmap(p, *size);
			p = NULL;
		}
	}
	close(fd);
	return p;
}

static const struct etch_unwind *sidecar_read(const struct identity *id, uint64_t *size)
{
	char path[sizeof(sidecars) + 2 * sizeof(id->id) + 2];
	size_t n = strlen(sidecars);
	const struct etch_unwind *u;

	if (!n || !id->id_size)
		return NULL;
	memcpy(path, sidecars, n);
	path[n++] = '/';
	for (uint32_t i = 0; i < id->id_size; i++) {
		path[n++] = "0123456789abcdef"[id->id[i] >> 4];
		path[n++] = "0123456789abcdef"[id->id[i] & 15];
	}
	path[n] = 0;
	u = (const struct etch_unwind *)(const void *)file_read(path, size);
	if (!u)
		return NULL;
	n = id->id_size < sizeof(u->build_id) ? id->id_size : sizeof(u->build_id);
	if (etch_unwind_valid(u, *size) && u->encoding == ETCH_ENCODING_BLOCK && !memcmp(u->build_id, id->id, n)) {
		mprotect((void *)(uintptr_t)u, *size, PROT_READ);
		return u;
	}
	munmap((void *)(uintptr_t)u, *size);
	return NULL;
}

/* The same file at another address. */
static const struct made *made_elsewhere(const struct identity *id)
{
	for (unsigned i = 0; i < MADE_BUCKETS; i++)
		for (const struct made *e = made[i]; e; e = e->next)
			if (!memcmp(&e->identity, id, sizeof(*id)))
				return e;
	return NULL;
}

/* 1 if the module has a table now. Under the mutex. */
static int image_prepare(const struct prepare_image *im)
{
	const struct etch_unwind *u;
	const struct made *other;
	struct identity id;
	struct made *e, **bucket;
	unsigned index;
	uint64_t size = 0;

	u = image_table(im, &index, &size);
	if (u)
		return etch_unwind_header_valid(u, size);
	if (made_find(im))
		return 1;
	if (!identity_of(im, &id))
		return 0;
	other = made_elsewhere(&id);
	if (other) {
		u = other->table;
		size = other->size;
	} else {
		u = sidecar_read(&id, &size);
		if (!u)
			u = prepare_table(im, &size);
		if (!u || !etch_unwind_header_valid(u, size))
			return 0;
	}
	e = keep(sizeof(*e));
	if (!e)
		return 0;
	bucket = made_bucket(im->start);
	e->start = im->start;
	e->end = im->end;
	e->identity = id;
	e->table = u;
	e->size = size;
	module_open(&e->module, u, im->bias);
	e->next = *bucket;
	__atomic_store_n(bucket, e, __ATOMIC_RELEASE);
	return 1;
}

static void image_of(const struct dl_phdr_info *info, struct prepare_image *im)
{
	im->bias = info->dlpi_addr;
	im->phdr = info->dlpi_phdr;
	im->phnum = info->dlpi_phnum;
	im->start = UINT64_MAX;
	im->end = 0;
	for (unsigned i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type != PT_LOAD || p->p_memsz > UINT64_MAX / 2)
			continue;
		if (im->bias + PAGE_DOWN(p->p_vaddr) < im->start)
			im->start = im->bias + PAGE_DOWN(p->p_vaddr);
		if (im->bias + p->p_vaddr + p->p_memsz > im->end)
			im->end = im->bias + p->p_vaddr + p->p_memsz;
	}
}

struct pass {
	int missing, seen;
	struct snapshot *snapshot; /* being made, or null */
	size_t room;
};

static int prepare_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct pass *pass = arg;
	struct prepare_image im, found;
	int unchanged;

	pthread_mutex_lock(&mutex);
	unchanged = !pass->seen && last.done && last.generation == generation &&
	            size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs) &&
	            last.adds == info->dlpi_adds && last.subs == info->dlpi_subs;
	if (unchanged) {
		pass->missing = last.missing;
	} else {
		if (!pass->seen) {
			last.done = 0;
			if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
				last.adds = info->dlpi_adds;
				last.subs = info->dlpi_subs;
			}
			last.generation = generation;
		}
		image_of(info, &im);
		/* By the bounds with which it will be looked up. */
		if (im.start < im.end && lookup_image(im.start, &found) && !image_prepare(&found))
			pass->missing++;
	}
	pass->seen = 1;
	pthread_mutex_unlock(&mutex);
	return unchanged;
}

static int snapshot_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct pass *pass = arg;
	struct prepare_image im;

	(void)size;
	image_of(info, &im);
	if (im.start >= im.end)
		return 0;
	if (pass->snapshot && pass->snapshot->count < pass->room)
		pass->snapshot->image[pass->snapshot->count] = im;
	if (pass->snapshot)
		pass->snapshot->count++;
	return 0;
}

static void snapshot_make(void)
{
	struct pass pass = { .room = 64 };
	struct snapshot *now = __atomic_load_n(&snapshot, __ATOMIC_ACQUIRE);

	for (;;) {
		uint64_t size = sizeof(struct snapshot) + pass.room * sizeof(struct prepare_image);

		pass.snapshot = map_new(size);
		if (!pass.snapshot)
			return;
		dl_iterate_phdr(snapshot_one, &pass);
		if (pass.snapshot->count > pass.room) {
			pass.room = 2 * pass.snapshot->count;
			munmap(pass.snapshot, size);
			continue;
		}
		if (now && now->count == pass.snapshot->count &&
		    !memcmp(now->image, pass.snapshot->image, now->count * sizeof(struct prepare_image)))
			munmap(pass.snapshot, size);
		else
			__atomic_store_n(&snapshot, pass.snapshot, __ATOMIC_RELEASE);
		return;
	}
}

static int snapshot_used(void)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	return !_dl_find_object;
#else
	return 1;
#endif
}

UNWIND_API int etch_unwind_prepare(void)
{
	struct pass pass = { 0 };

	if (snapshot_used())
		snapshot_make();
	dl_iterate_phdr(prepare_one, &pass);
	if (!pass.seen)
		return ETCH_UNWIND_EINVAL;
	pthread_mutex_lock(&mutex);
	last.missing = pass.missing;
	last.done = 1;
	pthread_mutex_unlock(&mutex);
	return pass.missing;
}

UNWIND_API int etch_unwind_sidecars(const char *directory)
{
	size_t n = directory ? strlen(directory) : 0;

	if (n >= sizeof(sidecars))
		return ETCH_UNWIND_EINVAL;
	pthread_mutex_lock(&mutex);
	if (n)
		memcpy(sidecars, directory, n);
	sidecars[n] = 0;
	sidecars_set = 1;
	generation++;
	pthread_mutex_unlock(&mutex);
	return 0;
}

static int program_find(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct prepare_image im;

	(void)size, (void)arg;
	if ((unsigned long)info->dlpi_phdr != getauxval(AT_PHDR))
		return 0;
	image_of(info, &im);
	if (im.start < im.end) {
		program.bias = im.bias;
		program.phdr = im.phdr;
		program.phnum = im.phnum;
		program.start = im.start;
		/* Last: a signal handler may look. */
		__atomic_store_n(&program.end, im.end, __ATOMIC_RELEASE);
	}
	return 1;
}

__attribute__((constructor(101))) static void lookup_start(void)
{
	const char *directory = secure_getenv("ETCH_SIDECAR_DIR");

	dl_iterate_phdr(program_find, NULL);
	if (directory && !sidecars_set)
		etch_unwind_sidecars(directory);
	pthread_atfork(NULL, NULL, fork_child);
	if (snapshot_used())
		snapshot_make();
}

/* ---- tables in files --------------------------------------------------------------------- */

UNWIND_API const struct etch_unwind *etch_table_in_file(const void *file, size_t file_size, uint64_t *size, uint64_t *address)
{
	const Elf64_Ehdr *h = file;
	const Elf64_Phdr *phdr;
	const struct etch_unwind *u = file;

	*size = file_size;
	*address = 0;
	if (file_size < sizeof(*h) || ((uintptr_t)file & 7))
		return NULL;
	if (memcmp(h->e_ident, ELFMAG, SELFMAG))
		return etch_unwind_valid(u, file_size) && u->encoding == ETCH_ENCODING_BLOCK ? u : NULL;
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != EM_X86_64 ||
	    h->e_phentsize != sizeof(*phdr) || (h->e_phoff & 7) || h->e_phoff > file_size ||
	    h->e_phnum > (file_size - h->e_phoff) / sizeof(*phdr))
		return NULL;
	phdr = (const Elf64_Phdr *)(const void *)((const uint8_t *)file + h->e_phoff);
	for (unsigned i = h->e_phnum; i--;) {
		const Elf64_Phdr *p = &phdr[i];
		struct note n;

		if (p->p_type != PT_LOAD || (p->p_flags & (PF_R | PF_W | PF_X)) != PF_R || p->p_filesz < sizeof(n) ||
		    p->p_offset > file_size || p->p_filesz > file_size - p->p_offset)
			continue;
		memcpy(&n, (const uint8_t *)file + p->p_offset, sizeof(n));
		if (n.type != NOTE_TYPE || n.namesz != 5 || n.descsz != 12 || n.version != NOTE_VERSION || memcmp(n.name, "etch", 5))
			continue;
		if (n.first > p->p_filesz || ((p->p_offset + n.first) & 7))
			return NULL;
		u = (const struct etch_unwind *)(const void *)((const uint8_t *)file + p->p_offset + n.first);
		*size = p->p_filesz - n.first;
		*address = p->p_vaddr + n.first;
		if (!etch_unwind_valid(u, *size))
			return NULL;
		if (u->encoding == ETCH_ENCODING_ORC) {
			struct etch_target_module t = { .table = u, .size = *size, .address = *address };
			struct etch_orc_table o;

			if (!target_orc_open(&t, &o) || !etch_orc_valid(&o))
				return NULL;
		}
		return u;
	}
	return NULL;
}
