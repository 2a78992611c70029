/* SPDX-License-Identifier: MIT */
/*
 * The yardstick of the generator: one pass of Zydis in minimal mode (lengths, no
 * operands) over the executable sections of a file, and nothing else.
 *
 *     decode FILE
 */
#include <Zydis/Zydis.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>

int main(int argc, char **argv)
{
	uint64_t insns = 0, bytes = 0, bad = 0;
	ZydisDecodedInstruction insn;
	ZydisDecoder decoder;
	Elf_Scn *scn = NULL;
	struct stat st;
	uint8_t *file;
	GElf_Shdr sh;
	Elf *elf;
	int fd;

	if (argc != 2 || (fd = open(argv[1], O_RDONLY)) < 0 || fstat(fd, &st)) {
		fprintf(stderr, "usage: %s FILE\n", argv[0]);
		return 2;
	}
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	elf_version(EV_CURRENT);
	elf = file == MAP_FAILED ? NULL : elf_memory((char *)file, (size_t)st.st_size);
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
	while (elf && (scn = elf_nextscn(elf, scn))) {
		const uint8_t *p;
		size_t left;

		if (!gelf_getshdr(scn, &sh) || !(sh.sh_flags & SHF_EXECINSTR) || sh.sh_type == SHT_NOBITS)
			continue;
		bytes += sh.sh_size;
		for (p = file + sh.sh_offset, left = sh.sh_size; left; insns++) {
			size_t length = 1;

			if (ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, p, left, &insn)))
				length = insn.length;
			else
				bad++;
			p += length;
			left -= length;
		}
	}
	printf("%llu\t%llu\t%llu\n", (unsigned long long)insns, (unsigned long long)bytes, (unsigned long long)bad);
	return !insns;
}
