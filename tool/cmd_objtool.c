/* SPDX-License-Identifier: MIT */
/* The command `etch objtool`: in the place of the kernel's objtool, with its command line. Guide:
 * docs/guides/kernel.md.
 */
#include "arguments.h"
#include "command.h"
#include "objtool/objtool.h"
#include "report/text.h"
#include "support/bounds.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKYLAKE 'k' /* of --hacks, no option of its own */

/* objtool's passes and options that etch lacks, the last ones of releases after 6.1. Each is an error unless
 * --fallback takes it or --skip drops it, by the part of its name after '='. `action`: it is a pass, not an option of
 * one. */
static const struct unsupported {
	char option;
	const char *name;
	bool action;
} unsupported[] = {
	{'n', "noinstr", true},      {'R', "unret", true},      {'D', "dump", true},
	{'A', "sec-address", false}, {'T', "backtrace", false}, {SKYLAKE, "hacks=skylake", true},
	{'P', "prefix", true},       {'C', "cfi", true},        {'v', "verbose", false},
};
#define UNSUPPORTED_COUNT (sizeof(unsupported) / sizeof(unsupported[0]))

struct command_line {
	struct objtool_options make;
	bool asked[UNSUPPORTED_COUNT], skipped[UNSUPPORTED_COUNT];
	const char *values[UNSUPPORTED_COUNT]; /* given with it, or null */
	bool acts, no_uaccess, no_stackval;
	const char *fallback;
};

static void help(void)
{
	printf("Usage: etch objtool ACTION... [OPTION...] FILE.o\n"
	       "\n"
	       "What the build of Linux 6.1 or 6.12 needs from objtool, for one object, in place: unwind\n"
	       "rows, tables of code that the kernel patches, changes of code.\n"
	       "\n"
	       "Actions:\n"
	       "  -h, --hacks[=LIST]     jump_label: jumps of static keys become nops; noinstr: calls of\n"
	       "                         profilers in code that must not be instrumented do\n"
	       "  -o, --orc              unwind rows: .orc_unwind, .orc_unwind_ip\n"
	       "  -i, --ibt              .ibt_endbr_seal; warn of addresses taken of code without endbr\n"
	       "  -m, --mcount           __mcount_loc: calls of __fentry__\n"
	       "  -r, --retpoline        .retpoline_sites; warn of indirect branches\n"
	       "      --rethunk          .return_sites; warn of returns\n"
	       "  -l, --sls              warn where no int3 follows a return or indirect jump\n"
	       "  -t, --static-call      .static_call_sites\n"
	       "  -s, --stackval         warn where a frame is not built or left by the kernel's rules\n"
	       "  -u, --uaccess          warn where access to user memory is enabled at a call or return\n"
	       "\n"
	       "Options:\n"
	       "      --module           the object is part of a module\n"
	       "      --link             the object is a linked one, vmlinux.o\n"
	       "      --mnop             calls of __fentry__ become nops, as in 6.1 anyhow\n"
	       "      --no-unreachable   --stackval does not warn of code that nothing reaches\n"
	       "      --backup           keep FILE.o.orig\n"
	       "      --dry-run          write nothing\n"
	       "      --stats            print counts\n"
	       "  -q, --quiet            no warnings\n"
	       "      --fallback=PROGRAM let the real objtool run the passes that etch lacks\n"
	       "      --skip=LIST        skip uaccess, stackval, or passes of objtool that etch lacks\n"
	       "      --help\n"
	       "\n"
	       "Not implemented, an error without --fallback or --skip:\n"
	       "  -n, --noinstr\n"
	       "      --unret\n"
	       "      --dump\n"
	       "      --sec-address\n"
	       "      --backtrace\n"
	       "      --hacks=skylake\n"
	       "      --prefix=N\n"
	       "      --cfi\n"
	       "  -v, --verbose\n"
	       "\n"
	       "More options are read from the environment variable OBJTOOL_ARGS. KERNELVERSION, which the\n"
	       "kernel's build sets, says the release; without it 6.1. Objects of others are refused.\n"
	       "\n"
	       "Exit status: 0 done, even with warnings; 2 the file could not be read or written, or\n"
	       "the command line is wrong.\n");
}

/* Is a word in a comma-separated list? */
static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	while (list) {
		if (!strncmp(list, word, n) && (!list[n] || list[n] == ','))
			return true;
		list = strchr(list, ',');
		list = list ? list + 1 : NULL;
	}
	return false;
}

static bool skip_take(struct command_line *c, const char *list)
{
	bool any = list_has(list, "uaccess") || list_has(list, "stackval");
	size_t i;

	c->no_uaccess |= list_has(list, "uaccess");
	c->no_stackval |= list_has(list, "stackval");
	for (i = 0; i < UNSUPPORTED_COUNT; i++) {
		const char *value = strchr(unsupported[i].name, '=');

		c->skipped[i] |= list_has(list, value ? value + 1 : unsupported[i].name);
		any |= c->skipped[i];
	}
	if (!any)
		fprintf(stderr, "etch: --skip takes uaccess, stackval, or passes that etch objtool lacks, not '%s'\n", list);
	return any;
}

