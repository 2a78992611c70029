/* SPDX-License-Identifier: MIT */
/*
 * `etch objtool`: what the build of Linux needs from objtool, for one object file, in place. Formats are the
 * kernel's: arch/x86/include/asm/orc_types.h, include/linux/static_call_types.h, tools/objtool.
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
	bool skylake;                  /* with rethunk */
	unsigned prefix;               /* bytes in front of functions; 0: not asked for */
	bool orc, retpoline, rethunk, sls, static_call, uaccess;
	bool noabs;
	bool stackval;
	bool no_stack; /* the stack is not followed for --orc and --uaccess either */
	bool ibt;
	bool noinstr, unret; /* with linked */
	bool cfi;            /* before 7.2: list what clang's checks of indirect calls are in; 7.2: with prefix */
	bool fineibt;        /* 7.2, with cfi: list these */
	bool linked;         /* --link: the object is a linked one, which says all uses of its code */
	bool no_unreachable; /* no warnings of code that nothing reaches, or that falls through */
	bool mcount, mnop;   /* list the calls of __fentry__; make nops of them, as 6.1 always does */
	bool module;         /* the object is part of a module */
	bool backup;         /* keep FILE.orig */
	bool dry_run;        /* write nothing */
	bool stats;          /* print counts */
	bool errors;         /* --werror: nothing is written where there is a warning */
	bool section_address;
	const char *output; /* the file to write; null: the object itself */
};
#define OBJTOOL_PREFIX_MOST 4096

/* Runs the passes. 0, or 1 if there were warnings; or -1 and a message, and the file is as it was. Warnings go to
 * standard error, in objtool's form. */
int objtool_run(const char *path, const struct objtool_options *o, struct error *e);

/* Names of places, read for the first warning; `others`: for the first in code of no function. */
struct place_names {
	struct symbol_index list, others;
	bool read, others_read;
};
void place_names_free(struct place_names *names);
/* Writes "FUNCTION+OFFSET". */
void objtool_place(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, char *out,
                   size_t size);
/* Prints "PATH: warning: objtool: ..." */
void objtool_say(const struct elf_file *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "PATH: warning: objtool: FUNCTION+OFFSET: TEXT". */
void objtool_warn(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, const char *text);

/* An instruction that the kernel patches: entry of .return_sites, .retpoline_sites, .static_call_sites. */
struct branch_site {
	uint32_t section;
	uint64_t at;     /* offset in the section */
	uint32_t symbol; /* of the branch */
	bool tail;       /* a jump out of a function */
	bool call;
};

struct branch_list {
	struct branch_site *list;
	size_t count, capacity;
};

/* patched_branches.c */
struct branches {
	struct branch_list returns, retpolines, calls; /* to the return thunk, to retpolines, static calls */
	struct branch_list traced;                     /* with options.mcount: of __fentry__ */
	struct branch_list sealed;                     /* endbr that nothing needs */
	struct branch_list direct;                     /* with options.skylake: direct calls of other code */
	struct branch_list unchecked;                  /* with options.cfi of 7.2: retpolines without a check in front */
	struct branch_list unstopped; /* with options.sls: indirect branches, and `tail` for returns, without int3 */
	struct branch_list profiled;  /* in code that must not be instrumented: calls of profilers */
	size_t insns;
	size_t warnings; /* of --retpoline */
};
struct code_map;
/* Decodes all code from end to end and lists its branches; prints the warnings of --retpoline. Fills map.begins and
 * map.stops, unless they are null. */
int branch_sites_find(const struct elf_file *f, const struct objtool_options *o, const struct code_map *map,
                      struct branches *out, struct error *e);
/* Prints the warnings of --sls. */
void unstopped_warn(const struct code_map *map, const struct branches *b);
void branch_sites_free(struct branches *b);

/* uaccess.c: before branch_sites_find(): makes map.begins and map.stops, and reads relocations, if there can be any
 * warning. 0, or -1 and a message. */
int uaccess_open(struct code_map *map, struct error *e);
/* Prints the warnings of --uaccess; their number. The map has been read. */
size_t uaccess_check(struct code_map *map);

/* stack_walk.c: prints the warnings of --stackval and --noinstr; where there are none, nor `warnings` of other passes,
 * those of code that nothing reaches. With --noinstr alone only code that must not be instrumented is followed. Then
 * those of --unret. The map has been read. 0, or -1 and a message: malformed relocations. */
int stack_check(const struct code_map *map, const struct objtool_options *o, size_t warnings, struct error *e);
/* Is the stack followed in all code? */
bool stack_follows_all(const struct objtool_options *o);

/* endbr_seal.c: prints the warnings of --ibt and lists functions with endbr whose address nothing takes. The map has
 * been read. 0, or -1 and a message: malformed relocations. */
int endbrs_find(const struct code_map *map, const struct objtool_options *o, struct branch_list *out, struct error *e);

#define CHECK_PREFIX "__cfi_" /* of names: what clang puts in front of functions, to be checked by callers */
/* site_sections.c: adds the sections of sites to out[*count...]. 0, or -1 and a message. */
int sites_sections(const struct elf_file *f, const struct objtool_options *o, const struct branches *b,
                   struct new_section *out, size_t *count, struct error *e);
#define SITE_SECTIONS 7u

/* orc_section.c: appends the rows to out[*count...] as .orc_unwind and .orc_unwind_ip. Rules that an entry cannot
 * express become UNDEFINED; returns their number, or -1 and a message. */
struct prefixes;
long orc_sections(const struct elf_file *f, const struct linux_release *release, const struct prefixes *prefixes,
                  struct frames *frames, struct new_section *out, size_t *count, struct error *e);

/* hacks.c: changes code bytes and relocations of f in place. 0, or -1 and a message. */
int keys_hack(struct elf_file *f, struct error *e);
int noinstr_hack(struct elf_file *f, const struct branches *b, struct error *e);
/* For --cfi of 7.2: what clang has put in front of functions grows up to these. */
int checks_grow(struct elf_file *f, const struct code_map *map, const struct objtool_options *o, struct error *e);
/* For --mcount: calls of __fentry__ become nops. */
int traced_hack(struct elf_file *f, const struct branches *b, struct error *e);

#endif
