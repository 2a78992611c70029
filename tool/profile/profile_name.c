/* SPDX-License-Identifier: MIT */
/*
 * Names the frames of a profile by files of this machine: symbol tables, debug files, and a JIT's map file. A frame
 * that nothing names is "[file+0x...]", with the address of the function's first byte if .eh_frame tells it.
 */
#include "profile/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dwarf/source_frames.h"
#include "elf/file.h"
#include "elf/pclntab.h"
#include "profile/jit_map.h"
#include "profile/python_stubs.h"
#include "profile/runtimes_seen.h"
#include "profile/writers.h"
#include "shared/cfi.h"
#include "shared/search.h"
#include "support/demangle.h"
#include "support/progress.h"
#include "support/memory.h"

/* Writes a C++ or Rust name as in the source, without parameters, to shown[DEMANGLED_MOST]. Returns false if it is no
 * such name. */
static bool name_demangle(const char *name, char *shown)
{
	const char *dot = strchr(name, '.');
	char *cut;
	bool good;

	if (demangle(name, DEMANGLED_NAME, shown))
		return true;
	if (!dot || dot == name)
		return false;
	/* It may be a part that gcc has split off: name.cold, name.part.0 */
	cut = strndup(name, (size_t)(dot - name));
	good = cut && demangle(cut, DEMANGLED_NAME, shown) && strlen(shown) + strlen(dot) < DEMANGLED_MOST;
	free(cut);
	if (good)
		strcat(shown, dot);
	return good;
}

/* Only so many bytes of a longer name are read: template parameters make long names, but not so long ones. */
#define MANGLED_MOST 65536u

/* Returns the number of a function, which it adds if it is new. */
static uint32_t function_add(struct profile *p, const char *name, const char *binary, const char *file)
{
	char shown[DEMANGLED_MOST], *copy = strndup(name, MANGLED_MOST), *version;
	bool demangled = copy && name_demangle(copy, shown);
	uint32_t number[4] = {KEY_NONE, KEY_NONE, KEY_NONE, KEY_NONE}, out = KEY_NONE;

	version = copy && !demangled ? strchr(copy, '@') : NULL;
	if (copy) {
		/* Drop the version of a symbol: name@VERSION, name@@VERSION. */
		if (version > copy && !strpbrk(version, "/ "))
			*version = 0;
		number[0] = string_set_add(&p->names, demangled ? shown : copy);
		number[1] = string_set_add(&p->names, binary);
		number[2] = string_set_add(&p->names, name);
		number[3] = string_set_add(&p->names, file ? file : "");
	}
	if (number[0] != KEY_NONE && number[1] != KEY_NONE && number[2] != KEY_NONE && number[3] != KEY_NONE)
		out = key_set_add(&p->functions, (uint64_t)number[0] << 32 | number[1], (uint64_t)number[2] << 32 | number[3]);
	free(copy);
	return out;
}

static bool place_add(struct profile *p, const struct source_frame *f, const char *binary)
{
	struct profile_place *place;
	uint32_t file = string_set_add(&p->names, f->file ? f->file : "");

	if (file == KEY_NONE || !mem_reserve_try(&p->places, &p->place_capacity, p->place_count, sizeof(*p->places)))
		return false;
	place = &p->places[p->place_count++];
	/* Use the file of the line, since that of the function is not always known. */
	*place = (struct profile_place){
		.function = function_add(p, f->name, binary, NULL), .file = file, .line = f->line, .inlined = f->inlined};
	return place->function != KEY_NONE;
}

/* Returns the start of the function around an address according to .eh_frame or the entry point, or else the address
 * itself. */
static uint64_t function_start(const struct binary *b, uint64_t at)
{
	struct etch_cfi cfi;
	struct etch_fde fde;

	if (binary_fde(b, at, &cfi, &fde))
		return fde.start;
	return binary_is_entry(b, at) ? b->entry : at;
}

/* Writes a name for an address that no symbol contains. */
static void unnamed(const struct binary *b, uint64_t at, char *out, size_t size)
{
	if (!b)
		snprintf(out, size, "[unknown]");
	else if (b->kind == BINARY_CODE)
		snprintf(out, size, "[code made at run time]");
	else
		snprintf(out, size, "[%.200s+0x%llx]", b->name, (unsigned long long)function_start(b, at));
}

