// SPDX-License-Identifier: MIT
/*
 * zoo.cc: what a program can do with exceptions. Each case prints a line that says what happened; the test compares
 * them with those of a run in which libgcc raises the exceptions. Names of cases as arguments run these alone.
 *
 * Callee-saved registers are judged by the program itself: registers_kept() has known values in all of them over a call
 * that throws and catches.
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <condition_variable>
#include <dlfcn.h>
#include <exception>
#include <execinfo.h>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <typeinfo>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>
#include <vector>

#define NOINLINE __attribute__((noinline))

void bad_regex(const char *pattern);    // regex.cc

static volatile int sink;
static std::string trace;

struct Noted {
	int n;
	explicit Noted(int i) : n(i) {}
	~Noted() { trace += char('a' + n % 26); }
};

struct Base {
	virtual ~Base() {}
	int b = 1;
};
struct Left : virtual Base {
	int l = 2;
};
struct Right : virtual Base {
	int r = 3;
};
struct Both : Left, Right {
	int z = 4;
};
struct Second : Noted, Base {
	Second() : Noted(25) {}
	Second(const Second &) : Noted(25), Base() {}
};

NOINLINE static int plain(int n)
{
	if (!n)
		throw std::runtime_error("plain");
	int r = plain(n - 1) + 1;
	sink = r;
	return r;
}

NOINLINE static int noted(int n)
{
	Noted d(n);
	if (!n)
		throw 7;
	int r = noted(n - 1) + 1;
	sink = r;
	return r;
}

NOINLINE static int not_for(int n)
{
	try {
		if (!n)
			throw Both();
		int r = not_for(n - 1) + 1;
		sink = r;
		return r;
	} catch (const std::exception &) {
		return -1;
	} catch (int) {
		return -2;
	} catch (Noted *) {
		return -3;
	}
}

NOINLINE static int mixed(int n)
{
	Noted d(n);
	try {
		if (!n)
			throw std::out_of_range("mixed");
		if (n % 3 == 0)
			return mixed(n - 1) + 1;
	} catch (const std::bad_alloc &) {
		return -1;
	}
	int r = mixed(n - 1) + 1;
	sink = r;
	return r;
}

template <class F> static std::string caught(F f)
{
	trace.clear();
	try {
		f();
		return "nothing";
	} catch (Both &b) {
		return "Both " + std::to_string(b.b + b.l + b.r + b.z) + trace;
	} catch (Base &b) {
		return "Base " + std::to_string(b.b) + trace;
	} catch (std::exception &e) {
		return std::string(typeid(e).name()) + " " + e.what() + " " + trace;
	} catch (int i) {
		return "int " + std::to_string(i) + " " + trace;
	} catch (const char *s) {
		return std::string("text ") + (s ? s : "null") + " " + trace;
	} catch (Base *p) {
		return std::string("pointer ") + (p ? "set" : "null") + trace;
	} catch (...) {
		return "something " + trace;
	}
}

static void say(const char *name, const std::string &what)
{
	printf("%s: %s\n", name, what.c_str());
	fflush(stdout);
}

/* ---- the same under other frames ----------------------------------------------------------------- */

static void depths()
{
	for (int n : {0, 1, 5, 20, 100, 1000}) {
		say("plain", caught([=] { plain(n); }));
		say("noted", caught([=] { noted(n % 200); }));
		say("not for", caught([=] { not_for(n); }));
		say("mixed", caught([=] { mixed(n); }));
	}
}

static void types()
{
	for (int i = 0; i < 3; i++) { /* what does not match is remembered */
		say("both", caught([] { throw Both(); }));
		say("second base", caught([] { throw Second(); }));
		say("left", caught([] { throw Left(); }));
		say("text", caught([] { throw "hello"; }));
		say("null pointer", caught([] { throw static_cast<Both *>(nullptr); }));
		say("pointer", caught([] { Both b; throw &b; }));
		say("nullptr", caught([] { throw nullptr; }));
		say("long", caught([] { throw 1L; }));
		say("function", caught([] { throw &types; }));
		say("error", caught([] { not_for(3); }));
		say("bad_alloc", caught([] { throw std::bad_alloc(); }));
		say("bad_cast", caught([] { Base b; (void)dynamic_cast<Both &>(b); }));
		say("length", caught([] { std::vector<int>().reserve(static_cast<size_t>(-1)); }));
	}
}

