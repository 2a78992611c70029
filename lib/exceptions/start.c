/* SPDX-License-Identifier: MIT */
/*
 * start.c: finds out, before main, whether the runtime that this library stands in for is the libgcc that it knows.
 * If it is not, or cannot be identified, the program's exceptions stay with that runtime.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exceptions/start.h"
#include "unwind/unwind_internal.h"

enum exceptions_mode exceptions_mode;
next_fn *exceptions_next[3];
struct gcc_functions exceptions_gcc;

/* dlsym(3) is missing in a static program. */
extern void *dlsym(void *, const char *) __attribute__((weak));

/* libgcc's functions, in a program that is linked with the archive and its options --wrap. */
extern void __real__Unwind_RaiseException(void) __attribute__((weak));
extern void __real__Unwind_Resume(void) __attribute__((weak));
extern void __real__Unwind_Resume_or_Rethrow(void) __attribute__((weak));

/* The functions that a personality routine calls. */
extern uint64_t _Unwind_GetIP(struct gcc_context *);
extern uint64_t _Unwind_GetIPInfo(struct gcc_context *, int *);
extern uint64_t _Unwind_GetCFA(struct gcc_context *);
extern uint64_t _Unwind_GetGR(struct gcc_context *, int);
extern void _Unwind_SetGR(struct gcc_context *, int, uint64_t);
extern void _Unwind_SetIP(struct gcc_context *, uint64_t);
extern uint64_t _Unwind_GetLanguageSpecificData(struct gcc_context *);
extern uint64_t _Unwind_GetRegionStart(struct gcc_context *);
extern int _Unwind_Backtrace(int (*)(struct gcc_context *, void *), void *);

static const struct gcc_functions seen = {
	.get_ip = _Unwind_GetIP,
	.get_ip_info = _Unwind_GetIPInfo,
	.get_cfa = _Unwind_GetCFA,
	.get_gr = _Unwind_GetGR,
	.set_gr = _Unwind_SetGR,
	.set_ip = _Unwind_SetIP,
	.get_lsda = _Unwind_GetLanguageSpecificData,
	.get_start = _Unwind_GetRegionStart,
	.backtrace = _Unwind_Backtrace,
};

void exceptions_say(const char *words, ...)
{
	char line[512];
	size_t n = 0, size;
	bool first = true;
	va_list ap;

	va_start(ap, words);
	for (const char *w = "libetch-exceptions: "; w; first = false) {
		size = strlen(w);
		if (size > sizeof(line) - 1 - n)
			size = sizeof(line) - 1 - n;
		memcpy(line + n, w, size);
		n += size;
		w = first ? words : va_arg(ap, const char *);
	}
	va_end(ap);
	line[n++] = '\n';
	if (write(2, line, n) < 0)
		return;
}

/* ---- the runtime ------------------------------------------------------------------- */

static const char *file_name(const void *function)
{
	const char *name = function ? loaded_name((uint64_t)(uintptr_t)function) : NULL;
	const char *slash = name ? strrchr(name, '/') : NULL;

	if (slash)
		return slash + 1;
	return name ? name : "";
}

/* Is this function in one of these libraries? The list ends with a null pointer. */
static int is_of(const void *function, const char *const *libraries)
{
	const char *name = file_name(function);

	for (; *libraries; libraries++)
		if (!strncmp(name, *libraries, strlen(*libraries)))
			return 1;
	return 0;
}

static next_fn *next_find(const char *name, next_fn *real)
{
	if (real)
		return real;
	return dlsym ? (next_fn *)dlsym(RTLD_NEXT, name) : NULL;
}

