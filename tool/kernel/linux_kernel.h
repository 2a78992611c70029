/* SPDX-License-Identifier: MIT */
/* The profile of Linux kernel objects: what their special sections state about their code, by release. */
#ifndef KERNEL_LINUX_KERNEL_H
#define KERNEL_LINUX_KERNEL_H

#include "analysis/facts/notes.h"

#include <string.h>

/* The number of registers in unwind rows and hints, which ETCH_ORC_* enumerates. */
#define LINUX_ORC_REGISTERS (ETCH_ORC_AX + 1u)
#define LINUX_ORC_NONE      0xffu

/* A release: its layouts (arch/x86/include/asm, include/linux/objtool_types.h, tools/objtool/arch/x86), names, and
 * the ways in which its objtool differs from that of another release. */
struct linux_release {
	struct profile profile; /* the first member, so that its functions can find the release */
	const char *name;       /* "6.1" */
	unsigned number;        /* LINUX_NUMBER */

	/* Layouts. */
	unsigned alternative_size, alternative_length; /* size of struct alt_instr; offset of its two lengths */
	/* Maps the hint types of the release to enum hint of linux_kernel.c. */
	const uint8_t *hints;
	unsigned hint_count;
	bool hints_end;           /* byte 8 of struct unwind_hint is `end`; false: `signal` */
	const uint8_t *registers; /* the numbers of the release for the LINUX_ORC_REGISTERS registers */
	bool typed_rows;          /* .orc_unwind: each row has a type, and 0 is UNDEFINED; since 6.4 */
	const char *label_tables; /* the section of gcc's tables of labels */
	bool annotations;         /* .discard.annotate_insn replaces the separate section of each annotation */

	/* Names. */
	unsigned listed;              /* the bit of the release in the lists of linux_names.c */
	bool position_thunks;         /* thunks have a second name, which begins with __pi_ */
	bool profilers_are_kcov;      /* --hacks=noinstr drops only calls of __sanitizer_cov_* */
	const char *option_prefix;    /* the prefix of CONFIG_RETPOLINE and CONFIG_RETHUNK in warnings */
	const char *tail_fentry;      /* the warning about a jump to __fentry__ */
	const char *missing_noreturn; /* the warning about code after a call, with the name of the callee */

	/* Passes. */
	bool nops_fentry; /* calls of __fentry__ always become nops, even if this was not requested */
	/* --stackval: there is one warning per function, alternatives are judged together, and copies of all registers
	 * are followed; weak functions can be noreturn */
	bool newer_validation;
	/* LINUX_IGNORE_ALTS marks the code that is not followed, which is an original or a replacement */
	bool groups_ignored;
	bool ends_named;       /* --stackval: the warning names the function that ends with a section */
	bool replaced_sites;   /* sites in .altinstr_replacement are also listed */
	bool newer_code_lists; /* --ibt: more sections may refer to code without making it a jump target */
	/* --ibt: a lea of an address in the same section counts as a use although it has no relocation */
	bool addresses_by_lea;
	bool cpuidle_is_noinstr;
	/* --noinstr: pv_ops and pv_ops_lock have consecutive slots; before, tables of Xen were written over pv_ops */
	bool ops_counted;
	bool
		/* --noinstr: calls of the trampolines of static calls are allowed */
		trampolines_uninstrumented;
	bool entries_by_hints; /* --unret: hints, rather than an annotation, mark the start of entry code */
	enum linux_leaving {
		LEAVING_IS_PASSED, /* --unret: paths continue after iret and similar instructions */
		LEAVING_IN_FUNCTIONS_IS_PASSED,
		LEAVING_ENDS, /* paths end there, except at syscall and at an iret in a function */
	} leaving;
	bool unret_follows_all; /* --unret: LINUX_IGNORE_ALTS applies only to other passes */
	/* --cfi makes symbols grow and checks calls, while --fineibt lists; before, --cfi lists */
	bool cfi_grows;
	bool reach_counts_alone;   /* unreachable code is reported regardless of the warnings of --retpoline */
	bool links_by_option;      /* --link is required even if the file is recognizably a linked one */
	bool skips_embedded_calls; /* --hacks=skylake: calls of code inside another instruction are skipped */
	bool prefixes_by_entries;  /* --prefix uses __patchable_function_entries rather than nops */
	bool backs_up_failures;    /* --backup writes its file only after an error or a warning */
	bool errors_are_fatal;     /* undecodable code is an error rather than a warning */
};

