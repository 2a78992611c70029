/* SPDX-License-Identifier: MIT */
/*
 * Copies and reads that survive faults, beside what programs use otherwise.
 *
 *     copy check                        checksums of every copy; all must agree
 *     copy throughput ROUNDS LARGEST    state, size, copy, ticks, bytes
 *     copy reread ROUNDS LARGEST        set, order, copy, bytes copied, ticks
 *     copy reread-once SET BYTES COPY   one such round, for a cache simulator
 *     copy safety ROUNDS                size, copy, ticks, calls
 *     copy probe ROUNDS                 case, way, ticks, calls
 *
 * The variants run in turn, in an order that is another one in each round. Samples go to
 * standard output, one a line; scripts/bench/run makes tables of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <etch/copy.h>
#include <etch/extable.h>

#include "bench.h"

#define LINE 64
#define LAST ((size_t)256 << 20)

static void fail(const char *text)
{
	fprintf(stderr, "copy: %s\n", text);
	exit(2);
}

/* ---- the copies ----------------------------------------------------------------- */

typedef size_t copy_fn(void *, const void *, size_t);

/* A compiler that saw the call would write some of them out itself. */
static void *(*volatile libc_memcpy)(void *, const void *, size_t) = memcpy;

static size_t copy_memcpy(void *dst, const void *src, size_t n)
{
	libc_memcpy(dst, src, n);
	return 0;
}
static size_t copy_auto(void *dst, const void *src, size_t n) { return etch_copy(dst, src, n, ETCH_COPY_AUTO); }

/*
 * For the simulator, which knows no non-temporal store: reads all of src and writes one
 * page over and over. What an nt copy would leave if its stores went around the cache
 * and its prefetchnta were an ordinary read.
 */
static char model_page[4096] __attribute__((aligned(4096)));
__attribute__((noinline)) static size_t copy_model(void *dst, const void *src, size_t n)
{
	(void)dst;
	for (size_t i = 0; i < n; i += sizeof(model_page))
		libc_memcpy(model_page, (const char *)src + i, n - i < sizeof(model_page) ? n - i : sizeof(model_page));
	return 0;
}
static size_t copy_none(void *dst, const void *src, size_t n)
{
	(void)dst;
	(void)src;
	(void)n;
	return 0;
}

static const struct copy {
	const char *name;
	copy_fn *fn;
} copies[] = {
	{"memcpy", copy_memcpy}, {"auto", copy_auto}, {"nt", etch_copy_nt}, {"from", etch_copy_from},
	{"none", copy_none}, {"model", copy_model},
};
#define MEASURED 4 /* the first that copy */

static copy_fn *copy_named(const char *name)
{
	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		if (!strcmp(copies[i].name, name))
			return copies[i].fn;
	fail("no such copy");
	return NULL;
}

/* Each round in an order of its own, so that none always follows the same. */
static void order(unsigned *at, unsigned n, uint64_t *seed)
{
	for (unsigned i = 0; i < n; i++)
		at[i] = i;
	for (unsigned i = n; i > 1; i--) {
		unsigned k = (unsigned)(bench_random(seed) % i), t = at[i - 1];

		at[i - 1] = at[k];
		at[k] = t;
	}
}

static uint64_t checksum(const void *at, size_t n)
{
	const unsigned char *p = at;
	uint64_t sum = 14695981039346656037u; /* FNV-1a */

	for (size_t i = 0; i < n; i++)
		sum = (sum ^ p[i]) * 1099511628211u;
	return sum;
}

static void fill(void *at, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8)
		memcpy((char *)at + i, &(uint64_t){bench_random(&seed)}, 8);
}

static int check(void)
{
	static const size_t sizes[] = {0, 1, 8, 31, 64, 100, 511, 512, 513, 4096, 70000, (1 << 20) + 3};
	char *src = bench_memory(4 << 20), *dst = bench_memory(4 << 20);

	fill(src, 4 << 20, 5);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (unsigned c = 0; c < MEASURED; c++) {
			memset(dst, 0x5a, sizes[s] + 200);
			if (copies[c].fn(dst + 17, src + 3, sizes[s]))
				fail("a copy says that it did not copy all");
			printf("%zu\t%s\t%016llx\n", sizes[s], copies[c].name,
			       (unsigned long long)checksum(dst, sizes[s] + 200));
		}
	return 0;
}

/* ---- throughput --------------------------------------------------------------------- */

