/* SPDX-License-Identifier: MIT */
/* File names as URIs (RFC 3986, RFC 8089): every byte but letters, digits and -._~/ as %XX. */
#ifndef REPORT_URI_H
#define REPORT_URI_H

#include <stdbool.h>

/* An absolute path without . and .. and double slashes, by name alone: `path` behind `base`
 * where it is relative. malloc'd; null: out of memory. */
char *path_absolute(const char *base, const char *path);
/* The URI of an absolute path: relative to `root` where it is below that (*relative),
 * else file:///... malloc'd; null: out of memory. */
char *uri_make(const char *root, const char *path, bool *relative);
/* "file:///root/", malloc'd. */
char *uri_directory(const char *root);

#endif
