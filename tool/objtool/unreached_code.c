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
	bool after_dead;    /* control does not continue after the previous instruction */
	const char *called; /* name of the function that the previous instruction calls */
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

/* True if no path has reached an instruction, and this is not expected. */
static bool is_unreached(struct unreached *u, uint64_t at, const struct step *s)
{
	struct stack_walk *w = u->walk;
	const uint8_t *bytes = u->part->code->bytes + (at - u->part->code->addr);
	const struct elf_symbol *y;
	uint64_t start;

	if (w->at[at - w->map->space.first] || (s->padding && !insn_is_endbr(bytes, s->len)))
		return false;
	y = function_at(w->map, at, &w->number);
	if (!y) /* in a linked object, the code may be that of a function which another file's function has replaced */
		return !w->options->linked || code_map_sized(w->map, u->part->code->section, at - u->part->code->addr);
	if (y->bind == STB_GLOBAL && !strncmp(y->name, "__SCT__", 7))
		return false;
	start = u->part->code->addr + y->value;
	w->function = y;
	return !note_at(&w->map->notes, start, NOTE_IGNORE) && !is_expected(u, at, *s, start + y->size);
}

/* Checks one section. Returns false after a warning, in releases that print only the first one. */
static bool section_check(struct unreached *u)
{
	const struct code_section *c = u->part->code;
	struct step s;
	uint64_t at;
	char text[200];

	for (at = c->addr; decode(u, at, &s); at += s.len) {
		if (is_unreached(u, at, &s)) {
			snprintf(text, sizeof(text), "unreachable instruction");
			if (u->walk->options->release->newer_validation && u->after_dead && u->called)
				snprintf(text, sizeof(text), u->walk->options->release->missing_noreturn, u->called);
			plain(text);
			stack_warn(u->walk, at, text);
			if (!u->walk->options->release->newer_validation)
				return false;
		}
		u->after_dead = stack_is_dead(u->walk, u->part, at, &s, &u->called);
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
