/* SPDX-License-Identifier: MIT */
/* Computes the identities of files, and makes the heads of sidecars (sidecar_file.h). */
#include "unwinding/sidecar_file.h"
#include "support/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (1u << 18)
/* Size limit in bytes: a file with a larger .eh_frame_hdr is treated as one without. */
#define FRAME_HDR_MAX ((uint64_t)1 << 30)

/* A file whose bytes are read, either from a file descriptor or from memory. */
struct bytes_of {
	int fd; /* -1: the file is in memory */
	const uint8_t *bytes;
	uint64_t size;
};

/* Reads up to `size` bytes at offset `at`. Returns the number of bytes read; 0 at the end of the file and on errors. */
static size_t part_read(const struct bytes_of *f, uint64_t at, uint8_t *to, size_t size)
{
	ssize_t n;

	if (at >= f->size)
		return 0;
	size = size < f->size - at ? size : (size_t)(f->size - at);
	if (f->fd < 0) {
		memcpy(to, f->bytes + at, size);
		return size;
	}
	n = pread(f->fd, to, size, (off_t)at);
	return n < 0 ? 0 : (size_t)n;
}

/* Clears those fields of the ELF header that are not part of the identity, in bytes that were read from file offset
 * `at`. */
static void header_clear(uint8_t *bytes, size_t size, uint64_t at)
{
	Elf64_Ehdr eh, cleared;
	uint8_t kept[sizeof(eh)];

	memset(&eh, 0xff, sizeof(eh));
	cleared = sidecar_header_of(&eh);
	memcpy(kept, &cleared, sizeof(kept));
	for (size_t i = 0; i < size && at + i < sizeof(kept); i++)
		bytes[i] &= kept[at + i];
}

/* Computes the hash of all bytes that are loaded. Code, .eh_frame and jump tables are among them, and rows are made
 * from these. If segments overlap, reading ends when twice the size of the file has been read. */
static void contents_hash(const struct bytes_of *f, const Elf64_Phdr *phdrs, unsigned count, uint8_t *chunk,
                          uint8_t out[BLAKE2B_DIGEST])
{
	uint64_t left = f->size > UINT64_MAX / 2 ? UINT64_MAX : 2 * f->size;
	struct blake2b s;

	blake2b_init(&s);
	for (unsigned i = 0; i < count; i++) {
		const Elf64_Phdr *p = &phdrs[i];
		uint64_t at = 0;

		while (p->p_type == PT_LOAD && at < p->p_filesz && left) {
			uint64_t most = p->p_filesz - at < left ? p->p_filesz - at : left;
			size_t n = 0;

			if (p->p_offset <= UINT64_MAX - at)
				n = part_read(f, p->p_offset + at, chunk, most < CHUNK ? (size_t)most : CHUNK);
			if (!n)
				break;
			header_clear(chunk, n, p->p_offset + at);
			blake2b_add(&s, chunk, n);
			at += n;
			left -= n;
		}
	}
	blake2b_end(&s, out);
}

/* Finds the file offset and size of .eh_frame_hdr. It must lie in a readable segment, as it does in a loaded module.
 * Returns false if there is none. */
static bool frame_hdr_find(const Elf64_Phdr *phdrs, unsigned count, uint64_t *at, uint64_t *size)
{
	for (unsigned i = 0; i < count; i++) {
		const Elf64_Phdr *hdr = &phdrs[i];

		for (unsigned k = 0; hdr->p_type == PT_GNU_EH_FRAME && hdr->p_filesz <= FRAME_HDR_MAX && k < count; k++) {
			const Elf64_Phdr *p = &phdrs[k];
			uint64_t in = hdr->p_vaddr - p->p_vaddr;

			if (p->p_type != PT_LOAD || !(p->p_flags & PF_R) || hdr->p_vaddr < p->p_vaddr || in > p->p_filesz ||
			    hdr->p_filesz > p->p_filesz - in)
				continue;
			*at = p->p_offset + in;
			*size = hdr->p_filesz;
			return true;
		}
	}
	return false;
}

/* Finds .eh_frame_hdr in a file as frame_hdr_find() does, but it must not extend past the end of the file. */
static bool frame_hdr_in(const struct bytes_of *f, const struct elf_headers *h, uint64_t *at, uint64_t *size)
{
	return frame_hdr_find(h->phdrs, h->phdr_count, at, size) && *at <= f->size && *size <= f->size - *at;
}

