/* SPDX-License-Identifier: MIT */
/* etch objtool as a whole, on a file: what it writes can be read, and what it refuses is as it was. */
#include "fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#include "objtool/objtool.h"

static void file_put(const char *path, const uint8_t *data, size_t size)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd))
		abort();
}

/* Of a file that was refused, or on which there was nothing to do, no byte is another. */
static void result_check(const char *path, const uint8_t *data, size_t size, bool must_be_same)
{
	struct elf_file f;
	struct error e;
	uint8_t *now;
	size_t n;
	bool same;

	must(!file_read(path, &now, &n, &e));
	same = n == size && !memcmp(now, data, size);
	must(same || !must_be_same);
	must(n <= 32 * size + (1u << 20));
	if (!same) {
		must(fuzz_open(&f, now, n));
		must(elf_is_object(&f));
		elf_close(&f);
	}
	free(now);
}

void fuzz_objtool_how(const char *path, const uint8_t *data, size_t size, unsigned how)
{
	static const char *const versions[] = {"6.1", "6.12", "7.2"};
	int known;
	const struct objtool_options o = {
		.release = linux_release_find(versions[(how >> 12 & 1) + (how >> 14 & 1)], &known),
		.prefix = how & 0x8000 ? 16 : 0, .skylake = how & 0x4000, .noabs = how & 0x400,
		.jump_label = how & 1, .noinstr_hack = how & 2, .orc = how & 4, .retpoline = how & 8, .rethunk = how & 16,
		.sls = how & 32, .static_call = how & 64, .module = how & 128, .dry_run = !(how & 0x700), .stats = true, .uaccess = how & 0x800,
		.stackval = how & 0x2000, .no_unreachable = how & 0x200, .ibt = how & 0x100, .linked = true,
		.backtrace = how & 32, .verbose = (how & 96) == 96};
	struct fuzz_out out;
	FILE *before = stderr;
	char *text = NULL;
	size_t n = 0, i;
	struct error e;
	int err;

	file_put(path, data, size);
	fuzz_print(&out);
	stderr = open_memstream(&text, &n);
	if (!stderr)
		abort();
	err = objtool_run(path, &o, &e);
	fclose(stderr);
	stderr = before;
	fuzz_printed(&out, false);
	for (i = 0; i < n; i++)
		must((uint8_t)text[i] >= ' ' ? text[i] != 0x7f : text[i] == '\n' || text[i] == '\t');
	free(text);
	must(err >= 0 || *e.text);
	result_check(path, data, size, err < 0 || o.dry_run);
}
