/* SPDX-License-Identifier: MIT */
/* What several targets need: their output, and a file by a name. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <json-c/json.h>

void fuzz_print(struct fuzz_out *p)
{
	p->before = stdout;
	stdout = open_memstream(&p->text, &p->size);
	if (!stdout)
		abort();
}

static void json_check(const char *text, size_t size)
{
	struct json_tokener *t = json_tokener_new();
	struct json_object *o;

	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(t, text, (int)size);
	if (!o || json_tokener_get_error(t) != json_tokener_success) {
		size_t at = json_tokener_get_parse_end(t), from = at > 100 ? at - 100 : 0;

		fprintf(stderr, "%s: %.*s\n", json_tokener_error_desc(json_tokener_get_error(t)), (int)(size - from < 200 ? size - from : 200), text + from);
	}
	must(o && json_tokener_get_error(t) == json_tokener_success);
	json_object_put(o);
	json_tokener_free(t);
}

void fuzz_printed(struct fuzz_out *p, bool json)
{
	size_t i;

	fclose(stdout);
	stdout = p->before;
	for (i = 0; i < p->size; i++)
		must((uint8_t)p->text[i] >= ' ' ? p->text[i] != 0x7f : p->text[i] == '\n' || p->text[i] == '\t');
	if (json && p->size)
		json_check(p->text, p->size);
	free(p->text);
}

int fuzz_path(const uint8_t *data, size_t size, char path[32])
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}
