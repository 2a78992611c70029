/* SPDX-License-Identifier: MIT */
/* libetch-unwind.a in a dynamic program: walks out of a module that is loaded after the start, named by argv[1]. */
#include <dlfcn.h>
#include <stdio.h>

int backtrace(void **ips, int max);

extern const char __start_main_text[], __stop_main_text[];

/* How many frames of main are on the stack, by a first walk and by one with the tables that it has made. */
static int callback(int n)
{
	void *ips[64];

	for (int i = 0; i < 2; i++) {
		int count = backtrace(ips, 64), found = 0;

		for (int k = 0; k < count; k++)
			found += (const char *)ips[k] >= __start_main_text && (const char *)ips[k] < __stop_main_text;
		printf("%d\n", found);
	}
	return n + 1;
}

__attribute__((section("main_text"))) int main(int argc, char **argv)
{
	void *h = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*call)(int (*)(int), int) = h ? (int (*)(int (*)(int), int))dlsym(h, "plugin_call") : NULL;

	return !call || call(callback, 1) < 0;
}