static void flush(const char *at, size_t n)
{
	for (size_t i = 0; i < n; i += LINE)
		__asm__ __volatile__("clflush %0" : : "m"(at[i]));
}

static volatile char sink;

static void read_all(const char *at, size_t n)
{
	char sum = 0;

	for (size_t i = 0; i < n; i += LINE)
		sum = (char)(sum + *(const volatile char *)(at + i));
	sink = sum;
}

static void write_all(char *at, size_t n)
{
	for (size_t i = 0; i < n; i += LINE)
		*(volatile char *)(at + i) = 1;
}

#define SPAN ((size_t)256 << 10) /* bytes of small copies that one sample of a cold state copies */
#define SRC_OFF 0
#define DST_OFF 1088 /* not the same place in a page: 4 KiB aliasing would be measured */

enum { COLD_SRC = 1, COLD_DST = 2, UNALIGNED = 4 };
static const struct state {
	const char *name;
	unsigned flags;
} states[] = {
	{"hot", 0}, {"hot, unaligned", UNALIGNED}, {"source cold", COLD_SRC}, {"destination cold", COLD_DST},
	{"both cold", COLD_SRC | COLD_DST},
};
#define STATES (sizeof(states) / sizeof(states[0]))

/* One sample: copies, and ticks. */
static uint64_t sample(const struct state *st, copy_fn *fn, char *src, char *dst, size_t n, size_t *bytes)
{
	size_t pieces = n < SPAN ? SPAN / n : 1, reps = n < 4 << 20 ? 4 : 1;
	uint64_t t;

	if (n < 64 << 10)
		reps = (64 << 10) / n * 4;
	src += SRC_OFF + (st->flags & UNALIGNED ? 5 : 0);
	dst += DST_OFF + (st->flags & UNALIGNED ? 17 : 0);
	if (!(st->flags & (COLD_SRC | COLD_DST))) {
		/* One pair, again and again. */
		fn(dst, src, n);
		t = bench_tsc();
		for (size_t i = 0; i < reps; i++)
			fn(dst, src, n);
		*bytes = reps * n;
		return bench_tsc() - t;
	}
	/* Each piece once, in an order that no prefetcher follows from one to the next;
	 * that which is not to be cold has just been used. */
	read_all(src, pieces * n);
	write_all(dst, pieces * n);
	if (st->flags & COLD_SRC)
		flush(src, pieces * n);
	if (st->flags & COLD_DST)
		flush(dst, pieces * n);
	__asm__ __volatile__("mfence" : : : "memory");
	t = bench_tsc();
	for (size_t i = 0; i < pieces; i++) {
		size_t k = pieces > 1 ? (i * 37 + 11) % pieces : 0; /* pieces: a power of two */

		fn(dst + k * n, src + k * n, n);
	}
	*bytes = pieces * n;
	return bench_tsc() - t;
}

static int throughput(unsigned rounds, size_t largest)
{
	char *src = bench_memory(LAST + 8192), *dst = bench_memory(LAST + 8192);
	uint64_t seed = 7;
	unsigned at[MEASURED];

	fill(src, 1 << 20, 9);
	bench_pin(bench_cpu(0));
	printf("# ticks_per_ns\t%f\tthreshold\t%zu\n", bench_ticks_per_ns(), etch_copy_threshold());
	for (size_t n = 512; n <= largest; n *= n < 4096 ? 2 : 4) {
		unsigned turns = rounds;

		if (n > 4 << 20)
			turns = (rounds + 3) / 4;
		else if (n > 256 << 10)
			turns = (rounds + 1) / 2;
		for (unsigned r = 0; r < turns; r++)
			for (unsigned s = 0; s < STATES; s++) {
				order(at, MEASURED, &seed);
				for (unsigned c = 0; c < MEASURED; c++) {
					size_t bytes;
					uint64_t t = sample(&states[s], copies[at[c]].fn, src, dst, n, &bytes);

					printf("%s\t%zu\t%s\t%llu\t%zu\n", states[s].name, n, copies[at[c]].name,
					       (unsigned long long)t, bytes);
				}
			}
	}
	return 0;
}

/* ---- what is left of a hot set ------------------------------------------------------ */

/* A ring through all lines of the set, in random order. */
static void ring(void **set, size_t lines, uint64_t seed)
{
	unsigned *at = malloc(lines * sizeof(*at));

	if (!at)
		fail("no memory");
	order(at, (unsigned)lines, &seed);
	for (size_t i = 0; i < lines; i++)
		set[(size_t)at[i] * (LINE / sizeof(void *))] = &set[(size_t)at[(i + 1) % lines] * (LINE / sizeof(void *))];
	free(at);
}

