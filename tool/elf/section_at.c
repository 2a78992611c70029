/* SPDX-License-Identifier: MIT */
/*
 * Which section holds an address. Where headers lie and several do, it is the first of them: a
 * sweep over the addresses, with those sections that have begun in a heap, first ones on top.
 */
#include "elf/section_at.h"
#include "elf/search.h"

#include <stdlib.h>

struct sweep {
	struct elf_span *list; /* the sections, by address */
	size_t count;
	struct elf_span *heap; /* by number; those that have ended are taken out when they come to the top */
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

/* Room for twice as many spans as there are sections is enough: each begins where one begins or
 * behind where one ends. */
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

int elf_spans_build(struct elf_file *f, struct error *e)
{
	size_t room = (size_t)f->section_count + 1;
	struct sweep s = {0};
	uint32_t i;

	if (elf_is_object(f))
		return 0;
	s.list = malloc(room * sizeof(*s.list));
	s.heap = malloc(room * sizeof(*s.heap));
	s.out = malloc(2 * room * sizeof(*s.out));
	if (s.list && s.heap && s.out) {
		for (i = 1; i < f->section_count; i++) {
			const Elf64_Shdr *sh = &f->sections[i].sh;
			uint64_t more = sh->sh_size - 1, most = UINT64_MAX - sh->sh_addr;

			if (holds_addresses(sh))
				s.list[s.count++] = (struct elf_span){sh->sh_addr, sh->sh_addr + (more < most ? more : most), i};
		}
		qsort(s.list, s.count, sizeof(*s.list), by_start);
		sweep_run(&s);
		f->spans = s.out;
		f->span_count = s.made;
	} else {
		free(s.out);
	}
	free(s.list);
	free(s.heap);
	return f->spans ? 0 : error_set(e, "out of memory");
}

uint32_t elf_section_at(const struct elf_file *f, uint64_t addr)
{
	size_t i = SEARCH(f->span_count, k, f->spans[k].last < addr);

	return i < f->span_count && f->spans[i].start <= addr ? f->spans[i].section : 0;
}
