/* SPDX-License-Identifier: MIT */
/*
 * paths.c THREADS STEPS: random trees of calls. Each function notes in a path of its own that it was called, and each
 * allocation is counted under its thread's path, so that the stacks of `etch heap` can be compared with these.
 * Functions have frames of different kinds and sizes, and the same return address may lie in the same place under
 * another caller. Prints "path count" lines.
 */
#include <alloca.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEP  24
#define PLACES (1u << 17)
#define SIZE  16

struct walk {
	uint64_t random;
	long steps;
	unsigned depth;
	char path[DEEP + 1];
};

static struct { char path[DEEP + 1]; long count; } seen[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *volatile kept;

static unsigned next(struct walk *w, unsigned n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (unsigned)((w->random >> 20) % n);
}

static void count(const struct walk *w)
{
	unsigned i = 5381;

	for (unsigned k = 0; k < w->depth; k++)
		i = i * 33 + (unsigned char)w->path[k];
	pthread_mutex_lock(&lock);
	for (i %= PLACES; seen[i].count && strcmp(seen[i].path, w->path); i = (i + 1) % PLACES)
		;
	strcpy(seen[i].path, w->path);
	seen[i].count++;
	pthread_mutex_unlock(&lock);
}

static void step(struct walk *w);

#define ENTER(letter) (w->path[w->depth++] = (letter), w->path[w->depth] = 0)
#define LEAVE         (w->path[--w->depth] = 0)

/* Two functions with the same frame, which differ in nothing but the return address. */
__attribute__((noinline, noipa)) static void fa(struct walk *w) { ENTER('a'); step(w); LEAVE; }
__attribute__((noinline, noipa)) static void fb(struct walk *w) { ENTER('b'); step(w); LEAVE; }
/* A larger frame. */
__attribute__((noinline, noipa)) static void fc(struct walk *w)
{
	volatile char room[200];

	ENTER('c'); room[w->depth] = 1; step(w); LEAVE;
	room[0] = 2;
}
/* A frame relative to rbp, of a size that changes. */
__attribute__((noinline, noipa)) static void fd(struct walk *w)
{
	volatile char *room = alloca(16 * (1 + next(w, 4)));

	ENTER('d'); room[0] = 1; step(w); LEAVE;
	room[1] = 2;
}
/* A realigned frame. */
__attribute__((noinline, noipa)) static void fe(struct walk *w)
{
	_Alignas(64) volatile char room[64];

	ENTER('e'); room[0] = 1; step(w); LEAVE;
	room[1] = 2;
}

/* The path's last letter tells from which of two calls it went on. */
__attribute__((noinline, noipa)) static void ff(struct walk *w)
{
	ENTER('f');
	step(w);
	LEAVE;
	ENTER('f');
	step(w);
	LEAVE;
}

__attribute__((noinline, noipa)) static void allocate(struct walk *w)
{
	void *p = malloc(SIZE);

	count(w);
	if (next(w, 4) == 0)
		p = realloc(p, SIZE), count(w);
	kept = p;
	free(p);
}

static void step(struct walk *w)
{
	static void (*const call[])(struct walk *) = {fa, fb, fc, fd, fe, ff};

	while (w->steps > 0) {
		unsigned what = next(w, 20);

		w->steps--;
		if (what < 9)
			allocate(w);
		else if (what < 15 && w->depth < DEEP)
			call[what - 9](w);
		else
			return;
	}
}

static void *run(void *arg)
{
	struct walk *w = arg;

	while (w->steps > 0)
		step(w);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct walk walks[16];
	pthread_t threads[16];
	int count = argc > 1 ? atoi(argv[1]) : 1;
	long steps = argc > 2 ? atol(argv[2]) : 1000;

	for (int i = 0; i < count; i++)
		walks[i] = (struct walk){.random = 88172645463325252u + (uint64_t)i, .steps = steps};
	if (count == 1)
		run(&walks[0]);
	for (int i = 0; count > 1 && i < count; i++)
		pthread_create(&threads[i], NULL, run, &walks[i]);
	for (int i = 0; count > 1 && i < count; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < PLACES; i++)
		if (seen[i].count)
			printf("%s %ld\n", *seen[i].path ? seen[i].path : "-", seen[i].count);
}
