/* SPDX-License-Identifier: MIT */
/* The rows of the tables of sites and objects (table/linked_tables.h) that a scan of a linked file gives. */
#ifndef SITE_SITE_ROWS_H
#define SITE_SITE_ROWS_H

#include "site/site.h"
#include "table/linked_tables.h"

/* Copies the rows of the existing tables, to be written again. */
void rows_keep(const struct linked_tables *now, struct linked_rows *out);
/* Replaces the copied rows of __etch_obj, and with `imv` and `pv` of __imv and __pv_sites, by new ones. */
void rows_make(const struct scan *s, const struct linked_tables *now, bool imv, bool pv, struct linked_rows *rows);

#endif
