/* SPDX-License-Identifier: MIT */
/*
 * Runs a program one instruction at a time over ptrace, keeps the shadow stack
 * of shadow_truth.h and unwinds the whole stack at each instruction.
 *
 *   step [-e] [-n STEPS] [-s SKIP] [-r DIR] [-g COMMAND] [-o FILE] [-i SIGNAL,WHERE] PROGRAM ARG...
 *
 * -e          begin at the program's first instruction, not at ld.so's
 * -r DIR      rows: DIR/<path with _ for />.rows (tests/analysis/rows.py)
 * -g COMMAND  makes a file of rows that is not there: COMMAND PATH ROWS
 *             (and .table, libetch's, when built with -DSTEP_ETCH)
 * -n STEPS    stop after so many instructions (0: at the program's end)
 * -s SKIP     so many instructions are watched but not unwound from
 * -i S,W,N    delivers signal S wherever W is true, at most N times (0: always):
 *             call   the first instruction of a function that was called
 *             plt    every instruction of .plt, .plt.sec and .plt.got
 *             N      every Nth instruction
 *             not in a handler (W with a `+`: up to three of them nested)
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shadow_truth.h"
#ifdef STEP_ETCH
#include <etch/unwind.h>
#endif

#define STACK_BYTES (1u << 20)

struct inject {
	int sig;
	int where; /* 0 none, 1 call, 2 plt, else every Nth */
	uint64_t every, max, done;
	bool nested;
};

struct text { /* a copy of what is executable: it does not change */
	uint64_t lo, hi;
	uint8_t *bytes;
	uint64_t plt[4][2];
	int plts;
};

static struct truth truth;
static pid_t pid;
static const char *rows_dir, *generate;
static struct text texts[MAX_MODULE];
static int text_count;
static uint8_t stack[STACK_BYTES];
static uint64_t stack_lo, stack_hi; /* what of it was read for this step */
static struct inject injects[4];
static int inject_count;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static size_t peek(uint64_t addr, void *out, size_t size)
{
	struct iovec l = { out, size }, r = { (void *)addr, size };
	ssize_t n = process_vm_readv(pid, &l, 1, &r, 1, 0);

	return n < 0 ? 0 : (size_t)n;
}

static bool word_read(void *ctx, uint64_t addr, uint64_t *out)
{
	(void)ctx;
	if (addr >= stack_lo && addr + 8 <= stack_hi) {
		memcpy(out, stack + (addr - stack_lo), 8);
		return true;
	}
	return peek(addr, out, 8) == 8;
}

static void module_unknown(void *ctx, uint64_t addr);

static bool code_read(void *ctx, uint64_t addr, uint8_t out[16])
{
	for (int once = 0; once < 2; once++) {
		for (int i = 0; i < text_count; i++)
			if (addr >= texts[i].lo && addr < texts[i].hi) {
				size_t left = texts[i].hi - addr;

				memset(out, 0, 16);
				memcpy(out, texts[i].bytes + (addr - texts[i].lo), left < 16 ? left : 16);
				return true;
			}
		if (!once)
			module_unknown(ctx, addr);
	}
	memset(out, 0, 16);
	return peek(addr, out, 16) > 0;
}

/* The difference between addresses of a file and of its mapping, from its program headers. */
static uint64_t file_bias(const uint8_t *f, size_t size, uint64_t start, uint64_t offset)
{
	const Elf64_Ehdr *e = (const void *)f;

	if (size < sizeof *e || e->e_phoff + e->e_phnum * sizeof(Elf64_Phdr) > size)
		return start;
	for (int i = 0; i < e->e_phnum; i++) {
		const Elf64_Phdr *p = (const void *)(f + e->e_phoff + (size_t)i * sizeof *p);

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && offset == (p->p_offset & ~4095ul))
			return start - (p->p_vaddr & ~4095ul);
	}
	return start - offset;
}

static void plt_find(struct text *t, const uint8_t *f, size_t size, uint64_t bias)
{
	const Elf64_Ehdr *e = (const void *)f;
	const Elf64_Shdr *s = (const void *)(f + e->e_shoff);
	const char *names;

	if (size < sizeof *e || !e->e_shnum || e->e_shoff + e->e_shnum * sizeof *s > size)
		return;
	names = (const char *)f + s[e->e_shstrndx].sh_offset;
	for (int i = 0; i < e->e_shnum && t->plts < 4; i++)
		if (!strncmp(names + s[i].sh_name, ".plt", 4)) {
			t->plt[t->plts][0] = s[i].sh_addr + bias;
			t->plt[t->plts++][1] = s[i].sh_addr + s[i].sh_size + bias;
		}
}

