/* SPDX-License-Identifier: MIT */
/*
 * break_prog.c: what a program sees of its own layout, for test_break.py. It prints the break, the start of the mapping
 * that the kernel calls the heap, symbols of the linker, and in which order dl_iterate_phdr has its segments. Run
 * with an argument it does what programs made by unexec do (GCL, Emacs up to 26): its heap begins at _end and grows by brk.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char _end[], etext[], edata[], __executable_start[];

static int order(struct dl_phdr_info *info, size_t size, void *last)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		if (info->dlpi_phdr[i].p_vaddr < *(uint64_t *)last)
			puts("segments out of order");
		*(uint64_t *)last = info->dlpi_phdr[i].p_vaddr;
	}
	return 1; /* the program is the first */
}

int main(int argc, char **argv)
{
	uintptr_t end = ((uintptr_t)_end + 4095) & -4096ul, now = (uintptr_t)sbrk(0);
	unsigned long heap = 0;
	uint64_t last = 0;
	char line[512];
	FILE *maps;

	(void)argv;
	if (argc > 1 && (((now + 4095) & -4096ul) != end || brk((void *)(end + 4096))))
		return 1;
	if (argc > 1) {
		*(volatile char *)end = 1; /* the first page of its heap */
		return 0;
	}
	maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps))
		if (strstr(line, "[heap]"))
			sscanf(line, "%lx", &heap);
	dl_iterate_phdr(order, &last);
	printf("break %lx heap %lx end %p etext %p edata %p start %p\n", (unsigned long)now, heap, (void *)_end,
	       (void *)etext, (void *)edata, (void *)__executable_start);
	return 0;
}
