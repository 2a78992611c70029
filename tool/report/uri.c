/* SPDX-License-Identifier: MIT */
/* Normalizes paths without looking at the file system, and encodes them as URIs. */
#include "report/uri.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *path_absolute(const char *base, const char *path)
{
	char *joined = *path == '/' ? mem_string(path) : mem_format("%s/%s", base, path);
	char *out = mem_alloc(strlen(joined) + 2, 1), *to = out;
	const char *p;

	for (p = joined; *p;) {
		size_t n;

		p += strspn(p, "/");
		n = strcspn(p, "/");
		if (n == 2 && !memcmp(p, "..", 2)) {
			while (to > out && *--to != '/')
				;
		} else if (n && !(n == 1 && *p == '.')) {
			*to++ = '/';
			memcpy(to, p, n);
			to += n;
		}
		p += n;
	}
	if (to == out)
		*to++ = '/';
	*to = 0;
	free(joined);
	return out;
}

static char *encode(const char *prefix, const char *path, const char *suffix)
{
	char *out = mem_alloc(strlen(prefix) + 3 * strlen(path) + strlen(suffix) + 1, 1), *to = stpcpy(out, prefix);

	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~/", c);

		to += sprintf(to, plain ? "%c" : "%%%02X", c);
	}
	strcpy(to, suffix);
	return out;
}

char *uri_make(const char *root, const char *path, bool *relative)
{
	size_t n = strlen(root);

	n -= n == 1; /* "/" itself keeps its slash */
	*relative = !strncmp(root, path, n) && path[n] == '/' && path[n + 1];
	return *relative ? encode("", path + n + 1, "") : encode("file://", path, "");
}

char *uri_directory(const char *root) { return encode("file://", root, root[1] ? "/" : ""); }
