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
#include "bench.h"

#ifndef NATIVE
#include <etch/pv.h>
#endif
#include <inttypes.h>
#include <string.h>

#define PAGE_SHIFT 12
#define PAGE_SIZE (1ul << PAGE_SHIFT)
#define FRAMES 16384ul /* 64 MiB of memory */
#define VMAS_MOST 1000u
#define VMAS_LEAST 100u

#define NOINLINE __attribute__((noinline))
#ifdef CALLEE_SAVE
#define PRESERVE __attribute__((preserve_most))
#else
#define PRESERVE
#endif

typedef unsigned long entry;
typedef struct { entry pte; } pte_t;
typedef struct { entry pmd; } pmd_t;
typedef struct { entry pud; } pud_t;
typedef struct { entry pgd; } pgd_t;

#define F_PRESENT 0x001ul
#define F_WRITE   0x002ul
#define F_USER    0x004ul
#define F_YOUNG   0x020ul
#define F_DIRTY   0x040ul
#define F_NX      (1ul << 63)
#define F_TABLE   (F_PRESENT | F_WRITE | F_USER | F_YOUNG | F_DIRTY)
#define FRAME_MASK 0x000ffffffffff000ul

struct vma {
	unsigned long start, end; /* bytes */
	struct vma *left, *right; /* a treap by start */
	struct vma *prev, *next;
	uint32_t priority;
	entry prot; /* flags of its pages */
	unsigned long rss;
};

struct mm {
	pgd_t *pgd;
	struct vma *root, *first, *cache;
	unsigned vmas;
	unsigned long total_vm, rss_anon, rss_zero, tables;
	unsigned long faults, flushed; /* statistics */
};

/* ---- the ops ------------------------------------------------------------------- */

/* As struct pv_mmu_ops: X(result, name, arguments, attributes). */
#define OPS(X)                                                                          \
	X(entry, pte_val, (entry), PRESERVE)                                            \
	X(entry, pmd_val, (entry), PRESERVE)                                            \
	X(entry, pud_val, (entry), PRESERVE)                                            \
	X(entry, pgd_val, (entry), PRESERVE)                                            \
	X(entry, make_pte, (entry), PRESERVE)                                           \
	X(entry, make_pmd, (entry), PRESERVE)                                           \
	X(entry, make_pud, (entry), PRESERVE)                                           \
	X(entry, make_pgd, (entry), PRESERVE)                                           \
	X(void, set_pmd, (pmd_t *, pmd_t), PRESERVE)                                    \
	X(void, set_pud, (pud_t *, pud_t), PRESERVE)                                    \
	X(void, set_pgd, (pgd_t *, pgd_t), PRESERVE)                                    \
	X(void, set_pte, (pte_t *, pte_t), PRESERVE)                                    \
	X(void, alloc_table, (struct mm *, unsigned long), PRESERVE)                    \
	X(void, release_table, (unsigned long), PRESERVE)                               \
	X(void, flush_tlb_page, (unsigned long), PRESERVE)                              \
	X(void, flush_tlb_range, (struct mm *, unsigned long, unsigned long), PRESERVE) \
	X(void, lazy_enter, (void), PRESERVE)                                           \
	X(void, lazy_leave, (void), PRESERVE)

#if defined(NATIVE) || defined(INLINE)

#define IDENT(name) \
	static inline entry native_##name(entry x) { return x; }
IDENT(pte_val) IDENT(pmd_val) IDENT(pud_val) IDENT(pgd_val)
IDENT(make_pte) IDENT(make_pmd) IDENT(make_pud) IDENT(make_pgd)
/* One store each, as Linux's WRITE_ONCE; flushes are instructions that the compiler
 * must not move memory accesses over. There is no TLB to flush here. */
#define ONCE(lvalue) (*(volatile __typeof__(lvalue) *)&(lvalue))
#define BARRIER() __asm__ __volatile__("" ::: "memory")
static inline void native_set_pmd(pmd_t *p, pmd_t v) { ONCE(p->pmd) = v.pmd; }
static inline void native_set_pud(pud_t *p, pud_t v) { ONCE(p->pud) = v.pud; }
static inline void native_set_pgd(pgd_t *p, pgd_t v) { ONCE(p->pgd) = v.pgd; }
#define UNUSED __attribute__((unused))
static inline void native_set_pte(pte_t *p, pte_t v) { ONCE(p->pte) = v.pte; }
static inline void native_alloc_table(struct mm *mm UNUSED, unsigned long pfn UNUSED) {}
static inline void native_release_table(unsigned long pfn UNUSED) {}
static inline void native_flush_tlb_page(unsigned long at UNUSED) { BARRIER(); }
static inline void native_flush_tlb_range(struct mm *mm UNUSED, unsigned long a UNUSED, unsigned long b UNUSED)
{
	BARRIER();
}
static inline void native_lazy_enter(void) {}
static inline void native_lazy_leave(void) {}

