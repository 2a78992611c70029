/* SPDX-License-Identifier: MIT */
/* The list of targets, and what several of them need. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <json-c/json.h>

const struct fuzz_target fuzz_targets[] = {
	{"elf", fuzz_elf, true},
	{"segment", fuzz_segment, true},
	{"relocs", fuzz_relocs, true},
	{"archive", fuzz_archive, false},
	{"undo", fuzz_undo, true},
	{"cfi", fuzz_cfi, false},
	{"lsda", fuzz_lsda, false},
	{"code", fuzz_code, false},
	{"block", fuzz_block, false},
	{"orc", fuzz_orc, false},
	{"sites", fuzz_sites, false},
	{"tables", fuzz_tables, true},
	{"extable", fuzz_extable, true},
	{"rewrite", fuzz_rewrite, true},
	{"check", fuzz_check, true},
	{"inspect", fuzz_inspect, true},
	{"diff", fuzz_diff, true},
	{"texts", fuzz_texts, false},
	{"faults", fuzz_faults, false},
	{"module", fuzz_module, true},
	{NULL, NULL, false},
};

const struct fuzz_target *fuzz_target_find(const char *name)
{
	const struct fuzz_target *t = fuzz_targets;

	while (t->name && strcmp(t->name, name))
		t++;
	return t->name ? t : NULL;
}

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
