/* SPDX-License-Identifier: MIT */
/* The list of targets. */
#include "fuzz.h"

const struct fuzz_target fuzz_targets[] = {
	{"elf", fuzz_elf, true},
	{"segment", fuzz_segment, true},
	{"relocs", fuzz_relocs, true},
	{"archive", fuzz_archive, false},
	{"undo", fuzz_undo, true},
	{"cfi", fuzz_cfi, false},
	{"lsda", fuzz_lsda, false},
	{"code", fuzz_code, false},
	{"block", fuzz_block, false},
	{"orc", fuzz_orc, false},
	{"sites", fuzz_sites, false},
	{"tables", fuzz_tables, true},
	{"extable", fuzz_extable, true},
	{"rewrite", fuzz_rewrite, true},
	{"check", fuzz_check, true},
	{"inspect", fuzz_inspect, true},
	{"diff", fuzz_diff, true},
	{"texts", fuzz_texts, false},
	{"faults", fuzz_faults, false},
	{"module", fuzz_module, true},
	{NULL, NULL, false},
};

const struct fuzz_target *fuzz_target_find(const char *name)
{
	const struct fuzz_target *t = fuzz_targets;

	while (t->name && strcmp(t->name, name))
		t++;
	return t->name ? t : NULL;
}