#endif
#ifdef NATIVE

#define PV(op, ...) native_##op(__VA_ARGS__)

#else

#define FIELD(result, name, arguments, attributes) result (*name) arguments attributes;
struct mmu_ops {
	OPS(FIELD)
};

PV_NATIVE(native_set_entry, "mov %rsi, (%rdi)");
void native_set_entry(void) __attribute__((visibility("hidden")));

#ifdef IDENT_CALLED
/* An ordinary function of two instructions, not in the shape that etch knows. */
entry ident_called(entry x);
__asm__(".text\n\t.p2align 4\n\t.globl ident_called\n\t.hidden ident_called\n\t"
        ".type ident_called, @function\n"
        "ident_called:\n\t.cfi_startproc\n\tlea (%rdi), %rax\n\tret\n\t.cfi_endproc\n\t"
        ".size ident_called, . - ident_called");
#define IDENT_OP ((void *)ident_called)
#else
#define IDENT_OP pv_ident_64
#endif

/* Not static: nothing here sets it, and a compiler that sees that takes it as constant. */
DEFINE_PV_OPS(struct mmu_ops, mmu) = {
	.pte_val = IDENT_OP, .pmd_val = IDENT_OP, .pud_val = IDENT_OP, .pgd_val = IDENT_OP,
	.make_pte = IDENT_OP, .make_pmd = IDENT_OP, .make_pud = IDENT_OP, .make_pgd = IDENT_OP,
	.set_pmd = (void *)native_set_entry, .set_pud = (void *)native_set_entry, .set_pgd = (void *)native_set_entry,
	.set_pte = (void *)native_set_entry,
	.alloc_table = pv_nop, .release_table = pv_nop,
	.flush_tlb_page = pv_nop, .flush_tlb_range = pv_nop, .lazy_enter = pv_nop, .lazy_leave = pv_nop,
};

#ifdef INLINE /* the function whose case is compiled in place */
#define CASE_pte_val pv_ident_64
#define CASE_pmd_val pv_ident_64
#define CASE_pud_val pv_ident_64
#define CASE_pgd_val pv_ident_64
#define CASE_make_pte pv_ident_64
#define CASE_make_pmd pv_ident_64
#define CASE_make_pud pv_ident_64
#define CASE_make_pgd pv_ident_64
#define CASE_set_pte native_set_entry
#define CASE_set_pmd native_set_entry
#define CASE_set_pud native_set_entry
#define CASE_set_pgd native_set_entry
#define CASE_alloc_table pv_nop
#define CASE_release_table pv_nop
#define CASE_flush_tlb_page pv_nop
#define CASE_flush_tlb_range pv_nop
#define CASE_lazy_enter pv_nop
#define CASE_lazy_leave pv_nop
#define PV(op, ...) pv_call_inline(mmu, op, CASE_##op, native_##op(__VA_ARGS__), ##__VA_ARGS__)
#else
#define PV(op, ...) mmu.op(__VA_ARGS__)
#endif

#endif

static inline entry pte_val(pte_t p) { return PV(pte_val, p.pte); }
static inline entry pmd_val(pmd_t p) { return PV(pmd_val, p.pmd); }
static inline entry pud_val(pud_t p) { return PV(pud_val, p.pud); }
static inline entry pgd_val(pgd_t p) { return PV(pgd_val, p.pgd); }
static inline pte_t make_pte(entry e) { return (pte_t){PV(make_pte, e)}; }
static inline pmd_t make_pmd(entry e) { return (pmd_t){PV(make_pmd, e)}; }
static inline pud_t make_pud(entry e) { return (pud_t){PV(make_pud, e)}; }
static inline pgd_t make_pgd(entry e) { return (pgd_t){PV(make_pgd, e)}; }

