/* SPDX-License-Identifier: MIT */
/*
 * Prints what `etch objtool` has to say about an object, in objtool's form: warnings, how their places are reached
 * (--backtrace), and the code of the functions that had one (--verbose). Everything here is about one object, since a
 * process handles only one.
 */
#ifndef OBJTOOL_WARNINGS_H
#define OBJTOOL_WARNINGS_H

#include "elf/symbols.h"

struct objtool_options;
struct code_map;

/* warnings_begin() must be called before anything is printed; warnings_end() frees what it needs. */
void warnings_begin(const struct objtool_options *o);
void warnings_end(void);
/* Returns the number of warnings that have been printed; the lines of backtraces do not count. */
size_t warnings_count(void);

/*
 * Symbols by which warnings name places. `list` is read for the first warning, `others` for the first warning about
 * code outside of functions.
 */
struct place_names {
	struct symbol_index list, others;
	bool read, others_read;
};
void place_names_free(struct place_names *names);
/* Writes "FUNCTION+OFFSET". */
void objtool_place(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, char *out,
                   size_t size);
/* Prints "PATH: warning: objtool: ...". */
void objtool_say(const struct elf_file *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line like objtool_say() that --werror does not count as a warning. */
void objtool_remark(const struct elf_file *f, const char *text);
/* Prints "PATH: error: objtool: TEXT" about something that is no failure. */
void objtool_complain(const struct elf_file *f, const char *text);
/*
 * Prints "PATH: warning: objtool: FUNCTION+OFFSET: TEXT". With --backtrace of 7.2, another line has the instruction at
 * the place, if that is code.
 */
void objtool_warn(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, const char *text);
/* With --backtrace, prints "PATH: warning: objtool:   FUNCTION+OFFSET: MARK", for 7.2 with the instruction there. */
void objtool_trace(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at,
                   const char *mark);
/* For --verbose: prints the code of each function about which there was a warning. */
void warned_functions_print(const struct code_map *map);

#endif
