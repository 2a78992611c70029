/* SPDX-License-Identifier: MIT */
/*
 * loaded.c: finds the loaded module of an address, and which parts of it are readable.
 *
 * RULES OF THIS FILE. loaded_image() and loaded_readable() run in signal context: no malloc, no
 * lock, no thread-local storage, no libc but _dl_find_object(3), which is async-signal-safe and
 * called without the PLT. Do not introduce any dependency there.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "unwind/loaded.h"
#include "common/sys.h"
#include "unwind/unwind_internal.h"

#define PAGE_DOWN(x) ((x) & ~(uint64_t)4095)

/* Used where libc lacks _dl_find_object: the modules that dl_iterate_phdr(3) listed at start and
 * at the last etch_unwind_prepare(). Never freed. */
struct snapshot {
	size_t count;
	struct prepare_image image[];
};
static struct snapshot *snapshot;

/*
 * Modules that are never unloaded: the program and this library with what they need, and the dynamic linker. glibc's
 * _dl_find_object knows only the first segment of a static program (2.36), and of the dynamic linker only the linked
 * image: segments added to the file later lie behind it.
 */
struct permanents loaded_permanents;
static struct prepare_image permanent_image[PERMANENT];
static struct prepare_image program;

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* libetch is compiled with -fno-plt: no lazy binding in a signal handler. */
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));
#endif

/*
 * Cache of readable headers. A module may have unreadable pages between its segments, and a
 * segment may lack PF_R, so the kernel is asked once per place. One entry in one word: address of
 * the first page | number of further pages. An entry becomes wrong if its module is unloaded and a
 * module without readable headers is mapped at the same place: such a load faults.
 */
#define ASKED_SLOTS 128
static uint64_t asked[ASKED_SLOTS];

/* The entry for [at, at+size), and where it is. */
static uint64_t *asked_slot(uint64_t at, uint64_t size, uint64_t *key)
{
	uint64_t page = PAGE_DOWN(at);

	*key = page | (PAGE_DOWN(at + size - 1) - page) >> 12;
	return &asked[(page >> 12) * 0x9e3779b97f4a7c15u >> 57];
}

static int headers_readable(uint64_t at, uint64_t size)
{
	uint64_t key, *slot = asked_slot(at, size, &key);

	if (__atomic_load_n(slot, __ATOMIC_RELAXED) == key)
		return 1;
	for (uint64_t p = PAGE_DOWN(at); p < at + size; p += 4096)
		if (!stack_page_readable(p))
			return 0;
	__atomic_store_n(slot, key, __ATOMIC_RELAXED);
	return 1;
}

/*
 * Are the mapped bytes at file offset `off` from the module's start its program headers? In the
 * first page they are, as the ELF header is. Further on, a tool that has moved them (patchelf, for
 * one) may have put them at another distance in memory; im->phdr then points to arbitrary bytes,
 * which do not describe themselves as loaded here.
 */
static int headers_are_here(const struct prepare_image *im, uint64_t off)
{
	uint64_t size = im->phnum * sizeof(*im->phdr);

	if (off + size <= 4096)
		return 1;
	if (!headers_readable(im->start + off, size))
		return 0;
	for (unsigned i = im->phnum; i--;) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && off >= p->p_offset && size <= p->p_filesz &&
		    off - p->p_offset <= p->p_filesz - size)
			return im->bias + p->p_vaddr + (off - p->p_offset) == im->start + off;
	}
	return 0;
}

/* Reads the ELF header and the program headers of a mapped module. Returns 1, or 0. */
static int image_headers(struct prepare_image *im)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)(uintptr_t)im->start;
	uint32_t magic;

	if (im->end - im->start < sizeof(*h) || !headers_readable(im->start, sizeof(*h)))
		return 0;
	memcpy(&magic, h->e_ident, 4);
	if (magic != 0x464c457fu || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_phentsize != sizeof(Elf64_Phdr) ||
	    !h->e_phnum || h->e_phnum >= PN_XNUM || (h->e_phoff & 7) || h->e_phoff > im->end - im->start ||
	    h->e_phnum > (im->end - im->start - h->e_phoff) / sizeof(Elf64_Phdr))
		return 0;
	im->phdr = (const Elf64_Phdr *)(uintptr_t)(im->start + h->e_phoff);
	im->phnum = h->e_phnum;
	return headers_are_here(im, h->e_phoff);
}

/*
 * A module that a libc without _dl_find_object has loaded since, from the dynamic linker's list as debuggers read it
 * (link.h). For musl only, which appends to the list and takes nothing out but after a dlopen(3) that fails.
 */
static const struct r_debug *modules_listed;

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
			/* Such a libc may have unmapped the module since. */
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
	size_t room; /* capacity in modules */
};

static int snapshot_add(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct snapshot_request *snapshot_request = arg;
	struct prepare_image im;

	(void)size;
	loaded_from(info, &im);
	if (im.start >= im.end)
		return 0;
	if (snapshot_request->snapshot->count < snapshot_request->room)
		snapshot_request->snapshot->image[snapshot_request->snapshot->count] = im;
	snapshot_request->snapshot->count++;
	return 0;
}

