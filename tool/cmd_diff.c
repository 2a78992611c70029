/* SPDX-License-Identifier: MIT */
/* The command `etch diff`: compares two builds. Guide: docs/diff.md. */
#include "arguments.h"
#include "command.h"
#include "diff/diff_print.h"
#include "support/bounds.h"
#include "support/demangle.h"
#include "input/input.h"
#include "report/listing.h"
#include "support/memory.h"
#include "support/strings.h"
#include "support/progress.h"
#include "report/text.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef ETCH_VERSION
#define ETCH_VERSION "unversioned"
#endif

#define MOST 20 /* default for the number of functions that are listed per kind of change */

struct options {
	bool json, notes, quiet;
	struct options_given given;
	size_t most;
	const char *show;
	struct check_options check;
};

/*
 * One side of the comparison: a single file, or the many files of an archive or directory. Files of both sides are
 * matched by name.
 */
struct side {
	const char *name;
	struct inputs inputs;
	bool many;
};

/* The files of both sides that have the same key; one of them may be null. */
struct file_pair {
	const char *key;
	const struct input *old, *new;
};

struct run {
	const struct options *opt;
	struct side side[2];
	struct file_pair *list;
	size_t count;
	struct json_object *files;
	size_t same, differ, only[2], unusable;
};

static void help(void)
{
	printf("Usage: etch diff [OPTION...] OLD NEW\n"
	       "\n"
	       "Shows what changed between two builds: functions (compared by their code, not by their\n"
	       "addresses), stack frames, unwind rows, sites of etched objects, findings and sizes.\n"
	       "OLD and NEW are two objects, programs or libraries, two archives, or two directories.\n"
	       "\n"
	       "      --format text|json   text (default) or json (docs/schemas/diff.json)\n"
	       "      --functions          list all changes, not only the first %d of each kind\n"
	       "      --top N              list the first N changes of each kind\n"
	       "  -U, --show FUNC          show a unified diff of the normalised code of one function: its\n"
	       "                           symbol, its demangled name, or any part of a name that only one\n"
	       "                           function has\n"
	       "      --notes              also compare findings of severity note\n"
	       "      --no-cfi             ignore .eh_frame\n"
	       "  -C, --demangle           print names of C++ and Rust demangled (the default on a terminal)\n"
	       "      --no-demangle        print names as they are in the symbol table\n"
	       "  -q, --quiet              print nothing, only give the exit status\n"
	       "  -j, --jobs N             analyse each file with N threads (default: one per processor)\n"
	       "  -h, --help               print this help\n"
	       "\n"
	       "Exit status: 0 no difference; 1 differences; 2 a file could not be used, or the command line\n"
	       "is wrong. Different sizes are shown, but do not count as a difference.\n",
	       MOST);
}

static void complain(const char *name, const struct error *e)
{
	progress_end();
	text_error(name, "%s", e->text);
}

/* ---- two files --------------------------------------------------------------------------- */

static int image_load(struct image *im, const struct input *in, const char *name, const struct options *opt)
{
	struct error e = {.text = ""};
	uint8_t *bytes;
	size_t size;

	memset(im, 0, sizeof(*im));
	if (in->error)
		error_set(&e, "%s", in->error);
	else if (!input_read(in, &bytes, &size, &e) && !image_open_bytes(im, name, bytes, size, &opt->check, &e))
		return 0;
	complain(name, &e);
	return -1;
}

static bool same_kind(const struct image *a, const struct image *b)
{
	return elf_is_object(&a->file) == elf_is_object(&b->file);
}

/* Prints a comparison in the requested format. Returns the exit status for it. */
static int diff_report(struct run *r, const struct diff *d, const char *key)
{
	struct json_object *o;
	struct error e;
	int shown;

	if (r->opt->show) {
		colours_begin();
		shown = diff_show(d, r->opt->show, &e);
		colours_end();
		if (shown < 0)
			complain(d->new->file.path, &e);
		return shown < 0 ? EXIT_UNUSABLE : shown;
	}
	if (r->opt->json) {
		o = diff_json(d);
		json_object_object_add(o, "name", json_name(key));
		json_object_array_add(r->files, o);
	} else if (!r->opt->quiet && (d->differs || (!r->side[0].many && diff_moved(d)))) {
		colours_begin();
		diff_print(d, r->opt->most);
		colours_end();
		if (r->side[0].many)
			putchar('\n');
	}
	return d->differs ? EXIT_FINDINGS : EXIT_CLEAN;
}

static int images_compare(struct run *r, struct image *old, struct image *new, const char *key)
{
	struct error e;
	struct diff d = {0};
	int status = EXIT_UNUSABLE;

	if (!same_kind(old, new)) {
		error_set(&e, "is %s, but %.200s is not", elf_is_object(&new->file) ? "an object file" : "linked",
		          old->file.path);
		complain(new->file.path, &e);
		return EXIT_UNUSABLE;
	}
	if (diff_files(&d, old, new, r->opt->notes, &e))
		complain(new->file.path, &e);
	else
		status = diff_report(r, &d, key);
	diff_free(&d);
	return status;
}

