/* SPDX-License-Identifier: MIT */
/*
 * unseen.h: code whose calls of malloc(3) bypass the recorder (unseen.c): libraries that dlopen(3) has loaded with
 * RTLD_DEEPBIND, and libraries of other namespaces, which dlmopen(3) makes, each with a libc of its own. They are
 * counted.
 */
#ifndef ETCH_LIB_HEAP_UNSEEN_H
#define ETCH_LIB_HEAP_UNSEEN_H

#include <stdbool.h>

/* Examines what such calls have loaded so far. To be called only where the dynamic linker may be called. */
void unseen_look(void);
/* Called before a library is loaded in this way: with RTLD_DEEPBIND, or into a new namespace. */
void unseen_call(bool deep);

#endif
