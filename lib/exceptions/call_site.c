/* SPDX-License-Identifier: MIT */
/*
 * call_site.c: reads a language-specific data area as the personality routines of C++ (libsupc++/eh_personality.cc),
 * C (libgcc, unwind-c.c) and Rust (std::sys::personality::dwarf::eh) do. The result is SITE_ASK where their decision
 * depends on the exception, and for every table of unusual form.
 *
 * RULES OF THIS FILE. Async-signal-safe: no malloc, no lock, no libc. The caller knows that the module stays loaded.
 */
#include <string.h>

#include "exceptions/call_site.h"

struct reader {
	const uint8_t *at, *end;
	int bad;
};

#define READER(p, q) ((struct reader){(const uint8_t *)(uintptr_t)(p), (const uint8_t *)(uintptr_t)(q), (p) >= (q)})

static uint64_t read_bytes(struct reader *in, unsigned size)
{
	uint64_t v = 0;

	if ((uint64_t)(in->end - in->at) < size) {
		in->bad = 1;
		return 0;
	}
	memcpy(&v, in->at, size);
	in->at += size;
	return v;
}

static uint64_t read_leb(struct reader *in, int is_signed)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b;

	do {
		b = (uint8_t)read_bytes(in, 1);
		if (shift >= 63)
			in->bad = 1;
		else
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while ((b & 0x80) && !in->bad);
	if (is_signed && (b & 0x40) && shift < 64)
		v |= ~(uint64_t)0 << shift;
	return v;
}

/* Reads a number in an encoding (DW_EH_PE_*) that is relative to nothing, as the numbers of call sites are. */
static uint64_t read_number(struct reader *in, uint8_t encoding)
{
	switch (encoding) {
	case 0x00:
	case 0x04:
	case 0x0c: return read_bytes(in, 8);
	case 0x01: return read_leb(in, 0);
	case 0x02: return read_bytes(in, 2);
	case 0x03: return read_bytes(in, 4);
	case 0x09: return read_leb(in, 1);
	case 0x0a: return (uint64_t)(int64_t)(int16_t)read_bytes(in, 2);
	case 0x0b: return (uint64_t)(int64_t)(int32_t)read_bytes(in, 4);
	default: in->bad = 1; return 0;
	}
}

/* Tells what a chain of actions may do: it recognizes handlers for types and a cleanup, but not exception
 * specifications. */
static enum call_site actions_read(struct reader in)
{
	enum call_site site = SITE_TYPES;

	for (unsigned i = 0; i < 256; i++) {
		int64_t filter = (int64_t)read_leb(&in, 1), next;
		const uint8_t *from = in.at;

		next = (int64_t)read_leb(&in, 1);
		if (in.bad || filter < 0)
			return SITE_ASK;
		if (!filter)
			site = SITE_TYPES_CLEANUP;
		if (!next)
			return site;
		if (next < -(1 << 24) || next > in.end - from)
			return SITE_ASK;
		in.at = from + next;
	}
	return SITE_ASK;
}

static enum call_site landing_site(enum language language, const uint8_t *actions, uint64_t action, const uint8_t *end)
{
	if (!action || language == LANGUAGE_C)
		return SITE_CLEANUP;
	if (language != LANGUAGE_CXX || action - 1 >= (uint64_t)(end - actions))
		return SITE_ASK;
	return actions_read(READER((uintptr_t)actions + action - 1, (uintptr_t)end));
}

enum call_site call_site_read(enum language language, uint64_t lsda, uint64_t start, uint64_t ip, uint64_t end,
                              uint64_t *landing)
{
	struct reader in = READER(lsda, end);
	uint8_t encoding;
	uint64_t length;
	const uint8_t *actions;

	*landing = 0;
	if (language == LANGUAGE_UNKNOWN)
		return SITE_ASK;
	if (!lsda)
		return SITE_NONE;
	if (read_bytes(&in, 1) != 0xff) /* landing pads are relative to something other than the function, which no
	                                 * compiler writes */
		return SITE_ASK;
	if (read_bytes(&in, 1) != 0xff) /* offset of the table of types */
		read_leb(&in, 0);
	encoding = (uint8_t)read_bytes(&in, 1);
	length = read_leb(&in, 0);
	if (in.bad || length > (uint64_t)(in.end - in.at))
		return SITE_ASK;
	actions = in.at + length;
	ip -= start + 1;
	while (in.at < actions && !in.bad) {
		uint64_t from = read_number(&in, encoding), size = read_number(&in, encoding);
		uint64_t pad = read_number(&in, encoding), action = read_leb(&in, 0);

		if (in.bad || ip < from) /* the table is sorted */
			break;
		if (ip - from >= size)
			continue;
		if (!pad)
			return SITE_NONE;
		*landing = start + pad;
		return landing_site(language, actions, action, in.end);
	}
	/* The table has no entry for the call, which must not throw. C++ and a Rust panic then call std::terminate() or the
	 * like; in C the exception continues in the caller. */
	return language == LANGUAGE_C && !in.bad ? SITE_NONE : SITE_ASK;
}
