/* SPDX-License-Identifier: MIT */
#include "code/pieces.h"
#include "code/sort.h"
#include "code/vector.h"
#include "elf/pclntab.h"

#include <stdlib.h>
#include <string.h>

struct range {
	uint64_t start, end; /* end 0: up to what comes next */
	long fde;
	int rank;            /* of two that overlap, the lower one counts */
	bool named, plt, exported;
	const struct go_function *go; /* or null */
};

struct ranges {
	struct range *list;
	size_t count, room;
};

static int range_add(struct ranges *r, struct range x, struct error *e)
{
	if (r->count == r->room) {
		size_t room = r->room ? 2 * r->room : 256;
		struct range *p = realloc(r->list, room * sizeof(*p));

		if (!p)
			return error_set(e, "out of memory");
		r->list = p;
		r->room = room;
	}
	r->list[r->count++] = x;
	return 0;
}

static int range_order(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return y->named - x->named; /* a name counts more than none */
}

/* Entry size of a PLT section, or 0: .plt, .plt.got, .plt.sec, .iplt. The linkers
 * write 16 bytes for each but in a .plt.got without IBT, 8. */
static uint64_t plt_entry(const struct elf_file *f, const struct code_section *c)
{
	const struct elf_section *s = &f->sections[c->section];

	if (!c->section || elf_is_object(f) || (strncmp(s->name, ".plt", 4) && strcmp(s->name, ".iplt")))
		return 0;
	return s->sh.sh_entsize == 8 ? 8 : 16;
}

/* gcc's and clang's names for a function's parts: .cold, .cold.0, .part of hot-cold splitting. */
static bool is_part(const char *name)
{
	const char *dot = strstr(name, ".cold");

	return dot && (!dot[5] || dot[5] == '.');
}

static int symbols_add(const struct elf_file *f, const struct code_space *space, const struct elf_symbol *list,
                       uint32_t n, struct ranges *out, struct error *e)
{
	const struct code_section *c = NULL;
	uint32_t i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *y = &list[i];
		uint64_t at;

		if ((y->type != STT_FUNC && y->type != STT_GNU_IFUNC &&
		     !(y->type == STT_NOTYPE && y->bind != STB_LOCAL)) || !y->section)
			continue;
		if (!c || c->section != y->section)
			c = space_of(space, y->section);
		if (!c)
			continue;
		at = elf_is_object(f) ? c->addr + y->value : y->value;
		if (at < c->addr || at >= c->addr + c->size)
			continue;
		if (range_add(out, (struct range){at, y->size && y->size <= c->addr + c->size - at ? at + y->size : 0, -1, 2,
		                                  y->type != STT_NOTYPE && !is_part(y->name), false,
		                                  y->bind != STB_LOCAL && y->type != STT_NOTYPE &&
		                                          (y->visibility == STV_DEFAULT || y->visibility == STV_PROTECTED), NULL}, e))
			return -1;
	}
	return 0;
}

/* A linker writes one of each kind. */
#define ARRAYS_MOST 8u

static bool is_array(const struct elf_section *s)
{
	return s->sh.sh_type == SHT_INIT_ARRAY || s->sh.sh_type == SHT_FINI_ARRAY || s->sh.sh_type == SHT_PREINIT_ARRAY;
}

/* What is called by address before main and at exit: in a stripped file nothing else
 * names crt's functions, which have no FDE. Words in the file, or relocations to be. */
static int arrays_add(const struct elf_file *f, const struct code_space *space, struct ranges *out, struct error *e)
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
			struct elf_reloc *r;
			long n = elf_relocs(f, i, &r, e), j;
			int failed = 0;

			for (j = 0; j < n && !failed; j++) {
				uint32_t k;

				if (r[j].type != R_X86_64_RELATIVE || !space_at(space, (uint64_t)r[j].addend))
					continue;
				for (k = 0; k < arrays; k++)
					if (r[j].offset - array[k]->sh.sh_addr < array[k]->sh.sh_size)
						break;
				if (k < arrays)
					failed = range_add(out, (struct range){(uint64_t)r[j].addend, 0, -1, 2, true, false, false, NULL}, e);
			}
			if (n >= 0)
				free(r);
			if (failed)
				return -1;
		}
		if (!is_array(s) || !s->data)
			continue;
		for (at = 0; at + 8 <= s->sh.sh_size; at += 8) {
			memcpy(&word, s->data + at, 8);
			if (space_at(space, word) && range_add(out, (struct range){word, 0, -1, 2, true, false, false, NULL}, e))
				return -1;
		}
	}
	return 0;
}

