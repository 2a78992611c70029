/* SPDX-License-Identifier: MIT */
/*
 * What etch objtool knows of each supported release of the Linux kernel: the layouts of the sections in which its
 * objects describe their own code, the names of its special functions, and how its objtool behaves.
 */
#ifndef KERNEL_LINUX_KERNEL_H
#define KERNEL_LINUX_KERNEL_H

#include "analysis/facts/notes.h"

#include <string.h>

/* The number of registers in unwind rows and hints, which ETCH_ORC_* enumerates. */
#define LINUX_ORC_REGISTERS (ETCH_ORC_AX + 1u)
#define LINUX_ORC_NONE      0xffu

/*
 * A release. Its layouts come from arch/x86/include/asm, include/linux/objtool_types.h and tools/objtool/arch/x86 of
 * its source. The other members say how its objtool differs from that of other releases.
 */
struct linux_release {
	struct profile profile; /* the first member, so that its functions can find the release */
	const char *name;       /* "6.1" */
	unsigned number;        /* LINUX_NUMBER */

	/* Layouts. */
	unsigned alternative_size, alternative_length; /* size of struct alt_instr; offset of its two lengths */
	/* hints[T] is the value of enum hint (linux_kernel.c) for the hint type T of the release. */
	const uint8_t *hints;
	unsigned hint_count;
	bool hints_end;           /* byte 8 of struct unwind_hint is `end`; false: `signal` */
	const uint8_t *registers; /* the numbers by which the release encodes the LINUX_ORC_REGISTERS registers */
	bool typed_rows;          /* each row of .orc_unwind has a type, and type 0 is UNDEFINED; since 6.4 */
	const char *label_tables; /* name of the section with gcc's tables of labels */
	bool annotations; /* .discard.annotate_insn has all annotations; false: each annotation has a section of its own */

	/* Names. */
	unsigned listed;           /* the bit that stands for the release in the lists of linux_names.c */
	bool position_thunks;      /* thunks also have a second name, which begins with __pi_ */
	bool profilers_are_kcov;   /* --hacks=noinstr removes only calls of __sanitizer_cov_* */
	const char *option_prefix; /* the prefix of CONFIG_RETPOLINE and CONFIG_RETHUNK in warnings */
	const char *tail_fentry;   /* text of the warning about a jump to __fentry__ */
	/* text of the warning about code after a call, to which the name of the callee is added */
	const char *missing_noreturn;

	/* Behaviour of the passes. */
	bool nops_fentry; /* calls of __fentry__ always become nops, even without --mnop */
	/*
	 * --stackval: each function gets one warning at most, the alternatives of an instruction are validated together,
	 * and copies of all registers are followed; weak functions can be noreturn
	 */
	bool newer_validation;
	/*
	 * LINUX_IGNORE_ALTS marks exactly the code that is not followed, an original or a replacement; false: it marks the
	 * original whose replacements are not followed
	 */
	bool groups_ignored;
	/*
	 * warnings about functions without a size are in the order of addresses, and such a function names the place at
	 * which it starts
	 */
	bool keeps_unsized;
	bool falls_count;      /* --stackval: a function that falls through into the next one has had its warning */
	bool ends_named;       /* --stackval: if control runs past the end of a section, the warning names the function */
	bool replaced_sites;   /* sites in .altinstr_replacement are also listed */
	bool newer_code_lists; /* --ibt: more sections may hold addresses of code without making the code a jump target */
	/* --ibt: a lea of an address in the same section counts as a use although it has no relocation */
	bool addresses_by_lea;
	bool cpuidle_is_noinstr;
	/*
	 * --noinstr: the slots of pv_ops and pv_ops_lock have consecutive numbers; false: as in older releases, which
	 * copied tables of Xen over pv_ops
	 */
	bool ops_counted;
	/* --noinstr: calls of the trampolines of static calls are allowed */
	bool trampolines_uninstrumented;
	bool entries_by_hints; /* --unret: hints, rather than an annotation, mark the start of entry code */
	enum linux_leaving {
		LEAVING_IS_PASSED, /* --unret: paths continue after iret and similar instructions */
		LEAVING_IN_FUNCTIONS_IS_PASSED,
		LEAVING_ENDS, /* paths end there, except at syscall and at an iret in a function */
	} leaving;
	/* --unret: paths are followed even where LINUX_IGNORE_ALTS excludes them from other passes */
	bool unret_follows_all;
	/*
	 * --cfi extends the __cfi_ symbols and checks calls, and --fineibt lists the __cfi_ functions; false: --cfi lists
	 * them, as in older releases
	 */
	bool cfi_grows;
	bool reach_counts_alone; /* unreachable code is reported even if --retpoline has printed warnings */
	/* an object is treated as linked only with --link, even if etch could recognize it as linked */
	bool links_by_option;
	bool skips_embedded_calls; /* --hacks=skylake: calls of code inside another instruction are skipped */
	bool prefixes_by_entries;  /* --prefix uses __patchable_function_entries rather than nops */
	bool backs_up_failures;    /* --backup writes its file only after an error or a warning */
	/* --backtrace: its lines have the instruction, and so has a line after each warning about code */
	bool backtraces_have_code;
	bool errors_are_fatal; /* undecodable code is an error rather than a warning */
};

