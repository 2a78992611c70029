/* SPDX-License-Identifier: MIT */
/*
 * Implements --uaccess. The kernel enables access to user memory (stac) for a few instructions at a time. The pass
 * follows all paths from the start of each function, and warns where access is enabled at a call or return, or where
 * enabling and disabling do not pair. stac and clac are replacements of nops; the pass assumes that they are always
 * used.
 *
 * This is not a domain of dataflow/solver.h: an instruction may be visited once with access enabled and once with it
 * disabled, and the order of the paths decides which warning comes first, as in the kernel's objtool.
 */
#include "kernel/linux_kernel.h"
#include "arch/x86/opcodes.h"
#include "objtool/access_reach.h"
#include "objtool/warning_backtrace.h"
#include "objtool/code_map.h"
#include "objtool/objtool.h"
#include "support/memory.h"
#include "support/plain.h"
#include "shared/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Facts about a byte of code. Each fact has a list of bits, one for each byte. */
enum {
	VISITED_DISABLED, /* a path has come here while access was disabled */
	VISITED_ENABLED,  /* a path has come here while access was enabled */
	/* the byte may be replaced, or is in a replacement; only there pushf and popf save and restore access */
	IN_ALTERNATIVE,
	NOTED, /* there is a note about the byte, or an original begins there */
	MARKS,
};

/* A path that is still to be followed. */
struct path {
	uint64_t at;   /* address in the code space */
	uint32_t last; /* number of the last step in `backtrace` */
	bool enabled;  /* access to user memory is enabled */
	bool resumed;  /* the instruction has been visited, but its own effect is still to be applied */
	/* the states that pushf has saved, the last one in the lowest bit; the bit above the first one is 1; 0: none */
	uint32_t saved;
};

struct access {
	struct code_map *map;
	struct access_reach reach;
	struct place_names names;
	struct backtrace backtrace;
	uint64_t *marks[MARKS];
	const struct part *part; /* part of the last instruction that was visited, or null */
	struct path *paths;
	size_t path_count, path_capacity;
	const struct elf_symbol *function; /* the function whose paths are followed; null: code outside of functions */
	size_t warnings;
	bool safe; /* the function may be called while access is enabled */
};

static bool is_marked(const struct access *a, unsigned mark, uint64_t addr)
{
	return bit_has(a->marks[mark], addr - a->map->space.first);
}

static void mark(const struct access *a, unsigned mark, uint64_t addr)
{
	bit_set(a->marks[mark], addr - a->map->space.first);
}

static bool is_thunk(const struct access *a, const char *name, const char *prefix)
{
	return name && name[0] == '_' && !strncmp(linux_thunk_name(a->map->release, name), prefix, strlen(prefix));
}

/* True if the name is that of the function whose paths are followed, or of its cold part. */
static bool is_own(const struct access *a, const char *name)
{
	size_t n = a->function ? strlen(a->function->name) : 0;

	return n && !strncmp(name, a->function->name, n) && (!name[n] || !strncmp(name + n, ".cold", 5));
}

static void path_add(struct access *a, const struct path *from, uint64_t to, enum turn turn)
{
	mem_reserve(&a->paths, &a->path_capacity, a->path_count, sizeof(*a->paths));
	a->paths[a->path_count++] = (struct path){.at = to,
	                                          .last = backtrace_add(&a->backtrace, from->last, from->at, turn),
	                                          .enabled = from->enabled,
	                                          .saved = from->saved};
}

/* Prints a warning. Returns false, so that the function's paths end: only its first warning is printed. */
static bool warn(struct access *a, uint64_t at, const char *text)
{
	const struct code_section *c = space_at(&a->map->space, at);

	if (warns_first(a->map, c->section, at - c->addr))
		objtool_warn(a->map->f, &a->names, c->section, at - c->addr, text);
	a->warnings++;
	return false;
}

/* Checks a call or tail call; `name` is null if the callee is unknown. Returns false after a warning. */
static bool call_check(struct access *a, const struct path *p, const char *name)
{
	char text[200];

	if (!p->enabled || (name && linux_access_safe(a->map->release, name)))
		return true;
	snprintf(text, sizeof(text), "call to %.120s() with UACCESS enabled", name ? name : "{dynamic}");
	plain(text);
	return warn(a, p->at, text);
}

static bool return_check(struct access *a, const struct path *p)
{
	if (p->enabled && !a->safe)
		return warn(a, p->at, "return with UACCESS enabled");
	if (!p->enabled && a->safe)
		return warn(a, p->at, "return with UACCESS disabled from a UACCESS-safe function");
	return true;
}