/* Of a Go program: it has no .eh_frame for them, and seldom symbols. */
static int go_add(const struct code_space *space, const struct go_function *list, long n, struct ranges *out,
                  struct error *e)
{
	long i;

	for (i = 0; i < n; i++) {
		const struct code_section *c = space_at(space, list[i].start);
		uint64_t end = list[i].end;

		if (!c || end > c->addr + c->size)
			continue;
		if (end > list[i].start &&
		    range_add(out, (struct range){list[i].start, end, -1, 2, true, false, false, &list[i]}, e))
			return -1;
	}
	return 0;
}

static bool piece_push(struct pieces *p, struct piece x)
{
	if (p->count == p->room) {
		size_t room = p->room ? 2 * p->room : 256;
		struct piece *list = realloc(p->list, room * sizeof(*list));

		if (!list)
			return false;
		p->list = list;
		p->room = room;
	}
	p->list[p->count++] = x;
	return true;
}

/* Ranges of one section become pieces: sorted, and where they overlap the first
 * in rank keeps all of its bytes. */
static int pieces_cut(struct pieces *p, const struct code_section *c, const struct range *r, size_t n,
                      struct error *e)
{
	uint64_t limit = c->addr + c->size, firm = c->addr;
	size_t i, k;

	/* What FDEs and PLT entries cover is theirs; symbols fill the gaps. */
	for (i = 0; i < n; i++) {
		uint64_t start = r[i].start, end = r[i].end ? r[i].end : limit;
		bool named = r[i].named, exported = r[i].exported;
		const struct go_function *go = r[i].go;

		if (start < firm) { /* inside what is there: an entry of it */
			if (r[i].rank == 2 && r[i].named && p->count && start > p->list[p->count - 1].start)
				p->entries[p->entry_count++] = start;
			continue;
		}
		if (end > limit)
			end = limit;
		for (k = i + 1; k < n && r[k].start < end; k++) {
			named |= r[k].start == start && r[k].rank == 2 && r[k].named;
			exported |= r[k].start == start && r[k].exported;
			if (r[k].start == start && r[k].go)
				go = r[k].go;
			if (r[k].start > start && (r[k].rank < r[i].rank || (r[i].rank == 2 && !r[i].end))) {
				end = r[k].start;
				break;
			}
			if (r[k].start > start && r[k].rank == r[i].rank) { /* of two symbols, each its own */
				end = r[k].start;
				break;
			}
		}
		if (end <= start)
			continue;
		if (!piece_push(p, (struct piece){.start = start, .end = end, .bytes = c->bytes + (start - c->addr),
		                                  .fde = r[i].fde, .open = !r[i].end, .named = named, .exported = exported, .plt = r[i].plt,
		                                  .go = go ? go->name : NULL, .outermost = go && go->top}))
			return error_set(e, "out of memory");
		firm = end;
	}
	return 0;
}

/* Does a file ask for libraries? */
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

