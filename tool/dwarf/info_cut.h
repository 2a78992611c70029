/* SPDX-License-Identifier: MIT */
/* Expands only the part of a compressed .debug_info that some addresses need (info_cut.c). */
#ifndef DWARF_INFO_CUT_H
#define DWARF_INFO_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Replaces the compressed .debug_info of an ELF file by an uncompressed one that is complete up to the end of the last
 * unit with one of these addresses, which are sorted; the rest is zeroes. Returns false, with the file unchanged, if
 * .debug_aranges does not have all of the addresses, or if the file is of any other kind.
 */
bool info_cut(int copy, const uint64_t *addresses, size_t count);

#endif
