/* SPDX-License-Identifier: MIT */
/* Reads an ELF file, checks headers, sections, symbols and relocations once, and unpacks them into the arrays of
 * file.h. */
#include "elf/file.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_read(const char *path, uint8_t **bytes, size_t *size, struct error *e)
{
	struct file_mark mark;

	return file_read_marked(path, bytes, size, &mark, e);
}

bool file_is_written_since(int fd, const struct file_mark *mark)
{
	struct stat st;

	return fstat(fd, &st) || (uint64_t)st.st_size != mark->size || st.st_mtim.tv_sec != mark->written.tv_sec ||
	       st.st_mtim.tv_nsec != mark->written.tv_nsec;
}

/*
 * Reads a file into zeroed memory, and skips the holes of a sparse file, whose pages then take no memory until they are
 * written. Returns the number of bytes, which is less than `size` if the file was truncated meanwhile, or -1 with
 * errno.
 */
static ssize_t contents_read(int fd, uint8_t *bytes, size_t size)
{
	size_t at = 0;

	while (at < size) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO) { /* a hole extends to the end, or the file has been truncated */
			struct stat st;

			if (fstat(fd, &st))
				return -1;
			return st.st_size < (off_t)size ? st.st_size : (ssize_t)size;
		}
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0) { /* the file system does not support this: read all of the rest */
			data = (off_t)at;
			hole = (off_t)size;
		}
		if (lseek(fd, data, SEEK_SET) < 0)
			return -1;
		for (at = (size_t)data; at < size && at < (size_t)hole;) {
			ssize_t n = read(fd, bytes + at, ((size_t)hole < size ? (size_t)hole : size) - at);

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n ? -1 : (ssize_t)at;
			at += (size_t)n;
		}
	}
	return (ssize_t)size;
}

