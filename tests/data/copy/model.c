/* SPDX-License-Identifier: MIT */
/*
 * Copies against a byte-by-byte model, with a fault at every byte:
 *
 *     model VARIANT plain|src|dst|bus_src|bus_dst|read_only [STEP]
 *
 * VARIANT as etch_copy_use() takes it. plain: no fault, every size, all pairs of
 * alignments. src, dst: that side ends at a page without access, at every byte of every
 * size up to 300 and at many of larger ones, at alignments of the other side that differ
 * by STEP (with 64, at one that changes from case to case). bus_src, bus_dst: that side is
 * a mapped file that ends there. read_only: dst ends at a page that can only be read.
 * STEP 1 is every pair of alignments, and every byte up to 1500; calls that come to the
 * same loops as another one keep to 64. 128 is 64 with every second byte. Prints the number of cases.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <etch/copy.h>
#include <etch/extable.h>

#define PAGE 4096u
#define SPACE (8 * PAGE)

typedef size_t copy_fn(void *, const void *, size_t);
static const struct {
	const char *name;
	copy_fn *copy;
	int zeroing;
} calls[] = {
	{"from", etch_copy_from, 0},
	{"to", etch_copy_to, 0},
	{"zeroing", etch_copy_from_zeroing, 1},
	{"nt", etch_copy_nt, 0},
	{"zeroing_nocache", etch_copy_from_zeroing_nocache, 1},
};
static unsigned long cases;
static unsigned char *src_end, *dst_end; /* where access ends */

static void fail(const char *what, const char *call, size_t n, size_t s, size_t d, size_t got)
{
	printf("%s: %s n %zu src %zu dst %zu: left %zu\n", what, call, n, s, d, got);
	exit(1);
}

static unsigned char pattern(size_t i) { return (unsigned char)(i * 7 + (i >> 8) * 13 + 1); }

/* Copies n bytes; `ok` of them can be. before: bytes of dst to look at in front. */
static void one(unsigned c, unsigned char *dst, const unsigned char *src, size_t n, size_t ok)
{
	size_t capacity = (size_t)(dst_end - dst), look = n < capacity ? n : capacity, behind = look + 64 <= capacity ? 64 : capacity - look, i, left;

	for (i = 0; i < 64; i++)
		dst[-1 - (long)i] = 0xee;
	memset(dst, 0xcc, look + behind);
	left = calls[c].copy(dst, src, n);
	cases++;
	if (left != n - ok)
		fail("residue", calls[c].name, n, (uintptr_t)src & 63, (uintptr_t)dst & 63, left);
	if (memcmp(dst, src, ok))
		fail("bytes", calls[c].name, n, (uintptr_t)src & 63, (uintptr_t)dst & 63, left);
	for (i = ok; i < look; i++)
		if (dst[i] != (calls[c].zeroing ? 0 : 0xcc))
			fail("behind the copied", calls[c].name, n, (uintptr_t)src & 63, (uintptr_t)dst & 63, left);
	for (i = look; i < look + behind; i++)
		if (dst[i] != 0xcc)
			fail("behind", calls[c].name, n, (uintptr_t)src & 63, (uintptr_t)dst & 63, left);
	for (i = 0; i < 64; i++)
		if (dst[-1 - (long)i] != 0xee)
			fail("before", calls[c].name, n, (uintptr_t)src & 63, (uintptr_t)dst & 63, left);
}

static unsigned char *guarded(int behind)
{
	unsigned char *p = mmap(NULL, SPACE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + SPACE, PAGE, behind))
		exit(2);
	return p + SPACE;
}

static unsigned char *file_guarded(void)
{
	char name[] = "/tmp/etch-copy-XXXXXX";
	int fd = mkstemp(name);
	unsigned char *p;

	if (fd < 0 || unlink(name) || ftruncate(fd, SPACE + PAGE))
		exit(2);
	p = mmap(NULL, SPACE + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || ftruncate(fd, SPACE))
		exit(2);
	return p + SPACE;
}

static const size_t large[] = {511, 512, 513, 575, 1000, 1024, 1500, 2047, 2048, 2049, 3000, 4095, 4096, 4097, 8191, 12345};
#define LARGE (sizeof(large) / sizeof(large[0]))

static size_t size_of(size_t i) { return i <= 300 ? i : large[i - 301]; }

/* Every size with no fault, at all pairs of alignments; fewer of large ones. */
static void plain(unsigned c, size_t n)
{
	for (size_t a = 0; a < 64; a += n > 300 ? 5 : 1)
		for (size_t b = 0; b < 64; b += n > 300 ? 3 : 1)
			one(c, dst_end - SPACE + PAGE + b, src_end - SPACE + PAGE + a, n, n);
}

static void faulting(unsigned c, size_t n, int dst, size_t step)
{
	/* All calls below 512 bytes are the first one, and no other is that from there on. */
	size_t by = (c == 0 || (calls[c].copy == etch_copy_nt && n >= 512)) && step < 64 ? step : 64;
	size_t next = n <= 300 || (by == 1 && n <= 1500) ? 1 : 1 + n / 97;
	size_t some = step > 64 ? step / 64 : 1;

	for (size_t k = n % some; k < n; k += next * some)
		for (size_t b = (7 * n + 5 * k) % by; b < 64; b += by)
			if (dst)
				one(c, dst_end - k, src_end - SPACE + PAGE + b, n, k);
			else
				one(c, dst_end - SPACE + PAGE + b, src_end - k, n, k);
}

int main(int argc, char **argv)
{
	size_t i, step = argc > 3 ? (size_t)atoi(argv[3]) : 64;
	const char *mode = argc > 2 ? argv[2] : "";
	int is_plain = !strcmp(mode, "plain"), dst = !strcmp(mode, "dst") || !strcmp(mode, "bus_dst") || !strcmp(mode, "read_only");
	unsigned c;

	if (argc < 3 || !step)
		return 2;
	if (etch_copy_use(argv[1])) {
		printf("no %s\n", argv[1]);
		return 77;
	}
	if (etch_fault_init())
		return 2;
	src_end = !strcmp(mode, "bus_src") ? file_guarded() : guarded(PROT_NONE);
	if (!strcmp(mode, "bus_dst"))
		dst_end = file_guarded();
	else
		dst_end = guarded(!strcmp(mode, "read_only") ? PROT_READ : PROT_NONE);
	for (i = 1; i <= SPACE; i++)
		src_end[-(long)i] = pattern(i);

	for (c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
		for (i = 0; i < 301 + LARGE; i++)
			if (is_plain)
				plain(c, size_of(i));
			else
				faulting(c, size_of(i), dst, step);
	printf("%lu\n", cases);
	return 0;
}
