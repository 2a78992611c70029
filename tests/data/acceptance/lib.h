// SPDX-License-Identifier: MIT
/* Etched objects that a library exports to a program. */
#include <etch/imv.h>

struct lib_config {
	int level;
	long limit;
	unsigned char flags[4];
};
#define EXPORTED __attribute__((visibility("default")))
extern EXPORTED struct lib_config lib_config; /* ETCHED in lib.c; plain reads in use.c */
ETCH_DECLARE(lib_config);
DECLARE_IMV(int, lib_verbose);
DECLARE_IMV(long, lib_limit);

EXPORTED long lib_read(void);
EXPORTED int lib_set(int n);
