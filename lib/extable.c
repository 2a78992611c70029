/* SPDX-License-Identifier: MIT */
/*
 * extable.c: a fault at an instruction of an exception table goes on at its fixup.
 *
 * RULES OF THIS FILE. handler(), etch_fixup_exception() and what they call run in
 * signal context, on a thread stopped anywhere, maybe inside libetch with its lock
 * held, maybe before a lazily bound symbol is: no malloc, no lock, no thread-local
 * storage, no errno, no call but to this file, chain.h and sys.h. They resume by
 * editing the context that the kernel saved, never by longjmp. What they read is
 * tables, of modules and of our own making: between readers_enter() and readers_leave()
 * none of either goes away.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include <etch/extable.h>

#include "chain.h"
#include "internal.h"
#include "sys.h"

/* ---- tables of modules ----------------------------------------------------------- */

/* One entry by its address: of a table that is not in order. */
struct key {
	uint64_t insn;
	uint64_t entry;
};

struct ex_table {
	struct ex_table *next;
	uint64_t low, high;       /* addresses of the first and last instruction; low > high: none */
	const struct etch_ex *ex;
	size_t count;
	struct key *key;          /* null: ex is in order, and searched in place */
	uint32_t uses;            /* registrations: more than one object may make the same */
	uint16_t lost;            /* a reader was seen to stay: never used again */
	uint16_t stays;           /* of a module that is never unloaded */
};

/* All blocks ever made, those without uses between those with: none is unlinked. */
static struct ex_table *tables;
/* Blocks come from here: a module more than this asks for a page. */
static struct ex_table first[16], *spare = first;
static size_t spare_count = 16;

/*
 * Threads that look something up, now. One that unloads a table first empties its range
 * and then waits until it has seen none: whoever comes later does not look inside.
 */
static uint32_t readers;

static void readers_enter(void) { __atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST); }

static void readers_leave(void) { __atomic_sub_fetch(&readers, 1, __ATOMIC_RELEASE); }

/* A fork copies the count, not the threads. */
static void readers_none(void) { readers = 0; }

/* 1, or 0 where there is one for long: a thread that a debugger has stopped. */
static int readers_gone(void)
{
	for (unsigned i = 0; i < 1u << 16; i++) {
		if (!__atomic_load_n(&readers, __ATOMIC_SEQ_CST))
			return 1;
		if (i & 63)
			__asm__ __volatile__("pause");
		else
			sched_yield();
	}
	return 0;
}

static uint64_t insn_of(const struct etch_ex *e) { return etch_ref((uint64_t)(uintptr_t)&e->insn, e->insn); }

static uint64_t fixup_of(const struct etch_ex *e) { return etch_ref((uint64_t)(uintptr_t)&e->fixup, e->fixup); }

static int key_after(const struct key *a, const struct key *b)
{
	return a->insn > b->insn || (a->insn == b->insn && a->entry > b->entry);
}

/* Heap sort: no recursion, no memory. */
static void keys_sort(struct key *k, size_t n)
{
	size_t start = n / 2, end = n;

	while (end > 1) {
		size_t root, child;
		struct key x;

		if (start) {
			start--;
		} else {
			end--;
			x = k[end];
			k[end] = k[0];
			k[0] = x;
		}
		for (root = start; (child = 2 * root + 1) < end; root = child) {
			if (child + 1 < end && key_after(&k[child + 1], &k[child]))
				child++;
			if (!key_after(&k[child], &k[root]))
				break;
			x = k[child];
			k[child] = k[root];
			k[root] = x;
		}
	}
}

/* ---- the module that a table is in --------------------------------------------------- */

struct code {
	uint64_t table;
	struct { uint64_t start, end; } range[8]; /* executable segments: linkers write one */
	unsigned count;
	int stays; /* never unloaded: the program, or linked with -z nodelete */
};

static int never_unloaded(const struct dl_phdr_info *info, const ElfW(Phdr) *p)
{
	const ElfW(Dyn) *d = (const ElfW(Dyn) *)(uintptr_t)(info->dlpi_addr + p->p_vaddr);

	if (p->p_type == PT_DYNAMIC)
		for (; d->d_tag != DT_NULL; d++)
			if (d->d_tag == DT_FLAGS_1 && (d->d_un.d_val & DF_1_NODELETE))
				return 1;
	return 0;
}

static int code_find(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct code *c = arg;
	int here = 0;

	(void)size;
	c->count = 0;
	c->stays = (unsigned long)info->dlpi_phdr == getauxval(AT_PHDR);
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + p->p_vaddr;

		c->stays |= never_unloaded(info, p);
		if (p->p_type != PT_LOAD)
			continue;
		here |= c->table - start < p->p_memsz;
		if ((p->p_flags & PF_X) && c->count < sizeof(c->range) / sizeof(c->range[0])) {
			c->range[c->count].start = start;
			c->range[c->count++].end = start + p->p_memsz;
		}
	}
	return here;
}

