/* SPDX-License-Identifier: MIT */
/*
 * extable.c: resumes a fault at an instruction of an exception table (etch/extable.h) at its fixup.
 *
 * RULES OF THIS FILE. handler(), etch_fixup_exception() and the functions that they call run in signal context, on a
 * thread that may be stopped anywhere, perhaps inside libetch with its lock held, perhaps before a lazily bound
 * symbol is resolved: no malloc, no lock, no thread-local storage, no errno, and calls only to this file, chain.h and
 * sys.h. They resume by editing the context that the kernel saved, never by longjmp. They read modules' tables and
 * the blocks of this file; between readers_enter() and readers_leave() neither is freed.
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

#include "faults/chain.h"
#include "patch/internal.h"
#include "common/sys.h"
#include "shared/search.h"

/* ---- tables of modules ----------------------------------------------------------- */

/* An index entry of a table that is not sorted by address. */
struct key {
	uint64_t insn;
	uint64_t entry;
};

struct ex_table {
	struct ex_table *next;
	uint64_t low, high; /* addresses of the first and last instruction; low > high: none */
	const struct etch_ex *ex;
	size_t count;
	struct key *key;    /* null: ex is sorted, and searched in place */
	uint32_t uses;      /* registrations: several objects of a module may register the same table */
	uint16_t unusable;  /* unloaded while a reader did not leave in time: the block is never reused */
	uint16_t permanent; /* its module is never unloaded */
};

/* All blocks ever allocated. Blocks are reused, never unlinked. */
static struct ex_table *tables;
/* The first blocks; when they are used up, blocks come from mapped pages. */
static struct ex_table first[16], *spare = first;
static size_t spare_count = 16;

/*
 * The number of threads inside a lookup. A thread that unloads a table first empties its address range, so that later
 * lookups skip the table, and then waits until the count has been zero.
 */
static uint32_t readers;

static void readers_enter(void) { __atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST); }

static void readers_leave(void) { __atomic_sub_fetch(&readers, 1, __ATOMIC_RELEASE); }

/* Runs in the child of a fork(2): the count was copied, but the threads were not. */
static void readers_reset(void) { readers = 0; }

/* Waits until there is no reader. Returns 1, or 0 if a reader stays for long, such as a thread that a debugger has
 * stopped. */
static int readers_wait(void)
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

/* Heap sort: no recursion, no allocation. */
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
	struct {
		uint64_t start, end;
	} range[8]; /* executable segments: linkers write one */
	unsigned count;
	int permanent; /* never unloaded: the program, or a module linked with -z nodelete */
};

static int never_unloaded(const struct dl_phdr_info *info, const ElfW(Phdr) * p)
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
	c->permanent = (unsigned long)info->dlpi_phdr == getauxval(AT_PHDR);
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + p->p_vaddr;

		c->permanent |= never_unloaded(info, p);
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

/* Returns an unused block, or null without memory. Called under libetch's lock. */
static struct ex_table *table_new(void)
{
	struct ex_table *t;

	for (t = tables; t; t = t->next)
		if (!t->uses && !t->unusable)
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

/* Fills a block whose range is empty. Returns 1, or 0 if there is no memory, or the table is malformed, so that its
 * registers and resume addresses cannot be trusted. */
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
		/* The instruction is in no code of this module: the entry belongs to code that was dropped from the file. */
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
	t->permanent = (uint16_t)c->permanent;
	/* The range is published last: a reader that sees a non-empty range finds the rest complete. */
	__atomic_store_n(&t->high, high, __ATOMIC_RELEASE);
	__atomic_store_n(&t->low, low, __ATOMIC_RELEASE);
	return 1;
}

/* exit(3) has begun: destructors run, and no module is unloaded any more. */
static int exiting;

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
	/* Called outside libetch's lock, because it takes the dynamic linker's lock. */
	if (!dl_iterate_phdr(code_find, &c))
		return;
	if (etch_lock())
		return;
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

	/* At exit, code and the threads that execute it outlive their module's destructors. */
	if (__atomic_load_n(&exiting, __ATOMIC_RELAXED))
		return;
	if (etch_lock())
		return;
	t = table_of(start);
	if (t && !t->permanent && !--t->uses) {
		__atomic_store_n(&t->low, UINT64_MAX, __ATOMIC_SEQ_CST);
		__atomic_store_n(&t->high, 0, __ATOMIC_SEQ_CST);
		t->unusable = !readers_wait();
		if (t->key && !t->unusable)
			sys_munmap(t->key, t->count * sizeof(*t->key));
	}
	etch_unlock();
}

/* ---- the fault -------------------------------------------------------------------- */

/* Index of the first entry at or above `insn`. */
static size_t ex_from(const struct ex_table *t, uint64_t insn)
{
	return SEARCH(t->count, i, (t->key ? t->key[i].insn : insn_of(&t->ex[i])) < insn);
}

/* The result of a lookup: where to resume, and the entry. */
struct fixup {
	uint64_t to;
	struct etch_ex entry; /* only `data` is meaningful */
};

/* Finds the entry of an instruction in the tables of all modules. Returns 1, or 0 if there is none. */
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

/* A register of the context by its number in instruction encodings. */
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
	case ETCH_EX_TYPE_EFAULT: *reg = -EFAULT; break;
	case ETCH_EX_TYPE_ZERO: *reg = 0; break;
	case ETCH_EX_TYPE_LEN: *rcx = (greg_t)((uint64_t)*reg + (uint64_t)etch_ex_imm(e) * (uint64_t)*rcx); break;
	default: break;
	}
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)f.to;
	return 1;
}

ETCH_API int etch_fault_expected(const void *instruction)
{
	struct fixup f;

	return ex_find((uint64_t)(uintptr_t)instruction, &f);
}

/* The chains to the handlers of SIGSEGV and SIGBUS that were installed before. */
static struct chain segv_before, bus_before;

static void handler(int sig, siginfo_t *info, void *context)
{
	/* A signal that was sent is unrelated to the instruction. */
	if (chain_is_fault(sig, info) && etch_fixup_exception(context))
		return;
	chain_forward(sig == SIGBUS ? &bus_before : &segv_before, info, context);
}

/* Is libetch's own module never unloaded? */
static int own_permanent;

static void own_find(void)
{
	struct code c = {.table = (uint64_t)(uintptr_t)&segv_before};

	own_permanent = dl_iterate_phdr(code_find, &c) && c.permanent;
}

static void exit_begins(void) { __atomic_store_n(&exiting, 1, __ATOMIC_RELAXED); }

ETCH_API int etch_fault_init(void)
{
	static int exit_registered;
	int err, had;

	own_find(); /* called here too, because a program's constructor may call this function before own_register() has
	             * run */
	if (etch_lock())
		return -EBUSY;
	had = segv_before.installed;
	err = chain_install(&segv_before, SIGSEGV, handler);
	if (!err) {
		err = chain_install(&bus_before, SIGBUS, handler);
		if (err && !had)
			chain_remove(&segv_before);
	}
	had = exit_registered;
	exit_registered |= own_permanent;
	etch_unlock();
	if (!had && own_permanent)
		atexit(exit_begins);
	return err;
}

/* If libetch.a is part of a shared object, its unloading removes the handlers. */
__attribute__((destructor)) static void fault_remove(void)
{
	if (own_permanent)
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
	own_find();
	pthread_atfork(NULL, NULL, readers_reset);
	etch_extable_load_v1(own_start, own_stop);
}

__attribute__((destructor(101))) static void own_unregister(void) { etch_extable_unload_v1(own_start); }
