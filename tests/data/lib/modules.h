/* SPDX-License-Identifier: MIT */
/* modules.h: what the modules of modules.c share: a program, a library (home)
 * that defines etched objects, and plugins that read them or store to them. */
#ifndef TEST_MODULES_H
#define TEST_MODULES_H

#include <etch/imv.h>

struct conf { int a; long b; short c; };

#ifndef HOME
DECLARE_IMV(int, flag);
extern struct conf conf;
ETCH_DECLARE(conf);
#endif
#ifndef PROGRAM_OBJECT
DECLARE_IMV(int, from_program);
#endif

/* in home */
int home_flag(void);
long home_conf(void);
int home_set_flag(int v);
int home_set_conf(long v);
int home_from_program(void);
int *home_ordinary(void);

#endif
