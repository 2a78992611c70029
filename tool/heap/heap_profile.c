/* SPDX-License-Identifier: MIT */
/* Makes a profile of recordings (heap_profile.h). */
#include "heap/heap_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

/* A value of a sample is a struct heap_sum: bytes, then blocks. */
static const struct profile_type types[2 * MEASURE_COUNT] = {
	{"alloc_space", "bytes"},  {"alloc_objects", "count"}, {"peak_space", "bytes"},
	{"peak_objects", "count"}, {"inuse_space", "bytes"},   {"inuse_objects", "count"},
};

/* The texts for the head of a picture. */
static const char *const measures[] = {[MEASURE_TOTAL] = "heap: all that was allocated",
                                       [MEASURE_PEAK] = "heap: live at the peak",
                                       [MEASURE_LEAKED] = "heap: leaked, never freed"};

/* The conversion of one recording to a part of the profile. */
struct conversion {
	const struct heap_image *im;
	struct profile *p;
	uint32_t *binary; /* number of the binary, indexed by module number */
	uint32_t lost;    /* the binary for files that could not be recorded */
	uint32_t *node;   /* the profile's node, by node of the recording */
	uint32_t image;   /* number of the process image */
	uint32_t thread;  /* the profile's node for the process's name */
};

static long module_binary(struct profile *p, const struct heap_image *im, const struct heap_module *m)
{
	struct mapped_file f = {.path = m->path, .start = m->start, .end = m->end, .build_id_size = m->build_id_size};

	memcpy(f.build_id, m->build_id, sizeof(m->build_id));
	f.major = m->major;
	f.minor = m->minor;
	f.inode = m->inode;
	return binary_find(&p->binaries, im->head.pid, &f);
}

void heap_files_open(struct heap_profile *h, const struct heap_image *im)
{
	for (size_t i = 0; i < im->module_count; i++)
		module_binary(h->profile, im, im->module[i]);
}

/* Finds the binary that stands for all files that could not be recorded. */
static bool lost_binary_find(struct conversion *c)
{
	const struct mapped_file lost = {.path = "a file that could not be recorded"};
	long number = binary_find(&c->p->binaries, c->im->head.pid, &lost);

	if (number < 0)
		return false;
	c->p->binaries.list[number]->kind = BINARY_GONE;
	c->lost = (uint32_t)number;
	return true;
}

/* Finds the binary of each module. Module number 0 stands for code that is in no module because it was made at run
 * time. */
static bool binaries_find(struct conversion *c)
{
	const struct mapped_file code = {.path = "//anon"};
	long number = binary_find(&c->p->binaries, c->im->head.pid, &code);

	c->binary[0] = c->lost = (uint32_t)number;
	if (number < 0 || (c->im->head.lost_module && !lost_binary_find(c)))
		return false;
	for (size_t i = 0; number >= 0 && i < c->im->module_count; i++) {
		number = module_binary(c->p, c->im, c->im->module[i]);
		c->binary[i + 1] = (uint32_t)number;
	}
	return number >= 0;
}

static enum stop stop_of(enum heap_stop s)
{
	switch (s) {
	case HEAP_STOP_END: return STOP_END;
	case HEAP_STOP_NO_TABLE: return STOP_NO_TABLE;
	case HEAP_STOP_NO_RULE: return STOP_NO_RULE;
	case HEAP_STOP_REGISTER: return STOP_REGISTER;
	case HEAP_STOP_DEEP: return STOP_DEEP;
	default: return STOP_CORRUPT;
	}
}

/* Converts a node to a frame: a binary and an address in its file. */
static struct walk_frame frame_of(const struct conversion *c, const struct heap_node *n)
{
	const struct heap_module *m = n->module && n->module <= c->im->module_count ? c->im->module[n->module - 1] : NULL;
	uint64_t at = n->ip - 1;

	if (n->module == HEAP_MODULE_LOST)
		return (struct walk_frame){c->lost, at};
	return (struct walk_frame){c->binary[m ? n->module : 0], m ? at - m->bias : at};
}

