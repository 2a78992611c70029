/* SPDX-License-Identifier: MIT */
/* pv_plugin.c: a shared object that calls through the program's ops, and has functions
 * to be called. With pv_cases.c. */
#include "pv_site.h"

FAR_CALLER(plugin_b, "ops", 8);
FAR_CALLER_AT(plugin_b_wide, "ops", 8, 6);

long plugin_plain(long a, long b);
long plugin_plain(long a, long b) { return 1000 * a + b; }
long plugin_zero(long a, long b);
long plugin_zero(long a, long b) { (void)a; (void)b; return 0; }
NATIVE(plugin_native, "lea 5(%rdi,%rsi), %rax", 3);
