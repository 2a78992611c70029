/* SPDX-License-Identifier: MIT */
/*
 * verbose.c: with ETCH_UNWIND_VERBOSE=1, writes one line to standard error before main, which says that this library
 * is in the process and where the rows of each module will come from. It answers the question whether the library is
 * used at all; a walk does not, because its frames are those of the function that it replaces.
 */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "interfaces/frame_walk.h"
#include "unwind/table_cache.h"

/* Where a module's rows come from. */
enum source {
	IN_THE_FILE,  /* etch rewrite has added a table */
	BESIDE_IT,    /* a sidecar, or with ETCH_UNWIND_TABLES=start a table that was made from .eh_frame */
	FROM_FRAMES,  /* .eh_frame, read for the code that walks reach */
	FROM_NOTHING, /* no .eh_frame; with ETCH_UNWIND_TABLES=first, unknown before the first walk */
	SOURCES
};

struct count {
	unsigned all, of[SOURCES];
};

static enum source source_of(const struct prepare_image *im)
{
	const struct cached_table *made;
	unsigned index;
	uint64_t size;

	if (lookup_table(im, &index, &size))
		return IN_THE_FILE;
	made = cache_find(im);
	if (!made)
		return FROM_NOTHING;
	return made->table ? BESIDE_IT : FROM_FRAMES;
}

static int module_count(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct count *n = arg;
	struct prepare_image im, found;

	(void)size;
	loaded_from(info, &im);
	if (im.start < im.end && loaded_image(im.start, &found)) {
		n->all++;
		n->of[source_of(&found)]++;
	}
	return 0;
}

/* Runs after the constructor of own_tables.c. It reads the sidecars now, which otherwise happens after the first
 * walk. */
static __attribute__((constructor(103))) void verbose_start(void)
{
	const char *verbose = secure_getenv("ETCH_UNWIND_VERBOSE"), *make = secure_getenv("ETCH_UNWIND_TABLES");
	struct count n = {0};
	char line[256];
	int length;

	if (!verbose || *verbose != '1')
		return;
	for (const struct permanent *p = loaded_permanents.at; (!make || !*make) && p->size; p++)
		prepare_address(p->start, in_place_add);
	dl_iterate_phdr(module_count, &n);
	length = snprintf(
		line, sizeof(line),
		"etch: libetch-unwind " ETCH_VERSION " is loaded; %u module%s: %u with a table in the file, %u with a "
		"separate table, %u with .eh_frame, %u with none of these\n",
		n.all, n.all == 1 ? "" : "s", n.of[IN_THE_FILE], n.of[BESIDE_IT], n.of[FROM_FRAMES], n.of[FROM_NOTHING]);
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return; /* nobody is there to be told */
}
