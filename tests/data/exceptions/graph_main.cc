// SPDX-License-Identifier: MIT
/*
 * graph_main.cc: runs the functions of graph.py: graph THROWS [LIBRARY...]
 *
 * Four threads run them with exceptions and with return codes, and compare; callee-saved registers have known values
 * over each run. Meanwhile the libraries, which are such programs too, are loaded, run and unloaded by another thread; a
 * signal arrives a thousand times a second, whose handler runs functions as well; and processes are forked that do the
 * same. Without libraries one thread runs alone. Prints the number of throws and of wrong results.
 */
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#include "graph.h"

static std::atomic<long> throws, wrong, signals, children, loads;
static std::atomic<bool> stop;

struct Result {
	uint64_t h;
	int code;
	uint64_t v;
};

static Result with_exceptions(Thrower *fn, State &s, int depth)
{
	Result r = {0, 0, 0};

	try {
		s.mix(fn(s, depth, 1, 2, 3, 4, 5, 6));
	} catch (Diamond &x) {
		r = {0, 6, x.v};
	} catch (Left &x) {
		r = {0, 2, x.v};
	} catch (Right &x) {
		r = {0, 3, x.v};
	} catch (Near &x) {
		r = {0, 4, x.v};
	} catch (Far &x) {
		r = {0, 5, x.v};
	} catch (Root &x) {
		r = {0, 1, x.v};
	} catch (Alone &x) {
		r = {0, 7, x.v};
	} catch (int x) {
		r = {0, 8, static_cast<uint64_t>(x)};
	}
	r.h = s.h;
	return r;
}

struct Run {
	Thrower *fn;
	State *s;
	int depth;
	Result result;
};

extern "C" void graph_run(Run *run) { run->result = with_exceptions(run->fn, *run->s, run->depth); }

/* graph_run() with known values in all callee-saved registers: 1 if they are the same after it. */
extern "C" int graph_registers(Run *run);
__asm__(".text\n.globl graph_registers\n.type graph_registers,@function\ngraph_registers:\n.cfi_startproc\n"
        "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbx,0\n"
        "push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbp,0\n"
        "push %r12\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r12,0\n"
        "push %r13\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r13,0\n"
        "push %r14\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r14,0\n"
        "push %r15\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r15,0\n"
        "push %rdi\n.cfi_adjust_cfa_offset 8\n"
        "lea 1(%rdi),%rbx\nlea 2(%rdi),%rbp\nlea 3(%rdi),%r12\nlea 4(%rdi),%r13\nlea 5(%rdi),%r14\nlea 6(%rdi),%r15\n"
        "call graph_run@PLT\n"
        "pop %rdi\n.cfi_adjust_cfa_offset -8\n"
        "xor %eax,%eax\nlea 1(%rdi),%rcx\ncmp %rcx,%rbx\njne 1f\ninc %rcx\ncmp %rcx,%rbp\njne 1f\ninc %rcx\ncmp %rcx,%r12\njne 1f\n"
        "inc %rcx\ncmp %rcx,%r13\njne 1f\ninc %rcx\ncmp %rcx,%r14\njne 1f\ninc %rcx\ncmp %rcx,%r15\njne 1f\ninc %eax\n"
        "1: pop %r15\n.cfi_adjust_cfa_offset -8\n.cfi_restore r15\npop %r14\n.cfi_adjust_cfa_offset -8\n.cfi_restore r14\n"
        "pop %r13\n.cfi_adjust_cfa_offset -8\n.cfi_restore r13\npop %r12\n.cfi_adjust_cfa_offset -8\n.cfi_restore r12\n"
        "pop %rbp\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbp\npop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbx\n"
        "ret\n.cfi_endproc\n.size graph_registers,.-graph_registers\n");

/* One run, both ways: false if they differ. */
static bool run_both(Thrower *const *thrower, Coder *const *coder, unsigned count, uint64_t seed, int calls, long *thrown)
{
	State a = {seed, seed * 2 + 1, calls, 0}, b = a;
	unsigned which = a.next() % count;
	int depth = 4 + static_cast<int>(a.next() % 30), code = 0;
	uint64_t value = 0, r;
	Run run;

	b.next();
	b.next();
	run.fn = thrower[which];
	run.s = &a;
	run.depth = depth;
	bool kept = graph_registers(&run) == 1;
	r = coder[which](b, depth, &code, &value, 1, 2, 3, 4, 5, 6);
	if (!code)
		b.mix(r);
	*thrown += a.throws;
	return kept && run.result.h == b.h && run.result.code == code && (!code || run.result.v == value) && a.calls == b.calls;
}

