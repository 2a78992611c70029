/* SPDX-License-Identifier: MIT */
/* `etch rewrite` for several files: rewrites each independently, in worker processes. */
#include "support/exit_code.h"
#include "support/bounds.h"
#include "support/memory.h"
#include "support/progress.h"
#include "report/text.h"
#include "rewrite/files.h"
#include "support/workers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Collects the etched objects that each file of the command defines, since the other files may refer to them. Files
 * that cannot be read are skipped, because rewrite_file() reports them. */
static void names_collect(const struct inputs *files, struct name_set *names)
{
	struct elf_file f;
	struct error e;
	size_t i;

	for (i = 0; i < files->count; i++) {
		if (files->list[i].error)
			continue;
		if (!elf_open(&f, files->list[i].path, &e) && elf_is_object(&f))
			scan_defined_names(&f, names);
		elf_close(&f);
	}
	bounds_begin(); /* the work that follows is not about these files */
	name_set_sort(names);
}

struct run {
	const struct inputs *files;
	const struct rewrite_command *opt;
	struct name_set names;
	int worst;
};

/* Rewrites or restores the file of this number. Returns its exit status. */
static int file_do(const struct run *r, size_t i)
{
	const struct input *in = &r->files->list[i];

	if (in->error) {
		text_error(in->path, "%s", in->error);
		return EXIT_UNUSABLE;
	}
	return r->opt->undo ? undo_file(in, r->opt) : rewrite_file(in, r->opt, &r->names);
}

/* A worker's answer begins with this header; `out` bytes for standard output follow, and the rest is for standard
 * error. */
struct head {
	int status;
	size_t out;
};

/* In a worker: does one file, and makes the answer of what it prints. */
static void answer_make(void *ctx, size_t i, char **answer, size_t *size)
{
	FILE *out = stdout, *err = stderr;
	struct head head = {0};
	size_t err_size;
	char *text[2];

	stdout = mem_stream(&text[0], &head.out);
	stderr = mem_stream(&text[1], &err_size);
	head.status = file_do(ctx, i);
	mem_stream_close(stdout, &text[0]);
	mem_stream_close(stderr, &text[1]);
	stdout = out;
	stderr = err;
	*size = sizeof(head) + head.out + err_size;
	*answer = mem_alloc(*size, 1);
	memcpy(*answer, &head, sizeof(head));
	memcpy(*answer + sizeof(head), text[0], head.out);
	memcpy(*answer + sizeof(head) + head.out, text[1], err_size);
	free(text[0]);
	free(text[1]);
}

/* In the parent: prints what the answer of a worker holds. Without an answer, `why` is the reason. */
static bool answer_print(void *ctx, size_t i, const char *answer, size_t size, const char *why)
{
	struct run *r = ctx;
	struct head head = {.status = EXIT_UNUSABLE};

	progress_end();
	if (answer) {
		memcpy(&head, answer, sizeof(head));
		fwrite(answer + sizeof(head), 1, head.out, stdout);
		fwrite(answer + sizeof(head) + head.out, 1, size - sizeof(head) - head.out, stderr);
	} else {
		text_error(r->files->list[i].path, "%s", why);
	}
	if (head.status > r->worst)
		r->worst = head.status;
	return true;
}

int rewrite_files(const struct inputs *files, const struct rewrite_command *opt)
{
	struct rewrite_command each = *opt;
	struct run r = {.files = files, .opt = &each};
	struct workers_run workers = {.count = files->count,
	                              .jobs = opt->jobs,
	                              .what = "rewrite",
	                              .work = answer_make,
	                              .done = answer_print,
	                              .ctx = &r};

	each.make.unwind.jobs = files->count == 1 ? opt->jobs : 1;
	if (files->count == 1) {
		bounds_memory_ends();
		r.worst = file_do(&r, 0);
	} else {
		if (!opt->undo && (opt->make.imv || opt->make.pv))
			names_collect(files, &r.names);
		if (!workers_run(&workers)) {
			text_error(NULL, "cannot wait for its workers: %s", strerror(errno));
			r.worst = EXIT_UNUSABLE;
		}
	}
	progress_end();
	name_set_free(&r.names);
	return r.worst;
}
