/* SPDX-License-Identifier: MIT */
/* Bytes and how many there are: an argument where several of these go into one function. */
#ifndef SUPPORT_BYTES_H
#define SUPPORT_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
	const uint8_t *at;
	size_t size;
};

#endif
