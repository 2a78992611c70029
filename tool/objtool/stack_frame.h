/* SPDX-License-Identifier: MIT */
/*
 * The frame as --stackval follows it through a function: where the CFA is, and which registers have been saved. Unlike
 * the analysis' state (analysis/flow/state.h), which proves rows, it says what the kernel's rules allow: only the
 * instructions by which compilers and the kernel's assembly build and leave frames change it.
 */
#ifndef OBJTOOL_STACK_FRAME_H
#define OBJTOOL_STACK_FRAME_H

#include "analysis/facts/notes.h"
#include "arch/x86/fast_decoder.h"

/* Bases other than registers. The numbers are those of warnings. */
enum { BASE_NONE = -1, BASE_CFA = -2, BASE_RSP_DEREF = -3, BASE_RBP_DEREF = -4 };

/* An address, base + off; of a saved register: where it lies. */
struct spot {
	int32_t base, off;
};

enum { FRAME_RETURN = 16, FRAME_SPOTS };
struct stack_frame {
	struct spot cfa;
	struct spot saved[FRAME_SPOTS]; /* callee-saved registers and the return address */
	struct spot copies[16];         /* registers that hold an address of this stack; BASE_RSP_DEREF: of another one, at
	                                 * whose top rsp has been left */
	int32_t size;                   /* bytes from rsp up to the CFA */
	int32_t aligner, aligner_at; /* the register that keeps the CFA while rsp is aligned, BASE_NONE: none; its slot */
	uint8_t kind;                /* that of struct note_frame */
	bool aligned;                /* rsp has been aligned; `saved` is relative to rbp */
	bool scratch;                /* rbp has been pushed and not been made the frame pointer */
	bool unknown;                /* no rules apply */
};

/* The frame at a function's start; one of which nothing is known. */
void stack_frame_start(struct stack_frame *out);
void stack_frame_none(struct stack_frame *out);
/* The frame that a hint describes; `typed`: linux_release.typed_rows. */
void stack_frame_hinted(const struct note_frame *hint, bool typed, struct stack_frame *out);

/* What the effect of an instruction depends on beside itself. */
struct stack_rules {
	bool copies;   /* copies of registers are followed that are not rsp's */
	bool function; /* the instruction is part of a function */
	bool pointers; /* likewise, and frames need a pointer */
	bool hinted;   /* the next one has a hint */
	bool pushes;   /* it is a call that only pushes */
	bool returns;  /* it is an iret that goes on after itself */
};
/* Changes a frame by one instruction. Null; or a warning, and the frame is not valid. */
const char *stack_frame_step(struct stack_frame *f, const struct step *s, const struct stack_rules *rules);

/* Is it other than at a function's start? */
bool stack_frame_modified(const struct stack_frame *f);
/* Does rbp point to a frame as a frame-pointer unwinder needs it? */
bool stack_frame_has_pointer(const struct stack_frame *f);
/* Writes the warning that two frames of one instruction differ. False: they do not, in what counts. */
bool stack_frames_differ(const struct stack_frame *x, const struct stack_frame *y, bool typed, char *out, size_t size);

/* Frames, each once, by numbers. All zero: empty. */
struct stack_frames {
	struct stack_frame *list;
	size_t count, capacity;
	uint32_t *slots; /* a hash table of numbers + 1 */
	size_t slot_count;
};
uint32_t stack_frames_number(struct stack_frames *x, const struct stack_frame *f);
void stack_frames_free(struct stack_frames *x);

#endif
