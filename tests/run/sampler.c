/* SPDX-License-Identifier: MIT */
/*
 * sampler.c: for LD_PRELOAD into any program: where do walks of its stack end?
 *
 * A timer interrupts each process of the program a thousand times a second; the handler
 * walks from the interrupted instruction with libetch and counts how the walk ended and
 * at which frame. Of every SAMPLER_COMPARE-th sample (16), and of the first walk that
 * ends somewhere, libunwind walks the same stack, and it is counted where the two differ. Of
 * each that stops it does, too, and it is counted how far it comes.
 *
 * SAMPLER_ONLY=signals leaves out the walks, and SAMPLER_ONLY=nothing the signals too: what a
 * program does differently then it does because of them, and of no walk.
 *
 * SAMPLER_DIR=DIR turns it on. All counts are in a file DIR/PID.TICKS that is mapped
 * shared, so that a process may end in any way; tests/run/samples.py reads it. What
 * fork(2) makes has a file of its own, and so has what exec(2) runs.
 *
 * The handler runs on a thread stopped anywhere: no malloc, no lock that it waits for,
 * no libc but _dl_find_object(3). A walk needs an array for its frames; there are WALKS
 * of them, and a sample that finds none free is counted as lost.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <linux/seccomp.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <etch/unwind.h>

#define WALKS   4
#define FRAMES  (1 << 20) /* twice what 8 MB of stack hold in frames of 16 bytes */
#define MODULES 512
#define PLACES  1024
#define RAN     100000 /* nanoseconds of CPU time since the sample before */
#define SHOWN   40   /* frames of an example */
#define BEFORE  12   /* of them before the one it is about */
#define ON      1000 /* frames that libunwind may have more */

/* How a sample of two walks differed. Other kinds of places are enum etch_unwind_status. */
enum {
	THEIRS_SHORT = 101, /* libunwind gave up, or ended, at a frame where libetch goes on */
	THEIRS_LONG,        /* libunwind goes on where libetch gave up */
	THEIRS_PAST_END,    /* libunwind goes on where libetch says that the stack ends */
	FRAMES_DIFFER,      /* two different callers of one frame */
};

/* In what kind of memory the frame is that a place is about. */
enum { IN_MODULE, IN_JIT, IN_FILE, IN_NOTHING };

/* A frame, as the file has it: its module's number + 1 and the offset there; 0 and the
 * address. */
#define FRAME(module, offset) ((uint64_t)((module) + 1) << 48 | ((offset) & 0xffffffffffffu))

/* Where walks end, or where two walks differ. */
struct place {
	uint64_t address;  /* of the frame; in JIT code that of the mapping; 0: a free place */
	int32_t kind;
	uint32_t in;
	uint64_t count;
	uint32_t frames, at;     /* of the example: how many, and which one it is about */
	uint32_t first, their_frames;
	int32_t their_status;    /* what unw_step() said last */
	uint32_t zero;
	uint64_t theirs_on, theirs_end; /* of walks that stop here: libunwind went on, and to an end that a row knows */
	uint64_t ours[SHOWN], theirs[SHOWN]; /* its frames from `first` on */
};

struct module {
	uint64_t start, end, bias;
	uint32_t own_table, ready;
	char name[232];
};

/* samples.py has this layout, too. */
struct report {
	uint64_t magic, pid, size, finished;
	uint64_t samples, idle, lost, frames, compared, full; /* full: no place left */
	uint64_t deepest;
	char program[248];
	uint64_t modules, places;
	struct module module[MODULES];
	struct place place[PLACES];
};
#define MAGIC 0x31656c706d617365ull

static struct report *report;

struct walk {
	int taken;
	void *ours[FRAMES];
	char text[4096];
};
static struct walk walk[WALKS];

static int (*unw_init)(unw_cursor_t *, unw_context_t *, int);
static int (*unw_next)(unw_cursor_t *);
static int (*unw_get)(unw_cursor_t *, int, unw_word_t *);

static unsigned compare_every = 16;
/* What of it is wanted: SAMPLER_ONLY. */
static enum { WALKS_TOO, SIGNALS, NOTHING } only;

