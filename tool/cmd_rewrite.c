/* SPDX-License-Identifier: MIT */
/* The command `etch rewrite`. The type of a file decides whether the object step or the link step handles it. */
#include "arguments.h"
#include "command.h"
#include "report/text.h"
#include "rewrite/files.h"
#include "rewrite/system_directory.h"
#include "support/memory.h"
#include "support/progress.h"
#include "support/workers.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void help(void)
{
	printf("Usage: etch rewrite [OPTION...] FILE|DIR...\n"
	       "\n"
	       "An object file (after the compiler): finds every instruction that reads an etched object\n"
	       "(ETCHED, DEFINE_IMV) and every call through a function pointer in one (DEFINE_PV_OPS), and\n"
	       "adds the tables __imv, __pv_sites and __etch_obj. Derives unwind rows from the code and adds\n"
	       ".orc_unwind_ip and .orc_unwind. The code is not changed.\n"
	       "A program or shared library (after the linker): finds the sites that the object step could\n"
	       "not see, and sorts the tables. Turns loads that can be changed while threads run into\n"
	       "immediates, and calls into direct calls, nops or inlined instructions. Adds an unwind table\n"
	       "in a segment of its own, even if the file never went through the object step.\n"
	       "Either step may be skipped. Both check the exception table __ex_table (<etch/extable.h>), and\n"
	       "the second step sorts it.\n"
	       "\n"
	       "A file is replaced as a whole or not at all. A second rewrite changes nothing.\n"
	       "LLVM bitcode (clang -flto -c) is left alone: rewrite the linked program.\n"
	       "A directory stands for all x86-64 ELF files in and below it. Symbolic links in it are skipped.\n"
	       "\n"
	       "  -o, --output OUT   write to OUT instead of FILE (only with a single FILE); an existing OUT\n"
	       "                     loses its set-id bits and capabilities\n"
	       "  -j, --jobs N       rewrite N files at a time, or a single FILE with N threads (default: 1;\n"
	       "                     for a FILE above 32 MB one for each processor, at most 4). Under make -j\n"
	       "                     (with + before the command), etch shares make's job slots, and the\n"
	       "                     default is as many as make grants\n"
	       "      --only LIST    make only these tables, separated by commas: imv (loads), pv (calls),\n"
	       "                     orc (unwind rows), ex (exception table); leave the others unchanged\n"
	       "      --no-cfi       make unwind rows from the code alone, ignoring .eh_frame\n"
	       "      --encoding block|orc\n"
	       "                     format of the unwind table of a linked file (default: block)\n"
	       "      --unwind-map none|64|128\n"
	       "                     return-address map of the block table: how many bytes of text each\n"
	       "                     byte of the map stands for (default: 64)\n"
	       "      --sframe[=2|3] also write the rows as SFrame, version 2 or 3 (default: 2), for other\n"
	       "                     unwinders: section .sframe and PT_GNU_SFRAME; in object files for GNU\n"
	       "                     ld. Later rewrites keep it\n"
	       "      --eh-frame[=missing]\n"
	       "                     also write .eh_frame and .eh_frame_hdr with FDEs for code that has\n"
	       "                     none, for gdb, perf and other unwinders. Later rewrites keep them\n"
	       "      --eh-frame=all the same, and also replace those FDEs of the linker whose rules the code\n"
	       "                     proves completely; FDEs with an LSDA or a personality routine stay\n"
	       "      --fix-cfi      the same as --eh-frame, and also replace FDEs that the code proves wrong\n"
	       "                     (ETCH-C001); a note names each of them\n"
	       "      --eh-frame=OUT write the missing FDEs to a separate debug file OUT, or to\n"
	       "                     .build-id/ab/cdef.debug in the directory OUT, and leave FILE unchanged\n"
	       "      --registers    also write where callee-saved registers are (the register table), for\n"
	       "                     debuggers and crash handlers. Later rewrites keep it\n"
	       "      --closed       assume that no other module stores to the objects that a linked file\n"
	       "                     exports, or calls its functions by name. Later rewrites keep this\n"
	       "      --init FUNC    assume that the function FUNC of a linked file runs only before\n"
	       "                     etch_sync, as if it were marked ETCH_INIT. May be repeated. Later\n"
	       "                     rewrites keep this\n"
	       "      --sidecar DIR  write the unwind table to DIR/BUILD-ID and leave FILE unchanged\n"
	       "      --undo         restore the original bytes, and check them with a hash\n"
	       "      --yes          allow DIR to be /, /usr, /etc, /home, /tmp, $HOME or another directory\n"
	       "                     of the system\n"
	       "      --no-undo      do not add the record that --undo needs\n"
	       "      --werror       exit with status 1 if there are findings (see docs/findings.md)\n"
	       "  -q, --quiet        print only errors, no findings and no notes\n"
	       "  -v, --verbose      print one line of results for each file, and all findings\n"
	       "  -h, --help         print this help\n"
	       "\n"
	       "Findings go to standard error, one line each: FILE: ID: where: what.\n"
	       "Exit status: 0 done; 1 done, but there were findings and --werror was given; 2 a file could\n"
	       "not be read, used or written (it is unchanged, and the other files are done), or the command\n"
	       "line is wrong.\n");
}

