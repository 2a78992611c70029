/* SPDX-License-Identifier: MIT */
/* mark_readers.h: which threads are in code that a marker calls. */
#ifndef ETCH_LIB_PATCH_MARK_READERS_H
#define ETCH_LIB_PATCH_MARK_READERS_H

/* Returns when every other thread has left the callbacks that it was in when this was called. Not to be called under
 * the lock. */
void readers_wait(void);
/* Is this thread in a callback? */
int readers_self(void);
/* Called in the child of a fork(2): forgets the threads that the child does not have. */
void readers_fork(void);

#endif
