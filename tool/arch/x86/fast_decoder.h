/* SPDX-License-Identifier: MIT */
/*
 * struct step: the effect of an instruction on the stack, on registers and on control flow, in the form that the
 * data-flow analysis (analysis/flow/flow_run.c) uses. Each instruction is decoded to a struct step once. Registers are
 * numbers 0-15 in encoding order.
 */
#ifndef X86_FAST_DECODER_H
#define X86_FAST_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/x86/insn.h"

/* The effect on registers and stack. a, b, index, imm, disp and size are members of struct step. */
enum step_op {
	STEP_NONE,  /* no effect other than `writes` */
	STEP_PUSH,  /* pushes imm bytes: register a; or if a is INSN_NO_REG, memory at b + disp or an unknown value */
	STEP_PUSH2, /* pushes register a, then b (INSN_NO_REG: an unknown value); imm = 16 bytes */
	STEP_POP2,  /* pops into register a, then into b; imm = 16 bytes */
	STEP_POP,  /* pops imm bytes: into register a; or if a is INSN_NO_REG, into memory at b + disp if `size` is not 0 */
	STEP_MOVE, /* a = b */
	STEP_ADDRESS, /* a = b + disp; if b is INSN_PC_REG: a = imm, which is an address */
	STEP_ADD,     /* a += imm */
	STEP_ALIGN,   /* a &= imm, a negative power of two */
	STEP_LOAD,    /* a = 8 bytes at b + disp */
	STEP_STORE,   /* stores a to the `size` bytes at b + disp; if a is INSN_NO_REG, an unknown value */
	STEP_LEAVE,
	STEP_ENTER,    /* imm = bytes of locals; only nesting level 0 */
	STEP_SWAP,     /* a <-> b */
	STEP_EXCHANGE, /* a <-> 8 bytes at b + disp */
	STEP_SUM,      /* a = b + index + disp */
	STEP_ADDREG,   /* a += b */
	STEP_SUBREG,   /* a -= b */
	STEP_CONST,    /* a = imm */
	STEP_COMPARE,  /* sets the flags as a - b does */
	STEP_LIMIT,    /* sets the flags as a - imm does, or if a is INSN_NO_REG, as (memory at b + disp) - imm does; `size`
	                  bytes are compared */
	STEP_FETCH,    /* a = `size` bytes at b + disp, zero-extended */
	STEP_ENTRY,    /* a = jump table entry of 4 (sign-extended) or 8 bytes at b + disp + index * size */
	STEP_SYSCALL,  /* system call, with its number in register a */
	STEP_HALT,     /* hlt: faults in user space, where a signal handler may let execution continue after it */
	STEP_EXTEND,   /* a = the low `size` bytes of b, zero-extended if fewer than 8, shifted right by imm bits */
};

/* The branch conditions from which the analysis learns something about the operands of a compare. */
enum step_condition {
	COND_OTHER,
	COND_EQUAL,
	COND_NOT_EQUAL,
	COND_ABOVE, /* unsigned */
	COND_ABOVE_EQUAL,
	COND_BELOW,
	COND_BELOW_EQUAL,
};

/* The effect of one instruction. */
struct step {
	int64_t imm; /* immediate, address, or the target of a direct jump, branch or call */
	int32_t disp;
	uint32_t number;  /* 0 from the decoder; the analysis stores a number here */
	uint16_t writes;  /* mask of the registers that change, wholly or in part, in addition to the changes that `op`
	                     describes */
	uint16_t touches; /* mask of the registers that the instruction changes or reads; includes rsp if the other members
	                     do not describe the whole effect */
	uint8_t len, op, flow; /* flow: enum insn_flow */
	uint8_t a, b, index;
	uint8_t size; /* number of bytes that are stored (255: more than 254), compared, or in an entry of a jump table; 0:
	                 none */
	uint8_t cond; /* of a branch: enum step_condition; of other instructions: nonzero if it writes flags */
	bool padding; /* nop of any length, int3 */
	bool deref;   /* indirect call or jump through memory at b + disp (+ index * 8) */
	uint8_t direction; /* enum step_direction */
	uint8_t effects;   /* EFFECT_* */
};

static inline bool step_pushes(const struct step *s) { return s->op == STEP_PUSH || s->op == STEP_PUSH2; }

/* step_pushed() and step_popped() return the mask of the registers that an instruction pushes, and of those that it
 * pops. */
static inline uint16_t step_pair(const struct step *s, unsigned one, unsigned two)
{
	return (uint16_t)(((s->op == one || s->op == two) && s->a < 16 ? 1u << s->a : 0) |
	                  (s->op == two && s->b < 16 ? 1u << s->b : 0));
}
static inline uint16_t step_pushed(const struct step *s) { return step_pair(s, STEP_PUSH, STEP_PUSH2); }
static inline uint16_t step_popped(const struct step *s) { return step_pair(s, STEP_POP, STEP_POP2); }

/* What an instruction does in addition to changes of registers: bits of step.effects. By these, code that walks
 * instructions can skip those that cannot concern it. */