static int entry_compare(struct run *r, const struct file_pair *x)
{
	char *was = input_name(x->old), *is = input_name(x->new);
	struct image old = {0}, new = {0};
	int status = EXIT_UNUSABLE;

	if (!image_load(&old, x->old, was, r->opt) && !image_load(&new, x->new, is, r->opt))
		status = images_compare(r, &old, &new, x->key);
	image_close(&old);
	image_close(&new);
	free(was);
	free(is);
	return status;
}

/* ---- archives and directories --------------------------------------------------------------- */

/*
 * Returns the key by which a file is matched with one of the other side: the member's name, or the path relative to the
 * directory.
 */
static const char *key_of(const struct side *s, const struct input *in)
{
	size_t n = strlen(s->name);

	if (in->member)
		return in->member;
	if (!s->many || strncmp(in->path, s->name, n))
		return in->path;
	while (in->path[n] == '/')
		n++;
	return in->path + n;
}

static int entry_order(const void *a, const void *b)
{
	const struct file_pair *x = a, *y = b;
	int c = strcmp(x->key, y->key);

	return c ? c : (x->old == NULL) - (y->old == NULL);
}

/*
 * Lists the files of one side. Archives inside a directory are not supported, since the keys of their members would
 * need both path and member: such members become errors.
 */
static void side_open(struct side *s, const char *name)
{
	size_t i;

	s->name = name;
	inputs_add(&s->inputs, name);
	s->many = s->inputs.count != 1 || s->inputs.list[0].member || strcmp(s->inputs.list[0].path, name);
	for (i = 0; i < s->inputs.count; i++)
		if (s->inputs.list[i].member && strcmp(s->inputs.list[i].path, name))
			s->inputs.list[i].error = s->inputs.list[i].error ? s->inputs.list[i].error
			                                                  : mem_string("is in an archive: compare the archives");
}

static void entries_make(struct run *r)
{
	size_t n = r->side[0].inputs.count + r->side[1].inputs.count, i, s, k = 0;

	r->list = mem_zero(n + 1, sizeof(*r->list));
	for (s = 0; s < 2; s++)
		for (i = 0; i < r->side[s].inputs.count; i++) {
			const struct input *in = &r->side[s].inputs.list[i];

			r->list[k++] = (struct file_pair){key_of(&r->side[s], in), s ? NULL : in, s ? in : NULL};
		}
	if (!r->side[0].many) {
		r->list[0].new = r->list[1].new;
		r->list[0].key = r->list[0].new->path;
		r->count = 1;
		return;
	}
	qsort(r->list, n, sizeof(*r->list), entry_order);
	for (i = 0; i < n; i++) {
		if (r->count && r->list[i].new && r->list[r->count - 1].old && !r->list[r->count - 1].new &&
		    !strcmp(r->list[r->count - 1].key, r->list[i].key))
			r->list[r->count - 1].new = r->list[i].new;
		else
			r->list[r->count++] = r->list[i];
	}
}

static int entry_only(struct run *r, const struct file_pair *x)
{
	r->only[!x->old]++;
	if (r->opt->json) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "name", json_name(x->key));
		json_object_object_add(o, "only_in", json_object_new_string(x->old ? "old" : "new"));
		json_object_object_add(o, "differs", json_object_new_boolean(true));
		json_object_array_add(r->files, o);
	} else if (!r->opt->show && !r->opt->quiet) {
		printf("%c ", x->old ? '-' : '+');
		text_clean(stdout, x->key);
		printf(": only in %s\n\n", x->old ? "OLD" : "NEW");
	}
	return EXIT_FINDINGS;
}

static int entries_compare(struct run *r)
{
	int worst = EXIT_CLEAN;
	size_t i;

	for (i = 0; i < r->count; i++) {
		const struct file_pair *x = &r->list[i];
		int status = x->old && x->new ? entry_compare(r, x) : entry_only(r, x);

		r->same += status == EXIT_CLEAN;
		r->differ += status == EXIT_FINDINGS && x->old && x->new;
		r->unusable += status == EXIT_UNUSABLE;
		worst = status > worst ? status : worst;
	}
	return worst;
}

/* ---- the run ---------------------------------------------------------------------------------- */

