/* SPDX-License-Identifier: MIT */
/* The command `etch check`: checks inputs and prints findings. Guide: docs/check.md. */
#include "arguments.h"
#include "check/check_run.h"
#include "check/check_print.h"
#include "command.h"
#include "support/bounds.h"
#include "output/outfile.h"
#include "support/memory.h"
#include "support/progress.h"
#include "support/workers.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUPPRESSIONS "etch.supp" /* the suppressions that are read by default, if this file exists */

struct options {
	enum check_format format;
	struct severity_policy policy;
	bool level_given;
	bool each;
	const char *output, *suppressions, *baseline, *root, *docs;
	const char **lists, **ignored; /* lists: arguments of --files-from; ignored: those of --ignore */
	size_t list_count, ignored_count;
	bool quiet, zero, fail_unused, create;
	const char *explain; /* the argument of --explain, or null */
	bool list;
	struct options_given given;
	int jobs; /* 0: -j was not given */
	struct check_options check;
};

/* The state of a run of `etch check`. */
struct run {
	const struct options *opt;
	struct inputs inputs;
	struct known known;
	struct report *reports; /* indexed by input */
	struct baseline_record record;
	struct totals totals;
	struct check_printer printer;
};

static void help(void)
{
	printf("Usage: etch check [OPTION...] FILE...\n"
	       "\n"
	       "Reports problems in objects, programs and libraries. FILE is an ELF file, a directory (all\n"
	       "x86-64 ELF files in it), an archive, a compile_commands.json (the objects that it names), or\n"
	       "- for a list of such names on standard input. No file is changed.\n"
	       "\n"
	       "      --format text|json|sarif\n"
	       "                           text (default), json (docs/schemas/check.json), or SARIF 2.1.0\n"
	       "  -o, --output OUT         write to OUT instead of standard output\n"
	       "  -j, --jobs N             check N files at a time, or a single FILE with N threads\n"
	       "                           (default: 1; for a FILE above 32 MB one for each processor, at\n"
	       "                           most 4)\n"
	       "      --level error|warning|note\n"
	       "                           show findings of at least this severity (default: warning; with\n"
	       "                           json: note)\n"
	       "      --fail-on error|warning|never\n"
	       "                           exit with status 1 for findings of at least this severity\n"
	       "                           (default: warning)\n"
	       "      --compiler error|warning|note|ignore\n"
	       "                           severity of findings in compiler output that no change of the\n"
	       "                           source can fix (default: note)\n"
	       "      --each               report each place, and not one finding per function or runtime\n"
	       "  -q, --quiet              do not print the line of totals\n"
	       "\n"
	       "      --ignore RULE        suppress findings: ID[:PATH[:FUNCTION]], where each part is a glob\n"
	       "      --suppressions FILE  read such rules, with reasons, from FILE (default: etch.supp)\n"
	       "      --fail-on-unused     exit with status 1 also if a rule suppresses nothing\n"
	       "      --baseline OLD.json  ignore findings that are in OLD.json (written by --format json)\n"
	       "      --create-baseline    if OLD.json does not exist, write the findings of this run to it,\n"
	       "                           and do not count them\n"
	       "\n"
	       "      --files-from FILE    read names of files from FILE, one per line\n"
	       "  -0, --null               names in lists end with a zero byte instead of a newline\n"
	       "      --sls                also check for straight-line speculation (ETCH-H005)\n"
	       "      --both-decoders      check all instructions with both decoders (ETCH-D004)\n"
	       "      --no-cfi             ignore .eh_frame\n"
	       "      --source-root DIR    in sarif, write source names relative to DIR\n"
	       "      --docs-uri URI       in sarif, link each rule to its entry in findings.md at URI\n"
	       "\n"
	       "      --explain ID         explain a finding and how to fix it\n"
	       "      --list               list all findings\n"
	       "  -h, --help               print this help\n"
	       "\n"
	       "Exit status: 0 no findings that count; 1 findings; 2 a file could not be used (the others\n"
	       "were checked), or the command line is wrong.\n");
}

/* ---- the run ------------------------------------------------------------------------- */

/* Prints "etch: FILE: reason". Bytes of the name that are not printable are escaped. */
static void complain(const char *path, const char *member, const char *why)
{
	progress_end();
	fputs("etch: ", stderr);
	text_clean_name(stderr, path, member);
	fputs(": ", stderr);
	text_clean(stderr, why);
	fputc('\n', stderr);
}

