/* SPDX-License-Identifier: MIT */
/*
 * loaded.c: finds the loaded module of an address, and which parts of it are readable.
 *
 * RULES OF THIS FILE. loaded_image() and loaded_readable() run in signal context: no malloc, no lock, no thread-local
 * storage, and of libc only _dl_find_object(3), which is async-signal-safe and called without the PLT. Do not
 * introduce any dependency there.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "unwind/loaded.h"
#include "common/sys.h"
#include "unwind/unwind_internal.h"

#define PAGE_DOWN(x) ((x) & ~(uint64_t)4095)

/* The modules that dl_iterate_phdr(3) listed at start and at the last etch_unwind_prepare(), used if libc lacks
 * _dl_find_object. Never freed. */
struct snapshot {
	size_t count;
	struct prepare_image image[];
};
static struct snapshot *snapshot;

/*
 * Modules that are never unloaded: the program, this library, the modules that they need, and the dynamic linker.
 * glibc's _dl_find_object knows only the first segment of a static program (2.36), and of the dynamic linker only the
 * linked image: segments added to the file later lie after that.
 */
struct permanents loaded_permanents;
static struct prepare_image permanent_image[PERMANENT];
/* The vdso, and permanent modules for which loaded_permanents has no space: their headers need no confirmation either.
 */
#define MORE 256
static struct prepare_image more[MORE];
static unsigned more_count;
static struct prepare_image program;

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* libetch is compiled with -fno-plt, so there is no lazy binding in a signal handler. */
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));
#endif

__thread struct confirmed loaded_confirmed __attribute__((tls_model("initial-exec")));

/* ---- headers --------------------------------------------------------------------------- */

/* A module's headers and build-id as they were read. There is one struct for all modules with equal headers and
 * build-id; it is never freed, because struct prepare_image points to it. */
struct head {
	struct head *next;
	struct identity identity;
	struct copies copies;
	Elf64_Phdr phdr[];
};
static struct head *heads;

/* The size of a file's beginning that has the headers and the build-id in nearly every file. */
#define HEAD_BYTES 1536
union head_capacity {
	Elf64_Ehdr header;
	uint8_t bytes[HEAD_BYTES];
};

static struct head *head_of(const struct prepare_image *im)
{
	return (struct head *)((uintptr_t)im->phdr - offsetof(struct head, phdr));
}

const struct identity *loaded_identity(const struct prepare_image *im)
{
	return im->kept ? &head_of(im)->identity : NULL;
}

struct copies *loaded_copies(const struct prepare_image *im) { return &head_of(im)->copies; }

/* Finds the build-id in the bytes of a note segment. Returns 1, or 0. */
static int note_find(const Elf64_Phdr *p, unsigned index, const uint8_t *bytes, struct identity *id)
{
	uint64_t align = p->p_align == 8 ? 8 : 4, at = 0, next;
	Elf64_Nhdr n;

	while (p->p_memsz - at >= sizeof(n)) {
		memcpy(&n, bytes + at, sizeof(n));
		next = sizeof(n) + (((uint64_t)n.n_namesz + align - 1) & ~(align - 1));
		if (next > p->p_memsz - at || n.n_descsz > p->p_memsz - at - next)
			return 0;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(bytes + at + sizeof(n), "GNU", 4) &&
		    n.n_descsz >= 4 && n.n_descsz <= sizeof(id->id) && !(n.n_descsz & 3)) {
			id->note = *p;
			id->note_index = index;
			id->id_offset = (uint32_t)(at + next);
			id->id_size = n.n_descsz;
			memcpy(id->id, bytes + at + next, n.n_descsz);
			return 1;
		}
		next += ((uint64_t)n.n_descsz + align - 1) & ~(align - 1);
		if (next > p->p_memsz - at)
			return 0;
		at += next;
	}
	return 0;
}

void image_build_id(const struct prepare_image *im, struct identity *id)
{
	const struct identity *kept = loaded_identity(im);

	if (kept && kept->id_size) {
		id->note = kept->note;
		id->note_index = kept->note_index;
		id->id_offset = kept->id_offset;
		id->id_size = kept->id_size;
		memcpy(id->id, kept->id, sizeof(id->id));
	}
	for (unsigned i = 0; !kept && i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t at = im->bias + p->p_vaddr;

		if (p->p_type == PT_NOTE && !(at & 3) && loaded_readable(im, at, p->p_memsz) &&
		    note_find(p, i, (const uint8_t *)(uintptr_t)at, id))
			return;
	}
}

