/* SPDX-License-Identifier: MIT */
/* Writes file names as URIs (RFC 3986, RFC 8089): bytes other than letters, digits and -._~/ become %XX. */
#ifndef REPORT_URI_H
#define REPORT_URI_H

#include <stdbool.h>

/* Makes a path absolute, without ".", ".." and double slashes; a relative path is relative to `base`. It does not
 * look at the file system. The caller frees the result. */
char *path_absolute(const char *base, const char *path);
/* Makes the URI of an absolute path: a relative one if the path is below `root` (*relative is set), otherwise
 * file:///... The caller frees the result. */
char *uri_make(const char *root, const char *path, bool *relative);
/* Makes "file:///root/". The caller frees the result. */
char *uri_directory(const char *root);

#endif