/* Finds the functions of libgcc_s.so.1 itself. */
static void gcc_find(struct gcc_functions *gcc, void *handle)
{
	gcc->get_ip = (__typeof__(gcc->get_ip))dlsym(handle, "_Unwind_GetIP");
	gcc->get_ip_info = (__typeof__(gcc->get_ip_info))dlsym(handle, "_Unwind_GetIPInfo");
	gcc->get_cfa = (__typeof__(gcc->get_cfa))dlsym(handle, "_Unwind_GetCFA");
	gcc->get_gr = (__typeof__(gcc->get_gr))dlsym(handle, "_Unwind_GetGR");
	gcc->set_gr = (__typeof__(gcc->set_gr))dlsym(handle, "_Unwind_SetGR");
	gcc->set_ip = (__typeof__(gcc->set_ip))dlsym(handle, "_Unwind_SetIP");
	gcc->get_lsda = (__typeof__(gcc->get_lsda))dlsym(handle, "_Unwind_GetLanguageSpecificData");
	gcc->get_start = (__typeof__(gcc->get_start))dlsym(handle, "_Unwind_GetRegionStart");
	gcc->backtrace = (__typeof__(gcc->backtrace))dlsym(handle, "_Unwind_Backtrace");
}

static int gcc_is_whole(const struct gcc_functions *gcc)
{
	return gcc->get_ip && gcc->get_ip_info && gcc->get_cfa && gcc->get_gr && gcc->set_gr && gcc->set_ip &&
	       gcc->get_lsda && gcc->get_start && gcc->backtrace;
}

/* Do these functions read and write a context as this library lays it out? */
static int layout_is_known(const struct gcc_functions *gcc)
{
	struct gcc_context c = {.cfa = 0x101, .ra = 0x102, .lsda = 0x103, .function = 0x104};
	int before = 7;

	c.flags = GCC_CONTEXT_EXTENDED;
	memset(c.by_value, 1, sizeof(c.by_value));
	for (unsigned i = 0; i < DWARF_COUNT; i++)
		c.reg[i] = 0x200 + i;
	for (int i = 0; i <= DWARF_RIP; i++)
		if (gcc->get_gr(&c, i) != 0x200 + (uint64_t)i)
			return 0;
	if (gcc->get_ip(&c) != 0x102 || gcc->get_ip_info(&c, &before) != 0x102 || before || gcc->get_cfa(&c) != 0x101 ||
	    gcc->get_lsda(&c) != 0x103 || gcc->get_start(&c) != 0x104)
		return 0;
	gcc->set_gr(&c, DWARF_RAX, 0x301);
	gcc->set_gr(&c, DWARF_RDX, 0x302);
	gcc->set_ip(&c, 0x303);
	return c.reg[DWARF_RAX] == 0x301 && c.reg[DWARF_RDX] == 0x302 && c.ra == 0x303 && c.reg[DWARF_RBX] == 0x203 &&
	       c.cfa == 0x101;
}

/* A callback of libgcc's _Unwind_Backtrace(): compares the context that libgcc hands out with struct gcc_context. */
static int context_meet(struct gcc_context *c, void *arg)
{
	int *known = arg;

	*known = c->flags == GCC_CONTEXT_EXTENDED && !c->version && c->ra == exceptions_gcc.get_ip(c) &&
	         c->cfa == exceptions_gcc.get_cfa(c) && c->lsda == exceptions_gcc.get_lsda(c) &&
	         c->function == exceptions_gcc.get_start(c);
	return REASON_END_OF_STACK;
}

/*
 * Walks one frame. The walk also makes libgcc fill in its table of the sizes of registers, which it does on its first
 * walk. A program with a libgcc of its own may need that table: its libgcc may resume an exception that was raised
 * here, and then the functions of one libgcc read and write the contexts of the other.
 */
static int context_is_known(void)
{
	int known = 0;

	exceptions_gcc.backtrace(context_meet, &known);
	return known;
}

/* With CET, returns are checked against a shadow stack, which a landing would have to keep in step. */
static int has_shadow_stack(void)
{
	uint64_t at = 0;

	__asm__ volatile("rdsspq %0" : "+r"(at));
	return at != 0;
}

static const char *const libgcc[] = {"libgcc_s.so", NULL};
static const char *const readers[] = {"libgcc_s.so", "libetch-unwind.so", NULL};
static const char *const passers[] = {"libgcc_s.so", "libasan.so", "libtsan.so", "libclang_rt.", NULL};

/* Is libgcc linked into the program, and this library too? */
static int is_static(void)
{
	struct prepare_image own, gcc;

	return __real__Unwind_RaiseException && loaded_image((uint64_t)(uintptr_t)&exceptions_mode, &own) &&
	       loaded_image((uint64_t)(uintptr_t)exceptions_next[0], &gcc) && own.start == gcc.start;
}

