/* SPDX-License-Identifier: MIT */
/*
 * What the names on a command line mean, as a list of things to look at: files, the ELF files
 * in directories, the members of archives, the objects of a compile_commands.json. Making the
 * list reads the first bytes of files, and the headers of archives; contents are read when
 * their turn comes.
 */
#ifndef ELF_INPUT_H
#define ELF_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/error.h"

struct input {
	char *path;   /* of the file or archive, as it was named or found */
	char *member; /* "printf.o", "printf.o#2" where an archive has two, "inner.a(printf.o)"; null: the file itself */
	char *holder; /* of a thin archive: the file that has the member's bytes; null: path */
	uint64_t offset, size; /* of the member's bytes; size 0: all of the file */
	char *error;  /* that it cannot be used is known already */
};

struct inputs {
	struct input *list;
	size_t count, room;
	bool closed;    /* set by the caller: archives stay shut. One that is named is an error, one found is left out */
	size_t skipped; /* found in directories and archives, and no ELF file of x86-64 */
};

/*
 * Adds what a person has named: a directory (walked, in order of names, symbolic links in it
 * left alone), an archive, a compilation database (*.json), or a file, which may turn out not
 * to be usable when it is its turn. False: out of memory. What is wrong with a name becomes an
 * input with an error.
 */
bool inputs_add(struct inputs *l, const char *name);
/* The same for who expects that something is done: a directory without an ELF file is an error. */
bool inputs_add_some(struct inputs *l, const char *name);
/* ... and so the names that a file has ("-": standard input), one a line, or separated by zero
 * bytes. 0, or -1 and a message. */
int inputs_add_list(struct inputs *l, const char *path, bool zero, struct error *e);
/* Leaves out files that the list has already, whatever they are called there. False: out of memory. */
bool inputs_once(struct inputs *l);
void inputs_free(struct inputs *l);

/* The bytes, malloc'd. 0, or -1 and a message. */
int input_read(const struct input *in, uint8_t **bytes, size_t *size, struct error *e);
/* "libc.a(printf.o)", malloc'd; null: out of memory. */
char *input_name(const struct input *in);

/* For the files of this folder. Copies the strings. False: out of memory. */
bool inputs_put(struct inputs *l, const struct input *in);
/* Adds the objects that a compilation database names. False: out of memory. */
bool inputs_add_database(struct inputs *l, const char *path);

/* Names, and how often each has come; null at first. */
size_t names_note(void **names, const char *name); /* 0: out of memory */
void names_free(void *names);

#endif
