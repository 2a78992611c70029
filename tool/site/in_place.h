/* SPDX-License-Identifier: MIT */
/*
 * Sites of pv_call_inline, at which the case of one function is compiled in place: a jump leads to the code that calls
 * through the slot, and becomes a nop when the slot holds that function. The functions here change the bytes of a
 * linked file.
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
 * Writes the nop at each site whose object is armed and whose slot initially holds its function. Both decoders must
 * agree. Sets *count to the number of sites in the file and *baked to that of the nops written.
 */
int in_place_bake(const struct scan *s, struct elf_file *f, const struct linked_tables *t, size_t *count, size_t *baked,
                  struct error *e);

/* Has the linker discarded the code of an entry? */
bool in_place_is_dropped(const struct elf_file *f, const struct inline_row *row);

#endif
