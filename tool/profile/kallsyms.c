/* SPDX-License-Identifier: MIT */
/* Reads the kernel's table of symbols (kallsyms.h), whose lines have an address, a type, a name, and the name of the
 * module if there is one. */
#include "profile/kallsyms.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/search.h"

/* The greatest size of a function of the kernel: an address further on belongs to no function. */
#define FUNCTION_MOST ((uint64_t)1 << 20)
#define TEXT_MOST     ((size_t)256 << 20)

struct symbol_line {
	uint64_t address;
	const char *name, *end;
};

/* The symbol nearest before an address of the list that has been found so far. */
struct nearest {
	uint64_t start;
	const char *name, *end; /* the rest of the line from the name on */
};

static const char digits['f' + 1] = {
	['0'] = 1, ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
	['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

/* Parses a line: address, type, name and module. Returns false if it is not that of a function. */
static bool line_parse(const char *s, const char *end, struct symbol_line *out)
{
	uint64_t address = 0;

	for (; s<end && * s> 0 && *s <= 'f' && digits[(int)*s]; s++)
		address = address << 4 | (uint64_t)(digits[(int)*s] - 1);
	if (end - s < 4 || (s[1] | 0x20) != (s[1] == 'w' || s[1] == 'W' ? 'w' : 't'))
		return false;
	*out = (struct symbol_line){address, s + 3, end};
	return address;
}

/* Keeps a symbol for the first address that is not below it. *at is the index for the previous symbol; lines are mostly
 * in order.
 */
static void line_take(const struct kallsyms_name *list, size_t count, const struct symbol_line *line, size_t *at,
                      struct nearest *nearest)
{
	if (*at < count ? list[*at].address < line->address || (*at && list[*at - 1].address >= line->address)
	                : count && list[count - 1].address >= line->address)
		*at = SEARCH(count, i, list[i].address < line->address);
	if (*at < count && line->address > nearest[*at].start)
		nearest[*at] = (struct nearest){line->address, line->name, line->end};
}

static void lines_take(const struct kallsyms_name *list, size_t count, const char *text, size_t size,
                       struct nearest *nearest)
{
	const char *at = text, *end;
	struct symbol_line line;
	size_t place = 0;

	while ((end = memchr(at, '\n', size - (size_t)(at - text)))) {
		if (line_parse(at, end, &line))
			line_take(list, count, &line, &place, nearest);
		at = end + 1;
	}
}

/* Gives an address its symbol's name and module. Returns false if out of memory. */
static bool name_set(struct kallsyms_name *k, const struct nearest *n)
{
	const char *tab;

	if (!n->name || k->address - n->start > FUNCTION_MOST)
		return true;
	tab = memchr(n->name, '\t', (size_t)(n->end - n->name));
	k->start = n->start;
	k->name = strndup(n->name, (size_t)((tab ? tab : n->end) - n->name));
	if (tab)
		snprintf(k->module, sizeof(k->module), "%.*s", (int)(n->end - tab - 1), tab + 1);
	else
		strcpy(k->module, "[kernel]");
	return k->name;
}

/* Reads all of a file that reports no size. Returns null if out of memory; *size is 0 if the file cannot be read. */
static char *text_read(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t capacity = (size_t)8 << 20;
	char *text = malloc(capacity), *more;
	ssize_t n = 0;

	*size = 0;
	while (text && fd >= 0 && (n = read(fd, text + *size, capacity - *size)) > 0) {
		*size += (size_t)n;
		if (*size < capacity)
			continue;
		more = capacity < TEXT_MOST ? realloc(text, 2 * capacity) : NULL;
		if (!more)
			break;
		text = more;
		capacity *= 2;
	}
	if (fd >= 0)
		close(fd);
	if (fd < 0 || n < 0)
		*size = 0;
	return text;
}

bool kallsyms_read(struct kallsyms *k)
{
	if (!k->text)
		k->text = text_read("/proc/kallsyms", &k->size);
	return k->text;
}

bool kallsyms_find(const struct kallsyms *k, struct kallsyms_name *list, size_t count)
{
	struct nearest *nearest = calloc(count + 1, sizeof(*nearest));
	bool good = nearest;

	if (good)
		lines_take(list, count, k->text, k->size, nearest);
	for (size_t i = 0; good && i < count; i++) {
		if (i && nearest[i].start < nearest[i - 1].start)
			nearest[i] = nearest[i - 1];
		good = name_set(&list[i], &nearest[i]);
	}
	free(nearest);
	return good;
}

void kallsyms_free(struct kallsyms_name *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(list[i].name);
	free(list);
}
