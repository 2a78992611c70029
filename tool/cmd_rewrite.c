/* SPDX-License-Identifier: MIT */
/* etch rewrite: one verb. What to do is seen from the file. */
#include "arguments.h"
#include "command.h"
#include "report/text.h"
#include "rewrite/files.h"
#include "workers.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void help(void)
{
	printf("Usage: etch rewrite [OPTION...] FILE|DIR...\n"
	       "\n"
	       "An object file (after compile): finds every instruction that reads an etched\n"
	       "object (ETCHED, DEFINE_IMV) and every call through a function pointer in one\n"
	       "(DEFINE_PV_OPS), and adds the tables __imv, __pv_sites and __etch_obj; works out\n"
	       "from the code how to unwind it and adds .orc_unwind_ip and .orc_unwind. Its code\n"
	       "is not changed.\n"
	       "A program or shared library (after link): finds what the object step could not\n"
	       "see, sorts the tables and turns the loads that can be changed while threads run\n"
	       "into immediates, the calls into direct calls, nops or an instruction of the\n"
	       "function; and adds an unwind table in a segment of its own, also to a file that\n"
	       "never saw the object step. Both steps may be left out. Both check the exception\n"
	       "table __ex_table (<etch/extable.h>), which the second sorts.\n"
	       "\n"
	       "The file is replaced as a whole or not at all. Rewriting twice is rewriting once.\n"
	       "LLVM bitcode (clang -flto -c) is left alone: rewrite the linked program.\n"
	       "Of a directory, all ELF files for x86-64 in it and below; symbolic links stay.\n"
	       "\n"
	       "  -o, --output OUT   write to OUT and leave FILE as it is (one FILE only)\n"
	       "  -j, --jobs N       work on N files at a time; on one FILE with N threads. Under a make\n"
	       "                     that shares its jobs (+ before the command) with its tokens, and\n"
	       "                     then by default with as many as it gives\n"
	       "      --only LIST    what to do, separated by commas: imv (loads), pv (calls), orc\n"
	       "                     (unwind rows), ex (exception table); the rest stays as it is\n"
	       "      --no-cfi       unwind rows from the code alone, not from .eh_frame\n"
	       "      --encoding block|orc\n"
	       "                     unwind table of a linked file; block is the default\n"
	       "      --unwind-map none|64|128\n"
	       "                     return-address map of the block table: bytes of text for each of\n"
	       "                     its bytes; 64 is the default\n"
	       "      --sidecar DIR  write the unwind table to DIR/BUILD-ID and leave FILE as it is\n"
	       "      --undo         give the files back the bytes that they had before etch rewrote\n"
	       "                     them, checked by hash\n"
	       "      --no-undo      do not put a record into the file for that\n"
	       "      --werror       exit 1 when there is a finding (see docs/findings.md)\n"
	       "  -v, --verbose      say in one line a file what was done, and every finding\n"
	       "  -h, --help\n"
	       "\n"
	       "Findings go to standard error, one line each: FILE: ID: where: what.\n"
	       "Exit status: 0 done; 1 done, with findings and --werror; 2 a file could not be\n"
	       "read, used or written: it is as it was, and the other files have been done.\n");
}

/* "imv,pv,orc,ex" */
static bool only_parse(const char *list, struct rewrite_options *make)
{
	const char *p = list;

	make->imv = make->pv = make->orc = make->ex = false;
	for (;;) {
		size_t n = strcspn(p, ",");

		if (n == 3 && !memcmp(p, "imv", 3))
			make->imv = true;
		else if (n == 2 && !memcmp(p, "pv", 2))
			make->pv = true;
		else if (n == 3 && !memcmp(p, "orc", 3))
			make->orc = true;
		else if (n == 2 && !memcmp(p, "ex", 2))
			make->ex = true;
		else
			break;
		if (!p[n])
			return true;
		p += n + 1;
	}
	text_error("--only", "'%s' is no list of tables that this etch makes (imv, pv, orc, ex)", list);
	return false;
}

static bool encoding_parse(const char *name, struct rewrite_options *make)
{
	static const char *const words[] = {"block", "orc", NULL};
	int i = argument_word("--encoding", words, name);

	make->encoding = i ? ETCH_ENCODING_ORC : ETCH_ENCODING_BLOCK;
	return i >= 0;
}

static bool map_parse(const char *name, struct rewrite_options *make)
{
	static const char *const words[] = {"none", "64", "128", NULL};
	static const unsigned shifts[] = {0, 6, 7};
	int i = argument_word("--unwind-map", words, name);

	make->map_shift = i < 0 ? 0 : shifts[i];
	return i >= 0;
}