/* Parses the list of --only, such as "imv,pv,orc,ex". Returns false after a message. */
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
	text_error("--only", "'%s' is not a list of tables (imv, pv, orc, ex)", list);
	return false;
}

static bool encoding_parse(const char *name, struct rewrite_options *make)
{
	static const char *const words[] = {"block", "orc", NULL};
	int i = argument_word("--encoding", words, name);

	make->unwind.encoding = i ? ETCH_ENCODING_ORC : ETCH_ENCODING_BLOCK;
	return i >= 0;
}

static bool map_parse(const char *name, struct rewrite_options *make)
{
	static const char *const words[] = {"none", "64", "128", NULL};
	static const unsigned shifts[] = {0, 6, 7};
	int i = argument_word("--unwind-map", words, name);

	make->unwind.map_shift = i < 0 ? 0 : shifts[i];
	return i >= 0;
}

static bool sframe_parse(const char *name, struct rewrite_options *make)
{
	static const char *const words[] = {"2", "3", NULL};
	int i = name ? argument_word("--sframe", words, name) : 0;

	make->unwind.sframe = i == 1 ? 3 : 2;
	return i >= 0;
}

static bool eh_frame_parse(const char *name, struct rewrite_command *opt)
{
	if (!name || !strcmp(name, "missing")) {
		opt->make.unwind.eh_frame = true;
		return true;
	}
	if (!strcmp(name, "all")) {
		opt->make.unwind.eh_frame = true;
		opt->make.unwind.replace = EH_REPLACE_ALL;
		return true;
	}
	opt->debug_out = name;
	if (*name)
		return true;
	text_error("--eh-frame", "the value is empty; it must be missing, all or the name of a file");
	return false;
}

/* The parsed options. */
struct command_line {
	struct rewrite_command opt;
	size_t init_capacity;
	struct options_given given;
};

static const struct option longs[] = {
	{"output", required_argument, NULL, 'o'},
	{"jobs", required_argument, NULL, 'j'},
	{"only", required_argument, NULL, 'O'},
	{"no-cfi", no_argument, NULL, 'C'},
	{"encoding", required_argument, NULL, 'E'},
	{"unwind-map", required_argument, NULL, 'M'},
	{"sframe", optional_argument, NULL, 'F'},
	{"eh-frame", optional_argument, NULL, 'H'},
	{"fix-cfi", no_argument, NULL, 'X'},
	{"registers", no_argument, NULL, 'R'},
	{"sidecar", required_argument, NULL, 'S'},
	{"undo", no_argument, NULL, 'U'},
	{"no-undo", no_argument, NULL, 'N'},
	{"werror", no_argument, NULL, 'W'},
	{"quiet", no_argument, NULL, 'q'},
	{"verbose", no_argument, NULL, 'v'},
	{"closed", no_argument, NULL, 'L'},
	{"init", required_argument, NULL, 'I'},
	{"yes", no_argument, NULL, 'Y'},
	{"help", no_argument, NULL, 'h'},
	{0, 0, NULL, 0},
};