static void library()
{
	say("at", caught([] { std::vector<int> v(3); sink = v.at(4); }));
	say("map", caught([] { std::map<int, int> m; sink = m.at(4); }));
	say("stoi", caught([] { sink = std::stoi("x"); }));
	say("regex", caught([] { bad_regex("(["); }));
	say("function", caught([] { std::function<void()> f; f(); }));
	say("filesystem", caught([] { sink = static_cast<int>(std::filesystem::file_size("/nonexistent")); }));
	say("future", caught([] { std::async(std::launch::async, [] { plain(9); }).get(); }));
#ifndef NO_CALL_ONCE
	say("call_once", caught([] {
		std::once_flag once;
		try {
			std::call_once(once, [] { noted(2); });
		} catch (int) {
			std::call_once(once, [] { noted(3); });
		}
	}));
#endif
	int list[20];
	for (int i = 0; i < 20; i++)
		list[i] = i * 7 % 20;
	say("qsort", caught([&] {
		qsort(list, 20, sizeof(int), [](const void *a, const void *b) -> int {
			if (*static_cast<const int *>(a) == 14)
				throw std::logic_error("compare");
			return *static_cast<const int *>(a) - *static_cast<const int *>(b);
		});
	}));
}

/* ---- frames of unusual form ---------------------------------------------------------------------- */

NOINLINE static int use(void *p, size_t n)
{
	memset(p, 1, n);
	sink = static_cast<char *>(p)[n / 2];
	return sink;
}

NOINLINE static int variable(int n)
{
	Noted d(n);
	char *p = static_cast<char *>(__builtin_alloca(static_cast<size_t>(n) * 37 + 1));
	use(p, static_cast<size_t>(n) + 1);
	if (!n)
		throw 3;
	int r = variable(n - 1) + p[0];
	use(p, 1);
	return r;
}

NOINLINE static int aligned(int n)
{
	alignas(128) char buffer[256];
	Noted d(n);
	use(buffer, sizeof(buffer));
	if (reinterpret_cast<uintptr_t>(buffer) & 127)
		abort();
	if (!n)
		throw 4;
	try {
		return aligned(n - 1) + buffer[3];
	} catch (long) {
		return use(buffer, 5);
	}
}

NOINLINE static int aligned_variable(int n)
{
	alignas(64) char buffer[64];
	char *p = static_cast<char *>(__builtin_alloca(static_cast<size_t>(n) * 13 + 1));
	Noted d(n);
	use(buffer, sizeof(buffer));
	use(p, 1);
	if (!n)
		throw 5;
	return aligned_variable(n - 1) + buffer[3] + p[0];
}

NOINLINE static int large(int n)
{
	char buffer[70000];
	Noted d(n);
	use(buffer, sizeof(buffer));
	if (!n)
		throw 6;
	return large(n - 1) + buffer[69999];
}

NOINLINE static int many(int a, int b, int c, int d, int e, int f, long g, long h, long i, long j, long k)
{
	Noted x(a);
	if (!a)
		throw static_cast<int>(b + c + d + e + f + g + h + i + j + k);
	try {
		return many(a - 1, c, d, e, f, b, h, i, j, k, g) + many(a - 1, c, d, e, f, b, h, i, j, k, g + 1);
	} catch (long) {
		return 0;
	}
}

static void frames()
{
	say("alloca", caught([] { variable(12); }));
	say("aligned", caught([] { aligned(6); }));
	say("aligned alloca", caught([] { aligned_variable(6); }));
	say("large", caught([] { large(4); }));
	say("arguments", caught([] { many(5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10); }));
}

