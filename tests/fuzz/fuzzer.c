/* SPDX-License-Identifier: MIT */
/*
 * The same targets for libFuzzer, in one program: ETCH_FUZZ names the one to run. A custom
 * mutator sets fields of ELF files to what tends to hurt, or changes their structure (structure.h).
 */
#include "fuzz.h"
#include "structure.h"

#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *name = getenv("ETCH_FUZZ");

	(void)argc;
	(void)argv;
	target = name ? fuzz_target_find(name) : NULL;
	if (!target) {
		fprintf(stderr, "ETCH_FUZZ names no target\n");
		_exit(2);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	target->run(data, size);
	return 0;
}

static uint64_t state;

static uint32_t below(uint32_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 33) % n);
}

static uint64_t value(uint64_t old, unsigned width, uint64_t size)
{
	const uint64_t values[] = {0, 1, ~0ull, 1ull << (8 * width - 1), (1ull << (8 * width - 1)) - 1, old + 1, old - 1, old + 8,
	                           old ^ 1ull << below(8 * width), size, size - 1, 0 - size, old * 2, old + 0x1000, below(256),
	                           1ull << below(64), 0xffffff00, below(16)};

	return values[below(sizeof(values) / sizeof(*values))];
}

/* A place in one of the file's arrays: an element, a field of it. */
static size_t place(uint64_t start, uint64_t count, unsigned each, const uint8_t *fields, unsigned field_count, size_t size,
                    unsigned *width)
{
	unsigned field = below(field_count);
	uint32_t most = count > 4096 ? 4096 : (uint32_t)count;
	uint64_t at = start + (most ? below(most) : 0) * each + fields[2 * field];

	*width = fields[2 * field + 1];
	return at <= size && *width <= size - at ? at : SIZE_MAX;
}

/* A field of a section's contents: by what kind it is. */
static size_t contents(const uint8_t *data, size_t size, const Elf64_Ehdr *eh, unsigned *width)
{
	static const uint8_t sym[] = {0, 4, 4, 1, 5, 1, 6, 2, 8, 8, 16, 8}, rela[] = {0, 8, 8, 4, 12, 4, 16, 8},
	                     dyn[] = {0, 8, 8, 8}, word[] = {0, 4, 0, 8, 0, 1};
	uint64_t at = eh->e_shoff + (eh->e_shnum ? below(eh->e_shnum) : 0) * sizeof(Elf64_Shdr);
	Elf64_Shdr sh;

	if (at > size || sizeof(sh) > size - at)
		return SIZE_MAX;
	memcpy(&sh, data + at, sizeof(sh));
	if (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM)
		return place(sh.sh_offset, sh.sh_size / 24, 24, sym, 6, size, width);
	if (sh.sh_type == SHT_RELA)
		return place(sh.sh_offset, sh.sh_size / 24, 24, rela, 4, size, width);
	if (sh.sh_type == SHT_DYNAMIC)
		return place(sh.sh_offset, sh.sh_size / 16, 16, dyn, 2, size, width);
	return place(sh.sh_offset, sh.sh_size / 4, 4, word, 3, size, width);
}

static size_t field_find(const uint8_t *data, size_t size, unsigned *width)
{
	static const uint8_t ehdr[] = {16, 2, 24, 8, 32, 8, 40, 8, 52, 2, 54, 2, 56, 2, 58, 2, 60, 2, 62, 2},
	                     shdr[] = {0, 4, 4, 4, 8, 8, 16, 8, 24, 8, 32, 8, 40, 4, 44, 4, 48, 8, 56, 8},
	                     phdr[] = {0, 4, 4, 4, 8, 8, 16, 8, 24, 8, 32, 8, 40, 8, 48, 8};
	Elf64_Ehdr eh;

	memcpy(&eh, data, sizeof(eh));
	switch (below(8)) {
	case 0: return place(0, 1, 0, ehdr, 10, size, width);
	case 1: return place(eh.e_phoff, eh.e_phnum, 56, phdr, 8, size, width);
	case 2:
	case 3: return place(eh.e_shoff, eh.e_shnum, 64, shdr, 10, size, width);
	default: return contents(data, size, &eh, width);
	}
}

/* 0: nothing was changed, or it got too large. */
static size_t structure(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	struct mutant m = {fuzz_copy(data, size), size, seed, ""};
	bool done = false;
	unsigned n;

	for (n = 1 + below(3); n; n--)
		done |= structure_mutate(&m, below(structure_kinds()));
	size = done && m.size <= max ? m.size : 0;
	memcpy(data, m.bytes, size);
	free(m.bytes);
	return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	unsigned width, n;
	uint64_t v = 0;
	size_t at;

	state = seed;
	if (!target->elf || size < sizeof(Elf64_Ehdr) || size > max || below(3) == 0)
		return LLVMFuzzerMutate(data, size, max);
	at = below(2) ? structure(data, size, max, seed) : 0;
	if (at)
		return at;
	for (n = 1 + below(3); n; n--) {
		at = field_find(data, size, &width);
		if (at == SIZE_MAX)
			continue;
		memcpy(&v, data + at, width);
		v = value(v, width, size);
		memcpy(data + at, &v, width);
	}
	return size;
}
