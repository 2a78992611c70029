/* SPDX-License-Identifier: MIT */
/*
 * no_code.c: calls and jumps to addresses where no code is, and code that looks so; walks from the handler of the
 * fault.
 *
 * With -DINTERFACES the walks are those of glibc's, libgcc's and libunwind's names, and begin in the handler; else
 * libetch's own, which begin there and at the fault.
 */
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef INTERFACES
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <unwind.h>
#else
#include <etch/unwind.h>
#endif

#define NOINLINE __attribute__((noinline))
#define BARRIER  __asm__ __volatile__("" : : : "memory")
#define MOST     64
#define MAGIC    0x123456789abcu

#define fail(...)                              \
	do {                                       \
		printf("%s:%d: ", __func__, __LINE__); \
		printf(__VA_ARGS__);                   \
		putchar('\n');                         \
		fflush(stdout);                        \
		_exit(1);                              \
	} while (0)

#define FUNCTION(name, body)                                                            \
	__asm__(".text\n\t.type\t" #name ", @function\n" #name ":\t.cfi_startproc\n\t" body \
	        ".cfi_endproc\n\t.size\t" #name ", .-" #name "\n")

/* Ways to get there. Each sets rbx, which the walk must find. */
#define SAVE    "push\t%rbx\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset %rbx, -16\n\tmovabs\t$0x123456789abc, %rbx\n\t"
#define RESTORE "pop\t%rbx\n\t.cfi_def_cfa_offset 8\n\t.cfi_restore %rbx\n\tret\n\t"
FUNCTION(by_register, SAVE "call\t*%rdi\nby_register_return:\n\t" RESTORE);
FUNCTION(by_memory, SAVE "push\t%rdi\n\t.cfi_adjust_cfa_offset 8\n\tcall\t*(%rsp)\nby_memory_return:\n\tpop\t%rdi\n\t"
                         ".cfi_adjust_cfa_offset -8\n\t" RESTORE);
/* The callee of these two finds the return address of their caller. */
FUNCTION(by_jump, "jmp\t*%rdi\n\t");
FUNCTION(by_return, "push\t%rdi\n\t.cfi_adjust_cfa_offset 8\n\tret\n\t");
/* The word at rsp is no return address: after no call, or no code. */
FUNCTION(over_nop, SAVE
         "lea\t1f(%rip), %rax\n\tpush\t%rax\n\t.cfi_adjust_cfa_offset 8\n\tjmp\t*%rdi\n\tnop\n\tnop\n\tnop\n\tnop\n"
         "\tnop\n\tnop\n\tnop\n1:\tud2\n\t");
FUNCTION(over_number, SAVE "push\t$0x1234\n\t.cfi_adjust_cfa_offset 8\n\tjmp\t*%rdi\n\t");
FUNCTION(over_data, SAVE
         "lea\tfalse_call(%rip), %rax\n\tadd\t$2, %rax\n\tpush\t%rax\n\t.cfi_adjust_cfa_offset 8\n\tjmp\t*%rdi\n\t");
/* Called by a function whose CFA counts from rbx, which must be found from the fault on. */
FUNCTION(from_rbx,
         "push\t%rbx\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset %rbx, -16\n\tmov\t%rsp, %rbx\n\t"
         ".cfi_def_cfa_register %rbx\n\tsub\t$32, %rsp\n\tcall\tby_register\nfrom_rbx_return:\n\tmov\t%rbx, %rsp\n\t"
         ".cfi_def_cfa_register %rsp\n\tpop\t%rbx\n\t.cfi_def_cfa_offset 8\n\tret\n\t");
const unsigned char false_call[16] __attribute__((used)) = {0xff, 0xd0};

typedef void way(void *to);
#define WAY(name) extern way name __attribute__((visibility("hidden")))
WAY(by_register);
WAY(by_memory);
WAY(by_jump);
WAY(by_return);
WAY(over_nop);
WAY(over_number);
WAY(over_data);
WAY(from_rbx);
extern const char by_register_return[] __attribute__((visibility("hidden"))),
	by_memory_return[] __attribute__((visibility("hidden"))), from_rbx_return[] __attribute__((visibility("hidden")));

static const struct {
	const char *name;
	way *way;
	const void *first, *second; /* the return addresses that a walk finds; null: the caller's */
	int assumed;                /* else the walk ends at the fault */
} ways[] = {
	{"a call", by_register, by_register_return, NULL, 1},
	{"a call through memory", by_memory, by_memory_return, NULL, 1},
	{"a jump", by_jump, NULL, NULL, 1},
	{"a return", by_return, NULL, NULL, 1},
	{"a frame by rbx", from_rbx, by_register_return, from_rbx_return, 1},
	{"a jump, and no call before the word", over_nop, NULL, NULL, 0},
	{"a jump, and a number", over_number, NULL, NULL, 0},
	{"a jump, and data that looks like a call", over_data, NULL, NULL, 0},
};

static const void *caller; /* where the way returns to */
static int which, at_fault, tries, is_code;
static sigjmp_buf back;

static void judge(const char *what, void *target, void **ips, int n)
{
	int at = 0, found = 0;
	const void *expect[3];
	int count = 0;

	if (ways[which].first)
		expect[count++] = ways[which].first;
	if (ways[which].second)
		expect[count++] = ways[which].second;
	expect[count++] = caller;
	while (at < n && ips[at] != target)
		at++;
	if (at++ == n)
		fail("%s to %p, %s: no frame of the fault", ways[which].name, target, what);
	/* There rbp is followed, whatever a compiler keeps in it. */
	if (is_code && getenv("ETCH_UNWIND_FRAME_POINTERS")) {
		tries++;
		return;
	}
	for (found = 0; at + found < n && found < count && ips[at + found] == expect[found]; found++)
		;
	if (is_code || !ways[which].assumed ? at != n : found != count || n - at < count + 2) {
		for (int i = 0; i < n; i++)
			printf("\t%p\n", ips[i]);
		fail("%s to %p, %s: %d of %d callers, in %d frames", ways[which].name, target, what, found, count, n - at);
	}
	tries++;
}

#ifdef INTERFACES
struct trace {
	void *ips[MOST];
	int count;
};

static _Unwind_Reason_Code one(struct _Unwind_Context *context, void *arg)
{
	struct trace *t = arg;

	if (t->count < MOST)
		t->ips[t->count++] = (void *)_Unwind_GetIP(context);
	/* by_register() and by_memory() had it in rbx. */
	if (_Unwind_GetIP(context) == (uintptr_t)by_register_return && _Unwind_GetGR(context, 3) != MAGIC)
		fail("rbx is %lx", (long)_Unwind_GetGR(context, 3));
	return _URC_NO_REASON;
}

static void walk(void *target, void *context)
{
	struct trace t = {.count = 0};
	void *ips[MOST];
	unw_context_t here;
	unw_cursor_t c;
	unw_word_t ip, rbx;
	int n = backtrace(ips, MOST), from_fault;

	judge("backtrace", target, ips, n);
	_Unwind_Backtrace(one, &t);
	judge("_Unwind_Backtrace", target, t.ips, t.count);
	unw_getcontext(&here);
	for (from_fault = 0; from_fault < 2; from_fault++) {
		unw_init_local2(&c, from_fault ? context : &here, from_fault ? UNW_INIT_SIGNAL_FRAME : 0);
		n = 0;
		do {
			unw_get_reg(&c, UNW_REG_IP, &ip);
			ips[n++] = (void *)ip;
			if (ip == (uintptr_t)by_memory_return && (unw_get_reg(&c, UNW_X86_64_RBX, &rbx) || rbx != MAGIC))
				fail("rbx is %lx", (long)rbx);
		} while (n < MOST && unw_step(&c) > 0);
		judge("unw_step", target, ips, n);
	}
}
#else
static struct etch_target_module module;

/* The program's own memory, as if it were another's. */
static int target_read(void *arg, uint64_t at, uint64_t *word)
{
	struct iovec here = {word, 8}, there = {(void *)at, 8};

	(void)arg;
	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 8;
}

static int target_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	struct stat st;
	void *file;

	(void)size, (void)arg;
	fstat(fd, &st);
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	module.bias = info->dlpi_addr;
	module.start = UINT64_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD) {
			uint64_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

			module.start = at < module.start ? at : module.start;
			module.end = at + info->dlpi_phdr[i].p_memsz;
		}
	module.table = etch_table_in_file(file, (size_t)st.st_size, &module.size, &module.address);
	close(fd);
	return 1;
}

