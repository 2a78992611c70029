/* SPDX-License-Identifier: MIT */
/* Branches anywhere, which are changed with their page. */
#define ETCH_BRANCH_PACKED
#include "parts/branches.c"
