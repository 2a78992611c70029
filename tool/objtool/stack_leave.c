/* SPDX-License-Identifier: MIT */
/*
 * For --stackval and --noinstr: applies one instruction to a path, and prints the warnings that the instruction causes.
 */
#include "arch/x86/fast_decoder.h"
#include "objtool/stack_walk.h"
#include "support/plain.h"

#include <stdio.h>
#include <string.h>

/* The function that an instruction calls. */
struct callee {
	const char *name; /* null: unknown */
	uint32_t section; /* 0: the function is in another file, or unknown */
};

static struct callee callee_of(const struct elf_symbol *y)
{
	return y ? (struct callee){y->name, y->section} : (struct callee){0};
}

/* Checks a call or tail call. Returns false after a warning. */
static bool call_check(struct stack_walk *w, const struct part *part, const struct stack_path *p, const struct step *s,
                       struct callee callee)
{
	bool leaves = w->uninstrumented && p->depth <= 0;
	uint64_t off = p->at - part->code->addr;
	char text[200], unknown[32];
	const struct elf_reloc *r;

	if (!p->down && !leaves)
		return true;
	r = callee.name ? NULL : reloc_in(w->map, part, off, s->len);
	leaves = leaves && !noinstr_allows(w->noinstr, callee.name, callee.section, r, off, s);
	if (!p->down && !leaves)
		return true;
	if (!callee.name)
		called_name(w->map, r, unknown, sizeof(unknown));
	snprintf(text, sizeof(text), "call to %.120s() %s", callee.name ? callee.name : unknown,
	         leaves ? "leaves .noinstr.text section" : "with DF set");
	plain(text);
	return stack_warn(w, p->at, text);
}

static bool tail_check(struct stack_walk *w, const struct part *part, const struct stack_path *p, const struct step *s,
                       const struct elf_symbol *called)
{
	if (stack_function_at(w, p->at) && stack_frame_modified(&w->frames.list[p->frame]))
		return stack_warn(w, p->at, "sibling call from callable instruction with modified stack frame");
	return call_check(w, part, p, s, callee_of(called));
}

static bool return_check(struct stack_walk *w, const struct stack_path *p)
{
	const struct stack_frame *f = &w->frames.list[p->frame];

	if (w->uninstrumented && p->depth > 0)
		return stack_warn(w, p->at, "return with instrumentation enabled");
	if (p->down)
		return stack_warn(w, p->at, "return with DF set");
	if (w->function && stack_frame_modified(f))
		return stack_warn(w, p->at, "return with modified stack frame");
	return !f->scratch || stack_warn(w, p->at, "BP used as a scratch register");
}

