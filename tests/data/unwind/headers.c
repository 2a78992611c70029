/* SPDX-License-Identifier: MIT */
/*
 * `headers FILE...`: loads each, has its plugin_call() call back, and takes a trace there; with tables
 * made of .eh_frame too. Prints, of each, how many frames there were. -DCLOSE: closes each before the next, and prints
 * where it was instead of the second.
 */
#include <dlfcn.h>
#include <stdio.h>

#include <etch/unwind.h>

static int frames;

static void trace(void)
{
	void *ips[64];

	frames = etch_backtrace(ips, 64);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		void *file = dlopen(argv[i], RTLD_NOW);
		int (*call)(int, void (*)(void)) = file ? (int (*)(int, void (*)(void)))dlsym(file, "plugin_call") : NULL;

		if (!call) {
			printf("%s\n", dlerror());
			return 1;
		}
		call(9, trace);
		printf("%d", frames);
#ifdef CLOSE
		printf(" %p\n", (void *)call);
		dlclose(file);
		continue;
#endif
		etch_unwind_prepare();
		call(9, trace);
		printf(" %d\n", frames);
	}
	return 0;
}
