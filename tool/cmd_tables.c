/* SPDX-License-Identifier: MIT */
/* The command `etch tables`: maintains unwind tables for every program and library of a system, in separate files. */
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
	       "in " SIDECARS_CACHE ". No file of the system is changed. etch profile, etch heap and programs that\n"
	       "use libetch-unwind find the tables there; without a table, each process makes one from .eh_frame\n"
	       "when it first needs it. A table is looked for in\n"
	       "  1. the file itself (etch rewrite)\n"
	       "  2. $" SIDECARS_VARIABLE "\n"
	       "  3. " SIDECARS_PACKAGED ", where packages can install tables\n"
	       "  4. " SIDECARS_CACHE "\n"
	       "\n"
	       "  status          show which tables exist and which are missing (the default); with FILEs,\n"
	       "                  show which table each of them has\n"
	       "  update          make missing tables, and remove those that no file needs any more. Only\n"
	       "                  new files take time, and an interrupted update continues the next time.\n"
	       "                  With FILEs and DIRs, make only their tables, and remove none\n"
	       "  clear           remove all tables\n"
	       "\n"
	       "      --directory DIR     use DIR instead of " SIDECARS_CACHE "\n"
	       "      --max-time SECONDS  begin no further file after that time (default: no limit)\n"
	       "      --max-size MB       make no further table beyond that sum of sizes (default: 1000)\n"
	       "      --prune             with FILEs, also remove the tables of all other files\n"
	       "  -j, --jobs N            make the tables of N files at a time (default: 1)\n"
	       "      --format text|tsv|json\n"
	       "                          format of status (default: text); tsv only with FILEs\n"
	       "  -q, --quiet             do not print the summary\n"
	       "  -v, --verbose           print a line for each table, and say why a file has none\n"
	       "  -h, --help              print this help\n"
	       "\n"
	       "The package etch-tables runs update after each installation of packages and once a day.\n"
	       "Exit status: 0 done; 2 a file could not be read, the directory could not be written, or the\n"
	       "command line is wrong.\n");
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

/* Parses the options. Returns -1 to continue, or the exit status. */
static int options_parse(int argc, char **argv, struct tables_options *o, struct options_given *given)
{
	int c;

	while ((c = argument_option(argc, argv, "j:qvh", longs, given)) != -1) {
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

/* Checks that the options that were given have an effect on a word of the command. Returns false after a message. */
static bool options_agree(const char *word, const struct options_given *given)
{
	if (!strcmp(word, "status"))
		return argument_only(given, longs, "DF", "is not for tables status");
	if (!strcmp(word, "update"))
		return argument_none_of(given, longs, "F", "is not for tables update");
	return strcmp(word, "clear") || argument_only(given, longs, "Dq", "is not for tables clear");
}

static int word_run(const char *word, struct tables_options *o, const struct options_given *given)
{
	static const char *const words[] = {"status", "update", "clear", NULL};
	const char *meant = nearest_word(word, words, sizeof(*words));

	if (!options_agree(word, given))
		return EXIT_UNUSABLE;
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
	struct options_given given = {{false}};
	int status = options_parse(argc, argv, &o, &given);

	if (status >= 0)
		return status;
	if (o.operands == NULL && optind < argc) {
		o.operands = argv + optind + 1;
		o.operand_count = (size_t)(argc - optind - 1);
	}
	if (!o.jobs)
		o.jobs = workers_jobs();
	return word_run(optind < argc ? argv[optind] : "status", &o, &given);
}