const char *wait_text(enum stack_wait w) { return w == WAIT_PROCESSOR ? "waiting for a processor" : "waiting"; }

/* ---- Go ---- */

/* The functions of a Go program without symbols, by the table that its runtime uses (elf/pclntab.h). */
struct go_names {
	struct elf_file file;
	struct go_function *list;
	size_t count;
};

static void go_names_close(struct go_names *g)
{
	if (!g)
		return;
	free(g->list);
	elf_close(&g->file);
	free(g);
}

/* Opens the table of functions of a Go program without symbols. Returns null if the binary is no such program, or if
 * out of memory. */
static struct go_names *go_names_open(const struct binary *b)
{
	struct go_names *g = calloc(1, sizeof(*g));
	uint8_t *bytes = NULL;
	struct stat st;
	struct error e;
	long count = 0;

	if (g && !fstat(b->fd, &st) && st.st_size > 0)
		bytes = malloc((size_t)st.st_size);
	if (bytes && pread(b->fd, bytes, (size_t)st.st_size, 0) != st.st_size) {
		free(bytes);
		bytes = NULL;
	}
	if (bytes && !elf_open_bytes(&g->file, b->path, bytes, (size_t)st.st_size, &e))
		count = go_functions_read(&g->file, &g->list, &e);
	if (count > 0) {
		g->count = (size_t)count;
		return g;
	}
	go_names_close(g);
	return NULL;
}

/* Returns the name of the function at a link-time address, or null. */
static const char *go_names_find(const struct go_names *g, uint64_t at)
{
	size_t low = SEARCH(g->count, i, g->list[i].start <= at);

	return low && at < g->list[low - 1].end ? g->list[low - 1].name : NULL;
}

/* ---- addresses ---- */

/* The sources of names for the addresses of one binary; each may be null. */
struct name_sources {
	struct source_frames *frames;
	struct jit_map *map;
	struct go_names *go;
};

static void sources_open(struct name_sources *s, const struct binary *b, const uint64_t *addresses, size_t count,
                         bool lines)
{
	if (b->kind == BINARY_CODE)
		s->map = jit_map_open(b->pid);
	if (b->fd < 0)
		return;
	s->frames = source_frames_open(b->path, b->fd, addresses, count, lines);
	if (b->table_from == TABLE_ANALYSED) /* Go's linker writes no .eh_frame */
		s->go = go_names_open(b);
}

static void sources_close(struct name_sources *s)
{
	source_frames_close(s->frames);
	jit_map_close(s->map);
	go_names_close(s->go);
}

/* Adds the places of one address. */
static bool address_name(struct profile *p, const struct binary *b, const struct name_sources *s, uint64_t at)
{
	struct source_frame found[SOURCE_FRAMES_MOST];
	size_t n = s->frames ? source_frames_find(s->frames, at, found) : 0;
	const char *other = NULL, *file;
	char name[1024];

	if (!n) {
		if (s->map)
			other = jit_map_find(s->map, at);
		else if (s->go)
			other = go_names_find(s->go, at);
		if (other && s->map && python_name(other, name, sizeof(name), &file))
			return place_add(p, &(struct source_frame){.name = name, .file = file}, "Python");
		if (!other)
			unnamed(b, at, name, sizeof(name));
		found[n++] = (struct source_frame){.name = other ? other : name};
	}
	file = "";
	if (b)
		file = b->kind == BINARY_CODE ? "JIT" : b->name;
	for (size_t i = 0; i < n; i++)
		if (!place_add(p, &found[i], file))
			return false;
	return true;
}

/* An address with its number in profile.addresses. */
struct numbered_address {
	uint64_t address;
	uint32_t binary, number;
};

