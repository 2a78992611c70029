/* SPDX-License-Identifier: MIT */
/* etch check: what is wrong with a file, for CI and for people. */
#include "check/check.h"
#include "command.h"
#include "report/report.h"

#include <getopt.h>
#include <stdio.h>

static void help(void)
{
	printf("Usage: etch check [OPTION...] FILE...\n"
	       "\n"
	       "  -h, --help\n"
	       "\n"
	       "Exit status: 0 clean; 1 findings; 2 a file could not be used.\n");
}

static int check_one(const char *path, struct error *e)
{
	struct check_options options = {.jobs = 1};
	struct report report = {0};
	struct elf_file f = {0};
	struct subject s = {0};
	int found = -1;
	size_t i, k;

	if (!elf_open(&f, path, e) && !check_file(&f, &options, &s, e) && !report_make(&report, &f, &s.found, e)) {
		for (found = 0, i = 0; i < report.count; i++) {
			const struct report_finding *x = &report.list[i];
			char where[256];

			if (x->entry->severity == SEVERITY_NOTE)
				continue;
			report_place_text(&x->place, where, sizeof(where));
			printf("%s: %s: %s: %s [%s]\n", path, where, severity_name(x->entry->severity), x->text, x->entry->id);
			for (k = 0; k < x->fact_count; k++)
				printf("  %s: %s\n", x->facts[k].label, x->facts[k].text);
			found = 1;
		}
	}
	report_free(&report);
	subject_free(&s);
	elf_close(&f);
	return found;
}

int cmd_check(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0, 0, NULL, 0}};
	int c, i, worst = EXIT_CLEAN;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h') {
			help();
			return EXIT_CLEAN;
		}
		fprintf(stderr, "etch: see etch check --help\n");
		return EXIT_UNUSABLE;
	}
	if (optind == argc) {
		fprintf(stderr, "etch: check what? see etch check --help\n");
		return EXIT_UNUSABLE;
	}
	for (i = optind; i < argc; i++) {
		struct error e;
		int found = check_one(argv[i], &e);

		if (found < 0)
			fprintf(stderr, "etch: %s: %s\n", argv[i], e.text);
		worst = found < 0 ? EXIT_UNUSABLE : found && !worst ? EXIT_FINDINGS : worst;
	}
	return worst;
}
