/* SPDX-License-Identifier: MIT */
/* Which etched objects are armed from the start, and why another one is not. */
#ifndef SITE_ARMED_OBJECTS_H
#define SITE_ARMED_OBJECTS_H

#include "site/site.h"
#include "table/linked_tables.h"

/* Why an object is not armed that another module may store to. */
#define OBJECT_EXPORTED "exported: another module may store to it; --closed says that none does"

/*
 * Decides for each object whether it is armed from the start: no store, no escape, its section on pages of its own.
 * Sets `armed`, and `unarmed` (the reason).
 */
void objects_judge(struct scan *s, const struct linked_tables *now);

#endif
