/* SPDX-License-Identifier: MIT */
/*
 * saves [-e ENTRY | -a SECONDS] [-m START-END] ROWS STEPS PROGRAM [ARG...]: single-steps a program under ptrace,
 * without address randomization, and judges what rows say of rbx, rbp and r12 to r15: at each call it keeps their
 * values, and at each instruction the rows of all frames have to give them back. ROWS: lines "start end cfa-register
 * cfa-offset (how offset) x 6" in hexadecimal and decimal, sorted; how 0 same, 1 at CFA + offset, 2 unknown. Prints
 * counts.
 *
 * -e: from the address ENTRY on (hexadecimal) instead of the first instruction. -a: the thread that has used the most
 * processor time SECONDS after the start, from there on; of frames, those whose call was seen. -m: code that moves its
 * return address and arguments on the stack. Its frames are judged by return address and rbp instead of the CFA.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
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

static unsigned long moving_start, moving_end; /* -m */
static struct row *rows;
static size_t row_count;
static struct call calls[4096];
static size_t depth;
static pid_t child; /* with -a */
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

static int is_moving(unsigned long ip) { return ip - moving_start < moving_end - moving_start; }

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
		if (is_moving(ip) ? word(pid, cfa - 8) != calls[d].ra : cfa != calls[d].cfa) {
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

/* The most bytes of arguments that are taken off the stack before a return. */
#define MOVED_MOST 512

static void follow(pid_t pid, const struct user_regs_struct *was, const struct user_regs_struct *now)
{
	while (depth &&
	       now->rsp >= calls[depth - 1].cfa + (is_moving(was->rip) ? MOVED_MOST : 0)) /* returned, or jumped out */
		depth--;
	if (depth && is_moving(was->rip) && now->rip == calls[depth - 1].ra && now->rsp > was->rsp)
		depth--;
	if (now->rsp == was->rsp - 8 && depth < 4096) {
		unsigned long ra = word(pid, now->rsp);

		if (ra - was->rip >= 2 && ra - was->rip <= 8 &&
		    ra != now->rip) /* a call: it pushed the address after itself */
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

/* The thread of a process that has used the most processor time. */
static pid_t busiest(pid_t pid)
{
	char path[300], text[1024];
	unsigned long most = 0, user;
	pid_t found = pid;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid, d->d_name);
		f = *d->d_name != '.' ? fopen(path, "r") : NULL;
		if (f && fgets(text, sizeof(text), f) && strrchr(text, ')') &&
		    sscanf(strrchr(text, ')') + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu", &user) == 1 &&
		    user > most) {
			most = user;
			found = atoi(d->d_name);
		}
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Starts the program. Returns the thread to step, which is stopped. */
static pid_t begin(char **argv, unsigned long entry, unsigned seconds)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		personality(ADDR_NO_RANDOMIZE);
		if (!seconds)
			ptrace(PTRACE_TRACEME, 0, 0, 0);
		else
			freopen("/dev/null", "w", stdout);
		execv(argv[0], argv);
		_exit(127);
	}
	if (seconds) {
		child = pid;
		sleep(seconds);
		pid = busiest(pid);
		if (ptrace(PTRACE_SEIZE, pid, 0, 0) || ptrace(PTRACE_INTERRUPT, pid, 0, 0))
			exit(2);
	}
	waitpid(pid, &status, __WALL);
	if (entry)
		run_to(pid, entry);
	return pid;
}

int main(int argc, char **argv)
{
	unsigned long limit, entry = 0;
	struct user_regs_struct was, now;
	unsigned seconds = 0;
	int status, option;
	pid_t pid;

	while ((option = getopt(argc, argv, "+e:a:m:")) != -1)
		if (option == 'e')
			entry = strtoul(optarg, NULL, 16);
		else if (option == 'a')
			seconds = (unsigned)atoi(optarg);
		else if (option != 'm' || sscanf(optarg, "%lx-%lx", &moving_start, &moving_end) != 2)
			return 2;
	if (argc < optind + 3)
		return 2;
	rows_read(argv[optind]);
	limit = strtoul(argv[optind + 1], NULL, 10);
	pid = begin(argv + optind + 2, entry, seconds);
	ptrace(PTRACE_GETREGS, pid, 0, &was);
	while (counts[STEPS] < limit && !ptrace(PTRACE_SINGLESTEP, pid, 0, 0) && waitpid(pid, &status, __WALL) == pid &&
	       WIFSTOPPED(status)) {
		ptrace(PTRACE_GETREGS, pid, 0, &now);
		follow(pid, &was, &now);
		judge(pid, &now);
		counts[STEPS]++;
		was = now;
	}
	kill(child ? child : pid, SIGKILL);
	printf("steps %lu frames %lu values %lu unknown %lu no-row %lu wrong-frame %lu wrong-value %lu\n", counts[STEPS],
	       counts[FRAMES], counts[VALUES], counts[UNKNOWN], counts[NO_ROW], counts[WRONG_FRAME], counts[WRONG_VALUE]);
	return 0;
}
