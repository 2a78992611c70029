/* SPDX-License-Identifier: MIT */
/* Divides code into code ranges: collects candidates from all sources, sorts them, and divides each section of the code
 * space at their starts and ends. */
#include "analysis/discover/ranges.h"
#include "arch/x86/fast_decoder.h"
#include "support/memory.h"
#include "shared/search.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

/* A candidate: a code range according to one source. */
struct candidate {
	uint64_t start, end; /* end 0: unknown, so that the range extends up to the next candidate */
	long fde;            /* index of its FDE, or -1 */
	int rank; /* 0: PLT entry, 1: FDE, 2: the other sources, 3: .init and .fini. Of two that overlap, the one of lower
	             rank wins */
	bool named, plt, exported;
	const struct runtime_code *own; /* the entry of a language runtime's own table that it comes from, or null */
};

struct candidates {
	struct candidate *list;
	size_t count, capacity;
};

static void candidate_add(struct candidates *r, struct candidate x)
{
	mem_reserve(&r->list, &r->capacity, r->count, sizeof(*r->list));
	r->list[r->count++] = x;
}

/* Orders candidates by start, then by rank; of those equal in both, named ones come first. */
static int range_order(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return y->named - x->named;
}

/* Returns the entry size of a PLT section (.plt, .plt.got, .plt.sec, .iplt), or 0 for other sections. Linkers write
 * entries of 16 bytes, except in a .plt.got without IBT, where they have 8. */
static uint64_t plt_entry(const struct elf_file *f, const struct code_section *c)
{
	const struct elf_section *s = &f->sections[c->section];

	if (!c->section || elf_is_object(f) || (strncmp(s->name, ".plt", 4) && strcmp(s->name, ".iplt")))
		return 0;
	return s->sh.sh_entsize == 8 ? 8 : 16;
}

/* Is a symbol the cold part of a function, judging by its name? gcc and clang add .cold or .cold.0 to it. */
static bool is_part(const char *name)
{
	const char *dot = strstr(name, ".cold");

	return dot && (!dot[5] || dot[5] == '.');
}

/* Adds a candidate for each function of one symbol table, and an unnamed one for each label that other files can
 * see. */
static void symbols_add(const struct elf_file *f, const struct code_space *space, const struct elf_symbol *list,
                        uint32_t n, struct candidates *out)
{
	const struct code_section *c = NULL;
	uint32_t i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *y = &list[i];
		uint64_t at;

		if ((y->type != STT_FUNC && y->type != STT_GNU_IFUNC && !(y->type == STT_NOTYPE && y->bind != STB_LOCAL)) ||
		    !y->section)
			continue;
		if (!c || c->section != y->section)
			c = space_of(space, y->section);
		if (!c)
			continue;
		at = elf_is_object(f) ? c->addr + y->value : y->value;
		if (at < c->addr || at >= c->addr + c->size)
			continue;
		candidate_add(out, (struct candidate){at, y->size && y->size <= c->addr + c->size - at ? at + y->size : 0, -1,
		                                      2, y->type != STT_NOTYPE && !is_part(y->name), false,
		                                      y->bind != STB_LOCAL && y->type != STT_NOTYPE &&
		                                          (y->visibility == STV_DEFAULT || y->visibility == STV_PROTECTED),
		                                      NULL});
	}
}

/* Linkers write one array of each kind: .preinit_array, .init_array, .fini_array. */
#define ARRAYS_MOST 8u

static bool is_array(const struct elf_section *s)
{
	return s->sh.sh_type == SHT_INIT_ARRAY || s->sh.sh_type == SHT_FINI_ARRAY || s->sh.sh_type == SHT_PREINIT_ARRAY;
}

/* Adds a candidate for each function in the init and fini arrays, whose elements are in R_X86_64_RELATIVE relocations
 * or in the words of the file. In a stripped file nothing else shows where the functions of crtbegin.o are, since they
 * have no FDE. */
