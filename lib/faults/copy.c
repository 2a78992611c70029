/* SPDX-License-Identifier: MIT */
/*
 * copy.c: the functions of etch/copy.h. The loops are in copy_x86.S; this file selects those that the processor
 * supports, and converts their results.
 *
 * The selection is an ordinary ops table (etch/pv.h), so this file is part of a module: libetch.so, or the file that
 * libetch.a is linked into. The build rewrites it. copy_init() takes the table's address, so the table's calls are
 * loads until copy_init() has set the table and called etch_sync; if that fails, they remain loads.
 *
 * Everything except the selection may run in signal context: it calls only this file and copy_x86.S.
 */
#undef ETCH_NO_MODULE
#include <etch/pv.h>
#define ETCH_NO_MODULE /* extable.c registers the exception table instead */

#include <cpuid.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etch/copy.h>
#include <etch/extable.h>

#include "patch/internal.h"

/*
 * strtoull under the name that every C library has. The headers of glibc 2.38 and later turn it into
 * __isoc23_strtoull, which musl lacks; libetch.a must also link with musl.
 */
extern unsigned long long number_of(const char *text, char **end, int base) __asm__("strtoull");

typedef size_t copy_fn(void *dst, const void *src, size_t n);

copy_fn etch_copy_sse2, etch_copy_avx2, etch_copy_avx512;
copy_fn etch_copy_erms, etch_copy_avx2_erms, etch_copy_avx512_erms;
copy_fn etch_copy_nt_sse2, etch_copy_nt_avx2, etch_copy_nt_avx512;

#define HAS_AVX2      1u
#define HAS_AVX512    2u
#define HAS_ERMS      4u
#define HAS_CHEAP_ZMM 8u

struct variant {
	const char *name;
	unsigned needs;
	copy_fn *copy, *nt;
};

/* The last supported variant wins; if zmm is cheap, the last supported avx512 variant. */
static const struct variant variants[] = {
	{"sse2", 0, etch_copy_sse2, etch_copy_nt_sse2},
	{"sse2+erms", HAS_ERMS, etch_copy_erms, etch_copy_nt_sse2},
	{"avx512", HAS_AVX512, etch_copy_avx512, etch_copy_nt_avx512},
	{"avx512+erms", HAS_AVX512 | HAS_ERMS, etch_copy_avx512_erms, etch_copy_nt_avx512},
	{"avx2", HAS_AVX2, etch_copy_avx2, etch_copy_nt_avx2},
	{"avx2+erms", HAS_AVX2 | HAS_ERMS, etch_copy_avx2_erms, etch_copy_nt_avx2},
};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

struct etch_copy_ops {
	copy_fn *copy, *nt;
};
/* The ops table of all copies. The initial functions run on every x86-64 processor. */
DEFINE_PV_OPS(struct etch_copy_ops, etch_copy_ops) = {etch_copy_sse2, etch_copy_nt_sse2};
/* Lets the table's address escape, so that the table starts unarmed. The copies are chosen at start-up; where text
 * may not be changed (MDWE), calls then still follow the table in memory. */
static struct etch_copy_ops *volatile ops;
static const struct variant *chosen = &variants[0];
static size_t threshold = (size_t)3 << 20;

#define THRESHOLD_MIN ((size_t)64 << 10)

/* The HAS_* bits of this processor. SDM vol. 2, CPUID: leaf 1 ecx 27 OSXSAVE, leaf 7 ebx 5 AVX2, 9
 * ERMS, 16 AVX512F, 30 AVX512BW, 31 AVX512VL; vol. 1, 14.3 and 15.2: XCR0 has the state components
 * that the system saves. */
static unsigned cpu_has(void)
{
	unsigned a, b, c, d, low, high, has = 0;

	if (!__get_cpuid(1, &a, &b, &c, &d))
		return 0;
	low = 0;
	if (c & (1u << 27))
		__asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return 0;
	if (b & (1u << 9))
		has |= HAS_ERMS;
	if ((b & (1u << 5)) && (low & 6) == 6)
		has |= HAS_AVX2;
	if ((b & (1u << 16)) && (b & (1u << 30)) && (b & (1u << 31)) && (low & 0xe6) == 0xe6)
		has |= HAS_AVX512;
	/* Processors with AVX512 and AVX-VNNI (leaf 7, 1: eax 4) do not lower their frequency for
	 * loads and stores of zmm; glibc uses the same bit. */
	if ((has & HAS_AVX512) && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 4)))
		has |= HAS_CHEAP_ZMM;
	return has;
}

