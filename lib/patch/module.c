/* SPDX-License-Identifier: MIT */
/*
 * module.c: the loaded modules (the program and its shared objects), their tables, and which of
 * their objects are armed.
 *
 * A module processed by the link step is used as it is: its __imv is searched in place, its
 * armed objects are armed. For any other module an index is built (index.c), facts are folded,
 * and objects without facts are armed (arm.c), before threads can execute its code. Both kinds
 * may reach objects of other modules through the GOT, and contribute facts about them; load
 * order does not matter.
 *
 * Nothing here calls the dynamic linker under libetch's lock: a thread in dlopen(3) holds the
 * dynamic linker's lock and waits for libetch's in the constructor.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>

#include "common/cancel.h"
#include "patch/parts.h"
#include "patch/static_branch.h"
#include "common/sys.h"
#include "shared/search.h"

struct module *module_list;
unsigned long module_patched;
const struct marks_calls *marks_calls;

PART_WORD(1, "etch_part_core");

struct program_image module_program;

/* ---- the lock ---------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The number of waiting forks and loaders. Threads that set in a tight loop would otherwise take
 * the mutex again before a waiter has woken up, and could delay a dlopen(3) for a second. */
static uint32_t urgent;

/*
 * Cancellation is disabled before a thread takes the mutex or is counted in `urgent`, and restored
 * after: a thread canceled in between would block all others. This is the cancellation state of
 * the thread that holds the mutex. Both calls are made outside the mutex, as they may bind a
 * symbol.
 */
static struct cancel canceling;

void etch_lock(void)
{
	struct cancel was = cancel_off();
	uint32_t n;

	while ((n = __atomic_load_n(&urgent, __ATOMIC_RELAXED)))
		sys_call6(SYS_futex, (long)&urgent, FUTEX_WAIT_PRIVATE, (long)n, 0, 0, 0);
	pthread_mutex_lock(&mutex);
	canceling = was;
}