int file_open_marked(const char *path, struct file_mark *mark, struct error *e)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return error_set(e, "%s", strerror(errno));
	if (fstat(fd, &st) < 0) {
		error_set(e, "%s", strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		error_set(e, "%s", S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file");
	} else {
		*mark = (struct file_mark){(uint64_t)st.st_size, st.st_mtim, (uint64_t)st.st_dev, (uint64_t)st.st_ino,
		                           (uint64_t)st.st_nlink};
		return fd;
	}
	close(fd);
	return -1;
}

int file_read_marked(const char *path, uint8_t **bytes, size_t *size, struct file_mark *mark, struct error *e)
{
	ssize_t got;
	int fd = file_open_marked(path, mark, e);

	*bytes = NULL;
	*size = 0;
	if (fd < 0)
		return -1;
	bounds_add(path, mark->size);
	*bytes = big_zero_try((size_t)mark->size + 1);
	/* The results of an analysis take about as much memory as the file, and its intermediate data take as much
	 * again. */
	big_heap(2 * (size_t)mark->size);
	if (!*bytes) {
		error_set(e, NO_MEMORY " for %" PRIu64 " bytes", mark->size);
		goto fail;
	}
	got = contents_read(fd, *bytes, (size_t)mark->size);
	if (got < 0) {
		error_set(e, "cannot read: %s", strerror(errno));
		goto fail;
	}
	if (file_is_written_since(fd, mark)) {
		error_set(e, "changed while etch read it");
		goto fail;
	}
	close(fd);
	*size = (size_t)got;
	return 0;
fail:
	close(fd);
	free(*bytes);
	*bytes = NULL;
	return -1;
}

bool file_is_bitcode(const uint8_t *b, size_t size)
{
	return size >= 4 && (!memcmp(b, "BC\xc0\xde", 4) || !memcmp(b, "\xde\xc0\x17\x0b", 4));
}

bool elf_is_slim_lto(const struct elf_file *f)
{
	uint32_t i;

	for (i = 1; i < f->symbol_count; i++)
		if (f->symbols[i].special == SHN_COMMON && !strcmp(f->symbols[i].name, "__gnu_lto_slim"))
			return true;
	return false;
}

/* Checks e_ident, machine, type and the section headers' place. The message about a refused file names the kind of
 * file. */
static int header_check(const struct elf_file *f, struct error *e)
{
	const uint8_t *b = f->bytes;
	Elf64_Ehdr eh;

	if (!f->size)
		return error_set(e, "is empty");
	if (f->size >= 8 && (!memcmp(b, "!<arch>\n", 8) || !memcmp(b, "!<thin>\n", 8)))
		return error_set(e, "is an archive: name a member of it, as in 'lib.a(x.o)'");
	if (file_is_bitcode(b, f->size))
		return error_set(e, "is LLVM bitcode: there is no machine code yet");
	if (f->size < EI_NIDENT || memcmp(b, ELFMAG, SELFMAG))
		return error_set(e, "is not an ELF file");
	if (b[EI_CLASS] != ELFCLASS64)
		return error_set(e, "is not a 64-bit ELF file");
	if (b[EI_DATA] != ELFDATA2LSB)
		return error_set(e, "is a big-endian ELF file: etch supports only x86-64");
	if (b[EI_VERSION] != EV_CURRENT)
		return error_set(e, "unknown ELF version %u", b[EI_VERSION]);
	if (f->size < sizeof(eh))
		return error_set(e, "is truncated inside its ELF header");
	memcpy(&eh, b, sizeof(eh));
	if (eh.e_machine != EM_X86_64)
		return error_set(e, "is for another machine (e_machine %u): etch supports only x86-64", eh.e_machine);
	if (elf_is_private(b))
		return error_set(e, "is in the private format of another program (OS/ABI %u)", b[EI_OSABI]);
	if (eh.e_type != ET_REL && eh.e_type != ET_EXEC && eh.e_type != ET_DYN)
		return error_set(e, "is not an object, program or library (e_type %u)", eh.e_type);
	if (!eh.e_shoff)
		return error_set(e, "has no section headers: etch needs them to find its tables");
	if (eh.e_shoff > f->size || eh.e_shoff + (uint64_t)eh.e_shnum * sizeof(Elf64_Shdr) > f->size)
		return error_set(e, "is truncated: section headers at %#" PRIx64 " are past its end", eh.e_shoff);
	if (eh.e_shentsize != sizeof(Elf64_Shdr))
		return error_set(e, "has section headers of %u bytes, not 64", eh.e_shentsize);
	return 0;
}

/* Bounds the time of work that is done for each byte of each section: well-formed sections do not overlap, but all
 * section headers of a hostile file could describe the same bytes. */
static int sections_apart(const struct elf_file *f, struct error *e)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		sum += f->sections[i].data ? f->sections[i].sh.sh_size : 0;
	if (sum > 2 * (uint64_t)f->size)
		return error_set(e, "malformed section headers: they describe %" PRIu64 " bytes of contents in a file of %zu",
		                 sum, f->size);
	return 0;
}

/* Bounds the time to compare and copy names. Symbols can share one name or the tail of one: n symbols with names of n
 * bytes take only 25 n bytes of the file. Names of NAME_SHORT bytes or more may together have NAMES_MOST bytes. */
#define NAME_SHORT    ((size_t)4096)
#define NAMES_MOST(f) (16 * (uint64_t)(f)->size + ((uint64_t)1 << 20))

static bool name_taken(const char *name, uint64_t *left)
{
	size_t n;

	if (strnlen(name, NAME_SHORT) < NAME_SHORT)
		return true;
	n = strnlen(name, (size_t)*left + 1);
	if (n > *left)
		return false;
	*left -= n;
	return true;
}

/* Reads the header of section i, whose name must be terminated and whose contents must be inside the file. `names` is
 * what is left of NAMES_MOST. Returns 0, or -1 and a message. */