/* 1: all callee-saved registers hold over the call what they held before it. */
extern "C" int registers_kept(void (*fn)(void));
__asm__(".text\n"
        ".globl registers_kept\n.type registers_kept,@function\nregisters_kept:\n.cfi_startproc\n"
        "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbx,0\n"
        "push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbp,0\n"
        "push %r12\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r12,0\n"
        "push %r13\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r13,0\n"
        "push %r14\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r14,0\n"
        "push %r15\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r15,0\n"
        "sub $8,%rsp\n.cfi_adjust_cfa_offset 8\n"
        "mov $0x1b1b,%ebx\nmov $0x2b2b,%ebp\nmov $0x1212,%r12d\nmov $0x1313,%r13d\nmov $0x1414,%r14d\nmov $0x1515,%r15d\n"
        "call *%rdi\n"
        "xor %eax,%eax\n"
        "cmp $0x1b1b,%rbx\njne 1f\ncmp $0x2b2b,%rbp\njne 1f\ncmp $0x1212,%r12\njne 1f\n"
        "cmp $0x1313,%r13\njne 1f\ncmp $0x1414,%r14\njne 1f\ncmp $0x1515,%r15\njne 1f\ninc %eax\n"
        "1: add $8,%rsp\n.cfi_adjust_cfa_offset -8\n"
        "pop %r15\n.cfi_adjust_cfa_offset -8\n.cfi_restore r15\npop %r14\n.cfi_adjust_cfa_offset -8\n.cfi_restore r14\n"
        "pop %r13\n.cfi_adjust_cfa_offset -8\n.cfi_restore r13\npop %r12\n.cfi_adjust_cfa_offset -8\n.cfi_restore r12\n"
        "pop %rbp\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbp\npop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbx\n"
        "ret\n.cfi_endproc\n.size registers_kept,.-registers_kept\n");

static void (*thrower)();

/* Throws through frames that save and use all registers, and catches it. */
NOINLINE static void catcher()
{
	try {
		thrower();
	} catch (...) {
	}
}

static void registers()
{
	static void (*const throwers[])() = {
		[] { plain(20); },  [] { noted(20); },  [] { not_for(20); }, [] { mixed(20); }, [] { variable(5); },
		[] { aligned(5); }, [] { aligned_variable(5); }, [] { many(4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10); },
		[] { bad_regex("["); }, [] { sink = std::stoi(""); },
	};

	for (auto t : throwers) {
		thrower = t;
		say("registers", registers_kept(catcher) ? "kept" : "LOST");
	}
}

/* ---- order -------------------------------------------------------------------------------------- */

struct Nested {
	int n;
	~Nested()
	{
		if (!n)
			return;
		try {
			if (n & 1)
				noted(n);
			Nested inner{n / 2};
			throw n;
		} catch (int i) {
			trace += std::to_string(i) + "/" + std::to_string(std::uncaught_exceptions()) + " ";
		}
	}
};

NOINLINE static void nested(int n)
{
	Nested d{n};
	if (!n)
		throw std::domain_error("nested");
	nested(n - 1);
}

struct Member {
	Noted a;
	Noted b;
	Member(int n) try : a(n), b((noted(n), n)) {
	} catch (int i) {
		trace += "<" + std::to_string(i) + ">";
		throw std::string("replaced").size();
	}
};

NOINLINE static void block(int n) try {
	Noted d(n);
	noted(n);
} catch (int i) {
	trace += "!";
	throw std::range_error("block");
}

NOINLINE static void again(int n)
{
	try {
		Noted d(n);
		if (!n)
			throw Both();
		again(n - 1);
	} catch (Left &l) {
		l.l += 10;
		trace += "-";
		throw;
	}
}

NOINLINE static void active(int n)
{
	try {
		noted(n);
	} catch (...) {
		try {
			Noted d(n);
			plain(n);
		} catch (std::exception &e) {
			trace += e.what();
			try {
				throw Both();
			} catch (Base &) {
				trace += "base";
			}
			trace += std::to_string(std::uncaught_exceptions());
		}
		throw;
	}
}

static void order()
{
	say("nested", caught([] { nested(9); }));
	say("constructor", caught([] { Member m(4); }));
	say("block", caught([] { block(4); }));
	say("again", caught([] { again(9); }));
	say("active", caught([] { active(5); }));
	std::exception_ptr p;
	trace.clear();
	try {
		noted(6);
	} catch (...) {
		p = std::current_exception();
	}
	for (int i = 0; i < 3; i++)
		say("pointer", caught([&] { Noted d(i); std::rethrow_exception(p); }));
	std::string from;
	std::thread([&] { from = caught([&] { Noted d(1); std::rethrow_exception(p); }); }).join();
	say("other thread", from);
	say("nested_exception", caught([] {
		try {
			try {
				plain(2);
			} catch (...) {
				std::throw_with_nested(std::logic_error("outer"));
			}
		} catch (std::exception &e) {
			trace += e.what();
			std::rethrow_if_nested(e);
		}
	}));
}

