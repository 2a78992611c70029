/* SPDX-License-Identifier: MIT */
/*
 * Finds the code of OCaml's native compiler, whose functions preserve no register for their caller (r14 and r15 are
 * reserved for the run-time system).
 */
#ifndef ANALYSIS_RUNTIMES_OCAML_H
#define ANALYSIS_RUNTIMES_OCAML_H

#include "analysis/discover/ranges.h"

/* Sets the convention of all code ranges that symbols or section names show to be OCaml's. */
void ocaml_mark(const struct elf_file *f, const struct code_space *space, struct code_ranges *p);

#endif
