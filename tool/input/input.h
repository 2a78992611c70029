/* SPDX-License-Identifier: MIT */
/*
 * Expands the operands of a command line into a list of inputs: files, the ELF files in
 * directories, the members of archives, the objects of a compile_commands.json. Making the list
 * reads only the first bytes of files and the headers of archives; input_read() reads contents.
 */
#ifndef INPUT_INPUT_H
#define INPUT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/error.h"

/* One input: a file, or a member of an archive. */
struct input {
	char *path;   /* path of the file or archive, as it was named or found */
	char *member; /* "printf.o", "printf.o#2" if an archive has two, "inner.a(printf.o)"; null: the file itself */
	char *holder; /* for a thin archive, the file that has the member's bytes; null: `path` has them */
	uint64_t offset, size; /* place of the member's bytes; size 0: all of the file */
	char *error;           /* not null: why the input cannot be used */
	char **links;          /* other hard links to the same file that were in the list */
	size_t link_count;
};

struct inputs {
	struct input *list;
	size_t count, capacity;
	bool closed;    /* the caller sets it: archives are not opened; one that is named is an error, one in a directory is
	                   skipped */
	size_t skipped; /* files in directories and archives that are not x86-64 ELF */
};

/*
 * Adds an operand: a directory (which is walked in order of names, without following symbolic links), an archive, a
 * compilation database (*.json), or a file, whose contents are not checked here. A name that cannot be used becomes an
 * input with an error.
 */
void inputs_add(struct inputs *l, const char *name);
/* Adds an operand as inputs_add() does, but a directory without an ELF file becomes an input with an error. */
void inputs_add_some(struct inputs *l, const char *name);
/* Adds, like inputs_add_some(), the names in the file `path` ("-": standard input), one on each line or each ended by a
 * zero byte. Returns 0, or -1 and a message. */
int inputs_add_list(struct inputs *l, const char *path, bool zero, struct error *e);
/* Removes inputs that are the same file as an earlier input, even if they have other names. Of several hard links to a
 * file the first input stays, and the others become its `links`. */
void inputs_once(struct inputs *l);
/* Returns, for each input, the index of the first input with the same bytes of the same file (mostly its own),
 * malloc'd. Thin archives may name one file many times. */
size_t *inputs_first(const struct inputs *l);
void inputs_free(struct inputs *l);

/* Reads the bytes of an input, malloc'd. Returns 0, or -1 and a message. */
int input_read(const struct input *in, uint8_t **bytes, size_t *size, struct error *e);
/* Returns the size in bytes of an input that is not read yet, or 0 if the size is not known. It may have changed by the
 * time the input is read. */
uint64_t input_size(const struct input *in);
/* Returns the name of an input for messages, such as "libc.a(printf.o)", malloc'd. */
char *input_name(const struct input *in);

/* Returns the path of the file that has the bytes. */
static inline const char *input_file(const struct input *in) { return in->holder ? in->holder : in->path; }

/* Appends an input and copies its strings. This function and the following ones are only for this folder. */
void inputs_put(struct inputs *l, const struct input *in);
void input_clear(struct input *in);
/* Is the path that of a compilation database, by its name? */
bool inputs_is_database(const char *path);
/* Adds the objects that a compilation database names. */
void inputs_add_database(struct inputs *l, const char *path);

/* Notes a name in a set of names with counts; *names is null at first. Returns how often the name has been noted. */
size_t names_note(void **names, const char *name);
void names_free(void *names);

#endif
