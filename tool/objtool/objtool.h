/* SPDX-License-Identifier: MIT */
/*
 * `etch objtool` does what the build of Linux needs from objtool, for one object file, in place. The formats are
 * those of the kernel: arch/x86/include/asm/orc_types.h, include/linux/static_call_types.h, tools/objtool.
 */
#ifndef OBJTOOL_OBJTOOL_H
#define OBJTOOL_OBJTOOL_H

#include "analysis/interproc/frames.h"
#include "kernel/linux_kernel.h"
#include "objtool/warnings.h"
#include "output/object_write.h"

struct objtool_options {
	const struct linux_release *release;
	bool jump_label, noinstr_hack; /* --hacks */
	bool skylake;                  /* --hacks=skylake; requires rethunk to be set */
	unsigned prefix;               /* number of bytes to reserve before each function; 0: --prefix was not given */
	bool orc, retpoline, rethunk, sls, static_call, uaccess;
	bool noabs;
	bool stackval;
	bool no_stack; /* the stack is not followed, not even for --orc and --uaccess */
	bool ibt;
	bool noinstr, unret; /* both require that `linked` is set */
	/*
	 * Before 7.2: lists the functions __cfi_*, in which clang puts its checks of indirect calls; 7.2: requires that
	 * `prefix` is set.
	 */
	bool cfi;
	bool fineibt; /* 7.2: lists the functions __cfi_*; requires that `cfi` is set */
	/* --link: the object has been linked from several objects, and so contains all uses of its code */
	bool linked;
	bool no_unreachable; /* prints no warnings about unreachable code and code that falls through */
	bool mcount, mnop;   /* mcount lists the calls of __fentry__; mnop replaces them by nops, which 6.1 always does */
	bool module;         /* the object is part of a module */
	bool backup;         /* keeps FILE.orig */
	bool dry_run;        /* writes nothing */
	bool stats;          /* prints counts */
	bool errors;         /* --werror: writes nothing if there is a warning */
	bool section_address;
	bool backtrace;     /* prints after a warning by which branches its place is reached */
	bool verbose;       /* with `backtrace`: also prints the code of the functions that had a warning */
	const char *output; /* path of the file to write; null: the object itself */
};
#define OBJTOOL_PREFIX_MOST 4096

/*
 * Runs the passes that the options select. Returns 0, or 1 if there were warnings; or -1 and a message, and then the
 * file is unchanged. Warnings go to standard error, in objtool's form.
 */
int objtool_run(const char *path, const struct objtool_options *o, struct error *e);

/*
 * Defined in orc_dump.c, for --dump: prints the rows of .orc_unwind as the release's objtool does; nothing if the file
 * has none. Returns 0, or -1 and a message.
 */
int orc_dump(const char *path, const struct linux_release *release, struct error *e);

/*
 * A branch that the kernel patches. The list becomes a section such as .return_sites, .retpoline_sites or
 * .static_call_sites.
 */
struct branch_site {
	uint32_t section;
	uint64_t at;     /* offset in the section */
	uint32_t symbol; /* the symbol to which it branches */
	bool tail;       /* it is a jump out of a function, that is, a tail call */
	bool call;
};

struct branch_list {
	struct branch_site *list;
	size_t count, capacity;
};

/* The branches that patched_branches.c finds. */
struct branches {
	/* Branches to the return thunk, branches to retpolines, and static calls. */
	struct branch_list returns, retpolines, calls;
	struct branch_list traced; /* with options.mcount: calls of __fentry__ */
	struct branch_list sealed; /* addresses of endbr instructions that the code does not need */
	/* With options.skylake: direct calls, except calls of code inside another instruction. */
	struct branch_list direct;
	/* With options.cfi of 7.2: branches to retpolines that clang's check of indirect calls does not precede. */
	struct branch_list unchecked;
	/* with options.sls: returns (`tail` is set) and indirect branches without an int3 after them */
	struct branch_list unstopped;
	struct branch_list profiled; /* calls of profilers in code that must not be instrumented */
	size_t insns;
	bool undecodable; /* some code could not be decoded */
	size_t warnings;  /* number of warnings of --retpoline and --cfi */
};
struct code_map;
/*
 * Decodes all code from end to end, lists its branches in *out, and prints the warnings of --retpoline. Fills
 * map.begins and map.stops if these are not null. Returns 0, or -1 and a message.
 */
int branch_sites_find(const struct elf_file *f, const struct objtool_options *o, const struct code_map *map,
                      struct branches *out, struct error *e);
/* Prints the warnings of --sls. */
void unstopped_warn(const struct code_map *map, const struct branches *b);
void branch_sites_free(struct branches *b);

/* Defined in uaccess.c: true if any warning of --uaccess is possible. Few objects have one. */
bool uaccess_has_work(const struct code_map *map);
/* Prints the warnings of --uaccess and returns their number. The map must have been read. */
size_t uaccess_check(struct code_map *map, const struct objtool_options *o);

/*
 * Defined in stack_walk.c; the map must have been read. First prints the warnings of --stackval and --noinstr; with
 * --noinstr alone, it follows only code that must not be instrumented. If there were none, and `warnings`, the number
 * of warnings of other passes, is 0 as well, prints the warnings about code that no path reaches. At last prints the
 * warnings of --unret. Returns 0, or -1 and a message if relocations are malformed.
 */
int stack_check(const struct code_map *map, const struct objtool_options *o, size_t warnings, struct error *e);
/* True if the options require that the stack is followed in all code. */
bool stack_follows_all(const struct objtool_options *o);

/*
 * Defined in endbr_seal.c; the map must have been read. Prints the warnings of --ibt, and lists the functions that
 * begin with endbr although nothing takes their address. Returns 0, or -1 and a message.
 */
int endbrs_find(const struct code_map *map, const struct objtool_options *o, struct branch_list *out, struct error *e);

/*
 * Prefix of the names of the symbols that clang puts before functions; the code there lets callers check the function's
 * type.
 */
#define CHECK_PREFIX "__cfi_"
/*
 * Defined in site_sections.c: makes the sections that list patched branches, appends them to `out`, and increases
 * *count. Returns 0, or -1 and a message.
 */
int sites_sections(const struct elf_file *f, const struct objtool_options *o, const struct branches *b,
                   struct new_section *out, size_t *count, struct error *e);
#define SITE_SECTIONS 7u

/*
 * Defined in orc_section.c: makes .orc_unwind and .orc_unwind_ip from the rows, appends them to `out`, and increases
 * *count. Rules that an entry cannot express become UNDEFINED. Returns the number of such rules, or -1 and a message.
 */
struct prefixes;
long orc_sections(const struct elf_file *f, const struct linux_release *release, const struct prefixes *prefixes,
                  struct frames *frames, struct new_section *out, size_t *count, struct error *e);

/*
 * Defined in hacks.c. keys_hack() and noinstr_hack() change code bytes and relocations of f in place, for --hacks. Both
 * return 0, or -1 and a message.
 */
int keys_hack(struct elf_file *f, struct error *e);
int noinstr_hack(struct elf_file *f, const struct branches *b, struct error *e);
/* For --cfi of 7.2: extends each symbol __cfi_* up to the function that follows it. Returns 0, or -1 and a message. */
int checks_grow(struct elf_file *f, const struct code_map *map, const struct objtool_options *o, struct error *e);
/* For --mnop: replaces calls of __fentry__ by nops. Returns 0, or -1 and a message. */
int traced_hack(struct elf_file *f, const struct branches *b, struct error *e);

#endif
