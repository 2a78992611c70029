/* SPDX-License-Identifier: MIT */
/* Names the functions of an address (source_frames.h). */
#include "dwarf/inlined_frames.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dwarf/debug_copy.h"
#include "dwarf/symbol_scan.h"

struct source_frames {
	Dwfl *dwfl;
	Dwfl_Module *module;
	GElf_Addr bias;
	struct debug_copies copies;
	uint64_t *wanted; /* libdwfl's addresses */
	struct symbol_scan symbols;
	struct inlined_frames *inlined;
	/* What it was opened with. */
	char *path;
	int fd;
	uint64_t *asked;
	size_t count;
};

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = debug_copy_find,
	.section_address = dwfl_offline_section_address,
};

/* The section that the last symbol was in. */
struct last_section {
	Elf *elf;
	GElf_Word number;
	GElf_Addr end; /* 0: it has no code */
};

/* Returns the end of a section of code, or 0 if the section has no code. */
static GElf_Addr section_end(struct last_section *last, Elf *elf, GElf_Word section)
{
	GElf_Shdr sh;

	if (last->elf == elf && last->number == section)
		return last->end;
	*last = (struct last_section){elf, section, 0};
	if (gelf_getshdr(elf_getscn(elf, section), &sh) && (sh.sh_flags & SHF_EXECINSTR))
		last->end = sh.sh_addr + sh.sh_size;
	return last->end;
}

static void symbols_read(struct source_frames *s)
{
	int count = dwfl_module_getsymtab(s->module);
	struct last_section last = {0};

	for (int i = 1; i < count; i++) {
		GElf_Word section;
		GElf_Addr at, limit;
		GElf_Sym sym;
		Elf *elf;
		const char *name = dwfl_module_getsym_info(s->module, i, &sym, &at, &section, &elf, NULL);

		if (!name || !*name || section == SHN_UNDEF || !symbol_scan_fits(&sym))
			continue;
		limit = section_end(&last, elf, section);
		if (!limit)
			continue;
		limit += at - sym.st_value;
		if (symbol_scan_has(&s->symbols, at, sym.st_size, limit))
			symbol_scan_keep(&s->symbols, &sym, at, limit, name);
	}
	symbol_scan_end(&s->symbols);
}

/* Opens the file with libdwfl, which also looks for its debug file. */
static bool module_open(struct source_frames *s, const char *path, int fd, bool lines)
{
	int own;
	void **user;

	elf_version(EV_CURRENT);
	s->copies.lines = lines;
	own = debug_copy_open(&s->copies, path, fd);
	s->dwfl = dwfl_begin(&callbacks);
	if (s->dwfl && own >= 0) {
		dwfl_report_begin(s->dwfl);
		s->module = dwfl_report_elf(s->dwfl, path, path, own, 0, true);
		dwfl_report_end(s->dwfl, NULL, NULL);
		if (s->module) {
			own = -1; /* libdwfl owns it now */
			dwfl_module_info(s->module, &user, NULL, NULL, NULL, NULL, NULL, NULL);
			*user = &s->copies;
		}
	}
	if (own >= 0)
		close(own);
	return s->module && dwfl_module_getelf(s->module, &s->bias);
}

/* May the addresses be looked for in a part of the units? */
static bool is_ascending(const uint64_t *addresses, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (addresses[i] < addresses[i - 1])
			return false;
	return true;
}

/* Opens the sources; all: with all units of .debug_info. */
static struct source_frames *frames_open(const char *path, int fd, const uint64_t *addresses, size_t count, bool lines,
                                         bool all)
{
	struct source_frames *s = calloc(1, sizeof(*s));
	bool good = s && (s->wanted = malloc((count + 1) * sizeof(*s->wanted))) != NULL &&
	            (s->asked = malloc((count + 1) * sizeof(*s->asked))) != NULL && (s->path = strdup(path)) != NULL;
	enum symbol_file file = SYMBOL_FILE_BAD;

	unsetenv("DEBUGINFOD_URLS"); /* libdwfl would query these servers */
	if (good) {
		s->fd = fd;
		s->count = count;
		memcpy(s->asked, addresses, count * sizeof(*addresses));
		memcpy(s->wanted, addresses, count * sizeof(*addresses));
		good = symbol_scan_begin(&s->symbols, s->wanted, count);
	}
	if (good)
		file = symbol_scan_file(&s->symbols, path, fd);
	if (good && !all && is_ascending(addresses, count)) {
		s->copies.addresses = s->asked;
		s->copies.address_count = count;
	}
	if (file == SYMBOL_FILE_MORE) {
		good = module_open(s, path, fd, lines);
		for (size_t i = 0; i < count; i++)
			s->wanted[i] += good ? s->bias : 0;
		if (good) {
			symbols_read(s);
			s->inlined = inlined_frames_open(s->module, lines);
		}
	}
	if (!good || file == SYMBOL_FILE_BAD) {
		source_frames_close(s);
		return NULL;
	}
	return s;
}

struct source_frames *source_frames_open(const char *path, int fd, const uint64_t *addresses, size_t count, bool lines)
{
	return frames_open(path, fd, addresses, count, lines, false);
}

/* Finds the frames of an address in DWARF. *named: each that needs a name of its own has one. */
static size_t frames_find(struct source_frames *s, uint64_t at, const char *symbol, struct source_frame *out,
                          bool *named)
{
	size_t n = inlined_frames_find(s->inlined, at, out);

	*named = n;
	for (size_t i = 0; i + (symbol != NULL) < n; i++)
		*named &= *out[i].name != '\0'; /* the name is missing if, for example, a supplementary file is missing */
	return n;
}

/* Opens all units in place of those of the addresses, since one of these has referred to another unit. */
static void all_open(struct source_frames *s)
{
	struct source_frames *all = frames_open(s->path, s->fd, s->asked, s->count, s->copies.lines, true), was = *s;
	void **user;

	s->copies.is_cut = false;
	if (!all)
		return;
	*s = *all;
	*all = was;
	if (s->module && dwfl_module_info(s->module, &user, NULL, NULL, NULL, NULL, NULL, NULL))
		*user = &s->copies;
	source_frames_close(all);
}

size_t source_frames_find(struct source_frames *s, uint64_t address, struct source_frame out[SOURCE_FRAMES_MOST])
{
	const char *symbol = symbol_scan_find(&s->symbols, address + s->bias);
	bool named;
	size_t n = frames_find(s, address + s->bias, symbol, out, &named);

	if (!named && s->copies.is_cut) {
		all_open(s);
		symbol = symbol_scan_find(&s->symbols, address + s->bias);
		n = frames_find(s, address + s->bias, symbol, out, &named);
	}
	if (!named && symbol) {
		out[0] = (struct source_frame){.name = symbol};
		return 1;
	}
	if (n && symbol)
		out[n - 1].name = symbol;
	return named ? n : 0;
}

void source_frames_close(struct source_frames *s)
{
	if (!s)
		return;
	inlined_frames_close(s->inlined);
	if (s->dwfl)
		dwfl_end(s->dwfl);
	debug_copies_close(&s->copies);
	symbol_scan_free(&s->symbols);
	free(s->wanted);
	free(s->asked);
	free(s->path);
	free(s);
}
