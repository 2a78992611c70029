/* SPDX-License-Identifier: MIT */
/*
 * prepare_modules.c: etch_unwind_prepare(), which makes a table for each loaded module
 * without one. Normal context, under a mutex.
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cancel.h"
#include "unwind/table_cache.h"
#include "common/sys.h"
#include "shared/sidecars.h"

/*
 * Taken only inside dl_iterate_phdr's callback, so that the dynamic linker's lock always comes first: a constructor
 * that calls etch_unwind_prepare() already holds it.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static char sidecars[4096];
static int sidecars_set;
static uint64_t generation; /* counts changes of the inputs other than the modules */
struct pass {
	int missing, seen;
};

static struct {
	unsigned long long adds, subs;
	uint64_t generation;
	const struct pass *pass; /* the pass to which these counts belong; with several threads, the one that wrote last */
	int missing, done;
} last;

/* Runs in the child of a fork(2): another thread of the parent may have held the mutex. */
static void fork_child(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	memcpy(&mutex, &fresh, sizeof(mutex));
	last.done = 0;
}

/* Opens a sidecar. A symbolic link is refused, because a directory of sidecars holds tables, not references to other
 * files. If it is a FIFO, the open does not wait. */
static int sidecar_open(int directory, const char *name, uint64_t *size)
{
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct stat st, in;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && !fstat(directory, &in) && S_ISREG(st.st_mode) && st.st_size <= (off_t)UINT32_MAX &&
	    sidecar_is_trusted(&st, &in, geteuid())) {
		*size = (uint64_t)st.st_size;
		return fd;
	}
	close(fd);
	return -1;
}

static bool bytes_read(int fd, uint8_t *to, uint64_t size)
{
	uint64_t have = 0;
	ssize_t n = 1;

	while (have < size && n > 0) {
		n = read(fd, to + have, size - have);
		if (n > 0)
			have += (uint64_t)n;
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	return have == size;
}

/* Reads the table of a sidecar into private memory: a validated table must not change, but a mapped file may. Null if
 * the sidecar has no table for this file. */
static const struct etch_unwind *sidecar_table(int directory, const char *name, const struct identity *id,
                                               const uint8_t layout[BLAKE2B_DIGEST], uint64_t *size)
{
	const size_t id_most = sizeof(((struct etch_unwind *)0)->build_id);
	size_t n = id->id_size < id_most ? id->id_size : id_most;
	const struct etch_unwind *u;
	struct sidecar head;
	uint64_t whole;
	uint8_t *p = NULL;
	int fd = sidecar_open(directory, name, &whole);

	if (fd < 0)
		return NULL;
	/* Nothing more is read of a sidecar that belongs to another file. */
	if (whole >= sizeof(head) + sizeof(*u) && pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
	    sidecar_judge(&head, whole, layout) == SIDECAR_GOOD)
		p = sys_map(whole, 0);
	if (p && (!bytes_read(fd, p, whole) || memcmp(p, &head, sizeof(head)) != 0)) {
		munmap(p, whole);
		p = NULL;
	}
	close(fd);
	if (!p)
		return NULL;
	u = (const struct etch_unwind *)(const void *)(p + sizeof(head));
	*size = whole - sizeof(head);
	if (head.bytes == *size && etch_unwind_valid(u, *size) && u->encoding == ETCH_ENCODING_BLOCK &&
	    !memcmp(u->build_id, id->id, n)) {
		mprotect(p, whole, PROT_READ);
		return u;
	}
	munmap(p, whole);
	return NULL;
}

/* The directories of sidecars, in the order in which they are searched. */
static const char *const directories[] = {sidecars, SIDECARS_PACKAGED, SIDECARS_CACHE};
#define DIRECTORIES (sizeof(directories) / sizeof(directories[0]))

struct name {
	char text[2 * sizeof(((struct identity *)0)->id) + 1 + 2 * SIDECAR_NAME_LAYOUT + 1];
};

static char *hex_put(char *to, const uint8_t *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		*to++ = "0123456789abcdef"[bytes[i] >> 4];
		*to++ = "0123456789abcdef"[bytes[i] & 15];
	}
	*to = 0;
	return to;
}

/* Opens a directory of sidecars; the result is negative if there is none. */
static int directory_open(const char *path) { return *path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1; }

/* Is there a sidecar with this build-id in one of the directories? It is not read. */
static bool has_sidecar(const struct identity *id)
{
	struct name name;
	bool has = false;

	if (!id->id_size)
		return false;
	hex_put(name.text, id->id, id->id_size);
	for (unsigned i = 0; i < DIRECTORIES && !has; i++) {
		int directory = directory_open(directories[i]);

		if (directory < 0)
			continue;
		has = !faccessat(directory, name.text, F_OK, AT_SYMLINK_NOFOLLOW);
		close(directory);
	}
	return has;
}

/* Computes the layout of a module from memory: its headers and .eh_frame_hdr are never written to. */
static void image_layout(const struct prepare_image *im, const struct identity *id, uint8_t layout[BLAKE2B_DIGEST])
{
	const void *hdr = NULL;
	uint64_t size = 0;

	for (unsigned i = 0; i < im->phnum && !hdr; i++) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type != PT_GNU_EH_FRAME || !loaded_readable(im, im->bias + p->p_vaddr, p->p_filesz))
			continue;
		hdr = (const void *)(uintptr_t)(im->bias + p->p_vaddr);
		size = p->p_filesz;
	}
	sidecar_layout(layout, &id->header, im->phdr, im->phnum, hdr, size);
}

