/* SPDX-License-Identifier: MIT */
/*
 * Debug files for libdwfl, as copies in memory that nobody else can change. libdw maps what it reads: were a file cut
 * short meanwhile, etch would end by SIGBUS, and libdw trusts what it has once checked. libdwfl's own search hands the
 * files that it finds by build-id to libdw as they are; so the search is here.
 */
#ifndef DWARF_DEBUG_COPY_H
#define DWARF_DEBUG_COPY_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>

/* The supplementary files (.gnu_debugaltlink, by dwz) of a module's own file and of its debug file. */
struct debug_copies {
	struct {
		char *name; /* as the link has it */
		int fd;     /* of the copy; -1 once it is libdwfl's */
	} alts[2];
	size_t count;
	bool lines; /* source lines will be read; else what is read for them only is hidden, since libdw expands all */
};

/* A copy of the file behind a descriptor, which stays the caller's; -1: it cannot be made. `path`: where it is; its
 * supplementary file is copied along, or the link to it hidden. */
int debug_copy_open(struct debug_copies *c, const char *path, int fd);
/* May the file at `path` have a debug file here? By its build-id, and by the name in .gnu_debuglink ("": none). */
bool debug_copy_may_be(const char *path, const uint8_t *id, size_t id_size, const char *link);
void debug_copies_close(struct debug_copies *c);

/* libdwfl's callback. The module's user data is its struct debug_copies. */
int debug_copy_find(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base, const char *file, const char *link,
                    GElf_Word sum, char **found);

#endif
