/* SPDX-License-Identifier: MIT */
/*
 * What answers for the return addresses of a file's direct calls: the byte of the
 * return-address map, an exception unit of it, or the full table.
 *
 *     map_use FILE TABLE
 *
 * TABLE is FILE's block table with a map (etch rewrite --sidecar). Prints three counts.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <etch/orc_lookup.h>

static const uint8_t *file_map(const char *path, uint64_t *size)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st))
		return NULL;
	*size = (uint64_t)st.st_size;
	p = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

int main(int argc, char **argv)
{
	uint64_t size, table_size, direct = 0, unit = 0, full = 0, i;
	const uint8_t *file = argc == 3 ? file_map(argv[1], &size) : NULL;
	const uint8_t *table = file ? file_map(argv[2], &table_size) : NULL;
	const struct etch_unwind *u = (const void *)table;
	const Elf64_Ehdr *e = (const void *)file;
	const Elf64_Phdr *ph;
	struct etch_map_rule m;
	struct etch_block t;
	int k;

	if (!table || !etch_unwind_valid(u, table_size) || !u->map_shift) {
		fprintf(stderr, "usage: %s FILE TABLE, a block table with a map\n", argv[0]);
		return 2;
	}
	etch_block_open(u, &t);
	ph = (const void *)(file + e->e_phoff);
	for (k = 0; k < e->e_phnum; k++)
		for (i = 0; ph[k].p_type == PT_LOAD && ph[k].p_flags & PF_X && i + 5 <= ph[k].p_filesz; i++) {
			const uint8_t *p = file + ph[k].p_offset + i;
			uint64_t at = ph[k].p_vaddr + i + 5 - u->text;
			int32_t rel;

			memcpy(&rel, p + 1, 4);
			if (*p != 0xe8 || at >= u->text_size || at + (uint64_t)(int64_t)rel >= u->text_size ||
			    etch_block_find_in(&t, at - 1)->kind != ETCH_RULE_CALL)
				continue;
			if (t.map[at >> t.map_shift] < t.map_codes)
				direct++;
			else if (etch_map_find_in(&t, at, &m))
				unit++;
			else
				full++;
		}
	printf("%llu\t%llu\t%llu\n", (unsigned long long)direct, (unsigned long long)unit, (unsigned long long)full);
	return 0;
}
