/* SPDX-License-Identifier: MIT */
/*
 * Converts a report to JSON and back. Three uses share the encoding: the output of `etch check --format json` for a
 * file, a baseline, and the result that a worker process sends to its parent. The schema is docs/schemas/check.json.
 */
#ifndef REPORT_EXCHANGE_H
#define REPORT_EXCHANGE_H

#include <json-c/json.h>

#include "report/report.h"

/* The encoding of names. EXCHANGE_DOCUMENT: UTF-8, with U+FFFD for all other bytes. EXCHANGE_EXACT, between
 * processes: the bytes themselves. */
enum exchange { EXCHANGE_DOCUMENT, EXCHANGE_EXACT };

struct json_object *report_to_json(const struct report *r, enum exchange how);
/* Reads a report; findings with an unknown ID are skipped. Returns 0, or -1 and a message. The caller calls
 * report_free() in either case. */
int report_from_json(struct report *r, struct json_object *o, struct error *e);

struct json_object *place_to_json(const struct report_place *p, enum exchange how);
/* Makes a string of a hexadecimal number, for addresses and fingerprints: "0000000000401136". */
struct json_object *json_hex(uint64_t value, int digits);

#endif
