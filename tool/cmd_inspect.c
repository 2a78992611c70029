/* SPDX-License-Identifier: MIT */
/* The command `etch inspect`: shows sites, unwind rows, code and tables of files. Guide: docs/inspect.md. */
#include "arguments.h"
#include "command.h"
#include "support/bounds.h"
#include "support/demangle.h"
#include "support/memory.h"
#include "inspect/inspect.h"
#include "support/typed_name.h"
#include "support/progress.h"
#include "report/text.h"
#include "support/workers.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum what { SUMMARY, SITES, ORC, SFRAME, CFI, CODE, TABLES, MARKS, FIELDS, WHATS };

static const char *const names[WHATS + 1] = {"summary", "sites",  "orc",   "sframe", "cfi",
                                             "code",    "tables", "marks", "fields", NULL};

struct options {
	enum what what;
	const char *wrong; /* the operand in the place of the view, if it is neither a view nor a file; otherwise null */
	enum format format;
	const char *at; /* a function or an address; null: --at was not given */
	bool no_cfi, bytes, intel, all;
	const char *syntax;  /* --syntax as the user gave it, or null */
	const char *symbols; /* the path of a System.map, or null */
	int jobs;
	struct options_given given;
};

static void help(void)
{
	printf("Usage: etch inspect [summary|sites|orc|sframe|cfi|code|tables|marks|fields] [OPTION...] FILE...\n"
	       "       etch inspect code [OPTION...] FUNC FILE...\n"
	       "\n"
	       "  summary   (default) the kind of file, the sources of its unwind rows, sizes of tables,\n"
	       "            findings; its sites, which objects are armed, which loads and indirect calls\n"
	       "            stay as they are and why\n"
	       "  sites     each instruction that touches an etched object: address, length, kind (load,\n"
	       "            call, jmp, store, escape), object, offset and size of the bytes that it reads,\n"
	       "            form, and whether it is live or why not; in text also its state, the initial\n"
	       "            target of a call, the function and the source line\n"
	       "  orc       unwind rows: address, size, CFA, rbp, return address, kind of frame and source;\n"
	       "            from the file's table, or generated from its code if it has none\n"
	       "  sframe    the same from the section .sframe, no matter which tool wrote it\n"
	       "  cfi       the same from the section .eh_frame, and where rbx and r12 to r15 are\n"
	       "  code      the instructions of the function FUNC, or of the function at an address: each\n"
	       "            with its CFA and the source of that, with jumps as arrows, and after ; its site,\n"
	       "            its operands, what leads there (jump tables, landing pads, fixups) and where\n"
	       "            saved registers are\n"
	       "  tables    the entries of __imv, __etch_obj, __pv_sites, __pv_native and __ex_table (in\n"
	       "            linked files); for Linux kernel modules and vmlinux the kernel's tables\n"
	       "  marks     the markers (etch/mark.h): address, name, types and text of the arguments,\n"
	       "            function, file and line\n"
	       "  fields    each field of an etched object (in linked files): its reads; whether it is armed\n"
	       "            from the start (yes), by etch_sync (guarded: its pages are read-only from then\n"
	       "            on) or not (no); and the stores that keep it from being armed, by function, file\n"
	       "            and line\n"
	       "\n"
	       "      --all             fields: show all such stores, not only the first three\n"
	       "      --at ADDR|FUNC    orc, code: show only this address or function (or NAME+0xOFFSET)\n"
	       "      --no-cfi          orc, code: make rows from the code alone, ignoring .eh_frame and\n"
	       "                        any table of the file\n"
	       "      --syntax att|intel  code: syntax of the disassembly (default: att)\n"
	       "      --bytes           code: show the bytes of each instruction\n"
	       "  -C, --demangle        text: print names of C++ and Rust demangled (the default on a\n"
	       "                        terminal)\n"
	       "      --no-demangle     text: print names as they are in the symbol table\n"
	       "      --symbols FILE    orc, tables: take the symbols of a vmlinux from this System.map\n"
	       "      --format text|tsv|json  text (default); tsv: one row per line, after a line of column\n"
	       "                        names; json: an object, or an array for several files\n"
	       "      --json            the same as --format json\n"
	       "  -j, --jobs N          use N threads (default: one per processor)\n"
	       "  -q, --quiet           print only errors on standard error, no remarks and no progress\n"
	       "  -h, --help            print this help\n"
	       "\n"
	       "FUNC is a symbol, a function's demangled name with or without parameters and enclosing\n"
	       "namespaces, or any part of a name that only one function has.\n"
	       "Addresses are hexadecimal without 0x: virtual addresses in programs and libraries, section\n"
	       "offsets in object files. A load or call is live if it lies in one aligned 8-byte word, so\n"
	       "that one store can replace it while threads run. On a terminal the output has colours, unless\n"
	       "NO_COLOR is set.\n"
	       "Exit status: 0 done; 2 a file could not be used, or the command line is wrong.\n");
}

