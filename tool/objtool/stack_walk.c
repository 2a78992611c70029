/* SPDX-License-Identifier: MIT */
/*
 * Implements --stackval and --noinstr. It follows all paths from the start of each function. --stackval warns where the
 * code breaks the kernel's rules for frames: at a call without a frame pointer, at a return or tail call with a frame
 * left on the stack, and where paths with different frames meet. --noinstr warns where code that must not be
 * instrumented calls code that may be. After the first warning of a function, its paths are no longer followed.
 *
 * This is not a domain of dataflow/solver.h: paths with different frames cause a warning instead of a joined state, and
 * the order of the paths decides which warning comes first, as in the kernel's objtool.
 */
#include "objtool/stack_walk.h"
#include "support/memory.h"
#include "support/plain.h"
#include "shared/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t *frame_at(const struct stack_walk *w, uint64_t addr) { return &w->at[addr - w->map->space.first]; }

void stack_path_add(struct stack_walk *w, const struct stack_path *from, uint64_t to, enum turn turn)
{
	mem_reserve(&w->paths, &w->path_capacity, w->path_count, sizeof(*w->paths));
	w->paths[w->path_count++] = (struct stack_path){.at = to,
	                                                .frame = from->frame,
	                                                .last = backtrace_add(&w->backtrace, from->last, from->at, turn),
	                                                .down = from->down,
	                                                .branched = turn != TURN_NONE,
	                                                .depth = from->depth};
}

void stack_paths_reverse(struct stack_walk *w, size_t first)
{
	size_t end;

	for (end = w->path_count; first + 1 < end; first++, end--) {
		struct stack_path p = w->paths[first];

		w->paths[first] = w->paths[end - 1];
		w->paths[end - 1] = p;
	}
}

/* Prints a warning about the instruction at an address. Returns false. */
bool stack_warn(struct stack_walk *w, uint64_t at, const char *text)
{
	const struct code_section *c = space_at(&w->map->space, at), *of = c;
	struct alternative_place place;
	uint64_t original = at;

	w->warnings++;
	if (w->alternatives.marks[at - w->map->space.first] & ALTERNATIVE_REPLACEMENT &&
	    alternatives_find(&w->alternatives, at, &place)) {
		original = place.original; /* the warning names the place of the original */
		of = space_at(&w->map->space, original);
	}
	w->silent = !warns_first(w->map, of->section, original - of->addr);
	if (!w->silent)
		objtool_warn(w->map->f, &w->names, c->section, at - c->addr, text);
	return false;
}

/* Prints a warning without a place. Returns false. */
bool stack_warn_plainly(struct stack_walk *w, const char *text)
{
	w->warnings++;
	w->silent = false;
	objtool_say(w->map->f, "%s", text);
	return false;
}

bool stack_has_hint(const struct stack_walk *w, uint64_t at)
{
	return note_at(&w->map->notes, at, NOTE_FRAME) || note_at(&w->map->notes, at, NOTE_RESTORE);
}

/* ---- visiting an instruction ------------------------------------------------------------- */

/*
 * Checks that the path is still in its function. Returns false if the path ends; then *ok is set if this is without a
 * warning.
 */
static bool function_check(struct stack_walk *w, const struct stack_path *p, bool *ok)
{
	const struct elf_symbol *y = w->function ? stack_function_at(w, p->at) : NULL;
	char text[256];

	if (!y || stack_is_own(w, y))
		return true;
	if (!strncmp(w->function->name, "__cfi_", 6) || w->options->no_unreachable ||
	    (w->options->release->newer_validation && !strncmp(w->function->name, "__pfx_", 6))) {
		*ok = true;
		return false;
	}
	snprintf(text, sizeof(text), "%.100s() falls through to next function %.100s()", w->function->name, y->name);
	plain(text);
	if (w->options->release->falls_count)
		warns_first(w->map, w->function->section, w->function->value);
	return stack_warn_plainly(w, text);
}

/*
 * Returns the address of the SAVE hint whose frame a RESTORE hint takes: the last SAVE before the RESTORE in its
 * function. An edge leads from the one to the other.
 */
static uint64_t save_of(const struct stack_walk *w, uint64_t at)
{
	const struct notes *n = &w->map->notes;
	size_t i;

	for (i = n->count; i-- > 0;)
		if (n->list[i].kind == NOTE_EDGE && n->list[i].to == at && n->list[i].at < at)
			return n->list[i].at;
	return 0;
}

/*
 * Sets the frame of a path to the one that a hint describes. Returns false if the path ends; then *ok is set if this is
 * without a warning.
 */
