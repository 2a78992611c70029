/* SPDX-License-Identifier: MIT */
/* Two sizes of work (work_size.h). */
#include "stat/work_size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

#define PLACE "{}"

int work_sizes_parse(struct work_sizes *w, const char *text, struct error *e)
{
	char *comma, *end[2];
	unsigned long long n[2];

	w->copy = mem_string(text);
	comma = strchr(w->copy, ',');
	errno = 0;
	if (comma) {
		*comma = 0;
		w->text[0] = w->copy;
		w->text[1] = comma + 1;
		n[0] = strtoull(w->text[0], &end[0], 10);
		n[1] = strtoull(w->text[1], &end[1], 10);
	}
	if (!comma || comma == w->copy || errno || *end[0] || *end[1] || strspn(text, "0123456789,") != strlen(text) ||
	    n[0] >= n[1])
		return error_set(e, "takes two numbers, the smaller first, such as 1000,11000, not '%s'", text);
	w->units = (double)(n[1] - n[0]);
	return 0;
}

bool work_sizes_in(char **argv)
{
	for (; *argv; argv++)
		if (strstr(*argv, PLACE))
			return true;
	return false;
}

/* Copies a word with sizes in place of {}. Returns the end of the copy, after its zero. */
static char *word_copy(char *to, const char *word, const char *size)
{
	const char *place;

	for (; (place = strstr(word, PLACE)); word = place + strlen(PLACE)) {
		memcpy(to, word, (size_t)(place - word));
		to = stpcpy(to + (place - word), size);
	}
	return stpcpy(to, word) + 1;
}

char **work_command(char **argv, const char *size)
{
	size_t count = 0, capacity = 0;
	char **out, *to;

	for (; argv[count]; count++)
		capacity += strlen(argv[count]) * (strlen(size) + 1) + 1;
	out = mem_alloc(1, (count + 1) * sizeof(*out) + capacity);
	to = (char *)(out + count + 1);
	for (size_t i = 0; i < count; i++) {
		out[i] = to;
		to = word_copy(to, argv[i], size);
	}
	out[count] = NULL;
	return out;
}

void work_unit(const struct work_sizes *w, const struct reading got[2], struct reading *out)
{
	for (size_t i = 0; i < ROWS_MAX; i++) {
		out->have[i] = got[0].have[i] && got[1].have[i];
		out->value[i] = out->have[i] ? (got[1].value[i] - got[0].value[i]) / w->units : 0;
		out->share[i] = got[0].share[i] < got[1].share[i] ? got[0].share[i] : got[1].share[i];
	}
}
