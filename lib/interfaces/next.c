/* SPDX-License-Identifier: MIT */
/*
 * next.c: looks up, before main, the functions that this library's functions stand in for.
 */
#include <dlfcn.h>
#include <string.h>

#include "interfaces/next.h"
#include "unwind/unwind_internal.h"

/* Missing in a static program. */
extern void *dlsym(void *, const char *) __attribute__((weak));
extern void *dlopen(const char *, int) __attribute__((weak));
extern int dlclose(void *) __attribute__((weak));

static const char *const names[NEXT_COUNT] = {
	[NEXT_GET_IP] = "_Unwind_GetIP",
	[NEXT_GET_IP_INFO] = "_Unwind_GetIPInfo",
	[NEXT_GET_CFA] = "_Unwind_GetCFA",
	[NEXT_GET_GR] = "_Unwind_GetGR",
	[NEXT_SET_GR] = "_Unwind_SetGR",
	[NEXT_SET_IP] = "_Unwind_SetIP",
	[NEXT_GET_LSDA] = "_Unwind_GetLanguageSpecificData",
	[NEXT_GET_REGION_START] = "_Unwind_GetRegionStart",
	[NEXT_GET_DATA_BASE] = "_Unwind_GetDataRelBase",
	[NEXT_GET_TEXT_BASE] = "_Unwind_GetTextRelBase",
	[NEXT_FIND_ENCLOSING] = "_Unwind_FindEnclosingFunction",
	[NEXT_REGISTER_FRAME] = "__register_frame",
	[NEXT_DEREGISTER_FRAME] = "__deregister_frame",
	[NEXT_REGISTER_FRAME_INFO] = "__register_frame_info",
	[NEXT_DEREGISTER_FRAME_INFO] = "__deregister_frame_info",
	[NEXT_INIT_LOCAL] = "_ULx86_64_init_local",
	[NEXT_INIT_LOCAL2] = "_ULx86_64_init_local2",
	[NEXT_STEP] = "_ULx86_64_step",
	[NEXT_GET_REG] = "_ULx86_64_get_reg",
	[NEXT_SET_REG] = "_ULx86_64_set_reg",
	[NEXT_GET_FPREG] = "_ULx86_64_get_fpreg",
	[NEXT_SET_FPREG] = "_ULx86_64_set_fpreg",
	[NEXT_GET_SAVE_LOC] = "_ULx86_64_get_save_loc",
	[NEXT_GET_PROC_INFO] = "_ULx86_64_get_proc_info",
	[NEXT_GET_PROC_NAME] = "_ULx86_64_get_proc_name",
	[NEXT_IS_SIGNAL_FRAME] = "_ULx86_64_is_signal_frame",
	[NEXT_RESUME] = "_ULx86_64_resume",
	[NEXT_APPLY_REG_STATE] = "_ULx86_64_apply_reg_state",
	[NEXT_REG_STATES_ITERATE] = "_ULx86_64_reg_states_iterate",
};

static next_fn *functions[NEXT_COUNT];
static int done;

/* Where libunwind is loaded; if end is 0, it is not loaded yet. */
static uint64_t libunwind_text, libunwind_end;
/* For entry_x86.S: the range in which libunwind is mapped; size 0 if it has no getcontext to which a call can go on. */
uint64_t interfaces_getcontext_text, interfaces_getcontext_size;
/* libunwind's getcontext. */
next_fn *interfaces_next_getcontext;

static void libunwind_find(void)
{
	struct prepare_image im;

	if (!functions[NEXT_STEP] || !loaded_image((uint64_t)(uintptr_t)functions[NEXT_STEP], &im))
		return;
	interfaces_next_getcontext = (next_fn *)dlsym(RTLD_NEXT, "_Ux86_64_getcontext");
	libunwind_text = interfaces_getcontext_text = im.start;
	__atomic_store_n(&libunwind_end, im.end, __ATOMIC_RELEASE);
	if (interfaces_next_getcontext)
		__atomic_store_n(&interfaces_getcontext_size, im.end - im.start, __ATOMIC_RELEASE);
}

static __attribute__((constructor(102))) void next_start(void)
{
	if (__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		return;
	if (dlsym)
		for (unsigned i = 0; i < NEXT_COUNT; i++)
			functions[i] = (next_fn *)dlsym(RTLD_NEXT, names[i]);
	libunwind_find();
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
}

/*
 * The program may have loaded libunwind later, and not into the global scope. This runs only when such a libunwind
 * calls with a cursor of its own, once for each function; a thread may take the dynamic linker's lock again.
 */
static __attribute__((noinline)) next_fn *libunwind_late(enum next_function which)
{
	void *handle = dlopen ? dlopen("libunwind.so.8", RTLD_LAZY | RTLD_NOLOAD) : NULL;
	next_fn *found = NULL;

	if (handle) {
		found = (next_fn *)dlsym(handle, names[which]);
		__atomic_store_n(&functions[which], found, __ATOMIC_RELEASE);
		dlclose(handle);
	}
	return found;
}

next_fn *next_function(enum next_function which)
{
	next_fn *found;

	/* A constructor of another library may run first. */
	if (__builtin_expect(!__atomic_load_n(&done, __ATOMIC_ACQUIRE), 0))
		next_start();
	found = __atomic_load_n(&functions[which], __ATOMIC_ACQUIRE);
	return found || which < NEXT_INIT_LOCAL ? found : libunwind_late(which);
}

/* Does the address belong to a libunwind that the program has loaded later? */
static __attribute__((noinline)) int is_late_libunwind(uint64_t at)
{
	const char *path = loaded_path(at), *name = path;
	struct prepare_image im;

	for (; path && *path; path++)
		if (*path == '/')
			name = path + 1;
	if (!path || strncmp(name, "libunwind.so.", 13) || !loaded_image(at, &im))
		return 0;
	libunwind_text = im.start;
	__atomic_store_n(&libunwind_end, im.end, __ATOMIC_RELEASE);
	return 1;
}

int next_is_libunwind(const void *return_address)
{
	uint64_t at = (uint64_t)(uintptr_t)return_address, end = __atomic_load_n(&libunwind_end, __ATOMIC_ACQUIRE);

	return end ? at >= libunwind_text && at < end : is_late_libunwind(at);
}
