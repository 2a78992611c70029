/* SPDX-License-Identifier: MIT */
/* Whether a name that a user typed is that of a function: its symbol's, as people write that, or a part of it. */
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

/* How `text` fits the symbol. A C symbol that is `text` is no case of this: look for it first. */
enum fit name_fit(const char *symbol, const char *text);

#endif
