/* SPDX-License-Identifier: MIT */
/*
 * etch/copy.h: copies and reads that survive faults, and a copy that spares the cache.
 *
 *     etch_fault_init();                              // once: etch/extable.h
 *     left = etch_copy_from(buffer, untrusted, n);    // 0, or the bytes not copied
 *     if (etch_probe_read_64(&value, address) < 0) ...
 *
 * A fault is a SIGSEGV or SIGBUS at the access itself: nothing mapped there, no
 * permission, a file that has become shorter, an address that is not canonical. What
 * these functions do then is exact to the byte. Without etch_fault_init() (or
 * etch_fixup_exception() in the program's own handler) they are ordinary copies, and a
 * fault is an ordinary fault. A thread that blocks SIGSEGV or SIGBUS is ended by the
 * kernel at such a fault, whatever handler there is; a handler of one of them that copies
 * needs SA_NODEFER.
 *
 * All functions but etch_copy_use are async-signal-safe, and none of them allocates or
 * locks; all are thread-safe. They may be called before any constructor has run. Source
 * and destination must not overlap.
 */
#ifndef ETCH_COPY_H
#define ETCH_COPY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Copy n bytes. Return the number of bytes NOT copied, 0 = all: the first n - result
 * bytes of dst are those of src, and no byte behind them has been written, whatever other
 * threads map or unmap meanwhile. The names say which side is not trusted; both may fault
 * in either.
 */
size_t etch_copy_from(void *dst, const void *src, size_t n);
size_t etch_copy_to(void *dst, const void *src, size_t n);

/* The same, and the bytes of dst that were not copied are set to zero, as far as they
 * can be written: nothing of what was there before is left to be taken for data. */
size_t etch_copy_from_zeroing(void *dst, const void *src, size_t n);

/*
 * Copy with non-temporal stores: dst does not go into the cache, and src comes in only
 * as far as the processor needs. For data that is not read again soon. Results as above.
 * A copy below 512 bytes is an ordinary one. The stores are fenced before the return.
 */
size_t etch_copy_nt(void *dst, const void *src, size_t n);
size_t etch_copy_from_nocache(void *dst, const void *src, size_t n);
size_t etch_copy_to_nocache(void *dst, const void *src, size_t n);
size_t etch_copy_from_zeroing_nocache(void *dst, const void *src, size_t n);

/* How a copy is to be made. */
enum etch_copy_how {
	ETCH_COPY_CACHED,
	ETCH_COPY_NT,
	ETCH_COPY_AUTO, /* NT from the threshold on */
};
size_t etch_copy(void *dst, const void *src, size_t n, enum etch_copy_how how);

/*
 * The size in bytes from which ETCH_COPY_AUTO goes around the cache. At first three
 * quarters of what one processor has of the caches: its share of the last level, and the
 * second where the third does not hold the same lines. Or what the environment variable
 * ETCH_COPY_THRESHOLD says (bytes; 0 = never); never less than 64 KiB. Setting 0 means
 * never. Returns the one before.
 */
size_t etch_copy_threshold(void);
size_t etch_copy_set_threshold(size_t bytes);

/*
 * Copies a string of at most n bytes with its NUL. Returns its length without the NUL;
 * n where there is none among the first n bytes (dst then has n bytes and no NUL); or
 * -EFAULT where src or dst faults before that (dst may then hold the part before).
 */
long etch_strncpy_from(char *dst, const char *src, size_t n);

/* Read one value of any alignment. 0, or -EFAULT and *out = 0. */
int etch_probe_read_8(uint8_t *out, const void *at);
int etch_probe_read_16(uint16_t *out, const void *at);
int etch_probe_read_32(uint32_t *out, const void *at);
int etch_probe_read_64(uint64_t *out, const void *at);

/*
 * The variants for this processor, by name: "sse2", "avx2", "avx512", and with "+erms".
 * etch_copy_variant() is the one in use. etch_copy_use() chooses another, by a set of
 * libetch's own ops table (etch/pv.h): 0, or -1 where there is none of that name, the
 * processor lacks it, or the set is refused. For tests and measurements.
 */
const char *etch_copy_variant(void);
int etch_copy_use(const char *name);

#ifdef __cplusplus
}
#endif
#endif
