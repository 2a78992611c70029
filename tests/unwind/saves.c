/* SPDX-License-Identifier: MIT */
/*
 * saves [-e ENTRY] ROWS STEPS PROGRAM [ARG...]: single-steps a program under ptrace, without address randomization and
 * from the address ENTRY on (hexadecimal; default: its first instruction), and judges what rows say of rbx, rbp and r12 to r15: at each call it keeps their values, and at each instruction the rows of all
 * frames have to give them back. ROWS: lines "start end cfa-register cfa-offset (how offset) x 6" in hexadecimal and
 * decimal, sorted; registers rsp 4, rbp 5; how 0 same, 1 at CFA + offset, 2 unknown. Prints counts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RBX, RBP, R12, R13, R14, R15, KEPT };

struct row {
	unsigned long start, end;
	int reg;
	long off;
	struct {
		int how;
		long off;
	} kept[KEPT];
};

/* A call that has not returned: where its return address is, and what the caller had in the registers. */
struct call {
	unsigned long cfa, ra, kept[KEPT];
};

static struct row *rows;
static size_t row_count;
static struct call calls[4096];
static size_t depth;
static unsigned long counts[8];
enum { STEPS, FRAMES, VALUES, UNKNOWN, NO_ROW, WRONG_FRAME, WRONG_VALUE };

static void rows_read(const char *path)
{
	FILE *f = fopen(path, "r");
	struct row r;
	int i;

	while (f && fscanf(f, "%lx %lx %d %ld", &r.start, &r.end, &r.reg, &r.off) == 4) {
		for (i = 0; i < KEPT; i++)
			if (fscanf(f, "%d %ld", &r.kept[i].how, &r.kept[i].off) != 2)
				exit(2);
		rows = realloc(rows, (row_count + 1) * sizeof(*rows));
		rows[row_count++] = r;
	}
	if (!f || !row_count)
		exit(2);
	fclose(f);
}

static const struct row *row_at(unsigned long ip)
{
	size_t lo = 0, hi = row_count;

	while (lo < hi) {
		size_t m = (lo + hi) / 2;

		if (rows[m].end <= ip)
			lo = m + 1;
		else
			hi = m;
	}
	return lo < row_count && rows[lo].start <= ip ? &rows[lo] : NULL;
}

static unsigned long word(pid_t pid, unsigned long at)
{
	unsigned long v = 0;
	struct iovec to = {&v, 8}, from = {(void *)at, 8};

	return process_vm_readv(pid, &to, 1, &from, 1, 0) == 8 ? v : 0xdead;
}

/* Walks all frames by the rows and holds each against the call that made it. */
static void judge(pid_t pid, const struct user_regs_struct *r)
{
	unsigned long ip = r->rip, sp = r->rsp, v[KEPT] = {r->rbx, r->rbp, r->r12, r->r13, r->r14, r->r15};
	int known[KEPT] = {1, 1, 1, 1, 1, 1}, i;
	size_t d;

	for (d = depth; d-- > 0;) {
		const struct row *x = row_at(ip);
		unsigned long cfa;

		if (!x || x->reg < 0 || (x->reg == 5 && !known[RBP])) {
			counts[NO_ROW]++;
			return;
		}
		cfa = (x->reg == 4 ? sp : v[RBP]) + (unsigned long)x->off;
		counts[FRAMES]++;
		if (cfa != calls[d].cfa) {
			if (counts[WRONG_FRAME]++ < 5)
				printf("frame %llx at %lx: cfa %lx, not %lx\n", r->rip, ip, cfa, calls[d].cfa);
			return;
		}
		for (i = 0; i < KEPT; i++) {
			if (x->kept[i].how == 1) {
				v[i] = word(pid, cfa + (unsigned long)x->kept[i].off);
				known[i] = 1;
			}
			known[i] = known[i] && x->kept[i].how != 2;
			counts[known[i] ? VALUES : UNKNOWN]++;
			if (known[i] && v[i] != calls[d].kept[i] && counts[WRONG_VALUE]++ < 5)
				printf("value %llx at %lx: register %d is %lx, not %lx\n", r->rip, ip, i, v[i], calls[d].kept[i]);
		}
		sp = cfa;
		ip = calls[d].ra - 1;
	}
}

static void follow(pid_t pid, const struct user_regs_struct *was, const struct user_regs_struct *now)
{
	while (depth && now->rsp >= calls[depth - 1].cfa) /* returned, or jumped out */
		depth--;
	if (now->rsp == was->rsp - 8 && depth < 4096) {
		unsigned long ra = word(pid, now->rsp);

		if (ra - was->rip >= 2 && ra - was->rip <= 8 && ra != now->rip) /* a call: it pushed the address behind itself */
			calls[depth++] =
				(struct call){now->rsp + 8, ra, {was->rbx, was->rbp, was->r12, was->r13, was->r14, was->r15}};
	}
}

/* Runs up to an address by a breakpoint. */
static void run_to(pid_t pid, unsigned long at)
{
	struct user_regs_struct r;
	long was = ptrace(PTRACE_PEEKTEXT, pid, at, 0);
	int status;

	ptrace(PTRACE_POKETEXT, pid, at, (was & ~0xffl) | 0xcc);
	ptrace(PTRACE_CONT, pid, 0, 0);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		exit(2);
	ptrace(PTRACE_POKETEXT, pid, at, was);
	ptrace(PTRACE_GETREGS, pid, 0, &r);
	r.rip = at;
	ptrace(PTRACE_SETREGS, pid, 0, &r);
}

int main(int argc, char **argv)
{
	struct user_regs_struct was, now;
	unsigned long limit, entry = 0;
	int status;
	pid_t pid;

	if (argc > 2 && !strcmp(argv[1], "-e")) {
		entry = strtoul(argv[2], NULL, 16);
		argv += 2;
		argc -= 2;
	}
	if (argc < 4)
		return 2;
	rows_read(argv[1]);
	limit = strtoul(argv[2], NULL, 10);
	pid = fork();
	if (!pid) {
		personality(ADDR_NO_RANDOMIZE);
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execv(argv[3], argv + 3);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (entry)
		run_to(pid, entry);
	ptrace(PTRACE_GETREGS, pid, 0, &was);
	while (counts[STEPS] < limit && !ptrace(PTRACE_SINGLESTEP, pid, 0, 0) && waitpid(pid, &status, 0) == pid &&
	       WIFSTOPPED(status)) {
		ptrace(PTRACE_GETREGS, pid, 0, &now);
		follow(pid, &was, &now);
		judge(pid, &now);
		counts[STEPS]++;
		was = now;
	}
	ptrace(PTRACE_KILL, pid, 0, 0);
	printf("steps %lu frames %lu values %lu unknown %lu no-row %lu wrong-frame %lu wrong-value %lu\n", counts[STEPS],
	       counts[FRAMES], counts[VALUES], counts[UNKNOWN], counts[NO_ROW], counts[WRONG_FRAME], counts[WRONG_VALUE]);
	return 0;
}