static void judge(bool good, const char *where, uint64_t seed)
{
	if (!good && wrong++ < 10)
		fprintf(stderr, "wrong: %s, seed %llu\n", where, static_cast<unsigned long long>(seed));
}

/* Signals arrive in these threads only. */
static void alarms(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(how, &set, nullptr);
}

static void run_thread(uint64_t seed, long wanted)
{
	long n = 0;

	alarms(SIG_UNBLOCK);

	while (n < wanted && !stop) {
		seed = seed * 6364136223846793005u + 1;
		judge(run_both(graph_throws, graph_codes, graph_count, seed, 40, &n), "thread", seed);
	}
	throws += n;
}

/* Where code may hold a lock that a throw takes: malloc's, the dynamic linker's. */
static struct {
	unsigned long from, to;
} locked[8];
static unsigned locked_count;

static int locked_add(struct dl_phdr_info *info, size_t, void *)
{
	if (!strstr(info->dlpi_name, "/libc.so") && !strstr(info->dlpi_name, "/ld-linux") && *info->dlpi_name)
		return 0;
	for (int i = 0; i < info->dlpi_phnum && *info->dlpi_name && locked_count < 8; i++) {
		const ElfW(Phdr) &p = info->dlpi_phdr[i];
		if (p.p_type == PT_LOAD && (p.p_flags & PF_X))
			locked[locked_count++] = {info->dlpi_addr + p.p_vaddr, info->dlpi_addr + p.p_vaddr + p.p_memsz};
	}
	return 0;
}

static void on_alarm(int, siginfo_t *, void *context)
{
	static std::atomic<uint64_t> next;
	auto ip = static_cast<unsigned long>(static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);

	for (unsigned i = 0; i < locked_count; i++)
		if (ip - locked[i].from < locked[i].to - locked[i].from)
			return;
	uint64_t seed = ++next * 0x9e3779b97f4a7c15u;
	long n = 0;

	signals++;
	judge(run_both(graph_throws, graph_codes, graph_count, seed, 6, &n), "signal handler", seed);
	throws += n;
}

static void load_thread(int argc, char **argv)
{
	uint64_t seed = 99;
	long n = 0;

	for (int i = 0; !stop; i++) {
		void *h = dlopen(argv[2 + i % (argc - 2)], RTLD_NOW | RTLD_LOCAL);
		auto thrower = h ? static_cast<Thrower *const *>(dlsym(h, "graph_throws")) : nullptr;

		if (!thrower) {
			fprintf(stderr, "%s\n", dlerror());
			exit(2);
		}
		auto coder = static_cast<Coder *const *>(dlsym(h, "graph_codes"));
		auto count = *static_cast<const unsigned *>(dlsym(h, "graph_count"));
		for (int k = 0; k < 20; k++) {
			seed = seed * 6364136223846793005u + 1;
			judge(run_both(thrower, coder, count, seed, 40, &n), "loaded library", seed);
		}
		dlclose(h);
		loads++;
	}
	throws += n;
}

static void fork_thread()
{
	for (uint64_t seed = 5; !stop; seed++) {
		pid_t pid = fork();
		int status;
		long n = 0;

		if (!pid) {
			for (uint64_t k = 0; k < 20; k++)
				judge(run_both(graph_throws, graph_codes, graph_count, seed * 1000 + k, 40, &n), "child", seed);
			_exit(wrong != 0);
		}
		while (waitpid(pid, &status, 0) < 0)
			;
		if (status)
			wrong++;
		children++;
		usleep(20000);
	}
}

int main(int argc, char **argv)
{
	long wanted = argc > 1 ? atol(argv[1]) : 10000;
	unsigned count = argc > 2 ? 4 : 1;
	std::vector<std::thread> threads, others;
	struct itimerval every = {{0, 1000}, {0, 1000}};

	alarms(SIG_BLOCK);
	if (argc > 2) {
		struct sigaction a;
		memset(&a, 0, sizeof(a));
		a.sa_sigaction = on_alarm;
		a.sa_flags = SA_RESTART | SA_SIGINFO;
		dl_iterate_phdr(locked_add, nullptr);
		sigaction(SIGALRM, &a, nullptr);
		setitimer(ITIMER_REAL, &every, nullptr);
		others.emplace_back(load_thread, argc, argv);
		others.emplace_back(fork_thread);
	}
	for (unsigned i = 0; i < count; i++)
		threads.emplace_back(run_thread, i + 1, wanted / count);
	for (auto &t : threads)
		t.join();
	stop = true;
	for (auto &t : others)
		t.join();
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_REAL, &every, nullptr);
	printf("%ld throws, %ld wrong, %ld loads, %ld children, %ld signals\n", throws.load(), wrong.load(), loads.load(),
	       children.load(), signals.load());
	return wrong != 0;
}
