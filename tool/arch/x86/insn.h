/* SPDX-License-Identifier: MIT */
/*
 * An x86-64 instruction as the rest of the tool sees it: a plain record, in which registers are numbers 0-15 in
 * encoding order. It serves to keep the names of registers and opcodes out of files outside this folder.
 */
#ifndef X86_INSN_H
#define X86_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etch/format.h>

/* Where execution continues after an instruction. */
enum insn_flow {
	FLOW_NEXT,
	FLOW_JUMP,     /* always to `target` */
	FLOW_BRANCH,   /* to `target` or the next instruction */
	FLOW_JUMP_IND, /* to a computed address */
	FLOW_CALL,     /* continues after the callee has returned */
	FLOW_CALL_IND,
	FLOW_RETURN,
	FLOW_STOP, /* hlt, ud2, int3: execution does not continue */
};

/* Does an instruction jump, branch or call to an address that it contains? */
static inline bool flow_is_direct(unsigned flow)
{
	return flow == FLOW_JUMP || flow == FLOW_BRANCH || flow == FLOW_CALL;
}

/* Is it a call, direct or indirect? */
static inline bool flow_is_call(unsigned flow) { return flow == FLOW_CALL || flow == FLOW_CALL_IND; }

/* Does an instruction jump to or call a computed address? */
static inline bool flow_is_indirect(unsigned flow) { return flow == FLOW_JUMP_IND || flow == FLOW_CALL_IND; }

/* How the explicit memory operand is used. */
enum insn_mem {
	MEM_NONE,
	MEM_ADDRESS, /* only the address is computed: lea, nop, prefetch */
	MEM_READ,
	MEM_WRITE,
	MEM_UPDATE, /* reads and writes */
};

/* Moves of whole pointers, through which a value can be traced. */
enum insn_move {
	MOVE_NONE,
	MOVE_COPY,     /* dst = src */
	MOVE_ADD,      /* dst += imm */
	MOVE_ADDRESS,  /* dst = address of the memory operand (lea) */
	MOVE_LOAD,     /* dst = 8 bytes from the memory operand */
	MOVE_IMM,      /* dst = imm */
	MOVE_SUM,      /* dst += src, a register */
	MOVE_SUM_LOAD, /* dst += 8 bytes from the memory operand */
};

/* A bit in addition to ETCH_NEED_*: a use of flags that those bits do not describe, such as of the sign alone, of
 * overflow or of parity. */
#define INSN_FLAGS_REST 0x08u
#define INSN_FLAGS      (ETCH_NEED_FLAGS | INSN_FLAGS_REST)

#define INSN_MOST 15u /* bytes of the longest instruction (SDM vol. 2, 2.3.11) */

#define INSN_NO_REG 0xffu
#define INSN_PC_REG 0x10u /* in `base`: the memory operand is rip-relative */
/* In `index`: the address depends on one of the registers r16 to r31 (APX), which no analysis follows. */
#define INSN_HIGH_REG 0x11u

/* A decoded instruction. */
struct insn {
	uint64_t addr;
	uint64_t target; /* address to which a direct jump, branch or call leads */
	/* index of the function in the same file to which a call leads, or a jump out of the function that contains it; -1:
	 * unknown */
	int32_t callee;
	uint64_t entry; /* the address in function `callee` to which the call or jump leads */
	int64_t disp;   /* displacement of the memory operand as encoded, sign-extended */
	int64_t imm;
	uint16_t reads;    /* registers read as data, not as base or index */
	uint16_t writes;   /* registers written, wholly or in part */
	uint16_t mem_size; /* bytes accessed */
	uint8_t len;
	uint8_t flow;              /* enum insn_flow */
	uint8_t mem;               /* enum insn_mem, of the explicit memory operand */
	uint8_t base, index;       /* register, INSN_PC_REG or INSN_NO_REG; index: or INSN_HIGH_REG */
	uint8_t scale;             /* factor of the index; 0: there is no index */
	uint8_t disp_at, disp_len; /* offset in the instruction, and size, of the displacement; size 0: there is none */
	/* offset in the instruction, and size, of the immediate; size 0: there is none */
	uint8_t imm_at, imm_len;
	uint8_t move, dst, src; /* move: enum insn_move. src: also the register operand of an indirect call or jump */
	uint8_t flags_read, flags_set; /* ETCH_NEED_*, INSN_FLAGS_REST; flags_set: those always set */
	bool stack_odd;                /* after the instruction the stack pointer may be an odd number */
	bool no_escape; /* the address that the instruction computes does not count as one that escapes: the instruction is
	                   the lea with a DS prefix that ETCH_ADDR emits, or the mov that loads the bounds of a section from
	                   a GOT slot */
	bool unlinked;  /* the linker writes the immediate, or the displacement of a memory operand with a base register */
	bool segment;   /* its memory operand is relative to fs or gs, so it has no plain address */
	bool string;    /* it accesses memory through implicit registers, as rep movs does */
	bool padding;   /* it has no effect: a nop of any length, or int3 */
	bool newer; /* only arch/x86/newer.h decodes it. It may copy what it reads to r16 to r31, which `reads` and `writes`
	               leave out, so all that it reads counts as escaped. It is never rewritten */
	bool copies;  /* with `newer`: it copies a value unchanged (mov, push), or computes an address (lea) */
	bool barrier; /* it orders memory accesses or enters the kernel, so values that were read before it may be outdated
	                 after it */
};

