/* SPDX-License-Identifier: MIT */
/* Names from files may hold anything, and stand in lines. */
#ifndef REPORT_PLAIN_H
#define REPORT_PLAIN_H

/* Control characters become '?', in place. (What goes straight to a person is better escaped: text_clean().) */
void plain(char *text);

#endif