/* Does what image_build_id() does, for a module that may be unloaded at any moment; `capacity` holds its first bytes.
 */
static void build_id_read(const struct prepare_image *im, const union head_capacity *capacity, uint64_t have,
                          struct identity *id)
{
	for (unsigned i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t at = im->bias + p->p_vaddr, size = (p->p_memsz + 7) & ~(uint64_t)7;
		int found = 0;
		uint8_t *copy;

		if (p->p_type != PT_NOTE || (at & 3) || size > 65536 || !loaded_readable(im, at, p->p_memsz))
			continue;
		if (at - im->start <= have && p->p_memsz <= have - (at - im->start)) {
			found = note_find(p, i, capacity->bytes + (at - im->start), id);
		} else if ((copy = sys_map(size, 0))) {
			found = !memory_copy(copy, at, size) && note_find(p, i, copy, id);
			sys_munmap(copy, size);
		}
		if (found)
			return;
	}
}

static bool header_is_good(const Elf64_Ehdr *h, uint64_t size)
{
	uint32_t magic;

	memcpy(&magic, h->e_ident, 4);
	return magic == 0x464c457fu && h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_phentsize == sizeof(Elf64_Phdr) &&
	       h->e_phnum && h->e_phnum < PN_XNUM && !(h->e_phoff & 7) && h->e_phoff <= size &&
	       h->e_phnum <= (size - h->e_phoff) / sizeof(Elf64_Phdr);
}

/* The kept copy of these headers; null without memory. */
static const struct head *head_keep(const struct identity *id, const Elf64_Phdr *phdr)
{
	uint64_t size = id->header.e_phnum * sizeof(*phdr);
	struct head *first = __atomic_load_n(&heads, __ATOMIC_ACQUIRE), *h, *new = NULL;

	for (;;) {
		for (h = first; h; h = h->next)
			if (same_words(&h->identity, id, sizeof(*id) / 8) && same_words(h->phdr, phdr, size / 8))
				break;
		if (h) {
			if (new)
				sys_munmap(new, sizeof(*new) + size);
			return h;
		}
		if (!new) {
			new = sys_map(sizeof(*new) + size, 0);
			if (!new)
				return NULL;
			new->identity = *id;
			memcpy(new->phdr, phdr, size);
		}
		new->next = first;
		if (__atomic_compare_exchange_n(&heads, &first, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return new;
	}
}

/*
 * Are the mapped bytes at file offset `off` from the module's start its program headers? In the first page they are,
 * as the ELF header is. Further on, a tool that has moved them (patchelf, for example) may have put them at another
 * distance in memory; im->phdr then points to arbitrary bytes, which do not describe themselves as loaded here.
 */
static int headers_are_here(const struct prepare_image *im, uint64_t off)
{
	uint64_t size = im->phnum * sizeof(*im->phdr);

	if (off + size <= 4096)
		return 1;
	for (unsigned i = im->phnum; i--;) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && off >= p->p_offset && size <= p->p_filesz &&
		    off - p->p_offset <= p->p_filesz - size)
			return im->bias + p->p_vaddr + (off - p->p_offset) == im->start + off;
	}
	return 0;
}

/* Takes the headers from the memory of a module that is never unloaded. */
static int image_headers_here(struct prepare_image *im)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)(uintptr_t)im->start;

	if (im->end - im->start < sizeof(*h) || !header_is_good(h, im->end - im->start))
		return 0;
	im->phdr = (const Elf64_Phdr *)(uintptr_t)(im->start + h->e_phoff);
	im->phnum = h->e_phnum;
	im->kept = false;
	return headers_are_here(im, h->e_phoff);
}

static bool bytes_equal(const uint8_t *a, const uint8_t *b, uint64_t size)
{
	while (size && *a == *b)
		a++, b++, size--;
	return !size;
}

