/* SPDX-License-Identifier: MIT */
/* Walks the stack of a sample (sample_walk.h). */
#define ETCH_NO_MODULE /* no constructor for fault tables, which nothing here has */
#include "profile/sample_walk.h"

#include <string.h>

#include "profile/python_stubs.h"
#include "unwind/cursor.h"

const char *stop_text(enum stop s)
{
	static const char *const text[STOP_COUNT] = {
		[STOP_END] = "complete",
		[STOP_COPY] = "the stack is deeper than its copy",
		[STOP_CODE] = "code made at run time has no table",
		[STOP_UNMAPPED] = "an address where no file is mapped",
		[STOP_NO_FILE] = "the file cannot be opened",
		[STOP_NO_TABLE] = "the file has no unwind information",
		[STOP_NO_RULE] = "no rule for the address",
		[STOP_REGISTER] = "a register is not known",
		[STOP_CORRUPT] = "frames out of order",
		[STOP_BITS] = "32-bit code",
		[STOP_DEEP] = "more frames than are recorded",
		[STOP_NO_SPACE] = "no space for the stack",
		[STOP_STACK] = "the caller's frame is on another stack, which is not copied",
		[STOP_HOLE] = "the kernel's copy of the stack ends at a page that the program has not used yet",
	};

	return text[s];
}

int sample_read(const struct sample *s, uint64_t at, uint64_t *word)
{
	uint64_t offset = at - s->reg[ETCH_RSP];

	if (at < s->reg[ETCH_RSP] || s->stack_size < 8 || offset > s->stack_size - 8)
		return -1;
	memcpy(word, s->stack + offset, 8);
	return 0;
}

/* The memory of a sample's process, as far as it is available. */
struct memory {
	const struct process *process;
	const struct binary_list *binaries;
	const struct sample *sample;
	uint64_t missing; /* the last address that was not available */
};

/* Reads the copy of the stack, or the code of files. */
static int target_read(void *arg, uint64_t at, uint64_t *word)
{
	struct memory *m = arg;
	long i;

	if (!sample_read(m->sample, at, word))
		return 0;
	i = process_find(m->process, at);
	if (i >= 0 && m->process->binary[i] != BINARY_UNKNOWN &&
	    !binary_code_read(m->binaries->list[m->process->binary[i]], at - m->process->target[i].bias, word))
		return 0;
	m->missing = at;
	return -1;
}

static void frame_add(const struct process *p, uint64_t at, struct walk_frame *f)
{
	long i = process_find(p, at);

	f->binary = i < 0 ? BINARY_UNKNOWN : p->binary[i];
	f->address = i < 0 ? at : at - p->target[i].bias;
}

/* Gives the mapping its binary's table. Returns true if the step may be tried again. */
static bool mapping_prepare(const struct process *p, struct binary_list *binaries, uint64_t at)
{
	long i = process_find(p, at);
	struct binary *b;

	if (i < 0 || p->binary[i] == BINARY_UNKNOWN || p->target[i].table)
		return false;
	b = binaries->list[p->binary[i]];
	binary_prepare(b);
	p->target[i].table = b->table;
	p->target[i].size = b->table_size;
	p->target[i].address = b->table_address;
	return b->table;
}

/* Converts the status with which a walk ended at an address to a reason. */
static enum stop stop_of(const struct memory *m, int status, uint64_t at)
{
	const struct process *p = m->process;
	const struct binary_list *binaries = m->binaries;
	const struct sample *s = m->sample;
	long i = process_find(p, at);
	const struct binary *b = i < 0 || p->binary[i] == BINARY_UNKNOWN ? NULL : binaries->list[p->binary[i]];

	switch (status) {
	case ETCH_UNWIND_END: return STOP_END;
	case ETCH_UNWIND_NOTABLE:
		if (!b)
			return STOP_UNMAPPED;
		if (b->table)
			return binary_is_entry(b, at - p->target[i].bias) ? STOP_END : STOP_NO_RULE;
		if (b->kind == BINARY_CODE)
			return STOP_CODE;
		return b->kind == BINARY_GONE ? STOP_NO_FILE : STOP_NO_TABLE;
	case ETCH_UNWIND_UNDEFINED: return b && binary_is_entry(b, at - p->target[i].bias) ? STOP_END : STOP_NO_RULE;
	case ETCH_UNWIND_REGISTER: return STOP_REGISTER;
	case ETCH_UNWIND_MEMORY:
		if (m->missing < s->reg[ETCH_RSP])
			return STOP_STACK;
		if (s->stack_size == s->stack_asked)
			return STOP_COPY;
		return m->missing - s->reg[ETCH_RSP] < s->stack_asked ? STOP_HOLE : STOP_CORRUPT;
	case ETCH_UNWIND_LIMIT: return STOP_COPY;
	default: return STOP_CORRUPT;
	}
}