/* Finds libgcc's own functions. Returns why exceptions stay with the other runtime; null if they need not. */
static const char *why_not_gcc(void)
{
	__typeof__(&dlclose) close_fn;
	__typeof__(&dlopen) open_fn;
	void *handle;

	if (is_static()) {
		exceptions_gcc = seen;
		return NULL;
	}
	/* By name, because the linker warns about a static program that refers to dlopen(3). */
	open_fn = dlsym ? (__typeof__(open_fn))dlsym(RTLD_DEFAULT, "dlopen") : NULL;
	close_fn = dlsym ? (__typeof__(close_fn))dlsym(RTLD_DEFAULT, "dlclose") : NULL;
	handle = open_fn && close_fn ? open_fn("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (!handle)
		return "libgcc_s.so.1 is not loaded";
	gcc_find(&exceptions_gcc, handle);
	close_fn(handle);
	if (!gcc_is_whole(&exceptions_gcc))
		return "libgcc_s.so.1 lacks a function";
	for (unsigned i = 0; i < 3; i++)
		if (!is_of((const void *)exceptions_next[i], passers))
			return "exceptions are raised by another library than libgcc_s.so.1";
	if (!is_of((const void *)seen.get_ip, readers) || !is_of((const void *)seen.set_gr, readers) ||
	    !is_of((const void *)exceptions_gcc.get_ip, libgcc))
		return "another library than libgcc_s.so.1 reads the contexts of exceptions";
	return NULL;
}

static const char *why_not(const char *setting)
{
	const char *why;

	if (setting && !strcmp(setting, "0"))
		return "ETCH_EXCEPTIONS=0";
	if (has_shadow_stack())
		return "the processor keeps a shadow stack";
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));

	if (!_dl_find_object)
#endif
		return "this libc has no _dl_find_object()";
	why = why_not_gcc();
	if (!why && (!layout_is_known(&exceptions_gcc) || !layout_is_known(&seen) || !context_is_known()))
		why = "the contexts of this libgcc have an unknown layout";
	return why;
}

static void start_say(const char *why, const char *checked)
{
	char callers[256];

	if (why)
		exceptions_say("not in use: ", why, NULL);
	else if (is_static())
		exceptions_say("in use", checked, NULL);
	else if (callers_list(callers, sizeof(callers)))
		exceptions_say("in use by ", callers, checked, NULL);
	else
		exceptions_say("not in use yet: no loaded file raises its exceptions through libgcc_s.so.1", NULL);
}

void exceptions_start(void)
{
	const char *setting = secure_getenv("ETCH_EXCEPTIONS"), *verbose = secure_getenv("ETCH_UNWIND_VERBOSE"), *why;
	enum exceptions_mode mode = EXCEPTIONS_ON;
	static int started;

	exceptions_next[0] = next_find("_Unwind_RaiseException", __real__Unwind_RaiseException);
	exceptions_next[1] = next_find("_Unwind_Resume", __real__Unwind_Resume);
	exceptions_next[2] = next_find("_Unwind_Resume_or_Rethrow", __real__Unwind_Resume_or_Rethrow);
	/* If two threads come here at once, the second one's exception is handled by libgcc. */
	if (__atomic_exchange_n(&started, 1, __ATOMIC_ACQ_REL))
		return;
	why = why_not(setting);
	if (why)
		mode = EXCEPTIONS_OFF;
	else if (setting && !strcmp(setting, "check"))
		mode = EXCEPTIONS_CHECK;
	else if (setting && !strcmp(setting, "abi"))
		mode = EXCEPTIONS_ABI;
	if (verbose && *verbose == '1')
		start_say(why, mode == EXCEPTIONS_CHECK ? ", checked" : NULL);
	__atomic_store_n(&exceptions_mode, mode, __ATOMIC_RELEASE);
}

static __attribute__((constructor(102))) void start(void)
{
	if (__atomic_load_n(&exceptions_mode, __ATOMIC_ACQUIRE) == EXCEPTIONS_UNKNOWN)
		exceptions_start();
}
