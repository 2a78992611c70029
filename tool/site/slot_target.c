/* SPDX-License-Identifier: MIT */
/*
 * Computes the initial targets of slots from dynamic relocations and data, and the bytes of call sites from the code of
 * these targets.
 */
#include "site/slot_target.h"
#include "shared/search.h"

#include "arch/x86/insn.h"
#include "site/site.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* Sorts by function, then by the address of the record: like libetch, etch uses the first record of a function. */
static int native_order(const void *a, const void *b)
{
	const struct native_row *x = a, *y = b;

	if (x->func != y->func)
		return x->func < y->func ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void natives_take(struct targets *t, const struct linked_tables *now)
{
	size_t i, n = 0;

	t->natives = mem_zero(now->native_count + 1, sizeof(*t->natives));
	for (i = 0; i < now->native_count; i++)
		if (now->natives[i].flags & ETCH_NATIVE_CHECKED)
			t->natives[n++] = now->natives[i];
	if (n)
		qsort(t->natives, n, sizeof(*t->natives), native_order);
	for (i = 0; i < n; i++)
		if (!t->native_count || t->natives[t->native_count - 1].func != t->natives[i].func)
			t->natives[t->native_count++] = t->natives[i];
}

int targets_open(struct targets *t, const struct elf_file *f, const struct linked_tables *now, struct error *e)
{
	uint64_t lo = UINT64_MAX, hi = 0;
	uint32_t i;
	bool shared;

	memset(t, 0, sizeof(*t));
	t->file = f;
	for (i = 1; i < f->section_count; i++) {
		const Elf64_Shdr *sh = &f->sections[i].sh;

		if (!section_is_etched(&f->sections[i], &shared))
			continue;
		lo = sh->sh_addr < lo ? sh->sh_addr : lo;
		hi = sh->sh_addr + sh->sh_size > hi ? sh->sh_addr + sh->sh_size : hi;
	}
	if (lo < hi && dynamic_relocs_read(f, lo, hi, &t->relocs, &t->reloc_count, e))
		return -1;
	natives_take(t, now);
	return 0;
}

void targets_close(struct targets *t)
{
	free(t->relocs);
	free(t->natives);
	memset(t, 0, sizeof(*t));
}

/* Returns the code from an address to the end of its segment in the file, or null. These are the bytes that libetch
 * reads in a loaded module. */
static const uint8_t *code_at(const struct elf_file *f, uint64_t addr, uint64_t *avail)
{
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || addr < p->p_vaddr || addr - p->p_vaddr >= p->p_filesz)
			continue;
		*avail = p->p_filesz - (addr - p->p_vaddr);
		return elf_at(f, addr, *avail);
	}
	return NULL;
}

/* Returns the first of the relocations that write to a slot, or null, and sets *count to their number. */
static const struct dynamic_reloc *slot_reloc(const struct targets *t, uint64_t slot, size_t *count)
{
	size_t lo = SEARCH(t->reloc_count, i, t->relocs[i].place < slot && slot - t->relocs[i].place >= 8), end;

	for (end = lo; end < t->reloc_count && (t->relocs[end].place <= slot || t->relocs[end].place - slot < 8); end++)
		;
	*count = end - lo;
	return &t->relocs[lo];
}

/*
 * Do all modules use this definition of a symbol? They do if it cannot be preempted, or if it is in the program, which
 * the dynamic linker searches first. A protected symbol of a library is left to the dynamic linker, since the program
 * may define a canonical address for it.
 */
static bool is_final(const struct elf_file *f, const struct elf_symbol *y)
{
	if (!y->section || y->type == STT_GNU_IFUNC || y->type == STT_TLS)
		return false;
	return f->eh.e_type == ET_EXEC || elf_is_pie(f) || y->bind == STB_LOCAL || y->visibility == STV_HIDDEN ||
	       y->visibility == STV_INTERNAL;
}

