/* SPDX-License-Identifier: MIT */
/*
 * mmap-perf: the memory management of a kernel in small, in user space, with
 * Linux's paravirt_ops where Linux has them.  After a benchmark of that name of
 * 2009, which this shares no line with: a million pseudo-random calls of mmap,
 * munmap and mremap, and page faults, always the same ones.
 *
 *     mmap-perf OPERATIONS     prints: ticks, ticks_per_ns, checksum, counts
 *
 * What is as in Linux: four levels of tables with 512 entries, tables and pages
 * zeroed out of one pool of frames, VMAs in a tree and a list, merged and split,
 * reference and map counts, an LRU list, freeing in batches after the flush of the
 * TLB.  No locks.  Which accessor is an op, and which looks at the raw bits, is as in
 * Linux since 2009: an entry's flags, and whether it is empty, look the same on every
 * hypervisor, a frame's number does not, so only that goes through the ops.
 *
 * Built four ways:
 *     -DNATIVE           the ops are inline functions: no paravirt
 *     (nothing)          calls through `mmu`, unprocessed, or rewritten by etch
 *     -DINLINE           ops, and the native case of each compiled in place
 *     -DIDENT_CALLED     as before, but the identity functions are none that etch
 *                        recognizes, so that they are called
 * -DCALLEE_SAVE (clang) declares accessors to preserve all registers but the result,
 * as Linux does (PV_CALLEE_SAVE).
 */
#define _GNU_SOURCE
#include "mmap-vmas.h"

/* ---- the four operations ----------------------------------------------------------- */

static NOINLINE struct vma *do_map(struct mm *mm, unsigned long hint, unsigned long size, entry prot)
{
	unsigned long start = area_find(mm, hint, size);
	struct vma *next = vma_find(mm, start), *prev, *v;

	mm->total_vm += size >> PAGE_SHIFT;
	prev = next ? next->prev : NULL;
	if (!next)
		for (v = mm->root; v; v = v->right) /* the last one */
			prev = v;
	if (prev && prev->end == start && prev->prot == prot) {
		prev->end += size;
		if (next && next->start == prev->end && next->prot == prot) {
			prev->end = next->end;
			prev->rss += next->rss;
			next->rss = 0;
			vma_unlink(mm, next);
			vma_put(next);
		}
		return prev;
	}
	if (next && next->start == start + size && next->prot == prot) {
		next->start = start;
		return next;
	}
	v = vma_alloc(start, start + size, prot);
	vma_link(mm, v);
	return v;
}

static NOINLINE void do_unmap(struct mm *mm, unsigned long start, unsigned long end)
{
	struct vma *v = vma_find(mm, start), *next;
	struct gather g;

	if (!v || v->start >= end)
		return;
	if (v->start < start) {
		vma_split(mm, v, start);
		v = v->next;
	}
	gather_start(&g, mm);
	for (; v && v->start < end; v = next) {
		if (v->end > end)
			vma_split(mm, v, end);
		next = v->next;
		vma_unlink(mm, v);
		zap_range(&g, v, v->start, v->end);
		mm->total_vm -= (v->end - v->start) >> PAGE_SHIFT;
		vma_put(v);
	}
	gather_flush(&g);
}

/* All of one table's entries to another place, as Linux's move_ptes. */
static NOINLINE void move_ptes(struct mm *mm, pte_t *from, unsigned long at, unsigned long count, pte_t *to)
{
	unsigned long n, moved = 0;

	PV(lazy_enter);
	for (n = count; n; n--, from++, to++) {
		if (pte_none(*from))
			continue;
		set_pte(to, ptep_get_and_clear(from));
		moved++;
	}
	PV(lazy_leave);
	if (moved)
		PV(flush_tlb_range, mm, at, at + (count << PAGE_SHIFT));
	mm->flushed += moved;
}

static NOINLINE void move_tables(struct mm *mm, unsigned long at, unsigned long end, unsigned long new_at)
{
	unsigned long next;

	for (; at != end; new_at += next - at, at = next) {
		unsigned long most = level_end(new_at, ~0ul, PMD_SHIFT) - new_at;
		pte_t *from;

		next = level_end(at, end, PMD_SHIFT);
		if (next - at > most)
			next = at + most;
		from = pte_find(mm, at);
		if (from)
			move_ptes(mm, from, at, (next - at) >> PAGE_SHIFT, pte_alloc(mm, new_at));
	}
}

