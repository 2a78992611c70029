// SPDX-License-Identifier: MIT
/*
 * call_sites.c: damages tables of handlers, and compares what lib/exceptions/call_site.c reads in them with what the
 * personality routines of libstdc++ and libgcc answer: call_sites SEED MUTANTS
 *
 * The tables are those of the functions on this program's stack (call_sites.cc). Each mutant changes a few bytes of one,
 * and compares the answers at random addresses of its function. A personality routine may crash, abort or call
 * std::terminate() on a damaged table: then no answer may have been predicted. Prints how many addresses had which
 * result, and how many were wrong.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include "exceptions/call_site.h"
#include "exceptions/gcc_abi.h"

/* libgcc's (unwind-dw2-fde.h) */
struct dwarf_eh_bases {
	void *tbase, *dbase, *func;
};
extern const uint8_t *_Unwind_Find_FDE(void *pc, struct dwarf_eh_bases *bases);

extern personality_fn __gxx_personality_v0, __gcc_personality_v0;

/* call_sites.cc */
extern void functions_enter(void (*then)(void));
extern unsigned exceptions_make(struct exception **out); /* returns how many */
extern void on_terminate(void (*then)(void));

static struct function {
	struct call_site_table table;
	uint64_t size; /* of the table */
	enum language language;
} functions[32];
static unsigned functions_count;
static struct exception *exceptions[8];
static unsigned exceptions_count;

static uint64_t state;
static unsigned long results[SITE_DAMAGED + 1], asked, wrong;
static sigjmp_buf back;

static unsigned below(unsigned n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % n;
}

static uint64_t leb(const uint8_t **p)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t b = *(*p)++;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
}

/* Of a whole table. */
static uint64_t table_size(const uint8_t *at)
{
	const uint8_t *p = at + 1;

	if (*p++ != 0xff) {
		uint64_t types = leb(&p);
		return (uint64_t)(p - at) + types;
	}
	p++;
	uint64_t calls = leb(&p);
	return (uint64_t)(p - at) + calls;
}

static void cleanup(int *n) { (*n)--; }

/* A frame of C with a cleanup. */
__attribute__((noinline)) static void c_function(void (*then)(void))
{
	int n __attribute__((cleanup(cleanup))) = 1;

	then();
	__asm__ volatile("" ::"r"(&n) : "memory");
	then();
}

extern char __executable_start, end;

static _Unwind_Reason_Code function_take(struct _Unwind_Context *c, void *arg)
{
	struct function *f = &functions[functions_count];
	uint64_t lsda = (uint64_t)_Unwind_GetLanguageSpecificData(c), start = _Unwind_GetRegionStart(c);
	struct dwarf_eh_bases bases;
	const uint8_t *fde = _Unwind_Find_FDE((void *)(_Unwind_GetIP(c) - 1), &bases);
	uint32_t size;

	(void)arg;
	/* Of this program only: the addresses of its FDEs have 4 bytes. */
	if (!lsda || lsda - (uint64_t)&__executable_start > (uint64_t)(&end - &__executable_start) || functions_count == 32)
		return _URC_NO_REASON;
	for (unsigned i = 0; i < functions_count; i++)
		if (functions[i].table.at == lsda)
			return _URC_NO_REASON;
	memcpy(&size, fde + 12, 4);
	f->table = (struct call_site_table){lsda, start, size, (uint64_t)&end};
	f->language = start == (uint64_t)c_function ? LANGUAGE_C : LANGUAGE_CXX;
	f->size = table_size((const uint8_t *)lsda);
	functions_count++;
	return _URC_NO_REASON;
}

static void on_signal(int number) { siglongjmp(back, number); }
static void terminated(void) { siglongjmp(back, 1000); }

enum { ANSWER_NONE = -1 };

/* Asks the routine. Returns ANSWER_NONE if it does not return. */
static int ask(const struct function *f, uint64_t ip, struct exception *e, int actions, struct gcc_context *c)
{
	personality_fn *fn = f->language == LANGUAGE_C ? __gcc_personality_v0 : __gxx_personality_v0;

	memset(c, 0, sizeof(*c));
	memset(c->by_value, 1, sizeof(c->by_value));
	c->flags = GCC_CONTEXT_EXTENDED;
	c->ra = ip;
	c->lsda = f->table.at;
	c->function = f->table.start;
	if (sigsetjmp(back, 1))
		return ANSWER_NONE;
	return fn(1, actions, e->class, e, c);
}

