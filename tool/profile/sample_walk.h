/* SPDX-License-Identifier: MIT */
/*
 * The stack of a sample: libetch's walk by the tables of the mapped files, with the registers and the copy of the stack
 * that the kernel took.
 */
#ifndef PROFILE_SAMPLE_WALK_H
#define PROFILE_SAMPLE_WALK_H

#include "profile/processes.h"

#define FRAMES_MOST 8192 /* as many return addresses as fit 64 KiB of stack */

/* Where a walk ended. */
enum stop {
	STOP_END,      /* the outermost frame */
	STOP_COPY,     /* the end of the stack that the kernel copied */
	STOP_CODE,     /* code made at run time */
	STOP_UNMAPPED, /* an address where no file is mapped */
	STOP_NO_FILE,  /* the file could not be opened, or is another one by now */
	STOP_NO_TABLE, /* the file has no table, and none can be made */
	STOP_NO_RULE,  /* the table has no rule for the address */
	STOP_REGISTER, /* the rule needs a register that nothing gives back */
	STOP_CORRUPT,  /* the frame does not lie above the one before */
	STOP_BITS,     /* 32-bit code */
	STOP_DEEP,     /* more frames than are recorded */
	STOP_NO_ROOM,  /* there was no room for the stack */
	STOP_STACK,    /* the caller's frame is below the copy of the stack */
	STOP_COUNT,
};

/* The sentence for it: "the stack is deeper than its copy". */
const char *stop_text(enum stop s);

struct sample {
	uint64_t reg[17]; /* enum etch_reg */
	const uint8_t *stack;
	uint64_t stack_size;  /* copied, from reg[ETCH_RSP] on */
	uint64_t stack_asked; /* what the kernel was asked for */
	bool frame_pointers;  /* follow rbp through code that nothing describes: a guess */
	unsigned guessed;     /* set by sample_walk(): frames whose caller was found so */
	bool assumed; /* set by sample_walk(): the caller of a frame in no code was assumed (lib/unwind/no_code.c) */
};

/* A frame: where it is in which file. A return address counts as the byte before it, which is in the call. */
struct walk_frame {
	uint32_t binary; /* or BINARY_UNKNOWN */
	uint64_t address;
};

/* Walks from the innermost frame outward; returns the number of frames. */
size_t sample_walk(const struct process *p, struct binary_list *binaries, struct sample *s,
                   struct walk_frame frames[FRAMES_MOST], enum stop *stop);

/* Reads 8 bytes of a sample's stack: 0, or -1. */
int sample_read(const struct sample *s, uint64_t at, uint64_t *word);
/*
 * The callee-saved registers of the frame (rip, rsp), by .eh_frame from the sample's registers on: they are stored in
 * reg[], and their bits set in *known (sample_registers.c). Tables do not have them.
 */
void sample_registers(const struct process *p, const struct binary_list *binaries, const struct sample *s,
                      uint64_t reg[17], uint32_t *known);

#endif
