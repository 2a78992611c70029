/* SPDX-License-Identifier: MIT */
/* The command `etch profile`: shows where a program's time goes, by samples of its stacks. Guide:
 * docs/guides/profile.md. */
#include "arguments.h"
#include "command.h"
#include "profile/compare.h"
#include "profile/folded_read.h"
#include "profile/profile_output.h"
#include "profile/session.h"
#include "profile/writers.h"
#include "report/text.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HZ_DEFAULT   1000
#define HZ_MOST      50000
#define ROWS_DEFAULT 20

struct options {
	struct session_options session;
	struct profile_output output;
	bool quiet;
	long rows;
	double duration;
	struct options_given given;
	/* If files with profiles are given instead of a command: whether to compare them or to add them up. */
	enum { FILES_NONE, FILES_DIFF, FILES_MERGE } files;
	char **olds, **news; /* the files of both sides; --merge uses only the first list */
	size_t old_count, new_count;
	int unit; /* the enum profile_unit of the numbers in the files */
};

static void help(void)
{
	printf("Usage: etch profile [OPTION...] COMMAND [ARG...]\n"
	       "       etch profile [OPTION...] -p PID [--duration SECONDS]\n"
	       "       etch profile --diff [-o FILE.svg] OLD NEW\n"
	       "       etch profile --diff [-o FILE.svg] OLD... -- NEW...\n"
	       "       etch profile --merge [OPTION...] FILE...\n"
	       "\n"
	       "Runs a command, or attaches to a running process, and shows where its time goes: it samples\n"
	       "the stacks of all its threads and children while they run on a processor. The program does\n"
	       "not have to be changed, since stacks are walked by unwind tables, not by frame pointers.\n"
	       "A table of the functions with the most samples goes to standard error; a picture, or a file\n"
	       "for a viewer, goes to --output.\n"
	       "\n"
	       "  -o, --output FILE     write the profile to FILE, as a whole or not at all; the name decides\n"
	       "                        the format: .svg, .pb.gz, .json, and folded for any other name\n"
	       "      --format svg|pprof|firefox|folded\n"
	       "                        svg: a flame graph for a browser, with zoom and search; pprof: for\n"
	       "                        go tool pprof; firefox: for profiler.firefox.com; folded: one line\n"
	       "                        per stack, for flamegraph.pl or speedscope. Without --output, the\n"
	       "                        profile goes to standard output, and the command's standard output\n"
	       "                        goes to standard error\n"
	       "  -F, --frequency HZ    take HZ samples per second on each processor (default: 1000)\n"
	       "  -p, --pid PID         profile a running process until it ends, until ^C, or for --duration\n"
	       "      --duration SECONDS\n"
	       "                        how long to sample a running process\n"
	       "      --off-cpu         show where threads wait instead of where they run\n"
	       "      --wall            show both, so that the time of each thread adds up to the elapsed time\n"
	       "      --threads         show threads of the same name separately\n"
	       "      --no-kernel       do not sample the kernel: show its time as one frame, [kernel]\n"
	       "      --diff            compare profiles in the folded format (from -o NAME.folded, or from\n"
	       "                        perf and stackcollapse-perf.pl) by the shares of functions: red has\n"
	       "                        grown, blue has shrunk, grey is within the noise. Several runs of\n"
	       "                        each show how much noise there is\n"
	       "      --merge           add up profiles in the folded format\n"
	       "      --unit samples|us|bytes\n"
	       "                        what the numbers in these profiles are: us with --off-cpu and --wall,\n"
	       "                        bytes from etch heap (default: samples)\n"
	       "      --no-follow       sample only the first thread of the command, and no children\n"
	       "      --frame-pointers  follow rbp where no table says how to walk, as in a JIT's code. This\n"
	       "                        is a guess; it is right for node and chromium, and for Java with\n"
	       "                        -XX:+PreserveFramePointer\n"
	       "      --stack BYTES     how much of a stack is copied with each sample; deeper stacks are cut\n"
	       "                        and marked (default: 65000, the maximum; 32768 with more than 1000\n"
	       "                        samples a second or more than 16 processors, or where buffers of\n"
	       "                        32 MB for each processor are not allowed, see ulimit -l)\n"
	       "  -n, --rows N          show N functions in the table (default: 20)\n"
	       "  -q, --quiet           do not print the table\n"
	       "  -h, --help            print this help\n"
	       "\n"
	       "The kernel's functions are shown where the system allows it (with CAP_PERFMON, or if the sysctl\n"
	       "kernel.perf_event_paranoid is 1 or less); otherwise the kernel's time is one frame. Names of\n"
	       "functions come from symbol tables and DWARF, including those of debug files, and from a JIT's\n"
	       "/tmp/perf-PID.map. A function without a name is shown as [FILE+0xADDRESS].\n"
	       "Exit status: that of the command, or 128+N if signal N ended it; 2 if the command could not be\n"
	       "run, or if it ended with 0 but could not be sampled or the profile could not be written. After\n"
	       "^C, etch ends by that signal.\n");
}

