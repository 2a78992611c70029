/* SPDX-License-Identifier: MIT */
/* The functions that use the second decoder, Capstone: they confirm what Zydis says about sites, and print disassembly.
 * etch rewrites no byte of an instruction unless both decoders agree about it. */
#include "arch/x86/insn.h"
#include "arch/x86/newer.h"
#include "arch/x86/zydis.h"
#include "support/memory.h"

#include <capstone/capstone.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_key_t thread_handle;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void handle_close(void *p)
{
	cs_close(p);
	free(p);
}

static void key_make(void)
{
	if (pthread_key_create(&thread_handle, handle_close)) {
		fprintf(stderr, "etch: cannot start Capstone\n");
		exit(2);
	}
}

/* Returns the Capstone handle of this thread, which it opens if necessary. Threads must not share a handle. */
static csh handle(void)
{
	csh *h;

	pthread_once(&once, key_make);
	h = pthread_getspecific(thread_handle);
	if (h)
		return *h;
	h = mem_alloc(1, sizeof(*h));
	if (cs_open(CS_ARCH_X86, CS_MODE_64, h) != CS_ERR_OK || pthread_setspecific(thread_handle, h)) {
		fprintf(stderr, "etch: cannot start Capstone\n");
		exit(2);
	}
	cs_option(*h, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	cs_option(*h, CS_OPT_DETAIL, CS_OPT_ON);
	return *h;
}

/* Returns the number that struct insn gives to a 64-bit base or index register. */
static unsigned number(x86_reg r)
{
	static const x86_reg order[16] = {
		X86_REG_RAX, X86_REG_RCX, X86_REG_RDX, X86_REG_RBX, X86_REG_RSP, X86_REG_RBP, X86_REG_RSI, X86_REG_RDI,
		X86_REG_R8,  X86_REG_R9,  X86_REG_R10, X86_REG_R11, X86_REG_R12, X86_REG_R13, X86_REG_R14, X86_REG_R15,
	};
	unsigned i;

	if (r == X86_REG_RIP)
		return INSN_PC_REG;
	for (i = 0; i < 16; i++)
		if (order[i] == r)
			return i;
	return INSN_NO_REG;
}

/* Does Capstone see the same indirect call or jump as Zydis: through memory, or through the same register?
 * insn_confirm() compares the memory operand. */
static bool same_branch(const cs_insn *c, const struct insn *in)
{
	const cs_x86 *x = &c->detail->x86;

	if (c->id != (in->flow == FLOW_CALL_IND ? X86_INS_CALL : X86_INS_JMP) || x->op_count != 1)
		return false;
	return in->mem != MEM_NONE
	           ? x->operands[0].type == X86_OP_MEM
	           : x->operands[0].type == X86_OP_REG && x->operands[0].size == 8 && number(x->operands[0].reg) == in->src;
}

bool insn_confirm(const uint8_t *bytes, size_t avail, const struct insn *in, char *why, size_t why_size)
{
	bool branch = in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND, agree = false;
	const cs_x86_op *mem = NULL;
	cs_insn *c;
	size_t n;
	int i;

	n = cs_disasm(handle(), bytes, avail, in->addr, 1, &c);
	if (!n) {
		snprintf(why, why_size, "Zydis sees %u bytes, Capstone sees no instruction", in->len);
		return false;
	}
	for (i = 0; i < c->detail->x86.op_count; i++)
		if (c->detail->x86.operands[i].type == X86_OP_MEM)
			mem = &c->detail->x86.operands[i];
	if (c->size != in->len)
		snprintf(why, why_size, "Zydis sees %u bytes, Capstone sees %u (%s %s)", in->len, c->size, c->mnemonic,
		         c->op_str);
	else if (branch && !same_branch(c, in))
		snprintf(why, why_size, "the decoders see different branches (Capstone: %s %s)", c->mnemonic, c->op_str);
	else if (branch && in->mem == MEM_NONE)
		agree = true;
	else if (!mem)
		snprintf(why, why_size, "Capstone sees no memory operand (%s %s)", c->mnemonic, c->op_str);
	else if (number(mem->mem.base) != in->base || number(mem->mem.index) != in->index || mem->mem.disp != in->disp)
		snprintf(why, why_size, "the decoders see different addresses (Capstone: %s %s)", c->mnemonic, c->op_str);
	else if (mem->size != in->mem_size)
		snprintf(why, why_size, "Zydis sees %u bytes read, Capstone sees %u (%s %s)", in->mem_size, mem->size,
		         c->mnemonic, c->op_str);
	else if (in->disp_len && c->detail->x86.encoding.disp_offset != in->disp_at)
		snprintf(why, why_size, "the decoders place the displacement differently (%s %s)", c->mnemonic, c->op_str);
	else
		agree = true;
	cs_free(c, n);
	return agree;
}

bool insn_same_length(const uint8_t *bytes, unsigned len, uint64_t addr)
{
	cs_insn *c;
	size_t n = cs_disasm(handle(), bytes, len, addr, 1, &c);
	bool same = n && c->size == len;

	if (n)
		cs_free(c, n);
	return same;
}

unsigned insn_second_length(const uint8_t *bytes, size_t avail, uint64_t addr)
{
	cs_insn *c;
	size_t n = cs_disasm(handle(), bytes, avail > INSN_MOST ? INSN_MOST : avail, addr, 1, &c);
	unsigned length = n ? c->size : 0;

	if (n)
		cs_free(c, n);
	return length;
}

static bool same_operand(const cs_x86_op *x, const cs_x86_op *y)
{
	if (x->type != y->type || x->size != y->size)
		return false;
	switch (x->type) {
	case X86_OP_REG: return x->reg == y->reg;
	case X86_OP_IMM: return x->imm == y->imm;
	case X86_OP_MEM:
		return x->mem.base == y->mem.base && x->mem.index == y->mem.index && x->mem.scale == y->mem.scale &&
		       x->mem.disp == y->mem.disp && (x->mem.segment == X86_REG_FS) == (y->mem.segment == X86_REG_FS) &&
		       (x->mem.segment == X86_REG_GS) == (y->mem.segment == X86_REG_GS);
	default: return false;
	}
}

bool insn_same_operation(const uint8_t *a, unsigned a_len, const uint8_t *b, unsigned b_len)
{
	cs_insn *x, *y;
	size_t n = cs_disasm(handle(), a, a_len, 0, 1, &x), m = cs_disasm(handle(), b, b_len, 0, 1, &y);
	bool same = n && m && x->size == a_len && y->size == b_len && x->id == y->id &&
	            x->detail->x86.op_count == y->detail->x86.op_count;
	int i;

	for (i = 0; same && i < x->detail->x86.op_count; i++)
		same = same_operand(&x->detail->x86.operands[i], &y->detail->x86.operands[i]);
	if (n)
		cs_free(x, n);
	if (m)
		cs_free(y, m);
	return same;
}

void insn_text_in(enum insn_syntax syntax, const uint8_t *bytes, size_t avail, uint64_t addr, char *out,
                  size_t out_size)
{
	bool intel = syntax == SYNTAX_INTEL;
	ZydisDecodedInstruction z;
	csh h = handle();
	cs_insn *c;
	size_t n;

	/* Instructions that Zydis does not know are not given to Capstone, which may take a new one for an old one, such as
	 * erets for clac. */
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(zydis_decoder(), NULL, bytes, avail, &z)) &&
	    newer_text(intel, bytes, avail, out, out_size))
		return;
	if (intel)
		cs_option(h, CS_OPT_SYNTAX, CS_OPT_SYNTAX_INTEL);
	n = cs_disasm(h, bytes, avail, addr, 1, &c);
	if (intel)
		cs_option(h, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	if (!n) {
		snprintf(out, out_size, "(bad)");
		return;
	}
	snprintf(out, out_size, "%s%s%s", c->mnemonic, c->op_str[0] ? " " : "", c->op_str);
	cs_free(c, n);
}

void insn_text(const uint8_t *bytes, size_t avail, uint64_t addr, char *out, size_t out_size)
{
	insn_text_in(SYNTAX_ATT, bytes, avail, addr, out, out_size);
}
