/* SPDX-License-Identifier: MIT */
/*
 * Adds the objects that the commands in compile_commands.json write (clang.llvm.org/docs/JSONCompilationDatabase.html).
 */
#include "elf/file.h"
#include "input/input.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads one word with a shell's quoting, malloc'd, and advances *p past it. Returns null at the end. */
static char *shell_word(const char **p)
{
	const char *s = *p + strspn(*p, " \t\n");
	char *out, quote = 0;
	size_t n = 0;

	*p = s;
	if (!*s)
		return NULL;
	out = mem_alloc(strlen(s) + 1, 1);
	for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
		if (quote ? *s == quote : *s == '\'' || *s == '"')
			quote = quote ? 0 : *s;
		else if (*s == '\\' && s[1] && quote != '\'' && (!quote || strchr("\"\\$`\n", s[1])))
			out[n++] = *++s;
		else
			out[n++] = *s;
	}
	out[n] = 0;
	*p = s;
	return out;
}

static struct json_object *shell_words(const char *command)
{
	struct json_object *words = json_object_new_array();
	char *word;

	while ((word = shell_word(&command)) != NULL) {
		json_object_array_add(words, json_object_new_string(word));
		free(word);
	}
	return words;
}

static const char *string_of(struct json_object *entry, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(entry, key, &v) && json_object_is_type(v, json_type_string)
	           ? json_object_get_string(v)
	           : NULL;
}

/* Returns the output of a command, malloc'd: that of the last -o, or else the default of -c, or null if it is not
 * known. */
static char *words_output(struct json_object *words, const char *source)
{
	size_t n = json_object_array_length(words), i;
	const char *output = NULL, *base, *dot;
	bool compile = false;

	for (i = 0; i < n; i++) {
		const char *w = json_object_get_string(json_object_array_get_idx(words, i));

		if (!w)
			continue;
		if (!strcmp(w, "-o") && i + 1 < n)
			output = json_object_get_string(json_object_array_get_idx(words, ++i));
		else if (!strncmp(w, "-o", 2) && w[2])
			output = w + 2;
		else if (!strncmp(w, "--output=", 9))
			output = w + 9;
		compile |= !strcmp(w, "-c");
	}
	if (output || !compile || !source)
		return output ? mem_string(output) : NULL;
	base = strrchr(source, '/') ? strrchr(source, '/') + 1 : source;
	dot = strrchr(base, '.');
	return mem_format("%.*s.o", dot ? (int)(dot - base) : (int)strlen(base), base);
}

static char *entry_output(struct json_object *entry)
{
	const char *output = string_of(entry, "output"), *command = string_of(entry, "command");
	const char *source = string_of(entry, "file");
	struct json_object *words;
	char *out = NULL;

	if (output)
		return mem_string(output);
	if (json_object_object_get_ex(entry, "arguments", &words) && json_object_is_type(words, json_type_array))
		return words_output(words, source);
	if (command) {
		words = shell_words(command);
		out = words_output(words, source);
		json_object_put(words);
	}
	return out;
}

bool inputs_is_database(const char *path)
{
	size_t n = strlen(path);

	return n >= 5 && !strcmp(path + n - 5, ".json");
}

static void add_entry(struct inputs *l, const char *path, struct json_object *entry, size_t number, void **names)
{
	const char *directory = string_of(entry, "directory");
	char *output = entry_output(entry), *full = NULL;
	struct input in = {.path = (char *)path};
	struct error e;

	if (!output) {
		error_set(&e, "entry %zu: its command names no output (-o)", number);
		in.error = e.text;
		inputs_put(l, &in);
		return;
	}
	if (*output != '/' && directory)
		full = mem_format("%s/%s", directory, output);
	in.path = full ? full : output;
	/* A database as the output of a command would be read in turn, endlessly if it is the same one. */
	if (inputs_is_database(in.path))
		in.error = (char *)"is not an object, though a compilation database says so";
	/* Several entries may name one object. */
	if (names_note(names, in.path) == 1) {
		if (in.error)
			inputs_put(l, &in);
		else
			inputs_add(l, in.path);
	}
	free(full);
	free(output);
}

void inputs_add_database(struct inputs *l, const char *path)
{
	struct input in = {.path = (char *)path};
	struct json_object *root = NULL;
	struct json_tokener *t = json_tokener_new();
	uint8_t *bytes = NULL;
	void *names = NULL;
	struct error e;
	size_t size, i;

	if (!t)
		bounds_exhausted();
	if (!file_read(path, &bytes, &size, &e)) {
		if (size < INT32_MAX)
			root = json_tokener_parse_ex(t, (const char *)bytes, (int)size);
		error_set(&e, "is not a compilation database: not a JSON array of objects");
	}
	if (!json_object_is_type(root, json_type_array)) {
		in.error = e.text;
		inputs_put(l, &in);
	}
	for (i = 0; !in.error && i < json_object_array_length(root); i++)
		add_entry(l, path, json_object_array_get_idx(root, i), i, &names);
	names_free(names);
	json_object_put(root);
	json_tokener_free(t);
	free(bytes);
}
