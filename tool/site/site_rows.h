/* SPDX-License-Identifier: MIT */
/* Makes the rows of the tables of sites and objects (table/linked_tables.h) from the scan of a linked file. */
#ifndef SITE_SITE_ROWS_H
#define SITE_SITE_ROWS_H

#include "site/site.h"
#include "table/linked_tables.h"

/* Copies the rows of the existing tables to *out, so that they can be written again. */
void rows_keep(const struct linked_tables *now, struct linked_rows *out);
/*
 * Replaces the copied rows of __etch_obj by new ones; with `imv` also those of __imv, and with `pv` also those of
 * __pv_sites.
 */
void rows_make(const struct scan *s, const struct linked_tables *now, bool imv, bool pv, struct linked_rows *rows);

#endif
