/* SPDX-License-Identifier: MIT */
/* modules.h: the modules of the file (shared/heap_file.h): tells which module's code an address is in (modules.c). To
 * be called under the recorder's lock. */
#ifndef ETCH_LIB_HEAP_MODULES_H
#define ETCH_LIB_HEAP_MODULES_H

#include <stdint.h>

/* The number of the module with this address, which is written to the file if it is new; 0 if there is none, because
 * the code was made at run time; HEAP_MODULE_LOST if the module cannot be recorded. */
uint16_t module_number(uint64_t at);
/* Drops the cached modules after one was unloaded. */
void modules_forget(void);
/* Forgets the modules in the child of a fork, which gets a file of its own. */
void modules_clear(void);

#endif