/* The kept headers of this file, if `capacity` identifies it. This is the usual case, and needs no look at each note.
 * Null if the bytes do not identify it. */
static const struct head *head_known(const struct prepare_image *im, const union head_capacity *capacity, uint64_t have)
{
	for (const struct head *h = __atomic_load_n(&heads, __ATOMIC_ACQUIRE); h; h = h->next) {
		const struct identity *id = &h->identity;
		uint64_t at = im->bias + id->note.p_vaddr + id->id_offset - im->start;

		if (id->id_size && id->header.e_shoff == capacity->header.e_shoff && at < have && id->id_size <= have - at &&
		    bytes_equal(capacity->bytes + at, id->id, id->id_size) &&
		    same_words(&id->header, &capacity->header, sizeof(id->header) / 8) &&
		    same_words(h->phdr, im->phdr, im->phnum * sizeof(*im->phdr) / 8))
			return h;
	}
	return NULL;
}

/* Completes the image of a module that may be unloaded at any moment by the program headers that im->phdr points to,
 * and makes im->phdr point to a copy that is kept. Returns 1, or 0. */
static int image_keep(struct prepare_image *im, const union head_capacity *capacity, uint64_t have)
{
	struct identity id;
	const struct head *h;

	/* As the dynamic linker does, takes the first segment to be mapped at im->start. */
	for (unsigned i = 0; i < im->phnum; i++)
		if (im->phdr[i].p_type == PT_LOAD) {
			im->bias = im->start - PAGE_DOWN(im->phdr[i].p_vaddr);
			break;
		}
	if (!headers_are_here(im, capacity->header.e_phoff))
		return 0;
	h = head_known(im, capacity, have);
	if (!h) {
		memset(&id, 0, sizeof(id));
		id.header = capacity->header;
		build_id_read(im, capacity, have, &id);
		h = head_keep(&id, im->phdr);
	}
	if (!h)
		return 0;
	im->phdr = h->phdr;
	im->kept = true;
	return 1;
}

/* Reads the headers of the module that is mapped at [im->start, im->end), which may be unloaded at any moment. */
static __attribute__((noinline)) int image_headers(struct prepare_image *im)
{
	union head_capacity capacity;
	uint64_t size = im->end - im->start, have = size < sizeof(capacity) ? size & ~(uint64_t)7 : sizeof(capacity), bytes;
	Elf64_Phdr *phdr;
	int ret;

	if (have < sizeof(capacity.header) || memory_copy(&capacity, im->start, have) ||
	    !header_is_good(&capacity.header, size))
		return 0;
	im->phnum = capacity.header.e_phnum;
	bytes = im->phnum * sizeof(*phdr);
	if (capacity.header.e_phoff <= have && bytes <= have - capacity.header.e_phoff) {
		im->phdr = (const Elf64_Phdr *)(const void *)(capacity.bytes + capacity.header.e_phoff);
		return image_keep(im, &capacity, have);
	}
	phdr = sys_map(bytes, 0);
	if (!phdr)
		return 0;
	im->phdr = phdr;
	ret = !memory_copy(phdr, im->start + capacity.header.e_phoff, bytes) && image_keep(im, &capacity, have);
	sys_munmap(phdr, bytes);
	return ret;
}

bool loaded_still(const struct prepare_image *im)
{
	struct prepare_image now = {.start = im->start, .end = im->end};

	return image_headers(&now) && now.phdr == im->phdr && now.bias == im->bias;
}

/* Completes the image of the module at [im->start, im->end), which the dynamic linker says is loaded. */
static int image_confirm(struct prepare_image *im)
{
	struct confirmed *c = &loaded_confirmed;
	uint32_t n = c->count < CONFIRMED ? c->count : CONFIRMED;

	for (uint32_t i = 0; i < n; i++)
		if (c->image[i].start == im->start && c->image[i].end == im->end) {
			*im = c->image[i];
			return 1;
		}
	n = __atomic_load_n(&more_count, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++)
		if (more[i].start == im->start) {
			*im = more[i];
			return 1;
		}
	if (!image_headers(im))
		return 0;
	if (!c->busy) {
		c->busy = 1;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		n = c->count;
		c->image[n % CONFIRMED].end = 0;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		c->image[n % CONFIRMED] = *im;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		c->count = n < CONFIRMED ? n + 1 : CONFIRMED + (n + 1) % CONFIRMED;
		c->busy = 0;
	}
	return 1;
}