static int section_load(struct elf_file *f, size_t i, size_t strndx, uint64_t *names, struct error *e)
{
	struct elf_section *s = &f->sections[i];
	Elf_Scn *scn = elf_getscn(f->elf, i);
	const void *raw = scn ? elf64_getshdr(scn) : NULL;
	const Elf64_Shdr *sh = &s->sh;

	if (!raw)
		return error_set(e, "section %zu: malformed header: %s", i, elf_errmsg(-1));
	memcpy(&s->sh, raw, sizeof(s->sh)); /* libelf may point into the file, unaligned */
	s->name = i ? elf_strptr(f->elf, strndx, sh->sh_name) : "";
	if (!s->name)
		return error_set(e, "section %zu: its name is outside the string table", i);
	if (!name_taken(s->name, names))
		return error_set(e, "section %zu: section names add up to many times the file size", i);
	if (!i || sh->sh_type == SHT_NOBITS || sh->sh_type == SHT_NULL || !sh->sh_size)
		return 0;
	if (sh->sh_offset > f->size || sh->sh_size > f->size - sh->sh_offset)
		return error_set(e, "is truncated: section %s needs %" PRIu64 " bytes at %#" PRIx64, s->name, sh->sh_size,
		                 sh->sh_offset);
	s->data = f->bytes + sh->sh_offset;
	return 0;
}

/* Checks that a section refers to sections of the file, and that its alignment is valid. Returns 0, or -1 and a
 * message. */
static int section_check(const struct elf_file *f, const struct elf_section *s, struct error *e)
{
	const Elf64_Shdr *sh = &s->sh;

	if (sh->sh_link >= f->section_count)
		return error_set(e, "section %s: sh_link %u is out of range", s->name, sh->sh_link);
	if ((sh->sh_type == SHT_RELA || sh->sh_type == SHT_REL) && sh->sh_info >= f->section_count)
		return error_set(e, "section %s: sh_info %u is out of range", s->name, sh->sh_info);
	if (sh->sh_addralign & (sh->sh_addralign - 1))
		return error_set(e, "section %s: alignment %" PRIu64 " is not a power of two", s->name, sh->sh_addralign);
	return 0;
}

/* Reads and checks the section headers. Returns 0, or -1 and a message. */
static int sections_load(struct elf_file *f, struct error *e)
{
	size_t count, strndx, i;
	uint64_t names = NAMES_MOST(f);

	if (elf_getshdrnum(f->elf, &count) < 0 || elf_getshdrstrndx(f->elf, &strndx) < 0)
		return error_set(e, "malformed section headers: %s", elf_errmsg(-1));
	if (!count || count > f->size / sizeof(Elf64_Shdr))
		return error_set(e, "malformed section headers: count is %zu", count);
	f->sections = mem_zero(count, sizeof(*f->sections));
	f->section_count = (uint32_t)count;
	for (i = 0; i < count; i++)
		if (section_load(f, i, strndx, &names, e))
			return -1;
	for (i = 0; i < count; i++)
		if (section_check(f, &f->sections[i], e))
			return -1;
	return sections_apart(f, e);
}

/* Checks a symbol table, and sets *x to its section SHT_SYMTAB_SHNDX, or to null if it has none. Returns 0, or -1 and a
 * message. */
static int symbols_check(const struct elf_file *f, uint32_t index, const struct elf_section **x, struct error *e)
{
	const struct elf_section *s = &f->sections[index], *str = &f->sections[s->sh.sh_link];
	uint64_t count = s->sh.sh_size / sizeof(Elf64_Sym);
	uint32_t i;

	*x = NULL;
	if (s->sh.sh_size % sizeof(Elf64_Sym) || s->sh.sh_entsize != sizeof(Elf64_Sym))
		return error_set(e, "section %s: not a whole number of symbols", s->name);
	/* A section of any other type may be one of etch's own tables, whose contents a rewrite replaces. */
	if (str->sh.sh_type != SHT_STRTAB)
		return error_set(e, "section %s: its string table %s is not one (not SHT_STRTAB)", s->name, str->name);
	if (!str->data || str->data[str->sh.sh_size - 1] != 0)
		return error_set(e, "section %s: its string table %s is empty or not terminated", s->name, str->name);
	if (s->sh.sh_info > count)
		return error_set(e, "section %s: first global symbol %u is past its end", s->name, s->sh.sh_info);
	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *t = &f->sections[i];

		if (t->sh.sh_type != SHT_SYMTAB_SHNDX || t->sh.sh_link != index)
			continue;
		/* A rewrite writes section numbers of new symbols to this table, so it must not serve anything else. */
		if (*x || (t->sh.sh_flags & ~s->sh.sh_flags & (SHF_ALLOC | SHF_EXECINSTR | SHF_WRITE)))
			return error_set(e, "section %s: is not the table of section numbers of %s", t->name, s->name);
		*x = t;
	}
	if (*x && (*x)->sh.sh_size / 4 < count)
		return error_set(e, "section %s: shorter than its symbol table", (*x)->name);
	return 0;
}

