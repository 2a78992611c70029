/* SPDX-License-Identifier: MIT */
/* For mmap-perf.c alone: VMAs, in a tree and a list. */
#ifndef MMAP_VMAS_H
#define MMAP_VMAS_H

#include "mmap-tables.h"

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

#endif