/* True for functions whose code is embedded in instructions of others, and for the function that tracers hook. */
static bool is_special(const char *name)
{
	static const char *const names[] = {"__fentry__", "retbleed_return_thunk", "srso_safe_ret", "srso_alias_safe_ret"};
	size_t i;

	for (i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static bool pointer_check(struct stack_walk *w, const struct stack_path *p, const char *name)
{
	return !w->options->stackval || !w->function || is_special(name) ||
	       stack_frame_has_pointer(&w->frames.list[p->frame]) ||
	       stack_warn(w, p->at, "call without frame pointer save/setup");
}

/* Returns the target of a call. If the target is not a function, its name is that of the label. */
static struct target call_target(const struct stack_walk *w, const struct part *part, uint64_t at, const struct step *s)
{
	struct target t = target_of(w->map, part, at, s);
	const struct code_section *c = t.at && !t.name ? space_at(&w->map->space, t.at) : NULL;
	const struct elf_symbol *y = c ? symbol_index_find(&w->map->labels, c->section, t.at - c->addr) : NULL;

	if (y && t.at == c->addr + y->value)
		t.name = y->name;
	return t;
}

bool stack_is_dead(const struct stack_walk *w, const struct part *part, uint64_t at, const struct step *s,
                   const char **called)
{
	const struct notes *n = &w->map->notes;
	struct target t = {0};
	bool dead = s->flow == FLOW_STOP && !s->padding;

	if (s->flow == FLOW_CALL && !note_at(n, at, NOTE_PUSH)) {
		t = call_target(w, part, at, s);
		dead = calls_dead(w->map, &t);
	}
	*called = t.name;
	if (!note_any(n, at + s->len))
		return dead;
	return (dead || note_at(n, at + s->len, NOTE_UNREACHABLE)) && !note_at(n, at + s->len, NOTE_REACHABLE);
}

bool stack_is_retpoline(const struct stack_walk *w, const struct elf_symbol *y)
{
	return y && y->bind == STB_GLOBAL && !strncmp(linux_thunk_name(w->map->release, y->name), "__x86_indirect_", 15);
}

/* True if a call of a profiler is replaced by a nop. */
static bool is_dropped(const struct stack_walk *w, const struct part *part, const struct elf_symbol *y)
{
	return w->options->noinstr_hack && y && y->bind == STB_GLOBAL && linux_profiler(w->map->release, y->name) &&
	       linux_section_noinstr(w->map->release, w->map->f->sections[part->code->section].name);
}

/* Follows a call. Returns false after a warning. Sets *continues if the next instruction may follow. */
static bool call_follow(struct stack_walk *w, const struct part *part, const struct stack_path *p, const struct step *s,
                        bool *continues)
{
	struct target t = call_target(w, part, p->at, s);
	const struct elf_symbol *y = symbol_in(w->map, part, p->at, s);
	const struct code_section *c = t.at ? space_at(&w->map->space, t.at) : NULL;
	struct callee callee = {t.name, c ? c->section : 0};

	if (stack_is_retpoline(w, y))
		callee = (struct callee){0};
	if (is_dropped(w, part, y))
		return true;
	if (!note_at(&w->map->notes, p->at, NOTE_PUSH))
		return call_check(w, part, p, s, callee) && pointer_check(w, p, t.name);
	*continues = false;
	if (t.at)
		stack_path_add(w, p, t.at, TURN_BRANCH);
	return true;
}

/* Where an entry of a jump table leads, in relation to the function whose paths are followed. */
enum entry {
	ENTRY_OWN, /* into the function */
	/* To the very end of the function: clang writes such entries for cases that cannot occur. */
	ENTRY_DANGLING,
	ENTRY_NONE, /* the table has no such entry */
};

/* True if the function, or its cold part, ends at an address. */
static bool is_own_end(const struct stack_walk *w, uint64_t at)
{
	size_t number;
	const struct elf_symbol *y = function_at(w->map, at - 1, &number);
	const struct code_section *c = y ? space_of(&w->map->space, y->section) : NULL;

	return c && stack_is_own(w, y) && c->addr + y->value + y->size == at;
}

/*
 * Classifies entry k of a table, and sets *to to its target. Only relocations show how many entries a table has: an
 * entry without one ends it. A dangling entry does not.
 */
static enum entry own_entry(struct stack_walk *w, const struct table_jump *j, size_t k, uint64_t *to)
{
	size_t number;
	const struct elf_symbol *y;

	*to = table_jump_target(&w->tables, j, k);
	y = *to ? function_at(w->map, *to, &number) : NULL;
	if (y && stack_is_own(w, y))
		return ENTRY_OWN;
	return *to && is_own_end(w, *to) ? ENTRY_DANGLING : ENTRY_NONE;
}

/*
 * Follows an indirect jump by its table; a jump without a table is treated as a tail call. Returns false after a
 * warning.
 */
static bool indirect_follow(struct stack_walk *w, const struct part *part, const struct stack_path *p,
                            const struct step *s)
{
	const struct table_jump *j = w->function ? table_jump_at(&w->tables, p->at) : NULL;
	size_t k, first = w->path_count;
	enum entry kind;
	uint64_t to;

	if (!j || own_entry(w, j, 0, &to) == ENTRY_NONE)
		return !stack_function_at(w, p->at) || tail_check(w, part, p, s, NULL);
	for (k = 0; (kind = own_entry(w, j, k, &to)) != ENTRY_NONE; k++)
		if (kind == ENTRY_OWN)
			stack_path_add(w, p, to, TURN_ALTERNATIVE);
	if (w->options->release->newer_validation)
		stack_paths_reverse(w, first);
	return true;
}

/* Follows a direct jump. Returns false after a warning. Sets *continues if the next instruction may follow. */
static bool jump_follow(struct stack_walk *w, const struct part *part, const struct stack_path *p, const struct step *s,
                        bool *continues)
{
	const struct elf_symbol *called;
	uint64_t to = 0;

	*continues = s->flow == FLOW_BRANCH || note_at(&w->map->notes, p->at, NOTE_BRANCH);
	switch (stack_way_of(w, part, p->at, s, &to, &called)) {
	case WAY_RETURN: *continues = false; return return_check(w, p);
	case WAY_INDIRECT: return s->flow == FLOW_BRANCH || indirect_follow(w, part, p, s);
	case WAY_AWAY:
		if (is_dropped(w, part, called)) { /* objtool replaces the jump by a return */
			*continues = false;
			return return_check(w, p);
		}
		return tail_check(w, part, p, s, called);
	case WAY_INSIDE: stack_path_add(w, p, to, TURN_BRANCH); return true;
	default: return true;
	}
}

bool stack_leaves(const uint8_t *bytes, const struct step *s)
{
	switch (code_leaves(bytes, s->len)) {
	case LEAVES_BY_IRET:
	case LEAVES_BY_SYSRET: return true;
	default:
		return s->op == STEP_SYSCALL ||
		       ((s->flow == FLOW_RETURN || s->flow == FLOW_JUMP_IND) && !code_is_near(bytes, s->len));
	}
}

static bool context_follow(struct stack_walk *w, const struct stack_path *p, const struct step *s, bool *continues)
{
	*continues = w->function && stack_has_hint(w, p->at + s->len);
	return !w->function || *continues || stack_warn(w, p->at, "unsupported instruction in callable function");
}

/* Follows std and cld, which change the direction flag. Returns false after a warning. */
static bool direction_follow(struct stack_walk *w, struct stack_path *p, const struct step *s)
{
	if (s->direction == DIRECTION_DOWN && p->down)
		return stack_warn(w, p->at, "recursive STD");
	if (s->direction == DIRECTION_UP && !p->down && w->function)
		return stack_warn(w, p->at, "redundant CLD");
	if (s->direction == DIRECTION_DOWN || s->direction == DIRECTION_UP)
		p->down = s->direction == DIRECTION_DOWN;
	return true;
}

const struct part *stack_next(const struct stack_walk *w, const struct part *part, uint64_t at, uint64_t *after)
{
	struct alternative_place place;

	if (!(w->alternatives.marks[at - w->map->space.first] & ALTERNATIVE_REPLACEMENT) ||
	    !alternatives_find(&w->alternatives, at, &place) || *after != place.after)
		return part;
	*after = place.to;
	return part_at(w->map, place.to - 1);
}

/* Adds the path that continues with the next instruction. Returns false after a warning. */
static bool next_add(struct stack_walk *w, const struct part *part, const struct stack_path *p, uint64_t after)
{
	struct alternative_place place;
	const char *name;
	char text[256];

	if (w->alternatives.marks[p->at - w->map->space.first] & ALTERNATIVE_REPLACEMENT &&
	    alternatives_find(&w->alternatives, p->at, &place) && after == place.after && place.filled &&
	    !stack_alternative_check(w, place.after, &place, p->frame, true))
		return false;
	part = stack_next(w, part, p->at, &after);
	if (part && after - part->code->addr < part->code->size) {
		stack_path_add(w, p, after, TURN_NONE);
		return true;
	}
	if (!part || w->frames.list[p->frame].cfa.base == BASE_NONE || w->options->no_unreachable)
		return true;
	name = w->map->f->sections[part->code->section].name;
	if (!w->options->release->ends_named)
		snprintf(text, sizeof(text), "%.100s: unexpected end of section", name);
	else
		snprintf(text, sizeof(text), "%.100s%sunexpected end of section %.100s", w->function ? w->function->name : "",
		         w->function ? "(): " : "", name);
	plain(text);
	return stack_warn_plainly(w, text);
}

/* Applies an instruction to the frame. Returns false after a warning. */
static bool frame_apply(struct stack_walk *w, struct stack_path *p, const uint8_t *bytes, const struct step *s)
{
	const struct notes *n = &w->map->notes;
	struct stack_frame f;
	const struct stack_rules rules = {
		.copies = w->options->release->newer_validation,
		.function = stack_function_at(w, p->at),
		.pointers = w->options->stackval && stack_function_at(w, p->at),
		.hinted = note_any(n, p->at + s->len) && stack_has_hint(w, p->at + s->len),
		.pushes = s->flow == FLOW_CALL && note_at(n, p->at, NOTE_PUSH),
		.returns = code_leaves(bytes, s->len) == LEAVES_BY_IRET && stack_function_at(w, p->at),
	};
	const char *text;

	f = w->frames.list[p->frame];
	text = stack_frame_step(&f, s, &rules);
	if (text)
		return stack_warn(w, p->at, text);
	if (memcmp(&f, &w->frames.list[p->frame], sizeof(f)))
		p->frame = stack_frames_number(&w->frames, &f);
	return true;
}

/* False if an instruction does not change the frame; `returns`: it is an iret. */
static bool may_change_frame(const struct stack_walk *w, const struct stack_path *p, const struct step *s, bool returns)
{
	return s->flow == FLOW_CALL || returns ||
	       stack_frame_may_change(&w->frames.list[p->frame], s, w->options->release->newer_validation);
}

bool stack_leave(struct stack_walk *w, const struct part *part, struct stack_path *p, const struct step *s)
{
	const uint8_t *bytes = part->code->bytes + (p->at - part->code->addr);
	bool continues = true, returns = code_leaves(bytes, s->len) == LEAVES_BY_IRET;
	const char *called;

	if (may_change_frame(w, p, s, returns) && !frame_apply(w, p, bytes, s))
		return false;
	if (returns && stack_function_at(w, p->at))
		return next_add(w, part, p, p->at + s->len); /* the instruction is an iret that continues after itself */
	if (stack_leaves(bytes, s))
		return context_follow(w, p, s, &continues) && (!continues || next_add(w, part, p, p->at + s->len));
	switch (s->flow) {
	case FLOW_RETURN: return return_check(w, p);
	case FLOW_JUMP_IND: return indirect_follow(w, part, p, s);
	case FLOW_JUMP:
	case FLOW_BRANCH:
		if (!jump_follow(w, part, p, s, &continues))
			return false;
		break;
	case FLOW_CALL_IND:
		if (!call_check(w, part, p, s, (struct callee){0}) || !pointer_check(w, p, NULL))
			return false;
		break;
	case FLOW_CALL:
		if (!call_follow(w, part, p, s, &continues))
			return false;
		break;
	case FLOW_STOP: break;
	default:
		if (!direction_follow(w, p, s))
			return false;
	}
	continues = continues && !stack_is_dead(w, part, p->at, s, &called);
	return !continues || next_add(w, part, p, p->at + s->len);
}
