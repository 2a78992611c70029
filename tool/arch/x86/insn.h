/* SPDX-License-Identifier: MIT */
/*
 * An x86-64 instruction as the rest of the tool sees it: a plain record with register numbers 0-15 in encoding order.
 * No file outside this folder names a register or an opcode.
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

/* In addition to ETCH_NEED_*: any other use of flags, such as of the sign alone, of overflow or of parity. */
#define INSN_FLAGS_REST 0x08u
#define INSN_FLAGS      (ETCH_NEED_FLAGS | INSN_FLAGS_REST)

#define INSN_MOST 15u /* bytes of the longest instruction (SDM vol. 2, 2.3.11) */

#define INSN_NO_REG 0xffu
#define INSN_PC_REG 0x10u /* base of a rip-relative operand */
/* In `index`: the address depends on one of the registers r16 to r31 (APX), which no analysis follows. */
#define INSN_HIGH_REG 0x11u

/* A decoded instruction. */
struct insn {
	uint64_t addr;
	uint64_t target; /* address to which a direct jump, branch or call leads */
	/* index of the function in the same file to which a call, or a jump out of its function, leads; -1: unknown */
	int32_t callee;
	uint64_t entry; /* the address in `callee` to which it leads */
	int64_t disp;   /* displacement of the memory operand as encoded, sign-extended */
	int64_t imm;
	uint16_t reads;    /* registers read as data, not as base or index */
	uint16_t writes;   /* registers written, wholly or in part */
	uint16_t mem_size; /* bytes accessed */
	uint8_t len;
	uint8_t flow;              /* enum insn_flow */
	uint8_t mem;               /* enum insn_mem, of the explicit memory operand */
	uint8_t base, index;       /* register, INSN_PC_REG or INSN_NO_REG; index: or INSN_HIGH_REG */
	uint8_t scale;             /* of the index; 0 without one */
	uint8_t disp_at, disp_len; /* offset in the bytes and size; size 0 = none */
	uint8_t imm_at, imm_len;
	uint8_t move, dst, src;        /* src: also the register operand of an indirect call or jump */
	uint8_t flags_read, flags_set; /* ETCH_NEED_*, INSN_FLAGS_REST; flags_set: only those always set */
	bool stack_odd;                /* it may make the stack pointer an odd number */
	bool no_escape; /* the address that it takes does not count as one that escapes: it is the lea with a DS prefix of
	                   ETCH_ADDR, or the mov from a GOT slot of the bounds */
	bool unlinked;  /* the linker writes its immediate, or its displacement from a register */
	bool segment;   /* its memory operand is relative to fs or gs, so it has no plain address */
	bool string;    /* it accesses memory through implicit registers (rep movs...) */
	bool padding;   /* it has no effect: a nop of any length, or int3 */
	bool newer;     /* only arch/x86/newer.h decodes it. It may read and write r16 to r31, which the masks leave out, so
	                   what it reads escapes. It is never rewritten */
	bool copies;    /* with `newer`: it copies what it reads unchanged (mov, push), or it takes an address (lea) */
	bool barrier; /* it orders memory or enters the kernel: values that were read before it may be outdated after it */
};

/* Returns the mask of all registers that an instruction reads, including those of addresses. */
static inline uint16_t insn_uses(const struct insn *in)
{
	uint16_t mask = in->reads;

	if (in->base < 16)
		mask |= (uint16_t)(1u << in->base);
	if (in->index < 16)
		mask |= (uint16_t)(1u << in->index);
	return mask;
}

/* Decodes one instruction. Returns false if the bytes are no instruction, or one that is unknown (insn_is_reserved()),
 * or one that is longer than avail. */
bool insn_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn *out);

/* Given bytes that do not decode: are they an encoding that processors newer than the decoders may execute? */
bool insn_is_reserved(const uint8_t *bytes, size_t avail);

/*
 * Asks the second decoder (Capstone) before an instruction is accepted as a site. Returns true if Capstone finds the
 * same length, and one memory operand with the same base, index, displacement and size; for an indirect call or jump
 * also the same kind, through the same register or memory. Otherwise `why` describes the difference.
 */
bool insn_confirm(const uint8_t *bytes, size_t avail, const struct insn *insn, char *why, size_t why_size);

/* Is it movslq (%base,%index,4),%reg, which loads an entry of a jump table of offsets? */
bool insn_is_table_load(const uint8_t *bytes, const struct insn *in);
/* Is it an add of one 64-bit register to another? */
bool insn_is_register_sum(const uint8_t *bytes, const struct insn *in);

/* Has it a lock prefix? A jump may skip that byte, as glibc's code does while the process has only one thread. */
bool insn_is_locked(const uint8_t *bytes);

