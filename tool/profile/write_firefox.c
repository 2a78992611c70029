/* SPDX-License-Identifier: MIT */
/*
 * Writes the Firefox profiler's processed format, version 44: it has tables by columns, a set of them for each thread
 * (docs-developer/processed-profile-format.md and src/types/profile.ts of firefox-devtools/profiler, which upgrades
 * older versions when it reads them).
 */
#include "report/listing.h"
#include "profile/writers.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VERSION 44

/* The tables of one thread. An index of the profile gets an index of the thread when it is first used. */
struct tables {
	const struct profile *p;
	pid_t tid;
	json_object *strings, *func, *frame, *stack, *samples;
	struct key_set string_of, func_of, frame_of, stack_of; /* these map the profile's indices to those of the tables */
};

static void add_int(json_object *table, const char *column, int64_t v)
{
	json_object_array_add(json_object_object_get(table, column), json_object_new_int64(v));
}

static void add_int_or_null(json_object *table, const char *column, bool known, int64_t v)
{
	json_object_array_add(json_object_object_get(table, column), known ? json_object_new_int64(v) : NULL);
}

static json_object *table_new(const char *const *columns)
{
	json_object *t = json_object_new_object();

	for (; *columns; columns++)
		json_object_object_add(t, *columns, json_object_new_array());
	return t;
}

static json_object *table_end(json_object *t, const char *column)
{
	json_object_object_add(t, "length",
	                       json_object_new_int64((int64_t)json_object_array_length(json_object_object_get(t, column))));
	return t;
}

static uint32_t string_index(struct tables *t, uint32_t name)
{
	uint32_t i = key_set_find(&t->string_of, name, 0);

	if (i != KEY_NONE)
		return i;
	json_object_array_add(t->strings, json_object_new_string(t->p->names.list[name]));
	return key_set_add(&t->string_of, name, 0);
}

static uint32_t func_index(struct tables *t, uint32_t function, uint32_t file)
{
	uint32_t i = key_set_find(&t->func_of, function, file);

	if (i != KEY_NONE)
		return i;
	add_int(t->func, "name", string_index(t, function_name(t->p, function)));
	json_object_array_add(json_object_object_get(t->func, "isJS"), json_object_new_boolean(0));
	json_object_array_add(json_object_object_get(t->func, "relevantForJS"), json_object_new_boolean(0));
	add_int(t->func, "resource", -1);
	add_int_or_null(t->func, "fileName", file, file ? string_index(t, file) : 0);
	add_int_or_null(t->func, "lineNumber", false, 0);
	add_int_or_null(t->func, "columnNumber", false, 0);
	return key_set_add(&t->func_of, function, file);
}

/* Returns the index of a frame: an address with the depth of inlining, or a function without an address (KEY_NONE). */
static uint32_t frame_index(struct tables *t, uint32_t address, const struct profile_place *place, unsigned depth)
{
	uint32_t i = key_set_find(&t->frame_of, (uint64_t)address << 32 | depth, address == KEY_NONE ? place->function : 0);

	if (i != KEY_NONE)
		return i;
	add_int(t->frame, "address", address == KEY_NONE ? -1 : (int64_t)t->p->addresses.list[address].b);
	add_int(t->frame, "inlineDepth", depth);
	add_int(t->frame, "category", 0);
	add_int(t->frame, "subcategory", 0);
	add_int(t->frame, "func", func_index(t, place->function, place->file));
	add_int_or_null(t->frame, "nativeSymbol", false, 0);
	add_int_or_null(t->frame, "innerWindowID", false, 0);
	add_int_or_null(t->frame, "implementation", false, 0);
	add_int_or_null(t->frame, "line", place->line, place->line);
	add_int_or_null(t->frame, "column", false, 0);
	return key_set_add(&t->frame_of, (uint64_t)address << 32 | depth, address == KEY_NONE ? place->function : 0);
}

/* Returns the index of a stack: a frame and the stack of its caller, which is KEY_NONE if there is none. */
static uint32_t stack_index(struct tables *t, uint32_t prefix, uint32_t frame)
{
	uint32_t i = key_set_find(&t->stack_of, prefix, frame);

	if (i != KEY_NONE)
		return i;
	add_int_or_null(t->stack, "prefix", prefix != KEY_NONE, prefix);
	add_int(t->stack, "frame", frame);
	add_int(t->stack, "category", 0);
	add_int(t->stack, "subcategory", 0);
	return key_set_add(&t->stack_of, prefix, frame);
}

/* Returns the index of the stack of a node of the profile. `way` has space for all nodes of a stack. */
static uint32_t stack_put(struct tables *t, uint32_t node, uint32_t *way)
{
	const struct profile *p = t->p;
	uint32_t stack = KEY_NONE;
	size_t n = 0;

	for (; node && key_kind(&p->stacks.list[node]) != STACK_THREAD; node = key_caller(&p->stacks.list[node]))
		way[n++] = node;
	while (n--) {
		uint32_t address = p->address_of[way[n]];
		struct profile_place stop = {.function = (uint32_t)p->calls.list[p->call_of[way[n]]].b};
		const struct profile_place *first, *last;

		if (address == KEY_NONE) {
			stack = stack_index(t, stack, frame_index(t, KEY_NONE, &stop, 0));
			continue;
		}
		first = last = &p->places[p->place_first[address]];
		while (last->inlined)
			last++;
		for (unsigned depth = 0; last >= first; last--, depth++)
			stack = stack_index(t, stack, frame_index(t, address, last, depth));
	}
	return stack;
}

