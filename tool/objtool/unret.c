/* SPDX-License-Identifier: MIT */
/*
 * Implements --unret. On paths from the places at which the kernel is entered, there must be no return or indirect
 * branch before the CPU's prediction of returns has been reset. A nop with the annotation LINUX_RETPOLINE_SAFE marks
 * the reset. Paths go into called functions and do not come back from them.
 */
#include "objtool/code_map.h"
#include "objtool/stack_walk.h"
#include "arch/x86/opcodes.h"
#include "support/memory.h"
#include "support/plain.h"
#include "support/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unret {
	struct stack_walk *walk; /* the paths of this walk are used, but not its frames */
	uint64_t *visited;       /* a bit for each byte of the space */
	struct linux_place *safe;
	size_t safe_count;
	bool unresolved; /* a path cannot be followed to its end, and objtool gives up */
};

static bool is_safe_nop(const struct unret *u, const struct part *part, uint64_t at, const struct step *s)
{
	uint64_t off = at - part->code->addr;

	return s->padding && s->flow == FLOW_NEXT && !insn_is_endbr(part->code->bytes + off, s->len) &&
	       linux_place_in(u->safe, u->safe_count, part->code->section, off);
}

/* Prints a warning. Returns false. */
static bool warn(struct unret *u, uint64_t at, const char *text) { return stack_warn(u->walk, at, text); }

/*
 * Continues a path at the start of the function to which a direct call or tail call leads. Returns false after a
 * warning.
 */
static bool call_follow(struct unret *u, const struct stack_path *p, const struct elf_symbol *y, uint64_t to,
                        enum turn turn)
{
	const struct code_section *c = y && y->section ? space_of(&u->walk->map->space, y->section) : NULL;
	char text[200];

	to = c ? c->addr + y->value : to;
	if (!to || !part_at(u->walk->map, to)) {
		snprintf(text, sizeof(text), "Unresolved function after linking!?: %.120s", y ? y->name : "");
		plain(text);
		u->unresolved = true;
		return stack_warn_plainly(u->walk, text);
	}
	stack_path_add(u->walk, p, to, turn);
	return true;
}

/* Follows a direct jump. Returns false after a warning. Sets *continues if the next instruction may follow. */
static bool jump_follow(struct unret *u, const struct part *part, const struct stack_path *p, const struct step *s,
                        bool *continues)
{
	struct stack_walk *w = u->walk;
	const struct elf_symbol *called;
	uint64_t to = 0;

	*continues = s->flow == FLOW_BRANCH || note_at(&w->map->notes, p->at, NOTE_BRANCH);
	switch (stack_way_of(w, part, p->at, s, &to, &called)) {
	case WAY_RETURN: return warn(u, p->at, "RET before UNTRAIN");
	case WAY_INDIRECT: return warn(u, p->at, "early indirect call");
	case WAY_AWAY: *continues = false; return call_follow(u, p, called, to, TURN_CALL);
	case WAY_INSIDE: stack_path_add(w, p, to, s->flow == FLOW_BRANCH ? TURN_CONDITION : TURN_BRANCH); return true;
	default: u->unresolved = true; return warn(u, p->at, "unresolved jump target after linking?!?");
	}
}

/* Follows a call. Returns false after a warning. *continues is set to false, since paths do not come back. */
static bool call_enter(struct unret *u, const struct part *part, const struct stack_path *p, const struct step *s,
                       bool *continues)
{
	const struct code_map *m = u->walk->map;
	const struct elf_symbol *y = symbol_in(m, part, p->at, s);
	struct target t = target_of(m, part, p->at, s);

	*continues = false;
	if (stack_is_retpoline(u->walk, y))
		return warn(u, p->at, "early indirect call");
	return call_follow(u, p, y && y->type != STT_SECTION && !t.at ? y : NULL, t.at,
	                   note_at(&m->notes, p->at, NOTE_PUSH) ? TURN_BRANCH : TURN_CALL);
}

/*
 * Returns false if a path ends at an instruction that returns to interrupted code. Whether it does depends on the
 * release.
 */
static bool leaving_continues(const struct unret *u, uint64_t at, const uint8_t *bytes, const struct step *s)
{
	size_t k;

	switch (u->walk->map->release->leaving) {
	case LEAVING_IS_PASSED: return true;
	case LEAVING_IN_FUNCTIONS_IS_PASSED: return function_at(u->walk->map, at, &k) != NULL;
	default: break;
	}
	if (s->op == STEP_SYSCALL)
		return true;
	/* In a function, control continues after an iret at the next instruction. */
	return code_leaves(bytes, s->len) == LEAVES_BY_IRET && function_at(u->walk->map, at, &k);
}

