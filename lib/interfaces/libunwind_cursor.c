/* SPDX-License-Identifier: MIT */
/*
 * libunwind_cursor.c: libunwind's local cursors (libunwind.h with UNW_LOCAL_ONLY, libunwind-x86_64.h; the manual
 * pages unw_init_local(3), unw_step(3), unw_get_reg(3) and so on), under the names that its macros give them.
 *
 * libunwind raises exceptions through the same functions, and a program may make cursors with functions that are not
 * here (for a core file, for example). So a call that comes from libunwind itself, or whose cursor was not made here,
 * goes on to libunwind's function; and before a cursor that was made here is resumed or changed, it is turned into
 * one of libunwind's.
 */
#include <ucontext.h>

#include "interfaces/frame_walk.h"
#include "interfaces/function_info.h"
#include "interfaces/interfaces.h"
#include "interfaces/next.h"
#include "interfaces/own_tables.h"

/* enum unw_error_t, negated */
enum {
	ERROR_NOMEM = -2,
	ERROR_BADREG = -3,
	ERROR_BADFRAME = -7,
	ERROR_INVAL = -8,
	ERROR_NOINFO = -10,
	ERROR_READONLYREG = -4,
	ERROR_UNSPEC = -1,
};

#define UNW_INIT_SIGNAL_FRAME 1
#define UNW_RSP               7
#define UNW_CFA               17

#define CURSOR_WORDS 127 /* UNW_TDEP_CURSOR_LEN */

struct unw_cursor {
	uint64_t tag[2];
	struct frame_walk walk;
	ucontext_t *context; /* the context that the cursor began with */
	uint32_t steps;
	int flags;
	int may_make_tables;
};

_Static_assert(sizeof(struct unw_cursor) <= CURSOR_WORDS * 8, "a cursor fits");

struct unw_proc_info {
	uint64_t start_ip, end_ip, lsda, handler, gp, flags;
	int format, unwind_info_size;
	void *unwind_info;
	char extra;
};

/* These are no addresses: libunwind's cursors begin with a pointer, or 0. */
#define TAG_0 0x5ee4c0de6375727au
#define TAG_1 0x736f72206574ca11u

/* Set in uc_flags by _Ux86_64_getcontext: rip is a return address. */
#define CONTEXT_MARK 0x6574636875637478u
/* The flags that the kernel sets there: UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS (asm/ucontext.h). */
#define KERNEL_FLAGS 7u
/* The code segment of 64-bit programs (asm/segment.h). */
#define USER_CS 0x33

int _ULx86_64_init_local(struct unw_cursor *c, ucontext_t *context);
int _ULx86_64_init_local2(struct unw_cursor *c, ucontext_t *context, int flags);
int _ULx86_64_step(struct unw_cursor *c);
int _ULx86_64_get_reg(struct unw_cursor *c, int reg, uint64_t *value);
int _ULx86_64_set_reg(struct unw_cursor *c, int reg, uint64_t value);
int _ULx86_64_get_fpreg(struct unw_cursor *c, int reg, long double *value);
int _ULx86_64_set_fpreg(struct unw_cursor *c, int reg, long double value);
int _ULx86_64_get_save_loc(struct unw_cursor *c, int reg, void *where);
int _ULx86_64_get_proc_info(struct unw_cursor *c, struct unw_proc_info *info);
int _ULx86_64_get_proc_name(struct unw_cursor *c, char *name, size_t size, uint64_t *offset);
int _ULx86_64_is_signal_frame(struct unw_cursor *c);
int _ULx86_64_resume(struct unw_cursor *c);
int _ULx86_64_apply_reg_state(struct unw_cursor *c, void *state);
int _ULx86_64_reg_states_iterate(struct unw_cursor *c, void *callback, void *token);

/* Calls libunwind's function, or returns an error if there is no libunwind. */
#define GO_ON(which, name, ...)                                   \
	({                                                            \
		__typeof__(&name) go_on = NEXT(which, __typeof__(&name)); \
		go_on ? go_on(__VA_ARGS__) : ERROR_INVAL;                 \
	})

static inline int is_ours(const struct unw_cursor *c) { return c->tag[0] == TAG_0 && c->tag[1] == TAG_1; }

/* ---- init -------------------------------------------------------------------------- */

/*
 * Is rip of the context an interrupted instruction? It is one in a context that the kernel gives to a signal handler,
 * which many programs pass on without UNW_INIT_SIGNAL_FRAME.
 */
