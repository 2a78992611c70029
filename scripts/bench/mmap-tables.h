/* SPDX-License-Identifier: MIT */
/* For mmap-perf.c alone: frames of memory, four levels of tables, and unmapping. */
#ifndef MMAP_TABLES_H
#define MMAP_TABLES_H

#include "mmap-ops.h"

/* ---- frames --------------------------------------------------------------------- */

struct page {
	uint32_t refs, maps;
	uint32_t lru_prev, lru_next; /* frame numbers; 0 heads the list */
	uint32_t next_free;
	uint32_t entries; /* of a table: those in use */
	unsigned long index;
	unsigned long flags;
};
#define PAGE_IS_DIRTY 1ul
#define PAGE_IS_REFERENCED 2ul
#define PAGE_IS_TABLE 4ul

static struct page pages[FRAMES];
static uint32_t free_frames, frames_free;
static uint32_t zero_page;
static uint64_t sum = 0xcbf29ce484222325u; /* of all that the process reads, and of all counts */

/* All memory is mapped at a constant address, as kernels have it. */
#define PAGE_OFFSET 0x40000000ul
static inline void *frame_address(unsigned long pfn) { return (void *)((pfn << PAGE_SHIFT) + PAGE_OFFSET); }
static inline unsigned long frame_of(const void *p) { return ((unsigned long)p - PAGE_OFFSET) >> PAGE_SHIFT; }
static inline void note(uint64_t x) { sum = (sum ^ x) * 0x100000001b3u; }

static void die(const char *what)
{
	fprintf(stderr, "mmap-perf: %s\n", what);
	exit(1);
}

/* One instruction, as Linux has it. The counts of it depend on the mov before it. */
static inline void clear_page(void *page)
{
	unsigned long n;

	__asm__ __volatile__("mov %2, %k1\n\trep stosq"
	                     : "+D"(page), "=&c"(n)
	                     : "i"(PAGE_SIZE / 8), "a"(0ul)
	                     : "memory");
}

static NOINLINE unsigned long frame_alloc(void)
{
	uint32_t pfn = free_frames;
	struct page *page = &pages[pfn];

	if (!pfn)
		die("out of memory");
	free_frames = page->next_free;
	frames_free--;
	page->refs = 1;
	page->maps = 0;
	page->entries = 0;
	page->flags = 0;
	clear_page(frame_address(pfn));
	return pfn;
}

static void lru_add(uint32_t pfn)
{
	struct page *page = &pages[pfn];

	page->lru_prev = 0;
	page->lru_next = pages[0].lru_next;
	pages[page->lru_next].lru_prev = pfn;
	pages[0].lru_next = pfn;
}

static void frame_put(uint32_t pfn)
{
	struct page *page = &pages[pfn];

	if (--page->refs)
		return;
	if (page->maps || page->entries)
		die("a frame is freed that is in use");
	if (!(page->flags & PAGE_IS_TABLE)) {
		pages[page->lru_prev].lru_next = page->lru_next;
		pages[page->lru_next].lru_prev = page->lru_prev;
	}
	page->next_free = free_frames;
	free_frames = pfn;
	frames_free++;
}

/* ---- tables --------------------------------------------------------------------- */

#define PTE_SHIFT 12
#define PMD_SHIFT 21
#define PUD_SHIFT 30
#define PGD_SHIFT 39
#define INDEX(at, level) ((at) >> level##_SHIFT & 511)
#define SIZE(level) (1ul << level##_SHIFT)
static inline unsigned long level_end(unsigned long at, unsigned long end, unsigned shift)
{
	unsigned long next = ((at >> shift) + 1) << shift;

	return next - 1 < end - 1 ? next : end;
}

static inline pud_t *pgd_table(pgd_t p) { return frame_address((pgd_val(p) & FRAME_MASK) >> PAGE_SHIFT); }
static inline pmd_t *pud_table(pud_t p) { return frame_address((pud_val(p) & FRAME_MASK) >> PAGE_SHIFT); }
static inline pte_t *pmd_table(pmd_t p) { return frame_address((pmd_val(p) & FRAME_MASK) >> PAGE_SHIFT); }
static inline unsigned long pte_pfn(pte_t p) { return (pte_val(p) & FRAME_MASK) >> PAGE_SHIFT; }
static inline pte_t pfn_pte(unsigned long pfn, entry prot) { return make_pte(pfn << PAGE_SHIFT | prot); }