/* The dynamic linker's list of modules, as debuggers read it (link.h); null if it is not used. */
static const struct r_debug *modules_listed;

/*
 * Finds a module that a libc without _dl_find_object has loaded later, in the dynamic linker's list. Only for musl,
 * which appends to the list and removes entries only after a dlopen(3) that fails.
 */
static int listed_image(uint64_t at, struct prepare_image *im)
{
	const struct r_debug *list = __atomic_load_n(&modules_listed, __ATOMIC_ACQUIRE);

	for (const struct link_map *l = list ? list->r_map : NULL; l; l = l->l_next) {
		struct dl_phdr_info info = {.dlpi_addr = l->l_addr};

		im->start = im->bias = l->l_addr;
		im->end = UINT64_MAX;
		if (!l->l_addr || at < l->l_addr || !image_headers(im))
			continue;
		info.dlpi_phdr = im->phdr;
		info.dlpi_phnum = (Elf64_Half)im->phnum;
		loaded_from(&info, im);
		im->kept = true;
		if (at - im->start < im->end - im->start)
			return 1;
	}
	return 0;
}

int loaded_image(uint64_t at, struct prepare_image *im)
{
	const struct snapshot *s;
	const struct permanent *p = permanent_at(at);

	if (p) {
		*im = permanent_image[p - loaded_permanents.at];
		return 1;
	}
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	struct dl_find_object o;

	if (_dl_find_object) {
		if (_dl_find_object((void *)(uintptr_t)at, &o))
			return 0;
		/* Its link map may be freed at any moment, as the module may be unmapped. */
		im->start = (uint64_t)(uintptr_t)o.dlfo_map_start;
		im->end = (uint64_t)(uintptr_t)o.dlfo_map_end;
		return image_confirm(im);
	}
#endif
	s = __atomic_load_n(&snapshot, __ATOMIC_ACQUIRE);
	for (size_t i = 0; s && i < s->count; i++)
		if (at - s->image[i].start < s->image[i].end - s->image[i].start) {
			*im = s->image[i];
			/* Such a libc may have unmapped the module since then. */
			return stack_page_readable(im->start) && stack_page_readable((uint64_t)(uintptr_t)im->phdr);
		}
	return listed_image(at, im);
}

int loaded_readable(const struct prepare_image *im, uint64_t at, uint64_t size)
{
	for (unsigned i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t start = im->bias + p->p_vaddr;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && at >= start && at - start <= p->p_memsz &&
		    size <= p->p_memsz - (at - start))
			return loaded_inside(im, at, size);
	}
	return 0;
}

const char *loaded_name(uint64_t at)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	struct dl_find_object o;

	if (_dl_find_object && !_dl_find_object((void *)(uintptr_t)at, &o))
		return o.dlfo_link_map->l_name;
#endif
	(void)at;
	return NULL;
}

const char *loaded_path(uint64_t at)
{
	const char *name = loaded_name(at);

	return name && name[0] == '/' ? name : NULL;
}

bool loaded_is_program(const struct prepare_image *im) { return im->start == program.start; }

struct permanent *loaded_is_permanent(const struct prepare_image *im) { return permanent_at(im->start); }

