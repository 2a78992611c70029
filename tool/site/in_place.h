/* SPDX-License-Identifier: MIT */
/*
 * Sites of pv_call_inline. The compiler has put the body of one expected function in line after a jump. The jump leads
 * to the ordinary call through the slot. While the slot holds the expected function, the jump is a nop, so that the
 * inlined body runs instead. The functions here change the bytes of a linked file.
 */
#ifndef SITE_IN_PLACE_H
#define SITE_IN_PLACE_H

#include "site/site.h"
#include "site/slot_target.h"

/*
 * Restores the compiler's jump at every such site. Returns 0, or -1 and a message if the bytes are neither the jump nor
 * the nop.
 */
int in_place_unbake(struct elf_file *f, const struct linked_tables *t, struct error *e);

/*
 * Writes the nop at each site whose object is armed and whose slot initially holds the expected function. Both decoders
 * must agree. Sets *count to the number of sites in the file and *baked to the number of nops written.
 */
int in_place_bake(const struct scan *s, struct elf_file *f, const struct linked_tables *t, size_t *count, size_t *baked,
                  struct error *e);

/* Has the linker discarded the code that an entry describes? */
bool in_place_is_dropped(const struct elf_file *f, const struct inline_row *row);

#endif
