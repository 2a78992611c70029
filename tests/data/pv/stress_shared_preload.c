/* SPDX-License-Identifier: MIT */
/* For LD_PRELOAD: -DFUNCTION: another function in place of a target; -DTABLE: another
 * table in place of the library's, which is not etched. */
typedef long fn(long, long);

#ifdef FUNCTION
long home_interposed(long a, long b);
long home_interposed(long a, long b) { return 7777 + a + b; }
#endif
#ifdef TABLE
static long f(long a, long b) { return 5555 + a + b; }
static void v(void) {}
struct { fn *f, *g, *ifunc, *missing, *interposed; void (*v)(void); } shared_ops = {f, f, f, 0, f, v};
#endif