/* Has the file the table by which unwinders find .eh_frame? */
static bool has_eh_frame(const struct binary *b)
{
	for (unsigned i = 0; i < b->phdr_count; i++)
		if (b->phdrs[i].p_type == PT_GNU_EH_FRAME && b->phdrs[i].p_memsz)
			return true;
	return false;
}

/* Returns the profile's node that says how a walk with this outermost frame ended. */
static uint32_t root_of(const struct conversion *c, enum heap_stop how, const struct walk_frame *f)
{
	const struct binary *b = c->p->binaries.list[f->binary];
	enum stop stop = stop_of(how);

	if ((stop == STOP_NO_TABLE || stop == STOP_NO_RULE) && binary_is_entry(b, f->address))
		stop = STOP_END;
	if (stop == STOP_NO_TABLE && b->kind == BINARY_CODE)
		stop = STOP_CODE;
	if (stop == STOP_NO_TABLE && b->kind == BINARY_FILE && has_eh_frame(b))
		stop = STOP_NO_RULE; /* the recorder does not tell the two apart */
	return stop == STOP_END ? c->thread : key_set_add(&c->p->stacks, (uint64_t)c->thread << 32 | STACK_STOP, stop);
}

static bool nodes_convert(struct conversion *c)
{
	for (uint64_t i = 1; i < c->im->head.node_count; i++) {
		const struct heap_node *n = &c->im->nodes[i];
		struct walk_frame f;
		uint32_t caller;

		c->node[i] = c->thread;
		if (!n->parent)
			continue;
		f = frame_of(c, n);
		caller = c->node[n->parent];
		if (!c->im->nodes[n->parent].parent)
			caller = root_of(c, (enum heap_stop)(c->im->nodes[n->parent].ip & 0xff), &f);
		c->node[i] =
			caller == KEY_NONE ? KEY_NONE : key_set_add(&c->p->stacks, (uint64_t)caller << 32 | f.binary, f.address);
		if (c->node[i] == KEY_NONE)
			return false;
	}
	return true;
}

/* Returns why the walk of a profile's node ended. */
static enum stop node_stop(const struct profile *p, uint32_t node)
{
	for (; node; node = key_caller(&p->stacks.list[node]))
		if (key_kind(&p->stacks.list[node]) == STACK_STOP)
			return (enum stop)p->stacks.list[node].b;
	return STOP_END;
}

static void sum_add(struct heap_sum *to, const struct heap_sum *from)
{
	to->bytes += from->bytes;
	to->count += from->count;
}

static bool process_add(struct heap_profile *h, uint32_t image)
{
	if (!image)
		return false;
	mem_reserve(&h->each, &h->each_capacity, h->each_count, sizeof(*h->each));
	h->each[h->each_count++] = (struct heap_process){.image = image};
	return true;
}

static bool leaf_add(struct heap_profile *h, const struct conversion *c, const struct heap_leaf *l, uint32_t node)
{
	struct profile *p = h->profile;
	struct heap_sum *values;
	size_t value_count = p->sample_count * 2 * MEASURE_COUNT;

	/* Reserves space for all values of a sample, one by one. */
	for (int k = 0; k < 2 * MEASURE_COUNT; k++)
		if (!mem_reserve_try(&p->values, &h->value_capacity, value_count + (size_t)k, sizeof(*p->values)))
			return false;
	if (!mem_reserve_try(&p->samples, &p->sample_capacity, p->sample_count, sizeof(*p->samples)))
		return false;
	values = (struct heap_sum *)(void *)&p->values[value_count];
	values[MEASURE_TOTAL] = l->total;
	values[MEASURE_LEAKED] = l->live;
	values[MEASURE_PEAK] = heap_leaf_peak(l, c->im->head.peak_change);
	for (int m = 0; m < MEASURE_COUNT; m++) {
		sum_add(&h->sum[m], &values[m]);
		sum_add(&h->each[h->each_count - 1].sum[m], &values[m]);
	}
	p->stops[node_stop(p, node)] += l->total.count;
	p->samples[p->sample_count] = (struct profile_sample){.time = p->sample_count * 1000000,
	                                                      .weight = values[h->measure].bytes,
	                                                      .pid = c->im->head.pid,
	                                                      .tid = c->im->head.pid,
	                                                      .node = node};
	p->weight += values[h->measure].bytes;
	p->sample_count++;
	return true;
}

