/* SPDX-License-Identifier: MIT */
/*
 * Infers the etched objects of a file whose symbols have been stripped. Their bounds come from the code: each
 * referenced address of an etched section begins a part, which extends to the next one. Since objects are aligned, a
 * part belongs to one object; an object may consist of several parts.
 *
 * A use other than an access of known extent may reach all of an object, and so any part: it counts against all objects
 * of its section.
 */
#ifndef SITE_INFERRED_OBJECTS_H
#define SITE_INFERRED_OBJECTS_H

#include "site/site.h"

/* Adds the parts if the object symbols are stripped, and then also builds s->funcs. Returns 0, or -1 and s->error. */
int inferred_objects_add(struct scan *s);
/* Extends the uses that count against one part to all parts of its section. Call this after the sites have been
 * sorted. */
void inferred_objects_suspect(struct scan *s);

#endif