static bool seconds_take(const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	if (*text && !*end && *out > 0 && *out <= 1e6)
		return true;
	text_error(NULL, "--duration must be a number of seconds above 0, not '%s'", text);
	return false;
}

/* The words that --unit accepts, indexed by enum profile_unit. */
static const char *const file_units[] = {[UNIT_TIME] = "samples", [UNIT_WAIT] = "us", [UNIT_BYTES] = "bytes", NULL};

/* Handles one option. Returns false, after a message, if the option is wrong. */
static bool option_take(int c, struct options *opt)
{
	long n = 0;

	switch (c) {
	case 'o': opt->output.to.path = optarg; break;
	case 'M': opt->output.kind = argument_word("--format", profile_kinds, optarg); return opt->output.kind >= 0;
	case 'F':
		if (!argument_number("--frequency", optarg, 1, HZ_MOST, &n))
			return false;
		opt->session.perf.hz = (unsigned)n;
		break;
	case 'p':
		if (!argument_number("--pid", optarg, 1, INT_MAX, &n))
			return false;
		opt->session.pid = (pid_t)n;
		break;
	case 'D': return seconds_take(optarg, &opt->session.seconds);
	case 'O':
		opt->session.perf.off_cpu = true;
		opt->session.perf.on_cpu = false;
		break;
	case 'd': opt->files = FILES_DIFF; break;
	case 'm': opt->files = FILES_MERGE; break;
	case 'U': opt->unit = argument_word("--unit", file_units, optarg); return opt->unit >= 0;
	case 'W': opt->session.perf.off_cpu = opt->session.perf.on_cpu = true; break;
	case 'T': opt->session.by_thread = true; break;
	case 'K': opt->session.perf.kernel = false; break;
	case 'N': opt->session.perf.children = false; break;
	case 'P': opt->session.frame_pointers = true; break;
	case 'S':
		if (!argument_number("--stack", optarg, 256, PERF_STACK_MOST, &n))
			return false;
		opt->session.perf.stack = (unsigned)n / 8 * 8;
		break;
	case 'n': return argument_number("--rows", optarg, 0, 1000000, &opt->rows);
	case 'q':
		opt->quiet = true;
		text_quiet_set();
		break;
	default: return false;
	}
	return true;
}

static const struct option longs[] = {
	{"output", required_argument, NULL, 'o'},
	{"format", required_argument, NULL, 'M'},
	{"frequency", required_argument, NULL, 'F'},
	{"pid", required_argument, NULL, 'p'},
	{"duration", required_argument, NULL, 'D'},
	{"off-cpu", no_argument, NULL, 'O'},
	{"wall", no_argument, NULL, 'W'},
	{"diff", no_argument, NULL, 'd'},
	{"merge", no_argument, NULL, 'm'},
	{"unit", required_argument, NULL, 'U'},
	{"threads", no_argument, NULL, 'T'},
	{"no-kernel", no_argument, NULL, 'K'},
	{"no-follow", no_argument, NULL, 'N'},
	{"frame-pointers", no_argument, NULL, 'P'},
	{"stack", required_argument, NULL, 'S'},
	{"rows", required_argument, NULL, 'n'},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{0, 0, NULL, 0},
};

/* Checks that the options that were given have an effect together. Returns false after a message. */
static bool options_agree(const struct options *opt)
{
	const struct options_given *given = &opt->given;

	if (given->at['d'] && !argument_only(given, longs, "doMUnq", "cannot be combined with --diff"))
		return false;
	if (given->at['m'] && !argument_only(given, longs, "moMUnq", "cannot be combined with --merge"))
		return false;
	if (opt->files == FILES_NONE && !argument_none_of(given, longs, "U", "needs --diff or --merge"))
		return false;
	if (given->at['O'] && !argument_none_of(given, longs, "FW", "cannot be combined with --off-cpu"))
		return false;
	return !opt->quiet || argument_none_of(given, longs, "n", "cannot be combined with --quiet");
}