static bool hint_take(struct stack_walk *w, struct stack_path *p, bool *ok)
{
	const struct notes *n = &w->map->notes;
	const struct note *x = note_at(n, p->at, NOTE_FRAME);
	struct stack_frame f;
	uint32_t saved;

	for (; x && note_is(n, x + 1, p->at, NOTE_FRAME); x++)
		;
	if (x) {
		stack_frame_hinted(&n->frames[x->to], w->options->release->typed_rows, &f);
		p->frame = stack_frames_number(&w->frames, &f);
		return true;
	}
	saved = *frame_at(w, save_of(w, p->at));
	if (!saved) {
		*ok = (p->branched && w->options->release->newer_validation) ||
		      stack_warn(w, p->at, "objtool isn't smart enough to handle this CFI save/restore combo");
		return false;
	}
	p->frame = saved - 1;
	return true;
}

bool stack_alternative_check(struct stack_walk *w, uint64_t at, const struct alternative_place *place, uint32_t frame,
                             bool filled)
{
	uint32_t *byte = filled ? place->filled : place->byte;
	char text[300], where[200];
	const struct code_section *c;

	if (!*byte)
		*byte = frame + 1;
	if (*byte == frame + 1)
		return true;
	snprintf(text, sizeof(text), "stack layout conflict in alternatives");
	if (!w->options->release->newer_validation)
		return stack_warn(w, at, text);
	c = space_at(&w->map->space, at);
	objtool_place(w->map->f, &w->names, c->section, at - c->addr, where, sizeof(where));
	snprintf(text, sizeof(text), "stack layout conflict in alternatives: %s", where);
	return stack_warn(w, place->original, text);
}

/*
 * Adds the paths into the replacements of an instruction, except those that are not followed. `sized`: adds the
 * replacements that have code, otherwise those without code.
 */
static void replacements_add(struct stack_walk *w, const struct stack_path *p, bool sized, bool all)
{
	size_t count, i;
	const struct replacement *r = alternatives_of(&w->alternatives, p->at, &count);

	for (i = 0; i < count; i++)
		if ((r[i].size != 0) == sized && (all || alternative_is_followed(&w->alternatives, &r[i])))
			stack_path_add(w, p, sized ? r[i].from : r[i].end, TURN_ALTERNATIVE);
}

/* True if an edge leads into a replacement. */
static bool enters_replacement(const struct replacement *r, size_t count, uint64_t to)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (to == (r[i].size ? r[i].from : r[i].end))
			return true;
	return false;
}

bool stack_others_add(struct stack_walk *w, const struct stack_path *p, const struct step *s, bool all)
{
	const struct notes *n = &w->map->notes;
	size_t first = w->path_count, count;
	const struct replacement *r = alternatives_of(&w->alternatives, p->at, &count);
	const struct note *x;

	replacements_add(w, p, true, all);
	replacements_add(w, p, false, all);
	for (x = note_at(n, p->at, NOTE_BRANCH); note_is(n, x, p->at, NOTE_BRANCH); x++)
		if (s->flow != FLOW_JUMP || w->options->jump_label)
			stack_path_add(w, p, x->to, TURN_ALTERNATIVE);
		else
			stack_path_add(w, p, p->at + s->len, TURN_ALTERNATIVE);
	for (x = note_at(n, p->at, NOTE_EDGE); note_is(n, x, p->at, NOTE_EDGE); x++)
		if (!enters_replacement(r, count, x->to) && !note_at(n, x->to, NOTE_RESTORE))
			stack_path_add(w, p, x->to, TURN_ALTERNATIVE);
	/* The replacement that was added last is followed first; before 6.4 and since 7.2, the first one is. */
	if (w->options->release->newer_validation && w->options->release->number < LINUX_NUMBER(7, 2))
		stack_paths_reverse(w, first);
	return all || alternative_original_runs(&w->alternatives, r, count);
}

/*
 * Checks a path at an instruction, and records its frame there. Returns false if the path ends; then *ok is set if this
 * is without a warning.
 */
static bool enter(struct stack_walk *w, struct stack_path *p, bool *ok)
{
	uint32_t *seen = frame_at(w, p->at);
	bool hinted = note_any(&w->map->notes, p->at) && stack_has_hint(w, p->at);
	struct alternative_place place;
	char text[128];

	*ok = false;
	if (!function_check(w, p, ok))
		return false;
	if (*seen) {
		*ok = hinted || *seen == p->frame + 1 ||
		      !stack_frames_differ(&w->frames.list[*seen - 1], &w->frames.list[p->frame],
		                           w->options->release->typed_rows, text, sizeof(text)) ||
		      stack_warn(w, p->at, text);
		return false;
	}
	if (w->uninstrumented)
		p->depth = (int8_t)(p->depth + noinstr_change(w->noinstr, p->at));
	if (hinted && !hint_take(w, p, ok))
		return false;
	*seen = p->frame + 1;
	if (alternatives_find(&w->alternatives, p->at, &place) &&
	    !stack_alternative_check(w, p->at, &place, p->frame, false))
		return false;
	*ok = true;
	return true;
}