static void lock_first(void)
{
	struct cancel was = cancel_off();

	__atomic_add_fetch(&urgent, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&mutex);
	canceling = was;
	if (!__atomic_sub_fetch(&urgent, 1, __ATOMIC_RELAXED))
		sys_call3(SYS_futex, (long)&urgent, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

void etch_unlock(void)
{
	struct cancel was = canceling;

	pthread_mutex_unlock(&mutex);
	cancel_restore(was);
}

/* A fork waits for the set in progress; the child starts with a new lock. */
static void fork_child(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	memcpy(&mutex, &fresh, sizeof(mutex));
	urgent = 0;
	list_fork();
	if (marks_calls)
		marks_calls->fork();
	cancel_restore(canceling);
}

static void fork_register(void) { pthread_atfork(lock_first, etch_unlock, fork_child); }

/* ---- lookups ----------------------------------------------------------------- */

struct module *module_at(uint64_t at)
{
	for (struct module *m = module_list; m; m = m->next)
		if (at >= m->image.start && at < m->image.end && image_segment(&m->image, at, 1))
			return m;
	return NULL;
}

size_t module_object_from(const struct module *m, uint64_t at)
{
	return SEARCH(m->object_count, i, m->object[i].addr + m->object[i].size <= at);
}

struct object *module_object(const struct module *m, uint64_t at)
{
	size_t i = module_object_from(m, at);

	return i < m->object_count && m->object[i].addr <= at ? &m->object[i] : NULL;
}

int module_reads_armed(const struct module *m, const struct object *o, uint64_t at, unsigned size)
{
	const struct object *end = m->object + m->object_count;

	for (; o->flags & OBJECT_ARMED; o++) {
		if (o + 1 == end || at + size <= o[1].addr)
			return 1;
		if (!(o[1].flags & OBJECT_FIELD))
			return 0;
	}
	return 0;
}

/* ---- protection of data ------------------------------------------------------------ */

int errno_to_etch(long negative) { return negative == -ENOMEM ? ETCH_ENOMEM : ETCH_EPERM; }

int module_page_readonly(const struct module *m, uint64_t at)
{
	uint64_t i;

	if (at < m->page)
		return 0;
	i = (at - m->page) / ETCH_PAGE;
	return i < m->pages && (m->readonly[i / 8] >> (i % 8) & 1);
}

/* The sections' bounds tell; without bounds (a
 * custom linker script) the padding of etch/imv.h guarantees it. */
int module_page_is_etched(const struct module *m, uint64_t page)
{
	uint64_t have = 0, any = 0;

	for (int i = 0; i < 3; i++) {
		any |= m->etched[i].stop - m->etched[i].start;
		uint64_t from = m->etched[i].start, to = m->etched[i].stop;

		if (from < page)
			from = page;
		if (to > page + ETCH_PAGE)
			to = page + ETCH_PAGE;
		if (from < to)
			have += to - from;
	}
	return have == ETCH_PAGE || !any;
}

/* A page is read-only if and only if every object on it is armed. */
int module_page_wanted(const struct module *m, uint64_t page)
{
	size_t i = module_object_from(m, page), some = 0;

	for (; i < m->object_count && m->object[i].addr < page + ETCH_PAGE; i++) {
		if (!(m->object[i].flags & OBJECT_ARMED) || (m->object[i].flags & OBJECT_WRITABLE))
			return 0;
		some = 1;
	}
	return some && module_page_is_etched(m, page);
}

int module_protect(struct module *m, uint64_t from, uint64_t to)
{
	uint64_t page, end, next;
	int err = 0;

	for (page = PAGE_OF(from); page < to; page = end) {
		int want = module_page_wanted(m, page), have = module_page_readonly(m, page);
		const struct segment *s = image_segment(&m->image, page < from ? from : page, 1);
		long ret;

		end = page + ETCH_PAGE;
		if (want == have || !s)
			continue;
		for (; end < to && end < s->end; end += ETCH_PAGE)
			if (module_page_wanted(m, end) != want || module_page_readonly(m, end) != have)
				break;
		if (want && &part_objects)
			part_objects.explain(page, end);
		ret = sys_mprotect(page, end - page, want ? s->prot & ~PROT_WRITE : s->prot);
		if (ret < 0) {
			err = errno_to_etch(ret);
			continue;
		}
		for (next = page; next < end; next += ETCH_PAGE) {
			uint64_t i = (next - m->page) / ETCH_PAGE;

			m->readonly[i / 8] = (uint8_t)((m->readonly[i / 8] & ~(1u << (i % 8))) | (unsigned)want << (i % 8));
		}
	}
	return err;
}

int module_rest_ok(const struct module *m)
{
	return (!&part_objects || part_objects.tables_ok(m)) && (!&part_branches || part_branches.ok(m)) &&
	       (!&part_marks || part_marks.ok(m));
}

int module_check(struct module *m)
{
	if (m->bad)
		return ETCH_EFORMAT;
	if (m->checked)
		return 0;
	m->checked = 1;
	if (table_linked_ok(m) && module_rest_ok(m))
		return 0;
	m->bad = 1;
	for (size_t i = 0; i < m->object_count; i++)
		m->object[i].flags &= ~OBJECT_ARMED;
	if (m->pages)
		module_protect(m, m->page, m->page + m->pages * ETCH_PAGE);
	return ETCH_EFORMAT;
}

/* ---- loading and unloading ---------------------------------------------------------------------- */

struct search {
	uint64_t address;
	struct image image;
	const char *path;
	int first;
};

static int segment_prot(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

/* For dl_iterate_phdr(): the image with the address that is searched for. 1: it is this one. */
static int search_image(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	struct image *im = &s->image;
	int hit = 0;

	(void)size;
	memset(im, 0, sizeof(*im));
	im->bias = info->dlpi_addr;
	im->program = s->first;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = im->bias + p->p_vaddr, end = start + p->p_memsz;

		if (p->p_type == PT_DYNAMIC)
			im->dynamic = start;
		if (p->p_type != PT_LOAD || !p->p_memsz)
			continue;
		if (!im->segments || start < im->start)
			im->start = start;
		if (end > im->end)
			im->end = end;
		hit |= s->address >= start && s->address < end;
		if (im->segments < IMAGE_SEGMENTS)
			im->segment[im->segments++] = (struct segment){start, end, p->p_offset, segment_prot(p->p_flags)};
		else
			im->too_many_segments = 1;
	}
	if (s->first) {
		s->first = 0;
		module_program = (struct program_image){im->dynamic, im->bias, im->start};
	}
	s->path = info->dlpi_name ? info->dlpi_name : "";
	return hit;
}

static struct module *module_of(const struct etch_module *desc)
{
	struct module *m;

	for (m = module_list; m && m->desc != desc; m = m->next)
		;
	return m;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

struct bounds bounds_of(const void *start, const void *stop)
{
	return (struct bounds){(uint64_t)(uintptr_t)start, (uint64_t)(uintptr_t)stop};
}

void module_load(const struct module_arguments *args)
{
	const struct etch_module *desc = args->desc;
	struct search s = {.address = (uint64_t)(uintptr_t)desc, .first = 1};
	struct module *m;
	int known;

	lock_first();
	known = module_of(desc) != NULL;
	etch_unlock();
	if (known)
		return;
	pthread_once(&once, fork_register);
	if (!dl_iterate_phdr(search_image, &s))
		return;
	if (&part_objects)
		part_objects.identify(&s.image, s.path);

	lock_first();
	if (!module_of(desc)) {
		m = module_new(&s.image, args, s.path);
		if (m) {
			if (&part_objects)
				part_objects.forget(&m->image);
			m->next = module_list;
			__atomic_store_n(&module_list, m, __ATOMIC_RELEASE);
			if (!m->bad)
				module_arm(m);
		}
	}
	etch_unlock();
}

ETCH_API void etch_module_load_v3(const struct etch_module *desc, const struct etch_bounds *bounds, unsigned count)
{
	struct module_arguments args = {.desc = desc};

	for (unsigned i = 0; i < count && i < sizeof(args.all) / sizeof(args.all[0]); i++)
		args.all[i] = bounds_of(bounds[i].start, bounds[i].stop);
	module_load(&args);
}

ETCH_API void etch_module_unload_v1(const struct etch_module *desc)
{
	struct module **p, *m;

	lock_first();
	for (p = &module_list; (m = *p); p = &m->next)
		if (m->desc == desc) {
			/* The program's text and data outlive its destructors, and threads may
			 * still set. */
			if (m->image.program)
				break;
			__atomic_store_n(p, m->next, __ATOMIC_RELEASE);
			if (marks_calls)
				marks_calls->unload(m);
			module_free(m);
			break;
		}
	etch_unlock();
}
