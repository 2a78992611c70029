/* SPDX-License-Identifier: MIT */
/* Reads the headers and the build-id of an open ELF file, but not its contents: for callers that scan many files. */
#ifndef ELF_HEADERS_H
#define ELF_HEADERS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#define BUILD_ID_MOST 20 /* bytes, like the kernel's BUILD_ID_SIZE_MAX */

struct elf_headers {
	Elf64_Ehdr eh;
	Elf64_Phdr *phdrs; /* malloc'd */
	unsigned phdr_count;
	uint8_t build_id[BUILD_ID_MOST];
	unsigned build_id_size; /* 0: none, or a longer one */
};

/* Reads `size` bytes of a file at an offset. Returns false if it does not have them. */
static inline bool elf_bytes_read(int fd, uint64_t at, void *to, size_t size)
{
	return pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* Returns false if the file is not 64-bit x86-64 ELF or has no program headers; there is nothing to free then. */
bool elf_headers_read(struct elf_headers *h, int fd);
void elf_headers_free(struct elf_headers *h);

#endif