static int is_interrupted(const ucontext_t *u)
{
	return u->uc_flags != CONTEXT_MARK && !(u->uc_flags & ~(unsigned long)KERNEL_FLAGS) &&
	       (u->uc_mcontext.gregs[REG_CSGSFS] & 0xffff) == USER_CS;
}

static int cursor_init(struct unw_cursor *c, ucontext_t *u, int flags)
{
	frame_walk_from(&c->walk, u);
	c->may_make_tables = u->uc_flags == CONTEXT_MARK;
	if (!(flags & UNW_INIT_SIGNAL_FRAME) && !is_interrupted(u)) {
		c->walk.cursor.interrupted = c->walk.behind.interrupted = 0;
		c->walk.cursor.saved = NULL;
	} else {
		cursor_fault(&c->walk.cursor);
	}
	c->context = u;
	c->steps = 0;
	c->flags = flags;
	c->tag[0] = TAG_0;
	c->tag[1] = TAG_1;
	return 0;
}

INTERFACE int _ULx86_64_init_local(struct unw_cursor *c, ucontext_t *context)
{
	if (next_is_libunwind(__builtin_return_address(0)))
		return GO_ON(NEXT_INIT_LOCAL, _ULx86_64_init_local, c, context);
	return cursor_init(c, context, 0);
}

INTERFACE int _ULx86_64_init_local2(struct unw_cursor *c, ucontext_t *context, int flags)
{
	if (flags & ~UNW_INIT_SIGNAL_FRAME)
		return ERROR_INVAL;
	return cursor_init(c, context, flags);
}

/* Turns the cursor into a cursor of libunwind at the same frame. Returns 0, or an error if that is impossible. */
static int cursor_yield(struct unw_cursor *c)
{
	const struct unw_cursor was = *c;
	__typeof__(&_ULx86_64_init_local2) init = NEXT(NEXT_INIT_LOCAL2, __typeof__(init));
	__typeof__(&_ULx86_64_get_reg) get = NEXT(NEXT_GET_REG, __typeof__(get));
	__typeof__(&_ULx86_64_step) step = NEXT(NEXT_STEP, __typeof__(step));
	uint64_t ip = 0, sp = 0;
	int ret;

	if (!init || !get || !step)
		return ERROR_UNSPEC;
	ret = init(c, was.context, was.flags);
	for (uint32_t i = 0; ret >= 0 && i < was.steps; i++)
		ret = step(c);
	if (ret >= 0 && !get(c, ETCH_RIP, &ip) && !get(c, UNW_RSP, &sp) && ip == was.walk.cursor.reg[ETCH_RIP] &&
	    sp == was.walk.cursor.reg[ETCH_RSP])
		return 0;
	*c = was;
	return ERROR_UNSPEC;
}

/* ---- steps and registers ----------------------------------------------------------- */

static __attribute__((noinline)) int step_failed(struct unw_cursor *c, int ret)
{
	if (c->may_make_tables) {
		c->may_make_tables = 0;
		own_tables_after(&c->walk.cursor);
	}
	switch (ret) {
	case ETCH_UNWIND_END: return 0;
	case ETCH_UNWIND_NOTABLE:
	case ETCH_UNWIND_UNDEFINED: return ERROR_NOINFO;
	case ETCH_UNWIND_REGISTER: return ERROR_BADREG;
	default: return ERROR_BADFRAME;
	}
}

static __attribute__((noinline)) int step_next(struct unw_cursor *c) { return GO_ON(NEXT_STEP, _ULx86_64_step, c); }

INTERFACE int _ULx86_64_step(struct unw_cursor *c)
{
	int ret;

	if (__builtin_expect(!is_ours(c), 0))
		return step_next(c);
	ret = frame_walk_step(&c->walk);
	if (__builtin_expect(ret != ETCH_UNWIND_OK, 0))
		return step_failed(c, ret);
	c->steps++;
	return 1;
}

static __attribute__((noinline)) int get_any_reg(struct unw_cursor *c, int reg, uint64_t *value)
{
	if (!is_ours(c))
		return GO_ON(NEXT_GET_REG, _ULx86_64_get_reg, c, reg, value);
	if (reg == UNW_CFA)
		reg = UNW_RSP;
	if (reg < 0 || reg > ETCH_RIP || !frame_walk_register(&c->walk, frame_walk_dwarf((unsigned)reg), value))
		return ERROR_BADREG;
	return 0;
}