static NOINLINE void do_remap(struct mm *mm, struct vma *v, unsigned long size, unsigned long hint)
{
	unsigned long old = v->end - v->start, start;
	struct vma *n;
	struct gather g;

	if (size <= old) {
		if (size < old)
			do_unmap(mm, v->start + size, v->end);
		return;
	}
	if (!v->next || v->start + size <= v->next->start) {
		mm->total_vm += (size - old) >> PAGE_SHIFT;
		v->end = v->start + size;
		return;
	}
	start = area_find(mm, hint, size);
	n = vma_alloc(start, start + size, v->prot);
	n->rss = v->rss;
	v->rss = 0;
	vma_link(mm, n);
	mm->total_vm += size >> PAGE_SHIFT;
	move_tables(mm, v->start, v->end, start);
	gather_start(&g, mm);
	vma_unlink(mm, v);
	zap_range(&g, v, v->start, v->end); /* its tables */
	mm->total_vm -= old >> PAGE_SHIFT;
	gather_flush(&g);
	vma_put(v);
}

static void page_mapped(struct mm *mm, struct vma *vma, unsigned long pfn)
{
	pages[pfn].maps++;
	vma->rss++;
	if (pfn == zero_page)
		mm->rss_zero++;
	else
		mm->rss_anon++;
}

static unsigned long page_new(struct mm *mm, struct vma *vma, unsigned long at)
{
	unsigned long pfn = frame_alloc();

	pages[pfn].index = at >> PAGE_SHIFT;
	lru_add((uint32_t)pfn);
	page_mapped(mm, vma, pfn);
	return pfn;
}

/* A page fault: anonymous memory, the zero page where it is only read at first. */
static NOINLINE int do_fault(struct mm *mm, unsigned long at, int write)
{
	struct vma *vma = vma_find(mm, at);
	unsigned long pfn;
	pte_t *ptep, pte;

	if (!vma || vma->start > at)
		die("a fault outside of all VMAs");
	mm->faults++;
	ptep = pte_alloc(mm, at);
	pte = *ptep;
	if (pte_none(pte)) {
		if (write) {
			pte = pte_set_flags(pfn_pte(page_new(mm, vma, at), vma->prot), F_WRITE | F_DIRTY | F_YOUNG);
		} else {
			pages[zero_page].refs++;
			page_mapped(mm, vma, zero_page);
			pte = pte_set_flags(pfn_pte(zero_page, vma->prot), F_YOUNG);
		}
		set_pte(ptep, pte);
	} else if (write && !(pte_flags(pte) & F_WRITE)) { /* the first write */
		pfn = pte_pfn(pte);
		page_unmapped(mm, vma, pfn, pte_flags(pte));
		pte = pte_set_flags(pfn_pte(page_new(mm, vma, at), vma->prot), F_WRITE | F_DIRTY | F_YOUNG);
		set_pte(ptep, pte);
		PV(flush_tlb_page, at);
		frame_put((uint32_t)pfn);
	} else {
		return 0;
	}
	return 1;
}

/* ---- the process --------------------------------------------------------------------- */

/* What the processor does for an access: raw bits, no op. Null: it would fault. */
static inline void *hardware(struct mm *mm, unsigned long at, int write)
{
	entry e = mm->pgd[INDEX(at, PGD)].pgd;

#define DOWN(level)                                                                         \
	if (!(e & F_PRESENT))                                                               \
		return NULL;                                                                \
	e = ((entry *)frame_address((e & FRAME_MASK) >> PAGE_SHIFT))[INDEX(at, level)];
	DOWN(PUD)
	DOWN(PMD)
	DOWN(PTE)
#undef DOWN
	if (!(e & F_PRESENT) || (write && !(e & F_WRITE)))
		return NULL;
	return (char *)frame_address((e & FRAME_MASK) >> PAGE_SHIFT) + (at & (PAGE_SIZE - 1));
}

static void touch(struct mm *mm, unsigned long at, int write)
{
	uint64_t *p = hardware(mm, at, write);

	if (!p) {
		if (!do_fault(mm, at, write))
			die("a fault without a reason");
		p = hardware(mm, at, write);
		if (!p)
			die("a fault did not help");
	}
	note(*p);
	if (write)
		*p = sum;
}

static uint64_t random_state = 2009;