/* Checks that all options that were given have an effect together. Returns false after a message. --yes is a
 * permission, which does no harm if it is not needed. */
static bool options_have_effect(const struct command_line *l)
{
	const struct rewrite_command *opt = &l->opt;
	const struct rewrite_options *make = &opt->make;

	if (opt->undo && !argument_only(&l->given, longs, "UojqvY", "cannot be combined with --undo"))
		return false;
	if (opt->debug_out && !argument_only(&l->given, longs, "HCjWqvY", "cannot be combined with --eh-frame=OUT"))
		return false;
	if (opt->sidecar && !argument_only(&l->given, longs, "SOCEMRjWqvY", "cannot be combined with --sidecar"))
		return false;
	if (!make->orc && !argument_none_of(&l->given, longs, "CEMFHXR", "cannot be combined with --only without orc"))
		return false;
	if (!make->imv && !make->pv &&
	    !argument_none_of(&l->given, longs, "LI", "cannot be combined with --only without imv and pv"))
		return false;
	return make->unwind.encoding != ETCH_ENCODING_ORC ||
	       argument_none_of(&l->given, longs, "MR", "cannot be combined with --encoding orc");
}

/* Checks that no options were given that exclude each other. Returns false after a message. */
static bool options_agree(const struct command_line *l, int files)
{
	const struct rewrite_command *opt = &l->opt;

	if (!options_have_effect(l))
		return false;
	if (opt->output && files > 1)
		fprintf(stderr, "etch: -o takes one FILE, not %d\n", files);
	else if (opt->debug_out && opt->make.unwind.eh_frame)
		fprintf(stderr, "etch: --eh-frame=OUT cannot be combined with --eh-frame=%s\n",
		        opt->make.unwind.replace == EH_REPLACE_ALL ? "all" : "missing");
	else if (opt->make.unwind.replace && opt->make.unwind.no_cfi)
		fprintf(stderr, "etch: --%s cannot be combined with --no-cfi\n",
		        opt->make.unwind.replace == EH_REPLACE_ALL ? "eh-frame=all" : "fix-cfi");
	else if (opt->sidecar && l->given.at['O'] && (opt->make.imv || opt->make.pv || opt->make.ex))
		fprintf(stderr, "etch: --sidecar makes only unwind rows: --only can be only orc\n");
	else if (opt->sidecar && opt->make.unwind.encoding == ETCH_ENCODING_ORC)
		fprintf(stderr, "etch: --sidecar cannot be combined with --encoding orc\n");
	else
		return true;
	return false;
}

/* Parses the options. Returns the index of the first operand, 0 for --help, or -1 after a message. */
static int options_parse(int argc, char **argv, struct command_line *l)
{
	bool good = true;
	int c;

	while (good && (c = argument_option(argc, argv, "o:j:qvh", longs, &l->given)) != -1) {
		switch (c) {
		case 'o': l->opt.output = optarg; break;
		case 'j': good = argument_jobs(optarg, &l->opt.jobs); break;
		case 'O': good = only_parse(optarg, &l->opt.make); break;
		case 'C': l->opt.make.unwind.no_cfi = true; break;
		case 'E': good = encoding_parse(optarg, &l->opt.make); break;
		case 'M': good = map_parse(optarg, &l->opt.make); break;
		case 'F': good = sframe_parse(optarg, &l->opt.make); break;
		case 'H': good = eh_frame_parse(optarg, &l->opt); break;
		case 'X':
			l->opt.make.unwind.eh_frame = true;
			if (!l->opt.make.unwind.replace)
				l->opt.make.unwind.replace = EH_REPLACE_WRONG;
			break;
		case 'R': l->opt.make.unwind.registers = true; break;
		case 'S': l->opt.sidecar = optarg; break;
		case 'U': l->opt.undo = true; break;
		case 'Y': break; /* l->given records it */
		case 'L': l->opt.make.closed = true; break;
		case 'I':
			mem_reserve(&l->opt.make.init, &l->init_capacity, l->opt.make.init_count, sizeof(*l->opt.make.init));
			l->opt.make.init[l->opt.make.init_count++] = optarg;
			break;
		case 'N': l->opt.no_undo = true; break;
		case 'W': l->opt.werror = true; break;
		case 'q':
			text_quiet_set();
			progress_off();
			break;
		case 'v': l->opt.verbose = true; break;
		case 'h': help(); return 0;
		default: return -1;
		}
	}
	return good ? optind : -1;
}

