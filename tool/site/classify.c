/* SPDX-License-Identifier: MIT */
/* Gives each use of an etched object that the tracker has found its form, or the reason why it has none. */
#include "site/classify.h"

#include "analysis/addresses/flags.h"

#include "support/memory.h"

#include <etch/pv_forms.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- compares that the link step commutes ---- */

/*
 * Finds and writes the compares that the link step commutes. `cmp %reg,obj` has no encoding in which an immediate
 * replaces obj, but with exchanged operands it has one, and is an ordinary site. Every jump, setcc and cmov that reads
 * its flags then needs the swapped condition. The file is changed once; later sets only rewrite the compare.
 */

/* Appends the commuted form of instruction i to the list. Returns false if the instruction has none. */
static bool commuted_add(struct function_scan *c, size_t i)
{
	struct scan *s = c->scan;
	const struct insn *in = &c->func->code->insns[i];
	struct commuted t = {.addr = in->addr, .len = in->len};

	if (!insn_commute(c->func->fn->bytes + (in->addr - c->func->fn->start), in->len, t.bytes))
		return false;
	mem_reserve(&s->commuted, &s->commuted_capacity, s->commuted_count, sizeof(*s->commuted));
	s->commuted[s->commuted_count++] = t;
	return true;
}

/*
 * Handles a compare whose first operand is an object and whose second is a register, and whose flags are read as an
 * order (less, greater). If the compare and all instructions that read its flags can be commuted, adds all of them to
 * scan->commuted.
 */
static void site_compare_commute(struct function_scan *c, size_t insn)
{
	size_t n = c->func->code->count, before = c->scan->commuted_count, i;
	uint8_t *readers = mem_alloc(n + 1, 1);
	bool all = func_flag_readers(c->func, c->live_flags, insn, readers) && commuted_add(c, insn);

	for (i = 0; i < n && all; i++)
		if (readers[i])
			all = commuted_add(c, i);
	if (!all)
		c->scan->commuted_count = before;
	free(readers);
}

void compares_commute(const struct scan *s, struct elf_file *f)
{
	size_t i;

	for (i = 0; i < s->commuted_count; i++) {
		uint8_t *p = (uint8_t *)elf_at(f, s->commuted[i].addr, s->commuted[i].len);

		if (p)
			memcpy(p, s->commuted[i].bytes, s->commuted[i].len);
	}
}

/* ---- forms ---- */

/*
 * Determines which flags the replacement of a compare with memory must set. Returns null, or the reason why nothing can
 * replace the compare.
 */
static const char *flags_classify(struct function_scan *c, const struct use *u, struct site *site)
{
	unsigned live, order = ETCH_NEED_BELOW | ETCH_NEED_LESS;

	if (!c->live_flags)
		c->live_flags = func_live_flags(c->func);
	live = c->live_flags[u->insn];
	if (live & INSN_FLAGS_REST)
		return "its flags are used for more than equality and order";
	if (site->entry.form < ETCH_FORM_CMPI8) {
		if (!(live & order))
			return NULL;
		if (u->off_known && !elf_is_object(c->scan->file))
			site_compare_commute(c, u->insn);
		return "its order is used, with memory as the first operand and a register as the second";
	}
	if ((live & order) == order)
		return "its flags are used for both signed and unsigned order";
	if (site->len < (live & order ? 4 : 3))
		return "too short for an immediate: its address is in a register";
	if (c->stack_even < 0)
		c->stack_even = func_stack_even(c->func->code);
	if ((live & ETCH_NEED_LESS) && !c->stack_even)
		return "its signed order is used where the stack pointer may be odd";
	site->more.need = (uint8_t)live;
	return NULL;
}

/*
 * Returns the address of a memory operand, or 0 if a register holds it. The address of a rip-relative operand is
 * computed from the bytes, since its relocation may not have been applied yet.
 */
static uint64_t operand_address(const struct insn *in)
{
	if (in->base == INSN_PC_REG)
		return in->addr + in->len + (uint64_t)in->disp;
	return in->base == INSN_NO_REG ? (uint64_t)in->disp : 0;
}

/* Checks that a load can be regenerated exactly from its entry. If not, the load gets a reason and no form. */
static void load_confirm(struct function_scan *c, const struct insn *in, const uint8_t *bytes, struct site *site)
{
	uint8_t again[16];
	char why[200];
	unsigned n;

	if (!insn_confirm(bytes, c->func->fn->end - in->addr, in, why, sizeof(why))) {
		site->reason = "the decoders disagree";
		scan_finding_add(c->scan, "ETCH-D001", c->func->fn->section, in->addr, "%s", why);
		return;
	}
	n = etch_site_load(&site->entry, &site->more, in->addr, operand_address(in), again);
	if (n != in->len || memcmp(again, bytes, n) || etch_form_size(site->entry.form) != in->mem_size) {
		site->reason = "unusual load encoding";
		memset(&site->entry, 0, sizeof(site->entry));
	}
}