static const struct thread *thread_of(const struct profile *p, pid_t tid)
{
	for (size_t i = 0; i < p->processes.thread_count; i++)
		if (p->processes.threads[i].tid == tid)
			return &p->processes.threads[i];
	return NULL;
}

/* Returns the time in ms since the first sample, or for the heap the time when it was largest. */
static double time_of(const struct profile *p, size_t sample)
{
	if (p->heap)
		return (double)p->heap->peak_time / 1e6;
	return (double)(p->samples[sample].time - p->samples[0].time) / 1e6;
}

static json_object *thread_head(const struct profile *p, pid_t pid, pid_t tid)
{
	const struct thread *t = thread_of(p, tid);
	json_object *o = json_object_new_object();
	char number[32], name[32];

	snprintf(name, sizeof(name), "%s", t ? t->name : "[unnamed]");
	name_clean(name); /* a thread may give itself any bytes as a name, and the kernel truncates it anywhere */
	json_object_object_add(o, "processType", json_object_new_string("default"));
	json_object_object_add(o, "processStartupTime", json_object_new_double(0));
	json_object_object_add(o, "processShutdownTime", NULL);
	json_object_object_add(o, "registerTime", json_object_new_double(0));
	json_object_object_add(o, "unregisterTime", NULL);
	json_object_object_add(o, "pausedRanges", json_object_new_array());
	json_object_object_add(o, "name", json_object_new_string(name));
	json_object_object_add(o, "processName", json_object_new_string(name));
	json_object_object_add(o, "isMainThread", json_object_new_boolean(pid == tid));
	snprintf(number, sizeof(number), "%ld", (long)pid);
	json_object_object_add(o, "pid", json_object_new_string(number));
	json_object_object_add(o, "tid", json_object_new_int64(tid));
	return o;
}

static json_object *empty_tables(json_object *o)
{
	static const char *const markers[] = {"data", "name", "startTime", "endTime", "phase", "category", NULL};
	static const char *const resources[] = {"lib", "name", "host", "type", NULL};
	static const char *const symbols[] = {"libIndex", "address", "name", "functionSize", NULL};

	json_object_object_add(o, "markers", table_end(table_new(markers), "data"));
	json_object_object_add(o, "resourceTable", table_end(table_new(resources), "lib"));
	json_object_object_add(o, "nativeSymbols", table_end(table_new(symbols), "libIndex"));
	return o;
}

static void samples_put(struct tables *t, uint32_t *way)
{
	const struct profile *p = t->p;
	bool ran = p->unit == UNIT_TIME && !p->by_name;

	for (size_t i = 0; i < p->sample_count; i++) {
		uint32_t stack;

		if (p->samples[i].tid != t->tid || !p->samples[i].weight)
			continue;
		stack = stack_put(t, p->samples[i].node, way);
		add_int_or_null(t->samples, "stack", stack != KEY_NONE, stack);
		json_object_array_add(json_object_object_get(t->samples, "time"), json_object_new_double(time_of(p, i)));
		json_object_array_add(json_object_object_get(t->samples, "weight"),
		                      json_object_new_double((double)p->samples[i].weight / (double)weight_unit(p)));
		if (ran) /* the track of a thread shows how much processor time it used */
			add_int(t->samples, "threadCPUDelta", (int64_t)p->samples[i].weight);
	}
}

static json_object *thread_put(const struct profile *p, pid_t pid, pid_t tid, uint32_t *way)
{
	static const char *const func[] = {"name",     "isJS",       "relevantForJS", "resource",
	                                   "fileName", "lineNumber", "columnNumber",  NULL};
	static const char *const frame[] = {
		"address",       "inlineDepth",    "category", "subcategory", "func", "nativeSymbol",
		"innerWindowID", "implementation", "line",     "column",      NULL};
	static const char *const stack[] = {"prefix", "frame", "category", "subcategory", NULL};
	static const char *const samples[] = {"stack", "time", "weight", NULL};
	static const char *const ran[] = {"stack", "time", "weight", "threadCPUDelta", NULL};
	static const char *const weight_type[] = {
		[UNIT_TIME] = "samples", [UNIT_WAIT] = "tracing-ms", [UNIT_BYTES] = "bytes"};
	struct tables t = {.p = p, .tid = tid, .strings = json_object_new_array(), .func = table_new(func)};
	json_object *o = empty_tables(thread_head(p, pid, tid));

	t.frame = table_new(frame);
	t.stack = table_new(stack);
	t.samples = table_new(p->unit == UNIT_TIME && !p->by_name ? ran : samples);
	samples_put(&t, way);
	json_object_object_add(t.samples, "weightType", json_object_new_string(weight_type[p->unit]));
	json_object_object_add(o, "samples", table_end(t.samples, "stack"));
	json_object_object_add(o, "stackTable", table_end(t.stack, "frame"));
	json_object_object_add(o, "frameTable", table_end(t.frame, "func"));
	json_object_object_add(o, "funcTable", table_end(t.func, "name"));
	json_object_object_add(o, "stringArray", t.strings);
	key_set_free(&t.string_of);
	key_set_free(&t.func_of);
	key_set_free(&t.frame_of);
	key_set_free(&t.stack_of);
	return o;
}

