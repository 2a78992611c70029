/* SPDX-License-Identifier: MIT */
/* Directories that hold a system or a user's whole home, of which nobody means to rewrite every file by a slip. */
#ifndef REWRITE_SYSTEM_DIRECTORY_H
#define REWRITE_SYSTEM_DIRECTORY_H

#include <stdbool.h>

/*
 * Is the path, under whatever name and by whatever links, a directory such as /, /usr, /home, /tmp or $HOME, or one in
 * which a system keeps its programs and libraries, or in such a one, as /usr/lib/x86_64-linux-gnu? Nothing in it is
 * opened.
 */
bool is_system_directory(const char *path);
bool is_directory(const char *path);

#endif