#define COUNT(field, n) __atomic_fetch_add(&report->field, n, __ATOMIC_RELAXED)

/* ---- what an address is in ---------------------------------------------------- */

/* Does this module bring a table: a segment that begins with etch's note. */
static int own_table(uint64_t start, uint64_t bias, int program)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)start;
	const Elf64_Phdr *p;
	size_t n;

	/* Of a program whose segments leave pages out between them glibc names the segment that an
	 * address is in, which need not begin with the ELF header. */
	if (program) {
		p = (const Elf64_Phdr *)getauxval(AT_PHDR);
		n = getauxval(AT_PHNUM);
	} else if (memcmp(h->e_ident, ELFMAG, SELFMAG)) {
		return 0;
	} else {
		p = (const Elf64_Phdr *)(start + h->e_phoff);
		n = h->e_phnum;
	}
	while (n--)
		if (p[n].p_type == PT_LOAD && p[n].p_flags == PF_R && p[n].p_filesz >= 32 &&
		    !memcmp((const char *)(bias + p[n].p_vaddr) + 12, "etch", 5))
			return 1;
	return 0;
}

static void module_fill(struct module *m, const struct dl_find_object *o)
{
	const char *name = o->dlfo_link_map->l_name;
	uint64_t start = (uint64_t)o->dlfo_map_start;
	int program = !name || !name[0];

	m->start = start;
	m->end = (uint64_t)o->dlfo_map_end;
	m->bias = o->dlfo_link_map->l_addr;
	m->own_table = (uint32_t)own_table(start, m->bias, program);
	if (program)
		name = report->program;
	for (size_t i = 0; i + 1 < sizeof(m->name) && name[i]; i++)
		m->name[i] = name[i];
	__atomic_store_n(&m->ready, 1, __ATOMIC_RELEASE);
}

/* The number of a module in the report, or -1. */
static int module_of(uint64_t at)
{
	struct dl_find_object o;
	uint64_t n = __atomic_load_n(&report->modules, __ATOMIC_ACQUIRE);

	if (_dl_find_object((void *)at, &o))
		return -1;
	for (uint64_t i = 0; i < n && i < MODULES; i++)
		if (report->module[i].start == (uint64_t)o.dlfo_map_start &&
		    report->module[i].bias == o.dlfo_link_map->l_addr)
			return (int)i;
	/* Two threads may both add it; samples.py adds up by name. */
	n = COUNT(modules, 1);
	if (n >= MODULES)
		return -1;
	module_fill(&report->module[n], &o);
	return (int)n;
}

static uint64_t frame_of(uint64_t at)
{
	int m = module_of(at);

	return m < 0 ? at & 0xffffffffffffu : FRAME(m, at - report->module[m].bias);
}

static uint64_t hex(const char **p)
{
	uint64_t v = 0;

	for (;; (*p)++) {
		unsigned c = (unsigned char)**p;

		if (c - '0' < 10)
			v = v << 4 | (c - '0');
		else if (c - 'a' < 6)
			v = v << 4 | (c - 'a' + 10);
		else
			return v;
	}
}

/* A line of /proc/self/maps: is `at` in it, and where does the mapping begin? */
static int maps_line(const char *line, uint64_t at, uint64_t *start)
{
	uint64_t from = hex(&line), to;
	int i;

	line++;
	to = hex(&line);
	if (at - from >= to - from)
		return -1;
	*start = from;
	if (line[3] != 'x')
		return IN_NOTHING;
	for (i = 0; *line && i < 4; line++) /* permissions, offset, device, inode */
		i += *line == ' ';
	/* A JIT may map a file of no name twice: memfd, or one that is deleted. */
	return *line == '0' || strstr(line, "memfd:") || strstr(line, "(deleted)") ? IN_JIT : IN_FILE;
}

/* What is mapped at an address that is in no module, from /proc/self/maps. */
static int mapping_of(uint64_t at, struct walk *w, uint64_t *start)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), kind = IN_NOTHING, got;
	size_t have = 0;

	*start = at;
	while (fd >= 0 && (have >= sizeof(w->text) - 1 || (got = (int)read(fd, w->text + have, sizeof(w->text) - 1 - have)) > 0)) {
		char *line = w->text, *end;

		have += (size_t)got;
		w->text[have] = 0;
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			got = maps_line(line, at, start);
			if (got >= 0) {
				close(fd);
				return got;
			}
		}
		have -= (size_t)(line - w->text);
		memmove(w->text, line, have);
	}
	if (fd >= 0)
		close(fd);
	return kind;
}

