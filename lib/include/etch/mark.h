/* SPDX-License-Identifier: MIT */
/*
 * etch/mark.h: markers, places in a program that call what is attached to them while it runs.
 *
 *     #include <etch/mark.h>
 *
 *     ETCH_MARK(request, fd, url);         // in the program: a name, and up to eight arguments
 *
 *     static void on_request(void *data, const struct etch_mark *mark, int fd, const char *url) { ... }
 *     etch_mark_attach("request", on_request, NULL);   // every site of the name, while all threads run
 *     etch_mark_detach("request", on_request, NULL);   // no thread is in on_request any more
 *
 * A marker to which nothing is attached is one nop of five bytes, and its arguments are not evaluated. While
 * something is attached it is a jump to code out of line, which evaluates the arguments once and calls each attached
 * function. It needs libetch, but not the tool: libetch changes the instruction even in a program that etch rewrite
 * has never seen. It does so as an etch_set (etch/imv.h) does: at all sites or at none, while all threads run.
 *
 * NAMES are C identifiers. The same name may be at any number of places and in any number of modules. Each attachment
 * stands until it is detached: markers of modules that are loaded later are called too.
 *
 * ARGUMENTS undergo the default promotions: a char or short arrives as int, a float as double, an array as a pointer;
 * a function may declare those types, or `...` and read them with va_arg, by mark->type. The types are not checked:
 * attach by a pattern only functions that take `...` or no arguments. (The psABI, 3.2.3 and 3.5.7, lets a function
 * with fixed parameters be called as one with `...`.)
 *
 * CALLBACKS run in the thread that comes to the marker, wherever that is, possibly in a signal handler or under locks
 * of the program. They may use whatever that place may use; they may set, attach and detach where that is allowed
 * (not in signal handlers). They must preserve errno. They must return: after longjmp(3), an exception or the end of
 * the thread inside a callback, a later detach may wait for ever.
 *
 * DETACHING. When etch_mark_detach has returned, no thread is in the detached function because of that attachment,
 * none will enter it, and its data may be freed. It waits for the callbacks that run. Called from within a callback,
 * it does not wait, and a marker that is being called still calls the functions that were attached when it began. A
 * library must detach its functions before dlclose(3).
 *
 * fork(2): the child keeps the attachments. Thread safety: all functions may be called from any thread. Signal
 * safety: only ETCH_MARK may be used in a signal handler.
 */
#ifndef ETCH_MARK_H
#define ETCH_MARK_H

#include <etch/branch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- attaching ------------------------------------------------------------- */

typedef void etch_mark_fn(void *data, const struct etch_mark *mark, ...);
long etch_mark_attach(const char *pattern, etch_mark_fn *function, void *data);
long etch_mark_detach(const char *pattern, etch_mark_fn *function, void *data);

/*
 * etch_mark_attach(pattern, function, data): calls function(data, mark, arguments...) at every marker whose name
 * matches the pattern: `*` stands for any characters, `?` for one. Returns the number of sites that match now, 0 or
 * more; or a negative etch_error, and then nothing has changed: -ETCH_EINVAL (null, or a pattern of more than 127
 * characters), -ETCH_ENOMEM, or what etch_set returns. A function that is attached twice is called twice. Functions
 * are called in the order in which they were attached.
 */
#define etch_mark_attach(pattern, function, data) (etch_mark_attach)((pattern), ETCH_MARK_FN_(function), (data))
/*
 * etch_mark_detach(pattern, function, data): undoes one etch_mark_attach with the same three arguments. Returns 0, or
 * -ETCH_EINVAL if there is none. If the system does not let libetch put an instruction back, the marker stays a jump
 * to code that calls nothing.
 */
#define etch_mark_detach(pattern, function, data) (etch_mark_detach)((pattern), ETCH_MARK_FN_(function), (data))
#ifdef __cplusplus
#define ETCH_MARK_FN_(function) (reinterpret_cast<etch_mark_fn *>(reinterpret_cast<void (*)()>(function)))
#else
#define ETCH_MARK_FN_(function) ((etch_mark_fn *)(void (*)(void))(function))
#endif

