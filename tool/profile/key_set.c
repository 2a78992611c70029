/* SPDX-License-Identifier: MIT */
/* Assigns numbers to pairs of words and to strings (key_set.h), with open addressing in tables that are at most half
 * full. */
#include "profile/key_set.h"

#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "support/plain.h"
#include "support/memory.h"

static uint64_t pair_hash(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ (b * 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;

	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 29;
}

static uint64_t name_hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3u;
	return h ^ h >> 32;
}

/* Returns a larger array of free slots, or null if out of memory. */
static uint32_t *slots_grow(size_t *slot_count)
{
	size_t count = *slot_count ? 2 * *slot_count : 256;
	uint32_t *slots = count > UINT32_MAX ? NULL : calloc(count, sizeof(*slots));

	if (slots)
		*slot_count = count;
	return slots;
}

static void slot_put(uint32_t *slots, size_t slot_count, uint64_t hash, uint32_t number)
{
	size_t i = hash & (slot_count - 1);

	while (slots[i])
		i = (i + 1) & (slot_count - 1);
	slots[i] = number + 1;
}

static bool keys_rehash(struct key_set *s)
{
	size_t count = s->slot_count;
	uint32_t *slots = slots_grow(&count);

	if (!slots)
		return false;
	for (size_t i = 0; i < s->count; i++)
		slot_put(slots, count, pair_hash(s->list[i].a, s->list[i].b), (uint32_t)i);
	free(s->slots);
	s->slots = slots;
	s->slot_count = count;
	return true;
}

uint32_t key_set_find(const struct key_set *s, uint64_t a, uint64_t b)
{
	if (!s->slot_count)
		return KEY_NONE;
	for (size_t i = pair_hash(a, b) & (s->slot_count - 1); s->slots[i]; i = (i + 1) & (s->slot_count - 1)) {
		const struct key *k = &s->list[s->slots[i] - 1];

		if (k->a == a && k->b == b)
			return s->slots[i] - 1;
	}
	return KEY_NONE;
}

uint32_t key_set_add(struct key_set *s, uint64_t a, uint64_t b)
{
	uint32_t number = key_set_find(s, a, b);

	if (number != KEY_NONE)
		return number;
	if ((2 * s->count >= s->slot_count && !keys_rehash(s)) ||
	    !mem_reserve_try(&s->list, &s->capacity, s->count, sizeof(*s->list)))
		return KEY_NONE;
	number = (uint32_t)s->count++;
	s->list[number] = (struct key){a, b};
	slot_put(s->slots, s->slot_count, pair_hash(a, b), number);
	return number;
}

void key_set_free(struct key_set *s)
{
	free(s->list);
	free(s->slots);
	memset(s, 0, sizeof(*s));
}

static bool names_rehash(struct string_set *s)
{
	size_t count = s->slot_count;
	uint32_t *slots = slots_grow(&count);

	if (!slots)
		return false;
	for (size_t i = 0; i < s->count; i++)
		slot_put(slots, count, name_hash(s->list[i]), (uint32_t)i);
	free(s->slots);
	s->slots = slots;
	s->slot_count = count;
	return true;
}

void name_clean(char *name)
{
	while (*name) {
		size_t n = plain_shown((const unsigned char *)name);

		if (!n)
			*name = '?';
		name += n ? n : 1;
	}
}

static uint32_t clean_add(struct string_set *s, const char *name)
{
	uint64_t hash = name_hash(name);
	uint32_t number;
	char *copy;

	for (size_t i = hash & (s->slot_count - 1); s->slot_count && s->slots[i]; i = (i + 1) & (s->slot_count - 1))
		if (!strcmp(s->list[s->slots[i] - 1], name))
			return s->slots[i] - 1;
	if ((2 * s->count >= s->slot_count && !names_rehash(s)) ||
	    !mem_reserve_try(&s->list, &s->capacity, s->count, sizeof(*s->list)))
		return KEY_NONE;
	copy = strdup(name);
	if (!copy)
		return KEY_NONE;
	number = (uint32_t)s->count++;
	s->list[number] = copy;
	slot_put(s->slots, s->slot_count, hash, number);
	return number;
}

uint32_t string_set_add(struct string_set *s, const char *name)
{
	const char *p = name;
	uint32_t number = KEY_NONE;
	size_t n = 1;
	char *copy;

	while (*p && p < name + NAME_KEPT && (n = plain_shown((const unsigned char *)p)))
		p += n;
	if (n && !*p)
		return clean_add(s, name);
	copy = strndup(name, NAME_KEPT);
	if (copy) {
		name_clean(copy);
		number = clean_add(s, copy);
	}
	free(copy);
	return number;
}

void string_set_free(struct string_set *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->list[i]);
	free(s->list);
	free(s->slots);
	memset(s, 0, sizeof(*s));
}