/* True if the files that the operands name are replaced by the output. */
static bool is_in_place(const struct rewrite_command *o) { return !o->output && !o->sidecar && !o->debug_out; }

/*
 * Checks, before any file is opened, that --yes is given for directories of the system. Returns false after a message.
 */
static bool directories_agree(const struct command_line *l, int count, char **operands)
{
	for (int i = 0; i < count && is_in_place(&l->opt) && !l->opt.undo && !l->given.at['Y']; i++)
		if (is_system_directory(operands[i])) {
			text_error(operands[i], "is a directory of the system: --yes rewrites every program and library in it");
			return false;
		}
	return true;
}

/* On a terminal: prints the number of files that were found in directories, before the first one is written. */
static void files_announce(const struct command_line *l, int count, char **operands, const struct inputs *files)
{
	bool any = false;

	for (int i = 0; i < count; i++)
		any |= is_directory(operands[i]);
	if (!any || !isatty(STDERR_FILENO))
		return;
	if (!is_in_place(&l->opt))
		text_error(NULL, "%zu files; Ctrl-C ends it", files->count);
	else if (l->opt.undo)
		text_error(NULL, "%zu files to restore; Ctrl-C ends it, and leaves each file as it was or restored",
		           files->count);
	else
		text_error(NULL, "%zu files to rewrite in place; Ctrl-C ends it, and leaves each file old or new; %s",
		           files->count,
		           l->opt.no_undo ? "with --no-undo this cannot be undone" : "etch rewrite --undo restores them");
}

/* Lists the files that the operands name. A file with several names is listed once. Returns false after a message. */
static bool files_find(int count, char **operands, const char *output, struct inputs *out)
{
	int i;

	for (i = 0; i < count; i++)
		inputs_add_some(out, operands[i]);
	inputs_once(out);
	if (output && out->count != 1) {
		fprintf(stderr, "etch: -o takes one FILE, not %zu\n", out->count);
		return false;
	}
	return true;
}

static int command_run(int argc, char **argv, struct command_line *l)
{
	struct inputs files = {.closed = true};
	int first = options_parse(argc, argv, l), status = EXIT_UNUSABLE;

	if (first <= 0)
		return first ? EXIT_UNUSABLE : EXIT_CLEAN;
	if (first == argc) {
		fprintf(stderr, "etch: missing FILE operand; see etch rewrite --help\n");
		return EXIT_UNUSABLE;
	}
	if (!options_agree(l, argc - first))
		return EXIT_UNUSABLE;
	if (!directories_agree(l, argc - first, argv + first))
		return EXIT_UNUSABLE;
	if (l->opt.sidecar || l->opt.debug_out)
		l->opt.make.imv = l->opt.make.pv = l->opt.make.ex = false;
	if (files_find(argc - first, argv + first, l->opt.output, &files)) {
		files_announce(l, argc - first, argv + first, &files);
		/*
		 * Several files are handled in parallel, as far as make's jobserver allows. For a single large file, several
		 * threads are used.
		 */
		if (!l->opt.jobs)
			l->opt.jobs = files.count == 1 ? workers_threads(input_size(files.list)) : workers_jobs();
		status = rewrite_files(&files, &l->opt);
	}
	inputs_free(&files);
	return status;
}

int cmd_rewrite(int argc, char **argv)
{
	struct command_line l = {.opt.make = {.imv = true,
	                                      .pv = true,
	                                      .orc = true,
	                                      .ex = true,
	                                      .unwind = {.encoding = ETCH_ENCODING_BLOCK, .map_shift = 6}}};
	int status = command_run(argc, argv, &l);

	free(l.opt.make.init);
	return status;
}