ETCH_API const char *etch_copy_variant(void) { return __atomic_load_n(&chosen, __ATOMIC_RELAXED)->name; }

/* Puts a variant's functions into the ops table. Returns 0; or -1 if the set is refused, and then nothing has changed.
 */
static int choose(const struct variant *v)
{
	struct etch_change both[] = {ETCH_CHANGE(&etch_copy_ops.copy, &v->copy), ETCH_CHANGE(&etch_copy_ops.nt, &v->nt)};

	if (etch_set_batch(both, 2))
		return -1;
	__atomic_store_n(&chosen, v, __ATOMIC_RELAXED);
	return 0;
}

ETCH_API int etch_copy_use(const char *name)
{
	unsigned has = cpu_has();

	for (size_t i = 0; i < VARIANTS; i++)
		if (!strcmp(variants[i].name, name) && !(variants[i].needs & ~has))
			return choose(&variants[i]);
	return -1;
}

/*
 * One processor's share of the largest cache in bytes, plus the level before it if the largest is a third level that
 * is not inclusive; 0 if it is unknown. glibc's memcpy uses the same size, so that both bypass the cache from the
 * same size on. cpuid leaf 4 (Intel), 0x8000001d (AMD): eax 7:5 is the level, edx 1 tells whether it is inclusive. At
 * most eax 25:14 + 1 processors share the cache, and no more than are online: a virtual machine may report the whole
 * cache of its host.
 */
