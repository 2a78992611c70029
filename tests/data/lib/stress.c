/* SPDX-License-Identifier: MIT */
/*
 * stress.c: `stress READS SETS THREADS PLUGIN`. Reader threads execute a site of
 * every form and size without a pause while variables are set, singly, in batches
 * and by release and sync; modules come and go; children are forked that read and
 * set too. Ends when there were READS reads and SETS sets, and prints how many
 * of the reads were torn, stale or of a value never set.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "lib/site.h"
#include "lib/plugin_run.h"
#include "lib/stress.h"

/* ---- the variables -------------------------------------------------------------- */

ETCHED struct fields {
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	uint32_t a __attribute__((aligned(8))), b; /* also read by one load */
} fields;
ETCHED_SHARED struct { int8_t s8; int16_t s16; int32_t s32; int64_t s64; } mixed;
DEFINE_IMV(unsigned char, cell8) = 0;
DEFINE_IMV(unsigned short, cell16) = 0;
DEFINE_IMV(unsigned int, cell32) = 0;
DEFINE_IMV(unsigned long, cell64) = 0;
DEFINE_IMV(unsigned int, shared) = 0; /* read by the plugin too */
EXPORT_IMV_SYMBOL(shared);

struct state state[VARIABLES];

/* A variable's address for etch, without letting it escape. */
static void *address_of(enum variable k)
{
	switch (k) {
	case U8: return ETCH_ADDR(fields.u8);
	case U16: return ETCH_ADDR(fields.u16);
	case U32: return ETCH_ADDR(fields.u32);
	case U64: return ETCH_ADDR(fields.u64);
	case PAIR_A: return ETCH_ADDR(fields.a);
	case PAIR_B: return ETCH_ADDR(fields.b);
	case S8: return ETCH_ADDR(mixed.s8);
	case S16: return ETCH_ADDR(mixed.s16);
	case S32: return ETCH_ADDR(mixed.s32);
	case S64: return ETCH_ADDR(mixed.s64);
	case CELL8: return ETCH_ADDR(cell8__imv);
	case CELL16: return ETCH_ADDR(cell16__imv);
	case CELL32: return ETCH_ADDR(cell32__imv);
	case CELL64: return ETCH_ADDR(cell64__imv);
	default: return ETCH_ADDR(shared__imv);
	}
}

/* Where the instruction of a reader lies: at an 8-byte word, or as the build says. */
#ifndef PLACE
#define PLACE ".p2align 3\n\t"
#endif

/* ---- one reader for every form ------------------------------------------------------ */

struct reader {
	enum variable variable;
	uint64_t (*read)(void);
};

/*
 * rax gets what the instruction makes of the field: `before` sets rax (and flags)
 * up so that the value comes out, or its negative.
 */
#define READ(name, field, before, insn, after)                               \
	ALONE static uint64_t name(void)                                      \
	{                                                                     \
		uint64_t v_;                                                  \
		__asm__ __volatile__(before "\n\t" PLACE insn "\n\t" after \
		                     : "=a"(v_) : "m"(field) : "cc", "rdx");   \
		return v_;                                                    \
	}
#define ZERO "xorl %%eax, %%eax"
#define ONES "orq $-1, %%rax"
#define ONE "movl $1, %%eax"
#define B "andl $0xff, %%eax"
#define W "andl $0xffff, %%eax"
#define L "movl %%eax, %%eax"

