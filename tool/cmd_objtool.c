/* SPDX-License-Identifier: MIT */
/*
 * The command `etch objtool`: replaces the kernel's objtool, and has the same command line. Guide:
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
#include <unistd.h>

/*
 * The passes and options of objtool that etch lacks. Each is an error, unless --fallback passes the command line to the
 * real objtool, or --skip drops it by name. `action`: it is a pass; false: it is an option of passes. `instead`: what
 * gives as much, or null.
 */
static const struct unsupported {
	char option;
	const char *name;
	bool action;
	const char *instead;
} unsupported[] = {
	{'d', "disas", true, "etch inspect code prints the code of a function"},
	{'Z', "trace", false, "etch inspect code prints the CFA at each instruction of a function"},
	{'J', "klp-symids", true, NULL},
};
#define UNSUPPORTED_COUNT (sizeof(unsupported) / sizeof(unsupported[0]))

/* For each option, the first release in which objtool has it. */
static const struct {
	char option;
	const char *name;
	unsigned since;
} newer_options[] = {
	{'P', "prefix", LINUX_NUMBER(6, 12)},    {'C', "cfi", LINUX_NUMBER(6, 12)},
	{'v', "verbose", LINUX_NUMBER(6, 12)},   {'d', "disas", LINUX_NUMBER(7, 2)},
	{'G', "noabs", LINUX_NUMBER(7, 2)},      {'W', "werror", LINUX_NUMBER(7, 2)},
	{'I', "wide", LINUX_NUMBER(7, 2)},       {'U', "output", LINUX_NUMBER(7, 2)},
	{'E', "fineibt", LINUX_NUMBER(7, 2)},    {'Z', "trace", LINUX_NUMBER(7, 2)},
	{'J', "klp-symids", LINUX_NUMBER(7, 2)},
};

#define WORD_SHOWN 60 /* bytes of a wrong word that a message shows */

/* The words of a command line. */
struct words {
	char **list;
	int count;
};

#define SHORTS_7_2 "h::o:rltimnsuvd::q"

struct command_line {
	struct objtool_options make;
	bool asked[UNSUPPORTED_COUNT], skipped[UNSUPPORTED_COUNT];
	bool dump;
	bool acts, no_uaccess, no_stackval, no_skylake, no_prefix, no_noinstr, no_unret, no_cfi, no_fineibt;
	bool quiet; /* prints no messages, since the real objtool will report what is wrong */
};

