/* SPDX-License-Identifier: MIT */
/*
 * V8. Its build compiles functions (the builtins, and the handlers of its interpreter) ahead of time into one blob
 * without .eh_frame. The functions are found by a table of offsets in the read-only data of each program that embeds
 * V8; the table is still there when symbols are stripped. It is V8's array of EmbeddedData::LayoutDescription
 * (src/snapshot/embedded/embedded-data.h), with one entry per builtin. An entry consists of 32-bit words; the first two
 * are the offset of the builtin's code in the blob, and its length.
 */
#include <string.h>

#include "analysis/runtimes/columns.h"
#include "arch/x86/fast_decoder.h"
#include "etch/orc.h"

/* Number of words in an entry: 2, 3 or 8, depending on the version of V8, with a margin for later versions. The words
 * after the second describe metadata. */
#define WORDS_LEAST 2u
#define WORDS_MOST  12u
/* V8's kCodeAlignment in bytes: 32, or 64 in later versions. */
#define ALIGN_LEAST 32u
#define ALIGN_MOST  64u
/* Least number of builtins. V8 has had more than 500 ever since it embeds them. */
#define BUILTINS_LEAST 256u
/* Most tables that are read in one file. One is expected; others only look like a table by accident. */
#define TABLES_MOST 4u
/* Most bytes that are compared for each candidate address of a blob, on average: the first few bytes rule most
 * candidates out. */
#define LOOKS_MOST 16u

/* A table of builtins, and the layout under which it is one. */
struct blob_table {
	const uint8_t *bytes;  /* bytes of the first entry */
	size_t count;          /* number of entries */
	unsigned words, align; /* words: number of words in an entry; align: kCodeAlignment */
};

static uint32_t word_at(const uint8_t *bytes, size_t i)
{
	uint32_t word;

	memcpy(&word, bytes + 4 * i, 4);
	return word;
}

static uint64_t offset_of(const struct blob_table *t, size_t i) { return word_at(t->bytes, i * t->words); }

/* Returns the end of the code of builtin `i`, as an offset in the blob. */
static uint64_t end_of(const struct blob_table *t, size_t i)
{
	return offset_of(t, i) + word_at(t->bytes, i * t->words + 1);
}

/* Returns the end of the padding after builtin `i`, as an offset in the blob: V8 pads each builtin to its alignment,
 * with at least one byte (PadAndAlignCode()). */
static uint64_t padded_end_of(const struct blob_table *t, size_t i)
{
	return (end_of(t, i) + 1 + t->align - 1) & ~(uint64_t)(t->align - 1);
}

/* Sets t->count to the number of valid entries: the first has offset 0, and each further one begins where the padding
 * of the one before it ends. `words`: number of words that can be read. */
static void table_measure(struct blob_table *t, size_t words)
{
	t->count = 0;
	while ((t->count + 1) * t->words <= words && end_of(t, t->count) > offset_of(t, t->count) &&
	       offset_of(t, t->count) == (t->count ? padded_end_of(t, t->count - 1) : 0))
		t->count++;
}

/*
 * If the blob were at `addr`, would all gaps between its builtins be filled with one byte value, which is a padding
 * instruction? *looks is the number of bytes that may still be compared.
 */
static bool blob_is_at(const struct blob_table *t, const struct code_section *c, uint64_t addr, uint64_t *looks)
{
	const uint8_t *code = c->bytes + (addr - c->addr), *pad = code + end_of(t, 0);
	struct step s;
	uint64_t at;
	size_t i;

	for (i = 0; i < t->count; i++)
		for (at = end_of(t, i); at == end_of(t, i) || (i + 1 < t->count && at < padded_end_of(t, i)); at++)
			if (!*looks || !(*looks)-- || code[at] != *pad)
				return false;
	return step_decode(NULL, pad, 1, addr + end_of(t, 0), &s) && s.padding;
}

/* Finds the address of the blob that a table describes, which need not be stored in the file. Returns 0 if there is
 * none, or more than one candidate. */
static uint64_t blob_find(const struct blob_table *t, const struct code_space *space)
{
	uint64_t size = end_of(t, t->count - 1) + 1, found = 0, at, looks;
	size_t i;

	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];

		looks = LOOKS_MOST * (c->size / t->align) + size;
		for (at = (c->addr + t->align - 1) & ~(uint64_t)(t->align - 1);
		     size <= c->size && at - c->addr <= c->size - size; at += t->align)
			if (blob_is_at(t, c, at, &looks)) {
				if (found)
					return 0;
				found = at;
			}
		if (!looks)
			return 0;
	}
	return found;
}

/* What the instructions of a builtin have shown so far, for is_part(). */
struct part_seen {
	bool reads;      /* an instruction reads memory relative to rbp */
	bool leaves;     /* an instruction jumps to a computed address, or jumps with such an address pushed */
	bool pushed;     /* a computed address was pushed */
	unsigned summed; /* mask of the registers to which an offset has been added */
};

