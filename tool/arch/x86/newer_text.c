/* SPDX-License-Identifier: MIT */
/* Writes the disassembly of the instructions that newer.c decodes. */
#include "arch/x86/newer_internal.h"
#include "arch/x86/zydis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct text {
	char *at;
	size_t capacity;
	bool intel;
};

static void __attribute__((format(printf, 2, 3))) put(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at, t->capacity, format, args);
	va_end(args);
	if (n < 0)
		return;
	n = (size_t)n < t->capacity ? n : (int)t->capacity - 1;
	t->at += n;
	t->capacity -= (size_t)n;
}

static void put_register(struct text *t, unsigned r)
{
	static const char *const suffixes[] = {"b", "w", "d", ""};
	unsigned k = r - NEWER_REGISTER;

	if (newer_is_register(r))
		put(t, "%sr%u%s", t->intel ? "" : "%", k % 16 + 16, suffixes[k / 16]);
	else
		put(t, "%s%s", t->intel ? "" : "%", ZydisRegisterGetString((ZydisRegister)r));
}

static void put_number(struct text *t, int64_t n)
{
	if (n < 0)
		put(t, "-%#" PRIx64, -(uint64_t)n);
	else
		put(t, n > 9 ? "%#" PRIx64 : "%" PRId64, n);
}

/* Writes the displacement of an address in Intel syntax: as a term of a sum (with + or -) if other terms are in front
 * of it. */
static void put_term(struct text *t, bool in_sum, int64_t disp)
{
	if (in_sum)
		put(t, disp < 0 ? " - " : " + ");
	put_number(t, in_sum && disp < 0 ? (int64_t) - (uint64_t)disp : disp);
}

/* Writes an address in Intel syntax: [base + index*scale + disp]. */
static void put_intel(struct text *t, const ZydisDecodedOperand *op, int64_t disp)
{
	bool based = op->mem.base != ZYDIS_REGISTER_NONE, indexed = op->mem.index != ZYDIS_REGISTER_NONE;

	put(t, "[");
	if (based)
		put_register(t, op->mem.base);
	if (indexed) {
		put(t, based ? " + " : "");
		put_register(t, op->mem.index);
		put(t, op->mem.scale > 1 ? "*%u" : "", op->mem.scale);
	}
	if (disp || !(based || indexed))
		put_term(t, based || indexed, disp);
	put(t, "]");
}

/* Writes an address in AT&T syntax: disp(base, index, scale). */
static void put_att(struct text *t, const ZydisDecodedOperand *op, int64_t disp)
{
	bool based = op->mem.base != ZYDIS_REGISTER_NONE, indexed = op->mem.index != ZYDIS_REGISTER_NONE;

	if (disp || !(based || indexed))
		put_number(t, disp);
	if (!based && !indexed)
		return;
	put(t, "(");
	if (based)
		put_register(t, op->mem.base);
	if (indexed) {
		put(t, ", ");
		put_register(t, op->mem.index);
		put(t, op->mem.scale > 1 ? ", %u" : "", op->mem.scale);
	}
	put(t, ")");
}

static void put_memory(struct text *t, const ZydisDecodedOperand *op)
{
	int64_t disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0;

	if (op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS) {
		put_register(t, op->mem.segment);
		put(t, ":");
	}
	if (t->intel)
		put_intel(t, op, disp);
	else
		put_att(t, op, disp);
}

static void put_operand(struct text *t, const ZydisDecodedOperand *op)
{
	switch (op->type) {
	case ZYDIS_OPERAND_TYPE_REGISTER: put_register(t, op->reg.value); break;
	case ZYDIS_OPERAND_TYPE_MEMORY: put_memory(t, op); break;
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		put(t, t->intel ? "" : "$");
		put_number(t, op->imm.value.s);
		break;
	default: break;
	}
}

/* For a cmov or setcc whose condition Zydis names in another way than assemblers do ("nle" for "g"): returns the
 * assemblers' name of the condition, and sets *stem to "cmov" or "set". For any other instruction, returns `name`, and
 * *stem becomes empty. */