static int show_sites_of(const struct options *opt, const char *path, struct error *e)
{
	struct view v;
	int err = view_load(&v, path, e);

	if (!err && opt->what == FIELDS && elf_is_object(&v.file))
		err = error_set(e, "is an object file: which fields are armed is decided by the link step");
	if (!err && opt->what == TABLES && elf_is_object(&v.file))
		err = error_set(e, "is an object file: its tables are still relocations (see inspect sites)");
	if (!err && opt->what == SITES)
		show_sites(&v, opt->format);
	else if (!err && opt->what == FIELDS)
		show_fields(&v, opt->all, opt->format);
	else if (!err && opt->what == MARKS)
		err = show_marks(&v, opt->format, e);
	else if (!err)
		show_tables(&v, opt->format);
	view_free(&v);
	return err;
}

static int show(const struct options *opt, const char *path, struct error *e)
{
	const struct code_options code = {opt->at, opt->no_cfi, opt->intel, opt->bytes, opt->jobs, opt->format};
	const struct kernel_options kernel = {opt->what == TABLES, opt->at, opt->symbols, opt->format};
	int r = 1;

	if (opt->what == TABLES || (opt->what == ORC && !opt->no_cfi))
		r = show_kernel(path, &kernel, e);
	if (r <= 0)
		return r;
	switch (opt->what) {
	case ORC: return show_orc(path, opt->at, opt->no_cfi ? UNWIND_CODE_ONLY : UNWIND_ANY, opt->format, e);
	case SFRAME: return show_orc(path, opt->at, UNWIND_SFRAME, opt->format, e);
	case CFI: return show_orc(path, opt->at, UNWIND_CFI, opt->format, e);
	case CODE: return show_code(path, &code, e);
	case SUMMARY: return show_summary(path, opt->jobs, opt->format, e);
	default: return show_sites_of(opt, path, e);
	}
}

static bool syntax_parse(const char *name, struct options *opt)
{
	static const char *const words[] = {"att", "intel", NULL};
	int i = argument_word("--syntax", words, name);

	opt->syntax = name;
	opt->intel = i == 1;
	return i >= 0;
}

/*
 * The first operand is not a view. Returns true if it was probably meant to be one: no file has its name, it is a word,
 * and either other files follow, or it resembles the name of a view.
 */
static bool view_is_wrong(int argc, char **argv)
{
	return argc && access(argv[0], F_OK) && argv[0][strspn(argv[0], "abcdefghijklmnopqrstuvwxyz-_")] == 0 &&
	       (argc > 1 || nearest_word(argv[0], names, sizeof(*names)));
}

static void view_complain(const char *word)
{
	const char *meant = nearest_word(word, names, sizeof(*names));

	text_error(NULL, "unknown view '%s'%s%s%s, and there is no file of that name; see etch inspect --help", word,
	           meant ? " (did you mean " : "", meant ? meant : "", meant ? "?)" : "");
}

static bool is_missing(const char *path) { return access(path, F_OK) && errno == ENOENT; }

/*
 * Prints how to name a function, if an operand is probably meant to be one and is in the wrong place. For `orc` and
 * similar views, which take a function by --at, that is the first of two operands; for `code`, where the function comes
 * first, it is the last. Returns true if it printed the message.
 */
static bool function_complain(const struct options *opt, int argc, char **argv)
{
	bool rows = opt->what == ORC || opt->what == SFRAME || opt->what == CFI;
	const char *func = NULL, *file = NULL;

	if (rows && !opt->at && argc == 2 && is_missing(argv[0]) != is_missing(argv[1])) {
		func = argv[is_missing(argv[1])];
		file = argv[is_missing(argv[0])];
	} else if (opt->what == CODE && argc == 1 && is_missing(argv[0]) && !is_missing(opt->at)) {
		func = argv[0];
		file = opt->at;
	}
	if (!func || strchr(func, '/'))
		return false;
	text_error(NULL, "%s: no such file; for the function of that name: etch inspect %s %s%s %s", func, names[opt->what],
	           rows ? "--at " : "", func, file);
	return true;
}

