/* SPDX-License-Identifier: MIT */
/*
 * c_frames.c: C that exceptions pass through, compiled with -fexceptions: attribute cleanup.
 */
struct counter {
	int n;
	void *out;
};

extern void c_note(void *out, int n);
extern void c_frames(void (*fn)(int), int n, void *out);

static void gone(struct counter *c) { c_note(c->out, c->n); }

__attribute__((noinline)) void c_frames(void (*fn)(int), int n, void *out)
{
	struct counter c __attribute__((cleanup(gone))) = {n, out};

	if (n)
		c_frames(fn, n - 1, out);
	else
		fn(3);
	__asm__("" : : "r"(&c) : "memory");
}