/* Reads a symbol table, and checks that names and section numbers are valid. Returns 0, or -1 and a message. */
static int symbols_load(struct elf_file *f, uint32_t index, struct elf_symbol **out, uint32_t *out_count,
                        struct error *e)
{
	const struct elf_section *s = &f->sections[index], *str = &f->sections[s->sh.sh_link], *x;
	uint64_t count = s->sh.sh_size / sizeof(Elf64_Sym), i;
	uint64_t names = NAMES_MOST(f);
	struct elf_symbol *syms;

	if (symbols_check(f, index, &x, e))
		return -1;
	syms = mem_zero(count, sizeof(*syms));
	*out = syms;
	*out_count = (uint32_t)count;
	for (i = 0; i < count; i++) {
		Elf64_Sym sym;
		uint32_t shndx;

		memcpy(&sym, s->data + i * sizeof(sym), sizeof(sym));
		if (sym.st_name >= str->sh.sh_size)
			return error_set(e, "section %s: symbol %" PRIu64 " has its name outside %s", s->name, i, str->name);
		syms[i].name = (const char *)str->data + sym.st_name;
		if (!name_taken(syms[i].name, &names))
			return error_set(e, "section %s: symbol names add up to many times the file size", s->name);
		syms[i].value = sym.st_value;
		syms[i].size = sym.st_size;
		syms[i].type = ELF64_ST_TYPE(sym.st_info);
		syms[i].bind = ELF64_ST_BIND(sym.st_info);
		syms[i].visibility = ELF64_ST_VISIBILITY(sym.st_other);
		shndx = sym.st_shndx;
		if (shndx == SHN_XINDEX && x)
			memcpy(&shndx, x->data + 4 * i, 4);
		else if (shndx >= SHN_LORESERVE) {
			syms[i].special = (uint16_t)shndx;
			continue;
		}
		if (shndx && s->sh.sh_type == SHT_DYNSYM) {
			/* strip does not renumber the sections in .dynsym, so the address decides. */
			syms[i].section = elf_section_at(f, sym.st_value);
			if (!syms[i].section)
				syms[i].special = SHN_ABS;
			continue;
		}
		if (shndx >= f->section_count)
			return error_set(e, "section %s: symbol %s is in section %u of %u", s->name, syms[i].name, shndx,
			                 f->section_count);
		syms[i].section = shndx;
	}
	return 0;
}

bool elf_is_debug(const struct elf_file *f)
{
	bool some = false;
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];

		if (!(s->sh.sh_flags & SHF_EXECINSTR) || !(s->sh.sh_flags & SHF_ALLOC) || !s->sh.sh_size)
			continue;
		if (s->sh.sh_type != SHT_NOBITS)
			return false;
		some = true;
	}
	return some;
}

