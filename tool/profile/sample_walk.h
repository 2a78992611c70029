/* SPDX-License-Identifier: MIT */
/*
 * Walks the stack of a sample: libetch's walk uses the tables of the mapped files, and the registers and the copy of
 * the stack that the kernel took.
 */
#ifndef PROFILE_SAMPLE_WALK_H
#define PROFILE_SAMPLE_WALK_H

#include "profile/processes.h"

#define FRAMES_MOST 8192 /* the number of return addresses that fit 64 KiB of stack */

/* Why a walk ended. */
enum stop {
	STOP_END,      /* the outermost frame */
	STOP_COPY,     /* the end of the stack that the kernel copied */
	STOP_CODE,     /* code made at run time */
	STOP_UNMAPPED, /* an address where no file is mapped */
	STOP_NO_FILE,  /* the file could not be opened, or another one has replaced it */
	STOP_NO_TABLE, /* the file has no table, and none can be made */
	STOP_NO_RULE,  /* the table has no rule for the address */
	STOP_REGISTER, /* the rule needs a register whose value is not known */
	STOP_CORRUPT,  /* the frame is not above the one before it */
	STOP_BITS,     /* 32-bit code */
	STOP_DEEP,     /* more frames than are recorded */
	STOP_NO_SPACE, /* there was no space for the stack */
	STOP_STACK,    /* the caller's frame is below the copy of the stack */
	STOP_HOLE,     /* the kernel's copy ends before the bytes that it was asked for, at a page that is not in memory */
	STOP_COUNT,
};

/* Returns the text for the end of a walk, such as "the stack is deeper than its copy". */
const char *stop_text(enum stop s);

struct sample {
	uint64_t reg[17]; /* enum etch_reg */
	const uint8_t *stack;
	uint64_t stack_size;  /* bytes copied, from reg[ETCH_RSP] on */
	uint64_t stack_asked; /* bytes that the kernel was asked for */
	bool frame_pointers;  /* follow rbp through code that nothing describes, which is a guess */
	unsigned guessed;     /* number of frames whose caller was found by following rbp; sample_walk() sets it */
	bool assumed; /* the caller of a frame in no code was assumed (lib/unwind/no_code.c); sample_walk() sets it */
};

/* A frame: a file, and an address in it. A return address is represented by the byte before it, which is in the
 * call. */
struct walk_frame {
	uint32_t binary; /* number of the binary, or BINARY_UNKNOWN */
	uint64_t address;
};

/* Walks from the innermost frame outwards. Returns the number of frames. */
size_t sample_walk(const struct process *p, struct binary_list *binaries, struct sample *s,
                   struct walk_frame frames[FRAMES_MOST], enum stop *stop);

/* Reads 8 bytes of a sample's stack. Returns 0, or -1. */
int sample_read(const struct sample *s, uint64_t at, uint64_t *word);
/*
 * Finds the callee-saved registers of the frame (rip, rsp) by .eh_frame, starting from the sample's registers, since
 * tables do not have them. Stores them in reg[], and sets their bits in *known (sample_registers.c).
 */
void sample_registers(const struct process *p, const struct binary_list *binaries, const struct sample *s,
                      uint64_t reg[17], uint32_t *known);

#endif