static bool rules_read(struct run *r)
{
	const char *path = r->opt->suppressions;
	struct error e;
	size_t i;

	for (i = 0; i < r->opt->ignored_count; i++)
		if (suppressions_add(&r->known.rules, r->opt->ignored[i], "--ignore", "--ignore", &e)) {
			complain("--ignore", NULL, e.text);
			return false;
		}
	if (!path && !access(SUPPRESSIONS, F_OK))
		path = SUPPRESSIONS;
	if (path && suppressions_read(&r->known.rules, path, &e)) {
		complain(path, NULL, e.text);
		return false;
	}
	return true;
}

static bool inputs_collect(struct run *r, char **names, int count)
{
	struct error e;
	size_t k;
	int i;

	for (i = 0; i < count; i++) {
		if (!strcmp(names[i], "-") && inputs_add_list(&r->inputs, "-", r->opt->zero, &e)) {
			complain("standard input", NULL, e.text);
			return false;
		}
		if (strcmp(names[i], "-"))
			inputs_add_some(&r->inputs, names[i]);
	}
	for (k = 0; k < r->opt->list_count; k++)
		if (inputs_add_list(&r->inputs, r->opt->lists[k], r->opt->zero, &e)) {
			complain(r->opt->lists[k], NULL, e.text);
			return false;
		}
	r->totals.skipped = r->inputs.skipped;
	return true;
}

static bool baseline_prepare(struct run *r)
{
	struct error e;

	if (!r->opt->baseline)
		return true;
	if (r->opt->create && access(r->opt->baseline, F_OK) && errno == ENOENT) {
		record_begin(&r->record, r->opt->baseline);
		return true;
	}
	if (baseline_read(&r->known.baseline, r->opt->baseline, &e)) {
		complain(r->opt->baseline, NULL, e.text);
		return false;
	}
	baseline_match(&r->known.baseline, &r->inputs);
	return true;
}

/* Counts and prints the reports. Returns false if the output cannot be written; main.c prints the message about it. */
static bool reports_print(struct run *r)
{
	size_t i;

	for (i = 0; i < r->inputs.count && !ferror(r->printer.out); i++) {
		record_add(&r->record, &r->reports[i]);
		totals_add(&r->totals, &r->reports[i], r->opt->policy.level);
		check_print_file(&r->printer, &r->reports[i], &r->totals);
	}
	return !ferror(r->printer.out);
}

static int exit_code(const struct run *r)
{
	unsigned s;

	if (r->totals.unusable)
		return EXIT_UNUSABLE;
	for (s = r->opt->policy.fail_on; s < SEVERITIES; s++)
		if (r->totals.found[s])
			return EXIT_FINDINGS;
	return r->opt->fail_unused && r->totals.unused ? EXIT_FINDINGS : EXIT_CLEAN;
}

static int output_write(struct run *r)
{
	struct error e;

	if (!r->opt->output)
		return 0;
	if (ferror(r->printer.out))
		bounds_exhausted();
	if (!outfile_write(r->opt->output, r->printer.bytes, r->printer.size, NULL, &e))
		return 0;
	text_error(NULL, "%s", e.text);
	return -1;
}

static int run_all(struct run *r, char **names, int count)
{
	const struct options *opt = r->opt;
	struct check_run run = {.inputs = &r->inputs,
	                        .options = opt->check,
	                        .policy = &opt->policy,
	                        .keep = severity_lowest(&opt->policy),
	                        .each = opt->each,
	                        .jobs = opt->jobs};
	size_t i;
	int status;

	bounds_memory_ends();
	r->printer = (struct check_printer){
		.format = opt->format, .level = opt->policy.level, .quiet = opt->quiet, .to_file = opt->output};
	if (!rules_read(r) || !inputs_collect(r, names, count) || !baseline_prepare(r))
		return EXIT_UNUSABLE;
	if (r->record.path)
		run.keep = SEVERITY_NOTE;
	if (!run.jobs)
		run.jobs = r->inputs.count == 1 ? workers_threads(input_size(r->inputs.list)) : workers_jobs();
	r->reports = mem_zero(r->inputs.count, sizeof(*r->reports));
	check_print_begin(&r->printer, opt->root, opt->docs, opt->baseline,
	                  r->known.rules.count || opt->policy.compiler == SEVERITY_NEVER);
	if (!check_run(&run, r->reports)) {
		text_error(NULL, "cannot wait for its workers: %s", strerror(errno));
		return EXIT_UNUSABLE;
	}
	for (i = 0; i < r->inputs.count; i++)
		if (r->reports[i].error)
			complain(r->reports[i].path, r->reports[i].member, r->reports[i].error);
	verdicts_decide(&opt->policy, &r->known, r->reports, r->inputs.count);
	if (!reports_print(r))
		return EXIT_UNUSABLE;
	for (i = 0; i < r->known.rules.count; i++)
		r->totals.unused += suppression_unused(&r->known.rules.list[i], opt->policy.level);
	status = exit_code(r);
	check_print_end(&r->printer, &r->known.rules, &r->totals, status);
	return !record_end(&r->record, &r->known.rules, &r->totals, opt->quiet) || output_write(r) ? EXIT_UNUSABLE : status;
}