/*
 * True if an instruction does no more than continue with the next one: it changes neither the frame nor the direction
 * flag, and there is no note about what follows it. Most instructions are such.
 */
static bool is_plain(const struct stack_walk *w, const struct part *part, const struct stack_path *p,
                     const struct step *s)
{
	uint64_t after = p->at + s->len;

	return s->flow == FLOW_NEXT && s->direction == DIRECTION_KEPT && after - part->code->addr < part->code->size &&
	       !stack_leaves(part->code->bytes + (p->at - part->code->addr), s) &&
	       !stack_frame_may_change(&w->frames.list[p->frame], s, w->options->release->newer_validation) &&
	       !note_any(&w->map->notes, after) &&
	       !(w->alternatives.marks[p->at - w->map->space.first] & ALTERNATIVE_REPLACEMENT);
}

/*
 * Visits the instruction at which a path begins, and those after it up to the first that is not plain; paths into its
 * replacements are followed first. Returns false after a warning.
 */
static bool visit(struct stack_walk *w, struct stack_path p)
{
	const struct part *part = w->part;
	size_t first = w->path_count;
	bool ok = true;
	struct step s;

	if (!part || p.at - part->code->addr >= part->code->size)
		part = w->part = part_at(w->map, p.at);
	if (!part)
		return true;
	for (;; p.at += s.len, p.branched = false, p.resumed = false) {
		uint64_t off = p.at - part->code->addr;

		if ((!p.resumed && !enter(w, &p, &ok)) ||
		    !step_decode(w->map->cache, part->code->bytes + off, part->code->size - off, p.at, &s))
			return ok;
		if (!p.resumed && note_any(&w->map->notes, p.at))
			break;
		if (!is_plain(w, part, &p, &s)) {
			ok = stack_leave(w, part, &p, &s);
			stack_paths_reverse(w, first);
			return ok;
		}
	}
	p.resumed = stack_others_add(w, &p, &s, false);
	if (p.resumed) {
		stack_path_add(w, &p, p.at, TURN_NONE);
		w->paths[w->path_count - 1].resumed = true;
	}
	stack_paths_reverse(w, first);
	return true;
}

/*
 * Prints how the last path, which a warning has ended, came to its place. Like objtool, it does so even if the warning
 * itself was not printed. objtool does not follow a function at all if it has warned of it for --uaccess.
 */
static void reached_print(struct stack_walk *w, uint32_t last, uint64_t start, const char *mark)
{
	if (w->silent && w->function && access_warned(w->map, w->function))
		return;
	backtrace_print(&w->backtrace, w->map, &w->names, last);
	backtrace_begin_print(&w->backtrace, w->map, &w->names, start, mark);
}

/*
 * Follows all paths from an address, unless other paths have visited it. `mark` says in a backtrace what is at the
 * address.
 */
static void paths_walk(struct stack_walk *w, uint64_t at, const struct elf_symbol *function, size_t number,
                       const char *mark)
{
	struct stack_path p = {.at = at, .branched = true};
	size_t warnings = w->warnings;
	struct stack_frame f;
	bool ok = true;

	if (!part_at(w->map, at) || *frame_at(w, at) || note_at(&w->map->notes, at, NOTE_IGNORE))
		return;
	stack_frame_start(&f);
	p.frame = stack_frames_number(&w->frames, &f);
	w->function = function;
	w->number = number;
	backtrace_clear(&w->backtrace);
	w->path_count = 0;
	mem_reserve(&w->paths, &w->path_capacity, w->path_count, sizeof(*w->paths));
	w->paths[w->path_count++] = p;
	while (ok && w->path_count) {
		p = w->paths[--w->path_count];
		ok = visit(w, p);
	}
	if (w->warnings > warnings)
		reached_print(w, p.last, at, mark);
}

/* True for a function without a size, so that the extent of its code is not known. */
static bool is_unsized(const struct elf_file *f, const struct elf_symbol *y)
{
	(void)f;
	return y->section && y->type == STT_FUNC && !y->size;
}

/*
 * Prints a warning about each function without a size in a section, from number *k on, if objtool comes to it before
 * the function `next` (null: there is none). Up to 6.12, its list has such a function after those of higher addresses
 * that come later in the symbol table, without a gap.
 */