/* Removes the name of the view from the operands, and for `code` also FUNC. */
static void operands_take(struct options *opt, int *argc, char ***argv)
{
	int i;

	for (i = 0; i < WHATS && *argc; i++)
		if (!strcmp((*argv)[0], names[i])) {
			opt->what = (enum what)i;
			(*argv)++;
			(*argc)--;
			break;
		}
	if (i == WHATS && view_is_wrong(*argc, *argv))
		opt->wrong = (*argv)[0];
	if (opt->what == CODE && !opt->at && *argc) {
		opt->at = (*argv)[0];
		(*argv)++;
		(*argc)--;
	}
}

/* Handles one option. Returns -1 to continue, or the exit status. */
static int option_take(int c, struct options *opt)
{
	switch (c) {
	case 'f': return argument_format(optarg, &opt->format) ? -1 : EXIT_UNUSABLE;
	case 'J': opt->format = FORMAT_JSON; break;
	case 'a': opt->at = optarg; break;
	case 'c': opt->no_cfi = true; break;
	case 'S': opt->symbols = optarg; break;
	case 'y': return syntax_parse(optarg, opt) ? -1 : EXIT_UNUSABLE;
	case 'b': opt->bytes = true; break;
	case 'A': opt->all = true; break;
	case 'C':
	case 'M': demangle_set(c == 'C'); break;
	case 'j': return argument_jobs(optarg, &opt->jobs) ? -1 : EXIT_UNUSABLE;
	case 'q':
		text_quiet_set();
		progress_off();
		break;
	case 'h': help(); return EXIT_CLEAN;
	default: return EXIT_UNUSABLE;
	}
	return -1;
}

