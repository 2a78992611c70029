/* SPDX-License-Identifier: MIT */
/*
 * For --stackval: warns of code in functions that no path has reached. Compilers leave some such code after calls that
 * do not return; this is expected.
 */
#include "arch/x86/opcodes.h"
#include "objtool/stack_walk.h"
#include "support/plain.h"

#include <stdio.h>
#include <string.h>

#define LOOK_AHEAD 5 /* number of instructions in which a sanitizer's report is searched */

/* The pass over one section. */
struct unreached {
	struct stack_walk *walk;
	const struct part *part;
	/* Of the instruction before the one that is checked: */
	bool after_dead;    /* control does not continue after it */
	const char *called; /* name of the function that it calls */
};

static bool decode(const struct unreached *u, uint64_t at, struct step *s)
{
	uint64_t off = at - u->part->code->addr;

	return off < u->part->code->size &&
	       step_decode(u->walk->map->cache, u->part->code->bytes + off, u->part->code->size - off, at, s);
}

static bool is_sanitizer(const char *name)
{
	return name && (!strcmp(name, "__asan_handle_no_return") || !strcmp(name, "__ubsan_handle_builtin_unreachable"));
}

/* Returns the target of a jump if it is in the same function, otherwise 0. */
static uint64_t inside(const struct unreached *u, uint64_t at, const struct step *s)
{
	uint64_t to = 0;
	const struct elf_symbol *called;

	if (stack_way_of(u->walk, u->part, at, s, &to, &called) != WAY_INSIDE)
		return 0;
	return to - u->part->code->addr < u->part->code->size ? to : 0;
}

static bool is_trap(const struct step *s) { return s->flow == FLOW_STOP && !s->padding; }

/*
 * True if unreached code is expected: its first LOOK_AHEAD instructions call a sanitizer's report, or it is a trap, or
 * a jump to one, after a call that does not return.
 */
static bool is_expected(const struct unreached *u, uint64_t at, struct step s, uint64_t end)
{
	const char *called;
	struct step there;
	uint64_t to;
	int i;

	if (u->after_dead &&
	    (is_trap(&s) || (s.flow == FLOW_JUMP && (to = inside(u, at, &s)) && decode(u, to, &there) && is_trap(&there))))
		return true;
	for (i = 0; i < LOOK_AHEAD; i++) {
		stack_is_dead(u->walk, u->part, at, &s, &called);
		if (is_sanitizer(called))
			return true;
		if (s.flow == FLOW_JUMP)
			to = inside(u, at, &s);
		else
			to = at + s.len < end ? at + s.len : 0;
		if (!to || !decode(u, to, &s))
			return false;
		at = to;
	}
	return false;
}

/* True if an instruction only fills space between others. */
static bool is_filler(const struct unreached *u, uint64_t at, const struct step *s)
{
	return s->padding && !insn_is_endbr(u->part->code->bytes + (at - u->part->code->addr), s->len);
}

/* True if it is not expected that no path has reached an instruction. */
static bool is_unexpected(struct unreached *u, uint64_t at, const struct step *s)
{
	struct stack_walk *w = u->walk;
	const struct elf_symbol *y;
	uint64_t start;

	y = function_at(w->map, at, &w->number);
	if (!y) /* in a linked object, the code may be that of a function which another file's function has replaced */
		return !w->options->linked || code_map_sized(w->map, u->part->code->section, at - u->part->code->addr);
	if (y->bind == STB_GLOBAL && !strncmp(y->name, "__SCT__", 7))
		return false;
	start = u->part->code->addr + y->value;
	w->function = y;
	return !note_at(&w->map->notes, start, NOTE_IGNORE) && !is_expected(u, at, *s, start + y->size);
}

/* Prints the warning about an instruction. */
static void unreached_say(struct unreached *u, uint64_t at)
{
	const struct linux_release *release = u->walk->options->release;
	char text[200];

	snprintf(text, sizeof(text), "unreachable instruction");
	if (release->newer_validation && u->after_dead && u->called)
		snprintf(text, sizeof(text), release->missing_noreturn, u->called);
	plain(text);
	stack_warn(u->walk, at, text);
}

/*
 * Checks one section. map.begins shows where instructions begin, so that only those that no path has reached are
 * decoded, each with the one before it. Returns false after a warning, in releases that print only the first one.
 */
static bool section_check(struct unreached *u)
{
	const struct code_section *c = u->part->code;
	const struct stack_walk *w = u->walk;
	uint64_t first = w->map->space.first, at, before = 0;
	struct step s;

	for (at = c->addr; at - c->addr < c->size; before = at, at = bit_next(w->map->begins, at + 1 - first) + first) {
		if (w->at[at - first])
			continue;
		if (!decode(u, at, &s))
			return true;
		if (is_filler(u, at, &s))
			continue;
		u->called = NULL;
		u->after_dead = before && decode(u, before, &s) && stack_is_dead(u->walk, u->part, before, &s, &u->called);
		if (!decode(u, at, &s) || !is_unexpected(u, at, &s))
			continue;
		unreached_say(u, at);
		if (!w->options->release->newer_validation)
			return false;
	}
	return true;
}

void unreached_warn(struct stack_walk *w)
{
	size_t i;

	for (i = 0; i < w->map->space.count; i++) {
		struct unreached u = {.walk = w, .part = &w->map->parts[i]};
		const char *name = w->map->f->sections[u.part->code->section].name;

		if (strcmp(name, ".altinstr_replacement") && strcmp(name, ".altinstr_aux") && !section_check(&u))
			return;
	}
}