/* ---- places ------------------------------------------------------------------- */

/* The place for this address and kind; *new: it is the first of them. Null: no room. */
static struct place *place_get(uint64_t address, int kind, int *new)
{
	uint64_t h = (address ^ (uint64_t)(uint32_t)kind << 56) * 0x9e3779b97f4a7c15u >> 54;

	_Static_assert(PLACES == 1 << 10, "the hash has 10 bits");
	*new = 0;
	for (int i = 0; i < 64; i++, h = (h + 1) % PLACES) {
		struct place *p = &report->place[h];
		uint64_t none = 0;

		/* Of two threads at once one waits for no other: it counts in the next place. */
		if (__atomic_load_n(&p->address, __ATOMIC_ACQUIRE) == address && p->kind == kind)
			return p;
		if (!p->address && __atomic_compare_exchange_n(&p->address, &none, address, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			p->kind = kind;
			*new = 1;
			COUNT(places, 1);
			return p;
		}
	}
	COUNT(full, 1);
	return NULL;
}

/* Has a walk ended here, at a row that says that the stack ends? */
static int end_seen(uint64_t address)
{
	for (int i = 0; i < PLACES; i++)
		if (report->place[i].address == address && report->place[i].kind == ETCH_UNWIND_END)
			return 1;
	return 0;
}

/* Where libunwind differs. */
struct difference {
	int kind;        /* 0: nowhere */
	int at;          /* frame */
	int frames, status;
	uint64_t last;   /* libunwind's last frame */
	uint64_t theirs[SHOWN];
};

/* Both walks side by side; libunwind's frames from `first` on go into the example. */
static void compare(struct difference *d, ucontext_t *u, const struct walk *w, int n, int status, int first)
{
	unw_cursor_t c;
	int i;

	d->kind = 0;
	d->at = n - 1;
	d->frames = 0;
	d->last = 0;
	d->status = unw_init(&c, (unw_context_t *)u, UNW_INIT_SIGNAL_FRAME);
	if (d->status < 0)
		return;
	for (i = 0; i < n + ON; i++) {
		unw_word_t ip;

		if (unw_get(&c, UNW_REG_IP, &ip) < 0 || !ip)
			break;
		d->last = ip;
		if (i >= first && i - first < SHOWN)
			d->theirs[i - first] = ip;
		d->frames = i + 1;
		if (i < n && !d->kind && ip != (uint64_t)w->ours[i]) {
			d->kind = FRAMES_DIFFER;
			d->at = i ? i - 1 : 0; /* the frame whose caller it is */
		}
		d->status = unw_next(&c);
		if (d->status <= 0)
			break;
	}
	if (!d->kind && d->frames < n) {
		d->kind = THEIRS_SHORT;
		d->at = d->frames - 1;
	} else if (!d->kind && d->frames > n) {
		d->kind = status == ETCH_UNWIND_END ? THEIRS_PAST_END : THEIRS_LONG;
	}
}

static void example(struct place *p, const struct walk *w, int n, int at, int first, const struct difference *d)
{
	p->frames = (uint32_t)n;
	p->at = (uint32_t)at;
	p->first = (uint32_t)first;
	for (int i = 0; i < SHOWN && first + i < n; i++)
		p->ours[i] = frame_of((uint64_t)w->ours[first + i]);
	if (!d)
		return;
	p->their_frames = (uint32_t)d->frames;
	p->their_status = d->status;
	for (int i = 0; i < SHOWN && first + i < d->frames; i++)
		p->theirs[i] = frame_of(d->theirs[i]);
}

static int first_shown(int at)
{
	return at > BEFORE ? at - BEFORE : 0;
}

static void difference_count(ucontext_t *u, struct walk *w, int n, int status)
{
	struct difference d, again;
	struct place *p;
	int new;

	COUNT(compared, 1);
	compare(&d, u, w, n, status, first_shown(n - 1));
	if (!d.kind)
		return;
	p = place_get((uint64_t)w->ours[d.at], d.kind, &new);
	if (!p)
		return;
	__atomic_fetch_add(&p->count, 1, __ATOMIC_RELAXED);
	if (!new)
		return;
	compare(&again, u, w, n, status, first_shown(d.at));
	example(p, w, n, d.at, first_shown(d.at), &again);
}

/* ---- samples ------------------------------------------------------------------ */

static void end_count(ucontext_t *u, struct walk *w, int n, int status, unsigned long serial)
{
	uint64_t last = n ? (uint64_t)w->ours[n - 1] : 0, start = last;
	int in = IN_MODULE, new;
	struct place *p;
	struct difference d = { .kind = 0 };

	if (status < 0 && module_of(last) < 0) {
		in = mapping_of(last, w, &start);
		last = in == IN_JIT || in == IN_FILE ? start : last;
	}
	p = place_get(last ? last : 1, status, &new);
	if (p) {
		__atomic_fetch_add(&p->count, 1, __ATOMIC_RELAXED);
		/* The first of a place, and each that stops. */
		if (unw_next && in == IN_MODULE && n < 4096 && (new || status < 0))
			compare(&d, u, w, n, status, first_shown(n - 1));
		if (status < 0 && d.frames > n) {
			__atomic_fetch_add(&p->theirs_on, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&p->theirs_end, end_seen(d.last), __ATOMIC_RELAXED);
		}
		if (new) {
			p->in = (uint32_t)in;
			example(p, w, n, n - 1, first_shown(n - 1), d.frames ? &d : NULL);
		}
	}
	/* What JIT code has done with rbp is nobody's to guess. */
	if (unw_next && in == IN_MODULE && n < 4096 && serial % compare_every == 0)
		difference_count(u, w, n, status);
}

static uint64_t last_ran;

/* How much the process has run since this was asked last, in nanoseconds. */
static uint64_t ran_since(void)
{
	struct timespec t;
	uint64_t now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	return now - __atomic_exchange_n(&last_ran, now, __ATOMIC_RELAXED);
}

/*
 * Has the process hardly run since the last signal? One that waits shows the same stack
 * a thousand times a second.
 */
static int idle(void)
{
	uint64_t ran = ran_since();

	return ran < RAN || ran > (uint64_t)1 << 62;
}

static void count(ucontext_t *context)
{
	int n, status = 0, i = 0;
	unsigned long serial;
	struct walk *w;

	while (i < WALKS && __atomic_exchange_n(&walk[i].taken, 1, __ATOMIC_ACQUIRE))
		i++;
	if (i == WALKS) {
		COUNT(lost, 1);
		return;
	}
	w = &walk[i];
	n = etch_backtrace_from(context, w->ours, FRAMES, &status);
	serial = COUNT(samples, 1);
	COUNT(frames, (uint64_t)n);
	if ((uint64_t)n > report->deepest)
		report->deepest = (uint64_t)n;
	end_count(context, w, n, status, serial);
	__atomic_store_n(&w->taken, 0, __ATOMIC_RELEASE);
	ran_since(); /* what a walk of a deep stack takes is not the program's time */
}

/* Timers of this process: of its time on CPUs, and of all time. */
static timer_t timer[2];
static int timers; /* a bit each: 0 is a timer, too */

#define PERIOD      1000000 /* nanoseconds */
#define PERIOD_MOST 64000000
#define WAITS       16 /* signals in a row: fewer may mean that others had the CPU */
static long period = PERIOD; /* between two samples; longer while the process waits */
static int waited;

/*
 * The timer of all time fires once, and again that long after the sample is done: where a walk and a
 * signal take longer than a period the program goes on, and one that waits is woken seldom.
 */
static void timer_again(void)
{
	struct itimerspec once = { .it_value = { 0, period } };

	if (timers & 2)
		timer_settime(timer[1], 0, &once, NULL);
}

static void sample(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)sig, (void)info;
	if (idle()) {
		COUNT(idle, 1);
		if (++waited > WAITS)
			period = period < PERIOD_MOST / 2 ? 2 * period : PERIOD_MOST;
	} else {
		waited = 0;
		period = PERIOD;
		if (!only)
			count(context);
	}
	timer_again();
	errno = saved;
}

