/* SPDX-License-Identifier: MIT */
/*
 * tables.h: what the files of tables.c share.
 */
#ifndef TEST_TABLES_H
#define TEST_TABLES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etch/orc_lookup.h>

#include "arch/x86/byte_scan.h"
#include "table/unwind_tables.h"

uint64_t rnd(void);
uint32_t below(uint32_t n);
void __attribute__((format(printf, 1, 2), noreturn)) fail(const char *format, ...);
void check_error(int status, const struct error *e);

struct sample {
	struct row_list rows;
	uint64_t text, size; /* text at a multiple of 256 */
	uint32_t *row_of;    /* of each byte: index in rows, or UINT32_MAX before the first */
	uint64_t *calls;
	size_t call_count;
};

struct etch_rule rule_random(unsigned variety);
void sample_make(struct sample *s);
void sample_free(struct sample *s);
/* The rule at an offset, by the list; *got is that rule, or the program ends. */
const struct etch_rule *truth(const struct sample *s, uint64_t offset);
void rule_same(const struct sample *s, const struct etch_rule *got, uint64_t offset, const char *who);

/* A table with a map as before version 4; to be freed. (tables_old.c) */
uint8_t *table_old(const uint8_t *table, size_t size, size_t *old_size);

/* The modes of those names. */
void lookup(unsigned lists);
void mutate(unsigned tables, unsigned mutants);
void calls(unsigned size, char **files);

#endif