/* False: no such option. */
static bool unsupported_take(struct command_line *c, int option, const char *value)
{
	size_t i;

	for (i = 0; i < UNSUPPORTED_COUNT; i++)
		if (unsupported[i].option == option) {
			c->asked[i] = true;
			c->values[i] = value;
			c->acts |= unsupported[i].action;
			return true;
		}
	return false;
}

static bool hacks_take(struct command_line *c, const char *list)
{
	size_t n;

	c->make.jump_label |= !list;
	c->make.noinstr_hack |= !list;
	for (; list; list = list[n] ? list + n + 1 : NULL) {
		n = strcspn(list, ",");
		if (n == strlen("jump_label") && !strncmp(list, "jump_label", n))
			c->make.jump_label = true;
		else if (n == strlen("noinstr") && !strncmp(list, "noinstr", n))
			c->make.noinstr_hack = true;
		else if (n == strlen("skylake") && !strncmp(list, "skylake", n))
			unsupported_take(c, SKYLAKE, NULL);
		else {
			fprintf(stderr, "etch: --hacks takes jump_label, noinstr and skylake, not '%.*s'\n", (int)n, list);
			return false;
		}
	}
	return true;
}

static bool option_take(struct command_line *c, int option, const char *arg)
{
	struct objtool_options *o = &c->make;

	switch (option) {
	case 'h': c->acts = true; return hacks_take(c, arg);
	case 'o': c->acts = o->orc = true; return true;
	case 'r': c->acts = o->retpoline = true; return true;
	case 'l': c->acts = o->sls = true; return true;
	case 't': c->acts = o->static_call = true; return true;
	case 'u': c->acts = o->uaccess = true; return true;
	case 's': c->acts = o->stackval = true; return true;
	case 'i': c->acts = o->ibt = true; return true;
	case 'L': o->linked = true; return true;
	case 'm': c->acts = o->mcount = true; return true;
	case 'O': o->mnop = true; return true;
	case 'K': c->acts = o->rethunk = true; return true;
	case 'M': o->module = true; return true;
	case 'N': o->no_unreachable = true; return true;
	case 'B': o->backup = true; return true;
	case 'Y': o->dry_run = true; return true;
	case 'S': o->stats = true; return true;
	case 'F': c->fallback = arg; return true;
	case 'q': text_quiet_set(); return true;
	case 'X': return skip_take(c, arg);
	default: return unsupported_take(c, option, arg);
	}
}

