/* SPDX-License-Identifier: MIT */
/* give_up.h: constants that are given up because of a plain store to their page (give_up.c). All functions are called
 * under the lock. */
#ifndef ETCH_LIB_PATCH_GIVE_UP_H
#define ETCH_LIB_PATCH_GIVE_UP_H

#include "patch/internal.h"

/* The notes about a page. */
struct given_up {
	uint64_t until; /* CLOCK_MONOTONIC_COARSE in milliseconds: etch_sync does not arm the page before this time */
	uint64_t at;    /* the address of the last such store */
	uint64_t by;    /* the address of the instruction of that store */
	uint32_t hold;  /* how long the page was held back the last time, in milliseconds */
	uint32_t count; /* how many times it has been given up */
	/* Sets of objects on the page that changed code: `sets` is their number since the time set_since. After too many,
	 * the object stays loads until the time often_until; often_hold is how long that was the last time, in
	 * milliseconds. */
	uint64_t set_since, often_until;
	uint32_t replaced; /* a set has replaced the page, which has been a mapping of its own since then */
	uint32_t sets, often_hold;
};

/* The notes about a page, or null if no page of the module has ever been read-only. */
struct given_up *given_up_note_of(const struct module *m, uint64_t at);
/* Allocates the notes about a module's pages. Returns 0 or ETCH_ENOMEM. */
int given_up_prepare(struct module *m);
/* The notes about the page of an address, or null if it has never been given up. */
static inline const struct given_up *given_up_at(const struct module *m, uint64_t at)
{
	const struct given_up *g;

	if (!m->given_up || !module_has_page(m, at))
		return NULL;
	g = &m->given_up[(at - m->page) / ETCH_PAGE];
	return g->count ? g : NULL;
}

/* Adds the notes about the pages of [from, to) to a state. */
void given_up_count(const struct module *m, uint64_t from, uint64_t to, struct etch_state *state);
/* Has a page of the object ever been given up? */
static inline int was_given_up(const struct module *m, const struct object *o)
{
	for (uint64_t page = PAGE_OF(o->addr); m->given_up && page < o->addr + o->size; page += ETCH_PAGE)
		if (given_up_at(m, page))
			return 1;
	return 0;
}

/* Is a page of the object held back now? */
int is_held_back(const struct module *m, const struct object *o);
/* Does a call go through the object: is it an ops table? */
int is_called_through(const struct module *m, const struct object *o);
/* Extends the objects [*first, *end) by all that share a page with one of them, and so on. */
void page_mates_all(const struct module *m, size_t *first, size_t *end);
/* Turns the sites of the objects in [first, end) that have OBJECT_CHANGING into loads, and then makes their pages
 * writable. Clears OBJECT_CHANGING. *sites gets the number of sites that were changed. Returns 0; or an etch_error:
 * then either nothing has changed, or all are loads and a page could not be made writable. (release.c) */
int objects_release(struct module *m, size_t first, size_t end, size_t *sites);
/* Does etch_sync leave an object alone because it was set too often some time ago? */
int is_set_often(const struct module *m, const struct object *o);
/* May an object that was given up or set too often be armed again by now? To be called without the lock. */
int hold_is_over(void);
/* Finds out when the first of the objects that are held back may be armed again, for hold_is_over(). */
void hold_ends_find(void);
/* struct part_objects describes these. */
struct list;
void sets_count(uint64_t at);
void child_recover(void);
int pages_release(const struct list *l);
void pages_rearm(const struct list *l);

/* What stray_store() has done about a store. */
enum stray_outcome {
	STRAY_GIVEN_UP,  /* the store can be executed again */
	STRAY_RETRY,     /* the store can be executed again, because somebody else has made the page writable */
	STRAY_REFUSED,   /* the page stays read-only */
	STRAY_ELSEWHERE, /* the store was not to a page that libetch has made read-only */
};
/* Handles a store that faulted. *which gets the module that has the page. */
enum stray_outcome stray_store(uint64_t at, uint64_t by, unsigned mode, const struct module **which);

#endif