/* Applies the effect of an instruction to a path. Returns false after a warning. */
static bool effect_apply(struct access *a, struct path *p, enum access_effect effect)
{
	switch (effect) {
	case ACCESS_ENABLED:
		if (p->enabled)
			return warn(a, p->at, "recursive UACCESS enable");
		p->enabled = true;
		return true;
	case ACCESS_DISABLED:
		if (!p->enabled && a->function)
			return warn(a, p->at, "redundant UACCESS disable");
		if (a->safe && !p->saved)
			return warn(a, p->at, "UACCESS-safe disables UACCESS");
		p->enabled = false;
		return true;
	case ACCESS_SAVED:
		if (!is_marked(a, IN_ALTERNATIVE, p->at))
			return true;
		if (p->saved >> 31)
			return warn(a, p->at, "PUSHF stack exhausted");
		p->saved = (p->saved ? p->saved : 1) << 1 | p->enabled;
		return true;
	case ACCESS_RESTORED:
		if (!p->saved || !is_marked(a, IN_ALTERNATIVE, p->at))
			return true;
		p->enabled = p->saved & 1;
		p->saved >>= 1;
		p->saved = p->saved == 1 ? 0 : p->saved;
		return true;
	default: return true;
	}
}

/* True if an instruction in the `size` bytes from `at` on has an effect on access. */
static bool has_effect(const struct access *a, uint64_t at, uint64_t size)
{
	const struct part *p = size ? part_at(a->map, at) : NULL;
	uint64_t end = at + size;
	struct step s;

	for (; p && at < end; at += s.len) {
		const uint8_t *bytes = p->code->bytes + (at - p->code->addr);

		if (!step_decode(a->map->cache, bytes, end - at, at, &s))
			return false;
		if (code_access_effect(bytes, s.len))
			return true;
	}
	return false;
}

/*
 * Adds the paths into an instruction's replacements and to its fixups. Returns false if the instruction itself never
 * runs.
 */
static bool successors_add(struct access *a, const struct path *p)
{
	const struct notes *n = &a->map->notes;
	const struct note *x;
	bool runs = true, groups = a->map->release->groups_ignored;
	size_t k;

	for (x = note_at(n, p->at, NOTE_BRANCH); note_is(n, x, p->at, NOTE_BRANCH); x++)
		path_add(a, p, x->to, TURN_ALTERNATIVE);
	for (x = note_at(n, p->at, NOTE_EDGE); note_is(n, x, p->at, NOTE_EDGE); x++)
		if (!groups || !code_map_keeps(a->map, x->to))
			path_add(a, p, x->to, TURN_ALTERNATIVE);
	k = SEARCH(n->replacement_count, i, n->replacements[i].at < p->at);
	for (; k < n->replacement_count && n->replacements[k].at == p->at; k++)
		runs &= (groups && code_map_keeps(a->map, n->replacements[k].from)) ||
		        !has_effect(a, n->replacements[k].from, n->replacements[k].size);
	return runs && !(groups && code_map_keeps(a->map, p->at));
}

/* Follows a jump. Returns false after a warning. */
static bool jump_follow(struct access *a, const struct part *part, const struct path *p, const struct step *s)
{
	struct target t = target_of(a->map, part, p->at, s);
	const char *name = t.name ? t.name : t.label;
	size_t k;

	if (s->flow == FLOW_JUMP && is_thunk(a, name, RETURN_THUNK))
		return return_check(a, p);
	if (is_thunk(a, name, "__x86_indirect_thunk_"))
		return call_check(a, p, NULL);
	/*
	 * In code outside of functions, a jump to a symbol leads to a label of this code. In a function, such a jump is a
	 * tail call.
	 */
	if (name && !is_own(a, name) && (t.name || function_at(a->map, p->at, &k)))
		return call_check(a, p, name);
	if (t.at)
		path_add(a, p, t.at, TURN_BRANCH);
	return true;
}

/* Follows a call. Returns false after a warning. Sets *continues if the call may return. */
static bool call_follow(struct access *a, const struct part *part, struct path *p, const struct step *s,
                        bool *continues)
{
	struct target t = target_of(a->map, part, p->at, s);

	if (note_at(&a->map->notes, p->at, NOTE_PUSH)) {
		*continues = false;
		path_add(a, p, t.at, TURN_BRANCH);
		return true;
	}
	if (t.at && !t.name) {
		const struct code_section *c = space_at(&a->map->space, t.at);
		const struct elf_symbol *y = c ? symbol_index_find(&a->map->labels, c->section, t.at - c->addr) : NULL;

		t.name = y && t.at == c->addr + y->value ? y->name : NULL;
	}
	*continues = !calls_dead(a->map, &t);
	return call_check(a, p, is_thunk(a, t.name, "__x86_indirect_thunk_") ? NULL : t.name);
}

