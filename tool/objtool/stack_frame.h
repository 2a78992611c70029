/* SPDX-License-Identifier: MIT */
/*
 * The frame as --stackval follows it through a function: where the CFA is, and which registers have been saved.
 * Unlike the state of the analysis (analysis/flow/state.h), which proves rows, it implements the rules of the kernel:
 * only the instructions by which compilers and the kernel's assembly build and remove frames change it.
 */
#ifndef OBJTOOL_STACK_FRAME_H
#define OBJTOOL_STACK_FRAME_H

#include "analysis/facts/notes.h"
#include "arch/x86/fast_decoder.h"

/* Values of spot.base that do not stand for a register. Warnings print these numbers. */
enum { BASE_NONE = -1, BASE_CFA = -2, BASE_RSP_DEREF = -3, BASE_RBP_DEREF = -4 };

/* An address, base + off. For a saved register, it is the address of its slot. */
struct spot {
	int32_t base, off;
};

enum { FRAME_RETURN = 16, FRAME_SPOTS };
struct stack_frame {
	struct spot cfa;
	struct spot saved[FRAME_SPOTS]; /* callee-saved registers and the return address */
	/* Registers that hold an address of this stack; BASE_RSP_DEREF: an address of another stack, at whose top rsp was
	 * saved. */
	struct spot copies[16];
	int32_t size; /* number of bytes from rsp up to the CFA */
	/*
	 * aligner: the register that keeps the CFA while rsp is aligned, or BASE_NONE; aligner_at: the slot in which it is
	 * saved.
	 */
	int32_t aligner, aligner_at;
	uint8_t kind; /* as in struct note_frame */
	bool aligned; /* rsp has been aligned; `saved` is relative to rbp */
	bool scratch; /* rbp has been pushed but not made the frame pointer */
	bool unknown; /* no rules apply */
};

/*
 * stack_frame_start() makes the frame at a function's start; stack_frame_none() makes a frame about which nothing is
 * known.
 */
void stack_frame_start(struct stack_frame *out);
void stack_frame_none(struct stack_frame *out);
/* Makes the frame that a hint describes. `typed` is linux_release.typed_rows. */
void stack_frame_hinted(const struct note_frame *hint, bool typed, struct stack_frame *out);

/* Facts outside the instruction on which its effect on the frame depends. */
struct stack_rules {
	bool copies;   /* copies of registers other than rsp are also followed */
	bool function; /* the instruction is part of a function */
	bool pointers; /* the instruction is part of a function, and functions must have frame pointers */
	bool hinted;   /* the next instruction has a hint */
	bool pushes;   /* the instruction is a call that serves only to push an address */
	bool returns;  /* the instruction is an iret after which control continues at the next instruction */
};
/*
 * False if stack_frame_step() would not change the frame, and give no warning, for an instruction that is neither a
 * call nor an iret. This is a quick test, which most instructions fail. `copies` is that of stack_rules.
 */
bool stack_frame_may_change(const struct stack_frame *f, const struct step *s, bool copies);
/*
 * Changes a frame as an instruction changes it. Returns null, or the text of a warning; in the latter case the frame is
 * not valid.
 */
const char *stack_frame_step(struct stack_frame *f, const struct step *s, const struct stack_rules *rules);

/* True if the frame differs from the one at a function's start. */
bool stack_frame_modified(const struct stack_frame *f);
/* True if rbp points to a frame as a frame-pointer unwinder needs it. */
bool stack_frame_has_pointer(const struct stack_frame *f);
/*
 * Compares two frames with which paths reach the same instruction. Returns false if they agree in all that validation
 * compares; otherwise true, with the text of the warning in `out`.
 */
bool stack_frames_differ(const struct stack_frame *x, const struct stack_frame *y, bool typed, char *out, size_t size);

/* A set of frames, each with a number. All zero: the empty set. */
struct stack_frames {
	struct stack_frame *list;
	size_t count, capacity;
	uint32_t *slots; /* a hash table of numbers + 1 */
	size_t slot_count;
};
uint32_t stack_frames_number(struct stack_frames *x, const struct stack_frame *f);
void stack_frames_free(struct stack_frames *x);

#endif
