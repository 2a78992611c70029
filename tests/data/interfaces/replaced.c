/* SPDX-License-Identifier: MIT */
/*
 * Walks through a plugin whose file is another one after a while, at the same address: backtrace(3) of this
 * program's first library beside glibc's own.
 *
 *     replaced PLUGIN FIRST SECOND    copies FIRST and then SECOND to PLUGIN and loads it, again and again
 *
 * Prints how many walks were compared, and how many of the loads were at one address.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int backtrace_fn(void **ips, int max);

static backtrace_fn *stock;
static int compared;

static int walks(void)
{
	void *ours[32], *theirs[32];
	int n, m;

	for (int i = 0; i < 3; i++) {
		n = backtrace(ours, 32);
		m = stock(theirs, 32);
		/* The first frame's are two calls here. */
		if (n != m || n < 4 || memcmp(ours + 1, theirs + 1, (size_t)(n - 1) * sizeof(*ours))) {
			printf("%d frames, glibc has %d\n", n, m);
			exit(1);
		}
		compared++;
	}
	return 1;
}

static uintptr_t plugin_run(const char *path, const char *from)
{
	char command[4096];
	struct link_map *map;
	int (*call)(int (*fn)(void));
	uintptr_t at;
	void *h;

	snprintf(command, sizeof(command), "cp '%s' '%s.new' && mv '%s.new' '%s'", from, path, path, path);
	if (system(command))
		exit(2);
	h = dlopen(path, RTLD_NOW);
	call = h ? (int (*)(int (*)(void)))dlsym(h, "call") : NULL;
	if (!call || dlinfo(h, RTLD_DI_LINKMAP, &map) || !call(walks))
		exit(3);
	at = map->l_addr;
	dlclose(h);
	return at;
}

int main(int argc, char **argv)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	uintptr_t first;
	int same = 0;

	if (argc != 4 || !libc)
		return 2;
	stock = (backtrace_fn *)dlsym(libc, "backtrace");
	if (!stock || stock == backtrace)
		return 2;
	first = plugin_run(argv[1], argv[2]);
	for (int i = 0; i < 4; i++)
		same += plugin_run(argv[1], argv[3 - (i & 1)]) == first;
	printf("%d walks, %d loads at the same address\n", compared, same);
	return 0;
}