void loaded_from(const struct dl_phdr_info *info, struct prepare_image *im)
{
	im->bias = info->dlpi_addr;
	im->phdr = info->dlpi_phdr;
	im->phnum = info->dlpi_phnum;
	im->kept = false;
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

/* ---- without _dl_find_object ------------------------------------------------------ */

struct snapshot_request {
	struct snapshot *snapshot;
	size_t capacity; /* capacity in modules */
};

static int snapshot_add(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct snapshot_request *snapshot_request = arg;
	struct prepare_image im;

	(void)size;
	loaded_from(info, &im);
	if (im.start >= im.end)
		return 0;
	if (snapshot_request->snapshot->count < snapshot_request->capacity)
		snapshot_request->snapshot->image[snapshot_request->snapshot->count] = im;
	snapshot_request->snapshot->count++;
	return 0;
}

static void snapshot_make(void)
{
	struct snapshot_request snapshot_request = {.capacity = 64};
	struct snapshot *now = __atomic_load_n(&snapshot, __ATOMIC_ACQUIRE);

	for (;;) {
		uint64_t size = sizeof(struct snapshot) + snapshot_request.capacity * sizeof(struct prepare_image);

		snapshot_request.snapshot = sys_map(size, 0);
		if (!snapshot_request.snapshot)
			return;
		dl_iterate_phdr(snapshot_add, &snapshot_request);
		if (snapshot_request.snapshot->count > snapshot_request.capacity) {
			snapshot_request.capacity = 2 * snapshot_request.snapshot->count;
			munmap(snapshot_request.snapshot, size);
			continue;
		}
		if (now && now->count == snapshot_request.snapshot->count &&
		    !memcmp(now->image, snapshot_request.snapshot->image, now->count * sizeof(struct prepare_image)))
			munmap(snapshot_request.snapshot, size);
		else
			__atomic_store_n(&snapshot, snapshot_request.snapshot, __ATOMIC_RELEASE);
		return;
	}
}

/* Is the snapshot used: does libc lack _dl_find_object? */
static int snapshot_used(void)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	return !_dl_find_object;
#else
	return 1;
#endif
}

void loaded_refresh(void)
{
	if (snapshot_used())
		snapshot_make();
}

/* ---- modules that are never unloaded -------------------------------------------------- */

#define NEEDED 64

/* The names that the permanent modules found so far need, and whether a module has been found for each. */
struct needed {
	const char *name[NEEDED];
	bool found[NEEDED];
	unsigned count, permanent;
};

static void more_add(const struct prepare_image *im)
{
	unsigned n = more_count;

	if (n == MORE)
		return;
	more[n] = *im;
	/* Published last, as below. */
	__atomic_store_n(&more_count, n + 1, __ATOMIC_RELEASE);
}

static void permanent_add(struct needed *needed, const struct dl_phdr_info *info, const struct prepare_image *im)
{
	struct permanents *all = &loaded_permanents;
	unsigned n = needed->permanent;

	if (n == PERMANENT) {
		more_add(im);
		return;
	}
	needed->permanent++;
	permanent_image[n] = *im;
	if (info->dlpi_phdr == (const Elf64_Phdr *)getauxval(AT_PHDR))
		program = *im;
	all->at[n].start = im->start;
	/* Published last, because a signal handler may read concurrently. */
	__atomic_store_n(&all->at[n].size, im->end - im->start, __ATOMIC_RELEASE);
	if (!n)
		return;
	if (!all->lo || im->start < all->lo)
		__atomic_store_n(&all->lo, im->start, __ATOMIC_RELEASE);
	if (im->end > all->hi)
		__atomic_store_n(&all->hi, im->end, __ATOMIC_RELEASE);
}

/* A symbol of glibc's dynamic linker; its address identifies the linker's module. Any of its symbols would do to
 * which nothing else in a static program refers: lld takes a weak reference for a strong one if another object has a
 * strong one, as Rust's standard library has to __tls_get_addr. */
extern struct r_debug _r_debug __attribute__((weak));

static int is_linker(const struct dl_phdr_info *info)
{
	unsigned long base = getauxval(AT_BASE);
	struct prepare_image im;

	if (base)
		return info->dlpi_addr == base;
	/* AT_BASE is 0 in a static program, and if the dynamic linker itself was started as the program. In the latter case
	 * the dynamic linker is the module that contains _r_debug. */
	loaded_from(info, &im);
	return &_r_debug && im.start < im.end && (uint64_t)(uintptr_t)&_r_debug - im.start < im.end - im.start;
}

const Elf64_Dyn *loaded_dynamic(const struct prepare_image *im)
{
	for (unsigned i = 0; i < im->phnum; i++)
		if (im->phdr[i].p_type == PT_DYNAMIC && loaded_inside(im, im->bias + im->phdr[i].p_vaddr, im->phdr[i].p_memsz))
			return (const Elf64_Dyn *)(uintptr_t)(im->bias + im->phdr[i].p_vaddr);
	return NULL;
}

