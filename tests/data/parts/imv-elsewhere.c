/* SPDX-License-Identifier: MIT */
/* A file that declares an immediate value of the program or of another module. */
#include "parts/imv.c"

DECLARE_IMV(int, v);
