/* SPDX-License-Identifier: MIT */
/* The profile of Linux kernel objects: what their special sections say of their code, by release. */
#ifndef KERNEL_LINUX_KERNEL_H
#define KERNEL_LINUX_KERNEL_H

#include "analysis/facts/notes.h"

#include <string.h>

/* Numbers of registers in unwind rows and hints, by ETCH_ORC_*. */
#define LINUX_ORC_REGISTERS (ETCH_ORC_AX + 1u)
#define LINUX_ORC_NONE      0xffu

/* A release: its layouts (arch/x86/include/asm, include/linux/objtool_types.h, tools/objtool/arch/x86), names, and what
 * its objtool does otherwise than that of another release. */
struct linux_release {
	struct profile profile; /* first: its functions find the release by it */
	const char *name;       /* "6.1" */
	unsigned number;        /* LINUX_NUMBER */

	/* layouts */
	unsigned alternative_size, alternative_length; /* struct alt_instr; where its two lengths are */
	const uint8_t *hints;                          /* enum hint of linux_kernel.c, by the numbers of the release */
	unsigned hint_count;
	bool hints_end;           /* byte 8 is `end` of struct unwind_hint, else `signal` */
	const uint8_t *registers; /* LINUX_ORC_REGISTERS numbers */
	bool typed_rows;          /* .orc_unwind: each row has a type, 0 is UNDEFINED; since 6.4 */
	const char *label_tables; /* section of gcc's tables of labels */
	bool annotations;         /* .discard.annotate_insn in place of a section for each annotation */

	/* names */
	unsigned listed;              /* its bit in the lists of linux_names.c */
	bool position_thunks;         /* thunks have a second name, with __pi_ in front */
	bool profilers_are_kcov;      /* --hacks=noinstr drops calls of __sanitizer_cov_* only */
	const char *option_prefix;    /* of CONFIG_RETPOLINE and CONFIG_RETHUNK, as warnings name them */
	const char *tail_fentry;      /* warning about a jump to __fentry__ */
	const char *missing_noreturn; /* warning about code after a call, with the name of what is called */

	/* passes */
	bool nops_fentry; /* calls of __fentry__ become nops, asked for or not */
	/* --stackval: one warning of a function, alternatives judged together, copies of all registers followed; weak
	 * functions can be noreturn */
	bool newer_validation;
	bool groups_ignored;   /* LINUX_IGNORE_ALTS: of the code that is not followed, an original or a replacement */
	bool ends_named;       /* --stackval: the function that ends with a section is named */
	bool replaced_sites;   /* sites in .altinstr_replacement are listed, too */
	bool newer_code_lists; /* --ibt: more sections name code without a jump to it in mind */
	bool addresses_by_lea; /* --ibt: lea of an address in the same section counts as a use, without a relocation */
	bool cpuidle_is_noinstr;
	bool ops_counted; /* --noinstr: pv_ops and pv_ops_lock have slots one after the other; before, tables of Xen's are
	                   * written over pv_ops */
	bool
		trampolines_uninstrumented; /* --noinstr: calls of static calls' trampolines are as good as what they lead to */
	bool entries_by_hints;          /* --unret: the hints of entry code say where it begins, no annotation */
	enum linux_leaving {
		LEAVING_IS_PASSED, /* --unret: code is followed behind iret and its like, */
		LEAVING_IN_FUNCTIONS_IS_PASSED,
		LEAVING_ENDS, /* or nowhere, except for syscall */
	} leaving;
	bool unret_follows_all;    /* --unret: LINUX_IGNORE_ALTS is for other passes */
	bool cfi_grows;            /* --cfi: symbols grow, calls are looked at, and --fineibt lists; before, it lists */
	bool reach_counts_alone;   /* code that nothing reaches is warned of, whatever --retpoline has warned of */
	bool links_by_option;      /* --link is needed although the file is seen to be a linked one */
	bool skips_embedded_calls; /* --hacks=skylake: of code inside another instruction */
	bool prefixes_by_entries;  /* --prefix: by __patchable_function_entries, not by nops */
	bool backs_up_failures;    /* --backup: where there is an error or a warning */
	bool errors_are_fatal;     /* what does not decode is an error, not a warning */
};

