/* SPDX-License-Identifier: MIT */
/*
 * What an instruction does to the stack and to registers that hold addresses of
 * it: a compact record, made once per instruction (Zydis) and read by the flow
 * analysis (code/flow.c). Registers are numbers 0-15 in encoding order.
 */
#ifndef X86_STACK_H
#define X86_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/x86/insn.h"

enum step_op {
	STEP_NONE,    /* nothing but `writes` */
	STEP_PUSH,    /* a = register, or INSN_NO_REG: some value; imm = bytes */
	STEP_POP,     /* a = register, or INSN_NO_REG; imm = bytes */
	STEP_MOVE,    /* a = b */
	STEP_ADDRESS, /* a = b + disp; b INSN_PC_REG: a = imm, an address */
	STEP_ADD,     /* a += imm */
	STEP_ALIGN,   /* a &= imm, a negative power of two */
	STEP_LOAD,    /* a = 8 bytes at b + disp */
	STEP_STORE,   /* `size` bytes at b + disp = a, or INSN_NO_REG: some value */
	STEP_LEAVE,
	STEP_ENTER,   /* imm = bytes of locals; only nesting level 0 */
	STEP_SWAP,    /* a <-> b */
	STEP_SUM,     /* a = b + index + disp */
	STEP_ADDREG,  /* a += b */
	STEP_SUBREG,  /* a -= b */
	STEP_CONST,   /* a = imm */
	STEP_COMPARE, /* flags of a - b */
	STEP_LIMIT,   /* flags of a - imm, or with INSN_NO_REG of memory at b + disp; size: bytes compared */
	STEP_FETCH,   /* a = `size` bytes at b + disp, zero-extended */
	STEP_ENTRY,   /* a = 4 (sign-extended) or 8 bytes at b + disp + index * size: a jump table's entry */
	STEP_SYSCALL, /* of the number in a */
	STEP_HALT,    /* hlt: faults; a handler may step over it */
	STEP_EXTEND,  /* a = b, 32 bits zero-extended, or fewer */
};

/* Conditions that say something about the operands of a compare. */
enum step_condition {
	COND_OTHER,
	COND_EQUAL,
	COND_NOT_EQUAL,
	COND_ABOVE,       /* unsigned */
	COND_ABOVE_EQUAL,
	COND_BELOW,
	COND_BELOW_EQUAL,
};

struct step {
	int64_t imm;      /* or the target of a direct jump, branch or call */
	int32_t disp;
	uint32_t number; /* for the analysis to use; 0 */
	uint16_t writes;  /* registers changed, wholly or in part, by more than what op says */
	uint16_t touches; /* registers that it changes, or that what it does depends on; rsp where that is not all */
	uint8_t len, op, flow; /* flow: enum insn_flow */
	uint8_t a, b, index;
	uint8_t size;     /* bytes stored (255: more); of a jump table's entry; 0 */
	uint8_t cond;     /* of a branch; of other instructions: true = writes flags */
	bool padding;     /* nop of any length, int3 */
	bool deref;       /* indirect call or jump through memory at b + disp (+ index * 8) */
	uint8_t direction; /* enum step_direction */
	uint8_t stirs;     /* STIRS_* */
};

/* What an instruction has to do with, besides registers: for who follows states, and looks at few of them. */
enum {
	STIRS_ALL = 1,   /* every instruction has it */
	STIRS_FLAGS = 2, /* not a branch's: writes them */
	STIRS_WAY = 4,   /* asks the system, or does not just go on */
	STIRS_MORE = 8,  /* changes more than register `a` or memory, or has to do with rsp otherwise than as an address */
	STIRS_NUMBER = 16, /* makes a number known: a constant, a place in the file, a bound */
	STIRS_ASKS = 32, /* does something else for other numbers: jumps to one, asks the system for it, moves rsp by it */
};

/* What an instruction does to the direction flag. */
enum step_direction {
	DIRECTION_KEPT,
	DIRECTION_UP,   /* cld */
	DIRECTION_DOWN, /* std */
	DIRECTION_ANY,  /* popf: as it was pushed */
};

/* Forms that have been met: decoding with one is twice as fast. One thread each. */
struct step_cache;
struct step_cache *step_cache_new(void);
void step_cache_free(struct step_cache *c);

/* Decodes one instruction at addr; cache may be null. False: no instruction.
 * The result is the same with and without a cache. */
bool step_decode(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out);
/* ... where more than that can be read: nearer to the end it is faster, then. */
bool step_decode_in(struct step_cache *cache, const uint8_t *bytes, size_t avail, size_t readable, uint64_t addr,
                    struct step *out);

/* Does this system call not come back: rt_sigreturn, exit, exit_group (asm/unistd_64.h)? */
#define STEP_IS_EXIT(number) ((number) == 15 || (number) == 60 || (number) == 231)

/* Registers that keep their value over a call (System V psABI 3.2.1): rbx rbp r12-r15. */
#define STEP_CALLEE_SAVED ((uint16_t)(1u << 3 | 1u << 5 | 0xf000u))

#define STEP_COUNT_REG 1u /* rcx: what rep counts in (SDM 2, REP) */

/* Slot of the GOT that a PLT entry jumps through, or 0: (endbr64, bnd) jmp *d(%rip). */
uint64_t plt_slot(const uint8_t *bytes, size_t size, uint64_t addr);
/* Is it the first entry of a lazy PLT: push d(%rip); (bnd) jmp *d(%rip)? The others jump
 * to it, with the index of the symbol pushed. */
bool plt_is_first(const uint8_t *bytes, size_t size);

/*
 * If a function is what a signal handler returns to (mov $__NR_rt_sigreturn,%rax;
 * syscall, and nothing else), its rule: CFA from the sigcontext of the kernel's
 * struct rt_sigframe, of which rsp points to the ucontext (arch/x86/include/asm/sigframe.h).
 */
bool code_is_sigreturn(const uint8_t *bytes, size_t size);
#define SIGRETURN_RSP 160 /* from rsp to the sigcontext's rsp */

#endif