#ifdef STEP_ETCH
static struct etch_target_module tables[MAX_MODULE];
static struct etch_target target = { .modules = tables };

static void target_add(const char *path, const struct module *m)
{
	struct etch_target_module t = { .start = m->lo, .end = m->hi, .bias = m->bias };
	int fd = open(path, O_RDONLY);
	struct stat st;
	size_t i;
	void *file;

	if (fd < 0 || fstat(fd, &st))
		return;
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED || !(t.table = etch_table_in_file(file, (size_t)st.st_size, &t.size, &t.address))) {
		fprintf(stderr, "step: no table in %s\n", path);
		return;
	}
	for (i = target.module_count++; i && tables[i - 1].start > t.start; i--)
		tables[i] = tables[i - 1];
	tables[i] = t;
}

static int target_word(void *arg, uint64_t addr, uint64_t *out)
{
	(void)arg;
	return !word_read(NULL, addr, out);
}

/* libetch over ptrace: each frame as the shadow stack has it. */
static void library_check(void *ctx, const struct regs *r)
{
	uint64_t regs[17], ip, sp, bp;
	struct etch_cursor c;
	int k = truth.depth - 1, i = 0, status, wrong;

	(void)ctx;
	if (truth.ended == WHAT_CFA || truth.ended == WHAT_RBP) /* counted there; the table is the same */
		return;
	memcpy(regs, r->r, sizeof r->r);
	regs[ETCH_RIP] = r->rip;
	target.read = target_word;
	etch_cursor_init_target(&c, &target, regs);
	for (; (status = etch_step(&c)) == ETCH_UNWIND_OK; i++, k--) {
		const struct frame *f = &truth.frames[k];

		if (k < 0 || etch_get_reg(&c, ETCH_RIP, &ip) || etch_get_reg(&c, ETCH_RSP, &sp))
			break;
		if (etch_get_reg(&c, ETCH_RBP, &bp))
			bp = f->rbp;
		if (f->kind == FRAME_CALL && (f->pad || (word_read(NULL, f->cfa - 8, regs) && regs[0] != f->ret))) {
			truth.rewritten++;
			return;
		}
		if (ip != f->ret || sp != f->cfa || bp != f->rbp) {
			trouble_add(&truth, WHAT_LIB, i, r->rip, module_at(&truth, r->rip), NULL, ip, f->ret);
			return;
		}
		wrong = kept_wrong(&truth, &c, f, &sp);
		if (wrong >= 0) {
			trouble_add(&truth, WHAT_LIB, 1000 * (wrong + 1) + i, r->rip, module_at(&truth, r->rip), NULL, sp, f->kept[wrong]);
			return;
		}
		truth.library_frames++;
	}
	/* Where the rows end, the status has to say so. */
	if ((truth.ended == WHAT_REG && status == ETCH_UNWIND_REGISTER) ||
	    (truth.ended == WHAT_UNDEF && status == ETCH_UNWIND_UNDEFINED))
		return;
	if (k >= 0 || status != ETCH_UNWIND_END)
		trouble_add(&truth, WHAT_LIB, i, r->rip, module_at(&truth, r->rip), NULL, (uint64_t)(int64_t)status,
		            (uint64_t)(int64_t)k);
}
#endif

static void module_add(uint64_t lo, uint64_t hi, uint64_t offset, const char *path)
{
	char rows[1024], command[4096], copy[512];
	struct stat st;
	uint8_t *file;
	int fd;
	struct module *m;
	struct text *t;

	if (text_count == MAX_MODULE || truth.module_count == MAX_MODULE)
		return;
	t = &texts[text_count++];
	*t = (struct text){ .lo = lo, .hi = hi, .bytes = malloc(hi - lo) };
	if (!t->bytes || peek(lo, t->bytes, hi - lo) != hi - lo)
		die("cannot read code");
	if (path[0] == '[') { /* the vdso: a file like any other, once it is one */
		snprintf(copy, sizeof copy, "%.400s/vdso.so", rows_dir ? rows_dir : "/tmp");
		fd = open(copy, O_CREAT | O_TRUNC | O_WRONLY, 0600);
		if (fd < 0 || write(fd, t->bytes, hi - lo) != (ssize_t)(hi - lo))
			die(copy);
		close(fd);
		path = copy;
	}
	if (!rows_dir)
		return;
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		return;
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return;
	m = &truth.modules[truth.module_count];
	*m = (struct module){ .lo = lo, .hi = hi, .bias = file_bias(file, (size_t)st.st_size, lo, offset) };
	plt_find(t, file, (size_t)st.st_size, m->bias);
	munmap(file, (size_t)st.st_size);
	snprintf(m->name, sizeof m->name, "%.*s", (int)sizeof m->name - 1, path);
	snprintf(rows, sizeof rows, "%.400s/%.512s.rows", rows_dir, path == copy ? "vdso.so" : path);
	for (char *c = rows + strlen(rows_dir) + 1; *c; c++)
		if (*c == '/')
			*c = '_';
	if (access(rows, R_OK) && generate) {
		snprintf(command, sizeof command, "%s '%s' '%s'", generate, path, rows);
		if (system(command))
			fprintf(stderr, "step: failed: %s\n", command);
	}
	fd = open(rows, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) || !st.st_size)
		return;
	m->rows = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if ((void *)m->rows == MAP_FAILED)
		die(rows);
	m->count = (size_t)st.st_size / sizeof *m->rows;
	truth.module_count++;