/* 1: go on; 0: help was printed; -1: wrong. */
static int options_read(struct command_line *c, int argc, char **argv)
{
	static const struct option longs[] = {
		{"hacks", optional_argument, NULL, 'h'}, {"orc", no_argument, NULL, 'o'},
		{"retpoline", no_argument, NULL, 'r'},   {"rethunk", no_argument, NULL, 'K'},
		{"sls", no_argument, NULL, 'l'},         {"static-call", no_argument, NULL, 't'},
		{"module", no_argument, NULL, 'M'},      {"no-unreachable", no_argument, NULL, 'N'},
		{"backup", no_argument, NULL, 'B'},      {"dry-run", no_argument, NULL, 'Y'},
		{"stats", no_argument, NULL, 'S'},       {"fallback", required_argument, NULL, 'F'},
		{"skip", required_argument, NULL, 'X'},  {"ibt", no_argument, NULL, 'i'},
		{"mcount", no_argument, NULL, 'm'},      {"noinstr", no_argument, NULL, 'n'},
		{"unret", no_argument, NULL, 'R'},       {"stackval", no_argument, NULL, 's'},
		{"uaccess", no_argument, NULL, 'u'},     {"dump", optional_argument, NULL, 'D'},
		{"link", no_argument, NULL, 'L'},        {"sec-address", no_argument, NULL, 'A'},
		{"backtrace", no_argument, NULL, 'T'},   {"prefix", required_argument, NULL, 'P'},
		{"cfi", no_argument, NULL, 'C'},         {"mnop", no_argument, NULL, 'O'},
		{"verbose", no_argument, NULL, 'v'},     {"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'H'},        {0, 0, NULL, 0},
	};
	int o;

	optind = 0; /* a second command line, after that of OBJTOOL_ARGS, starts afresh */
	while ((o = argument_option(argc, argv, "h::orltimnsuvq", longs)) != -1) {
		if (o == 'H') {
			help();
			return 0;
		}
		if (!option_take(c, o, optarg))
			return -1;
	}
	return 1;
}

#define ENVIRONMENT_MOST 16

/* Options of the environment variable OBJTOOL_ARGS, separated by spaces. */
static int environment_read(struct command_line *c)
{
	const char *value = getenv("OBJTOOL_ARGS");
	char *copy = value ? strdup(value) : NULL, *word, *rest = NULL, *argv[ENVIRONMENT_MOST + 1];
	int argc = 0, done;

	if (!value)
		return 1;
	if (!copy)
		return -1;
	argv[argc++] = (char[]){"OBJTOOL_ARGS"};
	for (word = strtok_r(copy, " ", &rest); word && argc < ENVIRONMENT_MOST; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	argv[argc] = NULL;
	done = options_read(c, argc, argv);
	/* Arguments of options point into it: it lives as long as the process. */
	return done;
}

/* Runs the real objtool for the passes that etch lacks. Returns an exit status. */
static int fallback_run(const struct command_line *c, char *file)
{
	char words[UNSUPPORTED_COUNT][32], *argv[UNSUPPORTED_COUNT + 5] = {(char *)c->fallback};
	char module[] = "--module", dry_run[] = "--dry-run", no_unreachable[] = "--no-unreachable";
	int argc = 1, status;
	bool acts = false;
	size_t i;
	pid_t pid;

	for (i = 0; i < UNSUPPORTED_COUNT; i++) {
		if (!c->asked[i] || c->skipped[i])
			continue;
		snprintf(words[i], sizeof(words[i]), "--%s%s%s", unsupported[i].name, c->values[i] ? "=" : "",
		         c->values[i] ? c->values[i] : "");
		argv[argc++] = words[i];
		acts |= unsupported[i].action;
	}
	if (!acts)
		return EXIT_CLEAN;
	if (c->make.module)
		argv[argc++] = module;
	if (c->make.dry_run)
		argv[argc++] = dry_run;
	if (c->make.no_unreachable)
		argv[argc++] = no_unreachable;
	argv[argc] = file;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		text_error(c->fallback, "cannot be run: %s", strerror(errno));
		_exit(EXIT_UNUSABLE);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			pid = -1;
	if (pid < 0) {
		text_error(c->fallback, "cannot be run: %s", strerror(errno));
		return EXIT_UNUSABLE;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_UNUSABLE;
}

/* False, and a message: an option that is neither implemented, skipped nor left to --fallback. */
static bool unsupported_check(const struct command_line *c)
{
	size_t i;

	for (i = 0; i < UNSUPPORTED_COUNT; i++)
		if (c->asked[i] && !c->skipped[i] && !c->fallback) {
			fprintf(stderr, "etch: objtool: --%s is not implemented; see --fallback and --skip\n", unsupported[i].name);
			return false;
		}
	return true;
}

/* The release by KERNELVERSION, which the kernel's build sets; or null and a message. Nothing in an object says it. */
static const struct linux_release *release_find(void)
{
	const char *version = getenv("KERNELVERSION");
	char names[64] = "";
	int known;
	const struct linux_release *r = linux_release_find(version, &known);

	linux_release_names(names, sizeof(names));
	if (known < 0)
		fprintf(stderr, "etch: objtool reads objects of Linux %s, and KERNELVERSION is %s\n", names, version);
	else if (!known)
		fprintf(stderr, "etch: warning: objtool: KERNELVERSION is %s, newer than all known releases: taken for %s\n",
		        version, r->name);
	return r;
}

/* Takes the names of functions that do not return from the kernel's source, if the build says where that is. */
static void noreturns_find(void)
{
	const char *tree = getenv("srctree");
	char path[4096];

	if (tree && (size_t)snprintf(path, sizeof(path), "%s/tools/objtool/noreturns.h", tree) < sizeof(path))
		linux_noreturns_read(path);
}

int cmd_objtool(int argc, char **argv)
{
	struct command_line c = {0};
	int done = environment_read(&c), status;
	struct error e;

	if (done > 0)
		done = options_read(&c, argc, argv);
	if (done <= 0)
		return done ? EXIT_UNUSABLE : EXIT_CLEAN;
	if (argc - optind != 1) {
		fprintf(stderr, "etch: objtool needs one FILE.o; see etch objtool --help\n");
		return EXIT_UNUSABLE;
	}
	if (!c.acts) {
		fprintf(stderr, "etch: objtool needs an action; see etch objtool --help\n");
		return EXIT_UNUSABLE;
	}
	if (c.make.mnop && !c.make.mcount) {
		fprintf(stderr, "etch: objtool: --mnop requires --mcount\n");
		return EXIT_UNUSABLE;
	}
	c.make.release = release_find();
	if (!c.make.release || !unsupported_check(&c))
		return EXIT_UNUSABLE;
	noreturns_find();
	c.make.uaccess &= !c.no_uaccess;
	c.make.stackval &= !c.no_stackval;
	bounds_memory_ends();
	/* First, on the object as the compiler wrote it: objtool refuses some of what etch adds. */
	status = c.fallback ? fallback_run(&c, argv[optind]) : EXIT_CLEAN;
	if (status)
		return status;
	if (!objtool_run(argv[optind], &c.make, &e))
		return EXIT_CLEAN;
	text_error(argv[optind], "%s", e.text);
	return EXIT_UNUSABLE;
}
