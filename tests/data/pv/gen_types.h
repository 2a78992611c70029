/* SPDX-License-Identifier: MIT */
/*
 * For programs that gen_programs.py writes: the types of arguments and results,
 * each made from 64 bits (mk_T) and mixed back into 64 (fold_T). Both languages.
 */
#ifndef GEN_TYPES_H
#define GEN_TYPES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#ifndef __cplusplus
#include <stdbool.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t u64;
#define NOINLINE __attribute__((noinline))

extern u64 gen_trace;          /* every function that is called mixes itself in */
extern sigjmp_buf gen_escape;  /* where functions without return go to */
extern const char gen_text[256];
extern u64 gen_cells[8];
u64 gen_identity(u64 x);
u64 gen_square(u64 x);

static inline u64 gen_mix(u64 a, u64 b)
{
	return (a ^ (b << 13 | b >> 51)) * 0x9e3779b97f4a7c15ull + 1;
}
static inline void gen_note(u64 h) { gen_trace = gen_mix(gen_trace, h); }

typedef signed char schar;
typedef unsigned char uchar;
typedef unsigned short ushort_;
typedef unsigned int uint_;
typedef long long_;
typedef __int128 wide;
typedef const char *text;
typedef void *anyp;
typedef long double ldouble;
typedef _Complex double cdouble;
typedef u64 (*fn)(u64);
typedef u64 *word;
enum color { RED, GREEN, BLUE };
typedef enum color color;
/* One of each class of the psABI, 3.2.3, and mixtures. */
typedef struct { char c; } s1;
typedef struct { char c[3]; } s3;
typedef struct { int a; float b; } s8;
typedef struct { long a, b; } s16;
typedef struct { double a, b; } s16d;
typedef struct { double a; long b; } s16m;
typedef struct { long a; float b, c; } s16n;
typedef struct { float a, b, c, d; } s4f;
typedef struct { float a, b, c; } s3f;
typedef struct { long a[3]; } s24;
typedef struct { char a[40]; short b; } s42;
typedef struct { long double x; } sld;
typedef struct __attribute__((packed)) { char a; long b; } spacked;
typedef union { long a; double b; } u8f;

#define SCALAR(T, from, to)                                                 \
	static inline T mk_##T(u64 s) { return (T)(from); }                 \
	static inline u64 fold_##T(T v) { return gen_mix(0x51, (u64)(to)); }
#define STRUCT(T, ...)                                                      \
	static inline T mk_##T(u64 s) { T v = __VA_ARGS__; return v; }
SCALAR(bool, s & 1, v)
SCALAR(schar, s, v)
SCALAR(uchar, s, v)
SCALAR(short, s, v)
SCALAR(ushort_, s, v)
SCALAR(int, s, v)
SCALAR(uint_, s, v)
SCALAR(long_, s, v)
SCALAR(u64, s, v)
SCALAR(text, gen_text + (s & 255), v - gen_text)
SCALAR(anyp, (uintptr_t)s, (uintptr_t)v)
SCALAR(color, s % 3, v)
/* Small whole numbers, which every precision holds. */
SCALAR(float, (int)(s & 0xfff) - 2048, (int64_t)v)
SCALAR(double, (int)(s & 0xfffff) - 2048, (int64_t)v)
SCALAR(ldouble, (int64_t)(s >> 20) - 2048, (int64_t)v)
static inline fn mk_fn(u64 s) { return s & 1 ? gen_identity : gen_square; }
static inline u64 fold_fn(fn v) { return gen_mix(0x52, v(5)); }
static inline word mk_word(u64 s) { return &gen_cells[s & 7]; }
static inline u64 fold_word(word v) { return gen_mix((u64)(v - gen_cells), *v); }
static inline wide mk_wide(u64 s) { return (wide)s << 61 | s; }
static inline u64 fold_wide(wide v) { return gen_mix((u64)(v >> 64), (u64)v); }
static inline cdouble mk_cdouble(u64 s)
{
	cdouble v;

	__real__ v = mk_double(s);
	__imag__ v = mk_double(s >> 20);
	return v;
}
static inline u64 fold_cdouble(cdouble v) { return gen_mix(fold_double(__real__ v), fold_double(__imag__ v)); }