/*
 * May the instruction pass an address in its operands on to other code, so that the address counts as captured? This is
 * true of a store outside the stack frame (stores inside it are spills), a push (an argument), a string instruction,
 * and a move to a vector register, from which compilers store two pointers at once.
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

/* Sets *by to the distance by which an instruction moves the stack pointer; if it is a call, together with its callee.
 * Returns false if that is unknown, or if the instruction copies the stack pointer elsewhere. */
bool insn_stack_move(const uint8_t *bytes, const struct insn *insn, int64_t *by);

/* Is it a xor or sub of a register with itself, of 32 or 64 bits? */
bool insn_clears_register(const uint8_t *bytes, const struct insn *insn);
/* Returns the register whose low byte a setcc writes, or INSN_NO_REG. */
unsigned insn_setcc_register(const uint8_t *bytes, const struct insn *insn);
/* Returns the count of a left shift of a 32- or 64-bit register by a constant, or 0 if it is no such shift. */
unsigned insn_left_shift(const uint8_t *bytes, const struct insn *insn);
/* Returns the register that a cmov of 64-bit registers may copy to insn->dst, or INSN_NO_REG. */
unsigned insn_cmov_source(const uint8_t *bytes, const struct insn *insn);

/* May it change a flag that conditions read? */
bool insn_touches_flags(const uint8_t *bytes, unsigned len);
/*
 * Writes to `out` the commuted form of an instruction, which has the same `len` bytes: of `cmp %reg,mem` the compare
 * with its operands exchanged; of a jump, setcc or cmov the one with the swapped condition. Both decoders confirm the
 * length. Returns false if the instruction is neither, or if its condition has no swapped one.
 */
bool insn_commute(const uint8_t *bytes, unsigned len, uint8_t out[16]);

/* Does Capstone decode one instruction of exactly len bytes? */
bool insn_same_length(const uint8_t *bytes, unsigned len, uint64_t addr);

/* Returns the length of the instruction that Capstone decodes, or 0 if it decodes none. */
unsigned insn_second_length(const uint8_t *bytes, size_t avail, uint64_t addr);

/* Does Capstone decode the same operation on the same operands from both, each of exactly its length? Segment overrides
 * other than fs and gs are ignored. */
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
 * Finds the site form of an instruction that reads memory. Returns null if it has one: then form, regs, shape and
 * ETCH_IMV_MORE of *out are filled, and with that flag also *more, except for the flags that are needed. Otherwise
 * returns the reason why there is no immediate form, as a phrase for messages, without capital and period.
 */
const char *insn_site_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out,
                           struct etch_imv_more *more);

/*
 * Does the same for an indirect call or jump (FLOW_CALL_IND, FLOW_JUMP_IND), whose form is one of etch/pv_forms.h:
 * fills form, regs, shape and the displacement in flags.
 */
const char *insn_pv_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out);

/* Writes the name of a form: "mov32", "movzx8_32", "add64", "test8" (docs/formats.md). */
void insn_form_name(unsigned form, char *out, size_t out_size);

/* May the instruction fault on a memory access? False for lea, nop and prefetch; true also for accesses to the stack
 * and for string instructions. */
bool insn_accesses_memory(const uint8_t *bytes, size_t avail);
/* Returns the target of a direct call at bytes, 5 of which must be readable, or 0 if there is no call. */
uint64_t insn_call_target(const uint8_t *bytes, uint64_t addr);
bool insn_is_stack_register(unsigned reg);

/* Register masks: what a call may change, what may hold its arguments, and what holds a function's result (System V
 * psABI 3.2.1, 3.2.3). */
uint16_t insn_call_clobbers(void);
uint16_t insn_call_arguments(void);    /* includes the static chain register */
uint16_t insn_pointer_arguments(void); /* excludes it: in a call by pointer the trampoline sets it */
uint16_t insn_return_values(void);
/* Returns the registers that hold the first `count` words of the arguments that are passed in general registers. */
uint16_t insn_first_arguments(unsigned count);
/* Return the registers of the arguments in a mask (bit k: argument k, from 0), of a function and of a system call. */
uint16_t insn_arguments(uint8_t arguments);
uint16_t insn_syscall_arguments_of(uint8_t arguments);
/* Is it the system call of 64-bit programs? Its number is in register INSN_SYSCALL_NUMBER. */
bool insn_is_syscall(const uint8_t *bytes, const struct insn *in);
#define INSN_SYSCALL_NUMBER 0
#define INSN_FIRST_ARGUMENT 7
/* Returns the registers in which a value of `count` words is returned. */
uint16_t insn_first_returns(unsigned count);
uint16_t insn_syscall_arguments(void);

#endif