static size_t last_level(void)
{
	unsigned a, b, c, d, leaf = 4;
	size_t most = 0, before = 0, size, share = 1;
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if ((unsigned)__get_cpuid_max(0x80000000, NULL) >= 0x8000001d && __get_cpuid(0x80000001, &a, &b, &c, &d) &&
	    (c & (1u << 22)))
		leaf = 0x8000001d;
	else if (__get_cpuid_max(0, NULL) < 4)
		return 0;
	for (unsigned i = 0; i < 16; i++) {
		__cpuid_count(leaf, i, a, b, c, d);
		if (!(a & 31))
			break;
		if ((a & 31) == 2)
			continue; /* an instruction cache */
		size = ((size_t)(b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((size_t)c + 1);
		if (size >= most) {
			before = (a >> 5 & 7) < 3 || (d & 2) ? 0 : most;
			most = size;
			share = (size_t)(a >> 14 & 4095) + 1;
		}
	}
	if (online > 0 && share > (size_t)online)
		share = (size_t)online;
	return most / share + before;
}

static size_t threshold_of(size_t bytes)
{
	if (!bytes)
		return SIZE_MAX;
	return bytes < THRESHOLD_MIN ? THRESHOLD_MIN : bytes;
}

__attribute__((constructor(101))) static void copy_init(void)
{
	unsigned has = cpu_has();
	const struct variant *best = &variants[0];
	size_t cache = last_level();
	const char *setting = getenv("ETCH_COPY_THRESHOLD");

	for (size_t i = 0; i < VARIANTS; i++)
		if (!(variants[i].needs & ~has) &&
		    !((has & HAS_CHEAP_ZMM) && (best->needs & HAS_AVX512) && !(variants[i].needs & HAS_AVX512)))
			best = &variants[i];
	/* Called here, because the linker decides the order among constructors of one priority. */
	etch_module_ctor_();
	ops = &etch_copy_ops;
	choose(best);
	etch_sync(ops, sizeof(*ops));
	if (cache)
		threshold = threshold_of(cache / 4 * 3);
	if (setting && *setting) {
		char *end;
		unsigned long long v = number_of(setting, &end, 0);

		if (!*end && *setting != '-')
			threshold = threshold_of((size_t)v);
	}
}

ETCH_API size_t etch_copy_threshold(void)
{
	size_t now = __atomic_load_n(&threshold, __ATOMIC_RELAXED);

	return now == SIZE_MAX ? 0 : now;
}

ETCH_API size_t etch_copy_set_threshold(size_t bytes)
{
	size_t before = __atomic_exchange_n(&threshold, threshold_of(bytes), __ATOMIC_RELAXED);

	return before == SIZE_MAX ? 0 : before;
}

/* ---- copies -------------------------------------------------------------------------- */

/* Zeroes [at, at+n) as far as it is writable. */
static void zero(char *at, size_t n)
{
	__asm__ __volatile__("1: rep stosb\n2:\n\t" ETCH_EX_PLAIN("1b", "2b") : "+D"(at), "+c"(n) : "a"(0) : "memory");
}

static size_t zeroing(void *dst, size_t n, size_t left)
{
	if (left)
		zero((char *)dst + (n - left), left);
	return left;
}

ETCH_API size_t etch_copy_from(void *dst, const void *src, size_t n) { return etch_copy_ops.copy(dst, src, n); }

ETCH_API size_t etch_copy_to(void *dst, const void *src, size_t n) { return etch_copy_ops.copy(dst, src, n); }

ETCH_API size_t etch_copy_from_zeroing(void *dst, const void *src, size_t n)
{
	return zeroing(dst, n, etch_copy_ops.copy(dst, src, n));
}

ETCH_API size_t etch_copy_nt(void *dst, const void *src, size_t n) { return etch_copy_ops.nt(dst, src, n); }

ETCH_API size_t etch_copy_from_nocache(void *dst, const void *src, size_t n) { return etch_copy_ops.nt(dst, src, n); }

ETCH_API size_t etch_copy_to_nocache(void *dst, const void *src, size_t n) { return etch_copy_ops.nt(dst, src, n); }

ETCH_API size_t etch_copy_from_zeroing_nocache(void *dst, const void *src, size_t n)
{
	return zeroing(dst, n, etch_copy_ops.nt(dst, src, n));
}

ETCH_API size_t etch_copy(void *dst, const void *src, size_t n, enum etch_copy_how how)
{
	if (how == ETCH_COPY_NT || (how == ETCH_COPY_AUTO && n >= __atomic_load_n(&threshold, __ATOMIC_RELAXED)))
		return etch_copy_ops.nt(dst, src, n);
	return etch_copy_ops.copy(dst, src, n);
}

/* ---- single values -------------------------------------------------------------------- */

/* Inline, because functions in this file must not call through a symbol that the program may interpose. */
#define PROBE(bits, type, load)                                                      \
	static inline int read_##bits(type *out, const void *at)                         \
	{                                                                                \
		unsigned long v = 0;                                                         \
		long err = 0;                                                                \
                                                                                     \
		__asm__ __volatile__("1: " load "\n2:\n\t" ETCH_EX_EFAULT("1b", "2b", "%q0") \
		                     : "+r"(err), "+r"(v)                                    \
		                     : "m"(*(const char(*)[sizeof(type)])at));               \
		*out = (type)v;                                                              \
		return (int)err;                                                             \
	}                                                                                \
	ETCH_API int etch_probe_read_##bits(type *out, const void *at) { return read_##bits(out, at); }
PROBE(8, uint8_t, "movzbl %2, %k1")
PROBE(16, uint16_t, "movzwl %2, %k1")
PROBE(32, uint32_t, "movl %2, %k1")
PROBE(64, uint64_t, "movq %2, %1")

/* ---- strings --------------------------------------------------------------------------- */

static int store_8(char *at, uint8_t v)
{
	long err = 0;

	__asm__ __volatile__("1: movb %2, %1\n2:\n\t" ETCH_EX_EFAULT("1b", "2b", "%q0") : "+r"(err), "=m"(*at) : "q"(v));
	return (int)err;
}

static int store_64(char *at, uint64_t v)
{
	long err = 0;

	__asm__ __volatile__("1: movq %2, %1\n2:\n\t" ETCH_EX_EFAULT("1b", "2b", "%q0")
	                     : "+r"(err), "=m"(*(char(*)[8])at)
	                     : "r"(v));
	return (int)err;
}

/* Is some byte of v zero? (Mycroft's test) */
static int has_zero(uint64_t v) { return ((v - 0x0101010101010101u) & ~v & 0x8080808080808080u) != 0; }

ETCH_API long etch_strncpy_from(char *dst, const char *src, size_t n)
{
	size_t done = 0;
	uint64_t v;
	uint8_t c;

	/* Copies whole words that do not cross a page boundary. A word with a NUL, a word that faults, and the rest are
	 * handled byte by byte. */
	while (done < n) {
		if (n - done >= 8 && ((uintptr_t)(src + done) & 7) == 0 && !read_64(&v, src + done) && !has_zero(v) &&
		    !store_64(dst + done, v)) {
			done += 8;
			continue;
		}
		if (read_8(&c, src + done) || store_8(dst + done, c))
			return -EFAULT;
		if (!c)
			return (long)done;
		done++;
	}
	return (long)n;
}
