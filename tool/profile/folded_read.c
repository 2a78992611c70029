/* SPDX-License-Identifier: MIT */
/* Reads folded stacks (folded_read.h). */
#include "profile/folded_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/memory.h"
#include "support/sort.h"

#define KERNEL_SUFFIX "_[k]"

static uint32_t frame_add(struct profile *p, uint32_t caller, const char *name, bool outermost, bool innermost)
{
	size_t n = strlen(name), suffix = strlen(KERNEL_SUFFIX);
	bool kernel = n > suffix && !strcmp(name + n - suffix, KERNEL_SUFFIX);
	char *plain = kernel ? strndup(name, n - suffix) : NULL;
	const char *shown = plain ? plain : "";
	uint32_t number = string_set_add(&p->names, kernel ? shown : name), kind = BINARY_UNKNOWN;

	free(plain);
	if (kernel || !strcmp(name, "[kernel]"))
		kind = BINARY_KERNEL;
	else if (outermost)
		kind = STACK_THREAD;
	if (number == KEY_NONE)
		return KEY_NONE;
	for (int w = 0; innermost && w < WAIT_COUNT; w++) {
		const char *text = wait_text((enum stack_wait)w);

		if (n == strlen(text) + 2 && name[0] == '[' && !strncmp(name + 1, text, n - 2))
			return key_set_add(&p->stacks, (uint64_t)caller << 32 | STACK_WAIT, (uint64_t)w);
	}
	return key_set_add(&p->stacks, (uint64_t)caller << 32 | kind, number);
}

/* Returns the name of a root, or the name of both programs if it is one of them. */
static const char *root_name(const struct folded_roots *r, const char *name)
{
	return r && r->both && (!strcmp(name, r->old) || !strcmp(name, r->new)) ? r->both : name;
}

/* Adds a stack, and returns its innermost node. */
static uint32_t stack_add(struct profile *p, char *names, const struct folded_roots *roots)
{
	uint32_t node = key_set_add(&p->stacks, STACK_PROCESS, 1);
	bool outermost = true;

	for (char *at = names, *end; node != KEY_NONE && at; at = end, outermost = false) {
		end = strchr(at, ';');
		if (end)
			*end++ = 0;
		node = frame_add(p, node, outermost ? root_name(roots, at) : at, outermost, !end);
	}
	return node;
}

/* Takes a line. Returns false and sets the reason, or p->no_memory if out of memory. */
static bool line_take(struct profile *p, char *line, pid_t run, const struct folded_roots *roots, const char **wrong)
{
	char *number = strrchr(line, ' '), *end;
	struct profile_sample s = {.pid = run, .tid = run};

	*wrong = "it has no number";
	if (!number || number == line)
		return false;
	errno = 0;
	s.weight = strtoull(number + 1, &end, 10);
	if (end == number + 1 || number[1] == '-' || number[1] == '+')
		return false;
	*wrong = "its number is not one of 0 to 2^50";
	if (*end || errno || s.weight > (uint64_t)1 << 50)
		return false;
	*number = 0;
	s.node = stack_add(p, line, roots);
	if (s.node == KEY_NONE) {
		p->no_memory = true;
		return false;
	}
	mem_reserve(&p->samples, &p->sample_capacity, p->sample_count, sizeof(*p->samples));
	*wrong = "the numbers are too large";
	if (p->weight > UINT64_MAX / 2)
		return false;
	s.weight *= p->period; /* the period is 1000 if the numbers are microseconds */
	p->weight += s.weight;
	p->samples[p->sample_count++] = s;
	return true;
}

