/* SPDX-License-Identifier: MIT */
/*
 * Etched objects of a file whose symbols have been stripped. Their bounds are inferred from the code: each
 * referenced address of an etched section begins a part, which extends to the next one. Since objects are aligned,
 * a part belongs to one object; an object may consist of several parts.
 *
 * A use other than an access of known extent may reach all of an object, and so any part: it counts against all
 * objects of the section.
 */
#ifndef SITE_INFERRED_OBJECTS_H
#define SITE_INFERRED_OBJECTS_H

#include "site/site.h"

/* Adds the parts if the object symbols are stripped. Builds s->funcs in that case. */
int inferred_objects_add(struct scan *s);
/* Extends what counts against one part to all parts of its section. Call after the sites have been sorted. */
void inferred_objects_suspect(struct scan *s);

#endif