/* Applies one instruction to a path. Returns false after a warning. */
static bool leave(struct unret *u, const struct part *part, const struct stack_path *p, const struct step *s)
{
	struct stack_walk *w = u->walk;
	const uint8_t *bytes = part->code->bytes + (p->at - part->code->addr);
	uint64_t after = p->at + s->len;
	bool continues = true;
	const char *called;

	if (stack_leaves(bytes, s)) {
		continues = leaving_continues(u, p->at, bytes, s);
	} else {
		switch (s->flow) {
		case FLOW_RETURN: return warn(u, p->at, "RET before UNTRAIN");
		case FLOW_JUMP_IND:
		case FLOW_CALL_IND: return warn(u, p->at, "early indirect call");
		case FLOW_JUMP:
		case FLOW_BRANCH:
			if (!jump_follow(u, part, p, s, &continues))
				return false;
			break;
		case FLOW_CALL:
			if (!call_enter(u, part, p, s, &continues))
				return false;
			break;
		default: continues = !is_safe_nop(u, part, p->at, s) && !stack_is_dead(w, part, p->at, s, &called);
		}
	}
	if (!continues)
		return true;
	part = stack_next(w, part, p->at, &after);
	if (!part || after - part->code->addr >= part->code->size) {
		u->unresolved = true;
		return warn(u, p->at, "teh end!");
	}
	stack_path_add(w, p, after, TURN_NONE);
	return true;
}

/*
 * Visits the instruction at which a path begins; paths into its replacements are followed first. Returns false after a
 * warning.
 */
static bool visit(struct unret *u, struct stack_path p)
{
	struct stack_walk *w = u->walk;
	const struct part *part = part_at(w->map, p.at);
	uint64_t off = part ? p.at - part->code->addr : 0, bit = p.at - w->map->space.first;
	size_t first = w->path_count;
	bool ok = true;
	struct step s;

	if (!part || (!p.resumed && bit_has(u->visited, bit)) ||
	    !step_decode(w->map->cache, part->code->bytes + off, part->code->size - off, p.at, &s))
		return true;
	bit_set(u->visited, bit);
	w->function = function_at(w->map, p.at, &w->number);
	if (!p.resumed && note_any(&w->map->notes, p.at)) {
		p.resumed = stack_others_add(w, &p, &s, w->map->release->unret_follows_all);
		if (p.resumed) {
			stack_path_add(w, &p, p.at, TURN_NONE);
			w->paths[w->path_count - 1].resumed = true;
		}
	} else {
		ok = leave(u, part, &p, &s);
	}
	stack_paths_reverse(w, first);
	return ok;
}

/* Follows all paths from an address. Returns false where objtool gives up. */
static bool paths_follow(struct unret *u, uint64_t at)
{
	struct stack_walk *w = u->walk;
	const struct stack_path start = {.at = at};
	struct stack_path p = start;
	bool ok = true;

	backtrace_clear(&w->backtrace);
	w->path_count = 0;
	stack_path_add(w, &start, at, TURN_NONE);
	while (ok && w->path_count) {
		p = w->paths[--w->path_count];
		ok = visit(u, p);
	}
	if (!ok)
		backtrace_print(&w->backtrace, w->map, &w->names, p.last);
	if (!u->unresolved || w->map->release->unret_follows_all)
		return true;
	return warn(u, at, "Failed UNRET validation");
}

int unret_check(struct stack_walk *w, struct error *e)
{
	const struct code_map *m = w->map;
	struct unret u = {.walk = w};
	struct linux_place *list = NULL;
	long safe = linux_annotated(m->release, m->f, LINUX_RETPOLINE_SAFE, &u.safe, e), count = -1, i;
	uint64_t *starts;
	size_t n = 0, k;

	if (safe >= 0)
		count = linux_entries(m->release, m->f, &m->space, &list, e);
	if (count < 0) {
		free(u.safe);
		return -1;
	}
	u.safe_count = (size_t)safe;
	u.visited = bits_new(m);
	starts = mem_alloc((size_t)count + 1, sizeof(*starts));
	for (i = 0; i < count; i++) {
		const struct code_section *c = space_of(&m->space, list[i].section);

		if (c)
			starts[n++] = c->addr + list[i].at;
	}
	n = words_unique(starts, n);
	for (k = 0; k < n && paths_follow(&u, starts[k]); k++)
		;
	free(starts);
	free(list);
	free(u.safe);
	free(u.visited);
	/* Later releases print a warning and continue. */
	return u.unresolved && !m->release->newer_validation ? error_set(e, "--unret can follow no path to its end") : 0;
}