static int phdrs_load(struct elf_file *f, struct error *e)
{
	size_t n;

	if (elf_getphdrnum(f->elf, &n) < 0)
		return error_set(e, "malformed program headers: %s", elf_errmsg(-1));
	if (!n)
		return elf_is_object(f) ? 0 : error_set(e, "has no program headers");
	if (f->eh.e_phentsize != sizeof(Elf64_Phdr))
		return error_set(e, "has program headers of %u bytes, not 56", f->eh.e_phentsize);
	if (f->eh.e_phoff > f->size || n > (f->size - f->eh.e_phoff) / sizeof(Elf64_Phdr))
		return error_set(e, "is truncated: program headers are past its end");
	f->phdrs = mem_copy(f->bytes + f->eh.e_phoff, n * sizeof(*f->phdrs));
	f->phdr_count = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_LOAD && (p->p_offset > f->size || p->p_filesz > f->size - p->p_offset ||
		                             p->p_filesz > p->p_memsz || p->p_vaddr + p->p_memsz < p->p_vaddr))
			return elf_is_debug(f) ? error_set(e, ELF_DEBUG_FILE)
			                       : error_set(e, "is truncated: segment %zu needs %" PRIu64 " bytes at %#" PRIx64, i,
			                                   p->p_filesz, p->p_offset);
	}
	return 0;
}

static void relas_index(struct elf_file *f)
{
	uint32_t i;

	f->relas = mem_zero(2 * (size_t)f->section_count + 1, sizeof(*f->relas));
	for (i = f->section_count; i-- > 1;) {
		const Elf64_Shdr *sh = &f->sections[i].sh;

		if (sh->sh_type != SHT_RELA || sh->sh_info >= f->section_count)
			continue;
		f->relas[f->section_count + i] = f->relas[sh->sh_info];
		f->relas[sh->sh_info] = i;
	}
}

int elf_open_bytes(struct elf_file *f, const char *path, uint8_t *bytes, size_t size, struct error *e)
{
	uint32_t i;

	memset(f, 0, sizeof(*f));
	f->path = path;
	f->bytes = bytes;
	f->size = size;
	if (header_check(f, e))
		return -1;
	memcpy(&f->eh, bytes, sizeof(f->eh));
	elf_version(EV_CURRENT);
	f->elf = elf_memory((char *)bytes, size);
	if (!f->elf)
		return error_set(e, "malformed ELF file: %s", elf_errmsg(-1));
	if (sections_load(f, e))
		return -1;
	relas_index(f);
	elf_spans_build(f);
	if (phdrs_load(f, e))
		return -1;
	for (i = 1; i < f->section_count; i++) {
		if (!f->sections[i].data)
			continue;
		if (f->sections[i].sh.sh_type == SHT_SYMTAB && !f->symtab)
			f->symtab = i;
		if (f->sections[i].sh.sh_type == SHT_DYNSYM && !f->dynsym)
			f->dynsym = i;
	}
	if (f->symtab && symbols_load(f, f->symtab, &f->symbols, &f->symbol_count, e))
		return -1;
	if (!f->symbols) { /* symbol 0, to which relocations without a symbol refer */
		f->symbols = mem_zero(1, sizeof(*f->symbols));
		f->symbols->name = "";
	}
	if (f->dynsym && symbols_load(f, f->dynsym, &f->dynsyms, &f->dynsym_count, e))
		return -1;
	return 0;
}

int elf_open(struct elf_file *f, const char *path, struct error *e)
{
	uint8_t *bytes;
	size_t size;

	memset(f, 0, sizeof(*f));
	if (file_read(path, &bytes, &size, e))
		return -1;
	return elf_open_bytes(f, path, bytes, size, e);
}

void elf_bytes_own(struct elf_file *f)
{
	uint8_t *copy = big_zero(f->size + 1, 1);
	uint32_t i;

	big_copy(copy, f->bytes, f->size);
	for (i = 0; i < f->section_count; i++)
		if (f->sections[i].data)
			f->sections[i].data = copy + (f->sections[i].data - f->bytes);
	f->bytes = copy;
}

void elf_close(struct elf_file *f)
{
	if (f->elf)
		elf_end(f->elf);
	free(f->sections);
	free(f->spans);
	free(f->relas);
	free(f->phdrs);
	free(f->symbols);
	free(f->dynsyms);
	free(f->bytes);
	memset(f, 0, sizeof(*f));
}