static int code_has(const struct code *c, uint64_t at)
{
	for (unsigned i = 0; i < c->count; i++)
		if (at >= c->range[i].start && at < c->range[i].end)
			return 1;
	return 0;
}

/* ---- loading and unloading -------------------------------------------------------------- */

/* Under the lock. */
static struct ex_table *table_new(void)
{
	struct ex_table *t;

	for (t = tables; t; t = t->next)
		if (!t->uses && !t->lost)
			return t;
	if (!spare_count) {
		spare = sys_map(ETCH_PAGE, 0);
		if (!spare)
			return NULL;
		spare_count = ETCH_PAGE / sizeof(*spare);
	}
	spare_count--;
	t = spare++;
	t->low = UINT64_MAX;
	t->next = tables;
	__atomic_store_n(&tables, t, __ATOMIC_RELEASE);
	return t;
}

/* Into a block whose range is empty. 1, or 0: no memory, or a table that lies, which is
 * not to be trusted with a register or an address to jump to. */
static int table_fill(struct ex_table *t, const struct etch_ex *start, size_t n, const struct code *c)
{
	uint64_t low = UINT64_MAX, high = 0, last = 0;
	int sorted = 1;
	size_t i, used = 0;

	for (i = 0; i < n; i++) {
		uint64_t insn = insn_of(&start[i]);

		if (!etch_ex_valid(&start[i]))
			return 0;
		sorted &= insn >= last;
		last = insn;
		/* Without an instruction here it is of code that is not in the file. */
		if (!code_has(c, insn))
			continue;
		if (!code_has(c, fixup_of(&start[i])))
			return 0;
		used++;
		low = insn < low ? insn : low;
		high = insn > high ? insn : high;
	}
	if (!used)
		return 0;
	t->key = NULL;
	if (!sorted) {
		t->key = sys_map(n * sizeof(*t->key), 0);
		if (!t->key)
			return 0;
		for (i = 0; i < n; i++)
			t->key[i] = (struct key){insn_of(&start[i]), i};
		keys_sort(t->key, n);
	}
	t->ex = start;
	t->count = n;
	t->uses = 1;
	t->stays = (uint16_t)c->stays;
	/* What a reader finds behind a range that is not empty is complete. */
	__atomic_store_n(&t->high, high, __ATOMIC_RELEASE);
	__atomic_store_n(&t->low, low, __ATOMIC_RELEASE);
	return 1;
}

/* exit(3) has begun: destructors run, and no module is unloaded any more. */
static int leaving;

static struct ex_table *table_of(const struct etch_ex *start)
{
	for (struct ex_table *t = tables; t; t = t->next)
		if (t->uses && t->ex == start)
			return t;
	return NULL;
}

ETCH_API void etch_extable_load_v1(const struct etch_ex *start, const struct etch_ex *stop)
{
	struct code c = {.table = (uint64_t)(uintptr_t)start};
	size_t size = (uintptr_t)stop - (uintptr_t)start;
	struct ex_table *t;

	if (stop <= start || ((uintptr_t)start & 3) || size % sizeof(*start))
		return;
	/* Not under the lock: it takes the dynamic linker's. */
	if (!dl_iterate_phdr(code_find, &c))
		return;
	etch_lock();
	t = table_of(start);
	if (t) {
		t->uses++;
	} else {
		t = table_new();
		if (t)
			table_fill(t, start, size / sizeof(*start), &c);
	}
	etch_unlock();
}

ETCH_API void etch_extable_unload_v1(const struct etch_ex *start)
{
	struct ex_table *t;

	/* Code outlives its destructors at exit, and so do threads that are in it. */
	if (__atomic_load_n(&leaving, __ATOMIC_RELAXED))
		return;
	etch_lock();
	t = table_of(start);
	if (t && !t->stays && !--t->uses) {
		__atomic_store_n(&t->low, UINT64_MAX, __ATOMIC_SEQ_CST);
		__atomic_store_n(&t->high, 0, __ATOMIC_SEQ_CST);
		t->lost = !readers_gone();
		if (t->key && !t->lost)
			sys_munmap(t->key, t->count * sizeof(*t->key));
	}
	etch_unlock();
}

/* ---- the fault -------------------------------------------------------------------- */

