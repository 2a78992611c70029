/* SPDX-License-Identifier: MIT */
/*
 * cancel.h: defers thread cancellation. Between cancel_off() and cancel_restore() no
 * pthread_cancel(3) of either type takes effect on this thread. A pending one takes effect
 * afterwards: at once if the type is asynchronous, else at the next cancellation point.
 */
#ifndef ETCH_LIB_COMMON_CANCEL_H
#define ETCH_LIB_COMMON_CANCEL_H

#include <pthread.h>

struct cancel {
	int state, type;
};

/*
 * The type is changed too: glibc's pthread_cancel(3) checks the state when it sends its signal, but the signal's
 * handler, which may run later, checks only the type. The type is restored last: if the pending cancellation is
 * asynchronous, pthread_setcanceltype(3) acts on it and gives PTHREAD_CANCELED to the joining thread, which
 * pthread_setcancelstate(3) does not.
 */
static inline struct cancel cancel_off(void)
{
	struct cancel was = {PTHREAD_CANCEL_ENABLE, PTHREAD_CANCEL_DEFERRED};

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &was.type);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was.state);
	return was;
}

static inline void cancel_restore(struct cancel was)
{
	int type;

	pthread_setcancelstate(was.state, NULL);
	if (was.type != PTHREAD_CANCEL_DEFERRED)
		pthread_setcanceltype(was.type, &type);
}

#endif
