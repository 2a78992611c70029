/* SPDX-License-Identifier: MIT */
/*
 * no_code.c: frames whose rip is in no code: a function was called, or jumped to, through a null or wild pointer.
 *
 * None of its instructions has run, so rsp is unchanged since the entry. It points to the return address if the
 * function was entered by a call, or by a tail call from a function that itself was called. That can only be assumed,
 * as gdb, the kernel's ORC unwinder and libunwind do. So the word at rsp must be an address to which functions return,
 * and the walk is marked.
 *
 * It must be certain that rip is in no code, because in code that nothing describes, such as a JIT's, rsp is at the
 * return address only at the entry. It is certain in two cases. The processor may have said so: the thread's last
 * fault, as the kernel has saved it beside the registers, was the fetch of this very instruction. Or no file is
 * loaded there and the page cannot be read.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc, no lock, no
 * thread-local storage, and of libc only memcpy. Do not introduce any dependency there.
 */
#include <string.h>

#include "shared/search.h"
#include "unwind/calls.h"
#include "unwind/cursor.h"
#include "unwind/registered_frames.h"

/* The bit of a page fault's error code that says that an instruction was fetched (Intel SDM 3, 6.15). */
#define FAULT_FETCH 0x10

/* Was the thread's last fault the fetch of the instruction at rip? */
static int fetch_failed(struct cursor *c)
{
	uint64_t saved = (uint64_t)(uintptr_t)c->saved, trap, error, address;

	return saved && !cursor_read(c, saved + 8 * SAVED_TRAPNO, &trap) && trap == TRAP_PAGE_FAULT &&
	       !cursor_read(c, saved + 8 * SAVED_ERR, &error) && (error & FAULT_FETCH) &&
	       !cursor_read(c, saved + 8 * SAVED_CR2, &address) && address == c->reg[ETCH_RIP];
}

int cursor_in_no_code(struct cursor *c)
{
	const struct etch_target *t = c->target;
	uint64_t ip = c->reg[ETCH_RIP], word;
	struct prepare_image im;
	size_t k;

	if (fetch_failed(c))
		return 1;
	if (!t)
		return !loaded_image(ip, &im) && !stack_page_readable(ip);
	k = SEARCH(t->module_count, i, t->modules[i].end <= ip);
	return (k == t->module_count || ip < t->modules[k].start) && t->read(t->arg, ip & ~(uint64_t)7, &word);
}

/* Does a call end with these 8 bytes? */
static int call_ends(const uint8_t bytes[8])
{
	for (unsigned n = 2; n <= CALL_MAX; n++)
		if (call_length(UINT64_MAX, bytes + 8 - n, n, 0, true) == n)
			return 1;
	return 0;
}

/* Are the 8 bytes before this return address code of a loaded file, or code that a JIT has registered? */
static int is_code(uint64_t ip)
{
	struct prepare_image im;
	struct etch_cfi cfi;
	struct etch_fde fde;

	if (!loaded_image(ip - 1, &im))
		return registered_fde(ip - 1, &cfi, &fde);
	for (unsigned i = 0; i < im.phnum; i++) {
		const Elf64_Phdr *p = &im.phdr[i];
		uint64_t offset = ip - 8 - im.bias - p->p_vaddr;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && offset < p->p_filesz && p->p_filesz - offset >= 8)
			return 1;
	}
	return 0;
}

/* In another process, the file's table says where its code is; without one, whatever can be read counts as code.
 * Memory that belongs to no file may be code or data. */
static int target_code_before(const struct etch_target *t, uint64_t ip, uint64_t *bytes)
{
	size_t k = SEARCH(t->module_count, i, t->modules[i].end < ip);
	struct unwind_module capacity;

	if (k == t->module_count || ip <= t->modules[k].start)
		return -1;
	if (t->modules[k].table && !lookup_target(t, ip - 1, &capacity))
		return 0;
	return t->read(t->arg, ip - 8, bytes) ? -1 : 1;
}

/* Reads the 8 bytes before a return address. Returns 1; 0 if they are no code; -1 if that is unknown. */
NO_ASAN static int code_before(const struct cursor *c, uint64_t ip, uint64_t *bytes)
{
	if (ip < 4096)
		return 0;
	if (c->target)
		return target_code_before(c->target, ip, bytes);
	if (!is_code(ip))
		return 0;
	/* Code may be made unreadable, and its module may be unloaded. */
	return memory_copy(bytes, ip - 8, sizeof(*bytes)) ? -1 : 1;
}

int cursor_returns_to(struct cursor *c, uint64_t ip)
{
	uint64_t was = c->reg[ETCH_RIP], word;
	int interrupted = c->interrupted, ret;
	struct etch_rule r;
	uint8_t bytes[8];

	c->reg[ETCH_RIP] = ip;
	c->interrupted = 0;
	ret = cursor_rule(c, &r);
	c->reg[ETCH_RIP] = was;
	c->interrupted = interrupted;
	if (ret == ETCH_UNWIND_OK && (r.kind == ETCH_RULE_SIGNAL || r.kind == ETCH_RULE_END))
		return 1;
	ret = code_before(c, ip, &word);
	if (ret <= 0)
		return ret;
	memcpy(bytes, &word, sizeof(bytes));
	return call_ends(bytes);
}

int cursor_assume(struct cursor *c)
{
	uint64_t sp = c->reg[ETCH_RSP], ip;

	if (!cursor_in_no_code(c) || cursor_read(c, sp, &ip) || cursor_returns_to(c, ip) <= 0)
		return ETCH_UNWIND_NOTABLE;
	/* A call changes no other register, so the known ones stay known. */
	c->reg[ETCH_RIP] = ip;
	c->reg[ETCH_RSP] = sp + 8;
	c->interrupted = 0;
	c->assumed = ASSUMED_ANY | ASSUMED_LAST;
	cursor_behind_set(c);
	return ETCH_UNWIND_OK;
}