#define LINUX_NUMBER(major, minor) ((major) << 8 | (minor))

/*
 * Finds the release for a version such as "6.12.3"; if `version` is null, returns the oldest one. Sets *known to 1 if
 * the release is known; to 0 if it is newer than all known ones, in which case the newest is returned; to -1 if the
 * text is not a version, or its release lies between known ones, in which case null is returned.
 */
const struct linux_release *linux_release_find(const char *version, int *known);
/* Appends the names of the known releases: "6.1, 6.12 and 7.2". */
void linux_release_names(char *out, size_t size);

/*
 * Kinds of annotations, by which code describes itself; unwind hints are separate. The numbers are those of
 * .discard.annotate_insn.
 */
enum linux_annotation {
	LINUX_NOENDBR = 1,
	LINUX_RETPOLINE_SAFE,
	LINUX_INSTR_BEGIN,
	LINUX_INSTR_END,
	LINUX_UNRET_BEGIN,
	LINUX_IGNORE_ALTS,
	LINUX_INTRA_FUNCTION_CALL,
	/*
	 * The annotated place is the instruction after which control continues; in releases with a section for this
	 * annotation, the end of that instruction.
	 */
	LINUX_REACHABLE,
	LINUX_NOCFI,
	LINUX_ANNOTATION_END
};
struct linux_place {
	uint32_t section;
	uint64_t at;
};
/* Lists the places with an annotation in *out (the caller frees it), sorted and without duplicates. Returns their
 * number, or -1 and a message if an entry is malformed. */
long linux_annotated(const struct linux_release *release, const struct elf_file *f, enum linux_annotation kind,
                     struct linux_place **out, struct error *e);
/*
 * Lists the places with an annotation like linux_annotated(), but with duplicates: a place is in the list as often as
 * it is annotated.
 */
long linux_annotations(const struct linux_release *release, const struct elf_file *f, enum linux_annotation kind,
                       struct linux_place **out, struct error *e);
/* True if a place is in a list that linux_annotated() made. */
bool linux_place_in(const struct linux_place *list, size_t count, uint32_t section, uint64_t at);
/* Checks that the annotations of an object have the form of the release. Returns 0, or -1 and a message. */
int linux_release_check(const struct linux_release *release, const struct elf_file *f, struct error *e);

/*
 * Defined in linux_kernel.c: reads the unwind hints and annotations of an object; it is the member `read` of each
 * release's profile.
 */
int linux_read(const struct profile *p, const struct elf_file *f, const struct code_space *space, struct notes *out,
               struct error *e);
extern const uint8_t linux_hints_6_1[], linux_hints_6_4[];
#define LINUX_HINTS_6_1 7u
#define LINUX_HINTS_6_4 8u

/*
 * Lists the places at which the kernel is entered with the CPU's prediction of returns not yet reset; --unret follows
 * the code from these places. Allocates and returns the list like linux_annotated().
 */
long linux_entries(const struct linux_release *release, const struct elf_file *f, const struct code_space *space,
                   struct linux_place **out, struct error *e);
/* Defined in linux_names.c: true if the code of a section with this name must not be instrumented. */
bool linux_section_noinstr(const struct linux_release *release, const char *name);
/* True if a global function with this name belongs to a profiler: it records which code runs. */
bool linux_profiler(const struct linux_release *release, const char *name);
/*
 * linux_noreturn(): true if a global function with this name is noreturn. linux_access_safe(): true if it may be called
 * while access to user memory is enabled.
 */
bool linux_noreturn(const struct profile *p, const char *name);
bool linux_access_safe(const struct linux_release *release, const char *name);
/* Returns the name of a thunk without the prefix __pi_, which in some releases marks code that runs before it is at
 * its final address. */
static inline const char *linux_thunk_name(const struct linux_release *release, const char *name)
{
	return release->position_thunks && !strncmp(name, "__pi___x86_", 11) ? name + 5 : name;
}
/*
 * Reads the noreturn functions from the NORETURN(name) entries of a file, such as tools/objtool/noreturns.h of the
 * kernel's source; they replace the built-in list. Returns false if the file cannot be read or has no entries.
 */
bool linux_noreturns_read(const char *path);

#endif
