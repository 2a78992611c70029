/* SPDX-License-Identifier: MIT */
/* The object that generated compares read. */
#ifndef COMPARES_H
#define COMPARES_H
#include <etch/imv.h>
#include <stdint.h>

struct all {
	int8_t int8_t;
	uint8_t uint8_t;
	int16_t int16_t;
	uint16_t uint16_t;
	int32_t int32_t;
	uint32_t uint32_t;
	int64_t int64_t;
	uint64_t uint64_t;
};
extern struct all cfg;
ETCH_DECLARE(cfg);
extern long (*const funcs[])(long, long);
extern const unsigned func_count;
long out(long x, long y);

#endif