bool target_known(const struct targets *t, uint64_t slot, uint64_t *target)
{
	const uint8_t *p = elf_at(t->file, slot, 8);
	const struct dynamic_reloc *r;
	uint64_t avail;
	size_t n;

	r = slot_reloc(t, slot, &n);
	if (!n) { /* without a relocation, the word is an address only if the file is loaded at its link address */
		if (!p || t->file->eh.e_type != ET_EXEC)
			return false;
		memcpy(target, p, 8);
	} else if (n > 1 || r->place != slot) {
		return false;
	} else if (r->type == R_X86_64_RELATIVE) {
		*target = r->addend;
	} else if (r->type == R_X86_64_64 && r->symbol && is_final(t->file, r->symbol)) {
		*target = r->symbol->value + r->addend;
	} else {
		return false;
	}
	return *target && code_at(t->file, *target, &avail);
}

bool target_is_null(const struct targets *t, uint64_t slot)
{
	static const uint8_t zero[8];
	const uint8_t *p = elf_at(t->file, slot, 8);
	size_t n;

	slot_reloc(t, slot, &n);
	return !n && p && !memcmp(p, zero, 8);
}

const char *target_import(const struct targets *t, uint64_t slot)
{
	size_t n;
	const struct dynamic_reloc *r = slot_reloc(t, slot, &n);

	return n == 1 && r->symbol && r->symbol->name[0] ? r->symbol->name : NULL;
}

/* Finds the instructions of a function that may replace a call of it. Returns false if there are none. */
static bool target_body(const struct targets *t, uint64_t target, struct etch_pv_body *body)
{
	size_t lo = SEARCH(t->native_count, i, t->natives[i].func < target);
	uint64_t avail;
	const uint8_t *code;

	if (lo < t->native_count && t->natives[lo].func == target) {
		const struct native_row *x = &t->natives[lo];

		code = code_at(t->file, x->code, &avail);
		if (!code || avail < x->len)
			return false;
		body->len = x->len;
		body->one = !x->len || (x->flags & ETCH_NATIVE_ONE);
		memcpy(body->bytes, code, x->len);
		return true;
	}
	code = code_at(t->file, target, &avail);
	return code && etch_pv_tiny(code, avail, body);
}

/* Is this a move of all 64 bits from one register to another, by which a function returns its argument? */
static bool is_copy(const struct insn *in, const uint8_t *bytes)
{
	char text[160];

	if (in->mem != MEM_NONE || in->imm_len || (in->writes & ~insn_return_values()) || !in->reads ||
	    (in->reads & (in->reads - 1)) || (in->reads & in->writes))
		return false;
	insn_text(bytes, in->len, in->addr, text, sizeof(text));
	return !strncmp(text, "mov", 3) && strchr("lq ", text[3]);
}

/*
 * Returns the state of the call site whose instruction is `in`. `body` is the body of its target, or null if that is
 * not known.
 */
static enum call_state state_of(const struct insn *in, const uint8_t *bytes, const struct etch_pv_body *body)
{
	if (in->flow == FLOW_CALL || in->flow == FLOW_JUMP)
		return CALL_DIRECT;
	if (in->padding || in->flow == FLOW_RETURN)
		return CALL_NOP;
	return body && body->len && is_copy(in, bytes) ? CALL_MOVE : CALL_BODY;
}

void call_image(const struct targets *t, const struct etch_imv *entry, uint64_t site, uint64_t slot,
                struct call_image *out)
{
	struct etch_pv_body body;
	unsigned count;
	struct insn in;
	bool known;

	memset(out, 0, sizeof(*out));
	out->known = !(entry->flags & ETCH_IMV_GOT) && target_known(t, slot, &out->target);
	if (!out->known)
		return;
	known = target_body(t, out->target, &body);
	out->len = etch_pv_image(entry, site, out->target, known ? &body : NULL, out->bytes, &count);
	if (out->len && count != 1) /* one store cannot write several instructions, so the site gets a direct call */
		out->len = etch_pv_image(entry, site, out->target, NULL, out->bytes, &count);
	if (!out->len || !insn_decode(out->bytes, out->len, site, &in))
		return;
	out->state = state_of(&in, out->bytes, known ? &body : NULL);
}
