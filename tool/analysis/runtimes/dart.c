/* SPDX-License-Identifier: MIT */
/* Dart. Its compiler puts the code of a program into snapshots, each with a symbol of its own. */
#include <string.h>

#include "analysis/runtimes/columns.h"
#include "support/strings.h"

static bool is_snapshot(const char *name)
{
	return begins_with(name, "_kDart") && (ends_with(name, "SnapshotText") || ends_with(name, "SnapshotInstructions"));
}

/*
 * Is this a stub of Dart that is entered without a call? Either a frame returns there because its code is no longer
 * valid, or the runtime jumps there with the rsp and rbp of the frame that catches an exception
 * (runtime/vm/compiler/stub_code_compiler_x64.cc). rbp points to the frame, as in all code of Dart, and there is no
 * return address on top of the stack.
 */
static bool is_framed(const char *name)
{
	return !strcmp(name, "stub DeoptimizeLazyFromReturn") || !strcmp(name, "stub DeoptimizeLazyFromThrow") ||
	       !strcmp(name, "stub DeoptForRewind") || !strcmp(name, "stub RunExceptionHandler") ||
	       !strcmp(name, "stub RunExceptionHandlerUnbox");
}

int dart_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e)
{
	size_t snapshots, i;

	(void)e;
	runtime_symbols_add(f, space, is_snapshot, out);
	snapshots = out->count;
	if (snapshots)
		runtime_symbols_add(f, space, is_framed, out);
	for (i = snapshots; i < out->count; i++)
		out->list[i].framed = true;
	return 0;
}
