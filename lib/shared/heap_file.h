/* SPDX-License-Identifier: MIT */
/*
 * heap_file.h: the file that the recorder of `etch heap` (lib/heap) shares with the tool; each process image has one.
 *
 * The process maps it, and it holds the sums at any moment, so nothing remains to be written, whatever ends the
 * process. It is sparse: a head, then three arrays that grow, each from an offset that the head names. Elements are
 * complete before the count in the head covers them. Little-endian, as the machine is.
 */
#ifndef ETCH_LIB_SHARED_HEAP_FILE_H
#define ETCH_LIB_SHARED_HEAP_FILE_H

#include <stdint.h>

#define HEAP_MAGIC   0x7061656868637465u /* "etchheap" */
#define HEAP_VERSION 2u

/* The variable that tells the recorder what to do: SAMPLE:PID:DIRECTORY. PID: record only children of this process;
 * 0: record all. */
#define HEAP_VARIABLE "ETCH_HEAP"

#define HEAP_FRAMES_MOST 8192 /* maximum number of frames of a stack that are recorded */

/* Bytes and the number of blocks. With sampling, both also stand for the blocks that were not recorded. */
struct heap_sum {
	uint64_t bytes, count;
};

/* Why a walk ended: its stack has the innermost frames only, unless it is complete. */
enum heap_stop {
	HEAP_STOP_END,      /* complete */
	HEAP_STOP_NO_TABLE, /* no unwind information at the outermost frame */
	HEAP_STOP_NO_RULE,
	HEAP_STOP_REGISTER, /* a register is needed that is not known */
	HEAP_STOP_CORRUPT,
	HEAP_STOP_DEEP, /* more than HEAP_FRAMES_MOST frames */
	HEAP_STOP_COUNT,
};

enum heap_flag {
	HEAP_OWN_MALLOC = 1, /* the program's calls of malloc do not reach the recorder, because the program defines its
	                      * own */
};

/* Why recording has stopped before the process ended. The sums are those of that moment. */
enum heap_ended {
	HEAP_ENDED_NOT,
	HEAP_ENDED_SPACE,   /* an allocation of the program failed under RLIMIT_AS */
	HEAP_ENDED_DATA,    /* an allocation failed under RLIMIT_DATA */
	HEAP_ENDED_MEMORY,  /* an allocation failed, and no limit of the process explains it */
	HEAP_ENDED_SANDBOX, /* the program has asked for a seccomp filter, which may forbid the recorder's system calls */
	HEAP_ENDED_COUNT,
};

/* What was missing when stacks or blocks were lost: bits of heap_head.short_of. */
enum heap_short {
	HEAP_SHORT_DISK = 1,       /* disk space for the file */
	HEAP_SHORT_MEMORY = 2,     /* memory for the recorder's tables, or the limits of the process do not allow more */
	HEAP_SHORT_DESCRIPTOR = 4, /* a descriptor to make the file longer, before Linux 5.14 */
	HEAP_SHORT_NUMBERS = 8,    /* the file has as many stacks, or modules, as it can number */
};

/*
 * A process that cannot be recorded leaves a symbolic link in place of its file, because a link takes neither a
 * descriptor nor bytes. Its target is one of these, followed by an errno value.
 */
#define HEAP_REFUSED_OPEN   "open:" /* the file could not be created */
#define HEAP_REFUSED_SIZE   "size:" /* RLIMIT_FSIZE, or the file system's largest file, is too small */
#define HEAP_REFUSED_MEMORY "map:"  /* the file could not be mapped */
#define HEAP_REFUSED_DISK   "disk:" /* the file system is full */

#define HEAP_UNSEEN_NAMES 1024 /* maximum size of the names, in bytes */

/* The head of the file. */
struct heap_head {
	uint64_t magic;
	uint32_t version, flags;
	int32_t pid, parent;
	char name[16];                        /* name of the process, not terminated if all 16 bytes are used */
	char space[32];                       /* its PID namespace, as /proc/self/ns/pid names it */
	uint64_t sample;                      /* an allocation is sampled every so many bytes; 0: every allocation is
	                                       * recorded */
	uint64_t node_at, leaf_at, module_at; /* offsets in the file */
	uint64_t node_count, leaf_count;
	uint64_t module_size; /* bytes of module records */
	uint64_t change;      /* allocations and frees so far */
	uint64_t peak_change; /* the value of `change` at the peak */
	struct heap_sum live, peak, total;
	uint64_t lost_handler;  /* calls in a signal handler that had interrupted the recorder */
	uint64_t lost_stack;    /* allocations counted without a stack: leaf 0 */
	uint64_t lost_block;    /* allocations whose free will not be seen: no memory for the table of live blocks */
	uint64_t lost_thread;   /* allocations that were not recorded, because there was no memory for a thread's state */
	uint64_t lost_module;   /* frames whose file could not be recorded */
	uint64_t lost_children; /* processes that could not open a file of their own */
	uint64_t child_error;   /* errno of the first process that could not open a file */
	uint64_t unknown;       /* frees of blocks that were not recorded */
	uint64_t memory;        /* bytes that the recorder has mapped for itself */
	uint64_t stops[HEAP_STOP_COUNT];
	uint32_t ended;       /* enum heap_ended */
	uint32_t short_of;    /* enum heap_short */
	uint64_t after_ended; /* allocations after recording had ended, which were not recorded */
	/* Code whose calls of malloc do not come to the recorder (unseen.c): libraries loaded with RTLD_DEEPBIND,
	 * namespaces of dlmopen(3), and calls that load either and whose outcome has not been examined yet. The names are
	 * separated by newlines. */
	uint64_t unseen_deep, unseen_spaces, unseen_calls;
	char unseen_names[HEAP_UNSEEN_NAMES];
};

/* Module number of a frame whose file could not be recorded. */
#define HEAP_MODULE_LOST UINT16_MAX

/*
 * Stacks share their outer frames: a node is a frame and the node of its caller, which has a lower number. Node 0 is
 * not used; a node with parent 0 says how the walks below it ended.
 */
struct heap_node {
	uint64_t ip : 48;     /* return address; with parent 0: enum heap_stop, and above 8 bits a count of dlclose(3) */
	uint64_t module : 16; /* number of the module, from 1 on; 0: none; or HEAP_MODULE_LOST */
	uint32_t parent;
	uint32_t leaf; /* number of the leaf, if this is the innermost frame of an allocation; else 0 */
};

/* What a stack has allocated. Leaf 0 counts the allocations whose stacks could not be stored. */
struct heap_leaf {
	struct heap_sum live, total;
	/* What was live at the last peak, if `change` is later than that peak. Otherwise this member has no meaning, and
	 * `live` is what was live at the peak. */
	struct heap_sum peak;
	uint64_t change;
	uint32_t node, zero;
};

/* A module with code that is on a stack. Records follow one another; the size of each is a multiple of 8 bytes. */
struct heap_module {
	uint32_t size; /* size of the record */
	uint8_t build_id_size, build_id[20], zero[3];
	uint64_t start, end; /* addresses of the mapping that the frame is in */
	uint64_t bias;       /* run-time address minus link-time address */
	uint64_t inode;
	uint32_t major, minor;
	char path[]; /* terminated by a null byte */
};

/* What a leaf had live at the peak. */
static inline struct heap_sum heap_leaf_peak(const struct heap_leaf *l, uint64_t peak_change)
{
	return l->change > peak_change ? l->peak : l->live;
}

_Static_assert(sizeof(struct heap_head) <= 4096, "the head is a page");
_Static_assert(sizeof(struct heap_node) == 16 && sizeof(struct heap_leaf) == 64, "layout");

#endif
