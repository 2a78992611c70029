/* SPDX-License-Identifier: MIT */
/*
 * The same as step.c from inside the process, six times as fast: a library for
 * LD_PRELOAD that sets the trap flag before main and unwinds from each SIGTRAP.
 * Environment:
 *
 *   SHADOW_ROWS=DIR   rows: DIR/<path with _ for />.rows
 *   SHADOW_OUT=FILE   the report
 *   SHADOW_LIST=1     do not step; at exit list the files mapped as code
 *   SHADOW_STEPS=N    stop stepping after N instructions
 *   SHADOW_SKIP=N     watch N instructions before unwinding from each
 *
 * Built with -DSHADOW_ETCH it also unwinds with libetch from each SIGTRAP's
 * ucontext_t and compares that frame by frame: an async-signal-safety test too.
 *
 * What was on the stack before main is taken from libgcc's unwinder. Handlers of the
 * program itself run without the trap flag (the kernel clears it); step.c covers
 * them. Only the main thread steps; children and threads drop the flag.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "shadow_truth.h"

#define TF 0x100

static struct truth truth;
static uint64_t limit, skip;
static pid_t self, self_tid;
static char rows_dir[256], out_file[256];
static int (*program_main)(int, char **, char **);
static uint8_t handler_stack[1 << 18] __attribute__((aligned(64)));
static uint64_t map_gap_lo, map_gap_hi;
static volatile bool finished;

static long raw(long n, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = 0;
	long r;

	__asm__ volatile("syscall"
	                 : "=a"(r)
	                 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	                 : "rcx", "r11", "memory");
	return r;
}

/* The stack is there from rsp to its end; anything else is asked for. */
static uint64_t stack_top;

static bool word_read(void *ctx, uint64_t addr, uint64_t *out)
{
	const struct regs *r = ctx;
	struct iovec l = { out, 8 }, m = { (void *)addr, 8 };

	if (addr >= r->r[RSP] - 256 && addr + 8 <= stack_top && !(addr & 7)) {
		*out = *(const uint64_t *)addr;
		return true;
	}
	return raw(SYS_process_vm_readv, self, (long)&l, 1, (long)&m, 1) == 8;
}

static bool code_read(void *ctx, uint64_t addr, uint8_t out[16])
{
	const struct module *m = module_at(&truth, addr);

	(void)ctx;
	if (m && addr + 16 <= m->hi) {
		memcpy(out, (const void *)addr, 16);
		return true;
	}
	memset(out, 0, 16);
	struct iovec l = { out, 16 }, r = { (void *)addr, 16 };

	return raw(SYS_process_vm_readv, self, (long)&l, 1, (long)&r, 1) > 0;
}

static void *map_file(const char *path, size_t *size)
{
	struct stat st;
	long fd = raw(SYS_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	void *p;

	if (fd < 0)
		return NULL;
	if (raw(SYS_fstat, fd, (long)&st, 0, 0, 0) || !st.st_size)
		return NULL;
	/* mmap has six arguments; glibc's is a plain system call */
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, (int)fd, 0);
	raw(SYS_close, fd, 0, 0, 0, 0);
	*size = (size_t)st.st_size;
	return p == MAP_FAILED ? NULL : p;
}

static uint64_t hex(const char **s)
{
	uint64_t v = 0;

	for (;; (*s)++) {
		char c = **s;

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint64_t)(c - 'a' + 10);
		else
			return v;
	}
}

static uint64_t file_bias(const uint8_t *f, uint64_t start, uint64_t offset)
{
	const Elf64_Ehdr *e = (const void *)f;

	for (int i = 0; i < e->e_phnum; i++) {
		const Elf64_Phdr *p = (const void *)(f + e->e_phoff + (size_t)i * sizeof *p);

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && offset == (p->p_offset & ~4095ul))
			return start - (p->p_vaddr & ~4095ul);
	}
	return start - offset;
}