__attribute__((noinline)) static void *walk(void **set, size_t lines)
{
	void **p = set;

	for (size_t i = 0; i < lines; i++)
		p = *(void *volatile *)p;
	return p;
}

__attribute__((noinline)) static void *scan(void **set, size_t lines)
{
	read_all((const char *)set, lines * LINE);
	return set;
}

static const struct {
	const char *name;
	void *(*fn)(void **, size_t);
} reads[] = {{"in order", scan}, {"at random", walk}};

static int reread(unsigned rounds, size_t largest)
{
	static const size_t sets[] = {512 << 10, 1 << 20}, sizes[] = {1 << 20, 16 << 20, 64 << 20};
	static const char *const names[] = {"none", "memcpy", "auto", "nt"};
	char *src = bench_memory(64 << 20), *dst = bench_memory((64 << 20) + 4096);
	void **set = bench_memory(1 << 20);
	uint64_t seed = 11;
	unsigned at[4];

	bench_pin(bench_cpu(0));
	printf("# ticks_per_ns\t%f\n", bench_ticks_per_ns());
	for (unsigned s = 0; s < 2; s++) {
		size_t lines = sets[s] / LINE;

		ring(set, lines, 3);
		for (unsigned z = 0; z < 3 && sizes[z] <= largest; z++)
			for (unsigned r = 0; r < rounds; r++)
				for (unsigned o = 0; o < 2; o++) {
					order(at, 4, &seed);
					for (unsigned c = 0; c < 4; c++) {
						uint64_t t;

						for (int i = 0; i < 3; i++)
							walk(set, lines);
						copy_named(names[at[c]])(dst + DST_OFF, src, sizes[z]);
						t = bench_tsc();
						if (reads[o].fn(set, lines) != set)
							fail("the ring is broken");
						t = bench_tsc() - t;
						printf("%zu\t%s\t%s\t%zu\t%llu\n", sets[s], reads[o].name, names[at[c]],
						       sizes[z], (unsigned long long)t);
					}
				}
	}
	return 0;
}

/* The second walk has a name of its own for the simulator's counts; a compiler makes one
 * function of two that are the same. */
__attribute__((noinline)) static void *walk_after(void **set, size_t lines)
{
	void **p = set;

	__asm__ __volatile__("# after");
	for (size_t i = 0; i < lines; i++)
		p = *(void *volatile *)p;
	return p;
}

static int reread_once(size_t bytes_set, size_t bytes, const char *name)
{
	char *src = bench_memory(bytes), *dst = bench_memory(bytes + 4096);
	void **set = bench_memory(bytes_set);

	ring(set, bytes_set / LINE, 3);
	for (int i = 0; i < 3; i++)
		walk(set, bytes_set / LINE);
	copy_named(name)(dst + DST_OFF, src, bytes);
	return walk_after(set, bytes_set / LINE) != set;
}

/* ---- the price of safety ------------------------------------------------------------- */

static int safety(unsigned rounds)
{
	static const size_t sizes[] = {8, 16, 32, 64, 100, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536};
	char *src = bench_memory(1 << 20), *dst = bench_memory(1 << 20);
	uint64_t seed = 13;
	unsigned at[3];
	/* The pointer is read anew for each call: the same for all three. */
	copy_fn *const fn[] = {(copy_fn *)(uintptr_t)memcpy, etch_copy_from, (copy_fn *)(uintptr_t)memcpy};
	static const char *const names[] = {"memcpy", "from", "memcpy, again"};

	bench_pin(bench_cpu(0));
	printf("# ticks_per_ns\t%f\n", bench_ticks_per_ns());
	for (size_t z = 0; z < sizeof(sizes) / sizeof(sizes[0]); z++)
		for (unsigned off = 0; off < 2; off++)
			for (unsigned r = 0; r < rounds; r++) {
				size_t n = sizes[z], calls = n <= 512 ? 2000 : (2 << 20) / n / 2;

				order(at, 3, &seed);
				for (unsigned c = 0; c < 3; c++) {
					copy_fn *volatile f = fn[at[c]];
					uint64_t t;

					f(dst + DST_OFF + off * 17, src + off * 5, n);
					t = bench_tsc();
					for (size_t i = 0; i < calls; i++)
						f(dst + DST_OFF + off * 17, src + off * 5, n);
					t = bench_tsc() - t;
					printf("%zu\t%s\t%s\t%llu\t%zu\n", n, off ? "unaligned" : "aligned",
					       names[at[c]], (unsigned long long)t, calls);
				}
			}
	return 0;
}

