/* SPDX-License-Identifier: MIT */
/* Decides which etched objects are armed from the start, and gives the reason for each other object. */
#ifndef SITE_ARMED_OBJECTS_H
#define SITE_ARMED_OBJECTS_H

#include "site/site.h"
#include "table/linked_tables.h"

/* The reason for an object that another module may store to. It is defined here because several commands print it. */
#define OBJECT_EXPORTED "exported: another module may store to it; --closed says that none does"

/*
 * Decides for each object whether it is armed from the start: nothing stores to it, its address does not escape, and
 * its section is on pages of its own. Sets `armed`, and sets `unarmed_why` to the reason, or to null for an armed
 * object.
 */
void objects_judge(struct scan *s, const struct linked_tables *now);

#endif
