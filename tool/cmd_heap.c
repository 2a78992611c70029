/* SPDX-License-Identifier: MIT */
/* The command `etch heap`: shows who allocates a program's memory, by the stack of each allocation. Guide:
 * docs/guides/heap.md. */
#include "arguments.h"
#include "command.h"
#include "heap/heap_session.h"
#include "heap/heap_top.h"
#include "profile/profile_output.h"
#include "report/text.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS_DEFAULT 15
#define SAMPLE_MOST  (1L << 30)

struct options {
	struct heap_options heap;
	struct profile_output output;
	int measure; /* enum heap_measure */
	bool quiet;
	long rows;
};

static void help(void)
{
	printf("Usage: etch heap [OPTION...] COMMAND [ARG...]\n"
	       "\n"
	       "Runs a command and shows which code allocates its memory: it records every malloc, calloc,\n"
	       "realloc, operator new and the like, in all threads and children, with the whole stack. For each\n"
	       "stack it keeps three sums: the bytes that were never freed (leaked), the bytes that were live\n"
	       "when the process had the most (peak), and all bytes that were ever allocated (total).\n"
	       "A table goes to standard error; a picture, or a file for a viewer, goes to --output.\n"
	       "\n"
	       "  -m, --measure leaked|peak|total\n"
	       "                        the sum that the table is sorted by and that the picture shows\n"
	       "                        (default: peak)\n"
	       "  -o, --output FILE     write the profile to FILE, as a whole or not at all; the name decides\n"
	       "                        the format: .svg, .pb.gz, .json, and folded for any other name\n"
	       "      --format svg|pprof|firefox|folded\n"
	       "                        svg: a flame graph for a browser, with zoom and search; pprof: for\n"
	       "                        go tool pprof, with all three sums; firefox: for\n"
	       "                        profiler.firefox.com; folded: one line per stack, for flamegraph.pl\n"
	       "                        or speedscope. Without --output, the profile goes to standard\n"
	       "                        output, and the command's standard output goes to standard error\n"
	       "      --sample BYTES    record about one allocation for each BYTES bytes, and estimate the\n"
	       "                        sums from these\n"
	       "      --frame-pointers  follow rbp in code made at run time (by a JIT compiler), which no table\n"
	       "                        describes. This guess is right for code that keeps a frame pointer\n"
	       "      --no-follow       record only the process of the command, and no children\n"
	       "      --directory DIR   keep recordings in DIR while the command runs (default: /dev/shm, or\n"
	       "                        $TMPDIR)\n"
	       "  -n, --rows N          show N functions in the table (default: 15)\n"
	       "  -q, --quiet           do not print the table\n"
	       "  -h, --help            print this help\n"
	       "\n"
	       "Examples:\n"
	       "  etch heap python3 -m json.tool big.json /dev/null     what is live at the peak?\n"
	       "  etch heap -m leaked -o leaks.svg ./server             what is never freed?\n"
	       "  etch heap -m total g++ -fsyntax-only a.cc             what is allocated over and over?\n"
	       "\n"
	       "The recorder is a preloaded library, so it cannot record static programs or set-user-ID\n"
	       "programs. It does not see memory from mmap(2): run Python with PYTHONMALLOC=malloc to see each\n"
	       "object.\n"
	       "Exit status: that of the command, or 128+N if signal N ended it; 2 if the command could not be\n"
	       "run, or if it ended with 0 but could not be recorded or the profile could not be written. After\n"
	       "^C, etch ends by that signal.\n");
}

/* Handles one option. Returns false, after a message, if the option is wrong. */
static bool option_take(int c, struct options *opt)
{
	static const char *const measures[] = {
		[MEASURE_TOTAL] = "total", [MEASURE_PEAK] = "peak", [MEASURE_LEAKED] = "leaked", NULL};
	long n = 0;

	switch (c) {
	case 'o': opt->output.to.path = optarg; break;
	case 'M': opt->output.kind = argument_word("--format", profile_kinds, optarg); return opt->output.kind >= 0;
	case 'm': opt->measure = argument_word("--measure", measures, optarg); return opt->measure >= 0;
	case 'S':
		if (!argument_number("--sample", optarg, 1, SAMPLE_MOST, &n))
			return false;
		opt->heap.sample = (uint64_t)n;
		break;
	case 'P': opt->heap.frame_pointers = true; break;
	case 'N': opt->heap.follow = false; break;
	case 'D': opt->heap.directory = optarg; break;
	case 'n': return argument_number("--rows", optarg, 0, 1000000, &opt->rows);
	case 'q':
		opt->quiet = true;
		text_quiet_set();
		break;
	default: return false;
	}
	return true;
}