static json_object *meta_put(const struct profile *p, const char *title)
{
	json_object *meta = json_object_new_object(), *category = json_object_new_object(), *list = json_object_new_array();
	json_object *subcategories = json_object_new_array();

	json_object_object_add(category, "name", json_object_new_string("Native"));
	json_object_object_add(category, "color", json_object_new_string("blue"));
	json_object_array_add(subcategories, json_object_new_string("Other"));
	json_object_object_add(category, "subcategories", subcategories);
	json_object_array_add(list, category);
	json_object_object_add(meta, "version", json_object_new_int(24));
	json_object_object_add(meta, "preprocessedProfileVersion", json_object_new_int(VERSION));
	json_object_object_add(meta, "interval", json_object_new_double((double)p->period / 1e6));
	json_object_object_add(meta, "startTime", json_object_new_double((double)time(NULL) * 1e3));
	json_object_object_add(meta, "processType", json_object_new_int(0));
	json_object_object_add(meta, "product", json_object_new_string(title));
	json_object_object_add(meta, "stackwalk", json_object_new_int(1));
	json_object_object_add(meta, "debug", json_object_new_boolean(0));
	json_object_object_add(meta, "symbolicated", json_object_new_boolean(1));
	json_object_object_add(meta, "categories", list);
	json_object_object_add(meta, "markerSchema", json_object_new_array());
	if (p->unit == UNIT_TIME && !p->by_name) {
		json_object *units = json_object_new_object();

		json_object_object_add(units, "time", json_object_new_string("ms"));
		json_object_object_add(units, "eventDelay", json_object_new_string("ms"));
		json_object_object_add(units, "threadCPUDelta", json_object_new_string("ns"));
		json_object_object_add(meta, "sampleUnits", units);
	}
	return meta;
}

/* Makes a track of its own for the heap over time: a counter, whose samples are differences. */
static json_object *counters_put(const struct profile *p)
{
	static const char *const columns[] = {"time", "count", NULL};
	const struct profile_heap *h = p->heap;
	json_object *list = json_object_new_array(), *counter, *groups, *group, *samples;
	uint64_t before = 0;
	char number[32];

	if (!h || !p->sample_count)
		return list;
	counter = json_object_new_object();
	groups = json_object_new_array();
	group = json_object_new_object();
	samples = table_new(columns);
	for (size_t i = 0; i < h->size_count; i++) {
		json_object_array_add(json_object_object_get(samples, "time"),
		                      json_object_new_double((double)h->sizes[i].time / 1e6));
		add_int(samples, "count", (int64_t)(h->sizes[i].bytes - before));
		before = h->sizes[i].bytes;
	}
	json_object_object_add(group, "id", json_object_new_int(0));
	json_object_object_add(group, "samples", table_end(samples, "time"));
	json_object_array_add(groups, group);
	json_object_object_add(counter, "name", json_object_new_string("malloc"));
	json_object_object_add(counter, "category", json_object_new_string("Memory"));
	json_object_object_add(counter, "description", json_object_new_string("Memory that malloc(3) has given"));
	snprintf(number, sizeof(number), "%ld", (long)p->samples[0].pid);
	json_object_object_add(counter, "pid", json_object_new_string(number));
	json_object_object_add(counter, "mainThreadIndex", json_object_new_int(0));
	json_object_object_add(counter, "sampleGroups", groups);
	json_object_array_add(list, counter);
	return list;
}

bool write_firefox(const struct profile *p, const char *title, FILE *out)
{
	uint32_t *way = malloc((FRAMES_MOST + STACK_EXTRA) * sizeof(*way));
	json_object *o = json_object_new_object(), *threads = json_object_new_array();
	struct key_set seen = {0};
	bool good = way;

	for (size_t i = 0; way && i < p->sample_count; i++) {
		const struct profile_sample *s = &p->samples[i];
		size_t before = seen.count;

		if (key_set_add(&seen, (uint64_t)(uint32_t)s->pid, (uint64_t)(uint32_t)s->tid) == before)
			json_object_array_add(threads, thread_put(p, s->pid, s->tid, way));
	}
	json_object_object_add(o, "meta", meta_put(p, title));
	json_object_object_add(o, "libs", json_object_new_array());
	json_object_object_add(o, "pages", json_object_new_array());
	json_object_object_add(o, "threads", threads);
	json_object_object_add(o, "counters", counters_put(p));
	json_put(out, o, JSON_C_TO_STRING_PLAIN);
	putc('\n', out);
	json_object_put(o);
	key_set_free(&seen);
	free(way);
	return good;
}