/* Returns the mask of all registers that an instruction reads, including the base and index of its memory operand. */
static inline uint16_t insn_uses(const struct insn *in)
{
	uint16_t mask = in->reads;

	if (in->base < 16)
		mask |= (uint16_t)(1u << in->base);
	if (in->index < 16)
		mask |= (uint16_t)(1u << in->index);
	return mask;
}

/* Decodes one instruction. Returns false if the bytes are no instruction, or an unknown one (insn_is_reserved()), or if
 * the instruction is longer than avail. */
bool insn_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn *out);

/* Given bytes that do not decode: are they an encoding that processors newer than the decoders may execute? */
bool insn_is_reserved(const uint8_t *bytes, size_t avail);

/*
 * Does the second decoder (Capstone) agree with the first about an instruction? This is asked before the instruction is
 * accepted as a site. Returns true if Capstone finds the same length, and one memory operand with the same base, index,
 * displacement and size; for an indirect call or jump, also the same kind, through the same register or memory.
 * Otherwise `why` becomes a description of the difference.
 */
bool insn_confirm(const uint8_t *bytes, size_t avail, const struct insn *insn, char *why, size_t why_size);

/* Is the instruction movslq (%base,%index,4),%reg, which loads an entry of a jump table of offsets? */
bool insn_is_table_load(const uint8_t *bytes, const struct insn *in);
/* Is it an add of one 64-bit register to another? */
bool insn_is_register_sum(const uint8_t *bytes, const struct insn *in);

/* Has the instruction a lock prefix? A jump may lead past that byte, as in glibc while the process has only one
 * thread. */
bool insn_is_locked(const uint8_t *bytes);

/*
 * May the instruction hand an address that is in its operands to other code, so that the address counts as captured?
 * This is true for a store outside the stack frame (stores inside it are spills), a push (an argument), a string
 * instruction, and a move to a vector register, from which compilers store two pointers at once.
 */
bool insn_captures_pointer(const uint8_t *bytes, const struct insn *insn);
/* Does it overwrite only the low one or two bytes of a register? Then the register holds no pointer any more. */
bool insn_replaces_part(const uint8_t *bytes, const struct insn *insn);
/* Does it only compare registers, with one another or with memory? */
bool insn_only_compares(const uint8_t *bytes, const struct insn *insn);
/* Does it only compare a register or memory with a constant of 4 bytes? */
bool insn_compares_constant(const uint8_t *bytes, const struct insn *in);
/* May it select one of two constants, as cmov, setcc, adc and sbb do? */
bool insn_makes_choice(const uint8_t *bytes, const struct insn *insn);

/* Sets *by to the distance by which an instruction moves the stack pointer; for a call, the distance after the callee
 * has returned. Returns false if that is unknown, or if the instruction copies the stack pointer elsewhere. */
bool insn_stack_move(const uint8_t *bytes, const struct insn *insn, int64_t *by);

/* Is it a xor or sub of a register with itself, of 32 or 64 bits? */
bool insn_clears_register(const uint8_t *bytes, const struct insn *insn);
/* Returns the register whose low byte a setcc writes, or INSN_NO_REG. */
unsigned insn_setcc_register(const uint8_t *bytes, const struct insn *insn);
/* Returns the count of a left shift of a 32- or 64-bit register by a constant, or 0 if it is no such shift. */
unsigned insn_left_shift(const uint8_t *bytes, const struct insn *insn);
/* Returns the register that a cmov of 64-bit registers may copy to insn->dst, or INSN_NO_REG. */
unsigned insn_cmov_source(const uint8_t *bytes, const struct insn *insn);

