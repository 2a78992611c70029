/* SPDX-License-Identifier: MIT */
/* Names of the functions of an address (source_frames.h). */
#include "elf/source_frames_internal.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf/debug_copy.h"
#include "shared/search.h"
#include "support/memory.h"
#include "support/sort.h"

/* Symbols looked at for one address, from the one that begins nearest before it. */
#define CANDIDATES_MOST 64u
/* Bytes of a name that its rank depends on: thousands of symbols may share one of megabytes, each a tail of it. */
#define NAME_LOOKED_AT 4096u

struct named_range {
	uint64_t start, end; /* start == end: the symbol has no size */
	const char *name;
	uint64_t limit; /* of a symbol without size: the end of its section; else 0 */
	uint8_t rank;   /* the lowest of several symbols at one address wins */
};

struct source_frames {
	Dwfl *dwfl;
	Dwfl_Module *module;
	GElf_Addr bias;
	struct debug_copies copies;
	struct named_range *symbols;
	size_t symbol_count, symbol_capacity;
	struct inlined_frames *inlined;
};

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = debug_copy_find,
	.section_address = dwfl_offline_section_address,
};

static int range_order(const void *a, const void *b)
{
	const struct named_range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		return y->rank - x->rank; /* the lookup goes backwards */
	return strncmp(y->name, x->name, NAME_LOOKED_AT);
}

/* Prefers global names to weak and local ones, and names without leading underscores. */
static uint8_t rank_of(const GElf_Sym *s, const char *name)
{
	unsigned bind = GELF_ST_BIND(s->st_info), rank = bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 4 : 8;

	rank += name[0] == '_' ? (name[1] == '_' ? 2 : 1) : 0;
	rank += memchr(name, '@', strnlen(name, NAME_LOOKED_AT)) ? 3 : 0; /* a version of a symbol */
	rank += GELF_ST_TYPE(s->st_info) == STT_NOTYPE ? 16 : 0;
	return (uint8_t)(rank + (s->st_size ? 0 : 32));
}

/* The end of a section of code, as libdwfl's address. False: no such section. */
static bool section_end(Elf *elf, GElf_Word section, GElf_Addr bias, GElf_Addr *end)
{
	GElf_Shdr sh;

	if (!gelf_getshdr(elf_getscn(elf, section), &sh) || !(sh.sh_flags & SHF_EXECINSTR))
		return false;
	*end = sh.sh_addr + sh.sh_size + bias;
	return true;
}

static void symbols_read(struct source_frames *s)
{
	int count = dwfl_module_getsymtab(s->module);

	for (int i = 1; i < count; i++) {
		GElf_Word section;
		GElf_Addr at, limit;
		GElf_Sym sym;
		Elf *elf;
		const char *name = dwfl_module_getsym_info(s->module, i, &sym, &at, &section, &elf, NULL);
		unsigned type = GELF_ST_TYPE(sym.st_info);
		struct named_range *r;

		if (!name || !*name || section == SHN_UNDEF || sym.st_shndx == SHN_ABS ||
		    (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
			continue;
		if (type == STT_NOTYPE && !sym.st_size && GELF_ST_BIND(sym.st_info) != STB_GLOBAL)
			continue; /* a label */
		if (!section_end(elf, section, at - sym.st_value, &limit))
			continue; /* not in code */
		mem_room(&s->symbols, &s->symbol_capacity, s->symbol_count, sizeof(*s->symbols));
		r = &s->symbols[s->symbol_count++];
		*r = (struct named_range){.start = at, .end = at + sym.st_size, .name = name, .rank = rank_of(&sym, name)};
		r->limit = sym.st_size ? 0 : limit;
	}
	sort_if_needed(s->symbols, s->symbol_count, sizeof(*s->symbols), range_order);
}

struct source_frames *source_frames_open(const char *path, int fd)
{
	struct source_frames *s = mem_zero(1, sizeof(*s));
	int own;
	void **user;

	unsetenv("DEBUGINFOD_URLS"); /* libdwfl would query these servers */
	elf_version(EV_CURRENT);
	own = debug_copy_open(&s->copies, path, fd);
	s->dwfl = dwfl_begin(&callbacks);
	if (s->dwfl && own >= 0) {
		dwfl_report_begin(s->dwfl);
		s->module = dwfl_report_elf(s->dwfl, path, path, own, 0, true);
		dwfl_report_end(s->dwfl, NULL, NULL);
		if (s->module) {
			own = -1; /* libdwfl's */
			dwfl_module_info(s->module, &user, NULL, NULL, NULL, NULL, NULL, NULL);
			*user = &s->copies;
		}
	}
	if (own >= 0)
		close(own);
	if (!s->module || !dwfl_module_getelf(s->module, &s->bias)) {
		source_frames_close(s);
		return NULL;
	}
	symbols_read(s);
	s->inlined = inlined_frames_open(s->module);
	return s;
}

/* The symbol that an address (libdwfl's) belongs to. A symbol without a size extends to the next one, or to the end
 * of its section. */
static const char *symbol_find(struct source_frames *s, uint64_t at)
{
	size_t low = SEARCH(s->symbol_count, i, s->symbols[i].start <= at), seen = 0;
	const struct named_range *sizeless = NULL;

	while (low-- && seen++ < CANDIDATES_MOST) {
		const struct named_range *r = &s->symbols[low];

		if (r->end > at)
			return r->name;
		if (r->start == r->end && !sizeless && seen == 1)
			sizeless = r;
	}
	if (sizeless && at < sizeless->limit)
		return sizeless->name;
	return NULL;
}

size_t source_frames_find(struct source_frames *s, uint64_t address, struct source_frame out[SOURCE_FRAMES_MOST])
{
	uint64_t at = address + s->bias;
	const char *symbol = symbol_find(s, at);
	size_t n = inlined_frames_find(s->inlined, at, out);
	bool named = n;

	for (size_t i = 0; i + (symbol != NULL) < n; i++)
		named &= *out[i].name != '\0'; /* as where a supplementary file is missing */
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
	free(s->symbols);
	free(s);
}
