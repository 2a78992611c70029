/* SPDX-License-Identifier: MIT */
/*
 * torn: one thread executes an instruction while another replaces it with one
 * store.  Counts executions that gave neither the old nor the new result, by
 * where the bytes lie.  Needs no etch: it is evidence for the rule that a live
 * site lies in one aligned 8-byte word, and one instruction replaces one.
 *
 *     torn SECONDS      prints: case, split, store, writes, reads,
 *                       changes seen, torn, faults, how the child ended
 *
 * Each case runs in a child, so that a crash outside the instruction ends that
 * case alone and is printed as such.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define OLD 0x11111111u /* all bytes differ between the two, so every mixture shows */
#define NEW 0x22222222u
#define TRAP 0xcc333333u /* its last byte in memory is int3: see pair_to_one */

enum kind {
	IMM32,      /* the 4-byte immediate alone is stored */
	WORD,       /* the whole instruction, by one aligned 8-byte store */
	LOAD_IMM,   /* 8b 05 disp32 <-> c7 c0 imm32, one 8-byte store at the instruction */
	PAIR,       /* b8 imm32; nop <-> c7 c0 imm32: two instructions for one */
};

struct shared {
	volatile uint64_t writes, reads, changes, torn, faults;
	volatile int stop;
};

static struct shared *shared;
static unsigned char *site;
static volatile uint32_t *cell; /* what the load form reads */
static unsigned char *site_end; /* the ret */

/* A mixture may fault: count it and leave the function as if it had returned
 * OLD.  Runs on the reader, async-signal-safe. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	uint64_t ip = (uint64_t)u->uc_mcontext.gregs[REG_RIP];

	(void)info;
	if (ip < (uint64_t)site || ip > (uint64_t)site + 64) { /* int3 all around it */
		struct sigaction dfl = {.sa_handler = SIG_DFL};

		sigaction(signal, &dfl, NULL);
		return;
	}
	shared->faults++;
	u->uc_mcontext.gregs[REG_RAX] = OLD;
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)site_end;
}

static void *reader(void *arg)
{
	uint32_t (*read)(void) = (uint32_t (*)(void))(uintptr_t)site;
	uint32_t last = 0;
	uint64_t i, changes = 0;

	(void)arg;
	bench_pin(bench_cpu(1));
	while (!shared->stop) {
		for (i = 0; i < 4096; i++) {
			uint32_t v = read();

			changes += v != last;
			last = v;
			if (__builtin_expect(v != OLD && v != NEW && v != TRAP, 0))
				shared->torn++;
		}
		shared->reads += i;
		shared->changes = changes;
	}
	return NULL;
}

static uint64_t encode(enum kind kind, int which)
{
	unsigned char b[8] = {0};
	uint32_t imm = which ? NEW : OLD;
	int32_t disp = (int32_t)((unsigned char *)cell - (site + 6));

	b[6] = 0xc3;
	b[7] = 0xcc;
	if (kind == LOAD_IMM && !which) {
		b[0] = 0x8b;
		b[1] = 0x05;
		memcpy(b + 2, &disp, 4);
	} else if (kind == PAIR && !which) {
		b[0] = 0xb8;
		memcpy(b + 1, &imm, 4);
		b[5] = 0x90;
	} else {
		if (kind == PAIR)
			imm = TRAP;
		b[0] = 0xc7;
		b[1] = 0xc0;
		memcpy(b + 2, &imm, 4);
	}
	uint64_t v;
	memcpy(&v, b, 8);
	return v;
}

