/* SPDX-License-Identifier: MIT */
/*
 * llvm_cursor.c: the local cursors of LLVM's libunwind (its libunwind.h). A cursor holds the values of all registers,
 * so every step uses .eh_frame if that has a row, and the tables otherwise.
 */
#include "interfaces/frame_walk.h"
#include "interfaces/function_info.h"
#include "interfaces/interfaces.h"

enum {
	LLVM_UNSPEC = -6540,
	LLVM_NOMEM = -6541,
	LLVM_BADREG = -6542,
	LLVM_READONLYREG = -6543,
	LLVM_BADFRAME = -6546,
	LLVM_NOINFO = -6549,
	LLVM_REG_IP = -1,
	LLVM_REG_SP = -2,
};

#define CONTEXT_WORDS 21
#define CURSOR_WORDS  33

struct llvm_cursor {
	uint64_t reg[17]; /* enum etch_reg */
	uint32_t known, frames;
	uint16_t switches, assumed;
	int interrupted;
	uint64_t descent;
	const word *saved;
};

_Static_assert(sizeof(struct llvm_cursor) <= CURSOR_WORDS * 8, "a cursor fits");

struct llvm_proc_info {
	uint64_t start_ip, end_ip, lsda, handler, gp, flags;
	uint32_t format, unwind_info_size;
	uint64_t unwind_info, extra;
};

int unw_init_local(struct llvm_cursor *c, const uint64_t context[CONTEXT_WORDS]);
int unw_step(struct llvm_cursor *c);
int unw_get_reg(struct llvm_cursor *c, int reg, uint64_t *value);
int unw_set_reg(struct llvm_cursor *c, int reg, uint64_t value);
int unw_resume(struct llvm_cursor *c);
int unw_get_proc_info(struct llvm_cursor *c, struct llvm_proc_info *out);
int unw_get_proc_name(struct llvm_cursor *c, char *name, size_t size, uint64_t *offset);
int unw_is_signal_frame(struct llvm_cursor *c);
int unw_is_fpreg(struct llvm_cursor *c, int reg);

INTERFACE int unw_init_local(struct llvm_cursor *c, const uint64_t context[CONTEXT_WORDS])
{
	static const uint8_t order[17] = {
		ETCH_RAX, ETCH_RBX, ETCH_RCX, ETCH_RDX, ETCH_RDI, ETCH_RSI, ETCH_RBP, ETCH_RSP, ETCH_R8,
		ETCH_R9,  ETCH_R10, ETCH_R11, ETCH_R12, ETCH_R13, ETCH_R14, ETCH_R15, ETCH_RIP,
	};

	for (unsigned i = 0; i < 17; i++)
		c->reg[order[i]] = context[i];
	c->known = KNOWN_ALL;
	c->frames = c->switches = c->assumed = 0;
	c->interrupted = 0;
	c->descent = 0;
	c->saved = NULL;
	return 0;
}

INTERFACE int unw_step(struct llvm_cursor *c)
{
	struct frame_walk w;

	frame_walk_start(&w, c->reg, c->known, c->interrupted);
	w.cursor.frames = c->frames;
	w.cursor.switches = c->switches;
	w.cursor.assumed = c->assumed;
	w.cursor.descent = c->descent;
	w.cursor.saved = c->saved;
	switch (frame_walk_step(&w)) {
	case ETCH_UNWIND_OK: break;
	case ETCH_UNWIND_END: return 0;
	case ETCH_UNWIND_NOTABLE:
	case ETCH_UNWIND_UNDEFINED: return LLVM_NOINFO;
	case ETCH_UNWIND_REGISTER: return LLVM_BADREG;
	default: return LLVM_BADFRAME;
	}
	frame_walk_registers(&w);
	memcpy(c->reg, w.cursor.reg, sizeof(c->reg));
	c->known = w.cursor.known;
	c->frames = w.cursor.frames;
	c->switches = w.cursor.switches;
	c->assumed = w.cursor.assumed;
	c->descent = w.cursor.descent;
	c->saved = w.cursor.saved;
	c->interrupted = w.cursor.interrupted;
	return 1;
}

/* The number (enum etch_reg) of one of LLVM's registers; above ETCH_RIP for a register that is not kept. */
static unsigned register_of(int reg)
{
	if (reg == LLVM_REG_IP)
		return ETCH_RIP;
	if (reg == LLVM_REG_SP)
		return ETCH_RSP;
	return reg >= 0 && reg <= ETCH_RIP ? frame_walk_dwarf((unsigned)reg) : ETCH_RIP + 1;
}

INTERFACE int unw_get_reg(struct llvm_cursor *c, int reg, uint64_t *value)
{
	unsigned at = register_of(reg);

	if (at > ETCH_RIP || !(c->known & KNOWN(at)))
		return LLVM_BADREG;
	*value = c->reg[at];
	return 0;
}

INTERFACE int unw_set_reg(struct llvm_cursor *c, int reg, uint64_t value)
{
	(void)c, (void)reg, (void)value;
	return LLVM_READONLYREG;
}

INTERFACE int unw_resume(struct llvm_cursor *c)
{
	(void)c;
	return LLVM_UNSPEC;
}

INTERFACE int unw_is_fpreg(struct llvm_cursor *c, int reg)
{
	(void)c;
	return reg >= 17 && reg <= 40; /* xmm0 to st7 (psABI, figure 3.36) */
}

INTERFACE int unw_get_proc_info(struct llvm_cursor *c, struct llvm_proc_info *out)
{
	struct function_info info;

	memset(out, 0, sizeof(*out));
	if (!function_info(c->reg[ETCH_RIP] - !c->interrupted, &info))
		return LLVM_NOINFO;
	out->start_ip = info.start;
	out->end_ip = info.end;
	out->lsda = info.lsda;
	out->handler = info.personality;
	return 0;
}

INTERFACE int unw_get_proc_name(struct llvm_cursor *c, char *name, size_t size, uint64_t *offset)
{
	uint64_t back = !c->interrupted;
	int ret = function_name(c->reg[ETCH_RIP] - back, name, size, offset);

	if (!ret)
		return LLVM_NOINFO;
	if (offset)
		*offset += back;
	return ret < 0 ? LLVM_NOMEM : 0;
}

/* Was this frame interrupted by a signal? */
INTERFACE int unw_is_signal_frame(struct llvm_cursor *c) { return c->interrupted; }
