/* SPDX-License-Identifier: MIT */
/* Lists the programs and libraries of a system (tables.h). */
#include "tables/tables.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unwinding/table_read.h"
#include "support/memory.h"

/* Directories into which packages install programs and libraries. Libraries come first, because most programs share
 * them. */
static const char *const roots[] = {"/usr/lib",  "/usr/lib64", "/lib",  "/lib64",     "/usr/libexec", "/usr/bin",
                                    "/usr/sbin", "/bin",       "/sbin", "/usr/games", "/opt"};
/* Directories inside these that are not searched: they contain debug files, and code that programs do not load. */
static const char *const left_out[] = {"/usr/lib/debug/", "/usr/lib/modules/", "/lib/modules/", "/usr/lib/firmware/"};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Is this a directory? Not if it is a link to another one in the list, as /lib is on systems with a merged /usr. */
static bool root_is(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode);
}

char *tables_roots(void)
{
	char *text = mem_zero(1, 16 * COUNT(roots));

	for (size_t i = 0; i < COUNT(roots); i++)
		if (root_is(roots[i]))
			strcat(strcat(text, *text ? " " : ""), roots[i]);
	return text;
}

static bool is_left_out(const char *path)
{
	for (size_t i = 0; i < COUNT(left_out); i++)
		if (!strncmp(path, left_out[i], strlen(left_out[i])))
			return true;
	return false;
}

/* Does the file have a table in its etch segment? */
static bool has_table(const struct elf_headers *h, int fd)
{
	struct table_copy c;
	bool has = table_own_read(fd, h->phdrs, h->phdr_count, &c);

	table_copy_free(&c);
	return has;
}

/* Does the file have code? Debug files, and libraries that contain only data, have none. */
static bool has_code(const struct elf_headers *h)
{
	if (h->eh.e_type != ET_EXEC && h->eh.e_type != ET_DYN)
		return false;
	for (unsigned i = 0; i < h->phdr_count; i++)
		if (h->phdrs[i].p_type == PT_LOAD && (h->phdrs[i].p_flags & PF_X) && h->phdrs[i].p_filesz)
			return true;
	return false;
}

/* Finds out what an update does with a file. */
static void file_look(struct tables_file *f, const struct input *in, bool contents)
{
	int fd = in->error ? -1 : open(in->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct elf_headers h;

	f->path = in->path;
	f->kind = fd < 0 ? TABLES_UNREAD : TABLES_OTHER;
	if (fd < 0) {
		f->error = in->error ? in->error : strerror(errno);
		return;
	}
	f->error = NULL;
	if (elf_headers_read(&h, fd)) {
		memcpy(f->build_id, h.build_id, h.build_id_size);
		f->build_id_size = h.build_id_size;
		for (unsigned i = 0; i < h.build_id_size; i++)
			snprintf(f->id + 2 * i, 3, "%02x", h.build_id[i]);
		if (has_code(&h)) {
			f->kind = h.build_id_size ? TABLES_WANTED : TABLES_NO_ID;
			if (has_table(&h, fd))
				f->kind = TABLES_OWN;
		}
		if (f->kind == TABLES_WANTED && !sidecar_identify(fd, &h, contents, &f->identity)) {
			f->kind = TABLES_UNREAD;
			f->error = NO_MEMORY " for its .eh_frame_hdr";
		}
		elf_headers_free(&h);
	}
	close(fd);
}

void tables_find(struct tables_files *out, char **operands, size_t count, bool contents)
{
	memset(out, 0, sizeof(*out));
	out->inputs.closed = true;
	for (size_t i = 0; i < count; i++)
		inputs_add_some(&out->inputs, operands[i]);
	for (size_t i = 0; !count && i < COUNT(roots); i++)
		if (root_is(roots[i]))
			inputs_add(&out->inputs, roots[i]);
	inputs_once(&out->inputs);
	out->list = mem_zero(out->inputs.count, sizeof(*out->list));
	for (size_t i = 0; i < out->inputs.count; i++)
		if (count || !is_left_out(out->inputs.list[i].path))
			file_look(&out->list[out->count++], &out->inputs.list[i], contents);
}

void tables_files_free(struct tables_files *f)
{
	free(f->list);
	inputs_free(&f->inputs);
}