static int address_order(const void *a, const void *b)
{
	const struct numbered_address *x = a, *y = b;

	if (x->binary != y->binary)
		return x->binary < y->binary ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

/* Names the kernel's addresses. If the system hides them, all are the same frame. */
static bool kernel_name(struct profile *p, const struct numbered_address *list, size_t count)
{
	struct kallsyms_name *names = calloc(count + 1, sizeof(*names));
	bool good = names;

	for (size_t i = 0; good && i < count; i++)
		names[i].address = list[i].address;
	good = good && kallsyms_read(&p->kallsyms) && kallsyms_find(&p->kallsyms, names, count);
	for (size_t i = 0; good && i < count; i++) {
		struct source_frame f = {.name = names[i].name ? names[i].name : "[kernel]"};

		p->place_first[list[i].number] = p->place_count;
		good = place_add(p, &f, names[i].name ? names[i].module : "");
	}
	if (names)
		kallsyms_free(names, count);
	return good;
}

/* Names the addresses of one binary, or of none (BINARY_UNKNOWN). */
static bool binary_name(struct profile *p, const struct numbered_address *list, size_t count, bool lines)
{
	const struct binary *b = list->binary == BINARY_UNKNOWN ? NULL : p->binaries.list[list->binary];
	uint64_t *addresses = malloc((count + 1) * sizeof(*addresses));
	struct name_sources sources = {0};
	bool good = addresses;

	for (size_t i = 0; good && i < count; i++)
		addresses[i] = list[i].address;
	if (good && b)
		sources_open(&sources, b, addresses, count, lines);
	for (size_t i = 0; good && i < count; i++) {
		p->place_first[list[i].number] = p->place_count;
		good = address_name(p, b, &sources, list[i].address);
	}
	sources_close(&sources);
	free(addresses);
	return good;
}

/* Names the addresses of folded stacks, which are numbers of names. */
static bool names_name(struct profile *p, const struct numbered_address *list, size_t count)
{
	bool good = true;

	for (size_t i = 0; good && i < count; i++) {
		struct source_frame f = {.name = p->names.list[list[i].address]};

		p->place_first[list[i].number] = p->place_count;
		good = place_add(p, &f, "");
	}
	return good;
}

/* Names all addresses, those of one binary in one pass. */
static bool addresses_name(struct profile *p, bool lines)
{
	struct numbered_address *list = malloc((p->addresses.count + 1) * sizeof(*list));
	size_t first, next;
	bool good = list;

	for (size_t i = 0; good && i < p->addresses.count; i++)
		list[i] = (struct numbered_address){p->addresses.list[i].b, (uint32_t)p->addresses.list[i].a, (uint32_t)i};
	if (good && p->addresses.count)
		qsort(list, p->addresses.count, sizeof(*list), address_order);
	for (first = 0; good && first < p->addresses.count; first = next) {
		progress_note("names", first, p->addresses.count, "addresses");
		for (next = first; next < p->addresses.count && list[next].binary == list[first].binary; next++)
			;
		if (p->by_name)
			good = names_name(p, &list[first], next - first);
		else if (list[first].binary == BINARY_KERNEL)
			good = kernel_name(p, &list[first], next - first);
		else
			good = binary_name(p, &list[first], next - first, lines);
	}
	progress_end();
	free(list);
	return good;
}

/* Returns the pseudo-function that stands for a node that is no frame. `plain` is the function's name without
 * numbers. */
static uint32_t marker_function(struct profile *p, const char *text, const char *plain)
{
	uint32_t shown = string_set_add(&p->names, text), name = string_set_add(&p->names, plain);

	if (shown == KEY_NONE || name == KEY_NONE)
		return KEY_NONE;
	return key_set_add(&p->functions, (uint64_t)shown << 32, (uint64_t)name << 32);
}

/* Returns the pseudo-function that stands for a process. It is shown if the profile has several processes. */
static uint32_t process_function(struct profile *p, uint64_t number)
{
	const struct process_image *image = &p->processes.images[number];
	char text[64], plain[sizeof(image->name) + 1] = "";

	memcpy(plain, image->name, sizeof(image->name));
	if (!*plain)
		strcpy(plain, "[unnamed]");
	snprintf(text, sizeof(text), "%s (%ld)", plain, (long)image->pid);
	return marker_function(p, text, plain);
}

static uint32_t thread_function(struct profile *p, uint64_t b)
{
	const char *name = p->names.list[(uint32_t)b];
	char text[64];

	if (!(b >> 32))
		return marker_function(p, name, name);
	snprintf(text, sizeof(text), "%.32s (thread %u)", name, (unsigned)(b >> 32));
	return marker_function(p, text, text);
}

/* Does a thread have the same name as its process, and is that process shown? */
static bool thread_is_process(const struct profile *p, const struct key *k)
{
	const struct process_image *image = &p->processes.images[p->stacks.list[key_caller(k)].b];

	return p->images_seen > 1 && !(k->b >> 32) &&
	       !strncmp(p->names.list[(uint32_t)k->b], image->name, sizeof(image->name));
}

/* Returns the call of a node that is no frame, or its caller's if the node is not shown. */
static uint32_t marker_add(struct profile *p, const struct key *k, uint32_t caller)
{
	uint32_t kind = key_kind(k), function = KEY_NONE;
	char text[96];

	if ((kind == STACK_PROCESS && p->images_seen == 1) || (kind == STACK_THREAD && thread_is_process(p, k)))
		return caller;
	if (kind == STACK_PROCESS) {
		function = process_function(p, k->b);
	} else if (kind == STACK_THREAD) {
		function = thread_function(p, k->b);
	} else {
		snprintf(text, sizeof(text), "[%s]",
		         kind == STACK_STOP ? stop_text((enum stop)k->b) : wait_text((enum stack_wait)k->b));
		function = marker_function(p, text, text);
	}
	return function == KEY_NONE ? KEY_NONE : key_set_add(&p->calls, (uint64_t)caller << 32 | kind, function);
}

/* Returns the innermost call of a stack node, whose caller has been named. */
static uint32_t call_add(struct profile *p, size_t node)
{
	const struct key *k = &p->stacks.list[node];
	uint32_t caller = p->call_of[key_caller(k)], kernel = key_kind(k) == BINARY_KERNEL ? BINARY_KERNEL : 0;
	size_t first, last;

	if (stack_is_marker(key_kind(k)))
		return marker_add(p, k, caller);
	first = last = p->place_first[p->address_of[node]];
	if (kernel && key_kind(&p->calls.list[caller]) == kernel && p->calls.list[caller].b == p->places[first].function &&
	    p->names.list[function_name(p, p->places[first].function)][0] == '[')
		return caller; /* the kernel is one frame */
	while (p->places[last].inlined)
		last++;
	for (;; last--) {
		caller = key_set_add(&p->calls, (uint64_t)caller << 32 | kernel, p->places[last].function);
		if (last == first || caller == KEY_NONE)
			return caller;
	}
}

/* Is the innermost frame of a stack in code that nothing names? */
static bool is_unnamed_code(const struct profile *p, uint32_t node)
{
	const struct profile_place *place;
	uint32_t binary;

	while (node && (key_kind(&p->stacks.list[node]) == STACK_WAIT || key_kind(&p->stacks.list[node]) == BINARY_KERNEL))
		node = key_caller(&p->stacks.list[node]);
	binary = key_kind(&p->stacks.list[node]);
	if (p->address_of[node] == KEY_NONE || binary >= p->binaries.count || p->binaries.list[binary]->kind != BINARY_CODE)
		return false;
	place = &p->places[p->place_first[p->address_of[node]]];
	return p->names.list[function_name(p, place->function)][0] == '[';
}

bool profile_name(struct profile *p, bool lines)
{
	size_t i, count = p->stacks.count;

	p->address_of = malloc((count + 1) * sizeof(*p->address_of));
	p->call_of = malloc((count + 1) * sizeof(*p->call_of));
	if (!p->address_of || !p->call_of || key_set_add(&p->calls, UINT64_MAX, 0))
		return false;
	p->address_of[0] = KEY_NONE;
	for (i = 1; i < count; i++) {
		const struct key *k = &p->stacks.list[i];

		p->address_of[i] = KEY_NONE;
		p->images_seen += key_kind(k) == STACK_PROCESS;
		if (stack_is_marker(key_kind(k)))
			continue;
		p->address_of[i] = key_set_add(&p->addresses, key_kind(k), k->b);
		if (p->address_of[i] == KEY_NONE)
			return false;
	}
	p->place_first = calloc(p->addresses.count + 1, sizeof(*p->place_first));
	if (!p->place_first || !addresses_name(p, lines))
		return false;
	p->call_of[0] = 0;
	for (i = 1; i < count; i++) {
		p->call_of[i] = call_add(p, i);
		if (p->call_of[i] == KEY_NONE)
			return false;
	}
	for (i = 0; i < p->sample_count; i++)
		p->unnamed += is_unnamed_code(p, p->samples[i].node);
	python_maps_remove(p);
	return p->by_name || python_count(p);
}
