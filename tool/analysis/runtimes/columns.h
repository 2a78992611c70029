/* SPDX-License-Identifier: MIT */
/* What the files of this folder contribute to the table: the columns of its rows. Private to this folder. */
#ifndef ANALYSIS_RUNTIMES_COLUMNS_H
#define ANALYSIS_RUNTIMES_COLUMNS_H

#include "analysis/facts/runtime.h"

/* Appends code to a list. */
void runtime_code_add(struct runtime_codes *out, struct runtime_code x);
/* Appends the code of all symbols whose name passes a test. */
void runtime_symbols_add(const struct elf_file *f, const struct code_space *space, bool (*is)(const char *name),
                         struct runtime_codes *out);

/* The columns detect, convention and own_stack; each is defined in the file of its runtime. */
int go_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);
int ocaml_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);
int dart_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);
int v8_detect(const struct elf_file *f, const struct code_space *space, struct runtime_codes *out, struct error *e);

extern const struct convention convention_go, convention_ocaml, convention_v8;
extern const struct flow_runtime ghc_flow;

/* The column noreturn, defined in noreturn_names.c; each list ends with a null pointer. */
extern const char *const noreturn_c[], *const noreturn_go[], *const noreturn_mono[], *const noreturn_ocaml[];

#endif