int pieces_build(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                 struct pieces *out, struct error *e)
{
	bool outermost = f->eh.e_entry && f->eh.e_type == ET_EXEC, interpreted = false;
	struct go_function *go = NULL;
	struct ranges r = {0};
	size_t i, k, at = 0;
	long go_count;
	int err = -1;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < f->phdr_count; i++)
		interpreted |= f->phdrs[i].p_type == PT_INTERP;
	/* Programs, the dynamic linker, static programs; not a library that can be run
	 * to tell its version, as libc's, or whose entry is where old linkers put it. */
	outermost |= f->eh.e_entry && f->eh.e_type == ET_DYN && (elf_is_pie(f) || (!interpreted && !needs(f)));
	/* Linkers used to put the beginning of .text there for libraries that have no entry. */
	if (outermost && !interpreted && !elf_is_pie(f) && f->eh.e_type == ET_DYN) {
		const struct code_section *c = space_at(space, f->eh.e_entry);

		outermost = c && c->addr != f->eh.e_entry;
	}
	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];
		const char *name = c->section ? f->sections[c->section].name : "";
		uint64_t unit = plt_entry(f, c), a;

		for (a = c->addr; unit && a < c->addr + c->size; a += unit)
			if (range_add(&r, (struct range){a, a + unit, cfi_file_at(cfi, a), 0,
			                                 plt_slot(c->bytes + (a - c->addr), c->addr + c->size - a, a) != 0, true, false, NULL}, e))
				goto out;
		if (!strcmp(name, ".init") || !strcmp(name, ".fini"))
			if (range_add(&r, (struct range){c->addr, c->addr + c->size, -1, 3, true, false, false, NULL}, e))
				goto out;
	}
	for (i = 0; i < cfi->count; i++)
		if (range_add(&r, (struct range){cfi->fdes[i].start, cfi->fdes[i].end, (long)i, 1, false, false, false, NULL}, e))
			goto out;
	if (symbols_add(f, space, f->symbols, f->symbol_count, &r, e) ||
	    symbols_add(f, space, f->dynsyms, f->dynsym_count, &r, e))
		goto out;
	if (!elf_is_object(f) && arrays_add(f, space, &r, e))
		goto out;
	go_count = go_functions_read(f, &go, e);
	if (go_count < 0 || go_add(space, go, go_count, &r, e))
		goto out;
	if ((outermost || interpreted) && f->eh.e_entry && space_at(space, f->eh.e_entry) &&
	    range_add(&r, (struct range){f->eh.e_entry, 0, -1, 2, true, false, false, NULL}, e))
		goto out;
	if (r.count)
		sort_by_address(r.list, r.count, sizeof(*r.list), range_order);
	out->entries = malloc((r.count + 1) * sizeof(*out->entries));
	if (!out->entries) {
		error_set(e, "out of memory");
		goto out;
	}
	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];

		while (at < r.count && r.list[at].start < c->addr)
			at++;
		for (k = at; k < r.count && r.list[k].start < c->addr + c->size; k++)
			;
		if (pieces_cut(out, c, r.list + at, k - at, e))
			goto out;
		at = k;
	}
	if (out->entry_count)
		qsort(out->entries, out->entry_count, sizeof(*out->entries), word_order);
	for (i = k = 0; i < out->entry_count; i++)
		if (!k || out->entries[i] != out->entries[k - 1])
			out->entries[k++] = out->entries[i];
	out->entry_count = k;
	for (i = k = 0; i < out->count; i++) {
		struct piece *p = &out->list[i];

		while (k < out->entry_count && out->entries[k] < p->start)
			k++;
		p->entry = (uint32_t)k;
		while (k < out->entry_count && out->entries[k] < p->end)
			k++;
		p->entry_count = (uint32_t)k - p->entry;
		p->outermost |= outermost && p->start == f->eh.e_entry;
	}
	err = 0;
out:
	free(r.list);
	free(go);
	return err;
}

/* Those from number `before` on, in order by themselves, to where they belong. */
static bool pieces_merge(struct pieces *p, size_t before)
{
	size_t n = p->count - before, at = p->count;
	struct piece *fresh = n ? malloc(n * sizeof(*fresh)) : NULL;

	if (!n)
		return true;
	if (!fresh)
		return false;
	memcpy(fresh, p->list + before, n * sizeof(*fresh));
	while (n) /* from the back */
		if (before && p->list[before - 1].start > fresh[n - 1].start)
			p->list[--at] = p->list[--before];
		else
			p->list[--at] = fresh[--n];
	free(fresh);
	return true;
}

long pieces_add(struct pieces *p, const struct code_space *space, const uint64_t *addrs, size_t count,
                struct error *e)
{
	size_t before = p->count, added = 0, i, k = 0;

	for (i = 0; i < count; i++) {
		const struct code_section *c;
		uint64_t end;

		while (k < before && p->list[k].end <= addrs[i])
			k++;
		c = k < before && p->list[k].start <= addrs[i] ? NULL : space_at(space, addrs[i]);
		if (!c || (added && addrs[i] == p->list[p->count - 1].start))
			continue;
		end = c->addr + c->size;
		if (k < before && p->list[k].start < end)
			end = p->list[k].start;
		if (added && p->list[p->count - 1].end > addrs[i])
			p->list[p->count - 1].end = addrs[i];
		if (!piece_push(p, (struct piece){.start = addrs[i], .end = end, .bytes = c->bytes + (addrs[i] - c->addr),
		                                  .fde = -1, .stray = true, .open = true}))
			return error_set(e, "out of memory");
		added++;
	}
	return pieces_merge(p, before) ? (long)added : error_set(e, "out of memory");
}

void pieces_free(struct pieces *p)
{
	free(p->list);
	free(p->entries);
	memset(p, 0, sizeof(*p));
}