/* What does not go together. */
static bool options_agree(const struct rewrite_command *opt, bool only, bool orc_encoding, bool forward, int files)
{
	if (opt->output && files > 1)
		fprintf(stderr, "etch: -o takes one FILE, not %d\n", files);
	else if (opt->sidecar && opt->output)
		fprintf(stderr, "etch: --sidecar names its file itself: leave -o out\n");
	else if (opt->sidecar && only && (opt->make.imv || opt->make.pv || !opt->make.orc))
		fprintf(stderr, "etch: --sidecar is for unwind tables alone: leave --only out\n");
	else if (opt->undo && forward)
		fprintf(stderr, "etch: --undo takes no other option but -o, -j and -v\n");
	else if (opt->sidecar && orc_encoding)
		fprintf(stderr, "etch: --sidecar has the block encoding: leave --encoding out\n");
	else
		return true;
	return false;
}

int cmd_rewrite(int argc, char **argv)
{
	static const struct option longs[] = {
		{"output", required_argument, NULL, 'o'},
		{"jobs", required_argument, NULL, 'j'},
		{"only", required_argument, NULL, 'O'},
		{"no-cfi", no_argument, NULL, 'C'},
		{"encoding", required_argument, NULL, 'E'},
		{"unwind-map", required_argument, NULL, 'M'},
		{"sidecar", required_argument, NULL, 'S'},
		{"undo", no_argument, NULL, 'U'},
		{"no-undo", no_argument, NULL, 'N'},
		{"werror", no_argument, NULL, 'W'},
		{"verbose", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{0, 0, NULL, 0},
	};
	struct rewrite_command opt = {.make = {.imv = true, .pv = true, .orc = true, .ex = true,
	                                        .encoding = ETCH_ENCODING_BLOCK, .map_shift = 6}};
	struct inputs files = {.closed = true};
	bool good = true, only = false, orc_encoding = false, forward = false; /* of what is made: not with --undo */
	int c, i, status;

	while ((c = getopt_long(argc, argv, "o:j:vh", longs, NULL)) != -1) {
		forward |= !strchr("ojvhU", c);
		switch (c) {
		case 'o':
			opt.output = optarg;
			break;
		case 'j':
			good = argument_jobs(optarg, &opt.jobs);
			break;
		case 'O':
			only = true;
			good = only_parse(optarg, &opt.make);
			break;
		case 'C':
			opt.make.no_cfi = true;
			break;
		case 'E':
			good = encoding_parse(optarg, &opt.make);
			orc_encoding = opt.make.encoding == ETCH_ENCODING_ORC;
			break;
		case 'M':
			good = map_parse(optarg, &opt.make);
			break;
		case 'S':
			opt.sidecar = optarg;
			break;
		case 'U':
			opt.undo = true;
			break;
		case 'N':
			opt.no_undo = true;
			break;
		case 'W':
			opt.werror = true;
			break;
		case 'v':
			opt.verbose = true;
			break;
		case 'h':
			help();
			return EXIT_CLEAN;
		default:
			fprintf(stderr, "etch: see etch rewrite --help\n");
			return EXIT_UNUSABLE;
		}
		if (!good)
			return EXIT_UNUSABLE;
	}
	argv += optind;
	argc -= optind;
	if (!argc) {
		fprintf(stderr, "etch: rewrite what? see etch rewrite --help\n");
		return EXIT_UNUSABLE;
	}
	if (!options_agree(&opt, only, orc_encoding, forward, argc))
		return EXIT_UNUSABLE;
	if (opt.sidecar)
		opt.make.imv = opt.make.pv = opt.make.ex = false;
	for (i = 0; i < argc; i++)
		if (!inputs_add_some(&files, argv[i])) {
			fprintf(stderr, "etch: out of memory\n");
			return EXIT_UNUSABLE;
		}
	if (!inputs_once(&files)) {
		fprintf(stderr, "etch: out of memory\n");
		inputs_free(&files);
		return EXIT_UNUSABLE;
	}
	if (opt.output && files.count != 1) {
		fprintf(stderr, "etch: -o takes one FILE, and there are %zu\n", files.count);
		inputs_free(&files);
		return EXIT_UNUSABLE;
	}
	/* make's jobs are for files; threads of one file are asked for. */
	if (!opt.jobs)
		opt.jobs = files.count > 1 ? workers_jobs() : 1;
	status = rewrite_files(&files, &opt);
	inputs_free(&files);
	return status;
}
