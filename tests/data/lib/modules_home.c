/* SPDX-License-Identifier: MIT */
/* The library that defines etched objects, and reads one of the program's. */
#define HOME
#include "modules.h"

DEFINE_IMV(int, flag) = 5;
EXPORT_IMV_SYMBOL(flag);
ETCHED struct conf conf = {1, 2, 3};
int ordinary_of_home = 6;

int home_flag(void) { return imv_read(flag); }
long home_conf(void) { return conf.a + conf.b + conf.c; }
int home_set_flag(int v) { return imv_set(flag, v); }
int home_set_conf(long v) { return etch_set(&conf.b, v); }
int home_from_program(void) { return imv_read(from_program); }
int *home_ordinary(void) { return &ordinary_of_home; }
