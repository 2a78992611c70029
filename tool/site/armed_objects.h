/* SPDX-License-Identifier: MIT */
/* Which etched objects are armed from the start, and why another one is not. */
#ifndef SITE_ARMED_OBJECTS_H
#define SITE_ARMED_OBJECTS_H

#include "site/site.h"
#include "table/linked_tables.h"

/* The reason for an object that another module may store to. Printed by several commands, so that it stands here. */
#define OBJECT_EXPORTED "exported: another module may store to it; --closed says that none does"

/*
 * Decides for each object whether it is armed from the start: no store, no escape, its section on pages of its own.
 * Sets `armed`, and `unarmed_why`, the reason, which is null for one that is armed.
 */
void objects_judge(struct scan *s, const struct linked_tables *now);

#endif
