/* SPDX-License-Identifier: MIT */
/* Reads and checks the records of __pv_native. */
#include "site/native_sites.h"
#include "arch/x86/opcodes.h"
#include "shared/search.h"
#include "support/memory.h"

#include <etch/pv_forms.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The place to which a reference in a record points. */
struct place {
	uint32_t section; /* 0: the place is not in this file */
	uint64_t addr;
};

/* Returns `size` bytes of code at a place, or null. */
static const uint8_t *code_at(const struct elf_file *f, const struct place *p, uint64_t size)
{
	struct elf_held held = elf_held(f, p->section, p->addr);

	return (f->sections[p->section].sh.sh_flags & SHF_EXECINSTR) && size <= held.size ? held.bytes : NULL;
}

static int place_relocated(struct scan *s, const struct elf_file *f, const struct elf_reloc *r, long n, uint64_t at,
                           struct place *out)
{
	long lo, i;

	*out = (struct place){0, 0};
	lo = SEARCH(n, k, r[k].offset < at);
	for (i = lo; i < n && r[i].offset == at; i++) {
		const struct elf_symbol *y = &f->symbols[r[i].symbol];

		if (r[i].type != R_X86_64_PC32)
			return error_set(&s->error, "%s: unexpected relocation type %u", ETCH_SEC_NATIVE, r[i].type);
		if (y->section)
			*out = (struct place){y->section, y->value + (uint64_t)r[i].addend};
	}
	return 0;
}

static struct place place_linked(const struct elf_file *f, uint64_t field, int32_t rel)
{
	uint64_t addr = etch_ref(field, rel);

	return (struct place){elf_section_at(f, addr), addr};
}

/* Disassembles a sequence into one line, truncated to `size`. */
static void sequence_text(const uint8_t *bytes, unsigned len, char *out, size_t size)
{
	struct insn in;
	unsigned at = 0;
	size_t n = 0;

	out[0] = 0;
	while (at < len && n + 2 < size) {
		if (!insn_decode(bytes + at, len - at, 0, &in))
			in.len = (uint8_t)(len - at);
		if (n)
			n += (size_t)snprintf(out + n, size - n, "; ");
		if (n < size)
			insn_text(bytes + at, in.len, 0, out + n, size - n);
		n += strlen(out + n);
		at += in.len;
	}
}

/* Checks a record with resolved references: sets out->flags, or adds a finding. Returns 0, or -1 and s->error. */
static int record_judge(struct scan *s, const struct elf_file *f, const struct etch_native *x, const struct place *func,
                        const struct place *code, struct native *out)
{
	const uint8_t *bytes = code_at(f, code, x->len), *body;
	struct place at = *func;
	const char *why = NULL;
	char text[160];
	bool one = false;

	out->code_section = code->section;
	out->code = code->addr;
	out->func = func->addr;
	out->len = x->len;
	if (!bytes || !code_at(f, func, 1))
		return 0; /* the linker has discarded the code, or it is in another file */
	/* The function itself must consist of the sequence, since its name may belong to a different definition. */
	body = code_at(f, &at, ENDBR_SIZE);
	if (body && insn_is_endbr(body, ENDBR_SIZE))
		at.addr += ENDBR_SIZE;
	body = code_at(f, &at, (uint64_t)x->len + 1);
	if (!body || memcmp(body, bytes, x->len) || body[x->len] != OPCODE_RET)
		why = "its function is not just the sequence and a return";
	if (!why && scan_is_relocated(s, code->addr, x->len))
		why = "the dynamic linker changes it";
	if (!why)
		why = insn_native_check(bytes, x->len, &one);
	if (!why) {
		out->flags = ETCH_NATIVE_CHECKED | (one ? ETCH_NATIVE_ONE : 0);
		return 0;
	}
	sequence_text(bytes, x->len, text, sizeof(text));
	scan_finding_add(s, "ETCH-P001", func->section, func->addr, "this sequence is not inlined: %s (%s)", why, text);
	return 0;
}

/* Reads and checks the records of one section. */
static int section_take(struct scan *s, const struct elf_file *f, uint32_t index, struct natives *out)
{
	const struct elf_section *sec = &f->sections[index];
	uint64_t n = sec->data ? sec->sh.sh_size / sizeof(struct etch_native) : 0, i;
	struct elf_reloc *r = NULL;
	uint32_t rel = elf_section_rela(f, index, 1);
	long count = 0;
	int err = -1;

	if (sec->sh.sh_size % sizeof(struct etch_native))
		return error_set(&s->error, "section %s: size %llu is not a multiple of %zu", sec->name,
		                 (unsigned long long)sec->sh.sh_size, sizeof(struct etch_native));
	if (elf_is_object(f) && rel && (count = elf_relocs(f, rel, &r, &s->error)) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		uint64_t at = i * sizeof(struct etch_native);
		struct native x = {.section = index, .at = at};
		struct etch_native row;
		struct place func, code;

		memcpy(&row, sec->data + at, sizeof(row));
		x.was = row.flags;
		if (elf_is_object(f)) {
			if (place_relocated(s, f, r, count, at + offsetof(struct etch_native, func), &func) ||
			    place_relocated(s, f, r, count, at + offsetof(struct etch_native, code), &code))
				goto out;
		} else {
			func = place_linked(f, sec->sh.sh_addr + at + offsetof(struct etch_native, func), row.func);
			code = place_linked(f, sec->sh.sh_addr + at + offsetof(struct etch_native, code), row.code);
		}
		if (etch_native_valid(&row) && record_judge(s, f, &row, &func, &code, &x))
			goto out;
		mem_reserve(&out->list, &out->capacity, out->count, sizeof(*out->list));
		out->list[out->count++] = x;
	}
	err = 0;
out:
	free(r);
	return err;
}

int natives_check(const struct elf_file *f, struct natives *out, struct scan *s)
{
	uint32_t i;

	memset(out, 0, sizeof(*out));
	for (i = 1; i < f->section_count; i++)
		if (elf_name_is(f->sections[i].name, ETCH_SEC_NATIVE) && f->sections[i].sh.sh_type == SHT_PROGBITS &&
		    section_take(s, f, i, out)) {
			natives_free(out);
			return -1;
		}
	return 0;
}

void natives_free(struct natives *n)
{
	free(n->list);
	memset(n, 0, sizeof(*n));
}