/* Calls `see` for each site of each loaded module, in no particular order, under libetch's lock: it must not call
 * etch or the dynamic linker. on: something is attached. Returns the number of sites. */
long etch_mark_each(void (*see)(void *arg, const struct etch_mark *mark, int on), void *arg);

/* A marker's name, its source file, and the text of its arguments ("fd, url"). */
static inline const char *etch_mark_name(const struct etch_mark *mark)
{
	return (const char *)&mark->name + mark->name;
}
static inline const char *etch_mark_file(const struct etch_mark *mark)
{
	return (const char *)&mark->file + mark->file;
}
static inline const char *etch_mark_args(const struct etch_mark *mark)
{
	const char *text = (const char *)&mark->args + mark->args;

	while (*text && *text != ',')
		text++;
	while (*text == ',' || *text == ' ')
		text++;
	return text;
}

/* ---- what ETCH_MARK is made of ------------------------------------------------- */

/* One call that a marker makes: an attached function and its data. */
struct etch_mark_call_ {
	etch_mark_fn *fn; /* null after the last one */
	void *data;
};
struct etch_mark_head {
	const struct etch_mark_call_ *calls;
	const struct etch_mark_call_ *pending; /* only libetch uses it */
};

/* A thread that comes to markers. active: the generation in which it entered the outermost marker; 0 while it is in
 * none. */
struct etch_mark_reader_ {
	unsigned long active;
};
extern __thread struct etch_mark_reader_ *etch_mark_self_ __attribute__((tls_model("initial-exec")));
extern unsigned long etch_mark_generation_;
/* Makes a reader for this thread; null without memory: then nothing is called. Async-signal-safe. */
struct etch_mark_reader_ *etch_mark_register_(void);

/* Not static, because inline functions with external linkage may call them. */
#ifdef __cplusplus
#define ETCH_MARK_INLINE_ inline __attribute__((always_inline))
#else
#define ETCH_MARK_INLINE_ extern inline __attribute__((gnu_inline, always_inline))
#endif

/*
 * A reader stores `active` before it loads the calls, a detach stores the calls before it loads
 * `active`, and the membarrier(2) of the detach orders both sides. A signal handler that comes to a
 * marker in between leaves `active` as it was.
 */
