/* SPDX-License-Identifier: MIT */
/*
 * Etched objects of a file whose symbols have been stripped. Nothing says where one
 * begins and ends, but what the code refers to: each such place of an etched section
 * begins a part, which reaches to the next one. A part belongs to one object, as objects
 * are aligned, and an object to one or several parts.
 *
 * Whatever is not an access of known extent may reach all of an object, and so any
 * part: it counts against all objects of the section.
 */
#ifndef SITE_PARTS_H
#define SITE_PARTS_H

#include "site/site.h"

/* Adds the parts, where the file has lost the symbols of its objects. s->funcs may be
 * built by this. */
int parts_add(struct scan *s);
/* After the sites have been sorted: what counts against one part, and all of them. */
void parts_suspect(struct scan *s);

#endif
