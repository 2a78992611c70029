/* SPDX-License-Identifier: MIT */
/*
 * site.h: tables written by hand, as the tool would write them, for tests of
 * libetch at the level of the format; and small helpers of those tests.
 */
#ifndef TEST_SITE_H
#define TEST_SITE_H

#include <etch/forms.h>
#include <etch/imv.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"

/* A function that stays one, with its sites. */
#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noinline, noclone))
#endif

#define STR_(x) #x
#define STR(x) STR_(x)

/* An __imv entry for the instruction at the last label 771. */
#define SITE_ENTRY(object, form, regs, shape, flags)                    \
	"\n\t.pushsection __imv,\"ao\",@progbits,.text\n\t.balign 4\n\t" \
	".long 771b - .\n\t.long " object " - .\n\t"                    \
	".byte " STR(form) ", " STR(regs) ", " STR(shape) ", " STR(flags) "\n\t.popsection\n\t"

/* Shape of a rip-relative site of this length, without and with REX. */
#define SHAPE6 0x06
#define SHAPE7 0x07
#define SHAPE7_REX 0x47

/* An __etch_obj record of an object of `size` bytes. */
#define OBJECT_RECORD(name, size, flags)                                     \
	__asm__(".pushsection .rodata.etch,\"aMS\",@progbits,1\n"            \
	        "772:\t.asciz \"" name "\"\n\t.popsection\n\t"               \
	        ".pushsection __etch_obj,\"a\",@progbits\n\t.balign 4\n\t"   \
	        ".long " name " - .\n\t.long " STR(size) "\n\t.long 772b - .\n\t" \
	        ".byte 1, " STR(flags) "\n\t.short 0\n\t.popsection")

/* A fact: kind 2 = store, 3 = escape. */
#define FACT_RECORD(address, kind, flags)                                  \
	__asm__(".pushsection __etch_obj,\"a\",@progbits\n\t.balign 4\n\t" \
	        ".long " address " - .\n\t.long 0\n\t.long 0\n\t"          \
	        ".byte " STR(kind) ", " STR(flags) "\n\t.short 0\n\t.popsection")

/* int name(void): reads 4 bytes of `object` by one instruction, `skip` bytes
 * after an 8-byte boundary (live up to 2). name_site is its address. */
#define READER32(name, object, skip)                                             \
	extern const volatile uint8_t name##_site[];                                      \
	ALONE static int name(void)                                              \
	{                                                                        \
		int v_;                                                          \
		__asm__ __volatile__(".p2align 3\n\t.fill " STR(skip) ", 1, 0x90\n\t" \
		                     ".globl " #name "_site\n" #name "_site:\n"  \
		                     "771:\tmovl " object "(%%rip), %%eax"       \
		                     SITE_ENTRY(object, 3, 0, SHAPE6, 0)         \
		                     : "=a"(v_));                                \
		return v_;                                                       \
	}

#define READER64(name, object)                                                   \
	extern const volatile uint8_t name##_site[];                                      \
	ALONE static long name(void)                                             \
	{                                                                        \
		long v_;                                                         \
		__asm__ __volatile__(".p2align 3\n\t"                            \
		                     ".globl " #name "_site\n" #name "_site:\n"  \
		                     "771:\tmovq " object "(%%rip), %%rax"       \
		                     SITE_ENTRY(object, 4, 0, SHAPE7_REX, 0)     \
		                     : "=a"(v_));                                \
		return v_;                                                       \
	}

/* The protection of the page that holds p, as /proc/self/maps gives it ("r-xp"). */
static inline const char *page_perms(const void *p)
{
	static char perms[8];
	unsigned long start, end;
	char line[4400];
	FILE *f = fopen("/proc/self/maps", "r");

	CHECK(f);
	strcpy(perms, "none");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && (unsigned long)p >= start && (unsigned long)p < end) {
			memcpy(perms, strchr(line, ' ') + 1, 4);
			perms[4] = 0;
		}
	fclose(f);
	return perms;
}

#define CHECK_PERMS(p, want)                                                           \
	do {                                                                           \
		const char *perms_ = page_perms((const void *)(uintptr_t)(p));                                   \
		if (strcmp(perms_, want)) {                                            \
			fprintf(stderr, "%s:%d: %s is %s, not %s\n", __FILE__, __LINE__, #p, perms_, want); \
			exit(1);                                                       \
		}                                                                      \
	} while (0)

/* Overwrites bytes of text or of read-only data, as a debugger or a bug would. */
static inline void poke(const volatile void *at, const void *bytes, size_t n)
{
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095, end = (uintptr_t)at + n;
	const char *perms = page_perms((const void *)(uintptr_t)at);
	int prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
	           (perms[2] == 'x' ? PROT_EXEC : 0);

	CHECK(!mprotect((void *)page, end - page, prot | PROT_WRITE));
	memcpy((void *)(uintptr_t)at, bytes, n);
	CHECK(!mprotect((void *)page, end - page, prot));
}

static inline struct etch_info info_now(void)
{
	struct etch_info i = {.size = sizeof(i)};

	CHECK_EQ(etch_info(&i), 0);
	return i;
}

/* Keeps the compiler from knowing where a pointer points. */
static inline void *hide(const volatile void *p)
{
	__asm__("" : "+r"(p));
	return (void *)(uintptr_t)p;
}

#endif