/*
 * Adds the path that continues with the next instruction; after the last one of a replacement, that is the instruction
 * after the original.
 */
static void next_add(struct access *a, const struct path *p, uint64_t after)
{
	const struct note *x;

	if (!is_marked(a, NOTED, after)) {
		path_add(a, p, after, TURN_NONE);
		return;
	}
	x = note_at(&a->map->notes, after, NOTE_RESUME);
	if (note_at(&a->map->notes, after, NOTE_UNREACHABLE))
		return;
	if (!x)
		path_add(a, p, after, TURN_NONE);
	for (; note_is(&a->map->notes, x, after, NOTE_RESUME); x++)
		path_add(a, p, x->to, TURN_NONE);
}

/* Applies one instruction to a path, and adds the paths that continue after it. Returns false after a warning. */
static bool insn_follow(struct access *a, const struct part *part, struct path *p, const struct step *s)
{
	const uint8_t *bytes = part->code->bytes + (p->at - part->code->addr);
	bool continues = true;

	if (!effect_apply(a, p, code_access_effect(bytes, s->len)))
		return false;
	switch (s->flow) {
	case FLOW_RETURN: return return_check(a, p);
	case FLOW_JUMP_IND: return call_check(a, p, NULL);
	case FLOW_JUMP: return jump_follow(a, part, p, s);
	case FLOW_BRANCH:
		if (!jump_follow(a, part, p, s))
			return false;
		break;
	case FLOW_CALL_IND:
		if (!call_check(a, p, NULL))
			return false;
		break;
	case FLOW_CALL:
		if (!call_follow(a, part, p, s, &continues))
			return false;
		break;
	case FLOW_STOP:
		continues = insn_is_int3(bytes, s->len) || note_at(&a->map->notes, p->at + s->len, NOTE_REACHABLE);
		break;
	default: break;
	}
	if (continues)
		next_add(a, p, p->at + s->len);
	return true;
}

/* Reverses the paths from an index on, so that the first one added is followed first, to its end. objtool does the
 * same, and the order decides which warning comes first. */
static void paths_reverse(struct access *a, size_t first)
{
	size_t end;

	for (end = a->path_count; first + 1 < end; first++, end--) {
		struct path p = a->paths[first];

		a->paths[first] = a->paths[end - 1];
		a->paths[end - 1] = p;
	}
}

static unsigned visited_by(const struct path *p) { return p->enabled ? VISITED_ENABLED : VISITED_DISABLED; }

static bool path_step(const struct access *a, const struct part *part, uint64_t at, struct step *s)
{
	uint64_t off = at - part->code->addr;

	return step_decode_in(a->map->cache, part->code->bytes + off, part->code->size - off, part->code->size - off, at,
	                      s);
}

/*
 * Moves a path to the next instruction in map.stops. Most instructions are not in that list, and have no effect on
 * access.
 */
static void plain_follow(const struct access *a, struct path *p)
{
	const struct code_map *m = a->map;
	uint64_t at = p->at - m->space.first, bits = m->stops[at / 64] >> at % 64;

	if (bits & 1 || !bit_has(m->begins, at))
		return;
	if (bits) {
		p->at += (uint64_t)__builtin_ctzll(bits);
		return;
	}
	for (at /= 64; !bits;) /* ends at the last instruction of the section, which always has its bit set */
		bits = m->stops[++at];
	p->at = m->space.first + 64 * at + (uint64_t)__builtin_ctzll(bits);
}

/*
 * Visits the instruction at which a path begins; paths into its replacements are followed first. Returns false after a
 * warning.
 */
static bool insn_visit(struct access *a, struct path p)
{
	const struct part *part = a->part;
	size_t first = a->path_count;
	bool ok = true;
	struct step s;

	if (!part || p.at - part->code->addr >= part->code->size)
		part = a->part = part_at(a->map, p.at);
	if (!part)
		return true;
	if (!p.resumed)
		plain_follow(a, &p);
	if (!p.resumed && is_marked(a, visited_by(&p), p.at))
		return true;
	mark(a, visited_by(&p), p.at);
	if (!p.resumed && is_marked(a, NOTED, p.at)) {
		p.resumed = successors_add(a, &p);
		if (p.resumed) {
			path_add(a, &p, p.at, TURN_NONE);
			a->paths[a->path_count - 1].resumed = true;
		}
	} else if (path_step(a, part, p.at, &s)) {
		ok = insn_follow(a, part, &p, &s);
	}
	paths_reverse(a, first);
	return ok;
}

