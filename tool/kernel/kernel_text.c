/* SPDX-License-Identifier: MIT */
/* Writes the instructions at the place of a table entry as one line of text. */
#include "kernel/kernel.h"

#include "arch/x86/insn.h"

#include <stdio.h>
#include <string.h>

struct line {
	char *out;
	size_t size, used;
};

static void line_add(struct line *l, const char *text)
{
	int n = snprintf(l->out + l->used, l->size - l->used, "%s%s", l->used ? "; " : "", text);

	l->used += (size_t)n < l->size - l->used ? (size_t)n : l->size - l->used - 1;
}

/*
 * Finds the place to which an instruction refers: in object files by its relocation, in linked files by its operands.
 */
static bool reference(struct kernel *k, const struct kernel_place *at, const struct insn *i, struct kernel_place *to)
{
	const struct elf_reloc *r;

	if (elf_is_object(k->file)) {
		/* A PC-relative relocation is relative to its field, while the operand is relative to the next instruction. */
		r = kernel_reloc_in(k, at->section, at->addr, at->addr + i->len);
		if (r)
			kernel_reloc_place(k, r, elf_reloc_is_relative(r->type) ? (int64_t)(at->addr + i->len - r->offset) : 0, to);
		return r && to->kind != KPLACE_NONE;
	}
	if (i->flow == FLOW_CALL || i->flow == FLOW_JUMP || i->flow == FLOW_BRANCH)
		kernel_place_at(k, i->target, to);
	else if (i->mem != MEM_NONE && i->base == INSN_PC_REG)
		kernel_place_at(k, at->addr + i->len + (uint64_t)i->disp, to);
	else
		return false;
	return to->kind == KPLACE_SECTION && kernel_symbol_at(k, to->section, to->addr);
}

static void insn_line(struct kernel *k, const struct kernel_place *at, const struct insn *i, const uint8_t *bytes,
                      char *out, size_t size)
{
	struct kernel_place to;
	char name[256];
	size_t n;

	insn_text(bytes, i->len, at->addr, out, size);
	if (!reference(k, at, i, &to))
		return;
	kernel_place_name(k, &to, name, sizeof(name));
	/*
	 * The text of a direct call contains a target: about 0 before linking, an address after it. The name of the symbol
	 * replaces this number.
	 */
	if (i->flow == FLOW_CALL || i->flow == FLOW_JUMP || i->flow == FLOW_BRANCH)
		out[strcspn(out, " ")] = 0;
	n = strlen(out);
	snprintf(out + n, size - n,
	         i->flow == FLOW_CALL || i->flow == FLOW_JUMP || i->flow == FLOW_BRANCH ? " %s" : " <%s>", name);
}

void kernel_code_text(struct kernel *k, const struct kernel_place *p, uint64_t size, char *out, size_t out_size)
{
	uint64_t avail = size ? size : kernel_place_left(k, p), at = 0, nops = 0;
	const uint8_t *bytes = kernel_place_bytes(k, p, size ? size : 1);
	struct line l = {out, out_size, 0};
	struct kernel_place here = *p;
	char text[512];
	struct insn i;

	out[0] = 0;
	if (!bytes)
		snprintf(out, out_size, "-");
	while (bytes && (size ? at < size : !at)) {
		bool ok;

		here.addr = p->addr + at;
		ok = insn_decode(bytes + at, avail - at, here.addr, &i);
		if (ok && size && i.padding && i.flow == FLOW_NEXT) {
			nops += i.len;
			at += i.len;
			if (at < size)
				continue;
		}
		if (nops) {
			snprintf(text, sizeof(text), "nop (%u)", (unsigned)nops);
			line_add(&l, text);
			nops = 0;
			if (at >= size)
				break;
		}
		if (!ok) {
			line_add(&l, "(bad)");
			break;
		}
		insn_line(k, &here, &i, bytes + at, text, sizeof(text));
		line_add(&l, text);
		at += i.len;
	}
}
