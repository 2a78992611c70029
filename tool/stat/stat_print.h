/* SPDX-License-Identifier: MIT */
/* Prints a measurement: a table for people, rows for scripts, JSON (docs/schemas/stat.json). */
#ifndef STAT_STAT_PRINT_H
#define STAT_STAT_PRINT_H

#include <stdio.h>

#include "report/listing.h"
#include "stat/measure.h"

void stat_show(const struct measurement *m, enum format format, FILE *out);

#endif