static void json_report(struct run *r, int status)
{
	struct json_object *o = json_object_new_object(), *tool = json_object_new_object();
	struct json_object *sum = json_object_new_object();

	json_object_object_add(tool, "name", json_object_new_string("etch"));
	json_object_object_add(tool, "version", json_object_new_string(ETCH_VERSION));
	json_object_object_add(sum, "same", json_object_new_uint64(r->same));
	json_object_object_add(sum, "differ", json_object_new_uint64(r->differ));
	json_object_object_add(sum, "only_in_old", json_object_new_uint64(r->only[0]));
	json_object_object_add(sum, "only_in_new", json_object_new_uint64(r->only[1]));
	json_object_object_add(sum, "unusable", json_object_new_uint64(r->unusable));
	json_object_object_add(o, "format", json_object_new_string("etch-diff"));
	json_object_object_add(o, "version", json_object_new_int(1));
	json_object_object_add(o, "tool", tool);
	json_object_object_add(o, "old", json_name(r->side[0].name));
	json_object_object_add(o, "new", json_name(r->side[1].name));
	json_object_object_add(o, "files", r->files);
	json_object_object_add(o, "summary", sum);
	json_object_object_add(o, "exit", json_object_new_int(status));
	r->files = NULL;
	json_print(o);
}

static int diff_run(struct run *r, const char *old, const char *new)
{
	struct error e;
	int status;

	side_open(&r->side[0], old);
	side_open(&r->side[1], new);
	if (r->side[0].many != r->side[1].many) {
		error_set(&e, "is %s, but %.200s is not", r->side[1].many ? "an archive or directory" : "one file", old);
		complain(new, &e);
		return EXIT_UNUSABLE;
	}
	entries_make(r);
	r->files = json_object_new_array();
	status = entries_compare(r);
	if (r->opt->json)
		json_report(r, status);
	else if (r->side[0].many && !r->opt->show && !r->opt->quiet)
		printf("%zu file%s the same, %zu differ, %zu only in OLD, %zu only in NEW%s\n", r->same, plural(r->same),
		       r->differ, r->only[0], r->only[1], r->unusable ? ", others could not be used" : "");
	return status;
}

static bool format_parse(const char *name, struct options *opt)
{
	static const char *const words[] = {"text", "json", NULL};
	int i = argument_word("--format", words, name);

	opt->json = i == 1;
	return i >= 0;
}

static bool option_take(struct options *opt, int c, const char *arg)
{
	long n;

	switch (c) {
	case 'f': return format_parse(arg, opt);
	case 'a': opt->most = SHOW_ALL; return true;
	case 't':
		if (!argument_number("--top", arg, 0, 1 << 30, &n))
			return false;
		opt->most = (size_t)n;
		return true;
	case 'j': return argument_jobs(arg, &opt->check.jobs);
	case 'U': opt->show = arg; return true;
	case 'n': opt->notes = true; return true;
	case 'q': opt->quiet = true; return true;
	case 'c': opt->check.no_cfi = true; return true;
	case 'C':
	case 'M': demangle_set(c == 'C'); return true;
	default: return false;
	}
}

static const struct option longs[] = {
	{"format", required_argument, NULL, 'f'}, {"functions", no_argument, NULL, 'a'},
	{"top", required_argument, NULL, 't'},    {"show", required_argument, NULL, 'U'},
	{"notes", no_argument, NULL, 'n'},        {"no-cfi", no_argument, NULL, 'c'},
	{"demangle", no_argument, NULL, 'C'},     {"no-demangle", no_argument, NULL, 'M'},
	{"jobs", required_argument, NULL, 'j'},   {"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},         {0, 0, NULL, 0},
};

/* Checks that the options that were given have an effect together. Returns false after a message. */
static bool options_agree(const struct options *opt)
{
	const struct options_given *given = &opt->given;

	if (opt->quiet && !argument_none_of(given, longs, "UfatC", "cannot be combined with --quiet"))
		return false;
	if (opt->show && !argument_none_of(given, longs, "atn", "cannot be combined with --show"))
		return false;
	if (opt->json && !argument_none_of(given, longs, "UtC", "needs --format text"))
		return false;
	return !given->at['a'] || argument_none_of(given, longs, "t", "cannot be combined with --functions");
}

int cmd_diff(int argc, char **argv)
{
	struct options opt = {.most = MOST, .check = {.jobs = processors()}};
	struct run run = {.opt = &opt};
	int c, status;

	demangle_set(isatty(STDOUT_FILENO));
	while ((c = argument_option(argc, argv, "CU:j:qh", longs, &opt.given)) != -1) {
		if (c == 'h') {
			help();
			return EXIT_CLEAN;
		}
		if (!option_take(&opt, c, optarg))
			return EXIT_UNUSABLE;
	}
	if (argc - optind != 2) {
		fprintf(stderr, "etch: diff needs OLD and NEW; see etch diff --help\n");
		return EXIT_UNUSABLE;
	}
	if (!options_agree(&opt))
		return EXIT_UNUSABLE;
	if (opt.quiet)
		progress_off();
	bounds_memory_ends();
	status = diff_run(&run, argv[optind], argv[optind + 1]);
	json_object_put(run.files);
	free(run.list);
	inputs_free(&run.side[0].inputs);
	inputs_free(&run.side[1].inputs);
	return status;
}
