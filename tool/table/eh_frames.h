/* SPDX-License-Identifier: MIT */
/*
 * Makes .eh_frame and .eh_frame_hdr from rows, for code that has no FDE. Formats: DWARF 5, 6.4; Linux Standard Base,
 * "Exception Frames".
 *
 * Readers look for this data in different places. libgcc, libunwind and LLVM's libunwind use PT_GNU_EH_FRAME and its
 * sorted table; elfutils takes the first section .eh_frame, and an .eh_frame_hdr with a lower number; gdb takes the
 * last section .eh_frame. So one .eh_frame is made that has all FDEs: a copy of what the linker wrote, followed by the
 * new ones.
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

/* A pointer in .eh_frame that is stored relative to its own address. */
struct eh_pointer {
	uint64_t at;     /* offset of the pointer in the section */
	uint64_t target; /* the address to which it points */
	uint8_t size;    /* size of the pointer in bytes: 2, 4 or 8 */
};

/* Which of the linker's FDEs are replaced, provided that the code proves all their rows, and that they have no LSDA and
 * no personality. */
enum eh_replace {
	EH_REPLACE_NONE,
	EH_REPLACE_WRONG, /* those that contradict the code (ETCH-C001) */
	EH_REPLACE_ALL,
};

/* The sources from which FDEs are made. */
struct eh_rows {
	const struct row_list *rows; /* the unwind rows, in canonical form */
	/* Places of callee-saved registers (frames.saves), for code without FDEs and for code whose FDEs may be
	 * replaced. */
	const struct save_list *saves;
	const struct findings *found; /* the findings about code and .eh_frame that disagree; used with `replace` */
	enum eh_replace replace;
};

/* The linker's FDEs that are wrong, and those that are replaced. */
struct eh_replaced {
	uint8_t *fde; /* per FDE of the file: EH_FDE_*; null: none is replaced */
#define EH_FDE_WRONG    1u
#define EH_FDE_REPLACED 2u
	size_t count; /* number of FDEs that are replaced */
	struct eh_wrong {
		uint64_t start, end;
		bool replaced;
	} * wrong; /* the FDEs that contradict the code, in order of address */
	size_t wrong_count, capacity;
};

/* The contents of both sections. Pointers in them are filled in when the addresses of the sections are known. */
struct eh_frame {
	uint8_t *frame, *hdr;
	size_t frame_size, hdr_size;
	struct eh_pointer *pointers;
	size_t pointer_count, pointer_capacity;
	struct eh_entry { /* the entries of the search table in .eh_frame_hdr, sorted */
		uint64_t start, at;
	} * entries;
	size_t count, entry_capacity;
	size_t copied;   /* number of the linker's FDEs that were copied */
	uint64_t filled; /* bytes of code that the new FDEs describe */
	struct eh_replaced replaced;
};

/*
 * Makes FDEs for code that has none, or whose FDEs are replaced. A register whose place is not proven is undefined in
 * them. No FDE covers more than one section. Returns 0, or -1 with a message in *e if the linker's .eh_frame cannot be
 * copied. The caller calls eh_frame_free() on *out in either case.
 */
int eh_frame_encode(const struct cfi_file *cfi, const struct code_space *space, const struct eh_rows *rows,
                    struct eh_frame *out, struct error *e);
/*
 * Makes the same new FDEs, without those of the linker, as the contents of a section .debug_frame (DWARF 5, 6.4.1) for
 * a separate debug file. The result is out->frame, which needs no addresses to be filled in.
 */
void debug_frame_encode(const struct cfi_file *cfi, const struct code_space *space, const struct eh_rows *rows,
                        struct eh_frame *out);
/* Fills in the pointers of both sections, for sections at these addresses. Returns -1 with a message in *e if a target
 * is too far away for the size of its pointer. */
int eh_frame_place(struct eh_frame *x, uint64_t frame, uint64_t hdr, struct error *e);
void eh_frame_free(struct eh_frame *x);

/* ---- between the files of the encoder ---- */

/* Where the caller's frame and all of its registers are. */
struct frame_state {
	struct etch_rule rule;
	struct etch_cfi_saves saves;
};

/* The state of the code from `addr` on, up to the next row. */
struct frame_row {
	uint64_t addr;
	struct frame_state state;
	bool brief; /* only the offset of the CFA differs from the row before, and it is less than 128 */
};

/* A byte array that grows. */
struct bytes {
	uint8_t *list;
	size_t count, capacity;
};
void bytes_put(struct bytes *b, const void *data, size_t size);
/* Makes space for `size` more bytes. */
void bytes_grow(struct bytes *b, size_t size);

/* eh_frame_program.c: eh_cie_put() appends the CIE of the new FDEs, for .eh_frame or, with `debug`, for .debug_frame.
 * eh_program_put() appends the program of an FDE with these rows, whose code ends at `end`. */
void eh_cie_put(struct bytes *b, bool signal, bool debug);
void eh_program_put(struct bytes *b, const struct frame_row *rows, size_t count, uint64_t end);
/* Appends the program of a signal frame. All registers are in struct sigcontext (asm/sigcontext.h), whose field for rsp
 * is at address rsp + `rsp`. */
void eh_signal_put(struct bytes *b, int32_t rsp);

/* eh_frame_replace.c: decides which FDEs are replaced. */
void eh_replace_find(const struct cfi_file *cfi, const struct eh_rows *rows, struct eh_replaced *out);
/* Is an FDE in a part of .eh_frame replaced? *next is the index of the FDE that will probably be asked for next; it is
 * 0 at first. */
bool eh_replaces(const struct eh_replaced *x, const struct cfi_file *cfi, uint32_t part, const struct etch_fde *fde,
                 size_t *next);
void eh_replaced_free(struct eh_replaced *x);

/* eh_frame_copy.c: appends the entries of one of the linker's sections. An FDE that is replaced (out->replaced) remains
 * as an FDE that covers no code, because the FDEs after it are at fixed distances from their CIEs. */
int eh_frame_copy(const struct cfi_file *cfi, uint32_t part, struct bytes *b, struct eh_frame *out, struct error *e);
/* Record a pointer that is to be filled in, or an entry of the search table. */
void eh_pointer_add(struct eh_frame *x, uint64_t at, uint64_t target, uint8_t size);
void eh_entry_add(struct eh_frame *x, uint64_t start, uint64_t at);

#endif
