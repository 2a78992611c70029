/* SPDX-License-Identifier: MIT */
/* Makes names from files printable: they may contain anything, and are printed in lines. */
#ifndef SUPPORT_PLAIN_H
#define SUPPORT_PLAIN_H

/* Replaces control characters by '?', in place. (Text printed directly for people is better
 * escaped: text_clean().) */
void plain(char *text);

#endif
