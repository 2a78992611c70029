/* SPDX-License-Identifier: MIT */
/*
 * extable.c: a fault at an instruction of an exception table goes on at its fixup.
 *
 * RULES OF THIS FILE. handler(), etch_fixup_exception() and what they call run in
 * signal context, on a thread stopped anywhere, maybe inside libetch with its lock
 * held, maybe before a lazily bound symbol is: no malloc, no lock, no thread-local
 * storage, no errno, no call but to this file, chain.h and sys.h. They resume by
 * editing the context that the kernel saved, never by longjmp. What they read is
 * tables, whose blocks are published with a release store and never unmapped.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
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
};

static struct ex_table *tables;
/* Blocks for tables come from here: a module more than this asks for a page. */
static struct ex_table first[16], *spare = first;
static size_t spare_count = 16;

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

/* Under the lock. */
static struct ex_table *table_new(void)
{
	long at;

	for (struct ex_table *t = tables; t; t = t->next)
		if (!t->uses)
			return t;
	if (!spare_count) {
		at = sys_call6(SYS_mmap, 0, ETCH_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at < 0 && at > -4096)
			return NULL;
		spare = (struct ex_table *)at;
		spare_count = ETCH_PAGE / sizeof(*spare);
	}
	spare_count--;
	return spare++;
}

static int table_fill(struct ex_table *t, const struct etch_ex *start, size_t n)
{
	uint64_t low = UINT64_MAX, high = 0;
	int sorted = 1;
	long at;
	size_t i;

	for (i = 0; i < n; i++) {
		uint64_t insn = insn_of(&start[i]);

		if (!etch_ex_valid(&start[i]))
			return ETCH_EFORMAT;
		sorted &= insn >= high;
		low = insn < low ? insn : low;
		high = insn > high ? insn : high;
	}
	t->key = NULL;
	if (!sorted) {
		at = sys_call6(SYS_mmap, 0, (long)(n * sizeof(*t->key)), PROT_READ | PROT_WRITE,
		               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at < 0 && at > -4096)
			return ETCH_ENOMEM;
		t->key = (struct key *)at;
		for (i = 0; i < n; i++)
			t->key[i] = (struct key){insn_of(&start[i]), i};
		keys_sort(t->key, n);
	}
	t->ex = start;
	t->count = n;
	t->low = low;
	t->high = high;
	return 0;
}

ETCH_API void etch_extable_load_v1(const struct etch_ex *start, const struct etch_ex *stop)
{
	struct ex_table *t;

	if (stop <= start || ((uintptr_t)start & 3))
		return;
	etch_lock();
	for (t = tables; t && !(t->uses && t->ex == start); t = t->next)
		;
	if (t) {
		t->uses++;
		etch_unlock();
		return;
	}
	t = table_new();
	/* A table that lies once is not to be trusted with a register. */
	if (t && !table_fill(t, start, (size_t)(stop - start))) {
		t->uses = 1;
		for (struct ex_table *x = tables; x; x = x->next)
			if (x == t) {
				etch_unlock();
				return; /* one that was in use before */
			}
		t->next = tables;
		__atomic_store_n(&tables, t, __ATOMIC_RELEASE);
	}
	etch_unlock();
}

ETCH_API void etch_extable_unload_v1(const struct etch_ex *start)
{
	etch_lock();
	for (struct ex_table *t = tables; t; t = t->next)
		if (t->uses && t->ex == start && !--t->uses) {
			__atomic_store_n(&t->low, UINT64_MAX, __ATOMIC_RELEASE);
			__atomic_store_n(&t->high, 0, __ATOMIC_RELEASE);
			if (t->key)
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

static const struct etch_ex *ex_find(uint64_t insn)
{
	const struct ex_table *t = __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
	const struct etch_ex *e;
	size_t i;

	for (; t; t = t->next) {
		if (insn < __atomic_load_n(&t->low, __ATOMIC_ACQUIRE) || insn > __atomic_load_n(&t->high, __ATOMIC_ACQUIRE))
			continue;
		i = ex_from(t, insn);
		if (i == t->count)
			continue;
		e = t->key ? &t->ex[t->key[i].entry] : &t->ex[i];
		if (insn_of(e) == insn)
			return e;
	}
	return NULL;
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
	const struct etch_ex *e = ex_find((uint64_t)u->uc_mcontext.gregs[REG_RIP]);
	greg_t *reg, *rcx = &u->uc_mcontext.gregs[REG_RCX];

	if (!e)
		return 0;
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
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)fixup_of(e);
	return 1;
}

ETCH_API int etch_fault_expected(const void *instruction) { return ex_find((uint64_t)(uintptr_t)instruction) != NULL; }

/* SIGSEGV and SIGBUS, what was there before us. */
static struct chain segv_before, bus_before;
static int installed;

static void handler(int sig, siginfo_t *info, void *context)
{
	/* Not of the kernel: sent by somebody, and says nothing about the instruction. */
	if (info->si_code > 0 && etch_fixup_exception(context))
		return;
	chain_hand_on(sig == SIGBUS ? &bus_before : &segv_before, sig, info, context);
}

ETCH_API int etch_fault_init(void)
{
	int err = 0;

	etch_lock();
	if (!installed) {
		err = chain_install(&segv_before, SIGSEGV, handler);
		if (!err)
			err = chain_install(&bus_before, SIGBUS, handler);
		if (err)
			chain_remove(&segv_before, SIGSEGV, handler);
		installed = !err;
	}
	etch_unlock();
	return err;
}

/* libetch.a inside a shared object that is unloaded leaves no handler behind. */
__attribute__((destructor)) static void fault_remove(void)
{
	if (!installed)
		return;
	chain_remove(&segv_before, SIGSEGV, handler);
	chain_remove(&bus_before, SIGBUS, handler);
}

/* ---- libetch's own table -------------------------------------------------------------- */

extern const struct etch_ex own_start[] __asm__("__start___ex_table") __attribute__((weak, visibility("hidden")));
extern const struct etch_ex own_stop[] __asm__("__stop___ex_table") __attribute__((weak, visibility("hidden")));
__asm__(".weak __start___ex_table, __stop___ex_table\n\t.hidden __start___ex_table, __stop___ex_table");

__attribute__((constructor(101))) static void own_register(void) { etch_extable_load_v1(own_start, own_stop); }