static bool agrees(const struct function *f, enum call_site site, uint64_t landing, uint64_t ip, struct exception *e)
{
	bool is_for_types = site == SITE_TYPES || site == SITE_TYPES_CLEANUP;
	struct gcc_context c;
	int reason = ask(f, ip, e, ACTION_SEARCH, &c);

	asked++;
	/* The library has asked for this type, and has got this answer. */
	if (is_for_types && reason != REASON_CONTINUE)
		return true;
	if (reason != REASON_CONTINUE)
		return false;
	reason = ask(f, ip, e, ACTION_CLEANUP, &c);
	if (site == SITE_NONE || site == SITE_TYPES)
		return reason == REASON_CONTINUE;
	return reason == REASON_INSTALL_CONTEXT && c.ra == landing && c.reg[DWARF_RAX] == (uint64_t)e && !c.reg[DWARF_RDX];
}

static void compare(const struct function *f, uint64_t ip, unsigned long seed)
{
	uint64_t landing;
	enum call_site site = call_site_read(f->language, &f->table, ip, &landing);

	results[site]++;
	for (unsigned i = 0; site < SITE_ASK && i < exceptions_count; i++)
		if (!agrees(f, site, landing, ip, exceptions[i])) {
			wrong++;
			printf("wrong: mutant %lu, function at %#lx, address %#lx: site %d\n", seed, (unsigned long)f->table.start,
			       (unsigned long)ip, (int)site);
		}
}

static void mutants(unsigned long seed, unsigned long count)
{
	for (unsigned long n = seed; n < seed + count; n++) {
		struct function *f;
		uint8_t *at, before[4096];

		state = n * 0x9e3779b97f4a7c15u;
		f = &functions[below(functions_count)];
		at = (uint8_t *)f->table.at;
		memcpy(before, at, f->size);
		/* The first is as the compiler wrote it. */
		for (unsigned i = n == seed ? 0 : 1 + below(3); i; i--) {
			uint8_t *b = at + below((unsigned)f->size);
			switch (below(4)) {
			case 0: *b = (uint8_t)below(256); break;
			case 1: *b ^= (uint8_t)(1u << below(8)); break;
			case 2: *b = (uint8_t)(*b + 1); break;
			case 3: *b = (uint8_t)(*b - 1); break;
			}
		}
		for (unsigned i = 0; i < 8; i++)
			compare(f, f->table.start + 1 + below((unsigned)f->table.size), n);
		memcpy(at, before, f->size);
	}
}

static unsigned long first, wanted;

static void run(void)
{
	static bool done;
	struct sigaction a;

	if (done)
		return;
	done = true;
	_Unwind_Backtrace(function_take, NULL);
	memset(&a, 0, sizeof(a));
	a.sa_handler = on_signal;
	a.sa_flags = SA_NODEFER;
	sigaction(SIGSEGV, &a, NULL);
	sigaction(SIGBUS, &a, NULL);
	sigaction(SIGABRT, &a, NULL);
	on_terminate(terminated);
	exceptions_count = exceptions_make(exceptions);
	for (unsigned i = 0; i < functions_count; i++) {
		uint64_t from = functions[i].table.at & ~(uint64_t)4095, to = functions[i].table.at + functions[i].size;
		if (functions[i].size > 4096 || mprotect((void *)from, to - from, PROT_READ | PROT_WRITE))
			exit(2);
		/* Each call site as it is. */
		for (uint64_t ip = functions[i].table.start + 1; ip <= functions[i].table.start + functions[i].table.size; ip++)
			compare(&functions[i], ip, 0);
	}
	if (results[SITE_DAMAGED]) {
		printf("a table of the compiler is damaged\n");
		wrong++;
	}
	mutants(first, wanted);
	printf("%u functions: %lu none, %lu cleanup, %lu types, %lu types and cleanup, %lu ask, %lu damaged; %lu asked, %lu wrong\n",
	       functions_count, results[SITE_NONE], results[SITE_CLEANUP], results[SITE_TYPES], results[SITE_TYPES_CLEANUP],
	       results[SITE_ASK], results[SITE_DAMAGED], asked, wrong);
	fflush(stdout);
	_exit(wrong != 0);
}

static void run_in_c(void) { c_function(run); }

int main(int argc, char **argv)
{
	first = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	wanted = argc > 2 ? strtoul(argv[2], NULL, 0) : 1000;
	functions_enter(run_in_c);
}
