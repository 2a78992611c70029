/* SPDX-License-Identifier: MIT */
/*
 * A directory such as /var/cache/etch, which holds an unwind table for each program and library of a system. A table is
 * named by the build-id of its file; stack walkers find the tables of unchanged files there (shared/sidecars.h). `etch
 * tables update` makes the tables that are missing, and removes those that no file needs. No list of the tables is
 * kept, which could be wrong: the contents of the directory are the only record.
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

/* What an update does with a file. */
enum tables_kind {
	TABLES_WANTED, /* it has a build-id, but no table of its own: it gets an entry in the directory */
	TABLES_OWN,    /* it has a table of its own, which etch rewrite has put into it */
	/* It has no build-id. */
	TABLES_NO_ID,
	TABLES_OTHER, /* it is not a program or library with code */
	/* It cannot be read. */
	TABLES_UNREAD,
};

struct tables_file {
	const char *path;
	enum tables_kind kind;
	const char *error; /* for TABLES_UNREAD: the reason */
	uint8_t build_id[BUILD_ID_MOST];
	unsigned build_id_size;
	char id[TABLES_ID_MOST];          /* the build-id in hexadecimal; an empty string: there is none */
	struct sidecar_identity identity; /* valid for TABLES_WANTED */
};

struct tables_files {
	struct inputs inputs; /* this owns the paths */
	struct tables_file *list;
	size_t count;
};

/* Lists the programs and libraries among the operands; without operands, those in the directories into which packages
 * install. With `contents`, their identities include hashes of everything that is loaded, for which the files are
 * read. */
void tables_find(struct tables_files *out, char **operands, size_t count, bool contents);
void tables_files_free(struct tables_files *f);
/* Returns the names of the system's directories for messages, e.g. "/usr/lib /usr/bin", in memory from malloc(). */
char *tables_roots(void);

/* ---- the directory (tables_directory.c) ------------------------------------------------------------------ */

/* What an entry of the directory says. */
enum tables_entry_kind {
	/* It has the table of a file. */
	ENTRY_TABLE,
	ENTRY_REFUSED,   /* no table can be made of this file */
	ENTRY_CONTESTED, /* several files cannot be told apart by readers, so none of them has a table */
	/* Readers ignore this entry: it has an earlier format, is damaged, is a link, or belongs to another user. */
	ENTRY_STALE,
};

/* A file in the directory. */
struct tables_entry {
	char name[SIDECAR_NAME_MOST];
	enum tables_entry_kind kind;
	uint64_t size;
	time_t made;
	struct sidecar_identity of;
	uint8_t refused[BLAKE2B_DIGEST]; /* for ENTRY_REFUSED: the hash of the file that was refused */
};

/* What the last update has recorded in DIRECTORY/.state. */
struct tables_state {
	char version[32]; /* version of etch that ran it; an empty string: there was no update yet */
	char end[16];     /* how it ended: "complete", "time", "size"; or "started": it was killed, or is running */
	long long since;  /* tables made before this time were made by another version of etch */
	long long begun, seconds;
};

/* The directory, as it has been read. */
struct tables_directory {
	const char *path;
	/* O_PATH descriptor; everything in the directory is opened relative to it, without following links. Below 0:
	 * there is no directory. */
	int fd;
	bool is_open;              /* all users can write to the directory */
	struct tables_entry *list; /* sorted by name */
	size_t count, capacity;
	/* Size of all entries. */
	uint64_t bytes;
	struct tables_state state;
};

/* Reads the directory. Returns 0, even if there is no directory; or -1 with a message in *e. */
int tables_directory_read(struct tables_directory *d, const char *path, struct error *e);
void tables_directory_free(struct tables_directory *d);
/* Returns the entry with this name, or null. */
const struct tables_entry *tables_entry_named(const struct tables_directory *d, const char *name);
/* Returns the entry that readers use for a file, which must have the layout of the file, or null. */
const struct tables_entry *tables_entry_find(const struct tables_directory *d, const struct tables_file *f);
/* Was the entry made from the present contents of the file? Only for files whose contents have been hashed. */
bool tables_entry_matches(const struct tables_entry *t, const struct tables_file *f);
/* Was the entry made by the present version of etch? */
bool tables_entry_fresh(const struct tables_directory *d, const struct tables_entry *t);
/* Makes the directory if necessary, and locks it until the process ends. Returns 1; 0 if another update holds the lock;
 * -1 with a message in *e. */
int tables_lock(const char *path, struct error *e);
/* Warns if all users can write to the directory. */
void tables_warn_open(const struct tables_directory *d);
int tables_state_write(const struct tables_directory *d, struct error *e);
/* Removes the entries that no file in `keep` needs; all entries if `keep` is null. Returns the number removed. */
size_t tables_prune(struct tables_directory *d, const struct tables_files *keep);
/* Removes the directory, and all that updates have put into it. Returns the number of tables removed, or -1 with a
 * message in *e. */
long tables_clear(const char *path, struct error *e);

/* ---- commands -------------------------------------------------------------------------------------------- */

struct tables_options {
	const char *directory;
	char **operands;
	size_t operand_count;
	long max_time; /* number of seconds after which no further table is begun; 0: no limit */
	long max_size; /* limit for the size of all tables in MB; 0: no limit */
	int jobs;
	bool prune, quiet, verbose;
	enum format format;
};

/* The subcommands. Each prints its results and messages, and returns an exit status. */
int tables_update(const struct tables_options *o);
int tables_status(const struct tables_options *o);
int tables_files_status(const struct tables_options *o);

#endif