/*
 * Parses the options before the command that is to run. Returns -1 to continue, with the first word of that command at
 * optind; otherwise the exit status.
 */
static int options_parse(int argc, char **argv, struct options *opt)
{
	int c;

	while ((c = argument_option(argc, argv, "+o:F:p:n:qh", longs, &opt->given)) != -1) {
		if (c == 'h') {
			help();
			return EXIT_CLEAN;
		}
		if (!option_take(c, opt))
			return EXIT_UNUSABLE;
	}
	return options_agree(opt) ? -1 : EXIT_UNUSABLE;
}

/* Checks that there is something to sample, which is either a command or a process. Returns false after a message. */
static bool subject_check(struct options *opt, char **command)
{
	struct error e;

	if (!*command && !opt->session.pid) {
		fprintf(stderr, "etch: no command to run; see etch profile --help\n");
		return false;
	}
	if (*command && opt->session.pid) {
		fprintf(stderr, "etch: --pid cannot be combined with a command\n");
		return false;
	}
	if (*command && opt->session.seconds > 0) {
		fprintf(stderr, "etch: --duration needs --pid\n");
		return false;
	}
	opt->session.command = *command ? command : NULL;
	if (*command && session_command_check(*command, &e)) {
		text_error(*command, "%s", e.text);
		return false;
	}
	if (!profile_output_check(&opt->output))
		return false;
	opt->session.to_stderr = profile_output_is_stdout(&opt->output);
	return true;
}

static int profile_put(struct profile *p, const struct options *opt, const struct session_end *end)
{
	char title[PROFILE_TITLE_MOST];

	if (opt->session.command)
		profile_title(opt->session.command, title);
	else
		snprintf(title, sizeof(title), "process %ld", (long)opt->session.pid);
	if (!opt->quiet && !write_top(p, (size_t)opt->rows, isatty(STDERR_FILENO), stderr)) {
		text_error(NULL, NO_MEMORY);
		return EXIT_UNUSABLE;
	}
	if (!opt->quiet && end->signal)
		fprintf(stderr, "the command was ended by signal %d (%s)\n", end->signal, strsignal(end->signal));
	if (!profile_output_write(p, &opt->output, title))
		return EXIT_UNUSABLE;
	profile_output_announce(&opt->output, "profile");
	return EXIT_CLEAN;
}

static int run_and_show(struct options *opt)
{
	struct profile *p = profile_new();
	struct session_end end = {0};
	struct error e;
	int status;

	if (!p) {
		text_error(NULL, NO_MEMORY);
		return EXIT_UNUSABLE;
	}
	if (session_run(&opt->session, p, &end, &e)) {
		text_error(opt->session.command ? opt->session.command[0] : "profile", "%s", e.text);
		profile_free(p);
		return EXIT_UNUSABLE;
	}
	if (p->no_memory || !profile_name(p, profile_output_has_lines(&opt->output))) {
		text_error(NULL, NO_MEMORY);
		status = EXIT_UNUSABLE;
	} else {
		status = profile_put(p, opt, &end);
	}
	profile_free(p);
	if (end.stopped && !fflush(stdout)) {
		/* Ends by the signal that ended the command, so that a shell script's loop ends, too. */
		signal(end.stopped, SIG_DFL);
		raise(end.stopped);
	}
	return end.status ? end.status : status;
}

/* ---- files --------------------------------------------------------------------------------------- */

/* Takes the files from the command line. If there is a "--" between them, it separates the two sides. */
static void files_take(struct options *opt, char **files)
{
	opt->olds = files;
	while (files[opt->old_count] && strcmp(files[opt->old_count], "--"))
		opt->old_count++;
	opt->news = files + opt->old_count + (files[opt->old_count] != NULL);
	while (opt->news[opt->new_count])
		opt->new_count++;
}

/*
 * Checks that there are enough files, and that the output format can express their profiles. Returns false after a
 * message.
 */
static bool files_check(struct options *opt)
{
	if (opt->files == FILES_DIFF && !opt->new_count && opt->old_count == 2) {
		opt->news = opt->olds + 1;
		opt->old_count = opt->new_count = 1;
	}
	if (opt->files == FILES_DIFF && (!opt->old_count || !opt->new_count)) {
		text_error(NULL, "--diff needs two files of folded stacks, OLD NEW, or several of each: OLD... -- NEW...");
		return false;
	}
	if (opt->files == FILES_MERGE && (!opt->old_count || opt->new_count)) {
		text_error(NULL, "--merge needs files of folded stacks");
		return false;
	}
	if (!profile_output_check(&opt->output))
		return false;
	if (opt->files == FILES_DIFF && opt->output.kind != KIND_NONE && opt->output.kind != KIND_SVG) {
		text_error(NULL, "--diff draws a picture: name a file that ends in .svg, or use --format svg");
		return false;
	}
	return true;
}

