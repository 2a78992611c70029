/* SPDX-License-Identifier: MIT */
/*
 * gcc_context.c: _Unwind_Backtrace() (unwind.h; Itanium C++ ABI: Exception Handling, level I) and the functions that
 * read the contexts it hands out.
 *
 * A personality routine calls the same functions on libgcc's contexts while an exception is raised; these calls go to
 * the unwinder that the program would have called. A context of this library begins with two words that depend on its
 * address and cannot be pointers, while the first words of other contexts are pointers.
 *
 * The contexts handed out here cannot be changed: _Unwind_SetGR() and _Unwind_SetIP() have no effect on them.
 */
#include "interfaces/frame_walk.h"
#include "interfaces/function_info.h"
#include "interfaces/interfaces.h"
#include "interfaces/next.h"
#include "interfaces/own_tables.h"

/* Reason codes of the ABI. */
enum {
	NO_REASON = 0,
	FATAL_PHASE1_ERROR = 3,
	END_OF_STACK = 5,
};

struct context {
	uint64_t tag[2];
	struct frame_walk walk;
	int end; /* past the outermost frame: the ABI's unwinders hand out one more context, whose address is 0 */
	int info_known, info_found;
	struct function_info info;
};

typedef int trace_fn(struct context *context, void *arg);

int _Unwind_Backtrace(trace_fn *fn, void *arg);
int interfaces_backtrace(trace_fn *fn, void *arg, const uint64_t reg[17]);
uint64_t _Unwind_GetIP(struct context *context);
uint64_t _Unwind_GetIPInfo(struct context *context, int *before);
uint64_t _Unwind_GetCFA(struct context *context);
uint64_t _Unwind_GetGR(struct context *context, int reg);
void _Unwind_SetGR(struct context *context, int reg, uint64_t value);
void _Unwind_SetIP(struct context *context, uint64_t value);
void *_Unwind_GetLanguageSpecificData(struct context *context);
uint64_t _Unwind_GetRegionStart(struct context *context);
uint64_t _Unwind_GetDataRelBase(struct context *context);
uint64_t _Unwind_GetTextRelBase(struct context *context);
void *_Unwind_FindEnclosingFunction(void *pc);

/* Bits 62 to 47 are not all equal, so this is no canonical address, and it is no small number. */
#define TAG 0x5ee4c0de00000000u

static void context_tag(struct context *c)
{
	c->tag[0] = (uint64_t)(uintptr_t)c ^ TAG;
	c->tag[1] = ~c->tag[0];
}

static inline int is_ours(const struct context *c)
{
	return c->tag[0] == ((uint64_t)(uintptr_t)c ^ TAG) && c->tag[1] == ~c->tag[0];
}

static int context_step(struct context *c)
{
	switch (frame_walk_step(&c->walk)) {
	case ETCH_UNWIND_OK: return NO_REASON;
	case ETCH_UNWIND_END: c->end = 1; return NO_REASON;
	case ETCH_UNWIND_NOTABLE:
	case ETCH_UNWIND_UNDEFINED: return END_OF_STACK; /* as libgcc does where no FDE covers the address */
	default: return FATAL_PHASE1_ERROR;
	}
}

int interfaces_backtrace(trace_fn *fn, void *arg, const uint64_t reg[17])
{
	const uint32_t known = CALLEE_SAVED_REGISTERS | KNOWN(ETCH_RSP) | KNOWN(ETCH_RIP);
	struct context context;
	int ret = NO_REASON;

	context.end = context.info_known = 0;
	frame_walk_start(&context.walk, reg, known, 0);
	context_tag(&context);
	while (ret == NO_REASON) {
		if (fn(&context, arg) != NO_REASON) {
			ret = FATAL_PHASE1_ERROR;
		} else if (context.end) {
			ret = END_OF_STACK;
		} else {
			context.info_known = 0;
			ret = context_step(&context);
		}
	}
	context.tag[0] = context.tag[1] = 0;
	own_tables_after(&context.walk.cursor);
	return ret;
}

