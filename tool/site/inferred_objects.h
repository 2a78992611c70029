/* SPDX-License-Identifier: MIT */
/*
 * Infers the etched objects of a file whose symbols have been stripped. Their bounds come from the code: each address
 * of an etched section to which code refers begins a part, which extends to the next such address. Since objects are
 * aligned, all of a part belongs to one object, but an object may consist of several parts.
 *
 * If a use is not an access of known extent, it may reach all of an object, and so any part. It is therefore counted as
 * a use of every part of its section.
 */
#ifndef SITE_INFERRED_OBJECTS_H
#define SITE_INFERRED_OBJECTS_H

#include "site/site.h"

/* Adds the parts if the object symbols are stripped, and then also builds s->funcs. Returns 0, or -1 and s->error. */
int inferred_objects_add(struct scan *s);
/*
 * Extends the uses that may reach beyond their part to all parts of the section. Call this after the sites have been
 * sorted.
 */
void inferred_objects_suspect(struct scan *s);

#endif
