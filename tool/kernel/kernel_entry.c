/* SPDX-License-Identifier: MIT */
/* Decodes and prints entries of the Linux kernel's .orc_unwind. */
#include "kernel/kernel_entry.h"

#include <stdio.h>
#include <string.h>

/* ORC_REG_* of asm/orc_types.h in releases before 7.2. AX was added after all others. */
enum {
	REG_UNDEFINED = 0,
	REG_PREV_SP = 1,
	REG_DX = 2,
	REG_DI = 3,
	REG_BP = 4,
	REG_SP = 5,
	REG_R10 = 6,
	REG_R13 = 7,
	REG_BP_INDIRECT = 8,
	REG_SP_INDIRECT = 9,
	REG_AX = 10,
};

/* Offsets in struct pt_regs (asm/ptrace.h), and in the iret frame at its end. */
enum { REGS_BP = 32, REGS_IP = 128, REGS_SP = 152, IRET_IP = 0, IRET_SP = 24 };

/*
 * The register numbers above, indexed by the numbers of 7.2. A number that 7.2 does not define has a value that is not
 * defined above either.
 */
static const uint8_t registers_7_2[16] = {
	REG_UNDEFINED, REG_AX,          REG_DX,          REG_SP, REG_BP, REG_DI, REG_R10, REG_R13,
	REG_PREV_SP,   REG_SP_INDIRECT, REG_BP_INDIRECT, 11,     12,     13,     14,      15};

static bool is_typed(enum kernel_orc_layout layout) { return layout >= KERNEL_ORC_6_4; }

static const char *const names[] = {NULL, NULL, "rdx", "rdi", "rbp", "rsp", "r10", "r13", "rbp", "rsp", "rax"};

static const char *unpack_kind(unsigned type, bool end, enum kernel_orc_layout layout, struct kernel_orc *out)
{
	static const uint8_t old[] = {KERNEL_ORC_CALL, KERNEL_ORC_REGS, KERNEL_ORC_PARTIAL};
	static const uint8_t new[] = {KERNEL_ORC_UNDEF, KERNEL_ORC_END, KERNEL_ORC_CALL, KERNEL_ORC_REGS,
	                              KERNEL_ORC_PARTIAL};

	if (type >= (is_typed(layout) ? sizeof(new) : sizeof(old)))
		return "unknown type for this layout";
	if (is_typed(layout))
		out->kind = new[type];
	else if (end)
		out->kind = KERNEL_ORC_END;
	else
		out->kind = out->sp_reg ? old[type] : KERNEL_ORC_UNDEF;
	if (out->kind == KERNEL_ORC_UNDEF || out->kind == KERNEL_ORC_END)
		return NULL;
	if (!out->sp_reg)
		return "no register for the CFA";
	if (out->sp_reg == REG_PREV_SP || out->sp_reg > REG_AX)
		return "unknown CFA register";
	if (out->bp_reg != REG_UNDEFINED && out->bp_reg != REG_PREV_SP && out->bp_reg != REG_BP)
		return "unknown rbp register";
	return NULL;
}

const char *kernel_orc_unpack(const uint8_t bytes[KERNEL_ORC_SIZE], enum kernel_orc_layout layout,
                              struct kernel_orc *out)
{
	/* The number of bits that the layout uses of the last 16 bits. */
	unsigned used = layout == KERNEL_ORC_4_14 ? 11 : 12, type_bits = is_typed(layout) ? 7 : 3, bits;
	const char *wrong;
	bool end = false;

	memset(out, 0, sizeof(*out));
	out->sp_offset = (int16_t)(bytes[0] | bytes[1] << 8);
	out->bp_offset = (int16_t)(bytes[2] | bytes[3] << 8);
	bits = bytes[4] | (unsigned)bytes[5] << 8;
	out->sp_reg = bits & 15;
	out->bp_reg = bits >> 4 & 15;
	if (layout == KERNEL_ORC_7_2) {
		out->sp_reg = registers_7_2[out->sp_reg];
		out->bp_reg = registers_7_2[out->bp_reg];
	}
	switch (layout) {
	case KERNEL_ORC_4_14: end = bits >> 10 & 1; break;
	case KERNEL_ORC_6_3:
		out->signal = bits >> 10 & 1;
		end = bits >> 11 & 1;
		break;
	default: out->signal = bits >> 11 & 1;
	}
	wrong = unpack_kind(bits >> 8 & type_bits, end, layout, out);
	if (!wrong && bits >> used)
		wrong = "unused bits are set";
	if (wrong)
		out->kind = KERNEL_ORC_BAD;
	return wrong;
}

void kernel_orc_vote(struct kernel_orc_votes *v, const uint8_t bytes[KERNEL_ORC_SIZE])
{
	/*
	 * By far the most entries describe an ordinary frame (type CALL). Its CFA is mostly relative to rsp, otherwise to
	 * rbp. The number of rbp has never changed. The numbers of rsp and rdi were exchanged in 7.2; but hardly any frame
	 * is relative to rdi, so the number shows the layout.
	 */
	unsigned sp = bytes[4] & 15, type = bytes[5] & 7;

	v->types_6_4 += type == 2 && (sp == REG_SP || sp == REG_BP || registers_7_2[sp] == REG_SP);
	v->types_older += type == 0 && (sp == REG_SP || sp == REG_BP);
	v->registers_7_2 += type == 2 && registers_7_2[sp] == REG_SP;
	v->registers_older += type == 2 && sp == REG_SP;
}

