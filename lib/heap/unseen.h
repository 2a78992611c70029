/* SPDX-License-Identifier: MIT */
/*
 * unseen.h: code whose calls of malloc(3) go past the recorder (unseen.c): libraries that dlopen(3) has loaded with
 * RTLD_DEEPBIND, and those of other namespaces, which dlmopen(3) makes, each with a libc of its own. They are counted.
 */
#ifndef ETCH_LIB_HEAP_UNSEEN_H
#define ETCH_LIB_HEAP_UNSEEN_H

#include <stdbool.h>

/* Looks at what such calls have loaded so far. To be called where the dynamic linker may be called, too. */
void unseen_look(void);
/* A library is about to be loaded so: with RTLD_DEEPBIND, or into a new namespace. */
void unseen_call(bool deep);

#endif
