/* SPDX-License-Identifier: MIT */
/*
 * Implements `etch inspect tables` and `etch inspect orc` for files of the Linux kernel: opens the file, and finds the
 * place that --at names. The code in tool/kernel prints the tables and rows.
 */
#include "inspect/inspect.h"
#include "kernel/kernel_orc.h"
#include "kernel/kernel_views.h"

static int rows_show(struct kernel *k, const struct kernel_options *opt, struct error *e)
{
	struct kernel_range range;
	struct place place;

	if (opt->at && !kernel_range_find(k, opt->at, &range)) {
		if (place_find(k->file, opt->at, &place, e))
			return -1;
		range = (struct kernel_range){place.section, place.start, place.end};
	}
	return kernel_rows_show(k, opt->at ? &range : NULL, opt->format, e);
}

int show_kernel(const char *path, const struct kernel_options *opt, struct error *e)
{
	struct elf_file file = {0};
	struct kernel k = {0};
	int r = inspect_open(&file, path, e);

	if (!r && !(opt->tables ? kernel_sign(&file) != NULL : kernel_orc_present(&file)))
		r = opt->symbols ? error_set(e, "is not a kernel file: --symbols does not apply") : 1;
	if (!r)
		r = kernel_open(&k, &file, opt->symbols, e);
	if (!r && opt->tables)
		kernel_tables_show(&k, opt->format);
	else if (!r)
		r = rows_show(&k, opt, e);
	kernel_close(&k);
	elf_close(&file);
	return r;
}
