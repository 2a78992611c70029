/* SPDX-License-Identifier: MIT */
/* dump.c: etch_dump, which writes the state of every etched variable as text. */
#include <errno.h>

#include "common/sys.h"
#include "patch/give_up.h"
#include "patch/parts.h"

PART_NEEDS(ETCH_PART_OBJECTS_SYMBOL);

/* A line, or as much of it as fits. */
struct line {
	char text[1024];
	size_t used;
};

static void add(struct line *l, const char *s, size_t most)
{
	for (; most && *s && l->used < sizeof(l->text); most--)
		l->text[l->used++] = *s++;
}

static void add_text(struct line *l, const char *s) { add(l, s, SIZE_MAX); }

static void add_number(struct line *l, uint64_t v, unsigned base)
{
	char digits[24], *p = digits + sizeof(digits) - 1;

	*p = 0;
	do
		*--p = "0123456789abcdef"[v % base];
	while (v /= base);
	add_text(l, base == 16 ? "0x" : "");
	add_text(l, p);
}

/* A variable: an object with the fields that follow it. */
struct variable {
	uint64_t from, to;
	char name[256];
};

static void name_copy(const struct module *m, const struct object *o, char name[256])
{
	size_t most, i = 0;
	const char *from = module_object_name(m, o, &most);

	for (; from && i < 255 && i < most && from[i]; i++)
		name[i] = from[i];
	name[i] = 0;
}

/* Finds variable number n of all modules. Returns 0 if there is none. Called under the lock. */
static int variable_find(size_t n, struct variable *v)
{
	for (const struct module *m = module_list; m; m = m->next)
		for (size_t i = 0; !m->bad && i < m->object_count; i++) {
			const struct object *o = &m->object[i];

			if ((o->flags & OBJECT_FIELD) || module_own_table(o->addr) || n--)
				continue;
			name_copy(m, o, v->name);
			v->from = o->addr;
			for (v->to = o->addr + o->size; ++i < m->object_count && (m->object[i].flags & OBJECT_FIELD);)
				v->to = m->object[i].addr + m->object[i].size;
			return 1;
		}
	return 0;
}

/* Adds the address of an instruction in its file, and the name of that file. Called under the lock. */
static void add_place(struct line *l, uint64_t at)
{
	const struct module *m = module_at(at);

	add_number(l, m ? at - m->image.bias : at, 16);
	if (m) {
		add_text(l, " of ");
		add_text(l, *m->path ? m->path : "the program");
	}
}

/* Adds the target of the store, which may be another variable on the same page. Called under the lock. */
static void add_target(struct line *l, uint64_t at)
{
	const struct module *m = module_at(at);
	const struct object *o = m && !m->bad ? module_object(m, at) : NULL;
	char name[256];

	if (!o)
		return;
	while (o->flags & OBJECT_FIELD)
		o--;
	name_copy(m, o, name);
	add_text(l, " to ");
	add_text(l, name);
	add_text(l, "+");
	add_number(l, at - o->addr, 10);
}

/* Returns 0, or -1 if the line cannot be written. */
static int line_write(int fd, const struct line *l)
{
	size_t done = 0;
	long n;

	while (done < l->used) {
		n = sys_call3(SYS_write, fd, (long)(l->text + done), (long)(l->used - done));
		if (n <= 0 && n != -EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* The lock is not held while a line is written: the reader at the other end of a pipe may want it. */
ETCH_API int etch_dump(int fd)
{
	int err = 0, found = 1;

	for (size_t n = 0; found && !err; n++) {
		struct etch_state state = {.size = sizeof(state)};
		struct variable v;
		struct line l = {.used = 0};

		err = etch_lock();
		if (err)
			return err;
		found = variable_find(n, &v);
		etch_unlock();
		if (!found || etch_state_bytes((const void *)(uintptr_t)v.from, v.to - v.from, &state))
			continue; /* its module has been unloaded, or is malformed */
		add(&l, v.name, 255);
		add_text(&l, ": ");
		add(&l, state.text, sizeof(state.text));
		if (state.held_back) {
			add_text(&l, "; held back for ");
			add_number(&l, state.held_back, 10);
			add_text(&l, " ms");
		}
		if (state.given_up_by && !etch_lock()) {
			add_text(&l, "; the last one by ");
			add_place(&l, (uint64_t)(uintptr_t)state.given_up_by);
			add_target(&l, (uint64_t)(uintptr_t)state.given_up_at);
			etch_unlock();
		}
		add_text(&l, "\n");
		err = line_write(fd, &l) ? ETCH_EINVAL : 0;
	}
	return err;
}