/* Returns the reason why a load cannot be replaced because of the bytes that it reads, or null. */
static const char *load_place(struct function_scan *c, const struct use *u, const struct site *site)
{
	const struct insn *in = &c->func->code->insns[u->insn];
	const struct object *o = &c->scan->objects.list[u->object];
	uint64_t most = o->shared ? (o->size + 7) & ~7ull : o->size;

	if (!u->off_known)
		return "its address differs between paths";
	if (u->in_register && u->got && u->off != (site->entry.flags & ETCH_IMV_MORE ? site->more.disp : 0))
		return "a field reached through the GOT: a table entry cannot hold its offset";
	if (!o->section)
		return NULL;
	if (u->off < 0 || (uint64_t)u->off + in->mem_size > most) {
		/*
		 * The end of an inferred object may be unknown, and an address that is relative to the cell of a value may be
		 * in the next cell.
		 */
		if (!o->inferred && !o->value)
			scan_finding_add(c->scan, "ETCH-I002", c->func->fn->section, in->addr,
			                 "reads %u bytes at offset %" PRId64 " of %s, of size %" PRIu64, in->mem_size, u->off,
			                 o->name, o->size);
		return "reads past the end of its object";
	}
	if (o + 1 < c->scan->objects.list + c->scan->objects.defined && o[1].section == o->section &&
	    o->addr + (uint64_t)u->off + in->mem_size > o[1].addr)
		return "reads into the next object";
	return NULL;
}

void site_load_classify(struct function_scan *c, const struct use *u, struct site *site)
{
	const struct insn *in = &c->func->code->insns[u->insn];
	const uint8_t *bytes = c->func->fn->bytes + (in->addr - c->func->fn->start);

	site->reason = insn_site_form(bytes, in, &site->entry, &site->more);
	if (!site->reason && site->entry.form >= ETCH_FORM_CMPR8)
		site->reason = flags_classify(c, u, site);
	if (!site->reason)
		site->reason = load_place(c, u, site);
	if (site->reason)
		return;
	load_confirm(c, in, bytes, site);
	if (!site->reason && u->got && u->in_register) {
		site->entry.flags |= ETCH_IMV_GOT;
		if (site->entry.flags & ETCH_IMV_MORE)
			site->more.flags = ETCH_IMV_GOT;
	}
}

static const char *doubt_reason(unsigned doubt)
{
	switch (doubt) {
	case DOUBT_STALE: return "the pointer is kept across a call or barrier, where the slot may be set";
	case DOUBT_PLACE: return "the pointer was read from different places on different paths";
	case DOUBT_CHANGED: return "the pointer was modified after it was read";
	default: return "the pointer comes from different slots on different paths";
	}
}

/* Is the slot of a call outside its object? If so, the site gets this as its reason. */
static bool slot_is_outside(struct function_scan *c, const struct use *u, struct site *site)
{
	const struct insn *in = &c->func->code->insns[u->insn];
	const struct object *o = &c->scan->objects.list[u->object];

	if (!o->section || (u->off >= 0 && (uint64_t)u->off + site->size <= o->size))
		return false;
	site->reason = "its slot is past the end of the object";
	if (!o->inferred && !o->value)
		scan_finding_add(c->scan, "ETCH-I002", c->func->fn->section, in->addr,
		                 "calls through %u bytes at offset %" PRId64 " of %s, of size %" PRIu64, site->size, u->off,
		                 o->name, o->size);
	return true;
}

/* Returns the reason why a call cannot be regenerated exactly from its entry, or null. */
static const char *call_confirm(struct function_scan *c, const struct insn *in, const uint8_t *bytes,
                                const struct site *site)
{
	uint8_t again[16];
	char why[200];
	unsigned n;

	if (!insn_confirm(bytes, c->func->fn->end - in->addr, in, why, sizeof(why))) {
		scan_finding_add(c->scan, "ETCH-D001", c->func->fn->section, in->addr, "%s", why);
		return "the decoders disagree";
	}
	n = etch_pv_load(&site->entry, in->addr, operand_address(in), again);
	return n != in->len || memcmp(again, bytes, n) ? "unusual call encoding" : NULL;
}

/*
 * Makes the entry of a call through a GOT slot. The address of the object's slot is the contents of the GOT slot plus
 * an offset, which the entry must hold. Returns null, or the reason why the entry cannot hold it.
 */
static const char *got_entry_make(const struct use *u, const struct insn *in, struct etch_imv *entry)
{
	if (!u->pointer && u->off != in->disp)
		return "a table inside an object reached through the GOT: a table entry cannot hold its offset";
	if (!etch_pv_set(entry, etch_pv_reg(entry), u->off))
		return "its offset in the table is too large for an entry";
	entry->flags |= ETCH_IMV_GOT;
	return NULL;
}

void site_call_classify(struct function_scan *c, const struct use *u, struct site *site)
{
	const struct insn *in = &c->func->code->insns[u->insn];
	const uint8_t *bytes = c->func->fn->bytes + (in->addr - c->func->fn->start);
	const struct object *o = &c->scan->objects.list[u->object];

	site->reason = insn_pv_form(bytes, in, &site->entry);
	if (!site->reason && u->doubt)
		site->reason = doubt_reason(u->doubt);
	if (!site->reason && !u->off_known)
		site->reason = "its address differs between paths";
	if (!site->reason && slot_is_outside(c, u, site))
		return;
	if (!site->reason && o->section && (o->addr + (uint64_t)u->off) % 8)
		site->reason = "its slot is not aligned to 8 bytes";
	if (!site->reason)
		site->reason = call_confirm(c, in, bytes, site);
	if (!site->reason && u->got && u->in_register)
		site->reason = got_entry_make(u, in, &site->entry);
	if (site->reason)
		memset(&site->entry, 0, sizeof(site->entry));
}
