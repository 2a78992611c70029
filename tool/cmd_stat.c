/* SPDX-License-Identifier: MIT */
/* The command `etch stat`: measures one or two commands, and tests a difference for significance. Guide: docs/stat.md.
 */
#include "arguments.h"
#include "command.h"
#include "report/text.h"
#include "stat/measure.h"
#include "stat/output.h"
#include "stat/stat_print.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUNS     5 /* smallest number of runs by which a difference can be told from noise */
#define RUNS_MAX 1000000

struct options {
	enum format format;
	const char *separator;
	struct output output;
	bool pin, quiet, warmup_given;
	struct measurement m;
};

static void help(void)
{
	printf("Usage: etch stat [OPTION...] COMMAND [ARG...] [-- COMMAND_B [ARG...]]\n"
	       "\n"
	       "Runs a command, or two commands in turn (A B A B ...), and shows their cost, including child\n"
	       "processes: task clock, CPU migrations, context switches, page faults, cycles, instructions,\n"
	       "cache references and misses, branches and branch misses, and elapsed time. Each row has the\n"
	       "median and the spread, and for two commands the difference, its confidence interval, and\n"
	       "whether it is more than noise. Counters that this machine lacks are marked.\n"
	       "\n"
	       "  -r, --runs N          run each command N times (default: 5; fewer cannot tell a difference\n"
	       "                        from noise)\n"
	       "  -w, --warmup N        first run each command N times without measuring (default: 1; with\n"
	       "                        --runs 1 or --simulate 0)\n"
	       "      --pin[=CPU]       run the commands on one CPU (default: the last one that is allowed)\n"
	       "      --simulate        count instructions, branches and cache misses with valgrind, which is\n"
	       "                        about 50 times slower but has hardly any noise\n"
	       "      --only NAME       with --simulate, simulate and count only this program, for instance a\n"
	       "                        server without its client; NAME as in PATH or in the command's words\n"
	       "      --files N         with --simulate, for a server that sets its limit of open files to N,\n"
	       "                        which valgrind otherwise refuses (memcached: 1024)\n"
	       "      --work SMALL,LARGE\n"
	       "                        make two runs each, with SMALL and LARGE in place of {} in the\n"
	       "                        commands, and show the values of one unit of work, without set-up\n"
	       "                        and warm-up: (larger run - smaller run) / (LARGE - SMALL)\n"
	       "  -i, --input FILE      use FILE as the standard input of each run\n"
	       "  -q, --quiet           send the standard output of the commands to /dev/null\n"
	       "  -o, --output OUT      write the table to OUT, as a whole or not at all\n"
	       "      --log-fd FD       write the table to an open file descriptor, as perf stat does\n"
	       "      --separator WORD  separate the commands by WORD instead of --, so that -- can be an\n"
	       "                        argument of a command\n"
	       "      --format text|tsv|json\n"
	       "                        format of the table (default: text)\n"
	       "      --json            the same as --format json\n"
	       "  -h, --help            print this help\n"
	       "\n"
	       "The table goes to standard output, and the commands' standard output goes to standard error.\n"
	       "With --output or --log-fd the commands keep standard output. (With --quiet some commands do\n"
	       "less: grep stops at the first match if its output is /dev/null.)\n"
	       "If standard input is a file, each run reads it from the initial offset. A pipe can be read only\n"
	       "once, so with more than one run /dev/null takes its place.\n"
	       "^C ends the command and shows the results so far.\n"
	       "Exit status: 0 done; 1 a command failed in a measured run (the table is shown); 2 a command\n"
	       "could not be run, the table could not be written, or the command line is wrong. After ^C, etch\n"
	       "ends by that signal.\n");
}

/*
 * Returns the CPU for --pin: `wanted` or, if it is null, the last one on which the process may run, since interrupts
 * often go to the first one. Returns -1 after a message.
 */
