/* SPDX-License-Identifier: MIT */
/*
 * The files that a profiled process has mapped. They are opened while the process lives, as it sees them (its root
 * directory may be a container's), and identified by build-id, or by device and inode. Each gets its unwind table when
 * a walk first needs it.
 */
#ifndef PROFILE_BINARY_FILES_H
#define PROFILE_BINARY_FILES_H

#include <elf.h>
#include <etch/unwind.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/x86/trampoline.h"
#include "elf/headers.h"
#include "support/error.h"

enum binary_kind {
	BINARY_FILE,
	BINARY_CODE, /* code made at run time: memory without a file; addresses are those in the process */
	BINARY_GONE, /* a file that cannot be opened, or that another one has replaced */
};

/* Where the unwind table comes from. */
enum binary_table {
	TABLE_UNASKED,
	TABLE_OWN,      /* the file's etch segment */
	TABLE_SIDECAR,  /* a sidecar (shared/sidecars.h) */
	TABLE_EH_FRAME, /* made from the file's .eh_frame */
	TABLE_ANALYSED, /* made from the file's code, as `etch rewrite` does, since it has no .eh_frame */
	TABLE_NONE,
};

struct mapped_file { /* the kernel's description of the file behind a mapping */
	const char *path;
	uint64_t start, end; /* addresses of the mapping */
	uint8_t build_id[BUILD_ID_MOST];
	unsigned build_id_size; /* 0: see device, inode */
	uint32_t major, minor;
	uint64_t inode;
};

/* A part of a process's memory that has Python's trampolines (python_stubs.h). */
struct python_arena {
	uint64_t start;
	bool found; /* it has trampolines, which `how` describes */
	struct trampoline how;
};

struct binary {
	enum binary_kind kind;
	char *path;       /* the path by which the process names it */
	const char *name; /* the last part of the path */
	pid_t pid;        /* the process that mapped it first */
	uint8_t build_id[BUILD_ID_MOST];
	unsigned build_id_size;
	uint32_t major, minor;
	uint64_t inode;
	int fd; /* -1: not open */
	Elf64_Phdr *phdrs;
	unsigned phdr_count;
	Elf64_Ehdr header;
	uint64_t entry; /* e_entry */

	enum binary_table table_from;
	const struct etch_unwind *table;
	uint64_t table_size, table_address;
	/* The file's segments in memory, at their distances from each other, with .eh_frame and the data that a walk by it
	 * needs. Null: they are not loaded. */
	uint8_t *image;
	uint64_t image_low, image_size; /* link-time address of image[0] */
	struct python_arena *arenas;    /* for BINARY_CODE */
	size_t arena_count, arena_capacity;
};

struct binary_list {
	struct binary **list;
	size_t count, capacity;
};

/* Returns the number of the binary that a mapping of process `pid` maps, or -1 if out of memory. */
long binary_find(struct binary_list *l, pid_t pid, const struct mapped_file *m);
/* Computes the address of a mapping of file offset `offset` minus the link-time address, or minus the file offset if
 * the file could not be opened. Returns false if the file has no code at that offset. */
bool binary_bias(const struct binary *b, uint64_t start, uint64_t offset, uint64_t *bias);
/*
 * Is a link-time address in the code at which the kernel starts the program (psABI 3.4.1), and which has no caller? In
 * the dynamic linker and in musl this code has no .eh_frame; in its few instructions it calls a function that does not
 * return.
 */
static inline bool binary_is_entry(const struct binary *b, uint64_t at) { return b->entry && at - b->entry < 64; }
/* Reads 8 bytes of the file's code at a link-time address. Returns 0, or -1. */
int binary_code_read(const struct binary *b, uint64_t at, uint64_t *word);
/* Finds the FDE of a link-time address in the .eh_frame that binary_prepare() has read (binary_tables.c). Returns false
 * if there is none. The FDE refers to *cfi, which refers to the binary's memory. */
struct etch_cfi;
struct etch_fde;
bool binary_fde(const struct binary *b, uint64_t at, struct etch_cfi *cfi, struct etch_fde *fde);
/* Finds or makes the unwind table. */
void binary_prepare(struct binary *b);
void binary_list_free(struct binary_list *l);

#endif
