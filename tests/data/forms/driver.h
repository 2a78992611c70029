// SPDX-License-Identifier: MIT
/* What generate_reads.py writes, and what its reads call. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdint.h>

extern const uint64_t gen_table[16];
uint64_t gen_mix2(uint64_t a, uint64_t b);
uint64_t gen_mix8(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h);

struct gen_read {
	uint64_t (*etched)(uint64_t a, uint64_t b);
	uint64_t (*shadow)(uint64_t a, uint64_t b);
	const char *what;
};
struct gen_set {
	int (*set)(uint64_t v); /* an etch_error */
	const char *what;
};
extern const struct gen_read gen_reads[];
extern const unsigned gen_reads_count;
extern const struct gen_set gen_sets[];
extern const unsigned gen_sets_count;

void gen_stores(uint64_t v); /* plain stores to the objects of gen_sync */
int gen_sync(void);
int gen_release(void);

#endif