ETCH_MARK_INLINE_ struct etch_mark_reader_ *etch_mark_enter_(unsigned long *before)
{
	struct etch_mark_reader_ *r = etch_mark_self_;

	if (__builtin_expect(!r, 0))
		r = etch_mark_register_();
	if (__builtin_expect(!r, 0))
		return r;
	*before = __atomic_load_n(&r->active, __ATOMIC_RELAXED);
	if (!*before)
		__atomic_store_n(&r->active, __atomic_load_n(&etch_mark_generation_, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__asm__ __volatile__("" ::: "memory");
	return r;
}
ETCH_MARK_INLINE_ void etch_mark_leave_(struct etch_mark_reader_ *r, unsigned long before)
{
	__atomic_store_n(&r->active, before, __ATOMIC_RELEASE);
}

/* The head of a name; a module has one for each name. */
#define ETCH_MARK_HEAD_(name)                                                                          \
	".ifndef etch_mark_" name "\n\t"                                                                   \
	".pushsection " ETCH_SEC_MARK_HEAD ",\"awG\",@progbits,etch_mark_" name ",comdat\n\t.balign 8\n\t" \
	".weak etch_mark_" name "\n\t.hidden etch_mark_" name "\n\t.type etch_mark_" name ", @object\n\t"  \
	".size etch_mark_" name ", 16\netch_mark_" name ":\t.quad 0, 0\n\t.popsection\n\t.endif\n\t"
/* A struct etch_mark, made of named operands. */
#define ETCH_MARK_INFO_                                                                                      \
	".long %c[etch_n] - ., %c[etch_t] - ., %c[etch_f] - ., %c[etch_l]\n\t"                                   \
	".byte %c[etch_c], %c[etch_1], %c[etch_2], %c[etch_3], %c[etch_4], %c[etch_5], %c[etch_6], %c[etch_7], " \
	"%c[etch_8]\n\t"                                                                                         \
	".zero 7\n\t"
#define ETCH_MARK_OPERANDS_(name, text, n, t1, t2, t3, t4, t5, t6, t7, t8)                                          \
	[etch_n] "i"(name), [etch_t] "i"(text), [etch_f] "i"(__FILE__), [etch_l] "i"(__LINE__), [etch_c] "i"(n),        \
		[etch_1] "i"(t1), [etch_2] "i"(t2), [etch_3] "i"(t3), [etch_4] "i"(t4), [etch_5] "i"(t5), [etch_6] "i"(t6), \
		[etch_7] "i"(t7), [etch_8] "i"(t8)

#define ETCH_MARK_(id, text, n, t1, t2, t3, t4, t5, t6, t7, t8, declare, values)                           \
	ETCH_GOTO_OPEN_                                                                                        \
	__label__ etch_on_;                                                                                    \
	__asm__ goto(ETCH_BRANCH_ALIGN_ "771:\t.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t" ETCH_MARK_HEAD_(        \
		#id) ".pushsection " ETCH_SEC_MARK ",\"aR?\",@progbits\n\t.balign 4\n\t"                           \
	         ".long 771b - ., %l[etch_on_] - ., etch_mark_" #id " - .\n\t" ETCH_MARK_INFO_                 \
	         ".popsection" ::ETCH_MARK_OPERANDS_(#id, text, n, t1, t2, t3, t4, t5, t6, t7, t8)::etch_on_); \
	if (0) {                                                                                               \
etch_on_:                                                                                                  \
		ETCH_MARK_COLD_                                                                                    \
		{                                                                                                  \
			extern struct etch_mark_head etch_mark_head_##id __asm__("etch_mark_" #id)                     \
				__attribute__((visibility("hidden")));                                                     \
			const struct etch_mark *etch_m_;                                                               \
			const struct etch_mark_call_ *etch_c_;                                                         \
			struct etch_mark_reader_ *etch_r_;                                                             \
			unsigned long etch_o_;                                                                         \
			declare __asm__(".pushsection " ETCH_SEC_MARK_INFO ",\"a?\",@progbits\n\t.balign 4\n"          \
			                "772:\t" ETCH_MARK_INFO_                                                       \
			                ".popsection\n\t{leaq 772b(%%rip), %[etch_m]|lea %[etch_m], 772b[rip]}"        \
			                : [etch_m] "=r"(etch_m_)                                                       \
			                : ETCH_MARK_OPERANDS_(#id, text, n, t1, t2, t3, t4, t5, t6, t7, t8));          \
			etch_r_ = etch_mark_enter_(&etch_o_);                                                          \
			if (etch_r_) {                                                                                 \
				etch_c_ = __atomic_load_n(&etch_mark_head_##id.calls, __ATOMIC_ACQUIRE);                   \
				for (; etch_c_ && etch_c_->fn; etch_c_++)                                                  \
					etch_c_->fn values;                                                                    \
				etch_mark_leave_(etch_r_, etch_o_);                                                        \
			}                                                                                              \
		}                                                                                                  \
	}                                                                                                      \
	(void)0;                                                                                               \
	ETCH_GOTO_CLOSE_
#ifdef __clang__
#define ETCH_MARK_COLD_ ;
#else
#define ETCH_MARK_COLD_ __attribute__((cold));
#endif

/*
 * ETCH_MARK(name, arguments...): the marker, a statement. The name is an identifier; the 0 to 8
 * arguments are of scalar type, and are not evaluated while nothing is attached.
 */
#define ETCH_MARK(...)                                      ETCH_MARK_PICK_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)(#__VA_ARGS__, __VA_ARGS__)
#define ETCH_MARK_PICK_(id, a, b, c, d, e, f, g, h, n, ...) ETCH_MARK_##n##_
#define ETCH_MARK_0_(text, id) \
	ETCH_MARK_(id, text, 0, 0, 0, 0, 0, 0, 0, 0, 0, ETCH_MARK_NOTHING_, (etch_c_->data, etch_m_))
#define ETCH_MARK_1_(text, id, a)                                                                    \
	ETCH_MARK_(id, text, 1, ETCH_MARK_TYPE_(a), 0, 0, 0, 0, 0, 0, 0, ETCH_MARK_ARG_(a, etch_arg_a_), \
	           (etch_c_->data, etch_m_, etch_arg_a_))
#define ETCH_MARK_2_(text, id, a, b)                                                  \
	ETCH_MARK_(id, text, 2, ETCH_MARK_TYPE_(a), ETCH_MARK_TYPE_(b), 0, 0, 0, 0, 0, 0, \
	           ETCH_MARK_ARG_(a, etch_arg_a_) ETCH_MARK_ARG_(b, etch_arg_b_),         \
	           (etch_c_->data, etch_m_, etch_arg_a_, etch_arg_b_))
#define ETCH_MARK_3_(text, id, a, b, c)                                                                      \
	ETCH_MARK_(id, text, 3, ETCH_MARK_TYPE_(a), ETCH_MARK_TYPE_(b), ETCH_MARK_TYPE_(c), 0, 0, 0, 0, 0,       \
	           ETCH_MARK_ARG_(a, etch_arg_a_) ETCH_MARK_ARG_(b, etch_arg_b_) ETCH_MARK_ARG_(c, etch_arg_c_), \
	           (etch_c_->data, etch_m_, etch_arg_a_, etch_arg_b_, etch_arg_c_))
#define ETCH_MARK_4_(text, id, a, b, c, d)                                                                           \
	ETCH_MARK_(id, text, 4, ETCH_MARK_TYPE_(a), ETCH_MARK_TYPE_(b), ETCH_MARK_TYPE_(c), ETCH_MARK_TYPE_(d), 0, 0, 0, \
	           0,                                                                                                    \
	           ETCH_MARK_ARG_(a, etch_arg_a_) ETCH_MARK_ARG_(b, etch_arg_b_) ETCH_MARK_ARG_(c, etch_arg_c_)          \
	               ETCH_MARK_ARG_(d, etch_arg_d_),                                                                   \
	           (etch_c_->data, etch_m_, etch_arg_a_, etch_arg_b_, etch_arg_c_, etch_arg_d_))
#define ETCH_MARK_5_(text, id, a, b, c, d, e)                                                               \
	ETCH_MARK_(id, text, 5, ETCH_MARK_TYPE_(a), ETCH_MARK_TYPE_(b), ETCH_MARK_TYPE_(c), ETCH_MARK_TYPE_(d), \
	           ETCH_MARK_TYPE_(e), 0, 0, 0,                                                                 \
	           ETCH_MARK_ARG_(a, etch_arg_a_) ETCH_MARK_ARG_(b, etch_arg_b_) ETCH_MARK_ARG_(c, etch_arg_c_) \
	               ETCH_MARK_ARG_(d, etch_arg_d_) ETCH_MARK_ARG_(e, etch_arg_e_),                           \
	           (etch_c_->data, etch_m_, etch_arg_a_, etch_arg_b_, etch_arg_c_, etch_arg_d_, etch_arg_e_))
#define ETCH_MARK_6_(text, id, a, b, c, d, e, f)                                                                 \
	ETCH_MARK_(id, text, 6, ETCH_MARK_TYPE_(a), ETCH_MARK_TYPE_(b), ETCH_MARK_TYPE_(c), ETCH_MARK_TYPE_(d),      \
	           ETCH_MARK_TYPE_(e), ETCH_MARK_TYPE_(f), 0, 0,                                                     \
	           ETCH_MARK_ARG_(a, etch_arg_a_) ETCH_MARK_ARG_(b, etch_arg_b_) ETCH_MARK_ARG_(c, etch_arg_c_)      \
	               ETCH_MARK_ARG_(d, etch_arg_d_) ETCH_MARK_ARG_(e, etch_arg_e_) ETCH_MARK_ARG_(f, etch_arg_f_), \
	           (etch_c_->data, etch_m_, etch_arg_a_, etch_arg_b_, etch_arg_c_, etch_arg_d_, etch_arg_e_, etch_arg_f_))
#define ETCH_MARK_7_(text, id, a, b, c, d, e, f, g)                                                                   \
	ETCH_MARK_(id, text, 7, ETCH_MARK_TYPE_(a), ETCH_MARK_TYPE_(b), ETCH_MARK_TYPE_(c), ETCH_MARK_TYPE_(d),           \
	           ETCH_MARK_TYPE_(e), ETCH_MARK_TYPE_(f), ETCH_MARK_TYPE_(g), 0,                                         \
	           ETCH_MARK_ARG_(a, etch_arg_a_) ETCH_MARK_ARG_(b, etch_arg_b_) ETCH_MARK_ARG_(c, etch_arg_c_)           \
	               ETCH_MARK_ARG_(d, etch_arg_d_) ETCH_MARK_ARG_(e, etch_arg_e_) ETCH_MARK_ARG_(f, etch_arg_f_)       \
	                   ETCH_MARK_ARG_(g, etch_arg_g_),                                                                \
	           (etch_c_->data, etch_m_, etch_arg_a_, etch_arg_b_, etch_arg_c_, etch_arg_d_, etch_arg_e_, etch_arg_f_, \
	            etch_arg_g_))
#define ETCH_MARK_8_(text, id, a, b, c, d, e, f, g, h)                                                                \
	ETCH_MARK_(id, text, 8, ETCH_MARK_TYPE_(a), ETCH_MARK_TYPE_(b), ETCH_MARK_TYPE_(c), ETCH_MARK_TYPE_(d),           \
	           ETCH_MARK_TYPE_(e), ETCH_MARK_TYPE_(f), ETCH_MARK_TYPE_(g), ETCH_MARK_TYPE_(h),                        \
	           ETCH_MARK_ARG_(a, etch_arg_a_) ETCH_MARK_ARG_(b, etch_arg_b_) ETCH_MARK_ARG_(c, etch_arg_c_)           \
	               ETCH_MARK_ARG_(d, etch_arg_d_) ETCH_MARK_ARG_(e, etch_arg_e_) ETCH_MARK_ARG_(f, etch_arg_f_)       \
	                   ETCH_MARK_ARG_(g, etch_arg_g_) ETCH_MARK_ARG_(h, etch_arg_h_),                                 \
	           (etch_c_->data, etch_m_, etch_arg_a_, etch_arg_b_, etch_arg_c_, etch_arg_d_, etch_arg_e_, etch_arg_f_, \
	            etch_arg_g_, etch_arg_h_))
#define ETCH_MARK_NOTHING_

#ifdef __cplusplus
}

#define ETCH_MARK_ARG_(value, variable) auto variable = (value);
#define ETCH_MARK_TYPE_(value)          (etch_mark_type_of_<typename etch_plain_<__typeof__(value)>::type>::code)
extern "C++" {
/* The type of an enumeration, by its size. */
template <unsigned long size> struct etch_mark_enum_type_ {
	enum { code = ETCH_MARK_I8 };
};
template <> struct etch_mark_enum_type_<2> {
	enum { code = ETCH_MARK_I16 };
};
template <> struct etch_mark_enum_type_<4> {
	enum { code = ETCH_MARK_I32 };
};
template <> struct etch_mark_enum_type_<8> {
	enum { code = ETCH_MARK_I64 };
};
template <class T> struct etch_mark_type_of_ {
	enum { code = __is_enum(T) ? (int)etch_mark_enum_type_<sizeof(T)>::code : (int)ETCH_MARK_OTHER };
};
template <class T> struct etch_mark_type_of_<T *> {
	enum { code = ETCH_MARK_POINTER };
};
#define ETCH_MARK_IS_(type, number)               \
	template <> struct etch_mark_type_of_<type> { \
		enum { code = number };                   \
	}
#define ETCH_MARK_IS_ARRAY_(type)                                         \
	ETCH_MARK_IS_(type *, ETCH_MARK_STRING);                              \
	ETCH_MARK_IS_(const type *, ETCH_MARK_STRING);                        \
	template <unsigned long n> struct etch_mark_type_of_<type[n]> {       \
		enum { code = ETCH_MARK_STRING };                                 \
	};                                                                    \
	template <unsigned long n> struct etch_mark_type_of_<const type[n]> { \
		enum { code = ETCH_MARK_STRING };                                 \
	}
template <class T, unsigned long n> struct etch_mark_type_of_<T[n]> {
	enum { code = ETCH_MARK_POINTER };
};
ETCH_MARK_IS_(bool, ETCH_MARK_BOOL);
ETCH_MARK_IS_(char, ETCH_MARK_I8);
ETCH_MARK_IS_(signed char, ETCH_MARK_I8);
ETCH_MARK_IS_(unsigned char, ETCH_MARK_U8);
ETCH_MARK_IS_(short, ETCH_MARK_I16);
ETCH_MARK_IS_(unsigned short, ETCH_MARK_U16);
ETCH_MARK_IS_(int, ETCH_MARK_I32);
ETCH_MARK_IS_(unsigned int, ETCH_MARK_U32);
ETCH_MARK_IS_(long, ETCH_MARK_I64);
ETCH_MARK_IS_(unsigned long, ETCH_MARK_U64);
ETCH_MARK_IS_(long long, ETCH_MARK_I64);
ETCH_MARK_IS_(unsigned long long, ETCH_MARK_U64);
ETCH_MARK_IS_(float, ETCH_MARK_DOUBLE);
ETCH_MARK_IS_(double, ETCH_MARK_DOUBLE);
ETCH_MARK_IS_(long double, ETCH_MARK_LONG_DOUBLE);
ETCH_MARK_IS_ARRAY_(char);
#undef ETCH_MARK_IS_
#undef ETCH_MARK_IS_ARRAY_
}
#else
#define ETCH_MARK_ARG_(value, variable) __typeof__(1 ? (value) : (value)) variable = (value);
/* 5 is the number of pointers in gcc's and clang's __builtin_classify_type. */
#define ETCH_MARK_TYPE_(value) \
	_Generic((value), _Bool                                                                  \
	         : ETCH_MARK_BOOL, char                                                          \
	         : ETCH_MARK_I8, signed char                                                     \
	         : ETCH_MARK_I8, unsigned char                                                   \
	         : ETCH_MARK_U8, short                                                           \
	         : ETCH_MARK_I16, unsigned short                                                 \
	         : ETCH_MARK_U16, int                                                            \
	         : ETCH_MARK_I32, unsigned int                                                   \
	         : ETCH_MARK_U32, long                                                           \
	         : ETCH_MARK_I64, unsigned long                                                  \
	         : ETCH_MARK_U64, long long                                                      \
	         : ETCH_MARK_I64, unsigned long long                                             \
	         : ETCH_MARK_U64, float                                                          \
	         : ETCH_MARK_DOUBLE, double                                                      \
	         : ETCH_MARK_DOUBLE, long double                                                 \
	         : ETCH_MARK_LONG_DOUBLE, char *                                                 \
	         : ETCH_MARK_STRING, const char *                                                \
	         : ETCH_MARK_STRING, default                                                     \
	         : __builtin_classify_type(value) == 5 ? ETCH_MARK_POINTER : ETCH_MARK_OTHER)
#endif
#endif
