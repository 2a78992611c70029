/* SPDX-License-Identifier: MIT */
/*
 * modules.c: finds the modules with code on a recorded stack, through libetch's lookup, which takes no lock, and the
 * kernel's description of the mapping. It copies them with the build-id, because the module may be unloaded and the
 * process may end.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/sys.h"
#include "heap/stack_tree.h"
#include "unwind/loaded.h"

#define PAGES     256u /* pages of the cache, 64 KiB of code each */
#define PAGE_BITS 16
#define PATH_MOST 4096

struct known {
	uint64_t start, end; /* addresses of the mapping */
	uint16_t number;
};

static struct known cache[PAGES];
static struct {
	struct known *list; /* unsorted: programs have few mappings with code */
	unsigned count, capacity;
	unsigned numbers; /* number of records in the file */
} modules;

void modules_forget(void)
{
	modules.count = 0;
	memset(cache, 0, sizeof(cache));
}

void modules_clear(void)
{
	modules_forget();
	recorder_unmap(modules.list, modules.capacity * sizeof(*modules.list));
	modules.list = NULL;
	modules.capacity = modules.numbers = 0;
}

/* ---- the kernel's list of mappings ------------------------------------------- */

struct mapping {
	uint64_t start, end, inode;
	uint32_t major, minor;
	char path[PATH_MOST];
	size_t length;
};

