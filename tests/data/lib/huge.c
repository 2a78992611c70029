/* SPDX-License-Identifier: MIT */
/*
 * huge.c: `huge thp|hugetlb`: the program's sites on a whole page of 2 MiB, put in
 * place of the file's pages as large programs do for their text. Exit 77 where
 * the system has no such page to give.
 */
#include <errno.h>

#include "site.h"

#define HUGE_PAGE (2ul << 20)

ETCHED __attribute__((used)) int plain = 7;
OBJECT_RECORD("plain", 4, 0);

__asm__(".text\n\t.balign 0x200000\n\t.globl huge_text\nhuge_text:\n\t"
        ".globl first\nfirst:\n"
        "771:\tmovl plain(%rip), %eax" SITE_ENTRY("plain", 3, 0, SHAPE6, 0) "ret\n\t"
        ".skip 0x1ff000, 0x90\n\t.balign 8\n\t.globl last\nlast:\n"
        "771:\tmovl plain(%rip), %eax" SITE_ENTRY("plain", 3, 0, SHAPE6, 0) "ret\n\t"
        ".balign 0x200000");
extern int first(void), last(void);
extern char huge_text[];

/* A number of /proc/self/smaps for the mapping at huge_text, in KiB. */
static unsigned long smaps(const char *name)
{
	unsigned long start, end, value = 0;
	char line[4400], *at;
	int here = 0;
	FILE *f = fopen("/proc/self/smaps", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = (unsigned long)huge_text >= start && (unsigned long)huge_text < end;
		at = strchr(line, ':');
		if (here && at && !strncmp(line, name, strlen(name)))
			value = strtoul(at + 1, NULL, 10);
	}
	fclose(f);
	return value;
}

static int give_up(const char *why)
{
	printf("%s: %s\n", why, strerror(errno));
	return 77;
}

int main(int argc, char **argv)
{
	int hugetlb = argc > 1 && !strcmp(argv[1], "hugetlb"), err;
	char *area, *copy;

	CHECK(argc == 2 && (uintptr_t)huge_text % HUGE_PAGE == 0);
	area = mmap(NULL, hugetlb ? HUGE_PAGE : 2 * HUGE_PAGE, PROT_READ | PROT_WRITE,
	            MAP_PRIVATE | MAP_ANONYMOUS | (hugetlb ? MAP_HUGETLB : 0), -1, 0);
	if (area == MAP_FAILED)
		return give_up("no huge page");
	copy = (char *)(((uintptr_t)area + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	if (!hugetlb && madvise(copy, HUGE_PAGE, MADV_HUGEPAGE))
		return give_up("no huge pages");
	memcpy(copy, huge_text, HUGE_PAGE);
	CHECK(!mprotect(copy, HUGE_PAGE, PROT_READ | PROT_EXEC));
	if (mremap(copy, HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, huge_text) != huge_text)
		return give_up("cannot move it");
	if (!hugetlb && smaps("AnonHugePages") != HUGE_PAGE / 1024)
		return give_up("no huge page was free");
	if (hugetlb)
		CHECK_EQ(smaps("KernelPageSize"), HUGE_PAGE / 1024);

	for (int v = 8; v < 20; v++) {
		err = etch_set(&plain, v);
		if (hugetlb) {
			CHECK_EQ(err, ETCH_EPERM);
			v = 7;
		} else {
			CHECK_EQ(err, 0);
		}
		CHECK_EQ(first(), v);
		CHECK_EQ(last(), v);
		CHECK_EQ(*(volatile int *)&plain, v);
		CHECK_PERMS(huge_text, "r-xp");
		CHECK_PERMS(huge_text + HUGE_PAGE - 1, "r-xp");
		CHECK_PERMS(&plain, "r--p");
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		if (hugetlb)
			break;
	}
	puts("done");
	return 0;
}