static void help(void)
{
	printf("Usage: etch objtool ACTION... [OPTION...] FILE.o\n"
	       "\n"
	       "Replaces objtool in the build of Linux 6.1, 6.12 or 7.2. Changes one object file in place: adds\n"
	       "unwind rows and tables of the instructions that the kernel patches, and changes code. A number\n"
	       "in parentheses is the kernel release for which an action or option exists.\n"
	       "\n"
	       "Actions:\n"
	       "  -h, --hacks[=LIST]     change code as LIST says; its words are jump_label (turn jumps of\n"
	       "                         static keys into nops), noinstr (turn calls of profilers into nops\n"
	       "                         in code that must not be instrumented), and skylake (since 6.12:\n"
	       "                         with --rethunk, add .call_sites)\n"
	       "  -o, --orc              add unwind rows: .orc_unwind and .orc_unwind_ip (for 7.2, -o is\n"
	       "                         --output)\n"
	       "  -i, --ibt              add .ibt_endbr_seal; warn if the address of code without endbr is\n"
	       "                         taken; with --link\n"
	       "  -m, --mcount           add __mcount_loc, the calls of __fentry__\n"
	       "  -r, --retpoline        add .retpoline_sites; warn of indirect branches without a thunk\n"
	       "      --rethunk          add .return_sites; with --retpoline, warn of returns without a thunk\n"
	       "      --prefix=N         (since 6.12) add symbols for the N bytes before functions\n"
	       "      --cfi              (6.12) add .cfi_sites, the preambles by which clang checks indirect\n"
	       "                         calls; (7.2) with --prefix, extend the symbols of these preambles\n"
	       "                         up to the function, and warn of indirect calls without a check\n"
	       "      --fineibt          (7.2) with --cfi, add .cfi_sites\n"
	       "      --noabs            (7.2) warn of absolute addresses in sections that are loaded\n"
	       "  -l, --sls              warn if no int3 follows a return or an indirect jump\n"
	       "  -t, --static-call      add .static_call_sites\n"
	       "  -s, --stackval         warn of frames that are built or left against the kernel's rules\n"
	       "  -u, --uaccess          warn if access to user memory is enabled at a call or a return\n"
	       "  -n, --noinstr          warn of calls that leave code that must not be instrumented; with\n"
	       "                         --link\n"
	       "      --dump[=orc]       print the unwind rows of FILE.o; no other action is possible with it\n"
	       "\n"
	       "Options:\n"
	       "      --unret            warn of returns that entry code reaches before it has reset the CPU's\n"
	       "                         prediction of returns; with --link\n"
	       "      --module           the object is part of a module\n"
	       "      --link             the object is the linked one, vmlinux.o\n"
	       "      --mnop             with --mcount, turn the calls of __fentry__ into nops (for 6.1 this\n"
	       "                         is always done)\n"
	       "      --no-unreachable   do not warn of code that cannot be reached\n"
	       "      --backup           keep a copy as FILE.o.orig (7.2: only if there is an error or a\n"
	       "                         warning)\n"
	       "      --dry-run          write nothing\n"
	       "      --output=FILE      (7.2, also -o FILE) write the result to FILE, and leave the object\n"
	       "                         as it is\n"
	       "      --sec-address      also name the section in warnings\n"
	       "      --backtrace        after a warning, print by which branches its place is reached\n"
	       "  -v, --verbose          (since 6.12, also by OBJTOOL_VERBOSE=1) like --backtrace, and print the\n"
	       "                         code of the functions with a warning\n"
	       "      --werror           (7.2) treat a warning as an error: exit with status 1 and write\n"
	       "                         nothing\n"
	       "      --wide             (7.2) accepted and ignored: it affects only the output of --disas\n"
	       "      --stats            print counts\n"
	       "  -q, --quiet            print no warnings\n"
	       "      --fallback=PROGRAM run PROGRAM (the kernel's own objtool) with the same command line if\n"
	       "                         etch does not support the release or a part of the command line\n"
	       "      --skip=LIST        leave out these passes: uaccess, stackval, noinstr, unret, skylake,\n"
	       "                         prefix, cfi, fineibt, or passes that etch does not have\n"
	       "      --help             print this help\n"
	       "\n"
	       "Not implemented; these are errors without --fallback or --skip:\n"
	       "  -d, --disas            (7.2) print code; use etch inspect code\n"
	       "      --trace=FUNC       (7.2) print the stack state of each instruction; use etch inspect code\n"
	       "      --klp-symids       (7.2) make tables for live patches\n"
	       "\n"
	       "Further options are read from the environment variable OBJTOOL_ARGS. The kernel's build sets\n"
	       "KERNELVERSION to the release; without it, the release is 6.1. A release newer than 7.2 is\n"
	       "treated as 7.2, with a warning. Objects of other releases are refused.\n"
	       "\n"
	       "Exit status: 0 done, with or without warnings; 1 warnings, with --werror; 2 the file could not\n"
	       "be read or written, or the command line is wrong.\n");
}

