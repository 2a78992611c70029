/* SPDX-License-Identifier: MIT */
/* The command `etch tables`: keeps unwind tables for every program and library of a system, in separate files. */
#include "arguments.h"
#include "command.h"
#include "report/text.h"
#include "support/typed_name.h"
#include "support/workers.h"
#include "tables/tables.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static void help(void)
{
	printf("Usage: etch tables [status|update|clear] [OPTION...] [FILE|DIR...]\n"
	       "\n"
	       "Keeps an unwind table for every program and library that packages have installed, by build-id\n"
	       "in " SIDECARS_CACHE ". No file of the system is changed. What walks stacks with libetch finds\n"
	       "them there: etch profile, etch heap, libetch-unwind; without one, each process makes a table\n"
	       "from .eh_frame when it first needs it. A table is looked for in\n"
	       "  1. the file itself (etch rewrite)\n"
	       "  2. $" SIDECARS_VARIABLE "\n"
	       "  3. " SIDECARS_PACKAGED ", for those that packages install\n"
	       "  4. " SIDECARS_CACHE "\n"
	       "\n"
	       "  status          what is there, and what is missing (default); with FILEs: which table each has\n"
	       "  update          make what is missing, and remove what no file needs any more. Only new\n"
	       "                  files cost time; an interrupted update continues next time. With FILEs\n"
	       "                  and DIRs: only theirs, and nothing is removed\n"
	       "  clear           remove all tables\n"
	       "\n"
	       "      --directory DIR     another directory than " SIDECARS_CACHE "\n"
	       "      --max-time SECONDS  begin no further file after that time (default: no limit)\n"
	       "      --max-size MB       make no table beyond that sum (default: 1000)\n"
	       "      --prune             with FILEs: also remove the tables of all others\n"
	       "  -j, --jobs N            files at a time (default: 1)\n"
	       "      --format text|tsv|json\n"
	       "                          for status; tsv only with FILEs\n"
	       "  -q, --quiet             no summary\n"
	       "  -v, --verbose           a line for each table, and why a file has none\n"
	       "  -h, --help\n"
	       "\n"
	       "The package etch-tables runs update after each installation of packages and once a day.\n"
	       "Exit status: 0; 2 a file could not be read, or the directory not be written.\n");
}

static bool option_take(int c, struct tables_options *o)
{
	switch (c) {
	case 'D': o->directory = optarg; return true;
	case 'T': return argument_number("--max-time", optarg, 1, 1000000, &o->max_time);
	case 'S': return argument_number("--max-size", optarg, 0, 1000000, &o->max_size);
	case 'P': o->prune = true; return true;
	case 'j': return argument_jobs(optarg, &o->jobs);
	case 'F': return argument_format(optarg, &o->format);
	case 'q': o->quiet = true; return true;
	case 'v': o->verbose = true; return true;
	default: return false;
	}
}

/* Parses the options. Returns -1 to continue, or the exit status. */
static int options_parse(int argc, char **argv, struct tables_options *o)
{
	static const struct option longs[] = {
		{"directory", required_argument, NULL, 'D'},
		{"max-time", required_argument, NULL, 'T'},
		{"max-size", required_argument, NULL, 'S'},
		{"prune", no_argument, NULL, 'P'},
		{"jobs", required_argument, NULL, 'j'},
		{"format", required_argument, NULL, 'F'},
		{"quiet", no_argument, NULL, 'q'},
		{"verbose", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{0, 0, NULL, 0},
	};
	int c;

	while ((c = argument_option(argc, argv, "j:qvh", longs)) != -1) {
		if (c == 'h') {
			help();
			return EXIT_CLEAN;
		}
		if (!option_take(c, o))
			return EXIT_UNUSABLE;
	}
	return -1;
}

static int clear(const struct tables_options *o)
{
	struct error e;
	long removed = tables_clear(o->directory, &e);

	if (removed < 0) {
		text_error(o->directory, "%s", e.text);
		return EXIT_UNUSABLE;
	}
	if (!o->quiet)
		printf("%ld table%s removed\n", removed, removed == 1 ? "" : "s");
	return EXIT_CLEAN;
}

static int word_run(const char *word, struct tables_options *o)
{
	static const char *const words[] = {"status", "update", "clear", NULL};
	const char *meant = nearest_word(word, words, sizeof(*words));

	if (o->format == FORMAT_TSV && !o->operand_count) {
		text_error("--format", "tsv is for FILEs; without, it is text or json");
		return EXIT_UNUSABLE;
	}
	if (!strcmp(word, "status"))
		return o->operand_count ? tables_files_status(o) : tables_status(o);
	if (!strcmp(word, "update")) {
		o->prune |= !o->operand_count;
		return tables_update(o);
	}
	if (!strcmp(word, "clear") && !o->operand_count)
		return clear(o);
	if (!strcmp(word, "clear"))
		text_error(NULL, "tables clear takes no FILE: it removes all tables");
	else
		text_error(NULL, "'%s' is not status, update or clear%s%s%s; see etch tables --help", word,
		           meant ? " (did you mean " : "", meant ? meant : "", meant ? "?)" : "");
	return EXIT_UNUSABLE;
}

int cmd_tables(int argc, char **argv)
{
	struct tables_options o = {.directory = SIDECARS_CACHE, .max_size = 1000};
	int status = options_parse(argc, argv, &o);

	if (status >= 0)
		return status;
	if (o.operands == NULL && optind < argc) {
		o.operands = argv + optind + 1;
		o.operand_count = (size_t)(argc - optind - 1);
	}
	if (!o.jobs)
		o.jobs = workers_jobs();
	return word_run(optind < argc ? argv[optind] : "status", &o);
}