/* ---- processes ---------------------------------------------------------------- */

static const char *directory;
static int sampling __attribute__((used));

/* A report of this process, in place of what was there. */
static int report_begin(void)
{
	char name[300];
	struct timespec t;
	void *to;
	int fd;

	clock_gettime(CLOCK_MONOTONIC, &t);
	snprintf(name, sizeof(name), "%s/%d.%lld%09ld", directory, (int)getpid(), (long long)t.tv_sec, t.tv_nsec);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	if (ftruncate(fd, sizeof(*report))) {
		close(fd);
		return -1;
	}
	to = mmap(report, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | (report ? MAP_FIXED : 0), fd, 0);
	close(fd);
	if (to == MAP_FAILED)
		return -1;
	report = to;
	report->pid = (uint64_t)getpid();
	report->size = sizeof(*report);
	if (readlink("/proc/self/exe", report->program, sizeof(report->program) - 1) < 0)
		report->program[0] = 0;
	__atomic_store_n(&report->magic, MAGIC, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Timers of timer_create(2) are not inherited, nor kept by exec(2): a process that has
 * no handler is never signalled. One counts the process's time on CPUs and finds the
 * thread that runs; it fires on the kernel's ticks, 100 to 1,000 a second. The other
 * one is exact, and meets system calls (timer_again()).
 */
static void timers_begin(void)
{
	static const clockid_t clocks[2] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_MONOTONIC };
	struct itimerspec each = { { 0, PERIOD }, { 0, PERIOD } };
	struct sigevent e;

	timers = 0;
	if (only == NOTHING)
		return;
	memset(&e, 0, sizeof(e));
	e.sigev_notify = SIGEV_SIGNAL;
	e.sigev_signo = SIGPROF;
	for (int i = 0; i < 2; i++)
		if (!timer_create(clocks[i], &e, &timer[i])) {
			timers |= 1 << i;
			if (!i)
				timer_settime(timer[i], 0, &each, NULL);
		}
	period = PERIOD;
	timer_again();
}

static int libc_sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	static int (*next)(int, const struct sigaction *, struct sigaction *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "sigaction");
	return next(sig, new, old);
}