static void status_judge(const char *what, int status)
{
	int assumed = ways[which].assumed && !is_code;

	if (etch_unwind_assumed(status) != assumed ||
	    etch_unwind_reason(status) != (assumed ? ETCH_UNWIND_END : ETCH_UNWIND_NOTABLE) ||
	    strcmp(etch_unwind_strerror(status), etch_unwind_strerror(etch_unwind_reason(status))))
		fail("%s, %s: status %d", ways[which].name, what, status);
}

static void walk(void *target, void *context)
{
	static struct etch_walk state;
	struct etch_target other = {target_read, NULL, &module, 1};
	struct etch_cursor c;
	void *ips[MOST];
	uint64_t ip, rbx;
	const greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	int n, status, ret, handler, assumed = ways[which].assumed && !is_code;

	for (handler = 0; handler < 2; handler++) {
		n = etch_backtrace_from(handler ? NULL : context, ips, MOST, &status);
		judge("etch_backtrace_from", target, ips, n);
		status_judge("etch_backtrace_from", status);
		for (int i = 0; i < 3; i++) {
			n = etch_backtrace_reuse(&state, handler ? NULL : context, ips, MOST, &status);
			judge("etch_backtrace_reuse", target, ips, n);
			status_judge("etch_backtrace_reuse", status);
		}
		/* A trace that is cut off. */
		n = etch_backtrace_from(handler ? NULL : context, ips, n - 1, &status);
		if (assumed && (etch_unwind_reason(status) != ETCH_UNWIND_LIMIT || !etch_unwind_assumed(status)))
			fail("%d frames, status %d", n, status);
		etch_cursor_init(&c, handler ? NULL : context);
		n = 0;
		do {
			etch_get_reg(&c, ETCH_RIP, &ip);
			ips[n++] = (void *)ip;
			if (((void *)ip == by_register_return || (void *)ip == by_memory_return) &&
			    (etch_find_reg(&c, ETCH_RBX, &rbx) || rbx != MAGIC))
				fail("%s: rbx is %lx", ways[which].name, (long)rbx);
			ret = etch_step(&c);
		} while (!ret && n < MOST);
		judge("etch_step", target, ips, n);
		if (etch_assumed(&c) != assumed || ret != (assumed ? ETCH_UNWIND_END : ETCH_UNWIND_NOTABLE))
			fail("etch_step: %d, assumed %d", ret, etch_assumed(&c));
	}
	if (!module.table)
		return;
	/* Another process's frame 0 has registers alone: it is taken for a call only if nothing can be read there. */
	{
		uint64_t regs[17] = {g[REG_RAX], g[REG_RCX], g[REG_RDX], g[REG_RBX], g[REG_RSP], g[REG_RBP],
		                     g[REG_RSI], g[REG_RDI], g[REG_R8],  g[REG_R9],  g[REG_R10], g[REG_R11],
		                     g[REG_R12], g[REG_R13], g[REG_R14], g[REG_R15], g[REG_RIP]},
				 word;
		int readable = !target_read(NULL, regs[16] & ~(uint64_t)7, &word), steps = 0;

		etch_cursor_init_target(&c, &other, regs);
		while (!etch_step(&c))
			steps++;
		if (etch_assumed(&c) != (assumed && !readable) || (steps > 1) != (assumed && !readable))
			if (ways[which].way != from_rbx || !assumed)
				fail("%s to %p in another process: %d steps, assumed %d", ways[which].name, target, steps,
				     etch_assumed(&c));
	}
}
#endif