/* One more or less entry in the table that p lies in. */
static inline struct page *table_of(const void *p) { return &pages[frame_of(p)]; }

static unsigned long table_alloc(struct mm *mm)
{
	unsigned long pfn = frame_alloc();

	pages[pfn].flags = PAGE_IS_TABLE;
	mm->tables++;
	PV(alloc_table, mm, pfn);
	return pfn;
}

static NOINLINE void pud_populate(struct mm *mm, pgd_t *pgd)
{
	pgd_t e = make_pgd(table_alloc(mm) << PAGE_SHIFT | F_TABLE);

	PV(set_pgd, pgd, e);
	table_of(pgd)->entries++;
}

static NOINLINE void pmd_populate(struct mm *mm, pud_t *pud)
{
	pud_t e = make_pud(table_alloc(mm) << PAGE_SHIFT | F_TABLE);

	PV(set_pud, pud, e);
	table_of(pud)->entries++;
}

static NOINLINE void pte_populate(struct mm *mm, pmd_t *pmd)
{
	pmd_t e = make_pmd(table_alloc(mm) << PAGE_SHIFT | F_TABLE);

	PV(set_pmd, pmd, e);
	table_of(pmd)->entries++;
}

/* Down to the entry of a page; tables that are missing are made. */
static inline pte_t *pte_alloc(struct mm *mm, unsigned long at)
{
	pgd_t *pgd = mm->pgd + INDEX(at, PGD);
	pud_t *pud;
	pmd_t *pmd;

	if (pgd_none(*pgd))
		pud_populate(mm, pgd);
	pud = pgd_table(*pgd) + INDEX(at, PUD);
	if (pud_none(*pud))
		pmd_populate(mm, pud);
	pmd = pud_table(*pud) + INDEX(at, PMD);
	if (pmd_none(*pmd))
		pte_populate(mm, pmd);
	return pmd_table(*pmd) + INDEX(at, PTE);
}

/* The entry, or null, where a table is missing. */
static inline pte_t *pte_find(struct mm *mm, unsigned long at)
{
	pgd_t *pgd = mm->pgd + INDEX(at, PGD);
	pud_t *pud;
	pmd_t *pmd;

	if (pgd_none(*pgd))
		return NULL;
	pud = pgd_table(*pgd) + INDEX(at, PUD);
	if (pud_none(*pud))
		return NULL;
	pmd = pud_table(*pud) + INDEX(at, PMD);
	if (pmd_none(*pmd))
		return NULL;
	return pmd_table(*pmd) + INDEX(at, PTE);
}

static inline pte_t ptep_get_and_clear(pte_t *ptep)
{
	pte_t old = {__atomic_exchange_n(&ptep->pte, 0, __ATOMIC_RELAXED)};

	table_of(ptep)->entries--;
	return old;
}

static inline void set_pte(pte_t *ptep, pte_t pte)
{
	if (pte_none(*ptep))
		table_of(ptep)->entries++;
	PV(set_pte, ptep, pte);
}

/* ---- unmapping: zap_page_range, with Linux's mmu_gather --------------------------- */

struct gather {
	struct mm *mm;
	unsigned long start, end;
	unsigned n;
	uint32_t pfn[64];
};

static NOINLINE void gather_flush(struct gather *g)
{
	unsigned i;

	if (g->start < g->end) {
		g->mm->flushed += (g->end - g->start) >> PAGE_SHIFT;
		PV(flush_tlb_range, g->mm, g->start, g->end);
	}
	for (i = 0; i < g->n; i++)
		frame_put(g->pfn[i]);
	g->n = 0;
	g->start = ~0ul;
	g->end = 0;
}