/*
 * Parses the options before the command that is to run. Returns -1 to continue, with the first word of that command at
 * optind; otherwise the exit status.
 */
static int options_parse(int argc, char **argv, struct options *opt)
{
	static const struct option longs[] = {
		{"output", required_argument, NULL, 'o'},
		{"format", required_argument, NULL, 'M'},
		{"measure", required_argument, NULL, 'm'},
		{"sample", required_argument, NULL, 'S'},
		{"frame-pointers", no_argument, NULL, 'P'},
		{"no-follow", no_argument, NULL, 'N'},
		{"directory", required_argument, NULL, 'D'},
		{"rows", required_argument, NULL, 'n'},
		{"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{0, 0, NULL, 0},
	};
	struct options_given given = {{false}};
	int c;

	while ((c = argument_option(argc, argv, "+o:m:n:qh", longs, &given)) != -1) {
		if (c == 'h') {
			help();
			return EXIT_CLEAN;
		}
		if (!option_take(c, opt))
			return EXIT_UNUSABLE;
	}
	if (opt->quiet && !argument_none_of(&given, longs, "n", "cannot be combined with --quiet"))
		return EXIT_UNUSABLE;
	return -1;
}

static bool command_take(struct options *opt, char **command)
{
	struct error e;

	if (!*command) {
		fprintf(stderr, "etch: no command to run; see etch heap --help\n");
		return false;
	}
	opt->heap.command = command;
	if (heap_command_check(*command, &e)) {
		text_error(*command, "%s", e.text);
		return false;
	}
	if (!profile_output_check(&opt->output))
		return false;
	opt->heap.to_stderr = profile_output_is_stdout(&opt->output);
	return true;
}

static int heap_put(struct heap_profile *h, const struct options *opt, const struct heap_end *end)
{
	const char *command = opt->heap.command[0];
	char title[PROFILE_TITLE_MOST];

	if (!h->processes && !h->lost_files) {
		text_error(command, "nothing was recorded: the dynamic linker did not load the recorder");
		return EXIT_UNUSABLE;
	}
	if (!h->processes) {
		text_error(command, "nothing was recorded: %s", h->lost_file.text);
		return EXIT_UNUSABLE;
	}
	if (!opt->quiet) {
		if (!heap_top(h, (size_t)opt->rows, isatty(STDERR_FILENO), stderr)) {
			text_error(NULL, NO_MEMORY);
			return EXIT_UNUSABLE;
		}
		heap_summary(h, stderr);
	}
	if (!opt->quiet) {
		if (end->running)
			fprintf(stderr, "%llu process%s counted as of now\n", (unsigned long long)end->running,
			        end->running == 1 ? " still runs, and is" : "es still run, and are");
		if (end->signal)
			fprintf(stderr, "the command was ended by signal %d (%s)\n", end->signal, strsignal(end->signal));
	}
	/* This message appears even with --quiet, since incomplete numbers must not look complete. */
	heap_missing(h, stderr);
	profile_title(opt->heap.command, title);
	if (!profile_output_write(h->profile, &opt->output, title))
		return EXIT_UNUSABLE;
	profile_output_announce(&opt->output, "heap");
	return EXIT_CLEAN;
}

static int run_and_show(struct options *opt)
{
	struct heap_profile h = {.profile = profile_new(), .measure = (enum heap_measure)opt->measure};
	struct heap_end end = {0};
	struct error e;
	int status;

	if (!h.profile) {
		text_error(NULL, NO_MEMORY);
		return EXIT_UNUSABLE;
	}
	if (heap_run(&opt->heap, &h, &end, &e)) {
		text_error(opt->heap.command[0], "%s", e.text);
		status = EXIT_UNUSABLE;
	} else if (h.profile->no_memory || !profile_name(h.profile, profile_output_has_lines(&opt->output))) {
		text_error(NULL, NO_MEMORY);
		status = EXIT_UNUSABLE;
	} else {
		status = heap_put(&h, opt, &end);
	}
	profile_free(h.profile);
	free(h.each);
	if (end.stopped && !fflush(stdout)) {
		/* Ends by the signal that ended the command, so that a shell script's loop ends, too. */
		signal(end.stopped, SIG_DFL);
		raise(end.stopped);
	}
	return end.status ? end.status : status;
}

int cmd_heap(int argc, char **argv)
{
	struct options opt = {
		.output = {.to = {.fd = -1}, .kind = KIND_NONE}, .rows = ROWS_DEFAULT, .measure = MEASURE_PEAK};
	int status;

	opt.heap.follow = true;
	status = options_parse(argc, argv, &opt);
	if (status >= 0)
		return status;
	return command_take(&opt, argv + optind) ? run_and_show(&opt) : EXIT_UNUSABLE;
}
