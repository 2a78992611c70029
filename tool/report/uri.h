/* SPDX-License-Identifier: MIT */
/* File names as URIs (RFC 3986, RFC 8089): bytes other than letters, digits and -._~/ are written as %XX. */
#ifndef REPORT_URI_H
#define REPORT_URI_H

#include <stdbool.h>

/* Makes a path absolute, without ".", ".." and double slashes; a relative path is relative to `base`. Does not
 * look at the file system. malloc'd. */
char *path_absolute(const char *base, const char *path);
/* The URI of an absolute path: relative if it is below `root` (*relative), else file:///... malloc'd. */
char *uri_make(const char *root, const char *path, bool *relative);
/* "file:///root/"; malloc'd. */
char *uri_directory(const char *root);

#endif