/* May the instruction change a flag that conditions read? */
bool insn_touches_flags(const uint8_t *bytes, unsigned len);
/*
 * Writes to `out` the commuted form of an instruction, which has the same `len` bytes: for `cmp %reg,mem`, the compare
 * with its operands exchanged; for a jump, setcc or cmov, the instruction whose condition holds after the exchanged
 * compare where the old one held before. Returns false if the instruction is none of these, if there is no such
 * condition, or if the decoders do not confirm the length.
 */
bool insn_commute(const uint8_t *bytes, unsigned len, uint8_t out[16]);

/* Does Capstone decode one instruction of exactly len bytes? */
bool insn_same_length(const uint8_t *bytes, unsigned len, uint64_t addr);

/* Returns the length of the instruction that Capstone decodes, or 0 if it decodes none. */
unsigned insn_second_length(const uint8_t *bytes, size_t avail, uint64_t addr);

/* Does Capstone decode from a and b the same operation on the same operands, with exactly the lengths a_len and b_len?
 * Segment overrides other than fs and gs are ignored. */
bool insn_same_operation(const uint8_t *a, unsigned a_len, const uint8_t *b, unsigned b_len);

/*
 * May `len` bytes replace a call (PV_NATIVE)? Returns null if they may, otherwise the reason, as a phrase for messages.
 * *one becomes whether the bytes are at most one instruction, which 0x2e prefixes may pad to any length of a call site.
 */
const char *insn_native_check(const uint8_t *bytes, unsigned len, bool *one);

enum insn_syntax {
	SYNTAX_ATT,
	SYNTAX_INTEL,
};

/* Write the disassembly of an instruction (by Capstone) for output, such as "mov 0x10(%rip), %eax"; insn_text() writes
 * AT&T syntax. */
void insn_text_in(enum insn_syntax syntax, const uint8_t *bytes, size_t avail, uint64_t addr, char *out,
                  size_t out_size);
void insn_text(const uint8_t *bytes, size_t avail, uint64_t addr, char *out, size_t out_size);

/*
 * Finds the site form of an instruction that reads memory. If it has one, fills form, regs, shape and the flag
 * ETCH_IMV_MORE of *out, with this flag also *more (except for the mask of needed flags), and returns null. Otherwise
 * returns the reason why there is no immediate form, as a phrase for messages, without capital and period.
 */
const char *insn_site_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out,
                           struct etch_imv_more *more);

/*
 * Finds the site form, one of etch/pv_forms.h, of an indirect call or jump (FLOW_CALL_IND, FLOW_JUMP_IND). If it has
 * one, fills form, regs, shape and the displacement in flags of *out, and returns null; otherwise returns the reason
 * why it has none, as insn_site_form() does.
 */
const char *insn_pv_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out);

/* Writes the name of a form: "mov32", "movzx8_32", "add64", "test8" (docs/formats.md). */
void insn_form_name(unsigned form, char *out, size_t out_size);

/* Does the instruction access memory, so that it may fault? Returns false for lea, nop and prefetch, and true also for
 * accesses to the stack and for string instructions. */
bool insn_accesses_memory(const uint8_t *bytes, size_t avail);
/* Returns the target of the direct call at `bytes`, or 0 if there is no call. 5 bytes must be readable. */
uint64_t insn_call_target(const uint8_t *bytes, uint64_t addr);
bool insn_is_stack_register(unsigned reg);

/* Register masks: what a call may change, what may hold its arguments, and what holds a function's result (System V
 * psABI 3.2.1, 3.2.3). */
uint16_t insn_call_clobbers(void);
uint16_t insn_call_arguments(void);    /* includes the static chain register */
uint16_t insn_pointer_arguments(void); /* without that one: the trampoline of a pointer sets it */
uint16_t insn_return_values(void);
/* Returns the registers that hold the first `count` words of the arguments that are passed in general registers. */
uint16_t insn_first_arguments(unsigned count);
/* Return the mask of the registers that hold the given arguments (bit k: argument k, from 0): insn_arguments() for a
 * function, insn_syscall_arguments_of() for a system call. */
uint16_t insn_arguments(uint8_t arguments);
uint16_t insn_syscall_arguments_of(uint8_t arguments);
/* Is the instruction the system call of 64-bit programs (syscall)? The number of the call is in register
 * INSN_SYSCALL_NUMBER. */
bool insn_is_syscall(const uint8_t *bytes, const struct insn *in);
#define INSN_SYSCALL_NUMBER 0
#define INSN_FIRST_ARGUMENT 7
/* Returns the registers in which a value of `count` words is returned. */
uint16_t insn_first_returns(unsigned count);
uint16_t insn_syscall_arguments(void);

#endif