static int cpu_choose(const char *wanted)
{
	cpu_set_t cpus;
	long cpu;

	if (sched_getaffinity(0, sizeof(cpus), &cpus)) {
		fprintf(stderr, "etch: --pin: cannot get the CPU affinity: %s\n", strerror(errno));
		return -1;
	}
	if (wanted) {
		if (!argument_number("--pin", wanted, 0, CPU_SETSIZE - 1, &cpu))
			return -1;
		if (CPU_ISSET((size_t)cpu, &cpus))
			return (int)cpu;
		fprintf(stderr, "etch: --pin: CPU %ld does not exist or is not allowed\n", cpu);
		return -1;
	}
	for (cpu = CPU_SETSIZE - 1; cpu >= 0 && !CPU_ISSET((size_t)cpu, &cpus); cpu--)
		;
	return (int)cpu;
}

static bool work_take(struct work_sizes *w)
{
	struct error e;

	if (!w->copy && !work_sizes_parse(w, optarg, &e))
		return true;
	text_error("--work", "%s", w->units > 0 ? "is given twice" : e.text);
	return false;
}

/* Handles one option. Returns false, after a message, if the option is wrong. */
static bool option_take(int c, struct options *opt, const char **cpu)
{
	long n = 0;

	switch (c) {
	case 'r':
		if (!argument_number("--runs", optarg, 1, RUNS_MAX, &n))
			return false;
		opt->m.runs = (size_t)n;
		break;
	case 'w':
		if (!argument_number("--warmup", optarg, 0, RUNS_MAX, &n))
			return false;
		opt->m.warmup = (size_t)n;
		opt->warmup_given = true;
		break;
	case 'P':
		opt->pin = true;
		*cpu = optarg;
		break;
	case 'S': opt->m.simulate = true; break;
	case 'Y': opt->m.only = optarg; break;
	case 'N': return argument_number("--files", optarg, 1, 1 << 20, &opt->m.files);
	case 'W': return work_take(&opt->m.work);
	case 'i': opt->m.run.input = optarg; break;
	case 'q': opt->quiet = true; break;
	case 'o': opt->output.path = optarg; break;
	case 'L':
		if (!argument_number("--log-fd", optarg, 0, INT_MAX, &n))
			return false;
		opt->output.fd = (int)n;
		break;
	case 'T': opt->separator = optarg; break;
	case 'F': return argument_format(optarg, &opt->format);
	case 'J': opt->format = FORMAT_JSON; break;
	default: return false;
	}
	return true;
}

/*
 * Parses the options before the first command that is to run. Returns -1 to continue, with the first word of that
 * command at optind; otherwise the exit status.
 */
static int options_parse(int argc, char **argv, struct options *opt)
{
	static const struct option longs[] = {
		{"runs", required_argument, NULL, 'r'},   {"warmup", required_argument, NULL, 'w'},
		{"pin", optional_argument, NULL, 'P'},    {"simulate", no_argument, NULL, 'S'},
		{"only", required_argument, NULL, 'Y'},   {"files", required_argument, NULL, 'N'},
		{"work", required_argument, NULL, 'W'},   {"input", required_argument, NULL, 'i'},
		{"quiet", no_argument, NULL, 'q'},        {"output", required_argument, NULL, 'o'},
		{"log-fd", required_argument, NULL, 'L'}, {"separator", required_argument, NULL, 'T'},
		{"format", required_argument, NULL, 'F'}, {"json", no_argument, NULL, 'J'},
		{"help", no_argument, NULL, 'h'},         {0, 0, NULL, 0},
	};
	const char *cpu = NULL;
	int c;

	while ((c = argument_option(argc, argv, "+r:w:i:qo:h", longs, NULL)) != -1) {
		if (c == 'h') {
			help();
			return EXIT_CLEAN;
		}
		if (!option_take(c, opt, &cpu))
			return EXIT_UNUSABLE;
	}
	if (opt->output.path && opt->output.fd >= 0) {
		fprintf(stderr, "etch: --output cannot be combined with --log-fd\n");
		return EXIT_UNUSABLE;
	}
	if ((opt->m.only || opt->m.files) && !opt->m.simulate) {
		fprintf(stderr, "etch: %s needs --simulate\n", opt->m.only ? "--only" : "--files");
		return EXIT_UNUSABLE;
	}
	opt->m.run.cpu = opt->pin ? cpu_choose(cpu) : -1;
	return opt->pin && opt->m.run.cpu < 0 ? EXIT_UNUSABLE : -1;
}

