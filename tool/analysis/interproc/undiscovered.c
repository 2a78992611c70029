/* SPDX-License-Identifier: MIT */
/*
 * Makes code ranges at addresses that lie in none, but to which code or data refers: targets of calls and jumps,
 * addresses that relocations put into data, and plain words of data.
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/range_starts.h"
#include "arch/x86/opcodes.h"
#include "support/memory.h"
#include "support/sort.h"

#include <string.h>

#ifndef SHT_RELR /* elf.h of glibc before 2.36 does not define it */
#define SHT_RELR 19
#endif

/* Rebuilds the index of code ranges if it is out of date. */
static void index_renew(struct work *w)
{
	if (w->unindexed)
		ranges_index(&w->env);
	w->unindexed = false;
}

/* After code ranges were added: moves the states of the first `count` code ranges to their new numbers. Their order
 * stays the same, so this works in place, from the end. Gives the new code ranges a state, and marks them. */
static void states_grow(struct work *w, const uint32_t *moved, size_t count)
{
	struct range_state *state = mem_resize(w->state, w->ranges.count, sizeof(*state));
	/* Elements below `end` are still to be filled from the first `old` elements. */
	size_t i, from, old = count, end = w->ranges.count;
	uint32_t id = (uint32_t)count;

	identities_grow(w, count);
	while (old < end) {
		size_t after = old ? moved[old - 1] + 1 : 0;

		for (i = after; i < end; i++)
			state[i] = (struct range_state){.id = id++, .run = RUN_NEWS};
		if (after == old)
			break;
		for (from = old; from && moved[from - 1] - (from - 1) == after - old; from--)
			;
		memmove(state + from + (after - old), state + from, (old - from) * sizeof(*state));
		end = from + (after - old);
		old = from;
	}
	for (i = old; i < w->ranges.count; i++)
		w->graph.place[state[i].id] = (uint32_t)i;
	w->state = state;
	w->state_count = w->ranges.count;
}

void undiscovered_add(struct work *w)
{
	size_t before = w->ranges.count;
	uint32_t *moved;

	sort_words(w->starts.undiscovered, w->starts.undiscovered_count);
	w->starts.undiscovered_count = words_unique(w->starts.undiscovered, w->starts.undiscovered_count);
	if (!w->starts.undiscovered_count) {
		index_renew(w);
		return;
	}
	moved = mem_alloc(before, sizeof(*moved));
	if (ranges_add(&w->ranges, &w->out->space, w->starts.undiscovered, w->starts.undiscovered_count, moved)) {
		w->env.ranges = w->ranges.list;
		w->env.range_count = w->ranges.count;
		states_grow(w, moved, before);
		w->unindexed = true;
		index_renew(w);
		links_resolve(w);
		edges_renumber(w, moved);
	} else {
		index_renew(w);
	}
	free(moved);
	/* The first rounds find by far the most targets. Later rounds need little of that memory. */
	free(w->starts.undiscovered);
	w->starts.undiscovered = NULL;
	w->starts.undiscovered_count = w->starts.undiscovered_capacity = 0;
}

void undiscovered_put(struct work *w, uint64_t target)
{
	mem_reserve(&w->starts.undiscovered, &w->starts.undiscovered_capacity, w->starts.undiscovered_count,
	            sizeof(*w->starts.undiscovered));
	w->starts.undiscovered[w->starts.undiscovered_count++] = target;
}

/* Records a target as undiscovered, if it is an address of code that lies in no code range. */
static void undiscovered_note(struct work *w, uint64_t target)
{
	if (!(target & (FLOW_EXTERN | FLOW_SLOT)) && !range_at(&w->env, target) && space_at(&w->out->space, target))
		undiscovered_put(w, target);
}

