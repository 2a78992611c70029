/* SPDX-License-Identifier: MIT */
/*
 * segment_prog.c: a program, and a shared object, that look at themselves the
 * way the system's loaders and a runtime do, for test_segment.py. Prints one
 * line and returns 0 if all agrees.
 *
 * -DLIBRARY builds the shared object, -DLINKED a program that needs it,
 * -DBIG_BSS=N adds N bytes of .bss, -DOWN_NOTE=1 a note that code refers to, =0
 * the same note, but the code does not, =2 one that only the last of many pointers
 * in data refers to; -DLARGE=N a constant of N bytes, and a pointer to it.
 * argv[1]: a shared object to dlopen, or "self".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifdef BIG_BSS
static char big[BIG_BSS];
#endif
#ifdef LARGE
const char large[LARGE] = {1};
const char *large_pointer = large;
#endif
static __thread int tls = 41;

#ifdef OWN_NOTE
__asm__(".pushsection .note.own,\"a\",@note\n"
        ".balign 4\n.long 4, 4, 1\n.asciz \"own\"\n"
#if OWN_NOTE
        ".hidden own_note_value\n.globl own_note_value\n"
#endif
        "own_note_value: .long 0x1234567\n.popsection");
extern const uint32_t own_note_value;
#endif

struct seen {
	uintptr_t self;
	unsigned found, segments, order, build_id;
	uint64_t first;
};

#if defined OWN_NOTE && OWN_NOTE == 2
static const uint32_t other_value = 7;
/* Words apart: who counts bits and words by one too few or too many finds none of them. */
static struct { const uint32_t *at; uint64_t no[2]; } note_pointers[45] = {[0 ... 43] = {.at = &other_value}, {.at = &own_note_value}};
#endif

static int note_is_there(void)
{
#if defined OWN_NOTE && OWN_NOTE == 2
	const uint32_t *const volatile *last = &note_pointers[44].at;

	return **last == 0x1234567;
#elif defined OWN_NOTE && OWN_NOTE
	return *(const volatile uint32_t *)&own_note_value == 0x1234567;
#else
	return 1;
#endif
}

/* What etch's runtime does: any read-only PT_LOAD that starts with the note, or the one with the ELF header if the note
 * is in its second page. */
static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct seen *s = arg;
	uint64_t last = 0;
	int mine = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		mine |= p->p_type == PT_LOAD && s->self - info->dlpi_addr - p->p_vaddr < p->p_memsz;
	}
	if (!mine)
		return 0;
	s->found++;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uint32_t *at = (const uint32_t *)(info->dlpi_addr + p->p_vaddr);
		uint64_t inside = p->p_type == PT_LOAD && !p->p_offset ? 4096 : 0;

		if (p->p_type == PT_NOTE) {
			for (size_t k = 0; k + 16 <= p->p_memsz;) {
				const uint32_t *n = (const uint32_t *)((const char *)at + k);

				s->build_id += n[2] == NT_GNU_BUILD_ID && !memcmp(n + 3, "GNU", 4);
				k += 12 + ((n[0] + 3) & ~3u) + ((n[1] + 3) & ~3u);
				k = p->p_align == 8 ? (k + 7) & ~7ul : k;
			}
		}
		if (p->p_type != PT_LOAD)
			continue;
		s->order += p->p_vaddr < last;
		last = p->p_vaddr;
		at += inside / 4;
		if ((p->p_flags != PF_R && !inside) || (p->p_flags & PF_W) || p->p_filesz < inside + 32 || at[0] != 5 ||
		    at[1] != 12 || at[2] != 0x67657365u || !at[7] != !inside)
			continue;
		s->segments++;
		/* The first section starts with its own address at link time. */
		memcpy(&s->first, (const char *)at + at[6], 8);
		s->first -= p->p_vaddr + inside + at[6];
	}
	return 1;
}

/* Not the program's, when the library asks. */
static __attribute__((noinline)) int check(const char *who)
{
	struct seen s = {.self = (uintptr_t)&look};

	dl_iterate_phdr(look, &s);
	if (s.found != 1 || s.order || s.first || !s.build_id) {
		printf("%s: found %u, out of order %u, first %llx, build-id %u\n", who, s.found, s.order,
		       (unsigned long long)s.first, s.build_id);
		return -1;
	}
	return (int)s.segments;
}

#ifndef LIBRARY
#ifdef LINKED
int library_check(void);
#endif

static void *volatile sink;

int main(int argc, char **argv)
{
	const ElfW(Phdr) *ph = (const void *)getauxval(AT_PHDR);
	extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));
	int segments = check("program"), library = 0;

	if (segments < 0)
		return 1;
	if ((const char *)ph != (const char *)&__ehdr_start + __ehdr_start.e_phoff ||
	    getauxval(AT_PHNUM) != __ehdr_start.e_phnum) {
		printf("AT_PHDR is not the table of the file\n");
		return 1;
	}
	for (unsigned i = 0; i < __ehdr_start.e_phnum; i++) {
		if (ph[i].p_type == PT_PHDR && ph[i].p_memsz != __ehdr_start.e_phnum * sizeof *ph) {
			printf("PT_PHDR has another size\n");
			return 1;
		}
	}
#ifdef BIG_BSS
	for (size_t i = 0; i < sizeof big; i += sizeof big / 64) {
		if (big[i])
			return 1;
		big[i] = 1;
	}
	big[sizeof big - 1] = 1;
#endif
	if (!note_is_there()) {
		printf("the note is not where the code expects it\n");
		return 1;
	}
	/* The heap starts after the last segment. */
	for (int i = 0; i < 100; i++) {
		sink = malloc(1u << (i % 20));
		memset(sink, i, 1u << (i % 20));
	}
	if (sbrk(65536) == (void *)-1 || ++tls != 42)
		return 1;
#ifdef LINKED
	library = library_check();
#endif
	if (argc > 1) {
		void *h = dlopen(argv[1], RTLD_NOW);
		int (*f)(void) = h ? (int (*)(void))dlsym(h, "library_check") : NULL;

		if (!f) {
			printf("%s\n", dlerror());
			return 1;
		}
		library = f();
		dlclose(h);
	}
	printf("ok %d %d\n", segments, library);
	return library < 0;
}
#else
int library_check(void);

int library_check(void)
{
	return tls == 41 && note_is_there() ? check("library") : -1;
}
#endif