/* ---- ends of programs ----------------------------------------------------------------------------- */


/* The stack that a handler of std::terminate() finds. */
static bool has_frame(void *from, void *to)
{
	void *ips[256];
	int n = backtrace(ips, 256);

	for (int i = 0; i < n; i++)
		if (ips[i] > from && ips[i] < to)
			return true;
	return false;
}

NOINLINE static void thrown_from(int n)
{
	if (n)
		thrown_from(n - 1);
	else
		throw std::logic_error("uncaught");
	sink = n;
}

static void on_terminate()
{
	const char *type = "none";

	try {
		if (std::current_exception())
			throw;
	} catch (std::exception &e) {
		type = e.what();
	} catch (int) {
		type = "int";
	} catch (...) {
		type = "other";
	}
	printf("terminate: %s, stack %s\n", type,
	       has_frame(reinterpret_cast<void *>(&thrown_from), reinterpret_cast<char *>(&thrown_from) + 200) ? "kept" : "gone");
	fflush(stdout);
	_exit(0);
}

template <class F> static void in_child(const char *name, F f)
{
	fflush(stdout);
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		std::set_terminate(on_terminate);
		f();
		printf("came back\n");
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	say(name, "status " + std::to_string(status));
}

NOINLINE static void no_throw() noexcept { thrown_from(5); }

struct Throws {
	int n;
	~Throws() noexcept(false)
	{
		if (n)
			throw 8;
	}
};

static void ends()
{
	in_child("noexcept", [] { try { no_throw(); } catch (...) { say("noexcept", "caught"); } });
	in_child("thread", [] { std::thread([] { thrown_from(5); }).join(); });
	in_child("uncaught", [] { [] () noexcept { Noted d(1); thrown_from(9); }(); });
	in_child("while unwinding", [] { try { Throws t{1}; thrown_from(3); } catch (...) { say("unwinding", "caught"); } });
	in_child("destructor", [] { say("destructor", caught([] { Throws t{1}; })); });
	in_child("nothing to rethrow", [] { throw; });
	in_child("child", [] { say("child", caught([] { mixed(20); })); });
	in_child("exit", [] { try { plain(3); } catch (...) { exit(0); } });
	in_child("_exit in a destructor", [] {
		struct Leaves {
			~Leaves() { _exit(3); }
		} l;
		plain(4);
	});
}

/* ---- forced unwinding ------------------------------------------------------------------------------ */

static void cleanup(void *arg) { *static_cast<std::string *>(arg) += "c"; }

static void *wait_for_cancel(void *arg)
{
	auto *s = static_cast<std::string *>(arg);
	struct Adds {
		std::string *s;
		~Adds() { *s += "d"; }
	} adds{s};

	pthread_cleanup_push(cleanup, s);
	try {
		for (;;)
			pause();
	} catch (std::exception &) {
		*s += "no";
	} catch (...) {
		*s += "a";
		throw;
	}
	pthread_cleanup_pop(0);
	return nullptr;
}

static void *leave(void *arg)
{
	auto *s = static_cast<std::string *>(arg);
	struct Adds {
		std::string *s;
		~Adds()
		{
			try {
				mixed(5);
			} catch (std::exception &) {
				*s += "e";
			}
		}
	} adds{s};

	pthread_exit(arg);
}

static _Unwind_Reason_Code stop(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception *, _Unwind_Context *, void *)
{
	return _URC_NO_REASON;
}

static void forced()
{
	std::string s;
	pthread_t t;

	pthread_create(&t, nullptr, wait_for_cancel, &s);
	usleep(20000);
	pthread_cancel(t);
	pthread_join(t, nullptr);
	say("cancelled", s);
	s.clear();
	pthread_create(&t, nullptr, leave, &s);
	pthread_join(t, nullptr);
	say("pthread_exit", s);
	in_child("forced", [] {
		static _Unwind_Exception e;
		Noted d(3);
		e.exception_class = 0x1234;
		try {
			_Unwind_ForcedUnwind(&e, stop, nullptr);
		} catch (...) {
			say("forced", "caught " + trace);
			throw;
		}
	});
}

