/* SPDX-License-Identifier: MIT */
/*
 * What the rest of the tool knows about an x86-64 instruction: a plain record,
 * registers as numbers 0-15 in the encoding's order. Nothing outside this
 * folder names a register or an opcode.
 */
#ifndef X86_INSN_H
#define X86_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etch/format.h>

enum insn_flow {
	FLOW_NEXT,
	FLOW_JUMP,     /* always, to target */
	FLOW_BRANCH,   /* to target or the next instruction */
	FLOW_JUMP_IND, /* to somewhere */
	FLOW_CALL,     /* comes back */
	FLOW_CALL_IND,
	FLOW_RETURN,
	FLOW_STOP,     /* hlt, ud2, int3: does not go on */
};

enum insn_mem {
	MEM_NONE,
	MEM_ADDRESS, /* the address is computed, not accessed: lea; nop and prefetch too */
	MEM_READ,
	MEM_WRITE,
	MEM_UPDATE,  /* reads and writes */
};

/* Moves of whole pointers that a value can be followed through. */
enum insn_move {
	MOVE_NONE,
	MOVE_COPY,    /* dst = src */
	MOVE_ADD,     /* dst += imm */
	MOVE_ADDRESS, /* dst = address of the memory operand (lea) */
	MOVE_LOAD,    /* dst = 8 bytes from the memory operand */
	MOVE_IMM,     /* dst = imm */
};

#define INSN_NO_REG 0xffu
#define INSN_PC_REG 0x10u /* base of an instruction-relative operand */

struct insn {
	uint64_t addr;
	uint64_t target;   /* of a direct jump, branch or call */
	int32_t callee;    /* function of the same file that a call, or a jump out of its own
	                    * function, goes to, by number; -1 = not known */
	uint64_t entry;    /* ... and where in it */
	int64_t disp;      /* displacement of the memory operand as encoded, sign-extended */
	int64_t imm;
	uint16_t reads;    /* registers whose value is used as data: not as base or index */
	uint16_t writes;   /* registers changed, wholly or in part */
	uint16_t mem_size; /* bytes accessed */
	uint8_t len;
	uint8_t flow;      /* enum insn_flow */
	uint8_t mem;       /* enum insn_mem, of the explicit memory operand */
	uint8_t base, index; /* register, INSN_PC_REG or INSN_NO_REG */
	uint8_t disp_at, disp_len; /* place of the displacement in the bytes; len 0 = none */
	uint8_t imm_at, imm_len;
	uint8_t move, dst, src; /* src: also the register that an indirect call or jump goes by */
	bool lawful;       /* the ds-prefixed lea of ETCH_ADDR, or the mov from a GOT slot of the bounds */
	bool segment;      /* fs or gs: not a plain address */
	bool string;       /* accesses memory through implicit registers (rep movs...) */
	bool padding;      /* does nothing: nop of any length, int3 */
	bool barrier;      /* orders memory or enters the kernel: what was read before may have changed after */
};

/* Decodes one instruction (Zydis). False: the bytes are none, or more than avail. */
bool insn_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn *out);

/*
 * The second opinion (Capstone), asked before an instruction is accepted as a
 * site: does it see the same length, and one memory operand of the same base, index,
 * displacement and size; of an indirect call or jump also that it is one, by the same
 * register or memory? On false, `why` has what each decoder said.
 */
bool insn_confirm(const uint8_t *bytes, size_t avail, const struct insn *insn, char *why, size_t why_size);

/* An instruction whose first byte a jump may leave out: a lock prefix, which glibc skips while
 * there is one thread. */
bool insn_is_locked(const uint8_t *bytes);

/* The second decoder sees one instruction of exactly len bytes here. */
bool insn_same_length(const uint8_t *bytes, unsigned len, uint64_t addr);

/* How many bytes the second decoder sees one instruction have; 0: none. */
unsigned insn_second_length(const uint8_t *bytes, size_t avail, uint64_t addr);

/* The second decoder sees the same operation on the same operands in both, each of
 * exactly its length; segments other than fs and gs do not count. */
bool insn_same_operation(const uint8_t *a, unsigned a_len, const uint8_t *b, unsigned b_len);

/*
 * May a sequence of `len` bytes stand in a call's place (PV_NATIVE)? Null, or why
 * not, a phrase for people. *one: it is at most one instruction, which 0x2e prefixes
 * may pad to any length of a call site.
 */
const char *insn_native_check(const uint8_t *bytes, unsigned len, bool *one);

enum insn_syntax {
	SYNTAX_ATT,
	SYNTAX_INTEL,
};

/* Disassembly for people (Capstone), in AT&T syntax: "mov 0x10(%rip), %eax". */
void insn_text_in(enum insn_syntax syntax, const uint8_t *bytes, size_t avail, uint64_t addr, char *out, size_t out_size);
void insn_text(const uint8_t *bytes, size_t avail, uint64_t addr, char *out, size_t out_size);

/*
 * The site form of an instruction that reads memory: fills form, regs and shape
 * of *out and returns null; or returns why there is no immediate form, a phrase
 * for people that starts small and does not end in a period.
 */
const char *insn_site_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out);

/*
 * The same for an indirect call or jump (FLOW_CALL_IND, FLOW_JUMP_IND), whose form is
 * one of etch/pv_forms.h: fills form, regs, shape and the displacement in flags.
 */
const char *insn_pv_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out);

/* Name of a form, "mov32", "movzx8_32", "add64", "test8": docs/formats.md. */
void insn_form_name(unsigned form, char *out, size_t out_size);

/* Can an instruction fault for what it reads or writes: not lea, nop, prefetch. The stack
 * and what string instructions go over is memory too. */
bool insn_accesses_memory(const uint8_t *bytes, size_t avail);
/* The target of a direct call that may begin at bytes[0], of which 5 are there; or 0. */
uint64_t insn_call_target(const uint8_t *bytes, uint64_t addr);
bool insn_is_stack_register(unsigned reg);

/* Registers that a call may change, and those that may carry its arguments or a
 * function's result (System V psABI 3.2.1, 3.2.3). */
uint16_t insn_call_clobbers(void);
uint16_t insn_call_arguments(void); /* the static chain register too */
uint16_t insn_pointer_arguments(void); /* ... which a call by a pointer has not: a trampoline sets it */
uint16_t insn_return_values(void);
uint16_t insn_syscall_arguments(void);

#endif
