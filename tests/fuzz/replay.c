/* SPDX-License-Identifier: MIT */
/*
 * Runs files through their targets once, without a fuzzer (any compiler):
 *
 *   replay TARGET FILE... [-- TARGET FILE...]...
 *
 * Says which file it is at before each, so that the last line of a run that fails names it; at
 * the end how many there were.
 */
#include "fuzz.h"

static void replay(const struct fuzz_target *target, const char *path)
{
	struct error e;
	uint8_t *bytes;
	size_t size;

	printf("%s %s\n", target->name, path);
	fflush(stdout);
	if (file_read(path, &bytes, &size, &e)) {
		fprintf(stderr, "%s: %s\n", path, e.text);
		exit(2);
	}
	target->run(bytes, size);
	free(bytes);
}

int main(int argc, char **argv)
{
	const struct fuzz_target *target = NULL;
	int i, files = 0;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--")) {
			target = NULL;
		} else if (target) {
			replay(target, argv[i]);
			files++;
		} else if (!(target = fuzz_target_find(argv[i]))) {
			fprintf(stderr, "replay: no target %s\n", argv[i]);
			return 2;
		}
	}
	printf("%d files\n", files);
	return 0;
}
