/* SPDX-License-Identifier: MIT */
/* A span of bytes, as one argument. */
#ifndef SUPPORT_BYTES_H
#define SUPPORT_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
	const uint8_t *at;
	size_t size;
};

#endif