/* Records a word of --skip. Returns false if it names nothing that can be left out. */
static bool skip_word_take(struct command_line *c, const char *word, size_t n)
{
	const struct {
		const char *name;
		bool *flag;
	} passes[] = {{"uaccess", &c->no_uaccess}, {"stackval", &c->no_stackval}, {"skylake", &c->no_skylake},
	              {"prefix", &c->no_prefix},   {"noinstr", &c->no_noinstr},   {"unret", &c->no_unret},
	              {"cfi", &c->no_cfi},         {"fineibt", &c->no_fineibt}};
	size_t i;

	for (i = 0; i < sizeof(passes) / sizeof(passes[0]); i++)
		if (strlen(passes[i].name) == n && !memcmp(passes[i].name, word, n))
			return *passes[i].flag = true;
	for (i = 0; i < UNSUPPORTED_COUNT; i++)
		if (strlen(unsupported[i].name) == n && !memcmp(unsupported[i].name, word, n))
			return c->skipped[i] = true;
	return false;
}

static bool skip_take(struct command_line *c, const char *list)
{
	size_t n;

	for (;; list += n + 1) {
		n = strcspn(list, ",");
		if (!skip_word_take(c, list, n)) {
			if (!c->quiet)
				text_error("objtool",
				           "--skip takes uaccess, stackval, noinstr, unret, skylake, prefix, cfi, fineibt, or passes "
				           "that etch objtool lacks, not '%.*s'",
				           (int)(n < WORD_SHOWN ? n : WORD_SHOWN), list);
			return false;
		}
		if (!list[n])
			return true;
	}
}

/* Records an option that etch lacks. Returns false if there is no such option. */
static bool unsupported_take(struct command_line *c, int option)
{
	size_t i;

	for (i = 0; i < UNSUPPORTED_COUNT; i++)
		if (unsupported[i].option == option) {
			c->asked[i] = true;
			c->acts |= unsupported[i].action;
			return true;
		}
	return false; /* argument_option() has printed the message */
}

/* Handles the argument of --hacks. Without a list, all hacks that the release's objtool has are selected. */
static bool hacks_take(struct command_line *c, const char *list)
{
	bool has_skylake = c->make.release->number >= LINUX_NUMBER(6, 12);
	size_t n;

	c->make.jump_label |= !list;
	c->make.noinstr_hack |= !list;
	c->make.skylake |= !list && has_skylake;
	for (; list; list = list[n] ? list + n + 1 : NULL) {
		n = strcspn(list, ",");
		if (n == strlen("jump_label") && !strncmp(list, "jump_label", n))
			c->make.jump_label = true;
		else if (n == strlen("noinstr") && !strncmp(list, "noinstr", n))
			c->make.noinstr_hack = true;
		else if (has_skylake && n == strlen("skylake") && !strncmp(list, "skylake", n))
			c->make.skylake = true;
		else {
			if (!c->quiet)
				text_error(NULL, "--hacks takes jump_label, noinstr and, since Linux 6.12, skylake, not '%.*s'",
				           (int)(n < WORD_SHOWN ? n : WORD_SHOWN), list);
			return false;
		}
	}
	return true;
}

static bool prefix_take(struct command_line *c, const char *text)
{
	long n;

	if (c->quiet) /* the real objtool prints its own message */
		n = strtol(text, NULL, 10);
	else if (!argument_number("--prefix", text, 0, OBJTOOL_PREFIX_MOST, &n))
		return false;
	c->make.prefix = (unsigned)n;
	return n >= 0 && n <= OBJTOOL_PREFIX_MOST;
}

/* Returns false, after a message, if objtool of the release has no such option. */
static bool option_exists(const struct command_line *c, int option)
{
	size_t i;

	for (i = 0; i < sizeof(newer_options) / sizeof(newer_options[0]); i++)
		if (newer_options[i].option == option && c->make.release->number < newer_options[i].since) {
			if (!c->quiet)
				fprintf(stderr, "etch: objtool: Linux %s has no --%s\n", c->make.release->name, newer_options[i].name);
			return false;
		}
	return true;
}

static bool dump_take(struct command_line *c, const char *what)
{
	if (what && strcmp(what, "orc")) {
		if (!c->quiet)
			text_error("objtool", "--dump takes orc, not '%.*s'", WORD_SHOWN, what);
		return false;
	}
	return c->dump = true;
}