static const char *condition_of(const char *name, const char **stem)
{
	static const char *const others[][2] = {{"z", "e"},   {"nz", "ne"}, {"nb", "ae"},
	                                        {"nbe", "a"}, {"nl", "ge"}, {"nle", "g"}};
	static const char *const stems[] = {"cmov", "set"};
	size_t i, k;

	for (k = 0; k < sizeof(stems) / sizeof(stems[0]); k++) {
		size_t n = strlen(stems[k]);

		for (i = 0; !strncmp(name, stems[k], n) && i < sizeof(others) / sizeof(others[0]); i++)
			if (!strcmp(name + n, others[i][0])) {
				*stem = stems[k];
				return others[i][1];
			}
	}
	*stem = "";
	return name;
}

/* Writes the name of an instruction; in AT&T syntax with a suffix for the size of a memory operand, if no register
 * operand tells that size. */
static void put_name(struct text *t, const struct newer *n, const ZydisDecodedInstruction *z,
                     const ZydisDecodedOperand *ops)
{
	static const char *const conditions[16] = {"o", "no", "b", "ae", "e", "ne", "be", "a",
	                                           "s", "ns", "t", "f",  "l", "ge", "le", "g"};
	const char *stem = "", *name = n->name;
	const ZydisDecodedOperand *memory = NULL;
	bool general = false;
	unsigned i;

	if (!name)
		name = ZydisMnemonicGetString((ZydisMnemonic)((unsigned)z->mnemonic & ~NEWER_CHANGED));
	if (!n->name && name)
		name = condition_of(name, &stem);
	put(t, "%s%s%s%s", n->before ? n->before : "", n->zeroes ? "{zu} " : "", stem, name ? name : "(bad)");
	if (n->all_flags)
		put(t, "%s", conditions[n->scc]);
	for (i = 0; i < z->operand_count_visible; i++) {
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			memory = &ops[i];
		general |= ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER;
	}
	if (!memory || general || t->intel)
		return;
	switch (memory->size) {
	case 8: put(t, "b"); break;
	case 16: put(t, "w"); break;
	case 32: put(t, "l"); break;
	case 64: put(t, "q"); break;
	case 80: put(t, "t"); break;
	default: break;
	}
}

/* Writes the flags that ccmp and ctest set if their condition is false. */
static void put_default_flags(struct text *t, const struct newer *n)
{
	static const char *const names[] = {"of", "sf", "zf", "cf"};
	const char *between = "";
	unsigned i;

	put(t, " {dfv=");
	for (i = 0; i < 4; i++)
		if (~n->vvvv >> (3 - i) & 1) {
			put(t, "%s%s", between, names[i]);
			between = ",";
		}
	put(t, "}");
}

/* Moves the operands that the text shows to the start of `ops`, and returns their number. A mask register is not one of
 * them: *mask becomes that register. */
static unsigned operands_shown(const ZydisDecodedInstruction *z, ZydisDecodedOperand *ops, unsigned *mask)
{
	unsigned i, n = 0;

	*mask = ZYDIS_REGISTER_NONE;
	for (i = 0; i < z->operand_count_visible; i++)
		if (ops[i].encoding == ZYDIS_OPERAND_ENCODING_MASK)
			*mask = ops[i].reg.value;
		else
			ops[n++] = ops[i];
	return zydis_is_padding(z) ? 1 : n; /* a nop has no second operand in assembly */
}

bool newer_text(bool intel, const uint8_t *bytes, size_t avail, char *out, size_t out_size)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	struct text t = {out, out_size, intel};
	ZydisDecodedInstruction z;
	unsigned i, count, mask;
	struct newer n;

	if (!newer_read(bytes, avail, &n, &z, ops))
		return false;
	if (z.attributes & ZYDIS_ATTRIB_HAS_LOCK)
		put(&t, "lock ");
	put_name(&t, &n, &z, ops);
	if (n.unlike)
		return true;
	if (n.all_flags)
		put_default_flags(&t, &n);
	count = operands_shown(&z, ops, &mask);
	for (i = 0; i < count; i++) {
		unsigned k = intel ? i : count - 1 - i;

		put(&t, i ? ", " : " ");
		if (!intel && (z.mnemonic == ZYDIS_MNEMONIC_CALL || z.mnemonic == ZYDIS_MNEMONIC_JMP))
			put(&t, "*");
		put_operand(&t, &ops[k]);
		if (!k && mask != ZYDIS_REGISTER_NONE && mask != ZYDIS_REGISTER_K0) {
			put(&t, " {");
			put_register(&t, mask);
			put(&t, z.avx.mask.mode == ZYDIS_MASK_MODE_ZEROING ? "}{z}" : "}");
		}
	}
	return true;
}