/* ---- the command line ---------------------------------------------------------------- */

static int explain(const char *id)
{
	const struct catalogue_entry *e = catalogue_find(id), *said = e ? NULL : catalogue_find_at_run_time(id);

	if (!e && !said) {
		text_error("--explain", "unknown finding '%s'; see etch check --list", id);
		return EXIT_UNUSABLE;
	}
	if (e)
		text_explain(stdout, e, severity_name(e->severity));
	else
		text_explain(stdout, said, "reported by libetch at run time");
	return EXIT_CLEAN;
}

static int list(void)
{
	size_t i;

	for (i = 0; i < catalogue_count; i++)
		printf("%-10s %-8s %-28s %s\n", catalogue[i].id, severity_name(catalogue[i].severity), catalogue[i].name,
		       catalogue[i].title);
	return EXIT_CLEAN;
}

static bool format_parse(const char *name, struct options *opt)
{
	static const char *const words[] = {[CHECK_TEXT] = "text", [CHECK_JSON] = "json", [CHECK_SARIF] = "sarif", NULL};
	int i = argument_word("--format", words, name);

	opt->format = (enum check_format)i;
	return i >= 0;
}

static bool level_parse(const char *name, struct options *opt)
{
	static const char *const words[] = {"error", "warning", "note", NULL};
	int i = argument_word("--level", words, name);

	opt->level_given = true;
	opt->policy.level = (enum severity)(SEVERITY_ERROR - i);
	return i >= 0;
}

static bool fail_parse(const char *name, struct options *opt)
{
	static const char *const words[] = {"error", "warning", "never", NULL};
	static const unsigned values[] = {SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NEVER};
	int i = argument_word("--fail-on", words, name);

	opt->policy.fail_on = i < 0 ? SEVERITY_NEVER : values[i];
	return i >= 0;
}

static bool compiler_parse(const char *name, struct options *opt)
{
	static const char *const words[] = {"error", "warning", "note", "ignore", NULL};
	static const unsigned values[] = {SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE, SEVERITY_NEVER};
	int i = argument_word("--compiler", words, name);

	opt->policy.compiler = i < 0 ? SEVERITY_NEVER : values[i];
	return i >= 0;
}

/* Handles one option. Returns -1 to continue, or the exit status. */
static int option_take(int c, struct options *opt)
{
	switch (c) {
	case 'f': return format_parse(optarg, opt) ? -1 : EXIT_UNUSABLE;
	case 'j': return argument_jobs(optarg, &opt->jobs) ? -1 : EXIT_UNUSABLE;
	case 'l': return level_parse(optarg, opt) ? -1 : EXIT_UNUSABLE;
	case 'F': return fail_parse(optarg, opt) ? -1 : EXIT_UNUSABLE;
	case 'c': return compiler_parse(optarg, opt) ? -1 : EXIT_UNUSABLE;
	case 'e': opt->each = true; break;
	case 'o': opt->output = optarg; break;
	case 'q': opt->quiet = true; break;
	case '0': opt->zero = true; break;
	case 'I': opt->ignored[opt->ignored_count++] = optarg; break;
	case 'S': opt->suppressions = optarg; break;
	case 'U': opt->fail_unused = true; break;
	case 'B': opt->baseline = optarg; break;
	case 'K': opt->create = true; break;
	case 'N': opt->lists[opt->list_count++] = optarg; break;
	case 's': opt->check.sls = true; break;
	case 'b': opt->check.both_decoders = true; break;
	case 'C': opt->check.no_cfi = true; break;
	case 'R': opt->root = optarg; break;
	case 'D': opt->docs = optarg; break;
	case 'E': opt->explain = optarg; break;
	case 'L': opt->list = true; break;
	case 'h': help(); return EXIT_CLEAN;
	default: return EXIT_UNUSABLE;
	}
	return -1;
}