/* No signal from here on, nor one that waits already. */
static void timers_end(void)
{
	struct sigaction a = { .sa_handler = SIG_IGN };

	for (int i = 0; i < 2; i++)
		if (timers & 1 << i)
			timer_delete(timer[i]);
	timers = 0;
	libc_sigaction(SIGPROF, &a, NULL);
}

static void child(void)
{
	for (int i = 0; i < WALKS; i++)
		walk[i].taken = 0;
	last_ran = 0;
	if (report_begin()) {
		/* Count into memory that nobody reads. */
		mmap(report, sizeof(*report), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		return;
	}
	timers_begin();
}

/* Can a page be read? lib/stack.c says how this tells. */
static int readable(uint64_t at)
{
	long ret;
	register long size __asm__("r10") = 8;

	__asm__ volatile("syscall" : "=a"(ret) : "0"(SYS_rt_sigprocmask), "D"(~0L), "S"(at & ~4095ul), "d"(0L), "r"(size)
	                 : "rcx", "r11", "memory");
	return ret == -EINVAL;
}

/*
 * How libunwind reads memory. Of its own accord it asks whether it can by way of a pipe that it has
 * opened: in a child that has closed all files (chromium's) that reads, and writes, what the
 * program has opened since under these numbers.
 */
static int read_word(unw_addr_space_t as, unw_word_t at, unw_word_t *word, int write, void *arg)
{
	(void)as, (void)arg;
	if (write || !readable(at) || !readable(at + 7))
		return -UNW_EINVAL;
	memcpy(word, (const void *)at, sizeof(*word));
	return 0;
}

static void libunwind_begin(void)
{
	unw_accessors_t *(*accessors)(unw_addr_space_t);
	unw_addr_space_t *local;
	const char *every = getenv("SAMPLER_COMPARE");
	void *lib;

	if (every)
		compare_every = (unsigned)atoi(every);
	if (!compare_every)
		return;
	/* Not linked with it: it would catch the exceptions of C++ in libgcc's place. */
	lib = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return;
	*(void **)&accessors = dlsym(lib, "_Ux86_64_get_accessors");
	*(void **)&local = dlsym(lib, "_ULx86_64_local_addr_space");
	if (!accessors || !local)
		return;
	accessors(*local)->access_mem = read_word;
	*(void **)&unw_init = dlsym(lib, "_ULx86_64_init_local2");
	*(void **)&unw_get = dlsym(lib, "_ULx86_64_get_reg");
	*(void **)&unw_next = dlsym(lib, "_ULx86_64_step");
}

/*
 * The program's own wishes about SIGPROF are not followed: without a handler the next
 * signal would end it. (vim(1) resets all that it knows of.)
 */
__attribute__((visibility("default"))) int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	return libc_sigaction(sig, sig == SIGPROF && sampling ? NULL : new, old);
}

