/* SPDX-License-Identifier: MIT */
/*
 * function_info.c: the bounds, LSDA, personality and name of the function at an address.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc, no lock, no
 * thread-local storage, and of libc only memcpy; files are read by system calls. Do not introduce any dependency
 * there.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "interfaces/function_info.h"
#include "common/sys.h"
#include "unwind/eh_view.h"
#include "unwind/recover.h"
#include "unwind/registered_frames.h"

int function_info(uint64_t at, struct function_info *out)
{
	struct prepare_image im;
	struct etch_cfi cfi;
	struct etch_fde fde;
	struct eh_view v;
	uint64_t personality;

	if (!loaded_image(at, &im)) {
		if (!registered_fde(at, &cfi, &fde))
			return 0;
		*out = (struct function_info){fde.start, fde.end, fde.lsda,
		                              fde.cie.personality_indirect ? 0 : fde.cie.personality};
		return 1;
	}
	if (!recover_fde(&im, at, &v, &fde))
		return 0;
	eh_view_close(&v);
	out->start = im.bias + fde.start;
	out->end = im.bias + fde.end;
	out->lsda = fde.lsda ? im.bias + fde.lsda : 0;
	personality = fde.cie.personality ? im.bias + fde.cie.personality : 0;
	if (personality && fde.cie.personality_indirect) {
		uint64_t from = personality;

		if (!loaded_readable(&im, from, 8) || memory_copy(&personality, from, 8))
			personality = 0;
	}
	out->personality = personality;
	return 1;
}

/* ---- names --------------------------------------------------------------------- */

struct mapped {
	const uint8_t *bytes;
	uint64_t size;
};

static int file_map(const char *path, struct mapped *m)
{
	struct stat st;
	long fd = sys_call3(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC), p;

	if (fd < 0)
		return 0;
	p = sys_call3(SYS_fstat, fd, (long)&st, 0);
	if (p == 0 && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof(Elf64_Ehdr))
		p = sys_call6(SYS_mmap, 0, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	else
		p = -1;
	sys_call3(SYS_close, fd, 0, 0);
	if (p < 0 && p > -4096)
		return 0;
	m->bytes = (const uint8_t *)p;
	m->size = (uint64_t)st.st_size;
	return 1;
}

static int has(const struct mapped *m, uint64_t at, uint64_t size) { return at <= m->size && size <= m->size - at; }

static int section_at(const struct mapped *m, uint64_t index, Elf64_Shdr *s)
{
	Elf64_Ehdr h;

	memcpy(&h, m->bytes, sizeof(h));
	if (index >= h.e_shnum || h.e_shentsize != sizeof(*s) || !has(m, h.e_shoff, (uint64_t)h.e_shnum * sizeof(*s)))
		return 0;
	memcpy(s, m->bytes + h.e_shoff + index * sizeof(*s), sizeof(*s));
	return s->sh_type == SHT_NOBITS || has(m, s->sh_offset, s->sh_size);
}

/* Finds the function symbol of this table that contains a link-time address; it prefers global symbols, as a debugger
 * does. Returns 1, or 0 if there is none. */
static int symbol_find(const struct mapped *m, const Elf64_Shdr *table, uint64_t at, Elf64_Sym *found)
{
	uint64_t count = table->sh_size / sizeof(Elf64_Sym);
	int have = 0;

	for (uint64_t i = 1; i < count; i++) {
		unsigned type;
		Elf64_Sym s;

		memcpy(&s, m->bytes + table->sh_offset + i * sizeof(s), sizeof(s));
		type = ELF64_ST_TYPE(s.st_info);
		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s.st_shndx == SHN_UNDEF || at < s.st_value ||
		    at - s.st_value >= s.st_size)
			continue;
		if (have && (s.st_value < found->st_value ||
		             (s.st_value == found->st_value && ELF64_ST_BIND(found->st_info) != STB_LOCAL)))
			continue;
		*found = s;
		have = 1;
	}
	return have;
}

static int name_copy(const struct mapped *m, const Elf64_Shdr *strings, const Elf64_Sym *s, char *name, size_t size)
{
	size_t n = 0;

	for (uint64_t at = s->st_name; at < strings->sh_size; at++, n++) {
		uint8_t c = m->bytes[strings->sh_offset + at];

		if (n == size)
			break;
		name[n] = (char)c;
		if (!c)
			return 1;
	}
	if (size)
		name[n < size ? n : size - 1] = 0;
	return -1;
}

/* Is the file the one that is mapped? It may have been replaced. */
static int same_file(const struct mapped *m, const struct prepare_image *im)
{
	return loaded_readable(im, im->start, sizeof(Elf64_Ehdr)) &&
	       !memcmp(m->bytes, (const void *)(uintptr_t)im->start, sizeof(Elf64_Ehdr)) &&
	       !memcmp(m->bytes, "\177ELF\2", 5);
}

static int name_in(const struct mapped *m, uint64_t at, char *name, size_t size, uint64_t *offset)
{
	static const uint32_t types[2] = {SHT_SYMTAB, SHT_DYNSYM};
	Elf64_Shdr table, strings;
	Elf64_Ehdr h;
	Elf64_Sym s = {0};

	memcpy(&h, m->bytes, sizeof(h));
	for (unsigned kind = 0; kind < 2; kind++)
		for (unsigned i = 1; i < h.e_shnum; i++) {
			if (!section_at(m, i, &table) || table.sh_type != types[kind] || !section_at(m, table.sh_link, &strings) ||
			    strings.sh_type != SHT_STRTAB || !symbol_find(m, &table, at, &s))
				continue;
			if (offset)
				*offset = at - s.st_value;
			return name_copy(m, &strings, &s, name, size);
		}
	return 0;
}

int function_name(uint64_t at, char *name, size_t size, uint64_t *offset)
{
	const char *path = "/proc/self/exe";
	struct prepare_image im;
	struct mapped m;
	int ret = 0;

	if (!loaded_image(at, &im))
		return 0;
	if (!loaded_is_program(&im))
		path = loaded_path(at);
	if (!path || !file_map(path, &m))
		return 0;
	if (same_file(&m, &im))
		ret = name_in(&m, at - im.bias, name, size, offset);
	sys_munmap((void *)(uintptr_t)m.bytes, m.size);
	return ret;
}