static void on_fault(int sig, siginfo_t *info, void *context)
{
	void *ip = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)info;
	at_fault = sig;
	walk(ip, context);
	siglongjmp(back, 1);
}

/* Notes where try_way()'s call returns to. */
FUNCTION(landing, "mov\t(%rsp), %rax\n\tmov\t%rax, landed(%rip)\n\tret\n\t");
WAY(landing);
const void *landed;

static NOINLINE void try_way(way *way, void *target)
{
	volatile char capacity[24];

	capacity[0] = 0;
	way(target);
	capacity[1] = capacity[0];
}

static void try_all(void *target)
{
	way *volatile first = landing; /* of a function that is known clang would make a copy of try_way() */

	try_way(first, target);
	caller = landed;
	for (which = 0; which < (int)(sizeof(ways) / sizeof(*ways)); which++) {
		at_fault = 0;
		if (!sigsetjmp(back, 1))
			try_way(ways[which].way, target);
		if (!at_fault)
			fail("%s to %p: no fault", ways[which].name, target);
	}
}

static void *page(int protection)
{
	void *p = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail("mmap");
	return p;
}

static void *past_the_end(void)
{
	int fd = memfd_create("short", 0);
	char *p;

	if (ftruncate(fd, 100))
		fail("ftruncate");
	p = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	return p == MAP_FAILED ? NULL : p + 4096;
}

