/* SPDX-License-Identifier: MIT */
/*
 * against_gcc.c: compares records with libgcc's own walk of the same stack, frame by frame: the registers, the
 * function, its table and the size of its arguments. If they differ, a line says so, and libgcc handles the
 * exception.
 *
 * libgcc's walk begins at this file's function; its frames are compared from the frame that the exception came from,
 * as far as there are records.
 */
#include <stddef.h>

#include "exceptions/against_gcc.h"
#include "exceptions/start.h"

struct check {
	struct frame *frame;
	struct records_view *view;
	checked_fn *fn;
	void *arg;
	bool met;      /* libgcc's walk has reached the frame */
	bool differ;   /* something differs from libgcc */
	uint64_t last; /* the return address of the record that led here */
};

static const char *hex(uint64_t v, char out[19])
{
	char *p = out + 18;

	*p = 0;
	do
		*--p = "0123456789abcdef"[v & 15];
	while (v >>= 4);
	*--p = 'x';
	*--p = '0';
	return p;
}

static void say(const char *what, uint64_t ip, uint64_t ours, uint64_t libgcc)
{
	char a[19], b[19], c[19];

	exceptions_say("check: ", what, " at ", hex(ip, a), ": ", hex(ours, b), ", libgcc: ", hex(libgcc, c), NULL);
}

static bool same(struct check *k, const char *what, uint64_t ip, uint64_t ours, uint64_t libgcc)
{
	if (ours == libgcc)
		return true;
	say(what, ip, ours, libgcc);
	k->differ = true;
	return false;
}

/* The registers of the frame that the last record led to. */
static bool same_registers(struct check *k, struct gcc_context *c)
{
	static const struct {
		uint8_t frame, dwarf;
		const char *name;
	} all[] = {
		{FRAME_RBX, DWARF_RBX, "caller's rbx"},     {FRAME_RBP, DWARF_RBP, "caller's rbp"},
		{FRAME_R12, DWARF_R12, "caller's r12"},     {FRAME_R13, DWARF_R12 + 1, "caller's r13"},
		{FRAME_R14, DWARF_R12 + 2, "caller's r14"}, {FRAME_R15, DWARF_R12 + 3, "caller's r15"},
	};
	const struct gcc_functions *gcc = &exceptions_gcc;
	const uint64_t *reg = k->frame->reg;

	if (!same(k, "caller's stack pointer", k->last, reg[FRAME_RSP], gcc->get_cfa(c)) ||
	    !same(k, "caller's address", k->last, reg[FRAME_RIP], gcc->get_ip(c)))
		return false;
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!same(k, all[i].name, k->last, reg[all[i].frame], gcc->get_gr(c, all[i].dwarf)))
			return false;
	return true;
}

static int check_frame(struct gcc_context *c, void *arg)
{
	const struct gcc_functions *gcc = &exceptions_gcc;
	struct check *k = arg;
	const struct record *r;
	uint64_t ip = k->frame->reg[FRAME_RIP];

	if (!k->met && (gcc->get_ip(c) != ip || gcc->get_cfa(c) != k->frame->reg[FRAME_RSP]))
		return 0;
	if (!k->met)
		k->last = ip;
	k->met = true;
	if (!same_registers(k, c))
		return REASON_END_OF_STACK;
	r = record_at(k->view, ip);
	if (!r || !same(k, "function", ip, record_address(r, r->start), gcc->get_start(c)) ||
	    !same(k, "language-specific data", ip, r->flags & RECORD_LSDA ? record_address(r, r->lsda) : 0,
	          gcc->get_lsda(c)) ||
	    !same(k, "size of arguments", ip, r->args_size, c->args_size) || !k->fn(k->arg, r))
		return REASON_END_OF_STACK;
	k->last = ip;
	record_step(r, k->frame);
	return 0;
}

bool check_frames(struct frame *frame, struct records_view *view, checked_fn *fn, void *arg)
{
	struct check k = {.frame = frame, .view = view, .fn = fn, .arg = arg};
	uint64_t ip = frame->reg[FRAME_RIP], rsp = frame->reg[FRAME_RSP];

	exceptions_gcc.backtrace(check_frame, &k);
	if (!k.met)
		say("frame that libgcc does not find", ip, rsp, 0);
	return k.met && !k.differ;
}

bool check_search(const struct record *r, int reason, bool not_for_types)
{
	bool good = !(r->site <= SITE_CLEANUP || not_for_types) || reason == REASON_CONTINUE;

	if (!good)
		say("answer in the first phase", r->ip, REASON_CONTINUE, (uint64_t)reason);
	return good;
}

bool check_cleanup(const struct record *r, int reason, const struct gcc_context *c, bool not_for_types)
{
	if ((r->site == SITE_NONE || (r->site == SITE_TYPES && not_for_types)) && reason != REASON_CONTINUE) {
		say("answer in the second phase", r->ip, REASON_CONTINUE, (uint64_t)reason);
		return false;
	}
	if ((r->site == SITE_CLEANUP || (r->site == SITE_TYPES_CLEANUP && not_for_types)) &&
	    (reason != REASON_INSTALL_CONTEXT || c->ra != record_address(r, r->landing) || c->reg[DWARF_RDX])) {
		say("landing pad", r->ip, record_address(r, r->landing), c->ra);
		return false;
	}
	return true;
}