/* Updates what is known of computed addresses by an instruction. */
static void sums_note(struct part_seen *x, const struct step *s)
{
	if (s->a >= 16)
		return;
	if (s->op == STEP_PUSH)
		x->pushed |= x->summed >> s->a & 1;
	else if ((s->op == STEP_ADD && s->imm) || s->op == STEP_ADDREG)
		x->summed |= 1u << s->a;
	else if (s->op != STEP_NONE && s->op != STEP_COMPARE)
		x->summed &= ~(1u << s->a);
}

/* Takes account of an instruction of a builtin. Returns false if it shows that is_part() is false for the builtin. */
static bool part_step(struct part_seen *x, const struct step *s)
{
	bool calls = s->flow == FLOW_CALL || s->flow == FLOW_CALL_IND;

	if (!x->reads && (step_pushes(s) || s->writes >> ETCH_REG_RBP & 1 || calls))
		return false;
	x->reads |= s->b == ETCH_REG_RBP && (s->op == STEP_LOAD || s->op == STEP_FETCH || s->op == STEP_NONE);
	if (s->flow == FLOW_RETURN)
		return false;
	if (s->flow != FLOW_JUMP_IND) {
		sums_note(x, s);
		return true;
	}
	x->leaves = true;
	return !s->deref && s->a < 16 && (x->pushed || x->summed >> s->a & 1);
}

/*
 * Does a builtin continue in the middle of another one, in the frame of that one? InterpreterEnterAtBytecode and
 * similar builtins do. They read memory relative to rbp, and leave only by a jump to an address that they compute as
 * the start of code plus an offset in it. Up to V8 10, they push this address and jump to a handler that returns to
 * it.
 */
static bool is_part(const uint8_t *bytes, uint64_t size, uint64_t addr)
{
	struct part_seen x = {0};
	uint64_t off;
	struct step s;

	for (off = 0; off < size && step_decode(NULL, bytes + off, size - off, addr + off, &s); off += s.len)
		if (!part_step(&x, &s))
			return false;
	return x.reads && x.leaves;
}

static void blob_add(const struct blob_table *t, const struct code_section *c, uint64_t addr, struct runtime_codes *out)
{
	size_t i;

	for (i = 0; i < t->count; i++) {
		uint64_t at = addr + offset_of(t, i), size = end_of(t, i) - offset_of(t, i);

		runtime_code_add(out, (struct runtime_code){.start = at,
		                                            .end = at + size,
		                                            .listed = true,
		                                            .part = is_part(c->bytes + (at - c->addr), size, at)});
	}
}

/* Does a table begin at `bytes`? If so, sets *t to it. */
static bool table_open(const uint8_t *bytes, size_t words, struct blob_table *t)
{
	t->bytes = bytes;
	for (t->words = WORDS_LEAST; t->words <= WORDS_MOST; t->words++)
		for (t->align = ALIGN_LEAST; t->align <= ALIGN_MOST; t->align *= 2) {
			table_measure(t, words);
			if (t->count >= BUILTINS_LEAST)
				return true;
		}
	return false;
}

/* Appends the builtins of all blobs whose tables are in read-only data. */
static void blobs_read(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out)
{
	unsigned tables = 0;
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		size_t words = s->data ? s->sh.sh_size / 4 : 0, k;

		if (s->sh.sh_type != SHT_PROGBITS || (s->sh.sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR)) != SHF_ALLOC)
			continue;
		/* The table follows hashes of 8 bytes each, so it is aligned to 8 bytes. */
		for (k = 0; k + 1 < words && tables < TABLES_MOST; k += 2) {
			struct blob_table t;
			uint64_t addr;

			if (word_at(s->data, k) || !word_at(s->data, k + 1) || !table_open(s->data + 4 * k, words - k, &t))
				continue;
			tables++;
			addr = blob_find(&t, space);
			if (addr)
				blob_add(&t, space_at(space, addr), addr, out);
			k += (t.count * t.words - 1) & ~(size_t)1;
		}
	}
}

/* ---- by symbols --------------------------------------------------------------------------------- */

static bool is_builtin(const char *name) { return !strncmp(name, "Builtins_", 9); }

/* Appends the builtins that have symbols, if two of the names identify V8. */
static void symbols_read(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t count = f->symbol_count ? f->symbol_count : f->dynsym_count, i;
	bool trampoline = false, call = false;

	for (i = 1; i < count; i++) {
		trampoline |= !strcmp(list[i].name, "Builtins_InterpreterEntryTrampoline");
		call |= !strncmp(list[i].name, "Builtins_CEntry_", 16);
	}
	if (trampoline && call)
		runtime_symbols_add(f, space, is_builtin, out);
}

/*
 * A JavaScript function takes its arguments off the stack, as many as were passed, so V8's garbage collector finds the
 * frames of callers by rbp (src/execution/frames.h: the caller's rbp is at rbp + 0, the return address at rbp + 8). No
 * other register is preserved, except by code that C calls, such as JSEntry. Builtins also tail-call one another
 * through a table in the isolate, to which a register points.
 */
const struct convention convention_v8 = {
	.keeps_none = true, .keeps_rbp = true, .frames_by_rbp = true, .jumps_by_any = true};

int v8_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e)
{
	size_t before = out->count;

	(void)e;
	if (!elf_is_object(f))
		blobs_read(f, space, out);
	if (out->count == before)
		symbols_read(f, space, out);
	return 0;
}
