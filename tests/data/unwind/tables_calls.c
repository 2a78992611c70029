/* SPDX-License-Identifier: MIT */
/*
 * Return addresses against Zydis: for tables.c.
 */
#include <Zydis/Zydis.h>

#include "tables.h"

static int u64_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

struct call_totals {
	uint64_t calls, found, indirect;
};

/* Every call that Zydis sees at any byte must be in the list; of what is in the list,
 * each must be the end of some E8 or FF. */
static void calls_check(const uint8_t *bytes, size_t size, uint64_t addr, uint64_t lo, uint64_t hi,
                        struct call_totals *t)
{
	ZydisDecoder decoder;
	uint64_t *list = NULL;
	size_t count = 0, i, half = size / 3;
	const struct call_code all = {bytes, size, addr, lo, hi};

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	callsites_find(&all, &list, &count);
	for (i = 0; i < count; i++)
		if (list[i] <= addr || list[i] > addr + size || (i && list[i] <= list[i - 1]))
			fail("the list is out of order");
	for (i = 0; i < size; i++) {
		ZydisDecodedInstruction z;
		uint64_t end, target;

		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes + i, size - i, &z)) ||
		    z.mnemonic != ZYDIS_MNEMONIC_CALL || z.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
			continue;
		end = addr + i + z.length;
		if (z.meta.category != ZYDIS_CATEGORY_CALL)
			fail("no call");
		if (z.opcode == 0xe8) {
			target = end + (uint64_t)z.raw.imm[0].value.s;
			if (target - lo >= hi - lo)
				continue;
		} else {
			t->indirect++;
		}
		t->calls++;
		if (!count || !bsearch(&end, list, count, sizeof(*list), u64_compare))
			fail("the call at 0x%llx, %u bytes, is missing", (unsigned long long)(addr + i), z.length);
	}
	t->found += count;
	/* In two ranges, as sections are: what does not straddle must be there again. */
	{
		uint64_t *two = NULL;
		size_t n = 0, k;

		callsites_find(&(struct call_code){bytes, half, addr, lo, hi}, &two, &n);
		callsites_find(&(struct call_code){bytes + half, size - half, addr + half, lo, hi}, &two, &n);
		for (i = k = 0; i < count; i++) {
			while (k < n && two[k] < list[i])
				k++;
			if ((k == n || two[k] != list[i]) && (list[i] <= addr + half || list[i] > addr + half + 7))
				fail("0x%llx is lost when the range is cut", (unsigned long long)list[i]);
		}
		free(two);
	}
	free(list);
}

/* Every form of FF /2, with and without REX, as the last bytes of a section. */
static void calls_forms(struct call_totals *t)
{
	ZydisDecoder decoder;
	unsigned rex, modrm, sib;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (rex = 0x3f; rex < 0x50; rex++)
		for (modrm = 0; modrm < 256; modrm++)
			for (sib = 0; sib < 256; sib++) {
				uint8_t all[8] = { (uint8_t)rex, 0xff, (uint8_t)modrm, (uint8_t)sib }, *bytes, *p = all;
				ZydisDecodedInstruction z;

				if (rex == 0x3f)
					p++;
				if ((modrm >> 3 & 7) != 2 ||
				    !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, p, (size_t)(all + 8 - p), &z)))
					continue;
				bytes = malloc(z.length);
				memcpy(bytes, p, z.length);
				calls_check(bytes, z.length, 0x1000, 0x1000, 0x2000, t);
				free(bytes);
			}
}

void calls(unsigned size, char **files)
{
	struct call_totals t = { 0 };
	uint8_t *bytes = malloc(size);
	unsigned i, round;

	calls_forms(&t);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < size; i++) {
			bytes[i] = (uint8_t)rnd();
			if (round && below(6) == 0)
				bytes[i] = below(2) ? 0xff : 0xe8;
			if (round == 2 && i && bytes[i - 1] == 0xff && below(4))
				bytes[i] = (uint8_t)((bytes[i] & 0xc7) | 2 << 3);
			if (round == 2 && i >= 4 && bytes[i - 4] == 0xe8) /* targets near by */
				bytes[i] = bytes[i - 1] = below(2) ? 0 : 0xff;
		}
		for (i = 0; i < 9; i++) { /* ends: nothing behind the last byte may be read */
			uint8_t *tail = malloc(i + 1);

			memcpy(tail, bytes + size - i - 1, i + 1);
			calls_check(tail, i + 1, 0x400000, 0x3f0000, 0x410000, &t);
			free(tail);
		}
		calls_check(bytes, size, 0x400000, 0x400000, 0x400000 + size, &t);
		calls_check(bytes, size, 0xffffffff00000000ull, 0xffffffff00000000ull, 0xffffffff00000000ull + size, &t);
	}
	free(bytes);
	for (; *files; files++) {
		FILE *f = fopen(*files, "rb");
		long n;

		if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0)
			fail("%s: cannot be read", *files);
		rewind(f);
		bytes = malloc((size_t)n + 1);
		if (fread(bytes, 1, (size_t)n, f) != (size_t)n)
			fail("%s: cannot be read", *files);
		fclose(f);
		calls_check(bytes, (size_t)n, 0, 0, (uint64_t)n, &t);
		free(bytes);
	}
	printf("calls=%llu indirect=%llu candidates=%llu\n", (unsigned long long)t.calls, (unsigned long long)t.indirect,
	       (unsigned long long)t.found);
}
