/* SPDX-License-Identifier: MIT */
/*
 * pv.c: determines the body of the function that a call site calls, if it may be inlined.
 *
 * A function may be inlined if a record of __pv_native says so and its code agrees with the record, or if its first
 * bytes are those of a function with next to no effect (etch_pv_tiny). Code is read only in executable segments of
 * registered modules, because a slot may hold any address, even one in a module that was unloaded. The body of a
 * function that contains a breakpoint counts as unknown, so that the function is called and the breakpoint hit.
 *
 * A body written into a site must be recognized there later, when its function may be unloaded; so each body that
 * comes from a record is remembered once.
 */
#include <string.h>

#include "patch/patch.h"
#include "common/sys.h"

#define BREAKPOINT 0xcc
#define RETURN     0xc3

/* ---- bodies that have been written --------------------------------------------- */

static struct etch_pv_body first_capacity[16], *remembered = first_capacity;
static size_t remembered_count, remembered_capacity = sizeof(first_capacity) / sizeof(first_capacity[0]);

static int same_body(const struct etch_pv_body *a, const struct etch_pv_body *b)
{
	return a->len == b->len && a->one == b->one && !memcmp(a->bytes, b->bytes, a->len);
}

/* Remembers a body. Returns 0 without memory. */
static int remember(const struct etch_pv_body *b)
{
	struct etch_pv_body *more;

	for (size_t i = 0; i < remembered_count; i++)
		if (same_body(&remembered[i], b))
			return 1;
	if (remembered_count == remembered_capacity) {
		more = sys_map(remembered_capacity * 4 * sizeof(*b), 0);
		if (!more)
			return 0;
		memcpy(more, remembered, remembered_count * sizeof(*b));
		if (remembered != first_capacity)
			sys_munmap(remembered, remembered_capacity * sizeof(*b));
		remembered = more;
		remembered_capacity *= 4;
	}
	remembered[remembered_count++] = *b;
	return 1;
}

/* ---- functions ------------------------------------------------------------------ */

/* The readable code at an address, of *avail bytes; 0 bytes if there is none. */
static const uint8_t *code_at(uint64_t at, uint64_t *avail, struct module **owner)
{
	struct module *m = module_at(at);
	const struct segment *s = m ? image_segment(&m->image, at, 1) : NULL;

	*avail = 0;
	*owner = m;
	if (!s || (s->prot & (PROT_READ | PROT_EXEC)) != (PROT_READ | PROT_EXEC))
		return NULL;
	*avail = s->end - at;
	return (const uint8_t *)(uintptr_t)at;
}

static unsigned endbr_length(const uint8_t *code, uint64_t avail)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

	return avail >= 4 && !memcmp(code, endbr64, 4) ? 4 : 0;
}

/* A breakpoint replaces the first byte of an instruction. */
static int body_has_breakpoint(const struct etch_pv_body *b)
{
	return b->len && memchr(b->bytes, BREAKPOINT, b->one ? 1 : b->len);
}

static void native_body(const struct etch_native *n, struct etch_pv_body *b)
{
	*b = (struct etch_pv_body){.len = n->len, .one = n->len == 0 || (n->flags & ETCH_NATIVE_ONE)};
	memcpy(b->bytes, (const void *)(uintptr_t)etch_ref((uint64_t)(uintptr_t)&n->code, n->code), n->len);
}

/* Finds the record of a function whose code equals the record's sequence, followed by a ret. If several files define
 * the same weak function, the recorded code may belong to another copy. */
static int native_find(const struct module *m, uint64_t target, const uint8_t *code, uint64_t avail,
                       struct etch_pv_body *b)
{
	unsigned skip = endbr_length(code, avail), most = skip + ETCH_NATIVE_MOST + 1;