static bool option_take(struct command_line *c, int option, const char *arg)
{
	struct objtool_options *o = &c->make;

	switch (option) {
	case 'h': c->acts = true; return hacks_take(c, arg);
	case 'o': /* with 7.2: -o FILE */
		if (arg)
			o->output = arg;
		else
			c->acts = o->orc = true;
		return true;
	case 'U': o->output = arg; return true;
	case 'P': return prefix_take(c, arg);
	case 'G': c->acts = o->noabs = true; return true;
	case 'W': return o->errors = true;
	case 'I': return true; /* the width for --disas, which etch lacks */
	case 'A': return o->section_address = true;
	case 'D': return dump_take(c, arg);
	case 'T': return o->backtrace = true;
	case 'v': return o->backtrace = o->verbose = true;
	case 'r': c->acts = o->retpoline = true; return true;
	case 'l': c->acts = o->sls = true; return true;
	case 't': c->acts = o->static_call = true; return true;
	case 'u': c->acts = o->uaccess = true; return true;
	case 's': c->acts = o->stackval = true; return true;
	case 'i': c->acts = o->ibt = true; return true;
	case 'L': o->linked = true; return true;
	case 'n': c->acts = o->noinstr = true; return true;
	case 'R': return o->unret = true;
	case 'C': return o->cfi = true;
	case 'E': return o->fineibt = true;
	case 'm': c->acts = o->mcount = true; return true;
	case 'O': o->mnop = true; return true;
	case 'K': c->acts = o->rethunk = true; return true;
	case 'M': o->module = true; return true;
	case 'N': o->no_unreachable = true; return true;
	case 'B': o->backup = true; return true;
	case 'Y': o->dry_run = true; return true;
	case 'S': o->stats = true; return true;
	case 'q': text_quiet_set(); return true;
	case 'F': return true; /* fallback_find() has already handled it */
	case 'X': return skip_take(c, arg);
	default: return unsupported_take(c, option);
	}
}

/* Reads the options. Returns 1 to continue, 0 after printing the help, and -1 after an error. */
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
		{"verbose", no_argument, NULL, 'v'},     {"disas", optional_argument, NULL, 'd'},
		{"noabs", no_argument, NULL, 'G'},       {"werror", no_argument, NULL, 'W'},
		{"wide", no_argument, NULL, 'I'},        {"output", required_argument, NULL, 'U'},
		{"fineibt", no_argument, NULL, 'E'},     {"trace", required_argument, NULL, 'Z'},
		{"klp-symids", no_argument, NULL, 'J'},  {"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'H'},        {0, 0, NULL, 0},
	};
	int o;

	optind = 0; /* lets getopt_long() start again, for the command line that follows that of OBJTOOL_ARGS */
	opterr = !c->quiet;
	for (;;) {
		if (c->make.release->number < LINUX_NUMBER(7, 2))
			o = argument_option(argc, argv, "h::orltimnsuvd::q", longs);
		else
			o = argument_option(argc, argv, SHORTS_7_2, longs);
		if (o == -1)
			return 1;
		if (o == 'H') {
			help();
			return 0;
		}
		if (!option_exists(c, o) || !option_take(c, o, optarg))
			return -1;
	}
}

/*
 * Splits the value of the environment variable OBJTOOL_ARGS at its spaces; like objtool, it knows no quotes. The list
 * starts with the name of the variable, in place of that of a program. The words are not freed before the process ends.
 * Returns false if there is no memory.
 */
static bool environment_words(struct words *out)
{
	static char name[] = "OBJTOOL_ARGS", *copy, **list;
	const char *value = getenv("OBJTOOL_ARGS");
	char *word, *rest = NULL;

	copy = strdup(value ? value : "");
	/* Each word has a byte and a space after it; the name and a null are added. */
	list = copy ? calloc(strlen(copy) / 2 + 3, sizeof(*list)) : NULL;
	*out = (struct words){list, 0};
	if (!list)
		return false;
	list[out->count++] = name;
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		list[out->count++] = word;
	return true;
}

