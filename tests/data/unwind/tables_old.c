/* SPDX-License-Identifier: MIT */
/*
 * A table with a map of version 4 as it was before: all map bytes are numbers of rules in the palette (docs/formats.md).
 * For tables.c, and as a program of its own, with OLD_MAIN:
 *
 *   tables_old FILE OUT    FILE: a sidecar file
 */
#include "tables.h"

static bool is_rule(unsigned code) { return code < ETCH_MAP_CODES; }

static struct etch_map_rule rule_of(const struct etch_unwind *u, unsigned code)
{
	struct etch_map_rule r = { 0 };

	if (code >= 192) {
		memcpy(&r, (const uint8_t *)u + u->map_palette + 8 * (code - 192), sizeof(r));
	} else if (code == 159) {
		r = (struct etch_map_rule){ 16, -16, ETCH_MAP_RBP, 0 };
	} else {
		r.cfa = 16 + 16 * (code & 31);
		r.bp = (int16_t)(code < 160 ? -48 + 8 * (int)(code >> 5) : 0);
	}
	return r;
}

uint8_t *table_old(const uint8_t *table, size_t size, size_t *old_size)
{
	const struct etch_unwind *was = (const void *)table;
	size_t palette = (was->bytes + 7) & ~7ull, i;
	uint8_t *old = calloc(1, palette + 8 * 224), *map = old + was->map, *unit = old + was->map_unit;
	struct etch_unwind *u = (void *)old;
	bool used[256] = { false };
	uint8_t number[256];
	unsigned code, n = 0, rbp;

	memcpy(old, table, size < was->bytes ? size : was->bytes);
	for (i = 0; i < etch_map_bytes(u); i++)
		used[map[i]] = true;
	for (i = 0; i < 3 * (size_t)u->map_unit_count; i++)
		if (i % 3)
			used[unit[i]] = true;
	for (code = 0; code < 256; code++)
		number[code] = (uint8_t)code;
	for (rbp = 0; rbp < 2; rbp++) {
		u->map_first = n;
		for (code = 0; is_rule(code); code++) {
			struct etch_map_rule r = rule_of(was, used[code] ? code : 0);

			if (!used[code] || r.flags != rbp)
				continue;
			memcpy(old + palette + 8 * n, &r, sizeof(r));
			number[code] = (uint8_t)n++;
		}
	}
	for (i = 0; i < etch_map_bytes(u); i++)
		map[i] = number[map[i]];
	for (i = 0; i < 3 * (size_t)u->map_unit_count; i++)
		if (i % 3)
			unit[i] = number[unit[i]];
	u->map_rbp = 0;
	u->map_palette = (uint32_t)palette;
	u->map_palette_count = n;
	u->bytes = *old_size = palette + 8 * n;
	u->version = etch_rules_version((const void *)(old + u->palette), u->palette_count);
	return old;
}

#ifdef OLD_MAIN
int main(int argc, char **argv)
{
	FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL, *out = in ? fopen(argv[2], "wb") : NULL;
	uint8_t *table = malloc(64u << 20), *old;
	size_t size, old_size;

	if (!out)
		return 2;
	size = fread(table, 1, 64u << 20, in);
	if (!etch_unwind_valid(table, size) || !((struct etch_unwind *)(void *)table)->map_shift)
		return 3;
	old = table_old(table, size, &old_size);
	return !etch_unwind_valid(old, old_size) || fwrite(old, 1, old_size, out) != old_size || fclose(out);
}
#endif