/* ---- exceptions of other languages ------------------------------------------------------------------- */

static void foreign_gone(_Unwind_Reason_Code, _Unwind_Exception *) { trace += "deleted"; }

NOINLINE static void raise_foreign()
{
	static _Unwind_Exception e;

	memset(&e, 0, sizeof(e));
	e.exception_class = 0x464f524549474e00;
	e.exception_cleanup = foreign_gone;
	trace += "code " + std::to_string(_Unwind_RaiseException(&e));
}

NOINLINE static void foreign_through(int n)
{
	Noted d(n);
	try {
		if (n)
			foreign_through(n - 1);
		else
			raise_foreign();
	} catch (std::exception &) {
		trace += "no";
	}
}

extern "C" void c_note(void *out, int n) { *static_cast<std::string *>(out) += char('0' + n); }
extern "C" void c_frames(void (*fn)(int), int n, void *out);

static void foreign()
{
	for (int i = 0; i < 2; i++)
		say("foreign", caught([] { foreign_through(5); }));
	say("foreign again", caught([] {
		try {
			foreign_through(2);
		} catch (...) {
			trace += ".";
			throw;
		}
	}));
	in_child("foreign uncaught", [] { []() noexcept { raise_foreign(); }(); });
	say("C", caught([] { c_frames([](int n) { noted(n); }, 6, &trace); }));
}

/* ---- signals, stacks ---------------------------------------------------------------------------------- */

/* Declared not to throw. */
static int (*volatile raise_it)(int) = raise;

static void throw_it(int) { throw std::overflow_error("signal"); }

static volatile int *volatile nowhere = reinterpret_cast<volatile int *>(8);

[[maybe_unused]] NOINLINE static void fault()
{
	Noted d(2);
	sink = *nowhere;
}

static void signals()
{
	struct sigaction a;
	stack_t stack;

	memset(&a, 0, sizeof(a));
	a.sa_handler = throw_it;
	a.sa_flags = SA_NODEFER;
	sigaction(SIGUSR1, &a, nullptr);
	sigaction(SIGSEGV, &a, nullptr);
	for (int i = 0; i < 3; i++) {
		say("raise", caught([] { Noted d(1); raise_it(SIGUSR1); }));
#ifndef __clang__ /* it has no -fnon-call-exceptions */
		say("fault", caught([] { fault(); }));
#endif
	}
	static char space[1 << 16];
	memset(&stack, 0, sizeof(stack));
	stack.ss_sp = space;
	stack.ss_size = sizeof(space);
	sigaltstack(&stack, nullptr);
	a.sa_flags = SA_NODEFER | SA_ONSTACK;
	sigaction(SIGUSR2, &a, nullptr);
	say("alternate stack", caught([] { Noted d(4); raise_it(SIGUSR2); }));
	a.sa_handler = [](int) { trace += caught([] { mixed(9); }); };
	sigaction(SIGUSR2, &a, nullptr);
	say("inside a handler", caught([] {
		struct Raises {
			~Raises() { raise(SIGUSR2); }
		} r;
		noted(3);
	}));
}

/* A stack for signals of the size that is usual, with nothing below: alone, records are made on it. */
static void small()
{
	auto *space = static_cast<char *>(mmap(nullptr, 4096 + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	struct sigaction a;
	stack_t stack;

	memset(&a, 0, sizeof(a));
	memset(&stack, 0, sizeof(stack));
	mprotect(space + 4096, 8192, PROT_READ | PROT_WRITE);
	stack.ss_sp = space + 4096;
	stack.ss_size = 8192;
	sigaltstack(&stack, nullptr);
	a.sa_handler = [](int) {
		try {
			noted(3);
		} catch (int i) {
			sink = i;
		}
	};
	a.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &a, nullptr);
	trace.clear();
	trace.reserve(64);
	raise_it(SIGUSR2);
	say("small stack", trace + std::to_string(sink));
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, nullptr);
}

static ucontext_t back, fibre;