/* Raw bits, as in Linux. */
static inline int pte_none(pte_t p) { return !p.pte; }
static inline int pmd_none(pmd_t p) { return !p.pmd; }
static inline int pud_none(pud_t p) { return !p.pud; }
static inline int pgd_none(pgd_t p) { return !p.pgd; }
static inline entry pte_flags(pte_t p) { return p.pte & ~FRAME_MASK; }
static inline pte_t pte_set_flags(pte_t p, entry flags) { return (pte_t){p.pte | flags}; }

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

/* ---- VMAs ------------------------------------------------------------------------ */

static struct vma vma_pool[VMAS_MOST + 8], *vma_free;
static uint64_t vma_random = 88172645463325252u;

static struct vma *vma_alloc(unsigned long start, unsigned long end, entry prot)
{
	struct vma *v = vma_free;

	if (!v)
		die("out of VMAs");
	vma_free = v->next;
	memset(v, 0, sizeof *v);
	v->start = start;
	v->end = end;
	v->prot = prot;
	v->priority = (uint32_t)bench_random(&vma_random);
	return v;
}

/* The first that ends above `at`. */
static NOINLINE struct vma *vma_find(struct mm *mm, unsigned long at)
{
	struct vma *v = mm->cache, *found = NULL;

	if (v && v->start <= at && at < v->end)
		return v;
	for (v = mm->root; v;) {
		if (v->end > at) {
			found = v;
			if (v->start <= at)
				break;
			v = v->left;
		} else {
			v = v->right;
		}
	}
	if (found)
		mm->cache = found;
	return found;
}

static NOINLINE void vma_link(struct mm *mm, struct vma *n)
{
	struct vma **p = &mm->root, **l, **r, *t, *before = NULL;

	while (*p && (*p)->priority >= n->priority) {
		if ((*p)->start < n->start) {
			before = *p;
			p = &(*p)->right;
		} else {
			p = &(*p)->left;
		}
	}
	l = &n->left;
	r = &n->right;
	for (t = *p; t;) {
		if (t->start < n->start) {
			before = t;
			*l = t;
			l = &t->right;
			t = *l;
		} else {
			*r = t;
			r = &t->left;
			t = *r;
		}
	}
	*l = *r = NULL;
	*p = n;
	n->prev = before;
	n->next = before ? before->next : mm->first;
	if (before)
		before->next = n;
	else
		mm->first = n;
	if (n->next)
		n->next->prev = n;
	mm->vmas++;
}

static NOINLINE void vma_unlink(struct mm *mm, struct vma *n)
{
	struct vma **p = &mm->root, *a = n->left, *b = n->right;

	while (*p != n)
		p = n->start < (*p)->start ? &(*p)->left : &(*p)->right;
	while (a && b) {
		if (a->priority > b->priority) {
			*p = a;
			p = &a->right;
			a = *p;
		} else {
			*p = b;
			p = &b->left;
			b = *p;
		}
	}
	*p = a ? a : b;
	if (n->prev)
		n->prev->next = n->next;
	else
		mm->first = n->next;
	if (n->next)
		n->next->prev = n->prev;
	if (mm->cache == n)
		mm->cache = NULL;
	mm->vmas--;
}

static void vma_put(struct vma *v)
{
	if (v->rss)
		die("pages are left in a VMA");
	v->next = vma_free;
	vma_free = v;
}

/* Pages of [start, end) that are mapped: for the count of a VMA that is split. */
static NOINLINE unsigned long mapped_pages(struct mm *mm, unsigned long start, unsigned long end)
{
	unsigned long n = 0, next;
	pte_t *pte;

	for (; start != end; start = next) {
		next = level_end(start, end, PMD_SHIFT);
		pte = pte_find(mm, start);
		for (; pte && start != next; start += PAGE_SIZE, pte++)
			n += !pte_none(*pte);
	}
	return n;
}

static NOINLINE void vma_split(struct mm *mm, struct vma *v, unsigned long at)
{
	struct vma *n = vma_alloc(at, v->end, v->prot);

	n->rss = v->rss ? mapped_pages(mm, at, v->end) : 0;
	v->rss -= n->rss;
	v->end = at;
	vma_link(mm, n);
}

static NOINLINE unsigned long area_find(struct mm *mm, unsigned long hint, unsigned long size)
{
	struct vma *v = vma_find(mm, hint);

	for (;; v = v->next) {
		if (!v || hint + size <= v->start)
			return hint;
		if (hint < v->end)
			hint = v->end;
	}
}

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
