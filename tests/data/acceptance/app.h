// SPDX-License-Identifier: MIT
/* What the files of the acceptance program share. */
#ifndef APP_H
#define APP_H

#include <etch/imv.h>

struct config {
	int level;
	unsigned short port;
	signed char mode;
	_Bool enabled;
	unsigned long limit;
	const char *name;
	struct { unsigned x, y; } pair;
	int table[8];
};

#ifdef __cplusplus
extern "C" {
#endif
extern struct config cfg;     /* app.c */
DECLARE_IMV(int, verbose);    /* app.c */
DECLARE_IMV(unsigned long, quota);

long other_work(long n);      /* other.c */
long cold_work(long n);
int other_set(int round);
#ifdef __cplusplus
}
#endif
#endif
