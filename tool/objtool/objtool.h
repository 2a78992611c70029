/* SPDX-License-Identifier: MIT */
/*
 * `etch objtool` does what the build of Linux needs from objtool, for one object file, in place. The formats are
 * those of the kernel: arch/x86/include/asm/orc_types.h, include/linux/static_call_types.h, tools/objtool.
 */
#ifndef OBJTOOL_OBJTOOL_H
#define OBJTOOL_OBJTOOL_H

#include "analysis/interproc/frames.h"
#include "kernel/linux_kernel.h"
#include "output/object_write.h"
#include "elf/symbols.h"

struct objtool_options {
	const struct linux_release *release;
	bool jump_label, noinstr_hack; /* --hacks */
	bool skylake;                  /* --hacks=skylake; requires rethunk */
	unsigned prefix;               /* number of bytes before functions; 0: --prefix was not given */
	bool orc, retpoline, rethunk, sls, static_call, uaccess;
	bool noabs;
	bool stackval;
	bool no_stack; /* the stack is not followed, not even for --orc and --uaccess */
	bool ibt;
	bool noinstr, unret; /* both require linked */
	/* Before 7.2: lists the functions that hold clang's checks of indirect calls; 7.2: requires prefix. */
	bool cfi;
	bool fineibt;        /* 7.2, requires cfi: lists these functions */
	bool linked;         /* --link: the object is linked and thus contains all uses of its code */
	bool no_unreachable; /* prints no warnings about unreachable code and code that falls through */
	bool mcount, mnop;   /* mcount lists the calls of __fentry__; mnop replaces them by nops, which 6.1 always does */
	bool module;         /* the object is part of a module */
	bool backup;         /* keeps FILE.orig */
	bool dry_run;        /* writes nothing */
	bool stats;          /* prints counts */
	bool errors;         /* --werror: writes nothing if there is a warning */
	bool section_address;
	const char *output; /* path of the file to write; null: the object itself */
};
#define OBJTOOL_PREFIX_MOST 4096

/* Runs the passes. Returns 0, or 1 if there were warnings; or -1 and a message, and then the file is unchanged.
 * Warnings go to standard error, in objtool's form. */
int objtool_run(const char *path, const struct objtool_options *o, struct error *e);

/* Names of places, which are read for the first warning; `others` is read for the first warning about code outside of
 * functions. */
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
/* Prints "PATH: warning: objtool: FUNCTION+OFFSET: TEXT". */
void objtool_warn(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, const char *text);

/* An instruction that the kernel patches: an entry of .return_sites, .retpoline_sites or .static_call_sites. */
struct branch_site {
	uint32_t section;
	uint64_t at;     /* offset in the section */
	uint32_t symbol; /* the symbol to which it branches */
	bool tail;       /* a jump out of a function */
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
	struct branch_list sealed; /* addresses of endbr instructions that nothing needs */
	struct branch_list direct; /* with options.skylake: direct calls of other code */
	/* With options.cfi of 7.2: branches to retpolines that no check precedes. */
	struct branch_list unchecked;
	struct branch_list unstopped; /* with options.sls: returns (`tail`) and indirect branches that no int3 follows */
	struct branch_list profiled;  /* calls of profilers in code that must not be instrumented */
	size_t insns;
	size_t warnings; /* number of warnings of --retpoline and --cfi */
};
struct code_map;
/* Decodes all code from end to end and lists its branches; prints the warnings of --retpoline. Fills map.begins and
 * map.stops unless they are null. Returns 0, or -1 and a message. */
int branch_sites_find(const struct elf_file *f, const struct objtool_options *o, const struct code_map *map,
                      struct branches *out, struct error *e);
/* Prints the warnings of --sls. */
void unstopped_warn(const struct code_map *map, const struct branches *b);
void branch_sites_free(struct branches *b);

/* Defined in uaccess.c and called before branch_sites_find(): allocates map.begins and map.stops, and reads
 * relocations, if any warning is possible. Returns 0, or -1 and a message. */
int uaccess_open(struct code_map *map, struct error *e);
/* Prints the warnings of --uaccess and returns their number. The map must have been read. */
size_t uaccess_check(struct code_map *map);

/*
 * Defined in stack_walk.c: prints the warnings of --stackval and --noinstr and, if there are none and `warnings`,
 * which counts those of other passes, is 0, the warnings about code that nothing reaches. With --noinstr alone, only
 * code that must not be instrumented is followed. Then it prints the warnings of --unret. The map must have been
 * read. Returns 0, or -1 and a message if relocations are malformed.
 */
int stack_check(const struct code_map *map, const struct objtool_options *o, size_t warnings, struct error *e);
/* True if the stack is followed in all code. */
bool stack_follows_all(const struct objtool_options *o);

/* Defined in endbr_seal.c: prints the warnings of --ibt, and lists functions with endbr whose address nothing takes.
 * The map must have been read. Returns 0, or -1 and a message. */
int endbrs_find(const struct code_map *map, const struct objtool_options *o, struct branch_list *out, struct error *e);

/* Prefix of the names of the functions that clang puts before functions, for callers to check. */
#define CHECK_PREFIX "__cfi_"
/* Defined in site_sections.c: adds the sections of sites to out[*count...]. Returns 0, or -1 and a message. */
int sites_sections(const struct elf_file *f, const struct objtool_options *o, const struct branches *b,
                   struct new_section *out, size_t *count, struct error *e);
#define SITE_SECTIONS 7u

/* Defined in orc_section.c: appends the rows to out[*count...] as .orc_unwind and .orc_unwind_ip. Rules that an entry
 * cannot express become UNDEFINED. Returns the number of such rules, or -1 and a message. */
struct prefixes;
long orc_sections(const struct elf_file *f, const struct linux_release *release, const struct prefixes *prefixes,
                  struct frames *frames, struct new_section *out, size_t *count, struct error *e);

/* Defined in hacks.c: these change code bytes and relocations of f in place. They return 0, or -1 and a message. */
int keys_hack(struct elf_file *f, struct error *e);
int noinstr_hack(struct elf_file *f, const struct branches *b, struct error *e);
/* For --cfi of 7.2: extends the functions that clang has put before functions, up to these. */
int checks_grow(struct elf_file *f, const struct code_map *map, const struct objtool_options *o, struct error *e);
/* For --mcount: replaces calls of __fentry__ by nops. */
int traced_hack(struct elf_file *f, const struct branches *b, struct error *e);

#endif
