/* SPDX-License-Identifier: MIT */
/* The columns of the table of language runtimes that the files of this folder define. Private to this folder. */
#ifndef ANALYSIS_RUNTIMES_COLUMNS_H
#define ANALYSIS_RUNTIMES_COLUMNS_H

#include "analysis/facts/runtime.h"

/* Appends a piece of code to a list. */
void runtime_code_add(struct runtime_codes *out, struct runtime_code x);
/* Appends the code of all symbols whose names `is` accepts. */
void runtime_symbols_add(const struct elf_file *f, const struct code_space *space, bool (*is)(const char *name),
                         struct runtime_codes *out);

/* Functions and conventions for the columns detect, convention and own_stack. Each is defined in the file of its
 * runtime. */
int go_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);
int ocaml_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);
int dart_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);
int v8_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);

extern const struct convention convention_go, convention_ocaml, convention_v8;
extern const struct flow_runtime ghc_flow;

/* Lists for the column noreturn, defined in noreturn_names.c. Each ends with a null pointer. */
extern const char *const noreturn_c[], *const noreturn_go[], *const noreturn_mono[], *const noreturn_ocaml[];

#endif
