/* SPDX-License-Identifier: MIT */
/* Finds the place of a page of etch's documentation on this machine, for messages that name one. */
#ifndef SUPPORT_DOCUMENT_H
#define SUPPORT_DOCUMENT_H

#include <limits.h>

/* Writes the path of a page such as "findings.md": of the page that was installed with this program
 * (PREFIX/share/doc/etch), or else of the page in the tree in which the program was built. If neither exists, it writes
 * the page's name in the tree, "docs/findings.md".
 */
void document_find(const char *page, char out[PATH_MAX]);

#endif
