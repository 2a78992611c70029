/* SPDX-License-Identifier: MIT */
/* Looks up the .eh_frame of a mapped file, which binary_prepare() has read (binary_tables.c). */
#ifndef PROFILE_BINARY_FDE_H
#define PROFILE_BINARY_FDE_H

#include "profile/binary_files.h"
#include "shared/cfi.h"

/* Finds the FDE of a link-time address. Returns false if there is none. The FDE refers to *cfi, which refers to the
 * binary's memory. */
bool binary_fde(const struct binary *b, uint64_t at, struct etch_cfi *cfi, struct etch_fde *fde);

#endif
