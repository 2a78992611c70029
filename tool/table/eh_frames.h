/* SPDX-License-Identifier: MIT */
/*
 * Makes .eh_frame and .eh_frame_hdr from rows, for code that has no FDE. Formats: DWARF 5, 6.4; Linux Standard Base,
 * "Exception Frames".
 *
 * Readers differ in what they read: libgcc, libunwind and LLVM's go through PT_GNU_EH_FRAME and its sorted table;
 * elfutils takes the first section .eh_frame and an .eh_frame_hdr with a lower number; gdb takes the last section
 * .eh_frame. So there is one .eh_frame with all FDEs: a copy of what the linker wrote, followed by the new ones.
 */
#ifndef TABLE_EH_FRAMES_H
#define TABLE_EH_FRAMES_H

#include "analysis/facts/cfi_file.h"
#include "analysis/unwind/rows.h"
#include "analysis/unwind/saves.h"
#include "report/finding.h"
#include "support/error.h"

#define EH_FRAME_SECTION ".eh_frame"
#define EH_HDR_SECTION   ".eh_frame_hdr"
#define DEBUG_FRAME      ".debug_frame"

/* A pointer in .eh_frame that is relative to itself. */
struct eh_pointer {
	uint64_t at;     /* offset in the section */
	uint64_t target; /* address */
	uint8_t size;    /* 2, 4 or 8 */
};

/* Which FDEs of the linker are replaced, if the code proves all their rows and they have no LSDA and no personality. */
enum eh_replace {
	EH_REPLACE_NONE,
	EH_REPLACE_WRONG, /* those that contradict the code (ETCH-C001) */
	EH_REPLACE_ALL,
};

/* The sources from which FDEs are made. */
struct eh_rows {
	const struct row_list *rows;   /* canonical */
	const struct save_list *saves; /* frames.saves: for code without FDEs, and for code whose FDEs may be replaced */
	const struct findings *found;  /* where .eh_frame and the code disagree; used with `replace` */
	enum eh_replace replace;
};

struct eh_replaced {
	uint8_t *fde; /* per FDE of the file: EH_FDE_*; null: none is replaced */
#define EH_FDE_WRONG    1u
#define EH_FDE_REPLACED 2u
	size_t count; /* FDEs replaced */
	struct eh_wrong {
		uint64_t start, end;
		bool replaced;
	} * wrong; /* the FDEs that contradict the code, in order */
	size_t wrong_count, capacity;
};

/* The contents of both sections, before addresses are filled in. */
struct eh_frame {
	uint8_t *frame, *hdr;
	size_t frame_size, hdr_size;
	struct eh_pointer *pointers;
	size_t pointer_count, pointer_capacity;
	struct eh_entry { /* the entries of the table in .eh_frame_hdr, sorted */
		uint64_t start, at;
	} * entries;
	size_t count, entry_capacity;
	size_t copied;   /* FDEs of the linker that were copied */
	uint64_t filled; /* bytes of code that the new FDEs describe */
	struct eh_replaced replaced;
};

/*
 * Makes FDEs for code that has none, or whose own are replaced. A register whose place is not proven is undefined. No
 * FDE spans sections. Returns 0, or -1 and a message if the linker's .eh_frame cannot be copied. The caller calls
 * eh_frame_free() on *out in any case.
 */
int eh_frame_encode(const struct cfi_file *cfi, const struct code_space *space, const struct eh_rows *rows,
                    struct eh_frame *out, struct error *e);
/*
 * Makes the same FDEs as the contents of a section .debug_frame (DWARF 5, 6.4.1), for a separate debug file: without
 * those of the linker, and complete. out->frame has the bytes.
 */
void debug_frame_encode(const struct cfi_file *cfi, const struct code_space *space, const struct eh_rows *rows,
                        struct eh_frame *out);
/* Completes both sections for these addresses. Returns -1 if something is too far away for the size of its pointer. */
int eh_frame_place(struct eh_frame *x, uint64_t frame, uint64_t hdr, struct error *e);
void eh_frame_free(struct eh_frame *x);

/* ---- between the files of the encoder ---- */

/* Where the frame and all registers of the caller are. */
struct frame_state {
	struct etch_rule rule;
	struct etch_cfi_saves saves;
};

/* A range of code with one state. */
struct frame_row {
	uint64_t addr;
	struct frame_state state;
	bool brief; /* only the offset of the CFA differs from the row before it, and fits a byte */
};

struct bytes {
	uint8_t *list;
	size_t count, capacity;
};
void bytes_put(struct bytes *b, const void *data, size_t size);
/* Grows the list so that it has space for `size` more bytes. */
void bytes_grow(struct bytes *b, size_t size);

/* eh_frame_program.c: appends the CIE of these FDEs, for .eh_frame or .debug_frame; and the program of an FDE, for the
 * rows of its code, which ends at `end`. */
void eh_cie_put(struct bytes *b, bool signal, bool debug);
void eh_program_put(struct bytes *b, const struct frame_row *rows, size_t count, uint64_t end);
/* Appends the program of a signal frame: all registers are in struct sigcontext (asm/sigcontext.h), rsp at rsp +
 * `rsp`. */
void eh_signal_put(struct bytes *b, int32_t rsp);

/* eh_frame_replace.c: finds the FDEs that are replaced. */
void eh_replace_find(const struct cfi_file *cfi, const struct eh_rows *rows, struct eh_replaced *out);
/* Is an FDE of a part replaced? *next is the index of the FDE that is likely asked for next; 0 at first. */
bool eh_replaces(const struct eh_replaced *x, const struct cfi_file *cfi, uint32_t part, const struct etch_fde *fde,
                 size_t *next);
void eh_replaced_free(struct eh_replaced *x);

/* eh_frame_copy.c: appends the entries of a section of the linker. An FDE that is replaced (out->replaced) stays as one
 * for no code, since the FDEs after it are at fixed distances from their CIEs. */
int eh_frame_copy(const struct cfi_file *cfi, uint32_t part, struct bytes *b, struct eh_frame *out, struct error *e);
/* Notes a pointer to be filled in, or an FDE. */
void eh_pointer_add(struct eh_frame *x, uint64_t at, uint64_t target, uint8_t size);
void eh_entry_add(struct eh_frame *x, uint64_t start, uint64_t at);

#endif
