/* SPDX-License-Identifier: MIT */
/* walk.h: the sites of one module in order of what they read, for plan_sites.c and plan_object.c. */
#ifndef ETCH_LIB_PATCH_WALK_H
#define ETCH_LIB_PATCH_WALK_H

#include "patch/internal.h"

struct walk {
	const struct module *m;
	const struct etch_imv *entry; /* in a linked table; null: by index pair */
	const struct pair *pair;
	size_t at, end; /* indexes in `entry` or `pair` */
};

/* kind: SITES_*. at: an index not behind the first site that reads from `from` on; null if unknown. */
struct walk walk_own(const struct module *m, int kind, uint64_t from, const size_t *at);
/* Its sites that reach other modules' objects too. */
struct walk walk_far(const struct module *m, uint64_t from);

/* The next site, and the first byte that it reads; null at the end. */
static inline const struct etch_imv *walk_next(struct walk *w, uint64_t *object)
{
	const struct etch_imv *e;

	for (; w->at < w->end; w->at++) {
		if (w->entry) {
			if (w->entry[w->at].form == ETCH_FORM_MORE)
				continue;
			e = &w->entry[w->at++];
			*object = site_object(e);
			return e;
		}
		if (w->pair[w->at].value & PAIR_FACT)
			continue;
		e = pair_site(w->m, w->pair[w->at].value);
		*object = w->pair[w->at++].key;
		return e;
	}
	return NULL;
}

#endif
