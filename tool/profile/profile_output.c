/* SPDX-License-Identifier: MIT */
/* Writes a profile to the destination that the options name (profile_output.h). */
#include "profile/profile_output.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output/outfile.h"
#include "profile/writers.h"
#include "report/text.h"
#include "support/strings.h"

const char *const profile_kinds[] = {"folded", "svg", "pprof", "firefox", NULL};

static int kind_of(const char *path)
{
	if (!path)
		return KIND_NONE;
	if (ends_with(path, ".svg"))
		return KIND_SVG;
	if (ends_with(path, ".pb.gz") || ends_with(path, ".pprof"))
		return KIND_PPROF;
	return ends_with(path, ".json") ? KIND_FIREFOX : KIND_FOLDED;
}

bool profile_output_check(struct profile_output *o)
{
	if (o->kind == KIND_NONE)
		o->kind = kind_of(o->to.path);
	if (o->kind == KIND_PPROF && !o->to.path && isatty(STDOUT_FILENO)) {
		fprintf(stderr, "etch: --format pprof is binary: name a file with --output\n");
		return false;
	}
	return output_check(&o->to);
}

void profile_title(char *const *command, char out[PROFILE_TITLE_MOST])
{
	size_t n = 0;

	for (out[0] = 0; *command && n < PROFILE_TITLE_MOST - 1; command++)
		n += (size_t)snprintf(out + n, PROFILE_TITLE_MOST - n, "%s%s", n ? " " : "", *command);
	if (n >= PROFILE_TITLE_MOST)
		memcpy(out + PROFILE_TITLE_MOST - 4, "...", 4);
	name_clean(out);
}

static bool profile_format(struct profile *p, int kind, const char *title, FILE *out)
{
	switch (kind) {
	case KIND_FOLDED: return write_folded(p, out);
	case KIND_SVG: return write_svg(p, title, out);
	case KIND_PPROF: return write_pprof(p, out);
	default: return write_firefox(p, title, out);
	}
}

/* How a file of each kind can be viewed. */
static const char *const readers[] = {
	[KIND_FOLDED] = "one line per stack, for flamegraph.pl or speedscope.app; --format svg makes a picture",
	[KIND_SVG] = "open it in a browser",
	[KIND_PPROF] = "go tool pprof -http=: shows it",
	[KIND_FIREFOX] = "load it at profiler.firefox.com",
};

void profile_output_announce(const struct profile_output *o, const char *command)
{
	if (o->kind == KIND_NONE)
		text_remark(NULL, "no picture was written; etch %s -o %s.svg COMMAND makes one for a browser", command,
		            command);
	else if (o->to.path)
		text_remark(NULL, "wrote %s: %s", o->to.path, readers[o->kind]);
}

bool profile_output_write(struct profile *p, const struct profile_output *o, const char *title)
{
	char *data = NULL;
	struct error e;
	size_t size = 0;
	FILE *f;
	bool good;

	if (o->kind == KIND_NONE)
		return true;
	f = open_memstream(&data, &size);
	good = f && profile_format(p, o->kind, title, f);
	if (!f || fclose(f) || !good) {
		text_error(NULL, NO_MEMORY);
		free(data);
		return false;
	}
	good = true;
	if (!o->to.path)
		fwrite(data, 1, size, stdout); /* main() checks standard output */
	else if (outfile_write(o->to.path, data, size, NULL, &e))
		good = false;
	if (!good)
		text_error(NULL, "%s", e.text);
	free(data);
	return good;
}