static int file_take(struct profile *p, FILE *f, pid_t run, const struct folded_roots *roots, struct error *e)
{
	char *line = NULL;
	const char *wrong;
	size_t capacity = 0, number = 0, before = p->sample_count;
	ssize_t n;
	int err = 0;

	while (!err && (n = getline(&line, &capacity, f)) >= 0) {
		number++;
		while (n && (line[n - 1] == '\n' || line[n - 1] == '\r' || line[n - 1] == ' '))
			line[--n] = 0;
		if (!n || *line == '#')
			continue;
		if (strlen(line) != (size_t)n)
			err = error_set(e, "line %zu is not text: not a file of folded stacks", number);
		else if (!line_take(p, line, run, roots, &wrong))
			err = p->no_memory
			          ? error_set(e, NO_MEMORY)
			          : error_set(e, "line %zu is not stacks and a number: %s (see --format folded)", number, wrong);
	}
	if (!err && ferror(f))
		err = error_set(e, "%s", strerror(errno));
	if (!err && p->sample_count == before)
		err = error_set(e, "it has no stacks");
	free(line);
	return err;
}

int folded_read(struct profile *p, const char *path, pid_t run, const struct folded_roots *roots, struct error *e)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	int err;

	if (!f)
		return error_set(e, "%s", strerror(errno));
	p->by_name = true;
	if (!p->processes.image_count && !image_add(&p->processes, 1, 0, "")) {
		fclose(f);
		return error_set(e, NO_MEMORY);
	}
	err = !fstat(fileno(f), &st) && S_ISDIR(st.st_mode) ? error_set(e, "%s", strerror(EISDIR))
	                                                    : file_take(p, f, run, roots, e);
	fclose(f);
	return err;
}

/* ---- programs under two names ------------------------------------------------------------------- */

/* Computes the weight of each root of a profile of folded stacks, indexed by the number of its name. */
static uint64_t *roots_weigh(const struct profile *p)
{
	uint64_t *weight = calloc(p->names.count + 1, sizeof(*weight));

	for (size_t i = 0; weight && i < p->sample_count; i++) {
		uint32_t node = p->samples[i].node;

		while (node && key_kind(&p->stacks.list[node]) != STACK_THREAD)
			node = key_caller(&p->stacks.list[node]);
		weight[node ? p->stacks.list[node].b : 0] += p->samples[i].weight;
	}
	return weight;
}

/* Returns the root with the most weight. */
static const char *root_largest(const struct profile *p, const uint64_t *weight)
{
	size_t best = 0;

	for (size_t i = 1; i < p->names.count; i++)
		if (weight[i] > weight[best])
			best = i;
	return p->names.list[best];
}

static bool root_has(const struct profile *p, const uint64_t *weight, const char *name)
{
	for (size_t i = 0; i < p->names.count; i++)
		if (weight[i] && !strcmp(p->names.list[i], name))
			return true;
	return false;
}

static bool roots_compare(struct folded_roots *r, const struct profile *old, const struct profile *new)
{
	uint64_t *old_weight = roots_weigh(old), *new_weight = roots_weigh(new);
	bool good = old_weight && new_weight;
	const char *a, *b;

	if (good) {
		a = root_largest(old, old_weight);
		b = root_largest(new, new_weight);
		if (!root_has(new, new_weight, a) && !root_has(old, old_weight, b)) {
			r->old = strdup(a);
			r->new = strdup(b);
			good = r->old && r->new &&asprintf(&r->both, "%s -> %s", a, b) >= 0;
		}
	}
	free(old_weight);
	free(new_weight);
	return good;
}

bool folded_roots_find(struct folded_roots *r, const char *old, const char *new, const char **failed, struct error *e)
{
	struct profile *p[2] = {profile_new(), profile_new()};
	const char *const path[2] = {old, new};
	bool good = p[0] && p[1];

	*r = (struct folded_roots){NULL, NULL, NULL};
	*failed = NULL;
	if (!good)
		error_set(e, NO_MEMORY);
	for (int i = 0; i < 2 && good; i++) {
		p[i]->period = 1;
		*failed = path[i];
		good = !folded_read(p[i], path[i], 1, NULL, e);
	}
	if (good && !roots_compare(r, p[0], p[1])) {
		*failed = NULL;
		good = false;
		error_set(e, NO_MEMORY);
	}
	profile_free(p[0]);
	profile_free(p[1]);
	return good;
}

void folded_roots_free(struct folded_roots *r)
{
	free(r->old);
	free(r->new);
	free(r->both);
}
