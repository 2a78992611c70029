/* SPDX-License-Identifier: MIT */
/* index_pairs.h: the functions of index_pairs.c for other_modules.c; struct part_others describes each. */
#ifndef ETCH_LIB_PATCH_INDEX_PAIRS_H
#define ETCH_LIB_PATCH_INDEX_PAIRS_H

#include "patch/parts.h"

int others_count(const struct module *m, struct counts *c);
int others_fill(struct module *m, const struct counts *c);

#endif
