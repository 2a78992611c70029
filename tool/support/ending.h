/* SPDX-License-Identifier: MIT */
/*
 * Undoes half-done work when the process ends in the middle of it for lack of memory or of time (bounds.h): for
 * example, a temporary file is removed and make's job slots are returned.
 */
#ifndef SUPPORT_ENDING_H
#define SUPPORT_ENDING_H

/* One thing to undo. It is embedded in the structure that describes that thing. */
struct ending {
	/* Called at most once. It may only make async-signal-safe calls, and must not allocate. */
	void (*undo)(struct ending *);
	struct ending *before;
};

/* From ending_add() on, `e` is undone if the process ends. Both functions may only be called in the main thread, and
 * the last ending that was added must be dropped first. */
void ending_add(struct ending *e);
void ending_drop(struct ending *e);
/* Forgets all endings in a process that has just been forked: the parent undoes them. */
void ending_forget(void);
/* Undoes everything, the last ending that was added first. The caller must end the process afterwards; other threads
 * that call this wait until it ends. Async-signal-safe. */
void ending_undo(void);

#endif
