/* SPDX-License-Identifier: MIT */
/*
 * at_fork.c: this library's own pthread_atfork(3), for lib/unwind. glibc's is a part of each file that is linked with
 * it, and calls a function of libc that musl does not have: a program of musl into which this library is preloaded
 * would not start. The library is of no use to such a program, but must do no harm.
 */
#include <dlfcn.h>
#include <pthread.h>

extern void *__dso_handle __attribute__((visibility("hidden")));

/* glibc's */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *file)
	__attribute__((weak));
/* dlsym(3) is missing in a static program. */
extern void *dlsym(void *, const char *) __attribute__((weak));

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	__typeof__(&pthread_atfork) of_libc;

	if (__register_atfork)
		return __register_atfork(prepare, parent, child, &__dso_handle);
	of_libc = dlsym ? (__typeof__(of_libc))dlsym(RTLD_NEXT, "pthread_atfork") : NULL;
	return of_libc ? of_libc(prepare, parent, child) : 0;
}