static const char *hexadecimal(const char *s, const char *end, uint64_t *out)
{
	for (*out = 0; s < end; s++) {
		char c = *s;

		if (c >= '0' && c <= '9')
			*out = *out * 16 + (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			*out = *out * 16 + (uint64_t)(c - 'a') + 10;
		else
			break;
	}
	return s < end ? s + 1 : end;
}

/* Parses a line of /proc/PID/maps. Returns true if it is the mapping with this address. */
static bool line_take(const char *s, const char *end, uint64_t at, struct mapping *m)
{
	uint64_t number;

	s = hexadecimal(s, end, &m->start);
	s = hexadecimal(s, end, &m->end);
	if (at < m->start || at >= m->end)
		return false;
	while (s < end && *s != ' ') /* rights */
		s++;
	s = hexadecimal(s < end ? s + 1 : s, end, &number); /* offset */
	s = hexadecimal(s, end, &number);
	m->major = (uint32_t)number;
	s = hexadecimal(s, end, &number);
	m->minor = (uint32_t)number;
	for (m->inode = 0; s < end && *s >= '0' && *s <= '9'; s++)
		m->inode = m->inode * 10 + (uint64_t)(*s - '0');
	while (s < end && *s == ' ')
		s++;
	m->length = (size_t)(end - s) < PATH_MOST - 1 ? (size_t)(end - s) : PATH_MOST - 1;
	memcpy(m->path, s, m->length);
	m->path[m->length] = 0;
	return true;
}

static bool mapping_find(uint64_t at, struct mapping *m)
{
	static char text[4 * PATH_MOST]; /* under the lock */
	size_t have = 0;
	bool found = false;
	long fd = sys_call6(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0), n;

	while (fd >= 0 && !found && (n = sys_call3(SYS_read, fd, (long)(text + have), (long)(sizeof(text) - have))) > 0) {
		char *line = text, *end;

		have += (size_t)n;
		while (!found && (end = memchr(line, '\n', have - (size_t)(line - text)))) {
			found = line_take(line, end, at, m);
			line = end + 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
		if (have == sizeof(text))
			have = 0; /* no path is that long */
	}
	if (fd >= 0)
		sys_call3(SYS_close, fd, 0, 0);
	return found;
}

/* ---- without the kernel's list ---------------------------------------------------- */

static bool is_vdso(const struct prepare_image *im) { return im->start == getauxval(AT_SYSINFO_EHDR); }

/* Finds the full path of the module's file, as the program named it. */
static bool path_find(uint64_t at, const struct prepare_image *im, struct mapping *m)
{
	const char *name = loaded_name(at);
	size_t n = 0;
	long ret;

	if (loaded_is_program(im)) {
		ret = sys_call6(SYS_readlink, (long)"/proc/self/exe", (long)m->path, PATH_MOST - 1, 0, 0, 0);
		if (ret > 0) {
			m->length = (size_t)ret;
			m->path[ret] = 0;
			return true;
		}
		name = (const char *)getauxval(AT_EXECFN); // NOLINT
	}
	if (is_vdso(im))
		name = "[vdso]";
	if (!name || !*name)
		return false;
	if (name[0] != '/' && name[0] != '[') {
		ret = sys_call3(SYS_getcwd, (long)m->path, PATH_MOST, 0);
		if (ret <= 0 || m->path[0] != '/')
			return false;
		n = strlen(m->path);
		m->path[n++] = '/';
	}
	if (n + strlen(name) >= PATH_MOST)
		return false;
	memcpy(m->path + n, name, strlen(name) + 1);
	m->length = n + strlen(name);
	return true;
}

/*
 * Derives what /proc/self/maps would say from the module's headers, if no descriptor is free to read that file, or
 * /proc is not mounted. The inode is that of the path at this moment; etch compares the build-id if there is one.
 */
static bool mapping_derive(uint64_t at, const struct prepare_image *im, struct mapping *m)
{
	struct stat st = {0};

	*m = (struct mapping){0};
	for (unsigned i = 0; i < im->phnum && !m->end; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t start = im->bias + p->p_vaddr;

		if (p->p_type == PT_LOAD && at - start < p->p_memsz) {
			m->start = start & ~4095ull;
			m->end = (start + p->p_memsz + 4095) & ~4095ull;
		}
	}
	if (!m->end || !path_find(at, im, m))
		return false;
	if (!sys_call6(SYS_newfstatat, AT_FDCWD, (long)m->path, (long)&st, 0, 0, 0)) {
		m->inode = st.st_ino;
		m->major = major(st.st_dev);
		m->minor = minor(st.st_dev);
	}
	return true;
}

/* ---- the record ------------------------------------------------------------------ */

static void build_id_copy(const struct prepare_image *im, struct heap_module *r)
{
	for (unsigned i = 0; i < im->phnum && !r->build_id_size; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t at = im->bias + p->p_vaddr, end = at + p->p_memsz;

		if (p->p_type != PT_NOTE || !loaded_readable(im, at, p->p_memsz))
			continue;
		while (end - at >= sizeof(Elf64_Nhdr)) {
			const Elf64_Nhdr *n = (const void *)(uintptr_t)at;
			uint64_t name = at + sizeof(*n), desc = name + (((uint64_t)n->n_namesz + 3) & ~3ull);

			if (desc > end || n->n_descsz > end - desc)
				break;
			if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && n->n_descsz && n->n_descsz <= sizeof(r->build_id) &&
			    !memcmp((const void *)(uintptr_t)name, "GNU", 4)) {
				r->build_id_size = (uint8_t)n->n_descsz;
				memcpy(r->build_id, (const void *)(uintptr_t)desc, n->n_descsz);
				break;
			}
			at = desc + (((uint64_t)n->n_descsz + 3) & ~3ull);
			if (at > end)
				break;
		}
	}
}

/* Appends a record. Returns its number, or HEAP_MODULE_LOST. */
static uint16_t record_add(const struct prepare_image *im, const struct mapping *m)
{
	uint64_t at = recording.head->module_size;
	uint32_t size = (uint32_t)((sizeof(struct heap_module) + m->length + 1 + 7) & ~7ull);
	struct heap_module *r;

	if (modules.numbers + 1 == HEAP_MODULE_LOST || !region_has(&recording.modules, at + size))
		return HEAP_MODULE_LOST;
	r = (void *)(recording.modules.at + at);
	*r = (struct heap_module){.size = size, .start = m->start, .end = m->end, .bias = im->bias, .inode = m->inode};
	r->major = m->major;
	r->minor = m->minor;
	memcpy(r->path, m->path, m->length + 1);
	build_id_copy(im, r);
	__atomic_store_n(&recording.head->module_size, at + size, __ATOMIC_RELEASE);
	return (uint16_t)++modules.numbers;
}

static bool known_add(const struct known *k)
{
	struct known *more;

	if (modules.count == modules.capacity) {
		more = recorder_map((modules.capacity + 256) * sizeof(*more));
		if (!more)
			return false;
		if (modules.list)
			memcpy(more, modules.list, modules.count * sizeof(*more));
		recorder_unmap(modules.list, modules.capacity * sizeof(*more));
		modules.list = more;
		modules.capacity += 256;
	}
	modules.list[modules.count++] = *k;
	return true;
}

uint16_t module_number(uint64_t at)
{
	static struct mapping m; /* under the lock */
	struct known *fast = &cache[at >> PAGE_BITS & (PAGES - 1)], k;
	struct prepare_image im;

	if (at >= fast->start && at < fast->end)
		return fast->number;
	for (unsigned i = 0; i < modules.count; i++) {
		if (at >= modules.list[i].start && at < modules.list[i].end) {
			*fast = modules.list[i];
			return fast->number;
		}
	}
	if (!loaded_image(at, &im))
		return 0; /* code made at run time */
	k.number = HEAP_MODULE_LOST;
	if (mapping_find(at, &m) || mapping_derive(at, &im, &m))
		k = (struct known){.start = m.start, .end = m.end, .number = record_add(&im, &m)};
	if (k.number == HEAP_MODULE_LOST)
		recording.head->lost_module++;
	else if (known_add(&k))
		*fast = k;
	return k.number;
}
