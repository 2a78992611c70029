/* SPDX-License-Identifier: MIT */
/* etch inspect: what is in a file, and why. */
#include "arguments.h"
#include "command.h"
#include "elf/bounds.h"
#include "inspect/inspect.h"
#include "inspect/kernel.h"
#include "report/text.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum what { SUMMARY, SITES, ORC, CODE, TABLES, WHATS };

static const char *const names[WHATS] = {"summary", "sites", "orc", "code", "tables"};

struct options {
	enum what what;
	enum format format;
	const char *at; /* function or address, or null */
	bool no_cfi, bytes, intel;
	const char *syntax;  /* as given, or null */
	const char *symbols; /* a System.map, or null */
	int jobs;
};

static void help(void)
{
	printf("Usage: etch inspect [summary|sites|orc|code|tables] [OPTION...] FILE...\n"
	       "       etch inspect code [OPTION...] FUNC FILE...\n"
	       "\n"
	       "  summary   (default) what kind of file, what its unwind rows come from, sizes of\n"
	       "            tables, findings; sites, what is armed, what stayed a load or an indirect\n"
	       "            call and why\n"
	       "  sites     each instruction that touches an etched object: address, length, kind\n"
	       "            (load, call, jmp, store, escape), object, offset and size of the bytes\n"
	       "            it reads, form, live or why not; for people also what stands there,\n"
	       "            where a call leads at first, function and source line\n"
	       "  orc       the unwind rows: from where to where, CFA, rbp, return address, kind of\n"
	       "            frame, and what the row was taken from; from the file's table, else made\n"
	       "            from its code\n"
	       "  code      the instructions of the function FUNC, or the one that holds an address:\n"
	       "            each with the CFA and what shows it, jumps as arrows, and behind ; its\n"
	       "            site, what it refers to, what leads there (jump tables, landing pads,\n"
	       "            fixups) and where saved registers are\n"
	       "  tables    the entries of __imv, __etch_obj, __pv_sites, __pv_native and __ex_table\n"
	       "            (linked files); of the Linux kernel's modules and vmlinux its own tables\n"
	       "\n"
	       "      --at ADDR|FUNC    orc, code: only this address, or NAME, NAME+0xOFFSET\n"
	       "      --no-cfi          orc, code: rows made from the code alone, not from .eh_frame,\n"
	       "                        whether the file has a table or not\n"
	       "      --syntax att|intel  code: of the disassembly (default att)\n"
	       "      --bytes           code: the bytes of each instruction too\n"
	       "      --symbols FILE    orc, tables of a vmlinux: names from this System.map\n"
	       "      --format text|tsv|json  text (default); tsv, one row a line, with a header; json,\n"
	       "                        of several files an array\n"
	       "      --json            the same as --format json\n"
	       "  -j, --jobs N          threads (default: as many as there are processors)\n"
	       "  -h, --help\n"
	       "\n"
	       "Addresses are hexadecimal without 0x: virtual addresses in programs and libraries,\n"
	       "offsets in the section in object files. A load or call is live when it lies in one\n"
	       "aligned 8-byte word, so that one store can replace it while threads run. Colours are\n"
	       "for terminals, and not when NO_COLOR is set.\n"
	       "Exit status: 0, or 2 when a file could not be used.\n");
}

static int show_sites_of(const struct options *opt, const char *path, struct error *e)
{
	struct view v;
	int err = view_load(&v, path, e);

	if (!err && opt->what == TABLES && elf_is_object(&v.file))
		err = error_set(e, "is an object file: its tables are relocations yet (see inspect sites)");
	if (!err && opt->what == SITES)
		show_sites(&v, opt->format);
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
	case ORC:
		return show_orc(path, opt->at, opt->no_cfi, opt->format, e);
	case CODE:
		return show_code(path, &code, e);
	case SUMMARY:
		return show_summary(path, opt->jobs, opt->format, e);
	default:
		return show_sites_of(opt, path, e);
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

/* The view's name comes first, FUNC of `code` second. */
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
	if (opt->what == CODE && !opt->at && *argc) {
		opt->at = (*argv)[0];
		(*argv)++;
		(*argc)--;
	}
}

/* -1: goes on; else the exit status. */
static int option_take(int c, struct options *opt)
{
	switch (c) {
	case 'f': return argument_format(optarg, &opt->format) ? -1 : EXIT_UNUSABLE;
	case 'J': opt->format = FORMAT_JSON; break;
	case 'a': opt->at = optarg; break;
	case 'C': opt->no_cfi = true; break;
	case 'S': opt->symbols = optarg; break;
	case 'y': return syntax_parse(optarg, opt) ? -1 : EXIT_UNUSABLE;
	case 'b': opt->bytes = true; break;
	case 'j': return argument_jobs(optarg, &opt->jobs) ? -1 : EXIT_UNUSABLE;
	case 'h':
		help();
		return EXIT_CLEAN;
	default:
		fprintf(stderr, "etch: see etch inspect --help\n");
		return EXIT_UNUSABLE;
	}
	return -1;
}

/* Options that only some views have. */
static bool options_fit(const struct options *opt)
{
	const char *odd = NULL, *views = "orc and inspect code";

	if ((opt->at || opt->no_cfi) && opt->what != ORC && opt->what != CODE)
		odd = opt->at ? "--at" : "--no-cfi";
	if (opt->symbols && opt->what != ORC && opt->what != TABLES) {
		odd = "--symbols";
		views = "orc and inspect tables";
	}
	if ((opt->bytes || opt->syntax) && opt->what != CODE) {
		odd = opt->bytes ? "--bytes" : "--syntax";
		views = "code";
	}
	if (odd)
		fprintf(stderr, "etch: %s is for inspect %s\n", odd, views);
	return !odd;
}

/* One document a command: of one file an object, of several an array of such. */
static int show_all(const struct options *opt, int count, char **paths)
{
	bool array = opt->format == FORMAT_JSON && count > 1;
	int i, status = EXIT_CLEAN;

	if (array)
		json_array_begin();
	for (i = 0; i < count; i++) {
		struct error e;

		fflush(stdout); /* a file that takes too long ends the process */
		bounds_begin();
		bounds_memory_ends();
		if (show(opt, paths[i], &e)) {
			text_error(paths[i], "%s", e.text);
			status = EXIT_UNUSABLE;
		}
	}
	if (array)
		json_array_end();
	return status;
}

int cmd_inspect(int argc, char **argv)
{
	static const struct option longs[] = {
		{"format", required_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'J'},
		{"at", required_argument, NULL, 'a'},
		{"no-cfi", no_argument, NULL, 'C'},
		{"symbols", required_argument, NULL, 'S'},
		{"syntax", required_argument, NULL, 'y'},
		{"bytes", no_argument, NULL, 'b'},
		{"jobs", required_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0, 0, NULL, 0},
	};
	struct options opt = {.what = SUMMARY, .format = FORMAT_TEXT, .jobs = processors()};
	int c, status;

	while ((c = getopt_long(argc, argv, "j:h", longs, NULL)) != -1)
		if ((status = option_take(c, &opt)) >= 0)
			return status;
	argv += optind;
	argc -= optind;
	operands_take(&opt, &argc, &argv);
	if (!argc) {
		fprintf(stderr, "etch: inspect what? see etch inspect --help\n");
		return EXIT_UNUSABLE;
	}
	return options_fit(&opt) ? show_all(&opt, argc, argv) : EXIT_UNUSABLE;
}
