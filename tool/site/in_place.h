/* SPDX-License-Identifier: MIT */
/*
 * Calls whose case of one function is compiled in place (pv_call_inline): a jump to
 * where the slot is called, in a linked file's own bytes.
 */
#ifndef SITE_IN_PLACE_H
#define SITE_IN_PLACE_H

#include "site/site.h"
#include "site/target.h"

/*
 * Puts every such site back to the jump that the compiler wrote. -1 and a message when
 * the bytes of one are neither that nor the nop.
 */
int in_place_unbake(struct elf_file *f, const struct linked_tables *t, struct error *e);

/*
 * Makes a nop of each whose object is armed and whose slot holds its function from the
 * start. Both decoders must agree. Counts what there is, and what was made.
 */
int in_place_bake(const struct scan *s, struct elf_file *f, const struct linked_tables *t, size_t *count,
                  size_t *baked, struct error *e);

/* Is the code of an entry in the file, or has the linker dropped it? */
bool in_place_is_dropped(const struct elf_file *f, const struct inline_row *row);

#endif
