/* SPDX-License-Identifier: MIT */
/*
 * Builds the list of spans for elf_section_at(). If sections of a malformed file overlap, the one with the lowest
 * number wins. A sweep over the addresses finds it, with the open sections in a heap that is ordered by number.
 */
#include "elf/file.h"
#include "shared/search.h"
#include "support/memory.h"
#include "support/sort.h"

#include <stdlib.h>

struct sweep {
	struct elf_span *list; /* the sections, by address */
	size_t count;
	struct elf_span
		*heap; /* open sections, lowest number on top; those that have ended are removed once they are on top */
	size_t open;
	struct elf_span *out;
	size_t made;
};

static bool holds_addresses(const Elf64_Shdr *sh)
{
	return (sh->sh_flags & SHF_ALLOC) && !(sh->sh_flags & SHF_TLS) && sh->sh_size;
}

static int by_start(const void *a, const void *b)
{
	const struct elf_span *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Returns the span of a section that starts at `at`, which is its address or its file offset. */
static struct elf_span span_of(const Elf64_Shdr *sh, uint64_t at, uint32_t section)
{
	uint64_t more = sh->sh_size - 1, most = UINT64_MAX - at;

	return (struct elf_span){at, at + (more < most ? more : most), section};
}

static void heap_add(struct sweep *s, struct elf_span x)
{
	size_t i = s->open++;

	for (; i && s->heap[(i - 1) / 2].section > x.section; i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = x;
}

static void heap_drop(struct sweep *s)
{
	struct elf_span x = s->heap[--s->open];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < s->open) {
		k += k + 1 < s->open && s->heap[k + 1].section < s->heap[k].section;
		if (s->heap[k].section > x.section)
			break;
		s->heap[i] = s->heap[k];
		i = k;
	}
	s->heap[i] = x;
}

/* Makes at most two spans for each section, since each span begins where a section begins or after a section ends. */
static void sweep_run(struct sweep *s)
{
	uint64_t at = 0, last;
	size_t next = 0;

	while (next < s->count || s->open) {
		if (!s->open && s->list[next].start > at)
			at = s->list[next].start;
		while (next < s->count && s->list[next].start <= at)
			heap_add(s, s->list[next++]);
		while (s->open && s->heap->last < at)
			heap_drop(s);
		if (!s->open)
			continue;
		last = s->heap->last;
		if (next < s->count && s->list[next].start <= last)
			last = s->list[next].start - 1;
		s->out[s->made++] = (struct elf_span){at, last, s->heap->section};
		if (last == UINT64_MAX)
			return;
		at = last + 1;
	}
}

void elf_spans_build(struct elf_file *f)
{
	struct sweep s = {0};
	uint32_t i;

	if (elf_is_object(f))
		return;
	s.list = mem_alloc(f->section_count, sizeof(*s.list));
	s.heap = mem_alloc(f->section_count, sizeof(*s.heap));
	s.out = mem_alloc(f->section_count, 2 * sizeof(*s.out));
	for (i = 1; i < f->section_count; i++) {
		const Elf64_Shdr *sh = &f->sections[i].sh;

		if (holds_addresses(sh))
			s.list[s.count++] = span_of(sh, sh->sh_addr, i);
	}
	qsort(s.list, s.count, sizeof(*s.list), by_start);
	sweep_run(&s);
	f->spans = s.out;
	f->span_count = s.made;
	free(s.list);
	free(s.heap);
}

uint32_t elf_section_at(const struct elf_file *f, uint64_t addr)
{
	size_t i = SEARCH(f->span_count, k, f->spans[k].last < addr);

	return i < f->span_count && f->spans[i].start <= addr ? f->spans[i].section : 0;
}

static bool spans_apart(struct elf_span *list, size_t count)
{
	size_t i;

	sort_by_address(list, count, sizeof(*list), by_start);
	for (i = 1; i < count && list[i].start > list[i - 1].last; i++)
		;
	return i >= count;
}

bool elf_sections_apart(const struct elf_file *f)
{
	struct elf_span *list = mem_alloc(f->section_count, sizeof(*list));
	size_t held = 0, loaded = 0;
	bool apart;
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		if (f->sections[i].data)
			list[held++] = span_of(&f->sections[i].sh, f->sections[i].sh.sh_offset, i);
	apart = spans_apart(list, held);
	for (i = 1; i < f->section_count && !elf_is_object(f); i++)
		if (holds_addresses(&f->sections[i].sh))
			list[loaded++] = span_of(&f->sections[i].sh, f->sections[i].sh.sh_addr, i);
	apart = apart && spans_apart(list, loaded);
	free(list);
	return apart;
}