#ifdef STEP_ETCH
	memcpy(rows + strlen(rows) - 5, ".table", 7);
	target_add(rows, m);
#endif
}

/* What of /proc/PID/maps holds this address, once. */
static void module_unknown(void *ctx, uint64_t addr)
{
	char line[1024], path[512], perms[8];
	uint64_t lo, hi, offset;
	FILE *f;

	(void)ctx;
	for (int i = 0; i < text_count; i++)
		if (addr >= texts[i].lo && addr < texts[i].hi)
			return;
	snprintf(line, sizeof line, "/proc/%d/maps", pid);
	f = fopen(line, "r");
	if (!f)
		die(line);
	while (fgets(line, sizeof line, f)) {
		path[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %511s", &lo, &hi, perms, &offset, path) < 4)
			continue;
		if (addr < lo || addr >= hi || perms[2] != 'x')
			continue;
		if (path[0])
			module_add(lo, hi, offset, path);
	}
	fclose(f);
}

static void regs_get(struct regs *r, struct user_regs_struct *u)
{
	if (ptrace(PTRACE_GETREGS, pid, NULL, u))
		die("PTRACE_GETREGS");
	*r = (struct regs){ .r = { u->rax, u->rcx, u->rdx, u->rbx, u->rsp, u->rbp, u->rsi, u->rdi, u->r8, u->r9, u->r10,
		                   u->r11, u->r12, u->r13, u->r14, u->r15 },
		            .rip = u->rip };
}

/* The part of the stack that frames are on, in one read. */
static void stack_read(const struct regs *r)
{
	uint64_t lo = (r->r[RSP] - 256) & ~7ul, hi = r->r[RSP] + 4096;

	for (int i = 0; i < truth.depth; i++)
		if (truth.frames[i].cfa > hi && truth.frames[i].cfa - lo < STACK_BYTES - 4096) {
			hi = truth.frames[i].cfa + 64;
			break; /* the outermost one on this stack */
		}
	stack_lo = lo;
	stack_hi = lo + peek(lo, stack, hi - lo);
}

static bool handler_entered(const struct regs *before, const struct regs *now)
{
	uint64_t rip, rsp;

	/* struct rt_sigframe: return address, ucontext; its rsp and rip */
	return now->rip != before->rip && peek(now->r[RSP] + 168, &rsp, 8) == 8 && peek(now->r[RSP] + 176, &rip, 8) == 8 &&
	       rip == before->rip && rsp == before->r[RSP];
}

static int signals_nested(void)
{
	int n = 0;

	for (int i = 0; i < truth.depth; i++)
		n += truth.frames[i].kind == FRAME_SIGNAL;
	return n;
}

/* Whether the program has a handler for it: before, the signal would end it. */
static bool caught(int sig)
{
	static uint64_t mask;
	char line[256];
	FILE *f;

	if (mask >> (sig - 1) & 1)
		return true;
	if (truth.steps % 64) /* a file a step would be slow */
		return false;
	snprintf(line, sizeof line, "/proc/%d/status", pid);
	f = fopen(line, "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "SigCgt: %lx", &mask);
	if (f)
		fclose(f);
	return mask >> (sig - 1) & 1;
}

static int inject_now(const struct regs *r, bool called)
{
	for (int i = 0; i < inject_count; i++) {
		struct inject *j = &injects[i];
		bool yes = false;

		if ((j->max && j->done >= j->max) || signals_nested() >= (j->nested ? 3 : 1) || !caught(j->sig))
			continue;
		if (j->where == 1)
			yes = called;
		else if (j->where == 2) {
			for (int k = 0; k < text_count && !yes; k++)
				for (int p = 0; p < texts[k].plts; p++)
					yes |= r->rip >= texts[k].plt[p][0] && r->rip < texts[k].plt[p][1];
		} else {
			yes = truth.steps % j->every == 0;
		}
		if (yes) {
			j->done++;
			truth.injected++;
			return j->sig;
		}
	}
	return 0;
}

/* Runs freely to the program's entry point, where the stack is as empty as at exec. */
static void run_to_entry(void)
{
	uint64_t entry = 0, pair[2];
	struct user_regs_struct u;
	char name[64];
	long word;
	int status;
	FILE *f;

	snprintf(name, sizeof name, "/proc/%d/auxv", pid);
	f = fopen(name, "r");
	while (f && fread(pair, sizeof pair, 1, f) == 1)
		if (pair[0] == AT_ENTRY)
			entry = pair[1];
	if (f)
		fclose(f);
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, pid, (void *)entry, NULL);
	if (!entry || errno || ptrace(PTRACE_POKETEXT, pid, (void *)entry, (void *)((word & ~0xffl) | 0xcc)) ||
	    ptrace(PTRACE_CONT, pid, NULL, NULL) || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_POKETEXT, pid, (void *)entry, (void *)word) || ptrace(PTRACE_GETREGS, pid, NULL, &u) ||
	    u.rip != entry + 1)
		die("cannot run to the entry point");
	u.rip = entry;
	ptrace(PTRACE_SETREGS, pid, NULL, &u);
}