static const struct option longs[] = {
	{"format", required_argument, NULL, 'f'},
	{"output", required_argument, NULL, 'o'},
	{"jobs", required_argument, NULL, 'j'},
	{"level", required_argument, NULL, 'l'},
	{"fail-on", required_argument, NULL, 'F'},
	{"compiler", required_argument, NULL, 'c'},
	{"each", no_argument, NULL, 'e'},
	{"quiet", no_argument, NULL, 'q'},
	{"ignore", required_argument, NULL, 'I'},
	{"suppressions", required_argument, NULL, 'S'},
	{"fail-on-unused", no_argument, NULL, 'U'},
	{"baseline", required_argument, NULL, 'B'},
	{"create-baseline", no_argument, NULL, 'K'},
	{"files-from", required_argument, NULL, 'N'},
	{"null", no_argument, NULL, '0'},
	{"sls", no_argument, NULL, 's'},
	{"both-decoders", no_argument, NULL, 'b'},
	{"no-cfi", no_argument, NULL, 'C'},
	{"source-root", required_argument, NULL, 'R'},
	{"docs-uri", required_argument, NULL, 'D'},
	{"explain", required_argument, NULL, 'E'},
	{"list", no_argument, NULL, 'L'},
	{"help", no_argument, NULL, 'h'},
	{0, 0, NULL, 0},
};

/* Checks that the options that were given have an effect together. Returns false after a message. */
static bool options_agree(const struct options *opt, char *const *names, int count)
{
	const struct options_given *given = &opt->given;
	bool listed = opt->list_count;

	if (opt->explain || opt->list) {
		if (!argument_only(given, longs, opt->explain ? "E" : "L",
		                   opt->explain ? "cannot be combined with --explain" : "cannot be combined with --list"))
			return false;
		if (count)
			text_error(NULL, "--%s takes no FILE", opt->explain ? "explain" : "list");
		return !count;
	}
	if (opt->format != CHECK_SARIF && !argument_none_of(given, longs, "RD", "needs --format sarif"))
		return false;
	if (!opt->baseline && !argument_none_of(given, longs, "K", "needs --baseline; see etch check --help"))
		return false;
	for (int i = 0; i < count; i++)
		listed |= !strcmp(names[i], "-");
	if (!listed && !argument_none_of(given, longs, "0", "needs --files-from, or - as FILE"))
		return false;
	if (!count && !opt->list_count)
		fprintf(stderr, "etch: missing FILE operand; see etch check --help\n");
	return count || opt->list_count;
}

static int options_take(int argc, char **argv, struct options *opt)
{
	int c, status = -1;

	while (status < 0 && (c = argument_option(argc, argv, "o:j:q0h", longs, &opt->given)) != -1)
		status = option_take(c, opt);
	/* JSON is read by programs and kept as baseline, so by default it has the findings of all severities. */
	if (!opt->level_given)
		opt->policy.level = opt->format == CHECK_JSON ? SEVERITY_NOTE : SEVERITY_WARNING;
	if (status >= 0)
		return status;
	if (!options_agree(opt, argv + optind, argc - optind))
		return EXIT_UNUSABLE;
	if (opt->explain)
		return explain(opt->explain);
	return opt->list ? list() : -1;
}

int cmd_check(int argc, char **argv)
{
	struct options opt = {
		.policy = {.level = SEVERITY_WARNING, .fail_on = SEVERITY_WARNING, .compiler = SEVERITY_NOTE}};
	struct run r = {.opt = &opt};
	size_t i;
	int status;

	opt.lists = mem_zero((size_t)argc, sizeof(*opt.lists));
	opt.ignored = mem_zero((size_t)argc, sizeof(*opt.ignored));
	status = options_take(argc, argv, &opt);
	if (status < 0) {
		status = run_all(&r, argv + optind, argc - optind);
		check_print_free(&r.printer);
		for (i = 0; r.reports && i < r.inputs.count; i++)
			report_free(&r.reports[i]);
		free(r.reports);
		known_free(&r.known);
		record_free(&r.record);
		inputs_free(&r.inputs);
	}
	free(opt.lists);
	free(opt.ignored);
	return status;
}
