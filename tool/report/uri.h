/* SPDX-License-Identifier: MIT */
/* Writes file names as URIs (RFC 3986, RFC 8089): bytes other than letters, digits and -._~/ become %XX. */
#ifndef REPORT_URI_H
#define REPORT_URI_H

#include <stdbool.h>

/*
 * Makes a path absolute, and removes ".", ".." and double slashes from it. A relative path is taken relative to `base`.
 * The file system is not consulted. The caller frees the result.
 */
char *path_absolute(const char *base, const char *path);
/*
 * Makes the URI of an absolute path. If the path is below `root`, the URI is relative to it, and *relative is set to
 * true; otherwise it is file:///.... The caller frees the result.
 */
char *uri_make(const char *root, const char *path, bool *relative);
/* Makes the URI of a directory, which ends in a slash: "file:///root/". The caller frees the result. */
char *uri_directory(const char *root);

#endif