static void inject_parse(char *text)
{
	struct inject *j = &injects[inject_count++];
	char *sig = strtok(text, ","), *where = strtok(NULL, ","), *max = strtok(NULL, ",");

	if (inject_count > 4 || !sig || !where) {
		fputs("step: -i SIGNAL,WHERE[,MAX]\n", stderr);
		exit(2);
	}
	j->sig = atoi(sig);
	j->nested = strchr(where, '+') != NULL;
	j->where = 3;
	if (!strncmp(where, "call", 4))
		j->where = 1;
	else if (!strncmp(where, "plt", 3))
		j->where = 2;
	j->every = j->where == 3 ? strtoul(where, NULL, 10) : 0;
	j->max = max ? strtoul(max, NULL, 10) : 0;
	if (j->where == 3 && !j->every)
		exit(2);
}

int main(int argc, char **argv)
{
	uint64_t limit = 0, skip = 0;
	static char report[1 << 20];
	const char *out = NULL;
	struct user_regs_struct u;
	struct regs now;
	int status, opt, pending = 0;
	bool entry = false;

	while ((opt = getopt(argc, argv, "+en:s:r:g:o:i:")) != -1)
		switch (opt) {
		case 'e': entry = true; break;
		case 'n': limit = strtoul(optarg, NULL, 10); break;
		case 's': skip = strtoul(optarg, NULL, 10); break;
		case 'r': rows_dir = optarg; break;
		case 'g': generate = optarg; break;
		case 'o': out = optarg; break;
		case 'i': inject_parse(optarg); break;
		default: return 2;
		}
	if (optind >= argc) {
		fputs("step: no program\n", stderr);
		return 2;
	}
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		personality(ADDR_NO_RANDOMIZE);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execvp(argv[optind], argv + optind);
		die(argv[optind]);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		die("waitpid");
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL);
	if (entry)
		run_to_entry();
	truth.word = word_read;
	truth.code = code_read;
	truth.unknown = module_unknown;
#ifdef STEP_ETCH
	truth.library = library_check;
#endif
	regs_get(&now, &u);
	stack_read(&now);
	truth_step(&truth, &now, false);
	while (!limit || truth.steps < limit) {
		struct regs before = now;
		bool handler;
		int calls = (int)truth.calls;

		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, pending))
			die("PTRACE_SINGLESTEP");
		if (waitpid(pid, &status, 0) != pid)
			die("waitpid");
		if (!WIFSTOPPED(status))
			break;
		regs_get(&now, &u);
		handler = pending && handler_entered(&before, &now);
		pending = 0;
		if (WSTOPSIG(status) != SIGTRAP) {
			/* About to be delivered; the instruction may not have run. */
			pending = WSTOPSIG(status);
			if (!memcmp(&before, &now, sizeof now))
				continue;
		}
		if (skip && truth.steps < skip) { /* watched, not unwound */
			uint8_t code[16];

			stack_lo = stack_hi = 0;
			truth_advance(&truth, &now, handler);
			truth.steps++;
			truth.prev = now;
			truth.insn = code_read(NULL, now.rip, code) ? insn_kind(code) : INSN_OTHER;
			continue;
		}
		stack_read(&now);
		truth_step(&truth, &now, handler);
		if (!pending)
			pending = inject_now(&now, (int)truth.calls != calls);
	}
	if (WIFSTOPPED(status))
		kill(pid, SIGKILL);
	truth_print(&truth, report, sizeof report);
	if (out) {
		FILE *f = fopen(out, "w");

		if (!f)
			die(out);
		fputs(report, f);
		fclose(f);
	} else {
		fputs(report, stderr);
	}
	return 0;
}
