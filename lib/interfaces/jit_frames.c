/* SPDX-License-Identifier: MIT */
/*
 * jit_frames.c: __register_frame() and the like (libgcc, unwind-dw2-fde.c), with which a JIT registers the .eh_frame
 * of its code. libgcc is told too, because it handles the exceptions.
 */
#include "interfaces/interfaces.h"
#include "interfaces/next.h"
#include "unwind/registered_frames.h"

void __register_frame(const void *section);
void __deregister_frame(const void *section);
void __register_frame_info(const void *section, void *object);
void *__deregister_frame_info(const void *section);

/* libgcc ignores an empty section when it is registered, and does not accept its removal. */
static int is_empty(const void *section) { return !section || !*(const unsigned *)section; }

INTERFACE void __register_frame(const void *section)
{
	__typeof__(&__register_frame) next = NEXT(NEXT_REGISTER_FRAME, __typeof__(next));

	if (!is_empty(section))
		registered_add(section);
	if (next)
		next(section);
}

INTERFACE void __deregister_frame(const void *section)
{
	__typeof__(&__deregister_frame) next = NEXT(NEXT_DEREGISTER_FRAME, __typeof__(next));

	if (!is_empty(section))
		registered_remove(section);
	if (next)
		next(section);
}

INTERFACE void __register_frame_info(const void *section, void *object)
{
	__typeof__(&__register_frame_info) next = NEXT(NEXT_REGISTER_FRAME_INFO, __typeof__(next));

	if (!is_empty(section))
		registered_add(section);
	if (next)
		next(section, object);
}

INTERFACE void *__deregister_frame_info(const void *section)
{
	__typeof__(&__deregister_frame_info) next = NEXT(NEXT_DEREGISTER_FRAME_INFO, __typeof__(next));

	if (!is_empty(section))
		registered_remove(section);
	return next ? next(section) : (void *)0;
}