static void unsized_warn(struct stack_walk *w, uint32_t section, const struct elf_symbol *next, size_t *k)
{
	char text[160];

	for (; *k < w->unsized.count && w->unsized.list[*k]->section == section; ++*k) {
		const struct elf_symbol *y = w->unsized.list[*k];

		if (next && (next->value < y->value || (!w->options->release->keeps_unsized && next > y)))
			return;
		snprintf(text, sizeof(text), "%.100s() is missing an ELF size annotation", y->name);
		plain(text);
		stack_warn_plainly(w, text);
	}
}

/* Follows the paths from all functions of a section. */
static void functions_walk(struct stack_walk *w, uint32_t section)
{
	const struct code_map *m = w->map;
	const struct code_section *c = space_of(&m->space, section);
	size_t i = symbol_index_above(&m->functions, section - 1, UINT64_MAX);
	size_t k = symbol_index_above(&w->unsized, section - 1, UINT64_MAX);

	w->uninstrumented = w->noinstr && w->noinstr->sections[section];
	for (; i < m->functions.count && m->functions.list[i]->section == section; i++) {
		const struct elf_symbol *y = m->functions.list[i];

		unsized_warn(w, section, y, &k);
		if (y->value < c->size && !strstr(y->name, ".cold"))
			paths_walk(w, c->addr + y->value, y, i, "<=== (sym)");
	}
	unsized_warn(w, section, NULL, &k);
}

/* Follows the paths from those places in [from, to) at which entry code begins according to hints. */
static void hints_walk(struct stack_walk *w, uint64_t from, uint64_t to)
{
	const struct code_map *m = w->map;
	size_t i, k;

	for (i = SEARCH(m->notes.count, n, m->notes.list[n].at < from); i < m->notes.count && m->notes.list[i].at < to; i++)
		if (m->notes.list[i].kind == NOTE_FRAME) {
			uint64_t at = m->notes.list[i].at;
			const struct elf_symbol *y = function_at(m, at, &k);

			if (!y || !note_at(&m->notes, space_of(&m->space, y->section)->addr + y->value, NOTE_IGNORE))
				paths_walk(w, at, y, k, "<=== (hint)");
		}
}

/* Follows all code. Like objtool, it allows entry code outside of functions to be instrumented. */
static void all_walk(struct stack_walk *w)
{
	const struct code_map *m = w->map;
	size_t i;

	for (i = 0; i < m->space.count; i++)
		functions_walk(w, m->space.list[i].section);
	w->uninstrumented = false;
	hints_walk(w, 0, UINT64_MAX);
}

/* Follows only code that must not be instrumented. */
static void noinstr_walk(struct stack_walk *w)
{
	static const char *const names[] = {".noinstr.text", ".entry.text", ".cpuidle.text"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t section = elf_section_find(w->map->f, names[i], 1);
		const struct code_section *c = section ? space_of(&w->map->space, section) : NULL;

		if (!c || !w->noinstr->sections[section])
			continue;
		functions_walk(w, section);
		hints_walk(w, c->addr, c->addr + c->size);
	}
}

bool stack_follows_all(const struct objtool_options *o)
{
	return !o->no_stack && (o->stackval || o->orc || o->uaccess);
}

static int walk(struct stack_walk *w, struct noinstr *noinstr, struct error *e)
{
	const struct objtool_options *o = w->options;

	if (o->noinstr) {
		if (noinstr_read(w->map, noinstr, e))
			return -1;
		w->noinstr = noinstr;
	}
	if (stack_follows_all(o)) {
		all_walk(w);
		if (!w->warnings && !o->no_unreachable)
			unreached_warn(w);
	} else if (o->noinstr) {
		noinstr_walk(w);
	}
	return o->unret ? unret_check(w, e) : 0;
}

int stack_check(const struct code_map *map, const struct objtool_options *o, size_t warnings, struct error *e)
{
	struct near_function near = {0};
	struct stack_walk w = {
		.map = map, .near = &near, .options = o, .backtrace = {.on = o->backtrace}, .warnings = warnings};
	struct noinstr noinstr = {0};
	int err;

	alternatives_read(map, o->uaccess, &w.alternatives);
	table_jumps_open(map, &w.tables);
	symbol_index_build(map->f, is_unsized, &w.unsized);
	w.at = mem_zero(map->space.span + 1, sizeof(*w.at));
	err = walk(&w, &noinstr, e);
	noinstr_free(&noinstr);
	alternatives_free(&w.alternatives);
	table_jumps_free(&w.tables);
	stack_frames_free(&w.frames);
	place_names_free(&w.names);
	backtrace_free(&w.backtrace);
	symbol_index_free(&w.unsized);
	free(w.at);
	free(w.paths);
	return err;
}
