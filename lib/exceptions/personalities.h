/* SPDX-License-Identifier: MIT */
/*
 * personalities.h: the personality routines that records name (personalities.c). Async-signal-safe and thread-safe.
 */
#ifndef ETCH_LIB_EXCEPTIONS_PERSONALITIES_H
#define ETCH_LIB_EXCEPTIONS_PERSONALITIES_H

#include <stdbool.h>

#include "exceptions/call_site.h"
#include "exceptions/gcc_abi.h"

/* A personality routine. */
struct personality {
	uint64_t at;       /* the routine's address, or that of a pointer to it */
	uint64_t function; /* the routine's address when it was added to the list */
	uint8_t indirect;
	uint8_t language; /* enum language */
	uint8_t ready;
	uint32_t module; /* number of the function's module (file_places.h); 0: a module that is never unloaded */
};

#define PERSONALITIES 4096u
extern struct personality personalities[PERSONALITIES];

/* Finds a routine in the list, or adds it. Returns its number, or 0 if the list is full. */
unsigned personality_enter(uint64_t at, bool indirect);

static inline uint64_t personality_function(const struct personality *p)
{
	return p->indirect ? *(const uint64_t *)(uintptr_t)p->at : p->at;
}

#endif