static void arrays_add(const struct elf_file *f, const struct code_space *space, struct candidates *out)
{
	const struct elf_section *array[ARRAYS_MOST];
	uint32_t arrays = 0, i;

	for (i = 1; i < f->section_count && arrays < ARRAYS_MOST; i++)
		if (is_array(&f->sections[i]))
			array[arrays++] = &f->sections[i];
	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		uint64_t at, word;

		if (s->sh.sh_type == SHT_RELA && (s->sh.sh_flags & SHF_ALLOC)) {
			struct error ignored; /* if it is malformed, this section is ignored */
			long n = elf_relocs_count(f, i, &ignored), j;

			for (j = 0; j < n; j++) {
				struct elf_reloc r = elf_reloc_at(f, i, j);
				uint32_t k;

				for (k = 0; k < arrays; k++)
					if (r.offset - array[k]->sh.sh_addr < array[k]->sh.sh_size)
						break;
				if (k < arrays && r.type == R_X86_64_RELATIVE && space_at(space, (uint64_t)r.addend))
					candidate_add(out, (struct candidate){(uint64_t)r.addend, 0, -1, 2, true, false, false, NULL});
			}
		}
		if (!is_array(s) || !s->data)
			continue;
		for (at = 0; at + 8 <= s->sh.sh_size; at += 8) {
			memcpy(&word, s->data + at, 8);
			if (space_at(space, word))
				candidate_add(out, (struct candidate){word, 0, -1, 2, true, false, false, NULL});
		}
	}
}

/* Adds a candidate for each function that a language runtime lists in its own table. */
static void own_add(const struct code_space *space, const struct runtime_codes *codes, struct candidates *out)
{
	size_t i;

	for (i = 0; i < codes->count; i++) {
		const struct runtime_code *x = &codes->list[i];
		const struct code_section *c = x->listed ? space_at(space, x->start) : NULL;

		if (c && x->end <= c->addr + c->size && x->end > x->start)
			candidate_add(out, (struct candidate){x->start, x->end, -1, 2, true, false, false, x});
	}
}

static void range_push(struct code_ranges *p, struct code_range x)
{
	mem_reserve(&p->list, &p->capacity, p->count, sizeof(*p->list));
	p->list[p->count++] = x;
}

/* Does `label`, which is no function, lie in the middle of an instruction of a function whose size is known? Such bytes
 * are part of that instruction, and are also executed from the label on: Linux's code that untrains return predictions
 * hides a return in an operand. */
static bool hides_in_instruction(const struct code_section *c, const struct candidate *function, uint64_t label)
{
	uint64_t at = function->start;
	struct step s;

	while (at < label && step_decode(NULL, c->bytes + (at - c->addr), function->end - at, at, &s))
		at += s.len;
	return at > label;
}

/* Does a runtime's table say that the symbol at an address begins no function? */
static bool is_framed(const struct runtime_codes *codes, uint64_t addr)
{
	size_t k = SEARCH(codes->count, i, codes->list[i].start < addr);

	for (; k < codes->count && codes->list[k].start == addr; k++)
		if (codes->list[k].framed)
			return true;
	return false;
}

/*
 * Sets *x to candidate r[0], with its end and with the properties of other candidates that have the same start. r[0..n)
 * are sorted candidates of section c; those after r[0] may cut its range short.
 */
static void candidate_complete(struct candidate *x, const struct code_section *c, const struct candidate *r, size_t n)
{
	uint64_t limit = c->addr + c->size;
	size_t k;

	*x = r[0];
	if (!x->end || x->end > limit)
		x->end = limit;
	for (k = 1; k < n && r[k].start < x->end; k++) {
		if (r[k].start == x->start) {
			x->named |= r[k].rank == 2 && r[k].named;
			x->exported |= r[k].exported;
			if (r[k].own)
				x->own = r[k].own;
			continue;
		}
		/* the next symbol begins another range, unless it lies inside an instruction */
		if (r[k].rank < r[0].rank || (r[0].rank == 2 && !r[0].end) ||
		    (r[k].rank == r[0].rank &&
		     !(r[0].named && !r[k].named && r[0].end && hides_in_instruction(c, &r[0], r[k].start))))
			x->end = r[k].start;
	}
}

/* Makes disjoint code ranges from the sorted candidates r[0..n) of one section. Where two candidates overlap, the one
 * of lower rank gets all of its bytes. A function symbol inside a range becomes an entry of that range
 * (code_ranges.entries). */
static void ranges_cut(struct code_ranges *p, const struct code_section *c, const struct runtime_codes *codes,
                       const struct candidate *r, size_t n)
{
	uint64_t taken_until = c->addr;
	struct candidate x;
	size_t i;

	for (i = 0; i < n; i++) {
		if (r[i].start < taken_until) { /* it lies inside the previous range */
			if (r[i].rank == 2 && r[i].named && p->count && r[i].start > p->list[p->count - 1].start &&
			    !is_framed(codes, r[i].start))
				p->entries[p->entry_count++] = r[i].start;
			continue;
		}
		candidate_complete(&x, c, r + i, n - i);
		if (x.end <= x.start)
			continue;
		range_push(p, (struct code_range){.start = x.start,
		                                  .end = x.end,
		                                  .bytes = c->bytes + (x.start - c->addr),
		                                  .fde = x.fde,
		                                  .open = !r[i].end,
		                                  .named = x.named,
		                                  .exported = x.exported,
		                                  .plt = x.plt,
		                                  .convention = x.own ? x.own->runtime->convention : NULL,
		                                  .function = x.own ? x.own->function : NULL,
		                                  .part = x.own && x.own->part,
		                                  .outermost = x.own && x.own->outermost});
		taken_until = x.end;
	}
}