/* Splits the arguments after the options into one or two commands. Returns false after a message. */
static bool commands_take(struct options *opt, int argc, char **argv)
{
	const char *between = opt->separator ? opt->separator : "--";
	struct measurement *m = &opt->m;
	struct error e;
	int i, start = 0;
	size_t side;

	for (i = 0; i <= argc; i++) {
		if (i < argc && strcmp(argv[i], between))
			continue;
		argv[i] = NULL;
		if (i == start) {
			fprintf(stderr, "etch: no command %s; see etch stat --help\n", start ? "after the separator" : "to run");
			return false;
		}
		if (m->side_count == SIDES_MAX) {
			fprintf(stderr, "etch: more than two commands (use --separator if -- is an argument of one)\n");
			return false;
		}
		m->command[m->side_count++] = argv + start;
		start = i + 1;
	}
	if (m->run.input && access(m->run.input, R_OK)) {
		text_error(m->run.input, "%s", strerror(errno));
		return false;
	}
	for (side = 0; side < m->side_count && m->work.text[0]; side++)
		if (!work_sizes_in(m->command[side])) {
			text_error("--work", "the command %s has no argument with {}, which stands for the size",
			           m->command[side][0]);
			return false;
		}
	for (side = 0; side < m->side_count; side++)
		if (command_check(m->command[side][0], &e)) {
			text_error(m->command[side][0], "%s", e.text);
			return false;
		}
	return true;
}

/* Returns the file descriptor for the standard output of the commands; -1: they use that of etch. */
static int commands_output(const struct options *opt)
{
	int null = opt->quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

	if (null >= 0)
		return null;
	return opt->output.path || opt->output.fd >= 0 ? -1 : STDERR_FILENO;
}

static int show(const struct options *opt)
{
	const struct measurement *m = &opt->m;
	char *data = NULL;
	size_t size = 0;
	FILE *f;
	bool ok;

	if (!m->end[0].runs) {
		fprintf(stderr, "etch: stopped during the first run: nothing was measured\n");
		return EXIT_UNUSABLE;
	}
	f = open_memstream(&data, &size);
	if (f)
		stat_show(m, opt->format, f);
	if (!f || fclose(f)) {
		text_error(NULL, NO_MEMORY);
		free(data);
		return EXIT_UNUSABLE;
	}
	ok = output_put(&opt->output, data, size);
	free(data);
	if (!ok)
		return EXIT_UNUSABLE;
	return m->end[0].failed || m->end[1].failed ? EXIT_FINDINGS : EXIT_CLEAN;
}

static int run_and_show(struct options *opt)
{
	struct measurement *m = &opt->m;
	const char *about;
	struct error e;
	int status;

	if (!opt->warmup_given)
		m->warmup = m->runs > 1 && !m->simulate;
	m->run.out = commands_output(opt);
	/* No progress is shown if the commands write to the terminal. */
	m->progress = !isatty(m->run.out < 0 ? STDOUT_FILENO : m->run.out);
	if (measure(m, &about, &e)) {
		text_error(about ? about : "stat", "%s", e.text);
		if (m->end[0].runs)
			show(opt);
		return EXIT_UNUSABLE;
	}
	status = show(opt);
	if (m->stopped && !fflush(stdout)) {
		/* Ends by the signal that ended the command, so that a shell script's loop ends, too. */
		signal(m->stopped, SIG_DFL);
		raise(m->stopped);
	}
	return status;
}

int cmd_stat(int argc, char **argv)
{
	struct options opt = {
		.format = FORMAT_TEXT, .output = {.fd = -1}, .m = {.runs = RUNS, .run = {.input_keep = true}}};
	int status;

	status = options_parse(argc, argv, &opt);
	if (status < 0 && optind == argc) {
		fprintf(stderr, "etch: no command to run; see etch stat --help\n");
		status = EXIT_UNUSABLE;
	}
	if (status < 0 && (!commands_take(&opt, argc - optind, argv + optind) || !output_check(&opt.output)))
		status = EXIT_UNUSABLE;
	if (status < 0)
		status = run_and_show(&opt);
	measurement_free(&opt.m);
	return status;
}