/* The string table of a module in memory; null if it has none. glibc has relocated the entry, musl has not. */
static const char *dynamic_names(const struct prepare_image *im, const Elf64_Dyn *d)
{
	for (; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB) {
			uint64_t at = dynamic_address(im, d->d_un.d_ptr);

			return loaded_inside(im, at, 1) ? (const char *)(uintptr_t)at : NULL;
		}
	return NULL;
}

static void needed_add(struct needed *needed, const char *name)
{
	for (unsigned i = 0; i < needed->count; i++)
		if (!strcmp(needed->name[i], name))
			return;
	if (needed->count == NEEDED)
		return;
	needed->found[needed->count] = false;
	needed->name[needed->count++] = name;
}

/* Is a module with this path and DT_SONAME one that a permanent module needs? It is if it is the first one in the
 * dynamic linker's list whose file name or DT_SONAME is the needed name. */
static bool needed_is(struct needed *needed, const char *path, const char *soname)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	bool ret = false;

	for (unsigned i = 0; i < needed->count; i++)
		if (!strcmp(needed->name[i], file) || !strcmp(needed->name[i], path) ||
		    (soname && !strcmp(needed->name[i], soname))) {
			ret |= !needed->found[i];
			needed->found[i] = true;
		}
	return ret;
}

/*
 * Are the headers at the start of a module those that the dynamic linker has read? They are not in a module linked
 * without them, or if a tool has moved them. The check relies on the dynamic linker's description alone: valgrind
 * reports it as an error to ask the kernel what can be read.
 */
static bool headers_at_start(const struct dl_phdr_info *info, const struct prepare_image *im)
{
	const Elf64_Phdr *p = info->dlpi_phdr, *end = p + info->dlpi_phnum;
	uint64_t size = (uint64_t)((uintptr_t)end - im->start);

	while (p < end && (p->p_type != PT_LOAD || im->bias + p->p_vaddr != im->start))
		p++;
	return p < end && (p->p_flags & PF_R) && size <= p->p_filesz && size <= 4096;
}

/* Called for the modules in the dynamic linker's order, in which the modules that a module needs first follow it. */
static int permanent_find(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct needed *needed = arg;
	const Elf64_Dyn *d, *e;
	const char *names, *soname = NULL;
	struct prepare_image im;
	uint64_t own = (uint64_t)(uintptr_t)&program;
	bool is_program = (unsigned long)info->dlpi_phdr == getauxval(AT_PHDR);

	(void)size;
	loaded_from(info, &im);
	if (im.start >= im.end)
		return 0;
	if (im.start == getauxval(AT_SYSINFO_EHDR)) {
		more_add(&im);
		return 0;
	}
	d = loaded_dynamic(&im);
	names = dynamic_names(&im, d);
	for (e = d; names && e->d_tag != DT_NULL; e++)
		if (e->d_tag == DT_SONAME)
			soname = names + e->d_un.d_val;
	if (!needed_is(needed, info->dlpi_name ? info->dlpi_name : "", soname) && !is_program && !is_linker(info) &&
	    own - im.start >= im.end - im.start)
		return 0;
	for (e = d; names && e->d_tag != DT_NULL; e++)
		if (e->d_tag == DT_NEEDED)
			needed_add(needed, names + e->d_un.d_val);
	if (!is_program && !is_linker(info) && !(headers_at_start(info, &im) && image_headers_here(&im)))
		return 0;
	permanent_add(needed, info, &im);
	return 0;
}

/* Only glibc defines this. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* Finds the dynamic linker's list: DT_DEBUG of the program. */
static void list_find(void)
{
	for (const Elf64_Dyn *d = loaded_dynamic(&program); d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_DEBUG)
			__atomic_store_n(&modules_listed, (const struct r_debug *)(uintptr_t)d->d_un.d_ptr, __ATOMIC_RELEASE);
}

__attribute__((constructor(101))) static void loaded_start(void)
{
	struct needed needed = {.count = 0};

	dl_iterate_phdr(permanent_find, &needed);
	loaded_refresh();
	if (snapshot_used() && !gnu_get_libc_version)
		list_find();
}
