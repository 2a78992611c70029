/* SPDX-License-Identifier: MIT */
/* Keeps what profiled processes have mapped (processes.h). */
#include "profile/processes.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/search.h"
#include "support/memory.h"

struct process *process_get(struct process_list *l, pid_t pid)
{
	size_t low = SEARCH(l->count, i, l->list[i].pid < pid);

	if (low < l->count && l->list[low].pid == pid)
		return &l->list[low];
	if (!mem_reserve_try(&l->list, &l->capacity, l->count, sizeof(*l->list)))
		return NULL;
	memmove(&l->list[low + 1], &l->list[low], (l->count - low) * sizeof(*l->list));
	l->count++;
	l->list[low] = (struct process){.pid = pid};
	return &l->list[low];
}

struct thread *thread_get(struct process_list *l, pid_t pid, pid_t tid)
{
	size_t low = SEARCH(l->thread_count, i, l->threads[i].tid < tid);

	if (low < l->thread_count && l->threads[low].tid == tid) {
		l->threads[low].pid = pid;
		return &l->threads[low];
	}
	if (!mem_reserve_try(&l->threads, &l->thread_capacity, l->thread_count, sizeof(*l->threads)))
		return NULL;
	memmove(&l->threads[low + 1], &l->threads[low], (l->thread_count - low) * sizeof(*l->threads));
	l->thread_count++;
	l->threads[low] = (struct thread){.pid = pid, .tid = tid};
	return &l->threads[low];
}

uint32_t image_add(struct process_list *l, pid_t pid, uint32_t parent, const char *name)
{
	struct process *p = process_get(l, pid);
	struct process_image *image;

	if (!l->image_count)
		l->image_count = 1;
	if (!p || l->image_count >= UINT32_MAX)
		return 0;
	mem_reserve(&l->images, &l->image_capacity, l->image_count, sizeof(*l->images));
	image = &l->images[l->image_count];
	*image = (struct process_image){.pid = pid, .parent = parent};
	strncpy(image->name, name, sizeof(image->name) - 1);
	p->image = (uint32_t)l->image_count++;
	return p->image;
}

uint32_t image_now(struct process_list *l, pid_t pid)
{
	const struct process *p = process_get(l, pid);
	const struct thread *t = p && !p->image ? thread_get(l, pid, pid) : NULL;
	char name[16] = "";

	if (!p || p->image)
		return p ? p->image : 0;
	if (t)
		memcpy(name, t->name, sizeof(name));
	return image_add(l, pid, 0, name);
}

/* Makes space for a mapping at index `at`. */
static bool mapping_insert(struct process *p, size_t at)
{
	if (!mem_reserve_try(&p->target, &p->target_capacity, p->count, sizeof(*p->target)) ||
	    !mem_reserve_try(&p->binary, &p->binary_capacity, p->count, sizeof(*p->binary)))
		return false;
	memmove(&p->target[at + 1], &p->target[at], (p->count - at) * sizeof(*p->target));
	memmove(&p->binary[at + 1], &p->binary[at], (p->count - at) * sizeof(*p->binary));
	p->count++;
	return true;
}

static void mapping_remove(struct process *p, size_t at)
{
	p->count--;
	memmove(&p->target[at], &p->target[at + 1], (p->count - at) * sizeof(*p->target));
	memmove(&p->binary[at], &p->binary[at + 1], (p->count - at) * sizeof(*p->binary));
}

/* Removes a range of addresses from the mappings. */
static bool mapping_cut(struct process *p, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < p->count;) {
		struct etch_target_module *t = &p->target[i];

		if (t->end <= start || t->start >= end) {
			i++;
		} else if (t->start < start && t->end > end) {
			if (!mapping_insert(p, i + 1))
				return false;
			p->target[i + 1] = p->target[i];
			p->binary[i + 1] = p->binary[i];
			p->target[i].end = start;
			p->target[i + 1].start = end;
			return true;
		} else if (t->start < start) {
			t->end = start;
			i++;
		} else if (t->end > end) {
			t->start = end;
			return true;
		} else {
			mapping_remove(p, i);
		}
	}
	return true;
}

bool process_map(struct process *p, struct binary_list *binaries, const struct mapped_file *m, uint64_t offset)
{
	struct etch_target_module t = {.start = m->start, .end = m->end};
	long number = binary_find(binaries, p->pid, m);
	size_t at = 0;
	bool known;

	if (number < 0 || m->start >= m->end || !mapping_cut(p, m->start, m->end))
		return false;
	known = binary_bias(binaries->list[number], m->start, offset, &t.bias);
	while (at < p->count && p->target[at].start < m->start)
		at++;
	if (!mapping_insert(p, at))
		return false;
	p->target[at] = t;
	p->binary[at] = known ? (uint32_t)number : BINARY_UNKNOWN;
	return true;
}

void process_clear(struct process *p) { p->count = 0; }

bool process_copy(struct process_list *l, pid_t parent, pid_t child)
{
	struct process *to = process_get(l, child), *from;

	from = process_get(l, parent); /* this may have moved `to` */
	to = process_get(l, child);
	if (!to || !from || to == from)
		return false;
	to->count = 0;
	for (size_t i = 0; i < from->count; i++) {
		if (!mapping_insert(to, i))
			return false;
		to->target[i] = from->target[i];
		to->binary[i] = from->binary[i];
	}
	return true;
}

long process_find(const struct process *p, uint64_t at)
{
	size_t low = SEARCH(p->count, i, p->target[i].end <= at);

	return low < p->count && at >= p->target[low].start ? (long)low : -1;
}

static void threads_read(struct process_list *l, pid_t pid)
{
	char path[PATH_MAX];
	struct dirent *d;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
	tasks = opendir(path);
	while (tasks && (d = readdir(tasks)) != NULL) {
		int tid = atoi(d->d_name);
		struct thread *t = tid > 0 ? thread_get(l, pid, tid) : NULL;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%ld/task/%d/comm", (long)pid, tid);
		f = t ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		if (fgets(t->name, sizeof(t->name), f))
			t->name[strcspn(t->name, "\n")] = 0;
		fclose(f);
	}
	if (tasks)
		closedir(tasks);
}

bool process_read(struct process_list *l, pid_t pid, struct binary_list *binaries, struct error *e)
{
	char line[PATH_MAX + 128], path[64];
	struct process *p = process_get(l, pid);
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
	f = p ? fopen(path, "re") : NULL;
	if (!f) {
		error_set(e, "%s: %s", path, p ? strerror(errno) : NO_MEMORY);
		return false;
	}
	while (fgets(line, sizeof(line), f)) {
		struct mapped_file m = {.path = "//anon"};
		unsigned long long start, end, offset, inode;
		char rights[8];
		int at = 0;

		if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, rights, &offset, &m.major, &m.minor, &inode,
		           &at) < 7 ||
		    rights[2] != 'x')
			continue;
		line[strcspn(line, "\n")] = 0;
		m.start = start;
		m.end = end;
		m.inode = inode;
		if (at && line[at])
			m.path = line + at;
		process_map(p, binaries, &m, offset);
	}
	fclose(f);
	threads_read(l, pid);
	return true;
}

void process_list_free(struct process_list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->list[i].target);
		free(l->list[i].binary);
	}
	free(l->list);
	free(l->threads);
	free(l->images);
	memset(l, 0, sizeof(*l));
}
