/* SPDX-License-Identifier: MIT */
/* The files that a profiled process has mapped (binary_files.h). */
#include "profile/binary_files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "support/memory.h"

/* Is this open file the one that was mapped? The build-id decides if the kernel gave one, otherwise the inode, since
 * the device that stat(2) names is not that of the mapping on all file systems. */
static bool is_mapped(int fd, const struct mapped_file *m)
{
	struct elf_headers seen;
	struct stat st;
	bool same;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	if (!m->build_id_size)
		return st.st_ino == m->inode;
	if (!elf_headers_read(&seen, fd))
		return false;
	same = seen.build_id_size >= m->build_id_size && !memcmp(seen.build_id, m->build_id, m->build_id_size);
	elf_headers_free(&seen);
	return same;
}

static int try_open(const char *path, const struct mapped_file *m)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && !is_mapped(fd, m)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Opens the file as the process sees it, or by the mapping itself (for removed files), or by the same path here. */
static int mapped_open(pid_t pid, const struct mapped_file *m)
{
	char path[PATH_MAX + 64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/root%s", (long)pid, m->path);
	fd = try_open(path, m);
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/%ld/map_files/%llx-%llx", (long)pid, (unsigned long long)m->start,
	         (unsigned long long)m->end);
	fd = try_open(path, m);
	return fd >= 0 ? fd : try_open(m->path, m);
}

/* Makes a file with a copy of etch's own vdso: the kernel's vdso is the same in each process. */
static int vdso_open(void)
{
	const uint8_t *at = (const uint8_t *)getauxval(AT_SYSINFO_EHDR); // NOLINT
	const Elf64_Ehdr *h = (const void *)at;
	size_t size;
	int fd;

	if (!at)
		return -1;
	size = h->e_shoff + (size_t)h->e_shnum * h->e_shentsize;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, at, size) != (ssize_t)size) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void binary_open(struct binary *b, pid_t pid, const struct mapped_file *m)
{
	const char *slash = strrchr(b->path, '/');
	bool vdso = !strcmp(b->path, "[vdso]");
	struct elf_headers h;

	b->name = slash && slash[1] ? slash + 1 : b->path;
	b->fd = -1;
	b->pid = pid;
	if (b->kind == BINARY_CODE)
		return;
	b->fd = vdso ? vdso_open() : mapped_open(pid, m);
	if (b->fd < 0) {
		b->kind = BINARY_GONE;
	} else if (!elf_headers_read(&h, b->fd)) {
		b->kind = BINARY_CODE; /* a JIT's file */
		close(b->fd);
		b->fd = -1;
	} else {
		b->phdrs = h.phdrs;
		b->phdr_count = h.phdr_count;
		b->header = h.eh;
		b->entry = h.eh.e_entry;
		b->build_id_size = h.build_id_size;
		memcpy(b->build_id, h.build_id, sizeof(b->build_id));
	}
}

static bool is_same(const struct binary *b, enum binary_kind kind, pid_t pid, const struct mapped_file *m)
{
	if (kind == BINARY_CODE)
		return b->kind == BINARY_CODE && b->pid == pid && !strcmp(b->path, m->path);
	if (b->kind == BINARY_CODE && b->pid != pid)
		return false;
	if (strcmp(b->path, m->path))
		return false;
	if (m->build_id_size)
		return b->build_id_size >= m->build_id_size && !memcmp(b->build_id, m->build_id, m->build_id_size);
	return b->inode == m->inode && b->major == m->major && b->minor == m->minor;
}

long binary_find(struct binary_list *l, pid_t pid, const struct mapped_file *m)
{
	bool file = (m->path[0] == '/' && m->path[1] != '/') || !strcmp(m->path, "[vdso]");
	enum binary_kind kind = file ? BINARY_FILE : BINARY_CODE;
	struct binary *b;

	for (size_t i = 0; i < l->count; i++)
		if (is_same(l->list[i], kind, pid, m))
			return (long)i;
	b = calloc(1, sizeof(*b));
	if (!b || !mem_reserve_try(&l->list, &l->capacity, l->count, sizeof(*l->list)) || !(b->path = strdup(m->path))) {
		free(b);
		return -1;
	}
	b->kind = kind;
	b->major = m->major;
	b->minor = m->minor;
	b->inode = m->inode;
	b->build_id_size = m->build_id_size;
	memcpy(b->build_id, m->build_id, sizeof(b->build_id));
	binary_open(b, pid, m);
	l->list[l->count] = b;
	return (long)l->count++;
}

bool binary_bias(const struct binary *b, uint64_t start, uint64_t offset, uint64_t *bias)
{
	*bias = b->kind == BINARY_CODE ? 0 : start - offset;
	for (unsigned i = 0; i < b->phdr_count; i++) {
		const Elf64_Phdr *p = &b->phdrs[i];

		/* The mapping begins with the page of the segment's first byte, or further on if it was split. */
		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && offset >= (p->p_offset & ~(uint64_t)4095) &&
		    offset < p->p_offset + p->p_filesz) {
			*bias = start - (p->p_vaddr - p->p_offset + offset);
			return true;
		}
	}
	return b->kind != BINARY_FILE;
}

int binary_code_read(const struct binary *b, uint64_t at, uint64_t *word)
{
	for (unsigned i = 0; b->fd >= 0 && i < b->phdr_count; i++) {
		const Elf64_Phdr *p = &b->phdrs[i];
		uint64_t offset = at - p->p_vaddr;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && offset < p->p_filesz && p->p_filesz - offset >= 8)
			return pread(b->fd, word, 8, (off_t)(p->p_offset + offset)) == 8 ? 0 : -1;
	}
	return -1;
}

void binary_list_free(struct binary_list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		struct binary *b = l->list[i];

		if (b->fd >= 0)
			close(b->fd);
		if (b->image)
			munmap(b->image, b->image_size);
		if (b->table)
			munmap((void *)(uintptr_t)b->table, b->table_size);
		free(b->phdrs);
		free(b->arenas);
		free(b->path);
		free(b);
	}
	free(l->list);
	memset(l, 0, sizeof(*l));
}