STRUCT(s1, {(char)s})
static inline u64 fold_s1(s1 v) { return gen_mix(1, (uchar)v.c); }
STRUCT(s3, {{(char)s, (char)(s >> 8), (char)(s >> 16)}})
static inline u64 fold_s3(s3 v) { return gen_mix((uchar)v.c[0], gen_mix((uchar)v.c[1], (uchar)v.c[2])); }
STRUCT(s8, {(int)s, mk_float(s >> 32)})
static inline u64 fold_s8(s8 v) { return gen_mix((u64)v.a, fold_float(v.b)); }
STRUCT(s16, {(long)s, (long)~s})
static inline u64 fold_s16(s16 v) { return gen_mix((u64)v.a, (u64)v.b); }
STRUCT(s16d, {mk_double(s), mk_double(s >> 16)})
static inline u64 fold_s16d(s16d v) { return gen_mix(fold_double(v.a), fold_double(v.b)); }
STRUCT(s16m, {mk_double(s), (long)s})
static inline u64 fold_s16m(s16m v) { return gen_mix(fold_double(v.a), (u64)v.b); }
STRUCT(s16n, {(long)s, mk_float(s), mk_float(s >> 12)})
static inline u64 fold_s16n(s16n v) { return gen_mix((u64)v.a, gen_mix(fold_float(v.b), fold_float(v.c))); }
STRUCT(s4f, {mk_float(s), mk_float(s >> 12), mk_float(s >> 24), mk_float(s >> 36)})
static inline u64 fold_s4f(s4f v)
{
	return gen_mix(gen_mix(fold_float(v.a), fold_float(v.b)), gen_mix(fold_float(v.c), fold_float(v.d)));
}
STRUCT(s3f, {mk_float(s), mk_float(s >> 12), mk_float(s >> 24)})
static inline u64 fold_s3f(s3f v) { return gen_mix(gen_mix(fold_float(v.a), fold_float(v.b)), fold_float(v.c)); }
STRUCT(s24, {{(long)s, (long)(s * 3), (long)(s * 5)}})
static inline u64 fold_s24(s24 v) { return gen_mix(gen_mix((u64)v.a[0], (u64)v.a[1]), (u64)v.a[2]); }
static inline s42 mk_s42(u64 s)
{
	s42 v;

	for (int i = 0; i < 40; i++)
		v.a[i] = (char)(s >> i % 57);
	v.b = (short)s;
	return v;
}
static inline u64 fold_s42(s42 v)
{
	u64 h = (u64)v.b;

	for (int i = 0; i < 40; i++)
		h = gen_mix(h, (uchar)v.a[i]);
	return h;
}
STRUCT(sld, {mk_ldouble(s)})
static inline u64 fold_sld(sld v) { return fold_ldouble(v.x); }
STRUCT(spacked, {(char)s, (long)(s * 7)})
static inline u64 fold_spacked(spacked v) { return gen_mix((uchar)v.a, (u64)v.b); }
STRUCT(u8f, {(long)s})
static inline u64 fold_u8f(u8f v) { return gen_mix(3, (u64)v.a); }

/* One function that sets a slot, by number of target; one that calls. */
struct gen_slot {
	int (*set)(unsigned target); /* an etch_error */
	unsigned targets, null;      /* null: the number of the null pointer */
	const char *what;
};
struct gen_site {
	u64 (*call)(u64 a, u64 b);
	unsigned slot[2]; /* of gen_slots: not called while one is null */
	const char *what;
};
extern const struct gen_slot gen_slots[];
extern const unsigned gen_slots_count;
extern const struct gen_site gen_sites[], gen_sites_imv[], gen_sites_cxx[];
extern const unsigned gen_sites_count, gen_sites_imv_count, gen_sites_cxx_count;
int gen_sync(void), gen_release(void);

#ifdef __cplusplus
}
#endif
#endif