enum {
	EFFECT_ALL = 1,             /* set for every instruction */
	EFFECT_FLAGS = 2,           /* it writes flags, or is a branch with a condition */
	EFFECT_CONTROL = 4,         /* a system call, or control flow other than to the next instruction */
	EFFECT_OTHER = 8,           /* it changes more than register `a` and memory, or uses rsp other than as an address */
	EFFECT_CONSTANT = 16,       /* it yields a known number: a constant, an address in the file, a bound */
	EFFECT_NEEDS_CONSTANT = 32, /* its effect depends on a number in a register: an indirect jump, a system call, an
	                               addition of a register to rsp */
};

/* The effect of an instruction on the direction flag. */
enum step_direction {
	DIRECTION_KEPT,
	DIRECTION_UP,   /* cld */
	DIRECTION_DOWN, /* std */
	DIRECTION_ANY,  /* popf: the flag becomes what the popped value says */
};

#define STEP_LEN_MOST INSN_MOST

/* A cache of known encodings and forms, which makes decoding about twice as fast. One cache per thread. */
struct step_cache;
struct step_cache *step_cache_new(void);
void step_cache_free(struct step_cache *c);
/* Sets whether, from now on, step_cache_free() also keeps caches of large files for the next step_cache_new() instead
 * of freeing them. Not thread-safe. */
void step_caches_keep(bool large);

/* Decodes one instruction at addr. The cache may be null; the result does not depend on it. Returns false if there is
 * no instruction. */
bool step_decode(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out);
/* Decodes one instruction as step_decode() does. `readable` bytes may be read, which may be more than avail: this makes
 * decoding faster close to the end of the code. */
bool step_decode_in(struct step_cache *cache, const uint8_t *bytes, size_t avail, size_t readable, uint64_t addr,
                    struct step *out);
/* Decodes one instruction as step_decode() does, but sets only the members `len` and `flow`, which is faster. */
bool step_outline(struct step_cache *cache, const uint8_t *bytes, size_t avail, struct step *out);

/* Is a number that of a system call that does not return: rt_sigreturn, exit, exit_group (asm/unistd_64.h)? */
#define STEP_IS_EXIT(number) ((number) == 15 || (number) == 60 || (number) == 231)

/* The callee-saved registers (System V psABI 3.2.1): rbx rbp r12-r15. */
#define STEP_CALLEE_SAVED ((uint16_t)(1u << 3 | 1u << 5 | 0xf000u))

/* r10 and r11, which calls do not preserve, and which hold no arguments of C (psABI 3.2.3). */
#define STEP_SCRATCH (3u << 10)
/* Orders in which registers are searched for a value: callee-saved ones first, since calls preserve them. The second
 * list is without rsp and rbp, and has r11 and r10 directly after the callee-saved registers. */
#define STEP_KEPT_FIRST           3, 5, 12, 13, 14, 15, 0, 1, 2, 4, 6, 7, 8, 9, 10, 11
#define STEP_KEPT_FIRST_BUT_FRAME 3, 12, 13, 14, 15, 11, 10, 0, 1, 2, 6, 7, 8, 9

#define STEP_COUNT_REG 1u /* rcx: the counter of rep (SDM vol. 2, REP) */

/* Returns the address of the GOT slot through which a PLT entry jumps: jmp *d(%rip), perhaps after endbr64 and with a
 * bnd prefix. Returns 0 if the code is no PLT entry. */
uint64_t plt_slot(const uint8_t *bytes, size_t size, uint64_t addr);
/* Is the code the first entry of a lazy PLT: push d(%rip); jmp *d(%rip), perhaps with a bnd prefix? The other entries
 * push the index of their relocation and jump to this one. */
bool plt_is_first(const uint8_t *bytes, size_t size);

/* The instructions by which a kernel returns to the code that it has interrupted (SDM 2): iret pops five words in
 * 64-bit mode; sysret and sysexit pop none. */
enum leaving { LEAVES_NOT, LEAVES_BY_IRET, LEAVES_BY_SYSRET };
#define IRET_POPS   40
#define LEAVES_MOST 3 /* bytes of the longest such instruction */
static inline enum leaving code_leaves(const uint8_t *bytes, size_t size)
{
	size_t rex = size > 1 && (bytes[0] & 0xf0) == 0x40;

	if (size == rex + 1 && bytes[rex] == 0xcf)
		return LEAVES_BY_IRET;
	if (size == rex + 2 && bytes[rex] == 0x0f && (bytes[rex + 1] == 0x07 || bytes[rex + 1] == 0x35))
		return LEAVES_BY_SYSRET;
	return LEAVES_NOT;
}
/* Is an instruction a return or an indirect branch inside the code segment (SDM 2, near)? */
bool code_is_near(const uint8_t *bytes, size_t size);

/*
 * Is the code the one to which a signal handler returns: mov $__NR_rt_sigreturn,%rax; syscall? Its CFA comes from the
 * sigcontext in the kernel's struct rt_sigframe; rsp points to the ucontext in it (arch/x86/include/asm/sigframe.h).
 */
bool code_is_sigreturn(const uint8_t *bytes, size_t size);
#define SIGRETURN_RSP 160 /* offset from rsp to the member rsp of the sigcontext */

#endif