/* A handler that is no code: the word at rsp is the address of the code that a handler returns to. */
static NOINLINE void handler_in_no_code(void)
{
	struct sigaction sa = {.sa_handler = (void (*)(int))0x1000};

	sigaction(SIGUSR2, &sa, NULL);
	raise(SIGUSR2);
	BARRIER;
}

static int handler_frames;

static void on_handler_fault(int sig, siginfo_t *info, void *context)
{
	void *ips[MOST];
	int n;

	(void)sig, (void)info, (void)context;
#ifdef INTERFACES
	n = backtrace(ips, MOST);
#else
	int status;

	n = etch_backtrace_from(context, ips, MOST, &status);
	if (status != ETCH_UNWIND_END + ETCH_UNWIND_ASSUMED)
		fail("%d frames, status %d", n, status);
#endif
	handler_frames = n;
	siglongjmp(back, 1);
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	stack_t alternate = {.ss_sp = malloc(262144), .ss_size = 262144};
	static char data[64];
	char local[64] = {0};
	char *code;

#ifndef INTERFACES
	etch_unwind_prepare();
	dl_iterate_phdr(target_module, NULL);
#endif
	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGILL, &sa, NULL);
	try_all(NULL);
	try_all((void *)1);
	try_all((void *)0x7ffff000);
	try_all(page(PROT_NONE));
	try_all(page(PROT_READ));
	try_all(page(PROT_READ | PROT_WRITE));
	try_all(malloc(100));
	try_all(data);
	try_all(local);
	try_all((void *)(uintptr_t)false_call); /* in a file, beside code */
	try_all(past_the_end());
	/* Code that nothing describes, at its entry and further on. */
	code = page(PROT_READ | PROT_WRITE | PROT_EXEC);
	memcpy(code, "\x0f\x0b\x90\x90\x50\x0f\x0b", 7);
	is_code = 1;
	try_all(code);
	is_code = 0;
	sa.sa_sigaction = on_handler_fault;
	sigaction(SIGSEGV, &sa, NULL);
	if (!sigsetjmp(back, 1))
		handler_in_no_code();
	if (handler_frames < 6)
		fail("%d frames of a handler that is no code", handler_frames);
	printf("%d tries\ndone\n", tries);
	return 0;
}
