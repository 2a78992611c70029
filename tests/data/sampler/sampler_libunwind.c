/* SPDX-License-Identifier: MIT */
/*
 * sampler_libunwind.c: libunwind's walk of the same stack, frame by frame beside libetch's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <etch/unwind.h>

#include "sampler.h"

#define ON 1000 /* frames that libunwind may have more */

unsigned compare_every;

static int (*unw_init)(unw_cursor_t *, unw_context_t *, int);
static int (*unw_next)(unw_cursor_t *);
static int (*unw_get)(unw_cursor_t *, int, unw_word_t *);

/* Both walks side by side; libunwind's frames from `first` on go into the example. */
void libunwind_compare(struct difference *d, ucontext_t *u, const struct walk *w, int n, int status, int first)
{
	unw_cursor_t c;
	int i;

	d->kind = 0;
	d->at = n - 1;
	d->frames = 0;
	d->last = 0;
	d->status = unw_init(&c, (unw_context_t *)u, UNW_INIT_SIGNAL_FRAME);
	if (d->status < 0)
		return;
	for (i = 0; i < n + ON; i++) {
		unw_word_t ip;

		if (unw_get(&c, UNW_REG_IP, &ip) < 0 || !ip)
			break;
		d->last = ip;
		if (i >= first && i - first < SHOWN)
			d->theirs[i - first] = ip;
		d->frames = i + 1;
		if (i < n && !d->kind && ip != (uint64_t)w->ours[i]) {
			d->kind = FRAMES_DIFFER;
			d->at = i ? i - 1 : 0; /* the frame whose caller it is */
		}
		d->status = unw_next(&c);
		if (d->status <= 0)
			break;
	}
	if (!d->kind && d->frames < n) {
		d->kind = THEIRS_SHORT;
		d->at = d->frames - 1;
	} else if (!d->kind && d->frames > n) {
		d->kind = status == ETCH_UNWIND_END ? THEIRS_PAST_END : THEIRS_LONG;
	}
}

/* Can a page be read? lib/unwind/stack_bounds.c says how this tells. */
static int readable(uint64_t at)
{
	long ret;
	register long size __asm__("r10") = 8;

	__asm__ volatile("syscall" : "=a"(ret) : "0"(SYS_rt_sigprocmask), "D"(~0L), "S"(at & ~4095ul), "d"(0L), "r"(size)
	                 : "rcx", "r11", "memory");
	return ret == -EINVAL;
}

/*
 * How libunwind reads memory. Of its own accord it asks whether it can by way of a pipe that it has
 * opened: in a child that has closed all files (chromium's) that reads, and writes, what the
 * program has opened since under these numbers.
 */
static int read_word(unw_addr_space_t as, unw_word_t at, unw_word_t *word, int write, void *arg)
{
	(void)as, (void)arg;
	if (write || !readable(at) || !readable(at + 7))
		return -UNW_EINVAL;
	memcpy(word, (const void *)at, sizeof(*word));
	return 0;
}

void libunwind_begin(void)
{
	unw_accessors_t *(*accessors)(unw_addr_space_t);
	unw_addr_space_t *local;
	const char *every = getenv("SAMPLER_COMPARE");
	void *lib;

	if (every)
		compare_every = (unsigned)atoi(every);
	if (!compare_every)
		return;
	/* Not linked with it: it would catch the exceptions of C++ in libgcc's place. */
	lib = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return;
	*(void **)&accessors = dlsym(lib, "_Ux86_64_get_accessors");
	*(void **)&local = dlsym(lib, "_ULx86_64_local_addr_space");
	if (!accessors || !local)
		return;
	accessors(*local)->access_mem = read_word;
	*(void **)&unw_init = dlsym(lib, "_ULx86_64_init_local2");
	*(void **)&unw_get = dlsym(lib, "_ULx86_64_get_reg");
	*(void **)&unw_next = dlsym(lib, "_ULx86_64_step");
}
