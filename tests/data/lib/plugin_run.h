/* SPDX-License-Identifier: MIT */
/* plugin_run.h: loads the plugin of a stress test, has it execute its sites, and unloads it (stress.c, swaps.c). */
#ifndef TEST_PLUGIN_RUN_H
#define TEST_PLUGIN_RUN_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns what its plugin_check(times) returns: the number of wrong reads. */
static inline uint64_t plugin_run(const char *path, unsigned times)
{
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*check)(unsigned);
	uint64_t wrong;

	if (!h) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&check = dlsym(h, "plugin_check");
	wrong = (uint64_t)check(times);
	dlclose(h);
	return wrong;
}

#endif
