/* SPDX-License-Identifier: MIT */
/* plugin.c: a library with a site of its own, and one that reads what is the program's. */
#include <etch/imv.h>

DEFINE_IMV(int, own) = 11;

int plugin_level(void) { return imv_read(own); }