/* Reads the options of OBJTOOL_ARGS, which has nothing else. Returns as options_read() does. */
static int environment_read(struct command_line *c, const struct words *w)
{
	const char *verbose = getenv("OBJTOOL_VERBOSE");
	int done = options_read(c, w->count, w->list);

	if (done > 0 && optind < w->count) {
		if (!c->quiet)
			text_error("OBJTOOL_ARGS", "'%.*s' is no option", WORD_SHOWN, w->list[optind]);
		return -1;
	}
	if (verbose && !strcmp(verbose, "1") && c->make.release->number >= LINUX_NUMBER(6, 12))
		c->make.backtrace = c->make.verbose = true;
	return done;
}

/* ---- the real objtool -------------------------------------------------------------------- */

/*
 * For an option that only etch has. If word i is --NAME=VALUE, or --NAME with VALUE as the next word, returns the
 * value; otherwise null. Sets *more if the next word is part of the option.
 */
static const char *own_value(const struct words *w, int i, const char *name, int *more)
{
	size_t n = strlen(name);

	*more = 0;
	if (strncmp(w->list[i], name, n))
		return NULL;
	if (w->list[i][n] == '=')
		return w->list[i] + n + 1;
	*more = !w->list[i][n] && i + 1 < w->count;
	return *more ? w->list[i + 1] : NULL;
}

/* Returns the value of the last option --fallback, or null if there is none. */
static const char *fallback_find(const struct words *w)
{
	const char *found = NULL, *value;
	int i, more;

	for (i = 1; i < w->count; i++)
		if ((value = own_value(w, i, "--fallback", &more)))
			found = value;
	return found;
}

/* Adds the words that are for the real objtool, that is, all except the options that only etch has. */
static void objtool_words(const struct words *w, char **argv, int *argc)
{
	int i, more;

	for (i = 1; i < w->count; i++)
		if (own_value(w, i, "--fallback", &more) || own_value(w, i, "--skip", &more))
			i += more;
		else
			argv[(*argc)++] = w->list[i];
	argv[*argc] = NULL;
}

/*
 * Replaces this process by the real objtool, with the whole command line. If it cannot be run, returns an exit status.
 */
static int fallback_run(const char *program, const struct words *environment, const struct words *line)
{
	char **argv = calloc((size_t)environment->count + (size_t)line->count + 2, sizeof(*argv));
	int argc = 1;

	if (!argv) {
		text_error(program, "cannot be run: %s", strerror(ENOMEM));
		return EXIT_UNUSABLE;
	}
	argv[0] = (char *)program;
	objtool_words(environment, argv, &argc);
	objtool_words(line, argv, &argc);
	/* its options are among the words of the command line now, except those that only etch has */
	unsetenv("OBJTOOL_ARGS");
	fflush(stdout);
	execvp(program, argv);
	text_error(program, "cannot be run: %s", strerror(errno));
	free(argv);
	return EXIT_UNUSABLE;
}

/* Returns the first option that is neither implemented nor skipped, or null if there is none. */
static const struct unsupported *unsupported_find(const struct command_line *c)
{
	size_t i;

	for (i = 0; i < UNSUPPORTED_COUNT; i++)
		if (c->asked[i] && !c->skipped[i])
			return &unsupported[i];
	return NULL;
}

/*
 * Finds the release by KERNELVERSION, which the kernel's build sets, since an object does not contain its release.
 * Returns null after a message. *known is set as by linux_release_find().
 */
static const struct linux_release *release_find(bool quiet, int *known)
{
	const char *version = getenv("KERNELVERSION");
	char names[64] = "";
	const struct linux_release *r = linux_release_find(version, known);

	if (quiet)
		return r;
	linux_release_names(names, sizeof(names));
	if (*known < 0)
		fprintf(stderr, "etch: objtool reads objects of Linux %s, and KERNELVERSION is %s\n", names, version);
	else if (!*known)
		fprintf(stderr, "etch: warning: objtool: KERNELVERSION is %s, newer than all known releases: taken for %s\n",
		        version, r->name);
	return r;
}

