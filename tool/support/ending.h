/* SPDX-License-Identifier: MIT */
/*
 * What is undone where the process ends in the middle of its work, for lack of memory or of time (bounds.h): a
 * temporary file is removed, make's job slots are returned.
 */
#ifndef SUPPORT_ENDING_H
#define SUPPORT_ENDING_H

/* One thing to undo; a member of what describes it. */
struct ending {
	/* Called at most once. Async-signal-safe calls only, no allocation. */
	void (*undo)(struct ending *);
	struct ending *before;
};

/* From now on `e` is undone if the process ends. Only in the main thread; the last one added is dropped first. */
void ending_add(struct ending *e);
void ending_drop(struct ending *e);
/* In a process that has just been forked: what has been added is the parent's to undo. */
void ending_forget(void);
/* Undoes everything, the last one added first. Only before the process ends; other threads that call it wait for that.
 * Async-signal-safe. */
void ending_undo(void);

#endif