static inline void gather_page(struct gather *g, unsigned long pfn)
{
	g->pfn[g->n++] = (uint32_t)pfn;
	if (g->n == sizeof(g->pfn) / sizeof(g->pfn[0]))
		gather_flush(g);
}

static inline void gather_range(struct gather *g, unsigned long at)
{
	if (at < g->start)
		g->start = at;
	if (at + PAGE_SIZE > g->end)
		g->end = at + PAGE_SIZE;
}

/* A page is no longer mapped here. */
static void page_unmapped(struct mm *mm, struct vma *vma, unsigned long pfn, entry flags)
{
	struct page *page = &pages[pfn];

	if (flags & F_DIRTY)
		page->flags |= PAGE_IS_DIRTY;
	if (flags & F_YOUNG)
		page->flags |= PAGE_IS_REFERENCED;
	page->maps--;
	vma->rss--;
	if (pfn == zero_page)
		mm->rss_zero--;
	else
		mm->rss_anon--;
}

static NOINLINE unsigned long zap_ptes(struct gather *g, struct vma *vma, pte_t *pte, unsigned long at,
                                       unsigned long end)
{
	PV(lazy_enter);
	for (; at != end; at += PAGE_SIZE, pte++) {
		pte_t entry_now = *pte;
		unsigned long pfn;

		if (pte_none(entry_now))
			continue;
		pfn = pte_pfn(entry_now);
		entry_now = ptep_get_and_clear(pte);
		gather_range(g, at);
		page_unmapped(g->mm, vma, pfn, pte_flags(entry_now));
		gather_page(g, pfn);
	}
	PV(lazy_leave);
	return at;
}

static void table_free(struct gather *g, unsigned long pfn)
{
	PV(release_table, pfn);
	g->mm->tables--;
	gather_page(g, pfn);
}

/* Unmaps the range, and frees the tables that are empty then. */
static NOINLINE unsigned long zap_pmds(struct gather *g, struct vma *vma, pmd_t *pmd, unsigned long at,
                                       unsigned long end)
{
	unsigned long next;

	for (; at != end; at = next, pmd++) {
		pte_t *table;

		next = level_end(at, end, PMD_SHIFT);
		if (pmd_none(*pmd))
			continue;
		table = pmd_table(*pmd);
		next = zap_ptes(g, vma, table + INDEX(at, PTE), at, next);
		if (!table_of(table)->entries) {
			PV(set_pmd, pmd, (pmd_t){0});
			table_of(pmd)->entries--;
			table_free(g, frame_of(table));
		}
	}
	return at;
}

static NOINLINE unsigned long zap_puds(struct gather *g, struct vma *vma, pud_t *pud, unsigned long at,
                                       unsigned long end)
{
	unsigned long next;

	for (; at != end; at = next, pud++) {
		pmd_t *table;

		next = level_end(at, end, PUD_SHIFT);
		if (pud_none(*pud))
			continue;
		table = pud_table(*pud);
		next = zap_pmds(g, vma, table + INDEX(at, PMD), at, next);
		if (!table_of(table)->entries) {
			PV(set_pud, pud, (pud_t){0});
			table_of(pud)->entries--;
			table_free(g, frame_of(table));
		}
	}
	return at;
}

static NOINLINE void zap_range(struct gather *g, struct vma *vma, unsigned long at, unsigned long end)
{
	pgd_t *pgd = g->mm->pgd + INDEX(at, PGD);
	unsigned long next;

	for (; at != end; at = next, pgd++) {
		pud_t *table;

		next = level_end(at, end, PGD_SHIFT);
		if (pgd_none(*pgd))
			continue;
		table = pgd_table(*pgd);
		next = zap_puds(g, vma, table + INDEX(at, PUD), at, next);
		if (!table_of(table)->entries) {
			PV(set_pgd, pgd, (pgd_t){0});
			table_of(pgd)->entries--;
			table_free(g, frame_of(table));
		}
	}
}

static void gather_start(struct gather *g, struct mm *mm)
{
	g->mm = mm;
	g->n = 0;
	g->start = ~0ul;
	g->end = 0;
}

#endif
