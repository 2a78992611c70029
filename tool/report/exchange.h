/* SPDX-License-Identifier: MIT */
/*
 * A report as JSON and back: what `etch check --format json` prints of a file, what a
 * baseline is read from, and what a worker hands to its parent. docs/schemas/check.json is
 * its schema.
 */
#ifndef REPORT_EXCHANGE_H
#define REPORT_EXCHANGE_H

#include <json-c/json.h>

#include "report/report.h"

/* Names in a document are UTF-8, with U+FFFD for what is not; between processes they are the
 * bytes that they are. */
enum exchange { EXCHANGE_DOCUMENT, EXCHANGE_EXACT };

/* Null: out of memory. */
struct json_object *report_to_json(const struct report *r, enum exchange how);
/* Findings of an ID that this etch does not know are left out. 0, or -1 and a message;
 * report_free() also after a failure. */
int report_from_json(struct report *r, struct json_object *o, struct error *e);

struct json_object *place_to_json(const struct report_place *p, enum exchange how);
/* "0000000000401136": addresses and prints. */
struct json_object *json_hex(uint64_t value, int digits);

#endif