static const struct option longs[] = {
	{"format", required_argument, NULL, 'f'},  {"json", no_argument, NULL, 'J'},
	{"at", required_argument, NULL, 'a'},      {"no-cfi", no_argument, NULL, 'c'},
	{"symbols", required_argument, NULL, 'S'}, {"syntax", required_argument, NULL, 'y'},
	{"bytes", no_argument, NULL, 'b'},         {"all", no_argument, NULL, 'A'},
	{"jobs", required_argument, NULL, 'j'},    {"demangle", no_argument, NULL, 'C'},
	{"no-demangle", no_argument, NULL, 'M'},   {"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},          {0, 0, NULL, 0},
};

/* Checks that the view supports all options that were given. Returns false after a message. */
static bool options_fit(const struct options *opt)
{
	const char *odd = NULL, *views = "orc and inspect code";
	bool code = opt->what == ORC || opt->what == CODE, rows = code || opt->what == SFRAME || opt->what == CFI;

	if ((opt->at && !rows) || (opt->no_cfi && !code))
		odd = opt->no_cfi ? "--no-cfi" : "--at";
	if (opt->symbols && opt->what != ORC && opt->what != TABLES) {
		odd = "--symbols";
		views = "orc and inspect tables";
	}
	if ((opt->bytes || opt->syntax) && opt->what != CODE) {
		odd = opt->bytes ? "--bytes" : "--syntax";
		views = "code";
	}
	if (opt->all && opt->what != FIELDS) {
		odd = "--all";
		views = "fields";
	}
	if (odd) {
		fprintf(stderr, "etch: %s is for inspect %s\n", odd, views);
		return false;
	}
	if (opt->no_cfi && !argument_none_of(&opt->given, longs, "S", "cannot be combined with --no-cfi"))
		return false;
	return opt->format == FORMAT_TEXT || argument_none_of(&opt->given, longs, "C", "needs --format text");
}

static int show_one(const struct options *opt, const char *path)
{
	struct error e;

	bounds_begin();
	bounds_memory_ends();
	if (!show(opt, path, &e))
		return EXIT_CLEAN;
	text_error(path, "%s", e.text);
	return EXIT_UNUSABLE;
}

/* ---- several files ------------------------------------------------------------------- */

/*
 * The state if there are several files. A worker process shows each file, so that a crash on one file does not cost the
 * output about the others.
 */
struct several {
	const struct options *opt;
	char **paths;
	int status;
};

/* The first byte of a worker's answer says whether the rest is output or an error message. */
enum { ANSWER_SHOWN = 's', ANSWER_ERROR = 'e' };

static char *answer_error(const char *text, size_t *size)
{
	*size = 1 + strlen(text);
	return mem_format("%c%s", ANSWER_ERROR, text);
}

/* Reads all that was written to a temporary file, and returns it as an answer. */
static char *answer_read(FILE *f, size_t *size)
{
	long length = fflush(f) || ferror(f) ? -1 : ftell(f);
	char *answer;

	if (length < 0)
		return answer_error(strerror(errno), size);
	answer = mem_alloc((size_t)length + 1, 1);
	*answer = ANSWER_SHOWN;
	*size = (size_t)length + 1;
	rewind(f);
	if (fread(answer + 1, 1, (size_t)length, f) == (size_t)length)
		return answer;
	free(answer);
	return answer_error(strerror(errno), size);
}

static void file_work(void *ctx, size_t i, char **answer, size_t *size)
{
	const struct several *s = ctx;
	int fd = memfd_create("etch", MFD_CLOEXEC);
	FILE *to = fd < 0 ? NULL : fdopen(fd, "w+"), *out = stdout;
	struct error e;
	bool shown;

	if (!to) {
		*answer = answer_error(strerror(errno), size);
		return;
	}
	json_array_leave();
	stdout = to; /* file descriptor 1 is not changed, since isatty(1) decides about colours */
	shown = !show(s->opt, s->paths[i], &e);
	stdout = out;
	*answer = shown ? answer_read(to, size) : answer_error(e.text, size);
	fclose(to);
}

static bool file_done(void *ctx, size_t i, const char *answer, size_t size, const char *why)
{
	struct several *s = ctx;

	if (answer && size && *answer == ANSWER_SHOWN) {
		if (size > 1 && s->opt->format == FORMAT_JSON)
			json_document_begin();
		fwrite(answer + 1, 1, size - 1, stdout);
		fflush(stdout);
		return !ferror(stdout);
	}
	progress_end();
	text_error(s->paths[i], "%.*s", answer ? (int)size - 1 : (int)strlen(why), answer ? answer + 1 : why);
	s->status = EXIT_UNUSABLE;
	return true;
}

static int show_several(const struct options *opt, int count, char **paths)
{
	struct several s = {opt, paths, EXIT_CLEAN};
	struct workers_run run = {
		.count = (size_t)count, .jobs = 1, .what = "inspect", .work = file_work, .done = file_done, .ctx = &s};

	if (opt->format == FORMAT_JSON)
		json_array_begin();
	if (!workers_run(&run) && !ferror(stdout)) {
		text_error(NULL, "cannot wait for its workers: %s", strerror(errno));
		s.status = EXIT_UNUSABLE;
	}
	progress_end();
	if (opt->format == FORMAT_JSON)
		json_array_end();
	return s.status;
}

/* Shows all files. The command prints one JSON document: for one file an object, for several an array of objects. */
static int show_all(const struct options *opt, int count, char **paths)
{
	return count > 1 ? show_several(opt, count, paths) : show_one(opt, *paths);
}

int cmd_inspect(int argc, char **argv)
{
	struct options opt = {.what = SUMMARY, .format = FORMAT_TEXT, .jobs = processors()};
	int c, status;

	demangle_set(isatty(STDOUT_FILENO));
	while ((c = argument_option(argc, argv, "Cj:qh", longs, &opt.given)) != -1)
		if ((status = option_take(c, &opt)) >= 0)
			return status;
	argv += optind;
	argc -= optind;
	operands_take(&opt, &argc, &argv);
	if (opt.wrong) {
		view_complain(opt.wrong);
		return EXIT_UNUSABLE;
	}
	if (!argc) {
		fprintf(stderr, "etch: missing FILE operand; see etch inspect --help\n");
		return EXIT_UNUSABLE;
	}
	if (function_complain(&opt, argc, argv))
		return EXIT_UNUSABLE;
	return options_fit(&opt) ? show_all(&opt, argc, argv) : EXIT_UNUSABLE;
}