INTERFACE uint64_t _Unwind_GetIP(struct context *context)
{
	if (!is_ours(context))
		return NEXT(NEXT_GET_IP, __typeof__(&_Unwind_GetIP))(context);
	return context->end ? 0 : context->walk.cursor.reg[ETCH_RIP];
}

INTERFACE uint64_t _Unwind_GetIPInfo(struct context *context, int *before)
{
	if (!is_ours(context))
		return NEXT(NEXT_GET_IP_INFO, __typeof__(&_Unwind_GetIPInfo))(context, before);
	*before = context->walk.cursor.interrupted;
	return context->end ? 0 : context->walk.cursor.reg[ETCH_RIP];
}

INTERFACE uint64_t _Unwind_GetCFA(struct context *context)
{
	if (!is_ours(context))
		return NEXT(NEXT_GET_CFA, __typeof__(&_Unwind_GetCFA))(context);
	return context->walk.cursor.reg[ETCH_RSP];
}

/* The function cannot report that a register is unknown; its value is then 0. */
INTERFACE uint64_t _Unwind_GetGR(struct context *context, int reg)
{
	uint64_t value = 0;

	if (!is_ours(context))
		return NEXT(NEXT_GET_GR, __typeof__(&_Unwind_GetGR))(context, reg);
	if (!context->end && reg >= 0 && reg <= ETCH_RIP)
		frame_walk_register(&context->walk, frame_walk_dwarf((unsigned)reg), &value);
	return value;
}

INTERFACE void _Unwind_SetGR(struct context *context, int reg, uint64_t value)
{
	if (!is_ours(context))
		NEXT(NEXT_SET_GR, __typeof__(&_Unwind_SetGR))(context, reg, value);
}

INTERFACE void _Unwind_SetIP(struct context *context, uint64_t value)
{
	if (!is_ours(context))
		NEXT(NEXT_SET_IP, __typeof__(&_Unwind_SetIP))(context, value);
}

/* ---- the function of a context -------------------------------------------------- */

static const struct function_info *context_info(struct context *c)
{
	static const struct function_info none;

	if (!c->info_known) {
		c->info_found = !c->end && function_info(c->walk.cursor.reg[ETCH_RIP] - !c->walk.cursor.interrupted, &c->info);
		c->info_known = 1;
	}
	return c->info_found ? &c->info : &none;
}

INTERFACE void *_Unwind_GetLanguageSpecificData(struct context *context)
{
	if (!is_ours(context))
		return NEXT(NEXT_GET_LSDA, __typeof__(&_Unwind_GetLanguageSpecificData))(context);
	return (void *)(uintptr_t)context_info(context)->lsda;
}

INTERFACE uint64_t _Unwind_GetRegionStart(struct context *context)
{
	if (!is_ours(context))
		return NEXT(NEXT_GET_REGION_START, __typeof__(&_Unwind_GetRegionStart))(context);
	return context_info(context)->start;
}

/* DW_EH_PE_datarel and _textrel have no base on x86-64 (libgcc, unwind-dw2-fde-dip.c). */
INTERFACE uint64_t _Unwind_GetDataRelBase(struct context *context)
{
	if (!is_ours(context))
		return NEXT(NEXT_GET_DATA_BASE, __typeof__(&_Unwind_GetDataRelBase))(context);
	return 0;
}

INTERFACE uint64_t _Unwind_GetTextRelBase(struct context *context)
{
	if (!is_ours(context))
		return NEXT(NEXT_GET_TEXT_BASE, __typeof__(&_Unwind_GetTextRelBase))(context);
	return 0;
}

/* pc is a return address, so the function is that of the byte before it. */
INTERFACE void *_Unwind_FindEnclosingFunction(void *pc)
{
	__typeof__(&_Unwind_FindEnclosingFunction) next;
	struct function_info info;

	if (function_info((uint64_t)(uintptr_t)pc - 1, &info))
		return (void *)(uintptr_t)info.start;
	next = NEXT(NEXT_FIND_ENCLOSING, __typeof__(&_Unwind_FindEnclosingFunction));
	return next ? next(pc) : (void *)0;
}
