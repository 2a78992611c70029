/* SPDX-License-Identifier: MIT */
/*
 * Writes pprof's format (pprof.proto, by protobuf-c), gzipped. A message's repeated fields may come in chunks
 * (protobuf's encoding, "Last One Wins"), and each chunk is packed by itself, so that no second copy of the profile is
 * in memory.
 */
#include "profile/writers.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include <pprof.pb-c.h>

#define TYPES_MOST 8
/* The number of values of a sample. */
#define TYPES_OF(p) ((p)->types ? (p)->type_count : (size_t)2)

struct sink {
	z_stream z;
	FILE *out;
	uint8_t *packed;
	size_t capacity;
	bool failed;
};

static void sink_put(struct sink *s, const uint8_t *data, size_t size, bool last)
{
	uint8_t buffer[16384];

	s->z.next_in = (uint8_t *)(uintptr_t)data;
	s->z.avail_in = (uInt)size;
	do {
		s->z.next_out = buffer;
		s->z.avail_out = sizeof(buffer);
		if (deflate(&s->z, last ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
			s->failed = true;
		fwrite(buffer, 1, sizeof(buffer) - s->z.avail_out, s->out);
	} while (!s->z.avail_out && !s->failed);
}

/* Packs a chunk of the profile. */
static void chunk_put(struct sink *s, const Pprof__Profile *chunk)
{
	size_t size = pprof__profile__get_packed_size(chunk);

	if (size > s->capacity) {
		free(s->packed);
		s->capacity = 2 * size;
		s->packed = malloc(s->capacity);
	}
	if (!s->packed) {
		s->capacity = 0;
		s->failed = true;
		return;
	}
	pprof__profile__pack(chunk, s->packed);
	sink_put(s, s->packed, size, false);
}

/* The number of frames that are no functions: the reasons why walks stopped, and then those why threads did not run. */
#define MARKERS (STOP_COUNT + WAIT_COUNT)

static uint64_t marker_of(const struct key *k) { return key_kind(k) == STACK_WAIT ? STOP_COUNT + k->b : k->b; }

/* Return the IDs of a marker as a location and as a function. The IDs of locations are those of addresses, followed by
 * those of markers; the IDs of functions are those of functions, followed by those of markers. */
static uint64_t marker_location(const struct profile *p, uint64_t marker) { return p->addresses.count + 1 + marker; }
static uint64_t marker_function(const struct profile *p, uint64_t marker) { return p->functions.count + 1 + marker; }

static void functions_put(struct sink *s, const struct profile *p, const uint32_t *marker_name)
{
	for (size_t i = 0; i < p->functions.count + MARKERS; i++) {
		Pprof__Function f = PPROF__FUNCTION__INIT, *list = &f;
		Pprof__Profile chunk = PPROF__PROFILE__INIT;

		f.id = i + 1;
		if (i < p->functions.count) {
			f.name = function_name(p, (uint32_t)i);
			f.system_name = function_symbol(p, (uint32_t)i);
			f.filename = (uint32_t)p->functions.list[i].b;
		} else {
			f.name = f.system_name = marker_name[i - p->functions.count];
		}
		chunk.n_function = 1;
		chunk.function = &list;
		chunk_put(s, &chunk);
	}
}

static void location_put(struct sink *s, uint64_t id, const struct key *address, Pprof__Line *lines, size_t count)
{
	Pprof__Location l = PPROF__LOCATION__INIT, *list = &l;
	Pprof__Profile chunk = PPROF__PROFILE__INIT;
	Pprof__Line **line = malloc(count * sizeof(Pprof__Line *));

	if (!line) {
		s->failed = true;
		return;
	}
	for (size_t i = 0; i < count; i++)
		line[i] = &lines[i];
	l.id = id;
	if (address && address->a != BINARY_UNKNOWN && address->a != BINARY_KERNEL)
		l.mapping_id = address->a + 1;
	l.address = address ? address->b : 0;
	l.n_line = count;
	l.line = line;
	chunk.n_location = 1;
	chunk.location = &list;
	chunk_put(s, &chunk);
	free(line);
}

#define LINES_MOST 64

static void locations_put(struct sink *s, const struct profile *p)
{
	Pprof__Line lines[LINES_MOST];

	for (size_t i = 0; i < p->addresses.count; i++) {
		const struct profile_place *place = &p->places[p->place_first[i]];
		size_t n = 0;

		do {
			pprof__line__init(&lines[n]);
			lines[n].function_id = place->function + 1;
			lines[n++].line = place->line;
		} while (place++->inlined && n < LINES_MOST);
		location_put(s, i + 1, &p->addresses.list[i], lines, n);
	}
	for (uint64_t marker = 0; marker < MARKERS; marker++) {
		pprof__line__init(&lines[0]);
		lines[0].function_id = marker_function(p, marker);
		location_put(s, marker_location(p, marker), NULL, lines, 1);
	}
}

/* Writes a binary: its path, its build-id in hexadecimal, and the place of its code. Returns false if out of memory. */
static bool mapping_put(struct sink *s, struct profile *p, size_t number)
{
	const struct binary *b = p->binaries.list[number];
	Pprof__Mapping m = PPROF__MAPPING__INIT, *list = &m;
	Pprof__Profile chunk = PPROF__PROFILE__INIT;
	char id[2 * BUILD_ID_MOST + 1] = "";
	uint32_t name = string_set_add(&p->names, b->path), id_name;

	for (unsigned i = 0; i < b->build_id_size; i++)
		snprintf(id + 2 * i, 3, "%02x", b->build_id[i]);
	id_name = string_set_add(&p->names, id);
	m.id = number + 1;
	for (unsigned i = 0; i < b->phdr_count; i++) {
		const Elf64_Phdr *h = &b->phdrs[i];

		if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
			continue;
		if (!m.memory_limit) {
			m.memory_start = h->p_vaddr & ~(uint64_t)4095;
			m.file_offset = h->p_offset & ~(uint64_t)4095;
		}
		m.memory_limit = h->p_vaddr + h->p_memsz;
	}
	m.filename = name;
	m.build_id = id_name;
	m.has_functions = m.has_filenames = m.has_line_numbers = m.has_inline_frames =
		1; /* pprof need not look anything up */
	chunk.n_mapping = 1;
	chunk.mapping = &list;
	chunk_put(s, &chunk);
	return name != KEY_NONE && id_name != KEY_NONE;
}

/* Computes how often each stack was seen, and its values, which are the sums of those of its samples. */
static void stacks_add(const struct profile *p, uint64_t *count, int64_t *values)
{
	for (size_t i = 0; i < p->sample_count; i++) {
		int64_t *value = values + p->samples[i].node * TYPES_OF(p);

		count[p->samples[i].node]++;
		for (size_t k = 0; p->types && k < p->type_count; k++)
			value[k] = (int64_t)((uint64_t)value[k] + p->values[i * p->type_count + k]);
		if (p->types)
			continue;
		value[0]++;
		value[1] += (int64_t)p->samples[i].weight;
	}
}

/* Adds a label to a sample, by the numbers of two names. */
static void label_add(Pprof__Sample *sample, Pprof__Label *label, uint32_t key, uint32_t name)
{
	pprof__label__init(label);
	label->key = key;
	label->str = name;
	sample->label[sample->n_label++] = label;
}

/* The keys of labels: the name of the thread, and that of the process if there are several. */
struct label_keys {
	uint32_t thread, process;
};

/* Writes the samples, one for each stack. Returns false if out of memory. */
static bool samples_put(struct sink *s, const struct profile *p, const struct label_keys *keys)
{
	int64_t *values = calloc((p->stacks.count + 1) * TYPES_OF(p), sizeof(*values));
	uint64_t *count = calloc(p->stacks.count + 1, sizeof(*count));
	uint64_t *way = malloc((FRAMES_MOST + STACK_EXTRA) * sizeof(*way));
	bool good = values && count && way;

	if (good)
		stacks_add(p, count, values);
	for (size_t i = 1; good && i < p->stacks.count; i++) {
		Pprof__Sample sample = PPROF__SAMPLE__INIT, *list = &sample;
		Pprof__Profile chunk = PPROF__PROFILE__INIT;
		Pprof__Label label[2], *labels[2];

		if (!count[i])
			continue;
		sample.label = labels;
		for (uint32_t at = (uint32_t)i; at; at = key_caller(&p->stacks.list[at])) {
			const struct key *k = &p->stacks.list[at];

			if (key_kind(k) == STACK_THREAD)
				label_add(&sample, &label[0], keys->thread, (uint32_t)k->b);
			else if (key_kind(k) == STACK_PROCESS && p->images_seen > 1)
				label_add(&sample, &label[1], keys->process,
				          function_name(p, (uint32_t)p->calls.list[p->call_of[at]].b));
			else if (key_kind(k) != STACK_PROCESS)
				way[sample.n_location_id++] =
					stack_is_marker(key_kind(k)) ? marker_location(p, marker_of(k)) : p->address_of[at] + (uint64_t)1;
		}
		sample.location_id = way;
		sample.n_value = TYPES_OF(p);
		sample.value = values + i * TYPES_OF(p);
		chunk.n_sample = 1;
		chunk.sample = &list;
		chunk_put(s, &chunk);
	}
	free(values);
	free(count);
	free(way);
	return good;
}

/* Writes the types of values, and the names of everything. name[] has the number of the name of each type, and of its
 * unit. */
static void head_put(struct sink *s, const struct profile *p, const uint32_t name[2 * TYPES_MOST])
{
	Pprof__ValueType type[TYPES_MOST], *types[TYPES_MOST];
	Pprof__Profile chunk = PPROF__PROFILE__INIT;
	size_t shown = p->types ? p->type_default : 1;

	for (size_t i = 0; i < TYPES_OF(p); i++) {
		pprof__value_type__init(&type[i]);
		type[i].type = name[2 * i];
		type[i].unit = name[2 * i + 1];
		types[i] = &type[i];
	}
	chunk.n_sample_type = TYPES_OF(p);
	chunk.sample_type = types;
	chunk.period_type = &type[shown];
	chunk.period = (int64_t)p->period;
	chunk.default_sample_type = name[2 * shown];
	chunk.time_nanos = (int64_t)time(NULL) * 1000000000;
	if (p->sample_count && p->unit != UNIT_BYTES)
		chunk.duration_nanos = (int64_t)(p->samples[p->sample_count - 1].time - p->samples[0].time);
	chunk.n_string_table = p->names.count;
	chunk.string_table = p->names.list;
	chunk_put(s, &chunk);
}

bool write_pprof(struct profile *p, FILE *out)
{
	struct profile_type time[2] = {{"samples", "count"}, {p->unit == UNIT_WAIT ? "wait" : "cpu", "nanoseconds"}};
	const struct profile_type *types = p->types ? p->types : time;
	struct sink s = {.out = out};
	uint32_t name[2 * TYPES_MOST], marker_name[MARKERS];
	struct label_keys keys = {string_set_add(&p->names, "thread"), string_set_add(&p->names, "process")};
	char text[96];
	bool good = keys.thread != KEY_NONE && keys.process != KEY_NONE;

	if (deflateInit2(&s.z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	for (size_t i = 0; i < TYPES_OF(p); i++) {
		name[2 * i] = string_set_add(&p->names, types[i].name);
		name[2 * i + 1] = string_set_add(&p->names, types[i].unit);
		good &= name[2 * i] != KEY_NONE && name[2 * i + 1] != KEY_NONE;
	}
	for (int i = 0; i < MARKERS; i++) {
		snprintf(text, sizeof(text), "[%s]",
		         i < STOP_COUNT ? stop_text((enum stop)i) : wait_text((enum stack_wait)(i - STOP_COUNT)));
		marker_name[i] = string_set_add(&p->names, text);
		good &= marker_name[i] != KEY_NONE;
	}
	for (size_t i = 0; good && i < p->binaries.count; i++)
		good = mapping_put(&s, p, i);
	if (good) {
		functions_put(&s, p, marker_name);
		locations_put(&s, p);
		good = samples_put(&s, p, &keys);
		head_put(&s, p, name);
		sink_put(&s, NULL, 0, true);
	}
	deflateEnd(&s.z);
	free(s.packed);
	return good && !s.failed;
}
