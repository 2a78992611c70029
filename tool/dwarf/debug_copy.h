/* SPDX-License-Identifier: MIT */
/*
 * Debug files for libdwfl, as copies in memory that nobody else can change. libdw maps the files that it reads and
 * trusts what it has once checked: if a file were cut short meanwhile, SIGBUS would end etch. libdwfl's own search
 * passes the files that it finds by build-id to libdw as they are, so etch has a search of its own here.
 */
#ifndef DWARF_DEBUG_COPY_H
#define DWARF_DEBUG_COPY_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>

/* The supplementary files (.gnu_debugaltlink, by dwz) of a module's own file and of its debug file. */
struct debug_copies {
	struct {
		char *name; /* the file's name as the link spells it */
		int fd;     /* descriptor of the copy; -1 once libdwfl owns it */
	} alts[2];
	size_t count;
	const uint64_t *addresses; /* sorted link-time addresses: only the units of these will be read */
	size_t address_count;      /* 0: all units may be read */
	bool is_cut;               /* the copies lack units that have none of the addresses (info_cut.h) */
	bool lines; /* source lines will be read; otherwise the sections that only serve them are hidden, since libdw
	               decompresses all */
};

/* Returns the descriptor of a copy of an open file, or -1 if it cannot be made. The caller keeps `fd`. `path` is the
 * path of the file; its supplementary file is copied too, or the link to that is hidden. */
int debug_copy_open(struct debug_copies *c, const char *path, int fd);
/* May the file at `path` have a debug file on this machine, by its build-id or by the name in .gnu_debuglink ("":
 * none)? */
bool debug_copy_may_be(const char *path, const uint8_t *id, size_t id_size, const char *link);
void debug_copies_close(struct debug_copies *c);

/* The callback that libdwfl calls to find a debug file. The module's user data is its struct debug_copies. */
int debug_copy_find(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base, const char *file, const char *link,
                    GElf_Word sum, char **found);

#endif
