/* SPDX-License-Identifier: MIT */
/* For stray.c and its plug-in: 16 values, in cells of 32 bytes. */
#include <stdint.h>

#define IN_STRUCT 16
#define EACH(X)   X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

struct cells {
	struct {
		uint32_t value;
		char rest[28];
	} field[IN_STRUCT];
};
