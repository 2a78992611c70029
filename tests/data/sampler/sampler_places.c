/* SPDX-License-Identifier: MIT */
/*
 * sampler_places.c: where walks end, and where two walks differ: how many of each place, and one
 * example.
 */
#include <etch/unwind.h>

#include "sampler.h"

#define BEFORE 12 /* frames of an example before the one it is about */

/* The place for this address and kind; *new: it is the first of them. Null: no space. */
static struct place *place_get(uint64_t address, int kind, int *new)
{
	uint64_t h = (address ^ (uint64_t)(uint32_t)kind << 56) * 0x9e3779b97f4a7c15u >> 54;

	_Static_assert(PLACES == 1 << 10, "the hash has 10 bits");
	*new = 0;
	for (int i = 0; i < 64; i++, h = (h + 1) % PLACES) {
		struct place *p = &report->place[h];
		uint64_t none = 0;

		/* Of two threads at once one waits for no other: it counts in the next place. */
		if (__atomic_load_n(&p->address, __ATOMIC_ACQUIRE) == address && p->kind == kind)
			return p;
		if (!p->address && __atomic_compare_exchange_n(&p->address, &none, address, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			p->kind = kind;
			*new = 1;
			COUNT(places, 1);
			return p;
		}
	}
	COUNT(full, 1);
	return NULL;
}

/* Has a walk ended here, at a row that says that the stack ends? */
static int end_seen(uint64_t address)
{
	for (int i = 0; i < PLACES; i++)
		if (report->place[i].address == address && report->place[i].kind == ETCH_UNWIND_END)
			return 1;
	return 0;
}

static void example(struct place *p, const struct walk *w, int n, int at, int first, const struct difference *d)
{
	p->frames = (uint32_t)n;
	p->at = (uint32_t)at;
	p->first = (uint32_t)first;
	for (int i = 0; i < SHOWN && first + i < n; i++)
		p->ours[i] = frame_of((uint64_t)w->ours[first + i]);
	if (!d)
		return;
	p->their_frames = (uint32_t)d->frames;
	p->their_status = d->status;
	for (int i = 0; i < SHOWN && first + i < d->frames; i++)
		p->theirs[i] = frame_of(d->theirs[i]);
}

static int first_shown(int at)
{
	return at > BEFORE ? at - BEFORE : 0;
}

static void difference_count(ucontext_t *u, struct walk *w, int n, int status)
{
	struct difference d, again;
	struct place *p;
	int new;

	COUNT(compared, 1);
	libunwind_compare(&d, u, w, n, status, first_shown(n - 1));
	if (!d.kind)
		return;
	p = place_get((uint64_t)w->ours[d.at], d.kind, &new);
	if (!p)
		return;
	__atomic_fetch_add(&p->count, 1, __ATOMIC_RELAXED);
	if (!new)
		return;
	libunwind_compare(&again, u, w, n, status, first_shown(d.at));
	example(p, w, n, d.at, first_shown(d.at), &again);
}

void walk_count(ucontext_t *u, struct walk *w, int n, int status, unsigned long serial)
{
	uint64_t last = n ? (uint64_t)w->ours[n - 1] : 0, start = last;
	int in = IN_MODULE, new;
	struct place *p;
	struct difference d = { .kind = 0 };

	if (status < 0 && module_of(last) < 0) {
		in = mapping_of(last, w, &start);
		last = in == IN_JIT || in == IN_FILE ? start : last;
	}
	p = place_get(last ? last : 1, status, &new);
	if (p) {
		__atomic_fetch_add(&p->count, 1, __ATOMIC_RELAXED);
		/* The first of a place, and each that stops. */
		if (compare_every && in == IN_MODULE && n < 4096 && (new || status < 0))
			libunwind_compare(&d, u, w, n, status, first_shown(n - 1));
		if (status < 0 && d.frames > n) {
			__atomic_fetch_add(&p->theirs_on, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&p->theirs_end, end_seen(d.last), __ATOMIC_RELAXED);
		}
		if (new) {
			p->in = (uint32_t)in;
			example(p, w, n, n - 1, first_shown(n - 1), d.frames ? &d : NULL);
		}
	}
	/* What JIT code has done with rbp is nobody's to guess. */
	if (compare_every && in == IN_MODULE && n < 4096 && serial % compare_every == 0)
		difference_count(u, w, n, status);
}
