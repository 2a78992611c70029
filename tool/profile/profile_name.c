/* SPDX-License-Identifier: MIT */
/*
 * Names for the frames of a profile, from files of this machine: symbol tables, debug files, a JIT's map file. A
 * frame that nothing names is "[file+0x...]", with the function's first byte where .eh_frame tells it.
 */
#include "profile/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/source_frames.h"
#include "profile/binary_fde.h"
#include "profile/go_names.h"
#include "profile/jit_map.h"
#include "support/demangle.h"
#include "support/progress.h"
#include "support/memory.h"

/* A C++ or Rust name as in the source, without parameters, in shown[DEMANGLED_MOST]; false: it is no such name. */
static bool name_demangle(const char *name, char *shown)
{
	const char *dot = strchr(name, '.');
	char *cut;
	bool good;

	if (demangle(name, DEMANGLED_NAME, shown))
		return true;
	if (!dot || dot == name)
		return false;
	/* A part that gcc has split off: name.cold, name.part.0 */
	cut = strndup(name, (size_t)(dot - name));
	good = cut && demangle(cut, DEMANGLED_NAME, shown) && strlen(shown) + strlen(dot) < DEMANGLED_MOST;
	free(cut);
	if (good)
		strcat(shown, dot);
	return good;
}

/* Only the first bytes of a longer name are read: template parameters make long names, but not that long. */
#define MANGLED_MOST 65536u

/* The number of a function. */
static uint32_t function_add(struct profile *p, const char *name, const char *binary, const char *file)
{
	char shown[DEMANGLED_MOST], *copy = strndup(name, MANGLED_MOST), *version;
	bool demangled = copy && name_demangle(copy, shown);
	uint32_t number[4] = {KEY_NONE, KEY_NONE, KEY_NONE, KEY_NONE}, out = KEY_NONE;

	version = copy && !demangled ? strchr(copy, '@') : NULL;
	if (copy) {
		/* A version of a symbol: name@VERSION, name@@VERSION. */
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

	if (file == KEY_NONE || !mem_room_try(&p->places, &p->place_room, p->place_count, sizeof(*p->places)))
		return false;
	place = &p->places[p->place_count++];
	/* The file of the line, since that of the function is not always known. */
	*place = (struct profile_place){
		.function = function_add(p, f->name, binary, NULL), .file = file, .line = f->line, .inlined = f->inlined};
	return place->function != KEY_NONE;
}

/* The name of an address that no symbol has. */
static void unnamed(const struct binary *b, uint64_t at, char *out, size_t size)
{
	struct etch_cfi cfi;
	struct etch_fde fde;

	if (!b)
		snprintf(out, size, "[unknown]");
	else if (b->kind == BINARY_CODE)
		snprintf(out, size, "[code made at run time]");
	else
		snprintf(out, size, "[%.200s+0x%llx]", b->name,
		         (unsigned long long)(binary_fde(b, at, &cfi, &fde) ? fde.start
		                              : binary_is_entry(b, at)      ? b->entry
		                                                            : at));
}

/* What names the addresses of one binary; each may be null. */
struct name_sources {
	struct source_frames *frames;
	struct jit_map *map;
	struct go_names *go;
};

static void sources_open(struct name_sources *s, const struct binary *b)
{
	if (b->kind == BINARY_CODE)
		s->map = jit_map_open(b->pid);
	if (b->fd < 0)
		return;
	s->frames = source_frames_open(b->path, b->fd);
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
	const char *other = NULL;
	char name[256];

	if (!n) {
		if (s->map)
			other = jit_map_find(s->map, at);
		else if (s->go)
			other = go_names_find(s->go, at);
		if (!other)
			unnamed(b, at, name, sizeof(name));
		found[n++] = (struct source_frame){.name = other ? other : name};
	}
	for (size_t i = 0; i < n; i++)
		if (!place_add(p, &found[i], !b ? "" : b->kind == BINARY_CODE ? "JIT" : b->name))
			return false;
	return true;
}

/* Names the addresses of one binary, or of none (BINARY_UNKNOWN). */
static bool binary_name(struct profile *p, uint32_t number)
{
	const struct binary *b = number == BINARY_UNKNOWN ? NULL : p->binaries.list[number];
	struct name_sources sources = {0};
	bool good = true, opened = !b;

	for (size_t i = 0; good && i < p->addresses.count; i++) {
		if (p->addresses.list[i].a != number)
			continue;
		if (!opened)
			sources_open(&sources, b);
		opened = true;
		p->place_first[i] = p->place_count;
		good = address_name(p, b, &sources, p->addresses.list[i].b);
	}
	sources_close(&sources);
	return good;
}

/* The innermost call of a stack node, whose caller has been named. */
static uint32_t call_add(struct profile *p, size_t node)
{
	const struct key *k = &p->stacks.list[node];
	uint32_t caller = p->call_of[key_caller(k)], kind = key_kind(k), function;
	char text[64];
	size_t first, last;

	if (kind == STACK_THREAD) {
		function = function_add(p, p->names.list[k->b], "", NULL);
		return function == KEY_NONE ? KEY_NONE : key_set_add(&p->calls, (uint64_t)caller << 32 | kind, function);
	}
	if (kind == STACK_STOP) {
		snprintf(text, sizeof(text), "[%s]", stop_text((enum stop)k->b));
		function = function_add(p, text, "", NULL);
		return function == KEY_NONE ? KEY_NONE : key_set_add(&p->calls, (uint64_t)caller << 32 | kind, function);
	}
	first = last = p->place_first[p->address_of[node]];
	while (p->places[last].inlined)
		last++;
	for (;; last--) {
		caller = key_set_add(&p->calls, (uint64_t)caller << 32, p->places[last].function);
		if (last == first || caller == KEY_NONE)
			return caller;
	}
}

bool profile_name(struct profile *p)
{
	size_t i, count = p->stacks.count;

	p->address_of = malloc((count + 1) * sizeof(*p->address_of));
	p->call_of = malloc((count + 1) * sizeof(*p->call_of));
	if (!p->address_of || !p->call_of || key_set_add(&p->calls, UINT64_MAX, 0))
		return false;
	for (i = 0; i < count; i++) {
		const struct key *k = &p->stacks.list[i];

		p->address_of[i] = KEY_NONE;
		if (!i || key_kind(k) == STACK_THREAD || key_kind(k) == STACK_STOP)
			continue;
		p->address_of[i] = key_set_add(&p->addresses, key_kind(k), k->b);
		if (p->address_of[i] == KEY_NONE)
			return false;
	}
	p->place_first = calloc(p->addresses.count + 1, sizeof(*p->place_first));
	if (!p->place_first || !binary_name(p, BINARY_UNKNOWN))
		return false;
	for (i = 0; i < p->binaries.count; i++) {
		progress_note("names", i, p->binaries.count, "files");
		if (!binary_name(p, (uint32_t)i))
			return false;
	}
	progress_end();
	p->call_of[0] = 0;
	for (i = 1; i < count; i++) {
		p->call_of[i] = call_add(p, i);
		if (p->call_of[i] == KEY_NONE)
			return false;
	}
	return true;
}