static void snapshot_make(void)
{
	struct snapshot_request snapshot_request = {.room = 64};
	struct snapshot *now = __atomic_load_n(&snapshot, __ATOMIC_ACQUIRE);

	for (;;) {
		uint64_t size = sizeof(struct snapshot) + snapshot_request.room * sizeof(struct prepare_image);

		snapshot_request.snapshot = sys_map(size, 0);
		if (!snapshot_request.snapshot)
			return;
		dl_iterate_phdr(snapshot_add, &snapshot_request);
		if (snapshot_request.snapshot->count > snapshot_request.room) {
			snapshot_request.room = 2 * snapshot_request.snapshot->count;
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

/* ---- modules that stay ------------------------------------------------------------- */

#define NEEDED 64

/* The names that the permanent modules found so far need, and whether a module has been found for each. */
struct needed {
	const char *name[NEEDED];
	bool found[NEEDED];
	unsigned count, permanent;
};

static void permanent_add(struct needed *needed, const struct dl_phdr_info *info, const struct prepare_image *im)
{
	struct permanents *all = &loaded_permanents;
	unsigned n = needed->permanent;

	if (n == PERMANENT)
		return;
	needed->permanent++;
	permanent_image[n] = *im;
	if (info->dlpi_phdr == (const Elf64_Phdr *)getauxval(AT_PHDR))
		program = *im;
	all->at[n].start = im->start;
	/* Published last: a signal handler may read concurrently. */
	__atomic_store_n(&all->at[n].size, im->end - im->start, __ATOMIC_RELEASE);
	if (!n)
		return;
	if (!all->lo || im->start < all->lo)
		__atomic_store_n(&all->lo, im->start, __ATOMIC_RELEASE);
	if (im->end > all->hi)
		__atomic_store_n(&all->hi, im->end, __ATOMIC_RELEASE);
}

/* Defined by glibc's dynamic linker, whose module its address tells: any of its symbols would do to which nothing else
 * of a static program refers. lld takes a weak reference for a strong one if another object has that, as Rust's
 * standard library has to __tls_get_addr. */
extern struct r_debug _r_debug __attribute__((weak));

static int is_linker(const struct dl_phdr_info *info)
{
	unsigned long base = getauxval(AT_BASE);
	struct prepare_image im;

	if (base)
		return info->dlpi_addr == base;
	/* If the dynamic linker was run as a program, no other copy of it is loaded. */
	loaded_from(info, &im);
	return &_r_debug && im.start < im.end && (uint64_t)(uintptr_t)&_r_debug - im.start < im.end - im.start;
}

static const Elf64_Dyn *dynamic_section(const struct prepare_image *im)
{
	for (unsigned i = 0; i < im->phnum; i++)
		if (im->phdr[i].p_type == PT_DYNAMIC)
			return (const Elf64_Dyn *)(uintptr_t)(im->bias + im->phdr[i].p_vaddr);
	return NULL;
}

/* The names of a module in memory; null if it has none. glibc has relocated the entry, musl has not. */
static const char *dynamic_names(const struct prepare_image *im, const Elf64_Dyn *d)
{
	for (; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB) {
			uint64_t at = loaded_inside(im, d->d_un.d_ptr, 1) ? d->d_un.d_ptr : im->bias + d->d_un.d_ptr;

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

/* Is this the module that a permanent one needs: the first in the dynamic linker's list with that file's name or
 * DT_SONAME? */
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
 * Are the headers at the start of a module those that the dynamic linker has read? Not so in one linked without them,
 * or where a tool has moved them. By its word alone: asking the kernel what can be read is an error for valgrind.
 */
static bool headers_at_start(const struct dl_phdr_info *info, const struct prepare_image *im)
{
	const Elf64_Phdr *p = info->dlpi_phdr, *end = p + info->dlpi_phnum;
	uint64_t size = (uint64_t)((uintptr_t)end - im->start), key;

	while (p < end && (p->p_type != PT_LOAD || im->bias + p->p_vaddr != im->start))
		p++;
	if (p == end || !(p->p_flags & PF_R) || size > p->p_filesz || size > 4096)
		return false;
	*asked_slot(im->start, sizeof(Elf64_Ehdr), &key) = key;
	return true;
}

/* Called for the modules in the dynamic linker's order, in which those that a module needs first follow it. */
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
	d = dynamic_section(&im);
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
	if (!is_program && !is_linker(info) && !(headers_at_start(info, &im) && image_headers(&im)))
		return 0;
	permanent_add(needed, info, &im);
	return 0;
}

/* Defined by glibc alone. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* Finds the dynamic linker's list: DT_DEBUG of the program. */
static void list_find(void)
{
	for (const Elf64_Dyn *d = dynamic_section(&program); d && d->d_tag != DT_NULL; d++)
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