static int pointer_order(const void *a, const void *b)
{
	const struct flow_pointer *x = a, *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

/* Collects the addresses of code that relocations put into data: sorted in work.starts.data, and in env.pointers,
 * sorted by the place where they are. */
static void data_read(struct work *w)
{
	const struct elf_file *f = w->file;
	size_t capacity = 0, pointer_capacity = 0;
	uint32_t i;

	for (i = 1; i < f->section_count && !elf_is_object(f); i++) {
		struct error ignored;
		long n, j;

		if (f->sections[i].sh.sh_type != SHT_RELA || !(f->sections[i].sh.sh_flags & SHF_ALLOC))
			continue;
		n = elf_relocs_count(f, i, &ignored);
		for (j = 0; j < n; j++) {
			struct elf_reloc r = elf_reloc_at(f, i, j);
			uint64_t addr = (uint64_t)r.addend;

			if ((r.type != R_X86_64_RELATIVE && r.type != R_X86_64_IRELATIVE) || (addr & (FLOW_EXTERN | FLOW_SLOT)) ||
			    !space_at(&w->out->space, addr))
				continue;
			mem_reserve(&w->starts.data, &capacity, w->starts.data_count, sizeof(*w->starts.data));
			w->starts.data[w->starts.data_count++] = addr;
			if (r.type != R_X86_64_RELATIVE)
				continue;
			mem_reserve(&w->starts.pointers, &pointer_capacity, w->env.pointer_count, sizeof(*w->starts.pointers));
			w->starts.pointers[w->env.pointer_count++] = (struct flow_pointer){r.offset, addr};
		}
	}
	sort_words(w->starts.data, w->starts.data_count);
	w->starts.data_count = words_unique(w->starts.data, w->starts.data_count);
	sort_by_address_if_needed(w->starts.pointers, w->env.pointer_count, sizeof(*w->starts.pointers), pointer_order);
	w->env.pointers = w->starts.pointers;
}

bool section_is_own(const struct work *w, const struct elf_section *s)
{
	/* This includes the sections into which the link step writes in place, and those that it sorts. */
	static const char *const begin[] = {".etch", "__etch_", ".orc_", ETCH_SEC_IMV, "__pv_", ETCH_SEC_EXTABLE};
	size_t i;

	for (i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
		if (!strncmp(s->name, begin[i], strlen(begin[i])))
			return true;
	return (s->sh.sh_flags & SHF_ALLOC) && s->sh.sh_addr - w->own_addr < w->own_size;
}

/* Returns false if the word at an offset of a data section is an address of code at which no compiler would start a
 * function. Returns true if it is no address of code, or if the offset is outside of the section. */
static bool is_pointer(const struct work *w, const struct elf_section *s, uint64_t at)
{
	uint64_t word;

	if (at >= s->sh.sh_size || s->sh.sh_size - at < 8)
		return true;
	memcpy(&word, s->data + at, 8);
	return !space_at(&w->out->space, word) || word % FUNCTION_ALIGN == 0;
}

/* May there be addresses of code in data without a RELA entry? There may be in files that are linked to a fixed
 * address, and in files with packed relocations (RELR). */
static bool has_words(const struct elf_file *f)
{
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		if (f->sections[i].sh.sh_type == SHT_RELR)
			return true;
	return f->eh.e_type == ET_EXEC;
}

#define END_MOST 8u /* longest jump, call or return, in bytes */

/* If addresses in data may lack relocations, records the words of data that may be addresses of functions. */
static void words_note(struct work *w)
{
	const struct elf_file *f = w->file;
	bool words = has_words(f);
	uint64_t at, word;
	uint32_t i;

	/* Entries of jump tables are words as well. A word is taken for such an entry if one of its neighbours cannot be
	 * the address of a function. */
	for (i = 1; i < f->section_count && words; i++) {
		const struct elf_section *s = &f->sections[i];

		if (!s->data || s->sh.sh_type != SHT_PROGBITS || !(s->sh.sh_flags & SHF_ALLOC) ||
		    (s->sh.sh_flags & SHF_EXECINSTR) || section_is_own(w, s))
			continue;
		for (at = (8 - s->sh.sh_addr % 8) % 8; at + 8 <= s->sh.sh_size; at += 8) {
			memcpy(&word, s->data + at, 8);
			/* Most words are skipped here. */
			if (!space_may_hold(&w->out->space, word) || !space_at(&w->out->space, word))
				continue;
			if (word % FUNCTION_ALIGN == 0 && is_pointer(w, s, at - 8) && is_pointer(w, s, at + 8))
				undiscovered_note(w, word);
		}
	}
}

/* Do the bytes before an offset, decoded as one instruction that ends there, form a jump, call or return? */
static bool is_after_end(const struct code_section *c, uint64_t off)
{
	unsigned len;
	struct step s;

	for (len = 1; len <= END_MOST && len <= off; len++)
		if (step_decode(NULL, c->bytes + off - len, len, c->addr + off - len, &s) && s.len == len &&
		    s.flow != FLOW_NEXT && s.flow != FLOW_BRANCH)
			return true;
	return false;
}

/* May a function begin at an offset? It may if padding is in front of it or, unless `padded`, if a jump, call or return
 * is. */
static bool may_begin(const struct code_section *c, uint64_t off, bool padded)
{
	uint64_t from, at;
	struct step s;

	for (from = off; off - from < FUNCTION_ALIGN; from--) {
		for (at = from; at < off && step_decode(NULL, c->bytes + at, off - at, c->addr + at, &s) && s.padding;
		     at += s.len)
			;
		if (at == off && (!from || from < off || (!padded && is_after_end(c, from))))
			return true;
		if (!from)
			break;
	}
	return false;
}

/* The state of decoding, instruction by instruction, the code between two code ranges. */
struct sweep {
	const struct code_section *c;
	uint64_t at, end;   /* everything before `at` has been decoded; the gap ends at `end` */
	bool falls_through; /* the last instruction is not padding, and execution may continue after it */
	bool certain;       /* decoding began at the start of a function, which extends to `within` at least */
	uint64_t within;    /* the highest target of a branch so far */
	size_t next;        /* number of the code range that ends the gap */
};

/* Begins to decode at an address, which lies in a gap. */
static void sweep_begin(const struct work *w, struct sweep *x, uint64_t from)
{
	x->c = space_at(&w->out->space, from);
	x->end = x->c ? x->c->addr + x->c->size : from;
	while (x->next < w->ranges.count && w->ranges.list[x->next].start <= from)
		x->next++;
	if (x->next < w->ranges.count && w->ranges.list[x->next].start < x->end)
		x->end = w->ranges.list[x->next].start;
	x->at = from;
	x->falls_through = x->certain = false;
	x->within = 0;
}

/* Decodes up to an address. Returns false if some bytes before it do not decode, or if it lies after the gap. */
static bool sweep_to(struct sweep *x, uint64_t addr)
{
	struct step s;

	if (addr >= x->end)
		return false;
	while (x->at < addr) {
		if (!step_decode(NULL, x->c->bytes + (x->at - x->c->addr), x->end - x->at, x->at, &s))
			return false;
		x->at += s.len;
		x->falls_through = !s.padding && (s.flow == FLOW_NEXT || s.flow == FLOW_BRANCH);
		if (s.flow == FLOW_BRANCH && (uint64_t)s.imm > x->within && (uint64_t)s.imm < x->end)
			x->within = (uint64_t)s.imm;
	}
	return true;
}

/* Begins to decode at the end of the code range before an address, if the code there begins as a function does. */
static void sweep_begin_before(const struct work *w, struct sweep *x, uint64_t addr)
{
	const struct code_section *c;
	uint64_t from;
	struct step s;

	while (x->next < w->ranges.count && w->ranges.list[x->next].start <= addr)
		x->next++;
	from = x->next ? w->ranges.list[x->next - 1].end : addr;
	c = space_at(&w->out->space, from);
	while (c && from < addr && step_decode(NULL, c->bytes + (from - c->addr), addr - from, from, &s) && s.padding)
		from += s.len;
	if (c && from < addr && step_decode(NULL, c->bytes + (from - c->addr), addr - from, from, &s) &&
	    step_begins_function(&s, c->bytes + (from - c->addr), addr - from)) {
		sweep_begin(w, x, from);
		x->certain = true;
	}
}

/* Does the code at an address of a section set up a frame pointer? */
static bool is_prologue(const struct code_section *c, uint64_t addr)
{
	return insn_is_frame_prologue(c->bytes + (addr - c->addr), c->size - (addr - c->addr));
}

bool number_may_begin(const struct work *w, uint64_t addr)
{
	const struct code_section *c = w->starts.padding.prevails ? space_at(&w->out->space, addr) : NULL;

	if (!c || addr == c->addr || is_prologue(c, addr) ||
	    code_is_sigreturn(c->bytes + (addr - c->addr), c->size - (addr - c->addr)))
		return true;
	return word_has(w->starts.padded, w->starts.padded_count, addr);
}

/*
 * Removes words that do not seem to be addresses of functions. Numbers in data that happen to equal addresses of code
 * point into the middle of functions. A code range there would cut the code range of the function in two, and neither
 * half would be recognised as a function. So a word is kept only in two cases: decoding, from the previous word or from
 * a function after the previous code range, does not arrive there in the middle of running code; or the bytes before it
 * can end a function. If decoding began at the start of a function (a frame pointer set up at the previous word also
 * shows one), these bytes must be padding. (There may be data in between, after which decoding is out of step.)
 */
static void words_sift(struct work *w)
{
	struct sweep x = {0};
	size_t i, k = 0;

	sort_words(w->starts.undiscovered, w->starts.undiscovered_count);
	w->starts.undiscovered_count = words_unique(w->starts.undiscovered, w->starts.undiscovered_count);
	for (i = 0; i < w->starts.undiscovered_count; i++) {
		uint64_t word = w->starts.undiscovered[i];
		bool decoded, amidst;

		if (word >= x.end)
			sweep_begin_before(w, &x, word);
		decoded = sweep_to(&x, word);
		amidst = decoded && (x.at > word || x.falls_through || (x.certain && word <= x.within));
		if (amidst && !may_begin(x.c, word - x.c->addr, x.certain))
			continue;
		if (!number_may_begin(w, word))
			continue;
		w->starts.undiscovered[k++] = word;
		if (!decoded || amidst || !x.certain) {
			sweep_begin(w, &x, word);
			x.certain = is_prologue(x.c, word);
		}
	}
	w->starts.undiscovered_count = k;
}

void undiscovered_in_words(struct work *w)
{
	size_t i;

	words_note(w);
	words_sift(w);
	undiscovered_add(w);
	for (i = 0; i < w->ranges.count; i++) /* at this point only the new code ranges are marked */
		if (w->state[i].run)
			w->state[i].evidence |= EVIDENCE_WORD;
}

void undiscovered_in_data(struct work *w)
{
	size_t i;

	data_read(w);
	for (i = 0; i < w->starts.data_count; i++)
		undiscovered_note(w, w->starts.data[i]);
	own_stack_starts(w);
	undiscovered_add(w);
}