/* Computes the identity of a file. `hdr` has the `size` bytes of its .eh_frame_hdr; null: it has none. */
static void identify(const struct bytes_of *f, const struct elf_headers *h, const uint8_t *hdr, uint64_t size,
                     bool contents, struct sidecar_identity *out)
{
	uint8_t *chunk;

	memset(out, 0, sizeof(*out));
	sidecar_layout(out->layout, &h->eh, h->phdrs, h->phdr_count, hdr, size);
	if (!contents)
		return;
	chunk = mem_alloc(CHUNK, 1);
	contents_hash(f, h->phdrs, h->phdr_count, chunk, out->contents);
	free(chunk);
}

bool sidecar_identify(int fd, const struct elf_headers *h, bool contents, struct sidecar_identity *out)
{
	struct stat st;
	const struct bytes_of f = {.fd = fd, .size = fstat(fd, &st) || st.st_size < 0 ? 0 : (uint64_t)st.st_size};
	uint8_t *hdr = NULL;
	uint64_t at, hdr_size = 0;

	if (frame_hdr_in(&f, h, &at, &hdr_size)) {
		hdr = malloc(hdr_size + 1); /* malloc() may fail: the size is what the file claims */
		if (!hdr)
			return false;
		hdr_size = part_read(&f, at, hdr, hdr_size);
	}
	identify(&f, h, hdr, hdr_size, contents, out);
	free(hdr);
	return true;
}

void sidecar_identify_bytes(const uint8_t *bytes, size_t size, struct sidecar_identity *out)
{
	const struct bytes_of f = {.fd = -1, .bytes = bytes, .size = size};
	struct elf_headers h = {0};
	uint64_t at, hdr_size = 0;
	bool has;

	if (size >= sizeof(h.eh))
		memcpy(&h.eh, bytes, sizeof(h.eh));
	if (size >= sizeof(h.eh) && h.eh.e_phoff <= size && h.eh.e_phnum <= (size - h.eh.e_phoff) / sizeof(Elf64_Phdr))
		h.phdr_count = h.eh.e_phnum;
	h.phdrs = mem_copy(bytes + (h.phdr_count ? h.eh.e_phoff : 0), h.phdr_count * sizeof(Elf64_Phdr));
	has = frame_hdr_in(&f, &h, &at, &hdr_size);
	identify(&f, &h, has ? bytes + at : NULL, hdr_size, true, out);
	free(h.phdrs);
}

void sidecar_second_name(char out[SIDECAR_NAME_MOST], const char *id, const struct sidecar_identity *of)
{
	int n = snprintf(out, SIDECAR_NAME_MOST, "%s-", id);

	for (int i = 0; i < SIDECAR_NAME_LAYOUT; i++)
		n += snprintf(out + n, (size_t)(SIDECAR_NAME_MOST - n), "%02x", of->layout[i]);
}

bool sidecar_whole(const char *path, uint8_t out[BLAKE2B_DIGEST])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	uint8_t *chunk = mem_alloc(CHUNK, 1);
	struct blake2b s;
	ssize_t n = -1;

	blake2b_init(&s);
	while (fd >= 0 && (n = read(fd, chunk, CHUNK)) > 0)
		blake2b_add(&s, chunk, (uint64_t)n);
	blake2b_end(&s, out);
	free(chunk);
	if (fd >= 0)
		close(fd);
	return !n;
}

static void head_make(struct sidecar *out, const struct sidecar_identity *of)
{
	*out = (struct sidecar){.magic = SIDECAR_MAGIC, .version = SIDECAR_VERSION, .size = sizeof(*out)};
	memcpy(out->layout, of->layout, sizeof(out->layout));
	memcpy(out->contents, of->contents, sizeof(out->contents));
}

void sidecar_refusal(struct sidecar *out, const struct sidecar_identity *of, const uint8_t *whole)
{
	head_make(out, of);
	if (whole)
		memcpy(out->refused, whole, sizeof(out->refused));
	else
		memset(out->contents, 0, sizeof(out->contents));
}

void sidecar_wrap(uint8_t **bytes, size_t *size, const struct sidecar_identity *of)
{
	struct sidecar head;

	head_make(&head, of);
	head.bytes = *size;
	*bytes = mem_resize(*bytes, *size + sizeof(head), 1);
	memmove(*bytes + sizeof(head), *bytes, *size);
	memcpy(*bytes, &head, sizeof(head));
	*size += sizeof(head);
}

int sidecar_open(int directory, const char *name, uint64_t *size, bool *untrusted)
{
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
	struct stat st, in;

	*untrusted = false;
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && !fstat(directory, &in) && S_ISREG(st.st_mode)) {
		*untrusted = !sidecar_is_trusted(&st, &in, geteuid());
		*size = (uint64_t)st.st_size;
		if (!*untrusted)
			return fd;
	}
	close(fd);
	return -1;
}
