/* SPDX-License-Identifier: MIT */
/*
 * Collects the landing pads of calls that throw, from .gcc_except_table, and the fixups of instructions that fault,
 * from __ex_table.
 */
#include "site/entries_internal.h"
#include "shared/search.h"

#include "analysis/facts/fixups.h"
#include "analysis/facts/cfi_file.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* Converts an address of the code space to a section and an address in this section. */
static bool entry_of_space(const struct builder *b, const struct code_space *space, uint64_t addr, struct entry *out)
{
	const struct code_section *code = space_at(space, addr);

	if (!code)
		return false;
	out->section = code->section;
	out->addr = addr - code->addr + (elf_is_object(b->f) ? 0 : b->f->sections[code->section].sh.sh_addr);
	return true;
}

/* The context of pad_take(). */
struct pads {
	struct builder *b;
	const struct code_space *space;
};

/* Adds the call site [start, end) with its landing pad; all three are addresses of the code space. */
static void pad_take(void *ctx, uint64_t start, uint64_t end, uint64_t pad)
{
	struct pads *p = ctx;
	struct entries *x = p->b->out;
	const struct func *from_in, *to_in;
	struct entry from, to;

	if (!pad || !entry_of_space(p->b, p->space, start, &from) || !entry_of_space(p->b, p->space, pad, &to))
		return;
	mem_reserve(&x->pads, &x->pad_capacity, x->pad_count, sizeof(*x->pads));
	/* UINT64_MAX means that the pad is in another section, mostly in the function's cold part. */
	x->pads[x->pad_count++] = (struct track_pad){from.section, from.addr, from.addr + (end - start),
	                                             from.section == to.section ? to.addr : UINT64_MAX};
	from_in = func_find(p->b->funcs, from.section, from.addr);
	to_in = func_find(p->b->funcs, to.section, to.addr);
	if (from_in != to_in)
		entry_add(p->b, to.section, to.addr, false);
}

static int pad_order(const void *a, const void *b)
{
	const struct track_pad *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x->pad < y->pad ? -1 : x->pad > y->pad;
}

static int fault_order(const void *a, const void *b)
{
	const struct track_fault *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->insn != y->insn)
		return x->insn < y->insn ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

/*
 * Records the faulting instructions with their fixups. A fixup is also an entry, because the fault may have changed a
 * register, to hold an error.
 */
static int faults_build(struct builder *b, const struct code_space *space)
{
	struct entries *x = b->out;
	struct fixups fix = {0};
	struct error ignored;
	struct entry from, to;
	size_t i;

	if (fixups_read(b->f, space, &fix, &ignored)) { /* etch cannot read this table */
		fixups_free(&fix);
		memset(&fix, 0, sizeof(fix));
	}
	if (patched_edges_add(b->f, space, &fix, b->e)) {
		fixups_free(&fix);
		return -1;
	}
	x->faults = mem_zero(fix.count + 1, sizeof(*x->faults));
	for (i = 0; i < fix.count; i++) {
		if (fix.list[i].insn_in != PLACE_CODE || fix.list[i].to_in != PLACE_CODE ||
		    !entry_of_space(b, space, fix.list[i].insn, &from) || !entry_of_space(b, space, fix.list[i].to, &to))
			continue;
		x->faults[x->fault_count++] =
			(struct track_fault){from.section, from.addr, from.section == to.section ? to.addr : UINT64_MAX};
		entry_add(b, to.section, to.addr, false);
	}
	fixups_free(&fix);
	if (x->fault_count)
		qsort(x->faults, x->fault_count, sizeof(*x->faults), fault_order);
	return 0;
}

int pads_build(struct builder *b)
{
	struct code_space space = {0};
	struct cfi_file cfi = {0};
	struct pads p = {b, &space};
	size_t i;
	int err;

	space_build(b->f, &space);
	cfi_file_open(b->f, &space, &cfi);
	for (i = 0; i < cfi.count; i++)
		lsda_call_sites(b->f, &cfi, i, pad_take, &p);
	err = faults_build(b, &space);
	cfi_file_close(&cfi);
	space_free(&space);
	if (b->out->pad_count)
		qsort(b->out->pads, b->out->pad_count, sizeof(*b->out->pads), pad_order);
	return err;
}

size_t pads_from(const struct entries *x, uint32_t section, uint64_t addr)
{
	return SEARCH(x->pad_count, i,
	              x->pads[i].section < section || (x->pads[i].section == section && x->pads[i].start < addr));
}

size_t faults_from(const struct entries *x, uint32_t section, uint64_t addr)
{
	return SEARCH(x->fault_count, i,
	              x->faults[i].section < section || (x->faults[i].section == section && x->faults[i].insn < addr));
}
