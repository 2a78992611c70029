/* SPDX-License-Identifier: MIT */
/*
 * stack_tree.h: maps stacks to leaves of the file (stack_tree.c), and addresses of code to modules of the file
 * (modules.c; shared/heap_file.h). To be called under the recorder's lock.
 */
#ifndef ETCH_LIB_HEAP_STACK_TREE_H
#define ETCH_LIB_HEAP_STACK_TREE_H

#include "heap/recording.h"

/* A frame of a recorded stack: the number of its node, or 0, and the node's hash. */
struct tree_frame {
	uint32_t node, hash;
};

/*
 * Returns the leaf of a stack of `count` frames, at least one; 0 if the stack does not fit. frames[] gets its frames,
 * the outermost first. The outermost `known` ones are in it already. The other elements are 0 or any frames of earlier
 * stacks, whose nodes are tried first. ips[] has the addresses of the other frames, the innermost first.
 */
uint32_t tree_leaf(void *const *ips, struct tree_frame *frames, unsigned count, unsigned known, enum heap_stop stop);

/* Called after a library was unloaded: addresses may belong to other code now, so later stacks get new nodes. */
void tree_unloaded(void);
/* Starts over, in the child of a fork. */
void tree_clear(void);

/* The number of the module with this address, which is written to the file if it is new; 0 if there is none, because
 * the code was made at run time; HEAP_MODULE_LOST if the module cannot be recorded. */
uint16_t module_number(uint64_t at);
/* Drops the cached modules after one was unloaded. */
void modules_forget(void);
/* Forgets the modules in the child of a fork, which gets a file of its own. */
void modules_clear(void);

#endif
