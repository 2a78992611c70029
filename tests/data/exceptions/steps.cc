// SPDX-License-Identifier: MIT
/*
 * steps.cc: walks the stack at every instruction that this library runs while exceptions are in flight, as a profiler
 * would that interrupts it there: the trap flag is set, and the handler of SIGTRAP walks from its context, by libgcc and
 * by libetch. Each walk has to find catcher() and main(). Prints how many instructions and walks there were, and how
 * many failed.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <stdexcept>
#include <ucontext.h>
#include <unwind.h>

#include <etch/unwind.h>

#define NOINLINE __attribute__((noinline))

static unsigned long from, to, steps, failed;
static volatile sig_atomic_t stop;
static volatile int sink;

int main();
NOINLINE int catcher(int n);

struct found {
	bool catcher, main;
	int frames;
};

static void meet(found &f, unsigned long ip)
{
	auto in = [=](auto *fn, unsigned long size) { return ip - reinterpret_cast<unsigned long>(fn) < size; };

	f.frames++;
	f.catcher |= in(&catcher, 400);
	f.main |= in(reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "main")), 400);
}

static _Unwind_Reason_Code frame(_Unwind_Context *c, void *arg)
{
	meet(*static_cast<found *>(arg), _Unwind_GetIP(c) - 1);
	return _URC_NO_REASON;
}

static void on_trap(int, siginfo_t *, void *context)
{
	auto *uc = static_cast<ucontext_t *>(context);
	unsigned long ip = static_cast<unsigned long>(uc->uc_mcontext.gregs[REG_RIP]);
	found a = {}, b = {};
	void *ips[128];
	int n, status;

	if (stop)
		uc->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
	if (ip < from || ip >= to)
		return;
	steps++;
	_Unwind_Backtrace(frame, &a);
	n = etch_backtrace_from(uc, ips, 128, &status);
	for (int i = 0; i < n; i++)
		meet(b, reinterpret_cast<unsigned long>(ips[i]) - (i != 0));
	if (!a.catcher || !a.main || !b.catcher || !b.main) {
		if (failed++ > 40)
			return;
		fprintf(stderr, "+%lx: libgcc %d %d of %d, libetch %d %d of %d, status %d\n", ip - from, a.catcher, a.main, a.frames,
		        b.catcher, b.main, b.frames, status);
	}
}

struct Noted {
	~Noted() { sink = sink + 1; }
};

NOINLINE int through(int n)
{
	Noted d;
	if (!n)
		throw std::runtime_error("x");
	int r = through(n - 1) + 1;
	sink = r;
	return r;
}

NOINLINE int arguments(int n, int a, int b, int c, int d, int e, long f, long g, long h)
{
	Noted x;
	if (!n)
		throw std::runtime_error("x");
	int r = arguments(n - 1, b, c, d, e, a, g, h, f) + static_cast<int>(g);
	sink = r;
	return r;
}

/* In one part, by whose addresses it is known. */
__attribute__((optimize("no-reorder-blocks-and-partition"))) NOINLINE int catcher(int n)
{
	int r = 0;

	try {
		__asm__ volatile("pushfq\n\torq $0x100,(%%rsp)\n\tpopfq" : : : "memory", "cc");
		if (n & 1)
			through(n);
		else
			arguments(n, 1, 2, 3, 4, 5, 6, 7, 8);
	} catch (std::exception &) {
		r = 1;
	}
	stop = 1;
	sink = r;
	stop = 0;
	return r;
}

int main()
{
	etch_unwind_prepare();
	void *fn = dlsym(RTLD_DEFAULT, "_Unwind_RaiseException");
	struct sigaction a;
	Dl_info info;
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	if (!fn || !dladdr(fn, &info) || !maps)
		return 2;
	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end;
		char x;
		if (sscanf(line, "%lx-%lx %*c%*c%c", &start, &end, &x) == 3 && x == 'x' &&
		    reinterpret_cast<unsigned long>(fn) - start < end - start) {
			from = start;
			to = end;
		}
	}
	fclose(maps);
	memset(&a, 0, sizeof(a));
	a.sa_sigaction = on_trap;
	a.sa_flags = SA_SIGINFO;
	sigaction(SIGTRAP, &a, nullptr);
	for (int i = 0; i < 3; i++)
		for (int n = 0; n < 4; n++)
			catcher(n);
	printf("%s: %lu steps, %lu failed\n", info.dli_fname, steps, failed);
	return failed != 0;
}
