/* SPDX-License-Identifier: MIT */
/* etch inspect: what is in a file, and why. */
#include "command.h"
#include "inspect/inspect.h"
#include "inspect/kernel.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum what { SUMMARY, SITES, ORC, CODE, TABLES, WHATS };

static const char *const names[WHATS] = {"summary", "sites", "orc", "code", "tables"};

struct options {
	enum what what;
	enum format format;
	const char *at; /* function or address, or null */
	bool no_cfi;
	const char *symbols; /* a System.map, or null */
	int jobs;
};

static void help(void)
{
	printf("Usage: etch inspect [summary|sites|orc|tables] [OPTION...] FILE...\n"
	       "       etch inspect code [OPTION...] FUNC FILE...\n"
	       "\n"
	       "  summary   (default) sites, what is armed, what stayed a load or an indirect call\n"
	       "            and why; the unwind table, its size and what it covers\n"
	       "  sites     each instruction that touches an etched object: address, length, kind\n"
	       "            (load, call, jmp, store, escape), object, offset and size of the bytes\n"
	       "            it reads, form, live or why not; for people also what stands there,\n"
	       "            where a call leads at first, function and source line\n"
	       "  orc       the unwind rows: from where to where, CFA, rbp, return address, kind of\n"
	       "            frame, and what the row was taken from; from the file's table, else made\n"
	       "            from its code\n"
	       "  code      the instructions of a function, each with its unwind row (* where that\n"
	       "            changes), and its site or where it goes on when it faults\n"
	       "  tables    the entries of __imv, __etch_obj, __pv_sites, __pv_native and __ex_table\n"
	       "            (linked files); of the Linux kernel's modules and vmlinux its own tables\n"
	       "\n"
	       "      --at ADDR|FUNC    orc, code: only this address or function\n"
	       "      --no-cfi          orc, code: rows made from the code alone, not from .eh_frame,\n"
	       "                        whether the file has a table or not\n"
	       "      --symbols FILE    orc, tables of a vmlinux: names from this System.map\n"
	       "      --format FORMAT   text (default), tsv (one row a line, with a header) or json\n"
	       "      --json            the same as --format json\n"
	       "  -h, --help\n"
	       "\n"
	       "Addresses are hexadecimal without 0x: virtual addresses in programs and libraries,\n"
	       "offsets in the section in object files. A load or call is live when it lies in one\n"
	       "aligned 8-byte word, so that one store can replace it while threads run.\n"
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
		return show_code(path, opt->at, opt->no_cfi, opt->format, e);
	case SUMMARY:
		return show_summary(path, opt->jobs, opt->format, e);
	default:
		return show_sites_of(opt, path, e);
	}
}

static bool format_parse(const char *name, enum format *format)
{
	*format = !strcmp(name, "tsv") ? FORMAT_TSV : !strcmp(name, "json") ? FORMAT_JSON : FORMAT_TEXT;
	if (*format != FORMAT_TEXT || !strcmp(name, "text"))
		return true;
	fprintf(stderr, "etch: --format is text, tsv or json, not '%s'\n", name);
	return false;
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

int cmd_inspect(int argc, char **argv)
{
	static const struct option longs[] = {
		{"format", required_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},
		{"at", required_argument, NULL, 'a'},
		{"no-cfi", no_argument, NULL, 'C'},
		{"symbols", required_argument, NULL, 'S'},
		{"help", no_argument, NULL, 'h'},
		{0, 0, NULL, 0},
	};
	struct options opt = {.what = SUMMARY, .format = FORMAT_TEXT, .jobs = 1};
	int c, i, status = EXIT_CLEAN;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'f':
			if (!format_parse(optarg, &opt.format))
				return EXIT_UNUSABLE;
			break;
		case 'j':
			opt.format = FORMAT_JSON;
			break;
		case 'a':
			opt.at = optarg;
			break;
		case 'C':
			opt.no_cfi = true;
			break;
		case 'S':
			opt.symbols = optarg;
			break;
		case 'h':
			help();
			return EXIT_CLEAN;
		default:
			fprintf(stderr, "etch: see etch inspect --help\n");
			return EXIT_UNUSABLE;
		}
	}
	argv += optind;
	argc -= optind;
	operands_take(&opt, &argc, &argv);
	if (!argc) {
		fprintf(stderr, "etch: inspect what? see etch inspect --help\n");
		return EXIT_UNUSABLE;
	}
	if ((opt.at || opt.no_cfi) && opt.what != ORC && opt.what != CODE) {
		fprintf(stderr, "etch: %s is for inspect orc and inspect code\n", opt.at ? "--at" : "--no-cfi");
		return EXIT_UNUSABLE;
	}
	if (opt.symbols && opt.what != ORC && opt.what != TABLES) {
		fprintf(stderr, "etch: --symbols is for inspect orc and inspect tables\n");
		return EXIT_UNUSABLE;
	}
	for (i = 0; i < argc; i++) {
		struct error e;

		if (show(&opt, argv[i], &e)) {
			fprintf(stderr, "etch: %s: %s\n", argv[i], e.text);
			status = EXIT_UNUSABLE;
		}
	}
	return status;
}