static void head_add(struct heap_profile *h, const struct heap_image *im)
{
	const struct heap_head *head = &im->head;

	h->processes++;
	h->lost_handler += head->lost_handler;
	h->lost_stack += head->lost_stack;
	h->lost_block += head->lost_block;
	h->lost_children += head->lost_children;
	h->lost_thread += head->lost_thread;
	h->lost_module += head->lost_module;
	h->short_of |= head->short_of;
	if (!h->child_error && head->child_error < 4096)
		h->child_error = (int)head->child_error;
	if (head->ended && head->ended < HEAP_ENDED_COUNT) {
		h->ended[head->ended].processes++;
		h->ended[head->ended].recorded += head->total.count;
		h->ended[head->ended].missed += head->after_ended;
	}
	h->unseen_deep += head->unseen_deep;
	h->unseen_spaces += head->unseen_spaces;
	h->unseen_calls += head->unseen_calls;
	if (!*h->unseen_names)
		memcpy(h->unseen_names, head->unseen_names, strnlen(head->unseen_names, sizeof(h->unseen_names) - 1));
	h->own_malloc += !!(head->flags & HEAP_OWN_MALLOC);
	h->memory = head->memory > h->memory ? head->memory : h->memory;
	h->file = im->size > h->file ? im->size : h->file;
	h->profile->types = types;
	h->profile->type_count = 2 * MEASURE_COUNT;
	h->profile->type_default = 2 * h->measure;
	h->profile->unit = UNIT_BYTES;
	h->profile->period = head->sample ? head->sample : 1;
	h->profile->measure = measures[h->measure];
	if (head->sample)
		snprintf(h->profile->rate, sizeof(h->profile->rate), "one allocation for %llu bytes, the rest estimated",
		         (unsigned long long)head->sample);
	else
		snprintf(h->profile->rate, sizeof(h->profile->rate), "each allocation");
}

/* Adds leaf 0, which counts allocations without a stack. */
static bool lost_add(struct heap_profile *h, const struct conversion *c)
{
	uint32_t node = key_set_add(&h->profile->stacks, (uint64_t)c->thread << 32 | STACK_STOP, STOP_NO_SPACE);

	return node != KEY_NONE && leaf_add(h, c, &c->im->leaves[0], node);
}

bool heap_profile_add(struct heap_profile *h, const struct heap_image *im, uint32_t *leaf_node)
{
	struct conversion c = {.im = im, .p = h->profile};
	char name[sizeof(im->head.name) + 1] = "";
	struct thread *t = thread_get(&c.p->processes, im->head.pid, im->head.pid);
	uint32_t number, process;
	bool good;

	memcpy(name, im->head.name, sizeof(im->head.name));
	c.image = image_add(&c.p->processes, im->head.pid, 0, name);
	number = string_set_add(&c.p->names, name[0] ? name : "[unnamed]");
	process = key_set_add(&c.p->stacks, STACK_PROCESS, c.image);
	c.thread = number == KEY_NONE || process == KEY_NONE
	               ? KEY_NONE
	               : key_set_add(&c.p->stacks, (uint64_t)process << 32 | STACK_THREAD, number);
	c.binary = calloc(im->module_count + 1, sizeof(*c.binary));
	c.node = calloc((size_t)im->head.node_count, sizeof(*c.node));
	good = t && c.thread != KEY_NONE && c.binary && c.node && binaries_find(&c) && nodes_convert(&c);
	if (good) {
		memcpy(t->name, name, sizeof(t->name) - 1);
		head_add(h, im);
		good = process_add(h, c.image);
		for (uint64_t i = 1; good && i < im->head.leaf_count; i++) {
			good = leaf_add(h, &c, &im->leaves[i], c.node[im->leaves[i].node]);
			if (leaf_node)
				leaf_node[i] = c.node[im->leaves[i].node];
		}
		if (leaf_node)
			leaf_node[0] = c.thread;
		if (good && im->leaves[0].total.count)
			good = lost_add(h, &c);
	}
	free(c.binary);
	free(c.node);
	return good;
}