static void in_fibre()
{
	for (int i = 0; i < 3; i++) {
		try {
			Noted d(i);
			mixed(7);
		} catch (std::exception &e) {
			swapcontext(&fibre, &back);
		}
	}
}

static void fibres()
{
	static char space[1 << 17];

	getcontext(&fibre);
	fibre.uc_stack.ss_sp = space;
	fibre.uc_stack.ss_size = sizeof(space);
	fibre.uc_link = &back;
	makecontext(&fibre, in_fibre, 0);
	for (int i = 0; i < 3; i++)
		say("fibre", caught([] { swapcontext(&back, &fibre); plain(3); }));
}

static jmp_buf jump;

static void jumps()
{
	volatile int n = 0;

	if (setjmp(jump) < 3) {
		try {
			plain(5);
		} catch (std::exception &) {
			n = n + 1;
			longjmp(jump, n);
		}
	}
	say("longjmp", std::to_string(n) + caught([] { mixed(4); }));
}

/* ---- code that comes and goes --------------------------------------------------------------------------- */

static void reload(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		void *h = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		auto fn = h ? reinterpret_cast<int (*)(int, int (*)(int))>(dlsym(h, "plugin")) : nullptr;

		if (!fn) {
			say("plugin", dlerror());
			continue;
		}
		say("plugin", caught([=] { say("returned", std::to_string(fn(4, plain))); }));
		say("plugin", caught([=] { say("returned", std::to_string(fn(3, noted))); }));
		dlclose(h);
	}
}

/* A function that a JIT makes: it pushes rbx, calls its argument and returns; with .eh_frame. */
extern "C" void __register_frame(void *);
extern "C" void __deregister_frame(void *);

[[maybe_unused]] static void jit()
{
	static const unsigned char code[] = {0x53, 0xff, 0xd7, 0x5b, 0xc3};
	auto *p = static_cast<unsigned char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	unsigned char *f = p + 4096;
	auto put = [&](unsigned v, unsigned size) {
		memcpy(f, &v, size);
		f += size;
	};

	memcpy(p, code, sizeof(code));
	for (int b : {20, 0, 0, 0, 0, 0, 0, 0, 1, int{'z'}, int{'R'}, 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0})
		put(static_cast<unsigned>(b), 1);
	put(20, 4);
	put(28, 4);
	put(static_cast<unsigned>(p - f), 4);
	put(sizeof(code), 4);
	for (int b : {0, 0x41, 0x0e, 16, 0x83, 2, 0, 0})
		put(static_cast<unsigned>(b), 1);
	put(0, 4);
	__register_frame(p + 4096);
	auto fn = reinterpret_cast<void (*)(void (*)())>(p);
	for (int i = 0; i < 3; i++)
		say("jit", caught([=] { Noted d(1); fn([] { noted(4); }); }));
	__deregister_frame(p + 4096);
	munmap(p, 8192);
}

/* ---- threads ---------------------------------------------------------------------------------------------- */

static void threads()
{
	std::vector<std::future<long>> all;
	long sum = 0;

	for (int t = 0; t < 4; t++)
		all.push_back(std::async(std::launch::async, [t] {
			long n = 0;
			for (int i = 0; i < 300; i++) {
				try {
					i % 2 ? plain(i % 30) : not_for(i % 20);
				} catch (std::exception &) {
					n += 1;
				} catch (Base &b) {
					n += 10 * b.b + t;
				}
			}
			return n;
		}));
	for (auto &f : all)
		sum += f.get();
	say("threads", std::to_string(sum));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} cases[] = {
		{"depths", depths}, {"types", types},   {"library", library}, {"frames", frames},   {"registers", registers},
		{"order", order},   {"ends", ends},     {"forced", forced},   {"foreign", foreign}, {"signals", signals},
		{"small", small},   {"fibres", fibres}, {"jumps", jumps},   {"threads", threads},
#ifndef NO_JIT /* __register_frame() of the libgcc that raises the exceptions */
		{"jit", jit},
#endif
	};

	if (argc > 1 && strchr(argv[1], '/')) {
		reload(argc, argv);
		return 0;
	}
	for (auto &c : cases)
		if (argc < 2 ? c.run != small : !strcmp(argv[1], c.name))
			c.run();
	return 0;
}