/* A number below n, of the bits that one operation has: it takes 16 of them. */
static unsigned long below(uint64_t *bits, unsigned long n)
{
	unsigned long r = (*bits & 0xffff) * n >> 16;

	*bits = *bits << 48 | *bits >> 16;
	return r;
}

static void operation(struct mm *mm)
{
	static const entry prots[] = {F_PRESENT | F_USER, F_PRESENT | F_USER | F_NX};
	uint64_t bits = bench_random(&random_state);
	unsigned long what = below(&bits, 100), r = below(&bits, 1u << 16), hint, size, count, start, n;
	struct vma *v;

	/* Sixteen places, in different tables of all levels; mostly few pages, now and then many. */
	hint = (r & 1) << PGD_SHIFT | (r >> 1 & 1) << PUD_SHIFT | (r >> 2 & 3) * 16 * SIZE(PMD) | SIZE(PUD) * 16;
	size = (1 + (r >> 4 & (r >> 13 ? 15 : 127))) * PAGE_SIZE;
	v = vma_find(mm, hint + (r >> 10) * SIZE(PMD) / 4);
	if (!v)
		v = mm->first;
	if (!v || mm->vmas <= VMAS_LEAST)
		what = 0;
	else if (mm->vmas >= VMAS_MOST || frames_free < FRAMES / 8)
		what = 30;
	if (what < 30) {
		v = do_map(mm, hint, size, prots[bits & 1]);
		note(v->start);
		return;
	}
	count = (v->end - v->start) >> PAGE_SHIFT;
	if (what < 42) {
		do_unmap(mm, v->start, v->end);
	} else if (what < 52) {
		start = v->start + below(&bits, count) * PAGE_SIZE;
		do_unmap(mm, start, start + size);
	} else if (what < 62) {
		do_remap(mm, v, size, hint);
	} else {
		start = below(&bits, count);
		n = 1 + below(&bits, count - start < 8 ? count - start : 8);
		for (; n--; start++)
			touch(mm, v->start + start * PAGE_SIZE, bits & 3);
	}
}

static void memory_map(void)
{
	void *p = mmap((void *)PAGE_OFFSET, FRAMES << PAGE_SHIFT, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);

	if (p != (void *)PAGE_OFFSET)
		die("no memory at 1 GiB");
}

/* What is counted: callgrind collects below this function. */
static NOINLINE void work(struct mm *mm, unsigned long n)
{
	while (n--)
		operation(mm);
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 0, i;
	double per_ns = bench_ticks_per_ns();
	struct mm mm = {0};
	uint64_t t;

	if (!n) {
		fprintf(stderr, "usage: mmap-perf OPERATIONS\n");
		return 2;
	}
	bench_pin(bench_cpu(0));
	memory_map();
	for (i = FRAMES - 1; i; i--) {
		pages[i].next_free = free_frames;
		free_frames = (uint32_t)i;
		frames_free++;
	}
	for (i = 0; i < sizeof vma_pool / sizeof vma_pool[0]; i++) {
		vma_pool[i].next = vma_free;
		vma_free = &vma_pool[i];
	}
	zero_page = (uint32_t)frame_alloc();
	lru_add(zero_page);
	mm.pgd = frame_address(frame_alloc());

	t = bench_tsc();
	work(&mm, n);
	t = bench_tsc() - t;

	note(mm.total_vm);
	note(mm.rss_anon);
	note(mm.rss_zero);
	note(mm.tables);
	note(mm.faults);
	note(mm.flushed);
	printf("%llu\t%.6f\t%016" PRIx64 "\n", (unsigned long long)t, per_ns, sum);
	printf("# operations\t%lu\tvmas\t%u\tpages\t%lu\tzero_pages\t%lu\ttables\t%lu\tfaults\t%lu\tflushed\t%lu\n", n,
	       mm.vmas, mm.rss_anon, mm.rss_zero, mm.tables, mm.faults, mm.flushed);
	while (mm.first)
		do_unmap(&mm, mm.first->start, mm.first->end);
	if (frames_free != FRAMES - 3 || mm.total_vm || mm.rss_anon || mm.rss_zero || mm.tables)
		die("something is left after all was unmapped");
#ifndef NATIVE
	struct etch_info info = {.size = sizeof info};
	etch_info(&info);
	printf("# calls\t%lu\tdirect\t%lu\tinline\t%lu\tindirect\t%lu\n", info.calls, info.calls_direct,
	       info.calls_inline, info.calls_indirect);
#endif
	return 0;
}
