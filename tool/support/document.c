/* SPDX-License-Identifier: MIT */
/* Finds a page of the documentation (document.h). */
#include "support/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void document_find(const char *page, char out[PATH_MAX])
{
	/* Relative to the program's directory, which is bin in an installation and build in a tree. */
	static const char *const places[] = {"../share/doc/etch/", "../docs/"};
	char self[PATH_MAX], path[PATH_MAX + 256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = 0;
	if (strrchr(self, '/'))
		*strrchr(self, '/') = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places) && *self; i++) {
		snprintf(path, sizeof(path), "%s/%s%s", self, places[i], page);
		if (realpath(path, out))
			return;
	}
	snprintf(out, PATH_MAX, "docs/%s", page);
}
