/* SPDX-License-Identifier: MIT */
/*
 * stack_tree.h: stacks -> leaves of the file (stack_tree.c). Under the recorder's lock.
 */
#ifndef ETCH_LIB_HEAP_STACK_TREE_H
#define ETCH_LIB_HEAP_STACK_TREE_H

#include "heap/recording.h"

/*
 * The leaf of a stack, innermost frame first. nodes[] gets the number of each frame's node; the outermost `known` of
 * them are there already. Returns 0 if there is no room for it.
 */
uint32_t tree_leaf(void *const *ips, uint32_t *nodes, unsigned count, unsigned known, enum heap_stop stop);

/* A library has been unloaded: addresses may belong to other code now. Later stacks get new nodes. */
void tree_unloaded(void);
/* In the child of a fork: starts over. */
void tree_clear(void);

#endif
