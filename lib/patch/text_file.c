/* SPDX-License-Identifier: MIT */
/*
 * text_file.c: maps pages of the file that a module's text comes from, for page_swap.c.
 *
 * The file is found by its name and must be the one that was there when the module was loaded. A file that has
 * replaced it since then (because a package was upgraded) is not used: the pages are then anonymous, without the
 * file's name in /proc/self/maps.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/sys.h"
#include "patch/patch.h"

static const char program[] = "/proc/self/exe";

/* The target of the link /proc/self/exe, if it is not too long. Opening it takes half the time; it is used as long as
 * it is the same file. */
static char program_path[256];

static const char *file_name(const char *path) { return *path ? path : program; }

void text_file_identify(struct image *im, const char *path)
{
	struct stat st;

	if (!*path && !program_path[0] &&
	    sys_call3(SYS_readlink, (long)program, (long)program_path, sizeof(program_path)) >= (long)sizeof(program_path))
		program_path[0] = 0;
	if (sys_call3(SYS_stat, (long)file_name(path), (long)&st, 0) == 0) {
		im->file.dev = st.st_dev;
		im->file.inode = st.st_ino;
	}
}

/* ---- runs of anonymous pages -------------------------------------------------------- */

/* Where text was replaced by anonymous pages, in order of use. When the array is full, the oldest entry is forgotten:
 * then a set there is refused if the page holds 0xcc bytes (text_file_untouched). */
static struct bounds left[64];
static unsigned left_count;

void text_file_left(uint64_t start, uint64_t end)
{
	unsigned capacity = sizeof(left) / sizeof(left[0]);

	for (unsigned i = 0; i < left_count && i < capacity; i++)
		if (left[i].start == start && left[i].stop == end)
			return;
	left[left_count++ % capacity] = (struct bounds){start, end};
}

void text_file_forget(const struct image *im)
{
	for (unsigned i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		if (left[i].start < im->end && left[i].stop > im->start)
			left[i] = (struct bounds){0, 0};
}

/* Bit 61 of an entry of /proc/PID/pagemap: the page is the file's own, which nobody has written to
 * (Documentation/admin-guide/mm/pagemap.rst). */
static int is_file_page(uint64_t page)
{
	uint64_t entry = 0;
	long fd = sys_call3(SYS_open, (long)"/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0), n;

	if (fd < 0)
		return 0;
	(void)word_load(page); /* makes the page present, unless it is being reclaimed */
	n = sys_call6(SYS_pread64, fd, (long)&entry, 8, (long)(page / ETCH_PAGE * 8), 0, 0);
	sys_call3(SYS_close, fd, 0, 0);
	return n == 8 && (entry >> 61 & 1);
}

int text_file_untouched(uint64_t page)
{
	for (unsigned i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		if (page >= left[i].start && page < left[i].stop)
			return 1;
	return is_file_page(page);
}

uint64_t text_file_private(const struct image *im)
{
	static uint64_t entries[256]; /* under the lock; the stack of the caller may be small */
	long fd = sys_call3(SYS_open, (long)"/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0), n;
	uint64_t size = 0;

	if (fd < 0)
		return 0;
	for (unsigned k = 0; k < im->segments; k++) {
		const struct segment *s = &im->segment[k];
		uint64_t page = PAGE_OF(s->start), want;

		for (; (s->prot & PROT_EXEC) && page < s->end; page += (uint64_t)n / 8 * ETCH_PAGE) {
			want = (PAGE_UP(s->end) - page) / ETCH_PAGE * 8;
			n = sys_call6(SYS_pread64, fd, (long)entries, (long)(want < sizeof(entries) ? want : sizeof(entries)),
			              (long)(page / ETCH_PAGE * 8), 0, 0);
			if (n < 8)
				break;
			/* Present (63) or swapped out (62), and not a page of the file (61). */
			for (long i = 0; i < n / 8; i++)
				size += (entries[i] >> 62 && !(entries[i] >> 61 & 1)) ? ETCH_PAGE : 0;
		}
	}
	sys_call3(SYS_close, fd, 0, 0);
	return size;
}

/* ---- the mapping -------------------------------------------------------------------------- */

static long file_map(const struct module *m, const char *name, uint64_t offset, uint64_t size)
{
	struct stat st;
	long fd, ret = -ENOENT;

	if (!m->image.file.inode)
		return ret;
	/* Another file that has taken its place must not block the open, as a FIFO would. */
	fd = sys_call3(SYS_open, (long)name, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	if (sys_call3(SYS_fstat, fd, (long)&st, 0) == 0 && st.st_dev == m->image.file.dev &&
	    st.st_ino == m->image.file.inode && (uint64_t)st.st_size > offset + size - ETCH_PAGE)
		ret = sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, fd, (long)offset);
	sys_call3(SYS_close, fd, 0, 0);
	return ret;
}

long text_file_map(const struct module *m, const struct segment *s, uint64_t page, uint64_t size, int *anonymous)
{
	uint64_t offset = s->offset + (page - s->start);
	long ret = *m->path || !program_path[0] ? -ENOENT : file_map(m, program_path, offset, size);

	if (ret < 0 && ret != -ENOMEM)
		ret = file_map(m, file_name(m->path), offset, size);
	*anonymous = ret < 0 && ret != -ENOMEM;
	if (*anonymous)
		ret = sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
		                0);
	return ret;
}
