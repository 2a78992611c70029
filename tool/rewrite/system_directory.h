/* SPDX-License-Identifier: MIT */
/* Recognises directories that hold a system or a user's whole home, so that nobody rewrites all their files by
 * mistake. */
#ifndef REWRITE_SYSTEM_DIRECTORY_H
#define REWRITE_SYSTEM_DIRECTORY_H

#include <stdbool.h>

/*
 * Is the path, under whatever name and by whatever links, a directory such as /, /usr, /home, /tmp or $HOME? Or is it
 * one in which a system keeps its programs and libraries, or a directory inside such a one, as
 * /usr/lib/x86_64-linux-gnu is? Nothing in it is opened.
 */
bool is_system_directory(const char *path);
bool is_directory(const char *path);

#endif
