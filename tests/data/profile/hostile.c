/* SPDX-License-Identifier: MIT */
/*
 * Stacks that no compiler makes: rsp and rbp point anywhere into words that are random, addresses of code, or of stack,
 * while code of this file, or a copy of it without unwind information, runs. And a map file of the same kind.
 *
 *     hostile SECONDS SEED
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WORDS (1u << 15)

/* spin(rsp, rbp, rounds) */
void spin(uint64_t sp, uint64_t bp, uint64_t n);
__asm__(".text\n.globl spin\n.type spin,@function\nspin:\n"
        "push %rbp\nmov %rsp,%r11\nmov %rdi,%rsp\nmov %rsi,%rbp\n"
        "1: dec %rdx\njnz 1b\n"
        "mov %r11,%rsp\npop %rbp\nret\nspin_end:\n.size spin,.-spin\n");
extern const char spin_end[];

static uint64_t state;
static uint64_t *capacity;

static uint64_t pick(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static uint64_t word(const unsigned char *copy)
{
	switch (pick() % 8) {
	case 0: return pick();
	case 1: return 0;
	case 2: return (uint64_t)(uintptr_t)copy + pick() % 64;
	case 3: return (uint64_t)(uintptr_t)spin + pick() % 4096;
	case 4: return (uint64_t)(uintptr_t)printf + pick() % 100000;
	default: return (uint64_t)(uintptr_t)&capacity[pick() % WORDS] + (pick() % 16 ? 0 : pick() % 8);
	}
}

static void map_write(const unsigned char *copy)
{
	static const char *const lines[] = {"", " ", "x y z\n", "-1 -1 minus\n", "ffffffffffffffff ffffffffffffffff wraps\n",
		"0 ffffffffffffffff \033]0;all\007<b>&\"]]>\n", "1 1\n", "10 10 \n", "8000000000000000 8000000000000000 half\n",
		"99999999999999999999999999 1 overflow\n", "1 99999999999999999999999999 overflow\n"};
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	f = fopen(path, "w");
	for (unsigned i = 0; i < 2000; i++) {
		if (i % 7)
			fputs(lines[pick() % (sizeof(lines) / sizeof(*lines))], f);
		else
			fprintf(f, "%lx %lx \xff\xfe%s\n", (long)copy + (long)(pick() % 64), (long)(pick() % 64), i % 2 ? "\r\v" : ";");
		if (i == 1000)
			for (unsigned k = 0; k < 300000; k++)
				putc((int)(pick() % 256), f);
	}
	fclose(f);
	puts(path);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	size_t size = (size_t)(spin_end - (const char *)(uintptr_t)spin);
	unsigned char *copy = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct timespec begun, now;

	if (argc < 3 || copy == MAP_FAILED)
		return 2;
	capacity = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	state = strtoull(argv[2], NULL, 10) + 1;
	memcpy(copy, (const void *)(uintptr_t)spin, size);
	map_write(copy);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		for (unsigned i = 0; i < WORDS; i++)
			capacity[i] = word(copy);
		for (int k = 0; k < 20; k++) {
			void (*go)(uint64_t, uint64_t, uint64_t) = pick() % 2 ? spin : (void *)copy;

			go((uint64_t)(uintptr_t)&capacity[pick() % WORDS], word(copy), 300000);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - begun.tv_sec) + 1e-9 * (double)(now.tv_nsec - begun.tv_nsec) < atof(argv[1]));
	return 0;
}