static void module_add(uint64_t lo, uint64_t hi, uint64_t offset, const char *path)
{
	struct module *m = &truth.modules[truth.module_count];
	char name[600];
	size_t size, n = 0;
	uint8_t *file;

	if (truth.module_count == MAX_MODULE)
		return;
	*m = (struct module){ .lo = lo, .hi = hi };
	memcpy(m->name, path, strlen(path) < sizeof m->name ? strlen(path) + 1 : sizeof m->name - 1);
	if (path[0] == '[') {
		if (!strcmp(path, "[vsyscall]"))
			return;
		m->bias = lo;
		path = "vdso.so";
	} else {
		file = map_file(path, &size);
		if (!file)
			return;
		m->bias = file_bias(file, lo, offset);
		munmap(file, size);
	}
	for (const char *c = rows_dir; *c; c++)
		name[n++] = *c;
	name[n++] = '/';
	for (const char *c = path; *c && n < 590; c++)
		name[n++] = *c == '/' ? '_' : *c;
	memcpy(name + n, ".rows", 6);
	m->rows = map_file(name, &size);
	if (!m->rows)
		return;
	m->count = size / sizeof *m->rows;
	truth.module_count++;
}

/* Reads /proc/self/maps without stdio: this runs in the handler. */
static void module_unknown(void *ctx, uint64_t addr)
{
	static char text[1 << 17];
	long fd, n, size = 0;

	(void)ctx;
	if (addr >= map_gap_lo && addr < map_gap_hi)
		return;
	fd = raw(SYS_open, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return;
	while ((n = raw(SYS_read, fd, (long)text + size, (long)sizeof text - size - 1, 0, 0)) > 0)
		size += n;
	raw(SYS_close, fd, 0, 0, 0, 0);
	text[size] = 0;
	for (const char *s = text; *s;) {
		uint64_t lo = hex(&s), hi, offset;
		bool x;
		char path[512];
		size_t k = 0;

		s++;
		hi = hex(&s);
		x = s[3] == 'x';
		s += 6;
		offset = hex(&s);
		while (*s && *s != '\n' && *s != '/' && *s != '[')
			s++;
		while (*s && *s != '\n' && k < sizeof path - 1)
			path[k++] = *s++;
		path[k] = 0;
		if (*s)
			s++;
		if (addr < lo || addr >= hi)
			continue;
		if (x && k && !module_at(&truth, addr)) {
			int before = truth.module_count;

			module_add(lo, hi, offset, path);
			if (truth.module_count == before) {
				map_gap_lo = lo;
				map_gap_hi = hi;
			}
		}
	}
}

static void report(void)
{
	static char text[1 << 20];
	int n, fd;

	if (finished)
		return;
	finished = true;
	n = truth_print(&truth, text, sizeof text);
	fd = open(out_file[0] ? out_file : "/dev/stderr", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd >= 0 && write(fd, text, (size_t)n) == n)
		close(fd);
}

static void regs_of(const ucontext_t *u, struct regs *r)
{
	static const int place[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		                       REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };

	for (int i = 0; i < 16; i++)
		r->r[i] = (uint64_t)u->uc_mcontext.gregs[place[i]];
	r->rip = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
}

#ifdef SHADOW_ETCH
#include <etch/unwind.h>
static void library_check(const struct regs *now, ucontext_t *u);
#endif

/*
 * A program that blocks all signals would make the next SIGTRAP kill it: the set
 * that it passes to rt_sigprocmask is replaced by one without SIGTRAP for the call.
 */
static uint64_t mask_copy, mask_rsi;
static bool mask_swapped;

static void mask_swap(ucontext_t *u, const struct regs *r)
{
	if (mask_swapped) {
		if ((uint64_t)u->uc_mcontext.gregs[REG_RSI] == (uint64_t)&mask_copy)
			u->uc_mcontext.gregs[REG_RSI] = (greg_t)mask_rsi;
		mask_swapped = false;
	}
	if (truth.insn == INSN_SYSCALL && r->r[RAX] == SYS_rt_sigprocmask && r->r[7] != SIG_UNBLOCK && r->r[6]) {
		mask_rsi = r->r[6];
		mask_copy = *(const uint64_t *)mask_rsi & ~(1ul << (SIGTRAP - 1));
		u->uc_mcontext.gregs[REG_RSI] = (greg_t)&mask_copy;
		mask_swapped = true;
	}
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	static struct regs now;

	(void)sig;
	(void)info;
	if (finished || raw(SYS_getpid, 0, 0, 0, 0, 0) != self || raw(SYS_gettid, 0, 0, 0, 0, 0) != self_tid) {
		u->uc_mcontext.gregs[REG_EFL] &= ~TF;
		return;
	}
	if (limit && truth.steps >= limit) {
		report();
		u->uc_mcontext.gregs[REG_EFL] &= ~TF;
		return;
	}
	regs_of(u, &now);
	truth.ctx = &now;
	if (truth.steps < skip) {
		if (truth.started)
			truth_advance(&truth, &now, false);
		truth.started = true;
		truth.steps++;
		truth.prev = now;
		uint8_t code[16];
		truth.insn = code_read(NULL, now.rip, code) ? insn_kind(code) : INSN_OTHER;
	} else {
		truth_step(&truth, &now, false);
#ifdef SHADOW_ETCH
		library_check(&now, u);
#endif
	}
	mask_swap(u, &now);
	/* _exit is the last that is seen */
	if (truth.insn == INSN_SYSCALL && (now.r[RAX] == SYS_exit_group || now.r[RAX] == SYS_execve))
		report();
}

#ifdef SHADOW_ETCH
static void library_wrong(const struct regs *now, int frame, uint64_t got, uint64_t want)
{
	trouble_add(&truth, WHAT_LIB, frame, now->rip, module_at(&truth, now->rip), NULL, got, want);
}

/*
 * libetch over the same stack, by its cursor and by etch_backtrace_from(): each frame
 * must be the one that the shadow stack has, and the walks must know that they are complete.
 */
static void library_check(const struct regs *now, ucontext_t *u)
{
	static void *ips[512];
	struct etch_cursor c;
	uint64_t ip, sp, bp;
	int k = truth.depth - 1, i = 0, n, status, wrong;

	/* Where a row itself is in trouble this step, that is counted; the same table gives no other answer. */
	if (truth.ended == WHAT_CFA || truth.ended == WHAT_RBP || truth.ended == WHAT_UNDEF)
		return;
	etch_cursor_init(&c, u);
	while ((status = etch_step(&c)) == ETCH_UNWIND_OK) {
		const struct frame *f = &truth.frames[k];

		if (k < 0) {
			library_wrong(now, i, 1, 0);
			return;
		}
		if (etch_get_reg(&c, ETCH_RIP, &ip) || ip != f->ret) {
			if (f->pad || !word_read((void *)now, f->cfa - 8, &sp) || sp != f->ret)
				truth.rewritten++;
			else
				library_wrong(now, i, ip, f->ret);
			return;
		}
		if (etch_get_reg(&c, ETCH_RSP, &sp) || sp != f->cfa) {
			library_wrong(now, i, sp, f->cfa);
			return;
		}
		/* rbp may be lost in a frame; then it is not to be had, rather than wrong */
		if (!etch_get_reg(&c, ETCH_RBP, &bp) && bp != f->rbp) {
			library_wrong(now, i, bp, f->rbp);
			return;
		}
		wrong = kept_wrong(&truth, &c, f, &sp);
		if (wrong >= 0) {
			library_wrong(now, 1000 * (wrong + 1) + i, sp, f->kept[wrong]);
			return;
		}
		truth.library_frames++;
		i++, k--;
		if (f->pad)
			return;
	}
	if (k >= 0 || status != ETCH_UNWIND_END) {
		library_wrong(now, i, (uint64_t)(int64_t)status, (uint64_t)(int64_t)k);
		return;
	}
	n = etch_backtrace_from(u, ips, 512, &status);
	if (n != truth.depth + 1 || status != ETCH_UNWIND_END || ips[0] != (void *)now->rip) {
		library_wrong(now, -1, (uint64_t)n, (uint64_t)truth.depth + 1);
		return;
	}
	for (i = 1; i < n; i++)
		if ((uint64_t)ips[i] != truth.frames[truth.depth - i].ret) {
			library_wrong(now, -1 - i, (uint64_t)ips[i], truth.frames[truth.depth - i].ret);
			return;
		}
}
#endif

/* ---- start --------------------------------------------------------------------- */

static struct {
	uint64_t ip, rsp, rbp;
} seeds[64];
static int seed_count;

static _Unwind_Reason_Code seed_one(struct _Unwind_Context *c, void *arg)
{
	(void)arg;
	if (seed_count < 64) {
		seeds[seed_count].ip = _Unwind_GetIP(c);
		seeds[seed_count].rsp = _Unwind_GetCFA(c); /* of the frame inside: rsp of this one */
		seeds[seed_count++].rbp = _Unwind_GetGR(c, 6);
	}
	return _URC_NO_REASON;
}

/*
 * The frames from shadow_main's caller outwards. rbp that is not restored by any inner
 * frame is what it is here, which libgcc knows only of frames that saved it: its own
 * frames do.
 */
static __attribute__((noinline)) void seed(void)
{
	_Unwind_Backtrace(seed_one, NULL);
	/* seeds: seed, shadow_main, __libc_start_call_main, ..., _start, and perhaps a 0 */
	while (seed_count && !seeds[seed_count - 1].ip)
		seed_count--;
	for (int i = seed_count - 1; i >= 2; i--)
		frame_push(&truth, (struct frame){ .cfa = seeds[i].rsp, .ret = seeds[i].ip, .rbp = seeds[i].rbp });
	truth.seeded = truth.depth;
}

static __attribute__((noinline)) int shadow_main(int argc, char **argv, char **envp)
{
	int r;

	seed();
	stack_top = (uint64_t)argv;
	__asm__ volatile("pushf\n\torl $0x100, (%%rsp)\n\tpopf" ::: "memory", "cc");
	r = program_main(argc, argv, envp);
	__asm__ volatile("pushf\n\tandl $~0x100, (%%rsp)\n\tpopf" ::: "memory", "cc");
	/* exit() and its handlers are stepped too */
	__asm__ volatile("pushf\n\torl $0x100, (%%rsp)\n\tpopf" ::: "memory", "cc");
	return r;
}

static void list(void)
{
	char line[1024], path[600];
	FILE *f = fopen("/proc/self/maps", "r"), *o = fopen(out_file, "w");

	while (f && o && fgets(line, sizeof line, f)) {
		char perms[8];

		path[0] = 0;
		if (sscanf(line, "%*s %7s %*s %*s %*s %599s", perms, path) >= 2 && perms[2] == 'x')
			fprintf(o, "%s\n", path);
	}
	if (o)
		fclose(o);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

__attribute__((visibility("default"))) int
__libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                  void (*rtld_fini)(void), void *stack_end)
{
	int (*real)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
	struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	stack_t ss = { .ss_sp = handler_stack, .ss_size = sizeof handler_stack };
	const char *dir = getenv("SHADOW_ROWS"), *out = getenv("SHADOW_OUT"), *n = getenv("SHADOW_STEPS");
	const char *s = getenv("SHADOW_SKIP");

	real = (__typeof__(real))dlsym(RTLD_NEXT, "__libc_start_main");
	snprintf(out_file, sizeof out_file, "%s", out ? out : "");
	snprintf(rows_dir, sizeof rows_dir, "%s", dir ? dir : "");
	if (getenv("SHADOW_LIST")) {
		atexit(list);
		return real(main, argc, argv, init, fini, rtld_fini, stack_end);
	}
	limit = n ? strtoul(n, NULL, 10) : 0;
	skip = s ? strtoul(s, NULL, 10) : 0;
	unsetenv("LD_PRELOAD"); /* not for children */
	self = getpid();
	self_tid = (pid_t)syscall(SYS_gettid);
	truth.word = word_read;
	truth.code = code_read;
	truth.unknown = module_unknown;
	program_main = main;
	sigaltstack(&ss, NULL);
	sigaction(SIGTRAP, &sa, NULL);
#ifdef SHADOW_ETCH
	etch_unwind_prepare();
#endif
	return real(shadow_main, argc, argv, init, fini, rtld_fini, stack_end);
}