#define LINUX_NUMBER(major, minor) ((major) << 8 | (minor))

/* The release of a version such as "6.12.3"; without one, the oldest. *known: -1: the version is no number, or of a
 * release between known ones, and the result is null; 0: it is newer than all that are known, and the newest is
 * returned; 1: known. */
const struct linux_release *linux_release_find(const char *version, int *known);
/* Appends the names of the known releases, "6.1, 6.12 and 7.2". */
void linux_release_names(char *out, size_t size);

/* What code says of itself, beside hints; numbered as in .discard.annotate_insn. */
enum linux_annotation {
	LINUX_NOENDBR = 1,
	LINUX_RETPOLINE_SAFE,
	LINUX_INSTR_BEGIN,
	LINUX_INSTR_END,
	LINUX_UNRET_BEGIN,
	LINUX_IGNORE_ALTS,
	LINUX_INTRA_FUNCTION_CALL,
	LINUX_REACHABLE, /* the address of the instruction that is no end; in releases with a section for it, the end of it
	                  */
	LINUX_NOCFI,
	LINUX_ANNOTATION_END
};
struct linux_place {
	uint32_t section;
	uint64_t at;
};
/* The places with an annotation in *out (malloc'd), sorted, none twice. Their number; or -1 and a message: malformed.
 */
long linux_annotated(const struct linux_release *release, const struct elf_file *f, enum linux_annotation kind,
                     struct linux_place **out, struct error *e);
/* Likewise, a place as often as it is annotated. */
long linux_annotations(const struct linux_release *release, const struct elf_file *f, enum linux_annotation kind,
                       struct linux_place **out, struct error *e);
/* Is a place in a list of linux_annotated()? */
bool linux_place_in(const struct linux_place *list, size_t count, uint32_t section, uint64_t at);
/* Checks that the annotations of an object are in the form of the release. 0, or -1 and a message. */
int linux_release_check(const struct linux_release *release, const struct elf_file *f, struct error *e);

/* linux_kernel.c: reads the notes, as profile.read. */
int linux_read(const struct profile *p, const struct elf_file *f, const struct code_space *space, struct notes *out,
               struct error *e);
extern const uint8_t linux_hints_6_1[], linux_hints_6_4[];
#define LINUX_HINTS_6_1 7u
#define LINUX_HINTS_6_4 8u

/* The places from which on code is entered before the CPU's prediction of returns has been reset: --unret follows it
 * from there. As linux_annotated(). */
long linux_entries(const struct linux_release *release, const struct elf_file *f, const struct code_space *space,
                   struct linux_place **out, struct error *e);
/* linux_names.c: may code of a section not be instrumented? */
bool linux_section_noinstr(const struct linux_release *release, const char *name);
/* Does a global function of this name record what code runs? */
bool linux_profiler(const struct linux_release *release, const char *name);
/* Is a global function of this name noreturn; may it be called while access to user memory is enabled?
 */
bool linux_noreturn(const struct profile *p, const char *name);
bool linux_access_safe(const struct linux_release *release, const char *name);
/* The name of a thunk without the __pi_ of code that runs before addresses are right, in releases with such names. */
static inline const char *linux_thunk_name(const struct linux_release *release, const char *name)
{
	return release->position_thunks && !strncmp(name, "__pi___x86_", 11) ? name + 5 : name;
}
/* Takes the noreturn functions from the NORETURN(name) of a file, as tools/objtool/noreturns.h of the kernel's source,
 * in place of the list that is built in. False: it cannot be read, or has none. */
bool linux_noreturns_read(const char *path);

#endif