	/* Most functions have no ret within this range and need no search. */
	if (!memchr(code, RETURN, avail < most ? avail : most))
		return 0;
	for (size_t i = 0; i < m->native_count; i++) {
		const struct etch_native *n = &m->native[i];

		if (etch_ref((uint64_t)(uintptr_t)&n->func, n->func) != target || !(n->flags & ETCH_NATIVE_CHECKED) ||
		    !table_native_ok(m, n))
			continue;
		native_body(n, b);
		if (avail > skip + n->len && !memcmp(code + skip, b->bytes, n->len) && code[skip + n->len] == RETURN &&
		    !body_has_breakpoint(b))
			return 1;
	}
	return 0;
}

void pv_target(struct target *t, int use)
{
	struct module *m;
	uint64_t avail;
	const uint8_t *code = code_at(t->at, &avail, &m);

	t->known = 0;
	if (!code || m->bad)
		return;
	if (native_find(m, t->at, code, avail, &t->body))
		t->known = !use || remember(&t->body);
	else if (etch_pv_tiny(code, avail, &t->body))
		t->known = 1;
}

int pv_unknown(uint64_t target)
{
	struct module *m;
	uint64_t avail;
	const uint8_t *code = code_at(target, &avail, &m);
	unsigned skip;

	if (!code)
		return 1;
	skip = endbr_length(code, avail);
	return code[0] == BREAKPOINT || (avail > skip && code[skip] == BREAKPOINT);
}

/* ---- bytes at a site ---------------------------------------------------------------- */

/* Are these bytes the site's form of the body? The target is out of range for a direct call, so that only the body's
 * instructions can match. */
static unsigned is_image(const struct etch_imv *e, uint64_t site, const struct etch_pv_body *b, const uint8_t *bytes)
{
	unsigned count, len = etch_imv_len(e);
	uint8_t out[16];

	return pv_image(e, site, site ^ (uint64_t)1 << 62, b, out, &count) == len && !memcmp(out, bytes, len) ? count : 0;
}

unsigned pv_some_body(const struct etch_imv *e, uint64_t site, const uint8_t *bytes)
{
	unsigned len = etch_imv_len(e), pad, count;
	struct etch_pv_body b = {.len = 0, .one = 1};
	uint8_t code[17];

	if (is_image(e, site, &b, bytes))
		return 1;
	/* For etch_pv_tiny() the bytes at the site, without padding, are the code of a function. */
	for (pad = 0; pad < len && bytes[pad] == 0x2e; pad++)
		;
	memcpy(code, bytes + pad, len - pad);
	code[len - pad] = RETURN;
	if (etch_pv_tiny(code, len - pad + 1, &b) && is_image(e, site, &b, bytes))
		return 1;
	for (size_t i = 0; i < remembered_count; i++) {
		count = is_image(e, site, &remembered[i], bytes);
		if (count)
			return count;
	}
	/* A body that the link step baked may not have been remembered yet. */
	for (const struct module *m = module_list; m; m = m->next)
		for (size_t i = 0; !m->bad && i < m->native_count; i++) {
			if (!(m->native[i].flags & ETCH_NATIVE_CHECKED) || !table_native_ok(m, &m->native[i]))
				continue;
			native_body(&m->native[i], &b);
			/* If the function has a breakpoint now, compares with its body as it was without it. */
			if (b.len && b.bytes[0] == BREAKPOINT && b.len <= len)
				b.bytes[0] = bytes[b.one ? len - b.len : 0];
			count = is_image(e, site, &b, bytes);
			if (count)
				return count;
		}
	return 0;
}

int pv_some_direct(const struct etch_imv *e, const uint8_t *bytes)
{
	unsigned len = etch_imv_len(e), jump = e->form == ETCH_FORM_JMP, i;

	if (len < 5 || bytes[len - 5] != (jump ? 0xe9 : 0xe8))
		return 0;
	for (i = 0; i < len - 5; i++)
		if (bytes[i] != (jump ? 0x2e : 0x67))
			return 0;
	return 1;
}
