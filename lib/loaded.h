/* SPDX-License-Identifier: MIT */
/*
 * loaded.h: the modules that are loaded (loaded.c). All but loaded_again() is
 * async-signal-safe.
 */
#ifndef ETCH_LOADED_H
#define ETCH_LOADED_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* A loaded module. */
struct prepare_image {
	uint64_t bias;       /* run-time address less link-time address */
	uint64_t start, end; /* run-time hull of its PT_LOADs */
	const Elf64_Phdr *phdr;
	unsigned phnum;
};

/* The one that an address is in: 1, or 0. */
int loaded_image(uint64_t at, struct prepare_image *im);
/* Is it the main program, which stays? */
bool loaded_is_program(const struct prepare_image *im);

/* Is all of this range inside the module? */
static inline int loaded_inside(const struct prepare_image *im, uint64_t at, uint64_t size)
{
	return at >= im->start && at <= im->end && size <= im->end - at;
}

/* ... inside a segment of it that can be read? */
int loaded_readable(const struct prepare_image *im, uint64_t at, uint64_t size);
/* From what dl_iterate_phdr(3) says of it; start >= end: nothing of it is mapped. */
void loaded_from(const struct dl_phdr_info *info, struct prepare_image *im);
/* What is loaded now is what is looked at from here on, where the dynamic linker cannot be asked. */
void loaded_again(void);

#endif
