/* SPDX-License-Identifier: MIT */
/* What was measured: as a table for people, rows for scripts, JSON (docs/schemas/stat.json). */
#ifndef STAT_SHOW_H
#define STAT_SHOW_H

#include <stdio.h>

#include "report/listing.h"
#include "stat/measure.h"

void stat_show(const struct measurement *m, enum format format, FILE *out);

#endif