static const struct etch_unwind *sidecar_read(const struct prepare_image *im, const struct identity *id, uint64_t *size)
{
	const struct etch_unwind *u = NULL;
	uint8_t layout[BLAKE2B_DIGEST];
	bool known = false;
	struct name name;

	for (unsigned i = 0; i < DIRECTORIES && id->id_size && !u; i++) {
		int directory = directory_open(directories[i]);
		char *end = hex_put(name.text, id->id, id->id_size);

		if (directory >= 0 && !faccessat(directory, name.text, F_OK, AT_SYMLINK_NOFOLLOW)) {
			if (!known)
				image_layout(im, id, layout);
			known = true;
			u = sidecar_table(directory, name.text, id, layout, size);
			*end++ = '-';
			hex_put(end, layout, SIDECAR_NAME_LAYOUT);
			if (!u)
				u = sidecar_table(directory, name.text, id, layout, size);
		}
		if (directory >= 0)
			close(directory);
	}
	return u;
}

/* How a module gets its table. */
struct making {
	prepare_fn *instead; /* called in place of making a table from .eh_frame; null: none (see prepare_address()) */
	bool no_sidecar;     /* do not read a sidecar; a module that has one gets no table (see prepare_unread()) */
};

/* Makes a table if the module has none. Returns 1 if it has one afterwards. Called under the mutex. */
static int image_prepare(const struct prepare_image *im, struct making how)
{
	const struct etch_unwind *u;
	const struct cached_table *other;
	struct identity id;
	unsigned index;
	uint64_t size = 0;

	u = lookup_table(im, &index, &size);
	if (u)
		return etch_unwind_header_valid(u, size);
	if (cache_find(im))
		return 1;
	if (!cache_identity(im, &id))
		return 0;
	other = cache_find_file(&id);
	if (other && other->table) {
		u = other->table;
		size = other->size;
	} else {
		if (how.no_sidecar && has_sidecar(&id))
			return 0;
		u = how.no_sidecar ? NULL : sidecar_read(im, &id, &size);
		if (!u && how.instead && how.instead(im, &id))
			return 1;
		if (!u && !how.no_sidecar)
			u = prepare_table(im, &size);
		if (!u || !etch_unwind_header_valid(u, size))
			return 0;
	}
	return cache_add(im, &id, u, size);
}

static int prepare_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct pass *pass = arg;
	struct prepare_image im, found;
	int unchanged;

	pthread_mutex_lock(&mutex);
	unchanged = !pass->seen && last.done && last.generation == generation &&
	            size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs) &&
	            last.adds == info->dlpi_adds && last.subs == info->dlpi_subs;
	if (unchanged) {
		pass->missing = last.missing;
	} else {
		if (!pass->seen) {
			last.done = 0;
			last.pass = pass;
			if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
				last.adds = info->dlpi_adds;
				last.subs = info->dlpi_subs;
			}
			last.generation = generation;
		}
		loaded_from(info, &im);
		loaded_forget();
		/* With the bounds that a walk's lookup will find. */
		if (im.start < im.end && loaded_image(im.start, &found) && !image_prepare(&found, (struct making){NULL, false}))
			pass->missing++;
	}
	pass->seen = 1;
	pthread_mutex_unlock(&mutex);
	return unchanged;
}

/* Makes a table for the module of an address. Returns what prepare_address() returns. */
static int address_prepare(uint64_t at, struct making how)
{
	struct prepare_image im;
	struct cancel was = cancel_off();
	int error = errno, ret = -1;

	/* Does not wait: the caller may hold any lock, and this thread may be the one that holds the mutex. */
	loaded_forget();
	if (!pthread_mutex_trylock(&mutex)) {
		ret = loaded_image(at, &im) && image_prepare(&im, how);
		pthread_mutex_unlock(&mutex);
	}
	errno = error;
	cancel_restore(was);
	return ret;
}

int prepare_address(uint64_t at, prepare_fn *instead) { return address_prepare(at, (struct making){instead, false}); }

int prepare_unread(uint64_t at, prepare_fn *instead) { return address_prepare(at, (struct making){instead, true}); }

UNWIND_API int etch_unwind_prepare(void)
{
	struct pass pass = {0};
	/* Reading a sidecar has cancellation points (open(2), read(2)), under both locks. */
	struct cancel was = cancel_off();

	loaded_refresh();
	dl_iterate_phdr(prepare_one, &pass);
	pthread_mutex_lock(&mutex);
	if (pass.seen && last.pass == &pass) {
		last.missing = pass.missing;
		last.done = 1;
	}
	pthread_mutex_unlock(&mutex);
	cancel_restore(was);
	return pass.seen ? pass.missing : ETCH_UNWIND_EINVAL;
}

UNWIND_API int etch_unwind_sidecars(const char *directory)
{
	size_t n = directory ? strlen(directory) : 0;
	struct cancel was;

	if (n >= sizeof(sidecars))
		return ETCH_UNWIND_EINVAL;
	was = cancel_off();
	pthread_mutex_lock(&mutex);
	if (n)
		memcpy(sidecars, directory, n);
	sidecars[n] = 0;
	sidecars_set = 1;
	generation++;
	pthread_mutex_unlock(&mutex);
	cancel_restore(was);
	return 0;
}

__attribute__((constructor(101))) static void prepare_start(void)
{
	const char *directory = secure_getenv(SIDECARS_VARIABLE);

	if (directory && !sidecars_set)
		etch_unwind_sidecars(directory);
	pthread_atfork(NULL, NULL, fork_child);
}
