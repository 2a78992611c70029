/* SPDX-License-Identifier: MIT */
/*
 * etch/copy.h: copies and reads that survive faults, and copies that bypass the cache.
 *
 *     etch_fault_init();                              // once: etch/extable.h
 *     left = etch_copy_from(buffer, untrusted, n);    // 0, or the bytes not copied
 *     if (etch_probe_read_64(&value, address) < 0) ...
 *
 * A fault is a SIGSEGV or SIGBUS raised by the access itself: an unmapped page, a missing
 * permission, a truncated file, a non-canonical address. The result after a fault is correct to the
 * byte. Without etch_fault_init() (or etch_fixup_exception() in the program's own handler) these
 * functions are ordinary copies, and a fault is an ordinary fault. The kernel kills a thread that
 * faults while it blocks the signal, whatever handler is installed, so a SIGSEGV or SIGBUS handler
 * that copies needs SA_NODEFER.
 *
 * All functions are thread-safe; none allocates or locks; all but etch_copy_use() are
 * async-signal-safe. They may be called before any constructor has run. Source and destination must
 * not overlap.
 */
#ifndef ETCH_COPY_H
#define ETCH_COPY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Copy n bytes. Return the number of bytes NOT copied (0: all are copied): the first n - result
 * bytes of dst equal those of src, and no byte of dst after them has been written, even while other
 * threads map or unmap pages. The name tells which side is untrusted; a fault on the other side is
 * handled too.
 */
size_t etch_copy_from(void *dst, const void *src, size_t n);
size_t etch_copy_to(void *dst, const void *src, size_t n);

/* Copies n bytes and returns the number of bytes NOT copied, as etch_copy_from() does. In addition it sets the bytes
 * of dst that were not copied to zero as far as they are writable, so that stale contents are not taken for data. */
size_t etch_copy_from_zeroing(void *dst, const void *src, size_t n);

/*
 * Copy with non-temporal stores: dst is not brought into the cache, and src only as far as the
 * processor requires. They are meant for data that is not read again soon. The results are those of
 * the functions above. Below 512 bytes the copy is an ordinary one. The stores are fenced before
 * the return.
 */
size_t etch_copy_nt(void *dst, const void *src, size_t n);
size_t etch_copy_from_nocache(void *dst, const void *src, size_t n);
size_t etch_copy_to_nocache(void *dst, const void *src, size_t n);
size_t etch_copy_from_zeroing_nocache(void *dst, const void *src, size_t n);

/* Which kind of copy etch_copy() makes. */
enum etch_copy_how {
	ETCH_COPY_CACHED,
	ETCH_COPY_NT,
	ETCH_COPY_AUTO, /* ETCH_COPY_NT from etch_copy_threshold() bytes on */
};
size_t etch_copy(void *dst, const void *src, size_t n, enum etch_copy_how how);

/*
 * The size in bytes from which ETCH_COPY_AUTO bypasses the cache. The default is three quarters of
 * one processor's part of the caches: its share of the last level, plus the second level where the
 * third is not inclusive. The environment variable ETCH_COPY_THRESHOLD (bytes; 0 = never)
 * overrides it; the minimum is 64 KiB. Setting 0 means never. etch_copy_set_threshold() returns
 * the previous value.
 */
size_t etch_copy_threshold(void);
size_t etch_copy_set_threshold(size_t bytes);

/*
 * Copies a string of at most n bytes with its NUL. Returns its length without the NUL; n if the
 * first n bytes hold no NUL (dst then has n bytes and no NUL); or -EFAULT if an access to src or
 * dst faults before that (dst may then hold a prefix).
 */
long etch_strncpy_from(char *dst, const char *src, size_t n);

/* Read one value of any alignment. Return 0, or -EFAULT with *out = 0. */
int etch_probe_read_8(uint8_t *out, const void *at);
int etch_probe_read_16(uint16_t *out, const void *at);
int etch_probe_read_32(uint32_t *out, const void *at);
int etch_probe_read_64(uint64_t *out, const void *at);

/*
 * The copy variants by name: "sse2", "avx2", "avx512", each also with "+erms". etch_copy_variant()
 * returns the name of the one in use. etch_copy_use() selects another through libetch's own ops
 * table (etch/pv.h); it returns 0, or -1 if the name is unknown, the processor lacks the feature,
 * or the set is refused. For tests and measurements.
 */
const char *etch_copy_variant(void);
int etch_copy_use(const char *name);

#ifdef __cplusplus
}
#endif
#endif