/* Writes the stack address sp_reg + sp_offset + `more`. */
static void base_text(const struct kernel_orc *o, int more, char *out, size_t size)
{
	const char *name = names[o->sp_reg];
	int offset = o->sp_offset;

	if (o->sp_reg == REG_BP_INDIRECT || (o->sp_reg == REG_SP_INDIRECT && o->sp_deref_first))
		snprintf(out, size, "*(%s%+d)%+d", name, offset, more);
	else if (o->sp_reg == REG_SP_INDIRECT)
		snprintf(out, size, "*(%s+0)%+d", name, offset + more);
	else
		snprintf(out, size, "%s%+d", name, offset + more);
}

static bool is_bare(const struct kernel_orc *o)
{
	return o->kind == KERNEL_ORC_UNDEF || o->kind == KERNEL_ORC_END || o->kind == KERNEL_ORC_BAD;
}

void kernel_orc_cfa_text(const struct kernel_orc *o, char *out, size_t size)
{
	char base[48];

	if (is_bare(o)) {
		snprintf(out, size, "undef");
	} else if (o->kind == KERNEL_ORC_CALL) {
		base_text(o, 0, out, size);
	} else {
		base_text(o, o->kind == KERNEL_ORC_REGS ? REGS_SP : IRET_SP, base, sizeof(base));
		snprintf(out, size, "*(%s)+0", base);
	}
}

void kernel_orc_bp_text(const struct kernel_orc *o, char *out, size_t size)
{
	char base[48];

	if (is_bare(o)) {
		snprintf(out, size, "undef");
	} else if (o->bp_reg == REG_BP) {
		snprintf(out, size, "*(rbp%+d)", o->bp_offset);
	} else if (o->bp_reg == REG_PREV_SP && o->kind == KERNEL_ORC_CALL) {
		snprintf(out, size, "cfa%+d", o->bp_offset);
	} else if (o->bp_reg == REG_PREV_SP || o->kind == KERNEL_ORC_REGS) {
		/*
		 * The place of rbp is relative to the register frame rather than to a CFA, or it is the slot for rbp in the
		 * register frame.
		 */
		base_text(o, o->bp_reg == REG_PREV_SP ? o->bp_offset : REGS_BP, base, sizeof(base));
		snprintf(out, size, "*(%s)", base);
	} else {
		snprintf(out, size, "same");
	}
}

void kernel_orc_ra_text(const struct kernel_orc *o, char *out, size_t size)
{
	char base[48];

	if (is_bare(o)) {
		snprintf(out, size, "undef");
	} else if (o->kind == KERNEL_ORC_CALL) {
		snprintf(out, size, "cfa-8");
	} else {
		base_text(o, o->kind == KERNEL_ORC_REGS ? REGS_IP : IRET_IP, base, sizeof(base));
		snprintf(out, size, "*(%s)", base);
	}
}

const char *kernel_orc_kind_text(const struct kernel_orc *o)
{
	static const char *const text[][2] = {{"undef", "undef,signal"}, {"call", "call,signal"},
	                                      {"regs", "regs,signal"},   {"partial", "partial,signal"},
	                                      {"end", "end,signal"},     {"bad", "bad"}};

	return text[o->kind][o->signal];
}

const char *kernel_orc_layout_text(enum kernel_orc_layout layout)
{
	static const char *const text[] = {"6.2 and before", "6.3", "6.4 and later", "7.2 and later", "unknown"};

	return text[layout];
}

enum kernel_orc_layout kernel_orc_layout_of_hash(const uint8_t hash[20])
{
	/*
	 * Maps hashes to layouts. A hash is the SHA-1 that the kernel's scripts/orc_hash.sh computes over orc_types.h; it
	 * exists since 6.4, and 6.3.10 has it too.
	 */
	static const struct {
		enum kernel_orc_layout layout;
		uint8_t hash[20];
	} known[] = {
		{KERNEL_ORC_6_3, {0xdb, 0x84, 0xae, 0xd4, 0x10, 0x3b, 0x31, 0xdd, 0x51, 0xe0,
	                      0x17, 0xf8, 0xf7, 0x97, 0x83, 0xca, 0x98, 0x5c, 0x2c, 0x51}},
		{KERNEL_ORC_6_4, {0xfe, 0x5d, 0x32, 0xbf, 0x58, 0x1b, 0xd6, 0x3b, 0x2c, 0xa9,
	                      0xa5, 0xc6, 0x5b, 0xa5, 0xa6, 0x25, 0xea, 0xb3, 0xfe, 0x24}},
		{KERNEL_ORC_7_2, {0x13, 0x7c, 0x36, 0xad, 0x76, 0x27, 0xc4, 0xdd, 0x55, 0x93,
	                      0x21, 0x76, 0xbb, 0x0e, 0xcd, 0xbd, 0x50, 0x41, 0xfc, 0x82}},
	};
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!memcmp(hash, known[i].hash, sizeof(known[i].hash)))
			return known[i].layout;
	return KERNEL_ORC_LAYOUTS;
}
