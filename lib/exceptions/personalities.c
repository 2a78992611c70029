/* SPDX-License-Identifier: MIT */
/*
 * personalities.c: a list, to which entries are added only. A process has a handful.
 */
#include "exceptions/personalities.h"

struct personality personalities[PERSONALITIES];
static uint32_t entered = 1; /* 0 stands for none */

#define KNOWN_MAX 16u
static struct {
	uint64_t function;
	uint8_t language;
} known[KNOWN_MAX];
static uint32_t known_count;

void personality_known(enum language language, uint64_t function)
{
	uint32_t n = known_count;

	if (!function || n == KNOWN_MAX)
		return;
	known[n].function = function;
	known[n].language = (uint8_t)language;
	__atomic_store_n(&known_count, n + 1, __ATOMIC_RELEASE);
}

static enum language language_of(uint64_t function)
{
	uint32_t n = __atomic_load_n(&known_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++)
		if (known[i].function == function)
			return known[i].language;
	return LANGUAGE_UNKNOWN;
}

unsigned personality_enter(uint64_t at, bool indirect)
{
	struct personality new = {.at = at, .indirect = indirect};
	uint32_t n = __atomic_load_n(&entered, __ATOMIC_ACQUIRE);

	new.function = personality_function(&new);
	new.language = (uint8_t)language_of(new.function);
	for (uint32_t i = 1; i < n && i < PERSONALITIES; i++) {
		const struct personality *p = &personalities[i];

		if (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) && p->at == at && p->indirect == indirect &&
		    p->function == new.function)
			return i;
	}
	if (n >= PERSONALITIES)
		return 0;
	n = __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
	if (n >= PERSONALITIES)
		return 0;
	personalities[n] = new;
	__atomic_store_n(&personalities[n].ready, 1, __ATOMIC_RELEASE);
	return n;
}