/* First position of at least `insn`. */
static size_t ex_from(const struct ex_table *t, uint64_t insn)
{
	size_t low = 0, high = t->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if ((t->key ? t->key[mid].insn : insn_of(&t->ex[mid])) < insn)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* What to do at an instruction. */
struct fixup {
	uint64_t to;
	struct etch_ex entry; /* data is of use */
};

static int ex_find(uint64_t insn, struct fixup *f)
{
	const struct ex_table *t = __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
	const struct etch_ex *e;
	int found = 0;
	size_t i;

	readers_enter();
	for (; t && !found; t = t->next) {
		if (insn < __atomic_load_n(&t->low, __ATOMIC_ACQUIRE) || insn > __atomic_load_n(&t->high, __ATOMIC_ACQUIRE))
			continue;
		i = ex_from(t, insn);
		if (i == t->count)
			continue;
		e = t->key ? &t->ex[t->key[i].entry] : &t->ex[i];
		if (insn_of(e) == insn) {
			f->to = fixup_of(e);
			f->entry = *e;
			found = 1;
		}
	}
	readers_leave();
	return found;
}

/* A register of the context by its number in instruction encoding. */
static greg_t *context_reg(ucontext_t *u, unsigned reg)
{
	static const uint8_t place[16] = {
		REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
	};

	return &u->uc_mcontext.gregs[place[reg & 15]];
}

ETCH_API int etch_fixup_exception(void *ucontext)
{
	ucontext_t *u = ucontext;
	greg_t *reg, *rcx = &u->uc_mcontext.gregs[REG_RCX];
	const struct etch_ex *e;
	struct fixup f;

	if (!ex_find((uint64_t)u->uc_mcontext.gregs[REG_RIP], &f))
		return 0;
	e = &f.entry;
	reg = context_reg(u, etch_ex_reg(e));
	switch (etch_ex_type(e)) {
	case ETCH_EX_TYPE_EFAULT:
		*reg = -EFAULT;
		break;
	case ETCH_EX_TYPE_ZERO:
		*reg = 0;
		break;
	case ETCH_EX_TYPE_LEN:
		*rcx = (greg_t)((uint64_t)*reg + (uint64_t)etch_ex_imm(e) * (uint64_t)*rcx);
		break;
	default:
		break;
	}
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)f.to;
	return 1;
}

ETCH_API int etch_fault_expected(const void *instruction)
{
	struct fixup f;

	return ex_find((uint64_t)(uintptr_t)instruction, &f);
}

/* SIGSEGV and SIGBUS, what was there before us. */
static struct chain segv_before, bus_before;

static void handler(int sig, siginfo_t *info, void *context)
{
	/* A signal that was sent says nothing about the instruction. */
	if (chain_is_fault(sig, info) && etch_fixup_exception(context))
		return;
	chain_hand_on(sig == SIGBUS ? &bus_before : &segv_before, info, context);
}

/* Is libetch itself never unloaded? */
static int own_stays;

static void own_look(void)
{
	struct code c = {.table = (uint64_t)(uintptr_t)&segv_before};

	own_stays = dl_iterate_phdr(code_find, &c) && c.stays;
}

static void exit_begins(void) { __atomic_store_n(&leaving, 1, __ATOMIC_RELAXED); }

ETCH_API int etch_fault_init(void)
{
	static int told;
	int err, had;

	own_look(); /* a constructor may call before ours has run */
	etch_lock();
	had = segv_before.installed;
	err = chain_install(&segv_before, SIGSEGV, handler);
	if (!err) {
		err = chain_install(&bus_before, SIGBUS, handler);
		if (err && !had)
			chain_remove(&segv_before);
	}
	had = told;
	told |= own_stays;
	etch_unlock();
	if (!had && own_stays)
		atexit(exit_begins);
	return err;
}

/* libetch.a inside a shared object that is unloaded leaves no handler behind. */
__attribute__((destructor)) static void fault_remove(void)
{
	if (own_stays)
		return;
	chain_remove(&segv_before);
	chain_remove(&bus_before);
}

/* ---- libetch's own table -------------------------------------------------------------- */

extern const struct etch_ex own_start[] __asm__("__start___ex_table") __attribute__((weak, visibility("hidden")));
extern const struct etch_ex own_stop[] __asm__("__stop___ex_table") __attribute__((weak, visibility("hidden")));
__asm__(".weak __start___ex_table, __stop___ex_table\n\t.hidden __start___ex_table, __stop___ex_table");

__attribute__((constructor(101))) static void own_register(void)
{
	own_look();
	pthread_atfork(NULL, NULL, readers_none);
	etch_extable_load_v1(own_start, own_stop);
}

__attribute__((destructor(101))) static void own_forget(void) { etch_extable_unload_v1(own_start); }