#define ALU(op, before, neg)                                                        \
	READ(op##8, fields.u8, before, #op "b %1, %%al", neg B)                     \
	READ(op##16, fields.u16, before, #op "w %1, %%ax", neg W)                   \
	READ(op##32, fields.u32, before, #op "l %1, %%eax", neg L)                  \
	READ(op##64, fields.u64, before, #op "q %1, %%rax", neg)
#define NEG "negq %%rax\n\t"

READ(mov8, fields.u8, ZERO, "movb %1, %%al", B)
READ(mov16, fields.u16, ZERO, "movw %1, %%ax", W)
READ(mov32, fields.u32, ONES, "movl %1, %%eax", "")
READ(mov64, fields.u64, ONES, "movq %1, %%rax", "")
READ(movzx8_16, fields.u8, ONES, "movzbw %1, %%ax", W)
READ(movzx8_32, fields.u8, ONES, "movzbl %1, %%eax", "")
READ(movzx8_64, fields.u8, ONES, "movzbq %1, %%rax", "")
READ(movzx16_32, fields.u16, ONES, "movzwl %1, %%eax", "")
READ(movzx16_64, fields.u16, ONES, "movzwq %1, %%rax", "")
/* What the sign-extension makes above the field must repeat its top bit; the
 * arithmetic below gives 0 there if it does. */
READ(movsx8_16, fields.u8, ZERO, "movsbw %1, %%ax", "cwtl; movsbl %%al, %%edx; xorl %%eax, %%edx; andl $0xffffff00, %%edx; andl $0xff, %%eax; orl %%edx, %%eax")
READ(movsx8_32, fields.u8, ZERO, "movsbl %1, %%eax", "movsbl %%al, %%edx; xorl %%eax, %%edx; andl $0xff, %%eax; orl %%edx, %%eax")
READ(movsx8_64, fields.u8, ZERO, "movsbq %1, %%rax", "movsbq %%al, %%rdx; xorq %%rax, %%rdx; andl $0xff, %%eax; orq %%rdx, %%rax")
READ(movsx16_32, fields.u16, ZERO, "movswl %1, %%eax", "movswl %%ax, %%edx; xorl %%eax, %%edx; andl $0xffff, %%eax; orl %%edx, %%eax")
READ(movsx16_64, fields.u16, ZERO, "movswq %1, %%rax", "movswq %%ax, %%rdx; xorq %%rax, %%rdx; andl $0xffff, %%eax; orq %%rdx, %%rax")
READ(movsx32_64, fields.u32, ZERO, "movslq %1, %%rax", "movslq %%eax, %%rdx; xorq %%rax, %%rdx; movl %%eax, %%eax; orq %%rdx, %%rax")
ALU(add, ZERO, "")
ALU(or, ZERO, "")
ALU(adc, ZERO, "")
ALU(sbb, ZERO, NEG)
ALU(and, ONES, "")
ALU(sub, ZERO, NEG)
ALU(xor, ZERO, "")
READ(imul16, fields.u16, ONE, "imulw %1, %%ax", W)
READ(imul32, fields.u32, ONE, "imull %1, %%eax", L)
READ(imul64, fields.u64, ONE, "imulq %1, %%rax", "")
/* The red zone lies below: step over it. */
READ(push64, fields.u64, "leaq -128(%%rsp), %%rsp", "pushq %1", "popq %%rax; leaq 128(%%rsp), %%rsp")
READ(pair_a, fields.a, ONES, "movq %1, %%rax", L)
READ(pair_b, fields.a, ONES, "movq %1, %%rax", "shrq $32, %%rax")
READ(pair_alone_a, fields.a, ONES, "movl %1, %%eax", "")
READ(pair_alone_b, fields.b, ONES, "movl %1, %%eax", "")

/* What the compiler makes of C. */
ALONE static uint64_t c_u8(void) { return fields.u8; }
ALONE static uint64_t c_u16(void) { return fields.u16; }
ALONE static uint64_t c_u32(void) { return fields.u32; }
ALONE static uint64_t c_u64(void) { return fields.u64; }
ALONE static uint64_t c_s8(void) { return (uint64_t)(int64_t)mixed.s8 & 0xff; }
ALONE static uint64_t c_s16(void) { return (uint64_t)(int64_t)mixed.s16 & 0xffff; }
ALONE static uint64_t c_s32(void) { return (uint64_t)(int64_t)mixed.s32 & 0xffffffff; }
ALONE static uint64_t c_s64(void) { return (uint64_t)mixed.s64; }
ALONE static uint64_t c_cell8(void) { return imv_read(cell8); }
ALONE static uint64_t c_cell16(void) { return imv_read(cell16); }
ALONE static uint64_t c_cell32(void) { return imv_read(cell32); }
ALONE static uint64_t c_cell64(void) { return imv_read(cell64); }
ALONE static uint64_t c_memory64(void) { return _imv_read(cell64); }
ALONE static uint64_t c_shared(void) { return imv_read(shared); }

#define ALU_READERS(op) {U8, op##8}, {U16, op##16}, {U32, op##32}, {U64, op##64}
static const struct reader readers[] = {
	{U8, mov8}, {U16, mov16}, {U32, mov32}, {U64, mov64}, {U8, movzx8_16}, {U8, movzx8_32}, {U8, movzx8_64},
	{U16, movzx16_32}, {U16, movzx16_64}, {U8, movsx8_16}, {U8, movsx8_32}, {U8, movsx8_64}, {U16, movsx16_32},
	{U16, movsx16_64}, {U32, movsx32_64}, ALU_READERS(add), ALU_READERS(or), ALU_READERS(adc), ALU_READERS(sbb),
	ALU_READERS(and), ALU_READERS(sub), ALU_READERS(xor), {U16, imul16}, {U32, imul32}, {U64, imul64},
	{U64, push64}, {PAIR_A, pair_a}, {PAIR_B, pair_b}, {PAIR_A, pair_alone_a}, {PAIR_B, pair_alone_b},
	{U8, c_u8}, {U16, c_u16}, {U32, c_u32}, {U64, c_u64}, {S8, c_s8}, {S16, c_s16}, {S32, c_s32}, {S64, c_s64},
	{CELL8, c_cell8}, {CELL16, c_cell16}, {CELL32, c_cell32}, {CELL64, c_cell64}, {CELL64, c_memory64},
	{SHARED, c_shared},
};
#define READERS (sizeof(readers) / sizeof(readers[0]))

/* cmp and test leave flags only: with the value that a set has returned, equal
 * unless another set has begun; with its complement, no bit in common. */
#define FLAGS(op, insn, field, reg, type)                                                  \
	ALONE static int op(uint64_t with)                                                  \
	{                                                                                   \
		uint8_t z_;                                                                 \
		__asm__ __volatile__(PLACE insn " %2, %%" reg "\n\tsete %0"      \
		                     : "=q"(z_) : "a"((type)with), "m"(field) : "cc");      \
		return z_;                                                                  \
	}
FLAGS(cmp8, "cmpb", fields.u8, "al", uint8_t)
FLAGS(cmp16, "cmpw", fields.u16, "ax", uint16_t)
FLAGS(cmp32, "cmpl", fields.u32, "eax", uint32_t)
FLAGS(cmp64, "cmpq", fields.u64, "rax", uint64_t)
FLAGS(test8, "testb", fields.u8, "al", uint8_t)
FLAGS(test16, "testw", fields.u16, "ax", uint16_t)
FLAGS(test32, "testl", fields.u32, "eax", uint32_t)
FLAGS(test64, "testq", fields.u64, "rax", uint64_t)

static const struct { enum variable variable; int (*op)(uint64_t with); uint64_t flip; } flags[] = {
	{U8, cmp8, 0}, {U16, cmp16, 0}, {U32, cmp32, 0}, {U64, cmp64, 0},
	{U8, test8, ~0ul}, {U16, test16, ~0ul}, {U32, test32, ~0ul}, {U64, test64, ~0ul},
};
#define FLAG_READERS (sizeof(flags) / sizeof(flags[0]))

/* ---- the threads ----------------------------------------------------------------------- */

static _Atomic uint64_t reads, unsure, wrong, sets, set_errors, forks, loads, first_wrong;
static _Atomic int stop;

static void *reader_thread(void *arg)
{
	uint64_t count = 0, maybe = 0, bad = 0;
	sigset_t all;

	/* Every second one has all signals blocked. */
	if ((uintptr_t)arg & 1) {
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, NULL);
	}
	while (!stop) {
		for (unsigned i = 0; i < READERS; i++) {
			int ok = read_ok(readers[i].variable, readers[i].read);

			count++;
			maybe += ok < 0;
			bad += !ok;
			if (!ok)
				first_wrong = i;
		}
		for (unsigned i = 0; i < FLAG_READERS; i++) {
			struct state *s = &state[flags[i].variable];
			uint64_t done = atomic_load(&s->done);
			uint64_t v = value_of(done, variable_size(flags[i].variable));
			int z = flags[i].op(v ^ flags[i].flip);

			count++;
			if (atomic_load(&s->begun) != done)
				maybe++;
			else if (!z) {
				bad++;
				first_wrong = 1000 + i;
			}
		}
		reads += READERS + FLAG_READERS;
	}
	unsure += maybe;
	wrong += bad;
	(void)count;
	return NULL;
}

static uint64_t rnd(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void set_one(enum variable k)
{
	uint64_t n = atomic_load(&state[k].begun) + 1, v = value_of(n, variable_size(k));

	atomic_store(&state[k].begun, n);
	if (etch_set_bytes(address_of(k), &v, variable_size(k)))
		set_errors++;
	atomic_store(&state[k].done, n);
	sets++;
}

/* Two of these, each with variables of its own: even ones, odd ones. */
static void *setter_thread(void *arg)
{
	unsigned mine = (unsigned)(uintptr_t)arg;
	uint64_t x = 88172645463325252ul + mine;

	while (!stop) {
		uint64_t r = rnd(&x), v[VARIABLES];
		struct etch_change c[VARIABLES];
		size_t count = 0;

		if (r % 16 == 0) {
			/* all of mine at once */
			for (unsigned k = mine; k < VARIABLES; k += 2) {
				uint64_t n = atomic_load(&state[k].begun) + 1;

				v[k] = value_of(n, variable_size((enum variable)k));
				atomic_store(&state[k].begun, n);
				c[count++] = (struct etch_change){address_of((enum variable)k), &v[k],
				                                  variable_size((enum variable)k)};
			}
			if (etch_set_batch(c, count))
				set_errors++;
			for (unsigned k = mine; k < VARIABLES; k += 2)
				atomic_store(&state[k].done, atomic_load(&state[k].begun));
			sets += count;
		} else if (r % 64 == 1 && mine == 0) {
			/* a phase of plain stores; PAIR_A and PAIR_B share its object */
			void *at = address_of(CELL32);
			uint64_t n = atomic_load(&state[CELL32].begun) + 1;

			if (etch_release_bytes(at, 4))
				set_errors++;
			atomic_store(&state[CELL32].begun, n);
			*(volatile uint32_t *)at = (uint32_t)value_of(n, 4);
			atomic_store(&state[CELL32].done, n);
			if (etch_sync_bytes(at, 4))
				set_errors++;
			sets++;
		} else {
			set_one((enum variable)((r >> 8) % ((VARIABLES + 1 - mine) / 2) * 2 + mine));
		}
	}
	return NULL;
}

static void *load_thread(void *path)
{
	while (!stop) {
		wrong += plugin_run(path, 1000);
		reads += 1000;
		loads++;
	}
	return NULL;
}

/* In a child: no set is half done, all sites agree with memory, and they go on
 * from there without the parent. */
static int child(void)
{
	int bad = 0;

	for (unsigned i = 0; i < READERS; i++)
		bad += read_ok(readers[i].variable, readers[i].read) == 0;
	bad += etch_verify(NULL, NULL) != 0;
	for (unsigned k = 0; k < VARIABLES; k++) {
		uint64_t n = atomic_load(&state[k].begun);

		atomic_store(&state[k].done, n); /* the parent's setter may have been between the two */
		set_one((enum variable)k);
		set_one((enum variable)k);
	}
	for (unsigned i = 0; i < READERS; i++)
		bad += read_ok(readers[i].variable, readers[i].read) == 0;
	return bad || set_errors ? 1 : 0;
}

static void *fork_thread(void *arg)
{
	(void)arg;
	while (!stop) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(child());
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		if (status) {
			wrong++;
			first_wrong = 2000;
		}
		forks++;
		usleep(3000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[64];
	uint64_t want_reads, want_sets, threads;
	unsigned n = 0;

	if (argc != 5)
		return 2;
	want_reads = strtoull(argv[1], NULL, 0);
	want_sets = strtoull(argv[2], NULL, 0);
	threads = strtoull(argv[3], NULL, 0);
	CHECK(threads >= 1 && threads <= 32);
	/* Other files could name these two, and other modules: they start as loads. */
	CHECK_EQ(etch_sync_bytes(ETCH_ADDR(fields), sizeof(fields)), 0);
	CHECK_EQ(etch_sync_bytes(ETCH_ADDR(mixed), sizeof(mixed)), 0);
	printf("armed %lu of %lu sites, %lu patched at start\n", info_now().armed, info_now().sites,
	       info_now().patched_at_start);
	for (uint64_t i = 0; i < threads; i++)
		CHECK(!pthread_create(&t[n++], NULL, reader_thread, (void *)(uintptr_t)i));
	for (uintptr_t i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[n++], NULL, setter_thread, (void *)i));
	CHECK(!pthread_create(&t[n++], NULL, load_thread, argv[4]));
	CHECK(!pthread_create(&t[n++], NULL, fork_thread, NULL));
	while (reads < want_reads || sets < want_sets || forks < 10 || loads < 10)
		usleep(10000);
	stop = 1;
	while (n)
		CHECK(!pthread_join(t[--n], NULL));
	printf("reads %lu unsure %lu sets %lu errors %lu loads %lu forks %lu verify %ld wrong %lu\n", (unsigned long)reads,
	       (unsigned long)unsure, (unsigned long)sets, (unsigned long)set_errors, (unsigned long)loads,
	       (unsigned long)forks, etch_verify(NULL, NULL), (unsigned long)wrong);
	if (wrong)
		printf("last wrong reader %lu\n", (unsigned long)first_wrong);
	return wrong || set_errors || etch_verify(NULL, NULL);
}