/* Reads the functions that do not return from the kernel's source, if the build states where the source is. */
static void noreturns_find(void)
{
	const char *tree = getenv("srctree");
	char path[4096];

	if (tree && (size_t)snprintf(path, sizeof(path), "%s/tools/objtool/noreturns.h", tree) < sizeof(path))
		linux_noreturns_read(path);
}

/* Returns what is wrong with the combination of options, or null. */
static const char *combination_wrong(const struct command_line *c)
{
	const struct objtool_options *o = &c->make;

	if (c->dump && c->acts)
		return "--dump can't be combined with other actions";
	if (o->mnop && !o->mcount)
		return "--mnop requires --mcount";
	if (o->cfi && o->release->cfi_grows && !o->prefix)
		return "--cfi requires --prefix";
	if (o->fineibt && !o->cfi)
		return "--fineibt requires --cfi";
	if (o->unret && !c->acts && !c->dump)
		return o->release->links_by_option ? "--unret requires an action" : "--unret requires --rethunk";
	return NULL;
}

/* Checks that the options of the command line are complete. Returns false after a message. */
static bool line_check(const struct command_line *c, int words)
{
	const struct unsupported *lacks = unsupported_find(c);
	const char *wrong = combination_wrong(c);

	if (words != 1)
		fprintf(stderr, "etch: objtool needs one FILE.o; see etch objtool --help\n");
	else if (lacks)
		fprintf(stderr, "etch: objtool: --%s is not implemented%s%s; see --fallback and --skip\n", lacks->name,
		        lacks->instead ? ": " : "", lacks->instead ? lacks->instead : "");
	else if (wrong)
		fprintf(stderr, "etch: objtool: %s\n", wrong);
	else if (!c->acts && !c->dump)
		fprintf(stderr, "etch: objtool needs an action; see etch objtool --help\n");
	else
		return true;
	return false;
}

/* Turns off the passes that --skip names. */
static void skips_apply(struct command_line *c)
{
	struct objtool_options *o = &c->make;

	o->uaccess &= !c->no_uaccess;
	o->stackval &= !c->no_stackval;
	o->no_stack = c->no_stackval;
	o->noinstr &= !c->no_noinstr;
	o->unret &= !c->no_unret;
	o->cfi &= !c->no_cfi;
	o->fineibt &= !c->no_fineibt && o->cfi;
	o->skylake &= !c->no_skylake;
	o->prefix = c->no_prefix ? 0 : o->prefix;
}

int cmd_objtool(int argc, char **argv)
{
	struct command_line c = {0};
	struct words line = {argv, argc}, environment;
	const char *fallback;
	int done = 1, known, warned;
	struct error e;

	if (!environment_words(&environment))
		return EXIT_UNUSABLE;
	fallback = fallback_find(&line);
	fallback = fallback ? fallback : fallback_find(&environment);
	c.quiet = fallback;
	c.make.release = release_find(c.quiet, &known);
	if (c.make.release) {
		done = environment_read(&c, &environment);
		done = done > 0 ? options_read(&c, argc, argv) : done;
	}
	if (!done)
		return EXIT_CLEAN;
	if (fallback && (known < 1 || done < 0 || argc - optind != 1 || !(c.acts || c.dump) || unsupported_find(&c)))
		return fallback_run(fallback, &environment, &line);
	if (!c.make.release || done < 0 || !line_check(&c, argc - optind))
		return EXIT_UNUSABLE;
	noreturns_find();
	skips_apply(&c);
	bounds_memory_ends();
	warned = c.dump ? orc_dump(argv[optind], c.make.release, &e) : objtool_run(argv[optind], &c.make, &e);
	if (warned < 0) {
		text_error(argv[optind], "%s", e.text);
		return EXIT_UNUSABLE;
	}
	return warned && c.make.errors ? EXIT_FINDINGS : EXIT_CLEAN;
}
