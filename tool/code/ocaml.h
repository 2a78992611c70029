/* SPDX-License-Identifier: MIT */
/*
 * Code that OCaml's native compiler makes: no function of it keeps a register for its caller, but for r14 and r15,
 * which belong to the run-time system.
 */
#ifndef CODE_OCAML_H
#define CODE_OCAML_H

#include "code/pieces.h"

/* Marks the pieces that are such code, as far as symbols say. */
int ocaml_mark(const struct elf_file *f, const struct code_space *space, struct pieces *p, struct error *e);

#endif