__attribute__((visibility("default"))) sighandler_t signal(int sig, sighandler_t handler)
{
	static sighandler_t (*next)(int, sighandler_t);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "signal");
	return sig == SIGPROF && sampling ? SIG_DFL : next(sig, handler);
}

/*
 * chromium's children ask the kernel for all defaults before they run a program, and a signal then ends
 * them. As the C library's, but that SIGPROF stays as it is; in assembly, since a clone(2) by it
 * returns on another stack.
 */
__asm__(".text\n.globl syscall\n.type syscall, @function\nsyscall:\n\t.cfi_startproc\n"
	"cmpl $13, %edi\n\tjne 1f\n\tcmpl $27, %esi\n\tjne 1f\n\t" /* rt_sigaction, SIGPROF */
	"cmpl $0, sampling(%rip)\n\tje 1f\n\txorl %edx, %edx\n"
	"1:\tmovq %rdi, %rax\n\tmovq %rsi, %rdi\n\tmovq %rdx, %rsi\n\tmovq %rcx, %rdx\n\t"
	"movq %r8, %r10\n\tmovq %r9, %r8\n\tmovq 8(%rsp), %r9\n\tsyscall\n\t"
	"cmpq $-4095, %rax\n\tjae 2f\n\tret\n"
	"2:\tnegl %eax\n\tmovl %eax, %edi\n\tjmp system_call_failed\n\t"
	".cfi_endproc\n.size syscall, . - syscall");

__attribute__((used)) static long system_call_failed(int error)
{
	errno = error;
	return -1;
}

/*
 * A process that confines itself allows the system calls that it makes itself; the return from a
 * signal handler need not be one of them, and then the kernel ends it (sshd's unprivileged child).
 * From here on it is not sampled.
 */
__attribute__((visibility("default"))) int prctl(int option, ...)
{
	unsigned long arg[4];
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arg[i] = va_arg(list, unsigned long);
	va_end(list);
	/* Without a filter it only asks (firefox). */
	if (option == PR_SET_SECCOMP && sampling && (arg[0] == SECCOMP_MODE_STRICT || arg[1]))
		timers_end();
	return (int)syscall(SYS_prctl, option, arg[0], arg[1], arg[2], arg[3]);
}

__attribute__((constructor)) static void start(void)
{
	const char *what = getenv("SAMPLER_ONLY");
	struct sigaction a;

	directory = getenv("SAMPLER_DIR");
	if (!directory || report_begin())
		return;
	if (what)
		only = strcmp(what, "signals") ? NOTHING : SIGNALS;
	libunwind_begin();
	if (!only && getenv("SAMPLER_PREPARE"))
		etch_unwind_prepare();
	memset(&a, 0, sizeof(a));
	a.sa_sigaction = sample;
	/* On a signal stack where there is one: some programs' others are small. */
	a.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	sigaction(SIGPROF, &a, NULL);
	sampling = 1;
	pthread_atfork(NULL, NULL, child);
	timers_begin();
}

__attribute__((destructor)) static void finish(void)
{
	if (report)
		report->finished = 1;
}
