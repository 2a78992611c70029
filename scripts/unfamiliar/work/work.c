// SPDX-License-Identifier: MIT
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static jmp_buf env;
static int deep(int n) { if (n == 0) longjmp(env, 1); return deep(n - 1) + 1; }
static int cmp(const void *a, const void *b) { return *(int *)a - *(int *)b; }
static int kind(int c) { switch (c) { case 'a': return 1; case 'b': return 4; case 'c': return 9; case 'd': return 16;
	case 'e': return 25; case 'f': return 36; default: return 0; } }
static double mean(int n, int *v) { double s = 0; int i; for (i = 0; i < n; i++) s += v[i]; return s / n; }
int main(int argc, char **argv)
{
	int v[40], i, s = 0;
	for (i = 0; i < 40; i++) v[i] = (i * 7919) % 997;
	qsort(v, 40, sizeof v[0], cmp);
	if (!setjmp(env)) deep(30); else s = 7;
	for (i = 0; i < 26; i++) s += kind('a' + i);
	printf("%d %d %d %.3f %s\n", v[0], v[39], s, mean(40, v), strchr("ab-cd", '-'));
	return s & 1;
}