static int pipe_ends[2];
static sigjmp_buf back;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static int way_load(uint64_t *out, const void *p)
{
	*out = *(const volatile uint64_t *)p;
	return 0;
}

static int way_readv(uint64_t *out, const void *p)
{
	struct iovec to = {out, 8}, from = {(void *)(uintptr_t)p, 8};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 8 ? 0 : -EFAULT;
}

/* As libunwind and others do: the kernel says what may be read. */
static int way_pipe(uint64_t *out, const void *p)
{
	return write(pipe_ends[1], p, 8) == 8 && read(pipe_ends[0], out, 8) == 8 ? 0 : -EFAULT;
}

static int way_setjmp(uint64_t *out, const void *p)
{
	if (sigsetjmp(back, 1))
		return -EFAULT;
	*out = *(const volatile uint64_t *)p;
	return 0;
}

/* The mask is not saved: cheaper, and right only with SA_NODEFER. */
static int way_setjmp_nomask(uint64_t *out, const void *p)
{
	if (sigsetjmp(back, 0))
		return -EFAULT;
	*out = *(const volatile uint64_t *)p;
	return 0;
}

static int way_copy(uint64_t *out, const void *p) { return etch_copy_from(out, p, 8) ? -EFAULT : 0; }

static const struct way {
	const char *name;
	int (*fn)(uint64_t *, const void *);
	int signal_of_its_own;
} ways[] = {
	{"load", way_load, 0},
	{"etch_probe_read_64", etch_probe_read_64, 0},
	{"etch_copy_from", way_copy, 0},
	{"process_vm_readv", way_readv, 0},
	{"pipe", way_pipe, 0},
	{"sigsetjmp, mask", way_setjmp, 1},
	{"sigsetjmp, no mask", way_setjmp_nomask, 1},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static int probe(unsigned rounds)
{
	char *good = bench_memory(4096), *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction mine = {.sa_handler = jump, .sa_flags = SA_NODEFER}, other;
	const uint64_t value = 0x0123456789abcdefu;
	unsigned at[WAYS];
	uint64_t seed = 17, v, t;

	if (none == MAP_FAILED || pipe(pipe_ends) || etch_fault_init())
		fail("pipe, mmap or etch_fault_init");
	memcpy(good, &value, 8);
	bench_pin(bench_cpu(0));
	printf("# ticks_per_ns\t%f\n", bench_ticks_per_ns());
	for (unsigned r = 0; r < rounds; r++)
		for (int bad = 0; bad < 2; bad++) {
			const char *p = bad ? none : good;
			unsigned calls = bad ? 200 : 1000;

			order(at, WAYS, &seed);
			for (unsigned w = 0; w < WAYS; w++) {
				const struct way *way = &ways[at[w]];
				int (*volatile fn)(uint64_t *, const void *) = way->fn;

				if (bad && fn == way_load)
					continue;
				if (way->signal_of_its_own)
					sigaction(SIGSEGV, &mine, &other);
				v = 0;
				if ((fn(&v, p) != 0) != bad || (!bad && v != value))
					fail("a way to read gives another value");
				t = bench_tsc();
				for (unsigned i = 0; i < calls; i++)
					fn(&v, p);
				t = bench_tsc() - t;
				if (way->signal_of_its_own)
					sigaction(SIGSEGV, &other, NULL);
				printf("%s\t%s\t%llu\t%u\n", bad ? "fault" : "read", way->name,
				       (unsigned long long)t, calls);
			}
		}
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	size_t largest = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;

	bench_cpu(0);
	if (!strcmp(what, "check"))
		return check();
	if (!strcmp(what, "throughput") && rounds && largest <= LAST)
		return throughput(rounds, largest);
	if (!strcmp(what, "reread") && rounds)
		return reread(rounds, largest);
	if (!strcmp(what, "reread-once") && argc == 5)
		return reread_once(strtoull(argv[2], NULL, 0), largest, argv[4]);
	if (!strcmp(what, "safety") && rounds)
		return safety(rounds);
	if (!strcmp(what, "probe") && rounds)
		return probe(rounds);
	fail("see the head of copy.c for what to say");
	return 2;
}
