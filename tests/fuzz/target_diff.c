/* SPDX-License-Identifier: MIT */
/* etch diff as a whole. */
#include "fuzz.h"

#include "diff/diff_print.h"

#define CHANGES 7

/* Up to seven bytes are others: the last byte says how many, three before it each where. */
static uint8_t *neighbour(const uint8_t *data, size_t size, unsigned changes)
{
	uint8_t *out = fuzz_copy(data, size);
	const uint8_t *p = data + size;

	for (; changes; changes--, p -= 3)
		out[(p[-1] | (size_t)p[-2] << 8) % size] ^= p[-3];
	return out;
}

static void diff_show_all(const struct diff *d, size_t most)
{
	struct json_object *o;
	struct fuzz_out out;
	struct error e;

	fuzz_print(&out);
	diff_print(d, most);
	if (d->change_count && d->changes[0].new != NO_FUNC && d->new->funcs[d->changes[0].new].name)
		diff_show(d, d->new->funcs[d->changes[0].new].name, &e);
	fuzz_printed(&out, false);
	fuzz_print(&out);
	o = diff_json(d);
	must(o);
	fputs(json_object_to_json_string(o), stdout);
	json_object_put(o);
	fuzz_printed(&out, true);
}

/* Takes over the bytes. `equal`: they are the same. */
static void diff_two(uint8_t *a, size_t a_size, uint8_t *b, size_t b_size, const struct check_options *o, bool names, size_t most,
                     bool equal)
{
	struct image old = {0}, new = {0};
	struct diff d = {0};
	struct error e;

	if (image_open_bytes(&old, "old", a, a_size, o, &e)) {
		free(b);
	} else if (!image_open_bytes(&new, "new", b, b_size, o, &e) && elf_is_object(&old.file) == elf_is_object(&new.file) &&
	           !diff_files(&d, &old, &new, names, &e)) {
		must(!equal || !d.differs);
		diff_show_all(&d, most);
	}
	diff_free(&d);
	image_close(&old);
	image_close(&new);
}

void fuzz_diff_with(const uint8_t *old, size_t old_size, const uint8_t *data, size_t size, unsigned how)
{
	struct check_options o = {.jobs = 1, .no_cfi = how & 8};
	size_t most = how & 2 ? SHOW_ALL : 3;

	if (how & 4)
		diff_two(fuzz_copy(old, old_size), old_size, fuzz_copy(data, size), size, &o, how & 1, most, false);
	else
		diff_two(fuzz_copy(data, size), size, fuzz_copy(old, old_size), old_size, &o, how & 1, most, false);
	if (!(how & 48))
		diff_two(fuzz_copy(data, size), size, fuzz_copy(data, size), size, &o, how & 1, most, true);
}

/* A file and one that is almost the same: a file is no other than itself. */
void fuzz_diff(const uint8_t *data, size_t size)
{
	struct check_options o = {.jobs = 1};
	struct image old = {0}, new = {0};
	struct diff d = {0};
	unsigned changes;
	struct error e;

	if (size < 64)
		return;
	changes = data[size - 1] % (CHANGES + 1);
	o.no_cfi = data[size - 1] & 8;
	size--;
	if (!image_open_bytes(&old, "old", fuzz_copy(data, size), size, &o, &e) &&
	    !image_open_bytes(&new, "new", neighbour(data, size, changes), size, &o, &e) &&
	    elf_is_object(&old.file) == elf_is_object(&new.file) && !diff_files(&d, &old, &new, changes & 1, &e)) {
		must(changes || !d.differs);
		diff_show_all(&d, changes & 2 ? SHOW_ALL : 3);
	}
	diff_free(&d);
	image_close(&old);
	image_close(&new);
}
