/* SPDX-License-Identifier: MIT */
/* For mmap-perf.c alone: its types, and the ops that it calls for entries of tables. */
#ifndef MMAP_OPS_H
#define MMAP_OPS_H

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

#endif