/* at: the instruction's offset in the page. */
static void run_case(const char *name, const char *split, enum kind kind, unsigned at, double seconds)
{
	static const char *const stores[] = {"4 bytes", "8 aligned", "8 bytes", "8 bytes"};
	pid_t pid;
	int status = 0;
	const char *how = "";

	memset((void *)shared, 0, sizeof *shared);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
		unsigned char *text = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		uint64_t rnd = 88172645463325252u, bytes[2], word[2];
		volatile uint64_t *aligned;
		double end = bench_seconds() + seconds;
		pthread_t thread;
		int which = 0;

		if (text == MAP_FAILED)
			_exit(3);
		memset(text, 0xcc, 2 * 4096);
		site = text + at;
		site_end = site + 6;
		cell = (volatile uint32_t *)(text + 2 * 4096 + 128);
		*cell = OLD;
		for (which = 0; which < 2; which++)
			bytes[which] = encode(kind, which);
		memcpy(site, &bytes[0], 8);
		/* WORD: the surrounding aligned word with the instruction in it */
		aligned = (volatile uint64_t *)(text + (at & ~7u));
		for (which = 0; which < 2; which++) {
			memcpy(site, &bytes[which], 8);
			word[which] = *aligned;
		}
		sigaction(SIGSEGV, &sa, NULL);
		sigaction(SIGBUS, &sa, NULL);
		sigaction(SIGILL, &sa, NULL);
		sigaction(SIGTRAP, &sa, NULL);
		bench_pin(bench_cpu(0));
		pthread_create(&thread, NULL, reader, NULL);
		for (which = 0; ; which ^= 1) {
			unsigned spin = (unsigned)bench_random(&rnd) & 127;

			/* asm: exactly one store instruction, whatever the alignment */
			if (kind == IMM32)
				__asm__ __volatile__("movl %1, %0" : "=m"(*(uint32_t *)(site + 2))
				                     : "r"(which ? OLD : NEW) : "memory");
			else if (kind == WORD || (at & 7) <= 2)
				__asm__ __volatile__("movq %1, %0" : "=m"(*aligned)
				                     : "r"(word[!which]) : "memory");
			else
				__asm__ __volatile__("movq %1, %0" : "=m"(*(uint64_t *)site)
				                     : "r"(bytes[!which]) : "memory");
			shared->writes++;
			while (spin--)
				__asm__ __volatile__("");
			if (!(shared->writes & 4095) && bench_seconds() > end)
				break;
		}
		shared->stop = 1;
		pthread_join(thread, NULL);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		how = strsignal(WTERMSIG(status));
	else if (WEXITSTATUS(status))
		how = "failed";
	printf("%s\t%s\t%s\t%llu\t%llu\t%llu\t%llu\t%llu\t%s\n", name, split,
	       kind >= LOAD_IMM && (at & 7) <= 2 ? "8 aligned" : stores[kind],
	       (unsigned long long)shared->writes, (unsigned long long)shared->reads,
	       (unsigned long long)shared->changes, (unsigned long long)shared->torn, (unsigned long long)shared->faults, how);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; unsigned boundary; } bounds[] = {
		{"8 only", 8}, {"16 (not 32)", 16}, {"32 (not 64)", 32}, {"64", 64}, {"page", 4096},
	};
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	char split[16];
	unsigned i, k;

	if (bench_cpu(1) < 0) {
		fprintf(stderr, "torn: needs two CPUs\n");
		return 2;
	}
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 2;
	/* An immediate inside one aligned word: the three places that a live 6-byte site has. */
	for (i = 0; i < 3; i++) {
		snprintf(split, sizeof split, "at +%u", i);
		run_case("immediate: nothing", split, IMM32, 1024 + i, seconds);
		run_case("immediate: nothing", split, WORD, 1024 + i, seconds);
	}
	for (i = 0; i < sizeof bounds / sizeof *bounds; i++)
		for (k = 1; k <= 3; k++) {
			char name[48];

			snprintf(name, sizeof name, "immediate: %s", bounds[i].name);
			snprintf(split, sizeof split, "%u + %u", k, 4 - k);
			run_case(name, split, IMM32, 1024 * (bounds[i].boundary < 4096) + bounds[i].boundary - k - 2,
			         seconds);
		}
	for (i = 0; i < 3; i++) {
		snprintf(split, sizeof split, "at +%u", i);
		run_case("load <-> immediate: nothing", split, LOAD_IMM, 1024 + i, seconds);
	}
	for (i = 0; i < sizeof bounds / sizeof *bounds; i++)
		for (k = 1; k <= 5; k += 2) {
			char name[48];

			snprintf(name, sizeof name, "load <-> immediate: %s", bounds[i].name);
			snprintf(split, sizeof split, "%u + %u", k, 6 - k);
			run_case(name, split, LOAD_IMM, 1024 * (bounds[i].boundary < 4096) + bounds[i].boundary - k,
			         seconds);
		}
	run_case("two instructions <-> one: nothing", "at +0", PAIR, 1024, seconds);
	return 0;
}
