/* SPDX-License-Identifier: MIT */
/* Dart. Its compiler puts the code of a program into snapshots, each with a symbol of its own. */
#include <string.h>

#include "analysis/runtimes/columns.h"

static bool starts_in(const char *name, const char *start) { return !strncmp(name, start, strlen(start)); }

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	return n >= k && !strcmp(name + n - k, end);
}

static bool is_snapshot(const char *name)
{
	return starts_in(name, "_kDart") && (ends_in(name, "SnapshotText") || ends_in(name, "SnapshotInstructions"));
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
