/* SPDX-License-Identifier: MIT */
/* Decides whether a name that a user typed names a function: it may be the function's symbol as people write it, or a
 * part of that. */
#ifndef SUPPORT_NAME_FIT_H
#define SUPPORT_NAME_FIT_H

/* How well a function's name fits, worst first. */
enum fit {
	FIT_NONE,
	FIT_PART,  /* "ork", for work(int) */
	FIT_INNER, /* "work", "work(int)", for ns::work(int) */
	FIT_NAME,  /* "ns::work" */
	FIT_FULL,  /* "ns::work(int)" */
};

/* Returns how well `text` fits the symbol. This does not cover a C symbol that is equal to `text`: look for that
 * first. */
enum fit name_fit(const char *symbol, const char *text);

#endif