/* Does a file have DT_NEEDED entries? */
static bool needs(const struct elf_file *f)
{
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];
		const uint8_t *bytes = p->p_type == PT_DYNAMIC ? elf_at(f, p->p_vaddr, p->p_filesz) : NULL;
		uint64_t at;
		int64_t tag;

		for (at = 0; bytes && at + sizeof(Elf64_Dyn) <= p->p_filesz; at += sizeof(Elf64_Dyn)) {
			memcpy(&tag, bytes + at, sizeof(tag));
			if (tag == DT_NEEDED)
				return true;
		}
	}
	return false;
}

/*
 * Has code that begins at e_entry no caller? This is so in programs and in the dynamic linker. It is not so in
 * libraries that can be run to print their version, such as libc.so, nor if an old linker has set e_entry for a
 * library. `interpreted`: the file has PT_INTERP.
 */
static bool entry_is_outermost(const struct elf_file *f, const struct code_space *space, bool interpreted)
{
	const struct code_section *c;

	if (!f->eh.e_entry)
		return false;
	if (f->eh.e_type == ET_EXEC)
		return true;
	if (f->eh.e_type != ET_DYN)
		return false;
	if (elf_is_pie(f))
		return true;
	if (interpreted || needs(f))
		return false;
	/* Old linkers set e_entry of a library without an entry point to the start of .text. */
	c = space_at(space, f->eh.e_entry);
	return c && c->addr != f->eh.e_entry;
}

/*
 * Is a file's interpreter (PT_INTERP) a dynamic linker, judging by its name? The dynamic linkers of C libraries
 * (ld-linux, ld-musl, ld64-uClibc, bionic's linker64) jump to e_entry with the stack as the kernel has made it. Other
 * interpreters may call e_entry: klibc's interpreter is the C library, and e_entry is main.
 */
static bool is_dynamic_linker(const struct elf_file *f, const Elf64_Phdr *interp)
{
	const char *path = (const char *)f->bytes + interp->p_offset, *name;

	/* Reads the name at its offset in the file, as the kernel does (load_elf_binary()). */
	if (interp->p_offset > f->size || interp->p_filesz > f->size - interp->p_offset || !interp->p_filesz ||
	    path[interp->p_filesz - 1])
		return false;
	name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	return !strncmp(name, "ld-", 3) || !strncmp(name, "ld.", 3) || !strncmp(name, "ld64", 4) ||
	       !strcmp(name, "linker64");
}

/* Adds a candidate for each PLT entry, and one each for .init and .fini, which begin as functions do. */
static void sections_add(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                         struct candidates *out)
{
	size_t i;

	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];
		const char *name = c->section ? f->sections[c->section].name : "";
		uint64_t unit = plt_entry(f, c), a;

		for (a = c->addr; unit && a < c->addr + c->size; a += unit)
			candidate_add(out, (struct candidate){a, a + unit, cfi_file_at(cfi, a), 0,
			                                      plt_slot(c->bytes + (a - c->addr), c->addr + c->size - a, a) != 0,
			                                      true, false, NULL});
		if (!strcmp(name, ".init") || !strcmp(name, ".fini"))
			candidate_add(out, (struct candidate){c->addr, c->addr + c->size, -1, 3, true, false, false, NULL});
	}
}

/* Adds a candidate for each FDE. */
static void fdes_add(const struct cfi_file *cfi, struct candidates *out)
{
	size_t i;

	for (i = 0; i < cfi->count; i++)
		candidate_add(out,
		              (struct candidate){cfi->fdes[i].start, cfi->fdes[i].end, (long)i, 1, false, false, false, NULL});
}

/* Makes the code ranges of all sections of the code space from the sorted candidates. */
static void sections_cut(struct code_ranges *out, const struct code_space *space, const struct runtime_codes *codes,
                         const struct candidates *r)
{
	size_t i, k, at = 0;

	out->entries = mem_alloc(r->count, sizeof(*out->entries));
	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];

		while (at < r->count && r->list[at].start < c->addr)
			at++;
		for (k = at; k < r->count && r->list[k].start < c->addr + c->size; k++)
			;
		ranges_cut(out, c, codes, r->list + at, k - at);
		at = k;
	}
}