#define LINUX_NUMBER(major, minor) ((major) << 8 | (minor))

/* Finds the release for a version such as "6.12.3"; without a version, the oldest. *known is set to 1 if the release
 * is known; 0 if it is newer than all known ones, and the newest is returned; -1 if the version is not a number, or
 * its release lies between known ones, and null is returned. */
const struct linux_release *linux_release_find(const char *version, int *known);
/* Appends the names of the known releases: "6.1, 6.12 and 7.2". */
void linux_release_names(char *out, size_t size);

/* What code states about itself other than by hints, with the numbers of .discard.annotate_insn. */
enum linux_annotation {
	LINUX_NOENDBR = 1,
	LINUX_RETPOLINE_SAFE,
	LINUX_INSTR_BEGIN,
	LINUX_INSTR_END,
	LINUX_UNRET_BEGIN,
	LINUX_IGNORE_ALTS,
	LINUX_INTRA_FUNCTION_CALL,
	/* The address of the instruction after which control continues; in releases with a section for it, the address of
	 * its end. */
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
/* Does the same, but lists a place as often as it is annotated. */
long linux_annotations(const struct linux_release *release, const struct elf_file *f, enum linux_annotation kind,
                       struct linux_place **out, struct error *e);
/* True if a place is in a list of linux_annotated(). */
bool linux_place_in(const struct linux_place *list, size_t count, uint32_t section, uint64_t at);
/* Checks that the annotations of an object have the form of the release. Returns 0, or -1 and a message. */
int linux_release_check(const struct linux_release *release, const struct elf_file *f, struct error *e);

/* Defined in linux_kernel.c: reads the notes, as profile.read. */
int linux_read(const struct profile *p, const struct elf_file *f, const struct code_space *space, struct notes *out,
               struct error *e);
extern const uint8_t linux_hints_6_1[], linux_hints_6_4[];
#define LINUX_HINTS_6_1 7u
#define LINUX_HINTS_6_4 8u

/* Lists the places at which the kernel is entered before the CPU's prediction of returns has been reset; --unret
 * follows the code from these places. The result is like that of linux_annotated(). */
long linux_entries(const struct linux_release *release, const struct elf_file *f, const struct code_space *space,
                   struct linux_place **out, struct error *e);
/* Defined in linux_names.c: true if code of a section must not be instrumented. */
bool linux_section_noinstr(const struct linux_release *release, const char *name);
/* True if a global function of this name records which code runs. */
bool linux_profiler(const struct linux_release *release, const char *name);
/* The first is true if a global function of this name is noreturn, the second if it may be called while access to
 * user memory is enabled. */
bool linux_noreturn(const struct profile *p, const char *name);
bool linux_access_safe(const struct linux_release *release, const char *name);
/* Returns the name of a thunk without the prefix __pi_, which in some releases marks code that runs before it is at
 * its final address. */
static inline const char *linux_thunk_name(const struct linux_release *release, const char *name)
{
	return release->position_thunks && !strncmp(name, "__pi___x86_", 11) ? name + 5 : name;
}
/* Takes the noreturn functions from the NORETURN(name) entries of a file, such as tools/objtool/noreturns.h of the
 * kernel's source, instead of the built-in list. False if the file cannot be read or has no entries. */
bool linux_noreturns_read(const char *path);

#endif
