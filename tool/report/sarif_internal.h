/* SPDX-License-Identifier: MIT */
/* What sarif.c and sarif_run.c share. */
#ifndef REPORT_SARIF_INTERNAL_H
#define REPORT_SARIF_INTERNAL_H

#include "report/listing.h"
#include "report/sarif.h"

#define ROOT_ID "%SRCROOT%" /* the name that services use for the root of the sources */

static inline void put_string(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_name(value));
}

#endif
