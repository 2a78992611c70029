/* SPDX-License-Identifier: MIT */
/*
 * breakpoints.c: finds the bytes of a page of text that is to be swapped (page_swap.c) that may be a breakpoint of a
 * debugger or a uprobe: bytes 0xcc that neither the file nor an immediate explains.
 *
 * The copy of a page includes them. A uprobe remains under the kernel's control, which finds the copy by its file and
 * offset as it found the page, before and after the copy has moved. A debugger may remove its breakpoint after the
 * page was compared with the copy for the last time, and before the copy is moved; to do that, it stops this thread.
 * So if the process is traced and the thread has slept in between, the file's bytes are put in their place: a
 * breakpoint may be lost, but none stays that no debugger knows.
 */
#include <fcntl.h>
#include <sys/resource.h>

#include "common/sys.h"
#include "patch/patch.h"

void marks_add(struct marks *k, uint64_t at, uint64_t now, uint64_t file, uint64_t mask)
{
	uint64_t other = now ^ 0xcccccccccccccccc;

	/* Usually there is none, because no byte of `other` is 0. */
	if (!((other - 0x0101010101010101) & ~other & 0x8080808080808080))
		return;
	for (unsigned i = 0; i < 8; i++, now >>= 8, file >>= 8, mask >>= 8)
		if ((now & 0xff) == 0xcc && (file & 0xff) != 0xcc && !(mask & 0xff)) {
			unsigned byte = (at + i) % ETCH_PAGE;

			if (!k->any)
				memset(k->bits, 0, sizeof(k->bits));
			k->bits[byte / 64] |= (uint64_t)1 << (byte % 64);
			k->any = 1;
		}
}

static void marks_clear(struct marks *k, uint64_t page, uint64_t from, uint64_t to)
{
	if (from < page)
		from = page;
	if (to > page + ETCH_PAGE)
		to = page + ETCH_PAGE;
	for (; from < to; from++)
		k->bits[from % ETCH_PAGE / 64] &= ~((uint64_t)1 << (from % 64));
}

/* The next site of a module with a byte on a page; *kind and *i count the entries that have been searched. */
static const struct etch_imv *site_on_page(const struct module *m, uint64_t page, int *kind, size_t *i)
{
	for (; *kind < SITES_KINDS; ++*kind, *i = 0)
		while (*i < m->sites[*kind].count) {
			const struct etch_imv *e = &m->sites[*kind].entry[(*i)++];
			uint64_t site = site_address(e);

			if (entry_is_site(e) && site < page + ETCH_PAGE && site + 16 > page)
				return e;
		}
	return NULL;
}

int marks_breakpoint(struct marks *k, const struct module *m, uint64_t page)
{
	const struct etch_imv *e;
	uint64_t left = 0;
	int kind = 0;
	size_t n = 0;

	/* A breakpoint is the first byte of an instruction; other such bytes are part of an immediate of libetch. */
	while ((e = site_on_page(m, page, &kind, &n)))
		marks_clear(k, page, site_address(e) + 1, site_address(e) + etch_imv_len(e));
	for (size_t i = 0; i < sizeof(k->bits) / sizeof(k->bits[0]); i++)
		left |= k->bits[i];
	return left != 0;
}

/* ---- what a debugger may have done in between ------------------------------------------------------ */

/* Does a debugger trace this thread? Also returns 1 if that cannot be found out. */
static int is_traced(void)
{
	static const char field[] = "\nTracerPid:\t";
	static char text[2048]; /* static, under the lock, because the stack of the caller may be small */
	long fd = sys_call3(SYS_open, (long)"/proc/thread-self/status", O_RDONLY | O_CLOEXEC, 0), n, i;

	if (fd < 0)
		return 1;
	n = sys_call3(SYS_read, fd, (long)text, sizeof(text));
	sys_call3(SYS_close, fd, 0, 0);
	for (i = 0; i + (long)sizeof(field) <= n; i++)
		if (!memcmp(text + i, field, sizeof(field) - 1))
			return text[i + (long)sizeof(field) - 1] != '0';
	return 1;
}

/* How often this thread has slept; a thread that a debugger stops does. */
static long sleeps(void)
{
	struct rusage used = {.ru_nvcsw = 0};

	sys_call3(SYS_getrusage, RUSAGE_THREAD, (long)&used, 0);
	return used.ru_nvcsw;
}

long breakpoints_watch(void) { return is_traced() ? sleeps() : -1; }

int breakpoints_may_differ(long watch) { return watch >= 0 && sleeps() != watch; }

/* The first byte of the instruction at a site that has a breakpoint: that of its load or of its immediate form,
 * whichever the remaining bytes match. */
static uint8_t first_byte(const struct etch_imv *e, uint8_t otherwise)
{
	uint64_t site = site_address(e), object = site_object(e);
	unsigned len = etch_imv_len(e);
	const uint8_t *have = (const uint8_t *)(uintptr_t)site;
	uint8_t out[16];

	if (etch_form_is_pv(e->form))
		return otherwise;
	if (form_load(e, site, object, out) == len && same_bytes(have + 1, out + 1, len - 1))
		return out[0];
	if (immediate_form(e, memory_value(object, form_size(e->form)), out) == len &&
	    same_bytes(have + 1, out + 1, len - 1))
		return out[0];
	return otherwise;
}

/* Replaces the bytes that may be breakpoints on a writable page by those of the file, at `file`. */
static void page_drop(const struct module *m, uint64_t page, const uint8_t *file)
{
	static struct marks marks;
	const struct etch_imv *e;
	int kind = 0;
	size_t n = 0;

	marks.any = 0;
	for (unsigned i = 0; i < ETCH_PAGE; i += 8) {
		uint64_t word;

		memcpy(&word, file + i, 8);
		marks_add(&marks, page + i, word_load(page + i), word, 0);
	}
	if (!marks.any || !marks_breakpoint(&marks, m, page))
		return;
	while ((e = site_on_page(m, page, &kind, &n))) {
		uint64_t at = site_address(e);

		if (PAGE_OF(at) != page || !(marks.bits[at % ETCH_PAGE / 64] >> (at % 64) & 1))
			continue;
		*(volatile uint8_t *)(uintptr_t)at = first_byte(e, file[at % ETCH_PAGE]);
		marks_clear(&marks, page, at, at + 1);
	}
	for (unsigned i = 0; i < ETCH_PAGE; i++)
		if (marks.bits[i / 64] >> (i % 64) & 1)
			((volatile uint8_t *)(uintptr_t)page)[i] = file[i];
}

void breakpoints_drop(const struct swap_run *r)
{
	uint64_t size = r->end - r->start, file;
	int anonymous;
	long ret = text_file_map(r->owner, r->segment, r->start, size, &anonymous);

	if (ret < 0)
		return;
	file = (uint64_t)ret;
	if (!anonymous && !sys_mprotect(r->start, size, PROT_READ | PROT_WRITE | PROT_EXEC)) {
		for (uint64_t page = r->start; page < r->end; page += ETCH_PAGE)
			page_drop(r->owner, page, (const uint8_t *)(uintptr_t)(file + (page - r->start)));
		sys_mprotect(r->start, size, r->segment->prot);
	}
	sys_munmap((void *)(uintptr_t)file, size);
}