static bool side_read(struct profile *p, char **paths, size_t count, size_t before, const struct folded_roots *roots)
{
	struct error e;

	for (size_t i = 0; i < count; i++)
		if (folded_read(p, paths[i], (pid_t)(before + i + 1), roots, &e)) {
			text_error(paths[i], "%s", e.text);
			return false;
		}
	return true;
}

static bool files_read(struct profile *p, const struct options *opt)
{
	struct folded_roots roots = {NULL, NULL, NULL};
	const char *failed;
	struct error e;
	bool good = true;

	if (opt->files == FILES_DIFF && !folded_roots_find(&roots, opt->olds[0], opt->news[0], &failed, &e)) {
		text_error(failed, "%s", e.text);
		good = false;
	}
	good = good && side_read(p, opt->olds, opt->old_count, 0, &roots) &&
	       side_read(p, opt->news, opt->new_count, opt->old_count, &roots);
	folded_roots_free(&roots);
	return good;
}

/*
 * Sets the types of the samples for pprof. There is only one number, in the unit of the files, since the time of the
 * samples is not known. Returns false if there is no memory.
 */
static bool types_set(struct profile *p)
{
	static const struct profile_type types[] = {
		[UNIT_TIME] = {"samples", "count"}, [UNIT_WAIT] = {"time", "microseconds"}, [UNIT_BYTES] = {"space", "bytes"}};

	p->values = malloc((p->sample_count + 1) * sizeof(*p->values));
	if (!p->values)
		return false;
	for (size_t i = 0; i < p->sample_count; i++)
		p->values[i] = p->samples[i].weight / p->period;
	p->types = &types[p->unit];
	p->type_count = 1;
	return true;
}

static int files_put(struct profile *p, const struct options *opt)
{
	bool diff = opt->files == FILES_DIFF, color = isatty(STDERR_FILENO);
	char title[PROFILE_TITLE_MOST];

	if (diff)
		snprintf(title, sizeof(title), "%.50s -> %.50s", opt->olds[0], opt->news[0]);
	else
		snprintf(title, sizeof(title), "%zu profiles: %.90s", opt->old_count, opt->olds[0]);
	name_clean(title);
	if (!opt->quiet &&
	    !(diff ? compare_top(p, (size_t)opt->rows, color, stderr) : write_top(p, (size_t)opt->rows, color, stderr))) {
		text_error(NULL, NO_MEMORY);
		return EXIT_UNUSABLE;
	}
	return profile_output_write(p, &opt->output, title) ? EXIT_CLEAN : EXIT_UNUSABLE;
}

static int files_show(struct options *opt)
{
	struct profile *p = profile_new();
	bool diff = opt->files == FILES_DIFF;
	int status = EXIT_UNUSABLE;

	if (!p) {
		text_error(NULL, NO_MEMORY);
		return EXIT_UNUSABLE;
	}
	p->period = opt->unit == UNIT_WAIT ? 1000 : 1;
	p->unit = (enum profile_unit)opt->unit;
	p->measure = diff ? "shares of two profiles" : "profiles added up";
	if (files_read(p, opt)) {
		if (!profile_name(p, false) || (!diff && !types_set(p)) ||
		    (diff && !profile_compare(p, opt->old_count, opt->new_count, opt->unit == UNIT_TIME)))
			text_error(NULL, NO_MEMORY);
		else
			status = files_put(p, opt);
	}
	profile_free(p);
	return status;
}

int cmd_profile(int argc, char **argv)
{
	struct options opt = {.output = {.to = {.fd = -1}, .kind = KIND_NONE}, .rows = ROWS_DEFAULT};
	int status;

	opt.session.perf = (struct perf_options){.hz = HZ_DEFAULT, .on_cpu = true, .kernel = true, .children = true};
	status = options_parse(argc, argv, &opt);
	if (status >= 0)
		return status;
	if (opt.files != FILES_NONE) {
		files_take(&opt, argv + optind);
		return files_check(&opt) ? files_show(&opt) : EXIT_UNUSABLE;
	}
	return subject_check(&opt, argv + optind) ? run_and_show(&opt) : EXIT_UNUSABLE;
}
