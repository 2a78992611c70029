/* SPDX-License-Identifier: MIT */
/* Opens a file by its name on the command line: a plain file, or a member of an archive, "libc.a(printf.o)". */
#include "inspect/inspect.h"

#include "input/input.h"
#include "support/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the member of this name, or null. */
static const struct input *member_find(const struct inputs *l, const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < l->count; i++)
		if (l->list[i].member && strlen(l->list[i].member) == length && !memcmp(l->list[i].member, name, length))
			return &l->list[i];
	return NULL;
}

/* Opens a member of an archive; `member` ends with the closing parenthesis. */
static int member_open(struct elf_file *f, const char *path, const char *archive, const char *member, struct error *e)
{
	struct inputs inputs = {0};
	struct stat status;
	const struct input *in;
	uint8_t *bytes;
	size_t size;
	int err = -1;

	if (stat(archive, &status))
		return error_set(e, "%s", strerror(errno));
	if (!S_ISREG(status.st_mode))
		return error_set(e, "is not an archive");
	inputs_add(&inputs, archive);
	if (inputs.count && !inputs.list[0].member && inputs.list[0].error) {
		error_set(e, "%s", inputs.list[0].error);
	} else if (!(in = member_find(&inputs, member, strlen(member) - 1))) {
		error_set(e, "has no such member");
	} else if (in->error) {
		error_set(e, "%s", in->error);
	} else if (!input_read(in, &bytes, &size, e)) {
		err = elf_open_bytes(f, path, bytes, size, e);
	}
	inputs_free(&inputs);
	return err;
}

int inspect_open(struct elf_file *f, const char *path, struct error *e)
{
	size_t length = strlen(path);
	const char *paren = strchr(path, '(');
	char *archive;
	int err;

	if (!length || path[length - 1] != ')' || !paren || paren == path || !access(path, F_OK))
		return elf_open(f, path, e);
	archive = mem_format("%.*s", (int)(paren - path), path);
	err = member_open(f, path, archive, paren + 1, e);
	free(archive);
	return err;
}