/* Sorts code_ranges.entries, and sets entry and entry_count of each code range. */
static void entries_assign(struct code_ranges *out)
{
	size_t i, k;

	out->entry_count = words_unique(out->entries, out->entry_count);
	for (i = k = 0; i < out->count; i++) {
		struct code_range *p = &out->list[i];

		while (k < out->entry_count && out->entries[k] < p->start)
			k++;
		p->entry = (uint32_t)k;
		while (k < out->entry_count && out->entries[k] < p->end)
			k++;
		p->entry_count = (uint32_t)k - p->entry;
	}
}

void ranges_build(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                  const struct runtime_codes *codes, struct code_ranges *out)
{
	bool outermost, interpreted = false, may_be_called = false;
	struct candidates r = {0};
	size_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < f->phdr_count; i++) {
		if (f->phdrs[i].p_type != PT_INTERP)
			continue;
		interpreted = true;
		may_be_called |= !is_dynamic_linker(f, &f->phdrs[i]);
	}
	outermost = entry_is_outermost(f, space, interpreted);
	sections_add(f, space, cfi, &r);
	fdes_add(cfi, &r);
	symbols_add(f, space, f->symbols, f->symbol_count, &r);
	symbols_add(f, space, f->dynsyms, f->dynsym_count, &r);
	if (!elf_is_object(f))
		arrays_add(f, space, &r);
	own_add(space, codes, &r);
	if ((outermost || interpreted) && f->eh.e_entry && space_at(space, f->eh.e_entry))
		candidate_add(&r, (struct candidate){f->eh.e_entry, 0, -1, 2, true, false, false, NULL});
	if (r.count)
		sort_by_address(r.list, r.count, sizeof(*r.list), range_order);
	sections_cut(out, space, codes, &r);
	entries_assign(out);
	for (i = 0; outermost && i < out->count; i++) {
		if (out->list[i].start != f->eh.e_entry)
			continue;
		out->list[i].outermost = true;
		out->list[i].may_be_called = may_be_called;
	}
	free(r.list);
}

/* Merges the sorted ranges from index `before` on into the sorted ones before that index. moved[i] becomes the new
 * index of the range that had index i, for i < before. */
static void ranges_merge(struct code_ranges *p, size_t before, uint32_t *moved)
{
	size_t n = p->count - before, at, i;
	struct code_range *fresh;

	if (!n)
		return;
	fresh = mem_copy(p->list + before, n * sizeof(*fresh));
	for (; n; n--) { /* merges in place, from the end of the list */
		at = SEARCH(before, k, p->list[k].start < fresh[n - 1].start);
		memmove(p->list + at + n, p->list + at, (before - at) * sizeof(*p->list));
		p->list[at + n - 1] = fresh[n - 1];
		for (i = at; i < before; i++)
			moved[i] = (uint32_t)(i + n);
		before = at;
	}
	for (i = 0; i < before; i++)
		moved[i] = (uint32_t)i;
	free(fresh);
}

size_t ranges_add(struct code_ranges *p, const struct code_space *space, const uint64_t *addrs, size_t count,
                  uint32_t *moved)
{
	size_t before = p->count, added = 0, i, k = 0;

	for (i = 0; i < count; i++) {
		const struct code_section *c;
		uint64_t end;

		k = SEARCH_IN(k, before, j, p->list[j].end <= addrs[i]);
		c = k < before && p->list[k].start <= addrs[i] ? NULL : space_at(space, addrs[i]);
		if (!c || (added && addrs[i] == p->list[p->count - 1].start))
			continue;
		end = c->addr + c->size;
		if (k < before && p->list[k].start < end)
			end = p->list[k].start;
		if (added && p->list[p->count - 1].end > addrs[i])
			p->list[p->count - 1].end = addrs[i];
		range_push(p, (struct code_range){.start = addrs[i],
		                                  .end = end,
		                                  .bytes = c->bytes + (addrs[i] - c->addr),
		                                  .fde = -1,
		                                  .inferred = true,
		                                  .open = true});
		added++;
	}
	ranges_merge(p, before, moved);
	return added;
}

void ranges_free(struct code_ranges *p)
{
	free(p->list);
	free(p->entries);
	memset(p, 0, sizeof(*p));
}