/* Follows all paths from an address, unless other paths have visited it. `mark` says in a backtrace what is there. */
static void paths_walk(struct access *a, uint64_t at, const struct elf_symbol *function, const char *mark)
{
	struct path p = {.at = at};
	bool ok = true;

	if (!part_at(a->map, at) || is_marked(a, VISITED_DISABLED, at) || is_marked(a, VISITED_ENABLED, at) ||
	    note_at(&a->map->notes, at, NOTE_IGNORE))
		return;
	a->function = function;
	a->safe = p.enabled = function && linux_access_safe(a->map->release, function->name);
	backtrace_clear(&a->backtrace);
	a->path_count = 0;
	path_add(a, &p, at, TURN_NONE);
	while (ok && a->path_count) {
		p = a->paths[--a->path_count];
		ok = insn_visit(a, p);
	}
	if (ok)
		return;
	if (function)
		access_warned_set(a->map, function);
	backtrace_print(&a->backtrace, a->map, &a->names, p.last);
	backtrace_begin_print(&a->backtrace, a->map, &a->names, at, mark);
}

/*
 * Follows all paths from each function except cold parts, and then from the places at which entry code begins according
 * to hints.
 */
static void all_walk(struct access *a)
{
	size_t i, k;

	for (i = 0; i < a->map->functions.count; i++) {
		const struct elf_symbol *y = a->map->functions.list[i];
		const struct code_section *c = space_of(&a->map->space, y->section);

		if (c && y->value < c->size && access_matters(&a->reach, c->addr + y->value) && !strstr(y->name, ".cold"))
			paths_walk(a, c->addr + y->value, y, "<=== (sym)");
	}
	for (i = 0; i < a->map->notes.count; i++)
		if (a->map->notes.list[i].kind == NOTE_FRAME && access_matters(&a->reach, a->map->notes.list[i].at))
			paths_walk(a, a->map->notes.list[i].at, function_at(a->map, a->map->notes.list[i].at, &k), "<=== (hint)");
}

bool uaccess_has_work(const struct code_map *map)
{
	const struct code_space *space = &map->space;
	const struct elf_file *f = map->f;
	uint64_t at;
	size_t i;

	for (i = 0; i < f->symbol_count; i++)
		if (f->symbols[i].section && linux_access_safe(map->release, f->symbols[i].name))
			return true;
	for (i = 0; i < space->count; i++)
		for (at = 0; at < space->list[i].size; at++)
			if (code_access_toggles(space->list[i].bytes + at, space->list[i].size - at))
				return true;
	return false;
}

/*
 * Sets the bits in map.stops for a place about which there is a note, and for the instruction before it, so that paths
 * stop there.
 */
static void noted_mark(struct access *a, uint64_t at)
{
	uint64_t off = at - a->map->space.first, back;

	if (off > a->map->space.span)
		return;
	mark(a, NOTED, at);
	bit_set(a->map->stops, off);
	for (back = 1; back <= STEP_LEN_MOST && back <= off; back++)
		if (bit_has(a->map->begins, off - back)) {
			bit_set(a->map->stops, off - back);
			break;
		}
}

/*
 * Sets the bit in map.stops for the start of each function, too, so that it is recorded whether a path has visited it.
 */
static void functions_mark(struct access *a)
{
	size_t i;

	for (i = 0; i < a->map->functions.count; i++) {
		const struct elf_symbol *y = a->map->functions.list[i];
		const struct code_section *c = space_of(&a->map->space, y->section);

		if (c && y->value < c->size)
			bit_set(a->map->stops, c->addr + y->value - a->map->space.first);
	}
}

static void notes_mark(struct access *a)
{
	size_t i;

	for (i = 0; i < a->map->notes.count; i++)
		noted_mark(a, a->map->notes.list[i].at);
	for (i = 0; i < a->map->notes.replacement_count; i++) {
		const struct replacement *r = &a->map->notes.replacements[i];
		uint64_t at;

		noted_mark(a, r->at);
		for (at = r->at; at < r->end; at++)
			mark(a, IN_ALTERNATIVE, at);
		for (at = r->from; at < r->from + r->size; at++)
			mark(a, IN_ALTERNATIVE, at);
	}
}

size_t uaccess_check(struct code_map *map, const struct objtool_options *o)
{
	struct access a = {.map = map, .backtrace = {.on = o->backtrace}};
	unsigned i;

	for (i = 0; i < MARKS; i++)
		a.marks[i] = bits_new(map);
	access_reach_make(map, &a.reach);
	notes_mark(&a);
	functions_mark(&a);
	all_walk(&a);
	free(a.paths);
	for (i = 0; i < MARKS; i++)
		free(a.marks[i]);
	access_reach_free(&a.reach);
	place_names_free(&a.names);
	backtrace_free(&a.backtrace);
	return a.warnings;
}
