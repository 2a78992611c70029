/* SPDX-License-Identifier: MIT */
/*
 * A directory such as /var/cache/etch with an unwind table, named by build-id, for each program and library of a
 * system: stack walkers find the tables of unchanged files there (shared/sidecars.h). `etch tables update` makes the
 * missing tables and removes those that no file needs. It keeps no list that could be wrong: the directory is its own
 * record.
 */
#ifndef TABLES_TABLES_H
#define TABLES_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "elf/headers.h"
#include "input/input.h"
#include "unwinding/sidecar_file.h"
#include "report/listing.h"
#include "shared/sidecars.h"

#define TABLES_ID_MOST (2 * BUILD_ID_MOST + 1)

/* ---- files (tables_find.c) ------------------------------------------------------------------------------- */

enum tables_kind {
	TABLES_WANTED, /* it has a build-id and no table of its own */
	TABLES_OWN,    /* etch rewrite has put one into it */
	TABLES_NO_ID,
	TABLES_OTHER, /* no program or library with code */
	TABLES_UNREAD,
};

struct tables_file {
	const char *path;
	enum tables_kind kind;
	const char *error; /* TABLES_UNREAD: why */
	uint8_t build_id[BUILD_ID_MOST];
	unsigned build_id_size;
	char id[TABLES_ID_MOST];          /* the build-id in hexadecimal; empty: there is none */
	struct sidecar_identity identity; /* TABLES_WANTED */
};

struct tables_files {
	struct inputs inputs; /* owns the paths */
	struct tables_file *list;
	size_t count;
};

/* Lists the programs and libraries of the operands or, without operands, of the directories into which packages
 * install. `contents`: with the hashes of everything that they load, for which they are read. */
void tables_find(struct tables_files *out, char **operands, size_t count, bool contents);
void tables_files_free(struct tables_files *f);
/* Returns the system's directories for messages: "/usr/lib /usr/bin ...", malloc'd. */
char *tables_roots(void);

/* ---- the directory (tables_directory.c) ------------------------------------------------------------------ */

enum tables_entry_kind {
	ENTRY_TABLE,
	ENTRY_REFUSED,   /* no table can be made of this file */
	ENTRY_CONTESTED, /* none of several files that readers cannot tell apart has a table */
	ENTRY_STALE,     /* readers take no such entry: an earlier format, damaged, a link, another user's */
};

struct tables_entry {
	char name[SIDECAR_NAME_MOST];
	enum tables_entry_kind kind;
	uint64_t size;
	time_t made;
	struct sidecar_identity of;
	uint8_t refused[BLAKE2B_DIGEST]; /* ENTRY_REFUSED: the hash of that file */
};

/* What the last update has noted in DIRECTORY/.state. */
struct tables_state {
	char version[32]; /* version of etch; empty: there was no update yet */
	char end[16];     /* "complete", "time", "size"; "started": it was killed, or is running */
	long long since;  /* tables made before this time are of another version */
	long long begun, seconds;
};

struct tables_directory {
	const char *path;
	int fd; /* O_PATH; everything in the directory is opened from here, and no link is followed. Below 0: there is none
	         */
	bool is_open;              /* all users can write to it */
	struct tables_entry *list; /* sorted by name */
	size_t count, capacity;
	uint64_t bytes;
	struct tables_state state;
};

/* Reads the directory. Returns 0, also if there is none; or -1 and a message. */
int tables_directory_read(struct tables_directory *d, const char *path, struct error *e);
void tables_directory_free(struct tables_directory *d);
/* Returns the entry with a name, or null. */
const struct tables_entry *tables_entry_named(const struct tables_directory *d, const char *name);
/* Returns the entry that readers take for a file, by its layout, or null. */
const struct tables_entry *tables_entry_find(const struct tables_directory *d, const struct tables_file *f);
/* Was the entry made from the present contents of the file? For files with the hash of their contents. */
bool tables_entry_matches(const struct tables_entry *t, const struct tables_file *f);
/* Was the entry made by the present version of etch? */
bool tables_entry_fresh(const struct tables_directory *d, const struct tables_entry *t);
/* Makes the directory if need be, and locks it until the process ends. Returns 1; 0 if another update has it; -1 and a
 * message. */
int tables_lock(const char *path, struct error *e);
/* Warns about a directory that others can write to. */
void tables_warn_open(const struct tables_directory *d);
int tables_state_write(const struct tables_directory *d, struct error *e);
/* Removes the entries that no file of `keep` needs, or all if `keep` is null. Returns how many it has removed. */
size_t tables_prune(struct tables_directory *d, const struct tables_files *keep);
/* Removes the directory with everything that updates have put into it. Returns the number of tables, or -1 and a
 * message. */
long tables_clear(const char *path, struct error *e);

/* ---- commands -------------------------------------------------------------------------------------------- */

struct tables_options {
	const char *directory;
	char **operands;
	size_t operand_count;
	long max_time; /* seconds after which no further table is begun; 0: no limit */
	long max_size; /* MB of tables; 0: no limit */
	int jobs;
	bool prune, quiet, verbose;
	enum format format;
};

/* Print their results and messages, and return an exit status. */
int tables_update(const struct tables_options *o);
int tables_status(const struct tables_options *o);
int tables_files_status(const struct tables_options *o);

#endif