INTERFACE int _ULx86_64_get_reg(struct unw_cursor *c, int reg, uint64_t *value)
{
	if (__builtin_expect(!is_ours(c) || (reg != ETCH_RIP && reg != UNW_RSP), 0))
		return get_any_reg(c, reg, value);
	*value = c->walk.cursor.reg[reg == ETCH_RIP ? ETCH_RIP : ETCH_RSP];
	return 0;
}

INTERFACE int _ULx86_64_set_reg(struct unw_cursor *c, int reg, uint64_t value)
{
	if (is_ours(c) && cursor_yield(c))
		return ERROR_READONLYREG;
	return GO_ON(NEXT_SET_REG, _ULx86_64_set_reg, c, reg, value);
}

/* No floating-point register is preserved across a call. */
INTERFACE int _ULx86_64_get_fpreg(struct unw_cursor *c, int reg, long double *value)
{
	return is_ours(c) ? ERROR_BADREG : GO_ON(NEXT_GET_FPREG, _ULx86_64_get_fpreg, c, reg, value);
}

INTERFACE int _ULx86_64_set_fpreg(struct unw_cursor *c, int reg, long double value)
{
	return is_ours(c) ? ERROR_BADREG : GO_ON(NEXT_SET_FPREG, _ULx86_64_set_fpreg, c, reg, value);
}

INTERFACE int _ULx86_64_get_save_loc(struct unw_cursor *c, int reg, void *where)
{
	if (is_ours(c) && cursor_yield(c))
		return ERROR_UNSPEC;
	return GO_ON(NEXT_GET_SAVE_LOC, _ULx86_64_get_save_loc, c, reg, where);
}

/* Returns only if it cannot resume. */
INTERFACE int _ULx86_64_resume(struct unw_cursor *c)
{
	if (is_ours(c) && cursor_yield(c))
		return ERROR_UNSPEC;
	return GO_ON(NEXT_RESUME, _ULx86_64_resume, c);
}

INTERFACE int _ULx86_64_apply_reg_state(struct unw_cursor *c, void *state)
{
	if (is_ours(c) && cursor_yield(c))
		return ERROR_UNSPEC;
	return GO_ON(NEXT_APPLY_REG_STATE, _ULx86_64_apply_reg_state, c, state);
}

INTERFACE int _ULx86_64_reg_states_iterate(struct unw_cursor *c, void *callback, void *token)
{
	if (is_ours(c) && cursor_yield(c))
		return ERROR_UNSPEC;
	return GO_ON(NEXT_REG_STATES_ITERATE, _ULx86_64_reg_states_iterate, c, callback, token);
}

/* ---- the function of a frame ------------------------------------------------------------ */

INTERFACE int _ULx86_64_get_proc_info(struct unw_cursor *c, struct unw_proc_info *out)
{
	struct function_info info;

	if (!is_ours(c))
		return GO_ON(NEXT_GET_PROC_INFO, _ULx86_64_get_proc_info, c, out);
	memset(out, 0, sizeof(*out));
	if (!function_info(c->walk.cursor.reg[ETCH_RIP] - !c->walk.cursor.interrupted, &info))
		return ERROR_NOINFO;
	out->start_ip = info.start;
	out->end_ip = info.end;
	out->lsda = info.lsda;
	out->handler = info.personality;
	return 0;
}

INTERFACE int _ULx86_64_get_proc_name(struct unw_cursor *c, char *name, size_t size, uint64_t *offset)
{
	int back, ret;

	if (!is_ours(c))
		return GO_ON(NEXT_GET_PROC_NAME, _ULx86_64_get_proc_name, c, name, size, offset);
	back = !c->walk.cursor.interrupted;
	ret = function_name(c->walk.cursor.reg[ETCH_RIP] - (uint64_t)back, name, size, offset);
	if (!ret)
		return ERROR_NOINFO;
	if (offset)
		*offset += (uint64_t)back;
	return ret < 0 ? ERROR_NOMEM : 0;
}

INTERFACE int _ULx86_64_is_signal_frame(struct unw_cursor *c)
{
	if (!is_ours(c))
		return GO_ON(NEXT_IS_SIGNAL_FRAME, _ULx86_64_is_signal_frame, c);
	return cursor_at_signal(&c->walk.cursor);
}
