/* SPDX-License-Identifier: MIT */
/*
 * Backtraces from fixups, and from handlers of faults that go on at one: the table of
 * `etch rewrite` alone says how, for the assembly has no .eh_frame.
 */
#include <etch/extable.h>
#include <etch/unwind.h>

#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

long walk_frame(const char *p), walk_section(const char *p), walk_far(const char *p);

static const char *name;
static void *outer;
static int wrong;

static void say(const char *where, void **ips, int n, int status)
{
	int i, found = 0;

	for (i = 0; i < n; i++)
		found |= ips[i] == outer;
	/* After main is libc, which has no table here. */
	printf("%s %s: %s, %s\n", name, where, etch_unwind_strerror(status), found ? "main" : "lost");
	wrong |= !found;
}

/* Called by the fixups. */
long walk_probe(void);
long walk_probe(void)
{
	int status, n;
	void *ips[64];

	n = etch_backtrace_from(NULL, ips, 64, &status);
	say("at its fixup", ips, n, status);
	return 1;
}

static void handler(int sig, siginfo_t *info, void *context)
{
	int status, n;
	void *ips[64];

	(void)info;
	n = etch_backtrace_from(context, ips, 64, &status);
	say("at the fault", ips, n, status);
	if (!etch_fixup_exception(context))
		signal(sig, SIG_DFL);
	n = etch_backtrace_from(context, ips, 64, &status);
	say("before its fixup", ips, n, status);
}

__attribute__((noinline)) static void all(void)
{
	outer = __builtin_return_address(0);
	name = "frame";
	wrong |= walk_frame((const char *)16) != 1;
	name = "section";
	wrong |= walk_section((const char *)16) != 1;
	name = "far";
	wrong |= walk_far((const char *)16) != 1;
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &sa, NULL);
	all();
	return wrong;
}
