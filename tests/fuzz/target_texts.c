/* SPDX-License-Identifier: MIT */
/* The texts that etch reads: lists of what does not count, earlier reports, compilation
 * databases, valgrind's counts. */
#include "fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#include "input/input.h"
#include "report/baseline.h"
#include "report/suppress.h"
#include "stat/simulate.h"

static void suppressions_try(const char *path)
{
	struct suppressions s = {0};
	struct error e;

	if (suppressions_read(&s, path, &e))
		must(*e.text);
	suppressions_free(&s);
}

static void baseline_try(const char *path)
{
	struct baseline b = {0};
	struct error e;

	if (baseline_read(&b, path, &e))
		must(*e.text);
	baseline_free(&b);
}

/* It names files, which are looked for: in a directory that is empty, and gone. */
static int nowhere(void)
{
	static int fd = -1;
	char path[] = "/tmp/etch-fuzz-XXXXXX";

	if (fd < 0) {
		if (!mkdtemp(path))
			abort();
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		rmdir(path);
	}
	return fd;
}

static void database_try(const char *path, size_t size)
{
	int home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct inputs l = {0};

	if (home < 0 || fchdir(nowhere()))
		abort();
	inputs_add_database(&l, path);
	must(l.count <= size + 1);
	inputs_free(&l);
	if (fchdir(home))
		abort();
	close(home);
}

static void file_put(const char *directory, const char *name, const uint8_t *data, size_t size)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
}

/* A profile and a log of valgrind's, cut at the first zero byte. */
static void counts_try(const uint8_t *data, size_t size)
{
	const uint8_t *cut = memchr(data, 0, size);
	size_t first = cut ? (size_t)(cut - data) : size;
	struct simulation s = {.directory = "/tmp/etch-fuzz-XXXXXX"};
	struct reading out;
	struct error e;

	if (!mkdtemp(s.directory))
		abort();
	file_put(s.directory, "out.1", data, first);
	file_put(s.directory, "log.1", data + first, size - first);
	if (simulation_read(&s, 1, &out, &e))
		must(*e.text);
	else
		must(out.have[0] && out.value[0] >= 0);
	simulation_end(&s);
	must(access(s.directory, F_OK));
}

/* The first byte says which. */
void fuzz_texts(const uint8_t *data, size_t size)
{
	char path[32];
	int fd;

	if (!size)
		return;
	fd = fuzz_path(data + 1, size - 1, path);
	switch (data[0] % 4) {
	case 0: suppressions_try(path); break;
	case 1: baseline_try(path); break;
	case 2: database_try(path, size); break;
	default: counts_try(data + 1, size - 1);
	}
	close(fd);
}