/*
 * Steps over a frame of code that nothing describes, such as that of a JIT or an interpreter: rbp is assumed to point
 * to the caller's rbp, which the return address follows. If the caller is such code too, its frame must be above;
 * otherwise its rbp may be anything. lib/unwind/fallback.c does the same for a process's own stack.
 */
static bool frame_pointer_step(const struct process *p, const struct binary_list *binaries, const struct sample *s,
                               struct cursor *c)
{
	uint64_t bp = c->reg[ETCH_RBP], next, ip;
	long i;

	if (!(c->known & KNOWN(ETCH_RBP)) || (bp & 7) || bp < c->reg[ETCH_RSP] || sample_read(s, bp, &next) ||
	    sample_read(s, bp + 8, &ip))
		return false;
	i = process_find(p, ip - 1);
	if (i < 0 || p->binary[i] == BINARY_UNKNOWN)
		return false;
	if (next <= bp && binaries->list[p->binary[i]]->kind != BINARY_FILE)
		return false;
	c->reg[ETCH_RIP] = ip;
	c->reg[ETCH_RSP] = bp + 16;
	c->reg[ETCH_RBP] = next;
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | KNOWN(ETCH_RBP);
	c->interrupted = 0;
	return true;
}

/* Steps over one of Python's trampolines. */
static bool python_step(const struct process *p, const struct binary_list *binaries, const struct sample *s,
                        struct cursor *c, uint64_t at)
{
	long i = process_find(p, at);
	struct binary *b = i < 0 || p->binary[i] == BINARY_UNKNOWN ? NULL : binaries->list[p->binary[i]];

	return b && b->kind == BINARY_CODE && python_stub_step(b, p->pid, p->target[i].start, s, c);
}

/*
 * The walk could not read m->missing, above the copy, in its step from c's frame. Is that on another stack? It may be
 * if the caller's frame is not found from rsp, as in code that switches stacks. Then it is if no copy of the size that
 * was asked could hold it, and if this copy is shorter than that, or the caller is further away than a copy is long,
 * which it is on the same stack only if the frame itself is as large.
 */
static bool is_on_other_stack(const struct memory *m, struct cursor *c)
{
	const struct sample *s = m->sample;
	struct etch_rule r;

	return m->missing - s->reg[ETCH_RSP] >= s->stack_asked && cursor_rule(c, &r) == ETCH_UNWIND_OK &&
	       r.cfa != ETCH_REG_RSP && (s->stack_size < s->stack_asked || m->missing - c->reg[ETCH_RSP] > s->stack_asked);
}

/* Steps to the caller's frame. `at` is the address by which this frame is looked up. */
static int walk_step(const struct memory *m, struct binary_list *binaries, struct sample *s, struct cursor *c,
                     uint64_t at)
{
	const struct process *p = m->process;
	int status = cursor_step(c);

	if (status == ETCH_UNWIND_NOTABLE && mapping_prepare(p, binaries, at))
		status = cursor_step(c);
	if (status == ETCH_UNWIND_REGISTER) {
		sample_registers(p, binaries, s, c->reg, &c->known);
		status = cursor_step(c);
	}
	if ((status == ETCH_UNWIND_NOTABLE || status == ETCH_UNWIND_UNDEFINED) && python_step(p, binaries, s, c, at))
		status = ETCH_UNWIND_OK;
	if (s->frame_pointers && (status == ETCH_UNWIND_NOTABLE || status == ETCH_UNWIND_UNDEFINED) &&
	    stop_of(m, status, at) != STOP_END && frame_pointer_step(p, binaries, s, c)) {
		s->guessed++;
		status = ETCH_UNWIND_OK;
	}
	return status;
}

size_t sample_walk(const struct process *p, struct binary_list *binaries, struct sample *s,
                   struct walk_frame frames[FRAMES_MOST], enum stop *stop)
{
	struct memory memory = {p, binaries, s, UINT64_MAX};
	struct etch_target target = {.read = target_read, .arg = &memory, .modules = p->target, .module_count = p->count};
	struct etch_cursor cursor;
	struct cursor *c = (struct cursor *)&cursor;
	int status = ETCH_UNWIND_OK;
	size_t n = 0;
	uint64_t at;

	s->guessed = 0;
	s->assumed = false;
	etch_cursor_init_target(&cursor, &target, s->reg);
	for (;;) {
		at = c->reg[ETCH_RIP] - !c->interrupted;
		frame_add(p, at, &frames[n++]);
		status = n == FRAMES_MOST ? ETCH_UNWIND_LIMIT : walk_step(&memory, binaries, s, c, at);
		if (status != ETCH_UNWIND_OK)
			break;
	}
	s->assumed = etch_assumed(&cursor);
	*stop = stop_of(&memory, status, at);
	if (status == ETCH_UNWIND_MEMORY && memory.missing != UINT64_MAX && is_on_other_stack(&memory, c))
		*stop = STOP_STACK;
	return n;
}
