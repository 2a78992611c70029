/* SPDX-License-Identifier: MIT */
/*
 * Converts a report to JSON and back. The encoding has three uses: the output of `etch check --format json`, the
 * baseline, and the result that a worker process sends to its parent. The schema is docs/schemas/check.json.
 */
#ifndef REPORT_REPORT_JSON_H
#define REPORT_REPORT_JSON_H

#include <json-c/json.h>

#include "report/report.h"

/*
 * How names with arbitrary bytes are encoded. EXCHANGE_DOCUMENT: in UTF-8, with U+FFFD for other bytes. EXCHANGE_EXACT,
 * between processes: the bytes themselves.
 */
enum exchange { EXCHANGE_DOCUMENT, EXCHANGE_EXACT };

struct json_object *report_to_json(const struct report *r, enum exchange how);
/*
 * Reads a report, without findings whose ID is unknown. Returns 0, or -1 and a message. The caller calls report_free()
 * in either case.
 */
int report_from_json(struct report *r, struct json_object *o, struct error *e);

struct json_object *place_to_json(const struct report_place *p, enum exchange how);
/* Makes a JSON string of a number in hexadecimal, for addresses and fingerprints: "0000000000401136". */
struct json_object *json_hex(uint64_t value, int digits);

#endif
