/* SPDX-License-Identifier: MIT */
/*
 * call_site.c: reads a language-specific data area as the personality routines of C++ (libsupc++/eh_personality.cc),
 * C (libgcc, unwind-c.c) and Rust (std::sys::personality::dwarf::eh) do. The result is SITE_ASK where their decision
 * depends on the exception, and for every table of unusual form.
 *
 * RULES OF THIS FILE. Async-signal-safe: no malloc, no lock, no libc. The caller knows that the module stays loaded.
 */
#include <stdbool.h>
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

/* A table whose header has been read. */
struct table {
	struct reader calls;            /* the entries of calls; they end where the actions begin */
	const uint8_t *actions, *types; /* types are read backwards from here; this is also the end of the actions */
	uint8_t encoding;               /* of the numbers in the entry of a call */
	uint8_t type_size;              /* bytes of a type; 0 if there are none */
	bool is_split;                  /* landing pads are relative to something other than the function */
};

/* Bytes of a number in an encoding; 0 if they vary. */
static uint8_t encoded_size(uint8_t encoding)
{
	static const uint8_t sizes[8] = {8, 0, 2, 4, 8};

	return sizes[encoding & 7];
}

/* Reads the header of a table. False if it is damaged. */
static bool table_open(struct table *t, uint64_t at, uint64_t end)
{
	struct reader *in = &t->calls;
	uint64_t types, length;
	uint8_t encoding;

	*t = (struct table){.calls = READER(at, end), .types = (const uint8_t *)(uintptr_t)end};
	encoding = (uint8_t)read_bytes(in, 1); /* of the address that landing pads are relative to */
	if (encoding == 0x00 || encoding == 0x1b) {
		/* clang, for a function that is split into several sections */
		t->is_split = true;
		read_bytes(in, encoding ? 4 : 8);
	} else if (encoding != 0xff) {
		return false;
	}
	encoding = (uint8_t)read_bytes(in, 1);
	if (encoding != 0xff) {
		types = read_leb(in, 0);
		t->type_size = encoded_size(encoding);
		/* A type is an address, or relative to its own place. */
		if (in->bad || types > (uint64_t)(in->end - in->at) || (encoding & 0x60) || !t->type_size)
			return false;
		t->types = in->at + types;
	}
	t->encoding = (uint8_t)read_bytes(in, 1);
	length = read_leb(in, 0);
	if (in->bad || in->at > t->types || length > (uint64_t)(t->types - in->at))
		return false;
	t->actions = in->end = in->at + length;
	return true;
}

/* Tells what the chain of actions may do that begins at `offset`: it recognizes handlers for types and a cleanup, but
 * not exception specifications. */
static enum call_site actions_read(const struct table *t, uint64_t offset)
{
	uint64_t size = (uint64_t)(t->types - t->actions);
	enum call_site site = SITE_TYPES;

	for (unsigned i = 0; i < 256; i++) {
		struct reader in = {t->actions + offset, t->types, 0};
		int64_t filter, next;

		if (offset >= size)
			return SITE_DAMAGED;
		filter = (int64_t)read_leb(&in, 1);
		offset = (uint64_t)(in.at - t->actions);
		next = (int64_t)read_leb(&in, 1);
		if (in.bad || (filter > 0 && (!t->type_size || (uint64_t)filter > size / t->type_size)))
			return SITE_DAMAGED;
		if (filter < 0)
			return SITE_ASK;
		if (!filter)
			site = SITE_TYPES_CLEANUP;
		if (!next)
			return site;
		offset += (uint64_t)next;
	}
	return SITE_ASK;
}

/* The entry of a call. */
struct call {
	uint64_t from, size; /* the instructions of the call, from the start of the function */
	uint64_t pad;        /* the landing pad, likewise; 0 if there is none */
	uint64_t action;     /* the number of the first action's byte, from 1; 0 if there is none */
};

/* Reads all entries of calls. *found gets the one that covers the instruction at `ip`, from the start of the function.
 * Returns whether there is one, or -1 if an entry is damaged. */
static int calls_read(struct table *t, uint64_t ip, uint64_t function_size, struct call *found)
{
	struct reader *in = &t->calls;
	uint64_t end = 0;
	int is_found = 0;

	while (in->at < in->end) {
		struct call c;

		c.from = read_number(in, t->encoding);
		c.size = read_number(in, t->encoding);
		c.pad = read_number(in, t->encoding);
		c.action = read_leb(in, 0);
		if (in->bad || c.from < end || c.from > function_size || c.size > function_size - c.from ||
		    (c.pad >= function_size && !t->is_split))
			return -1;
		end = c.from + c.size;
		if (ip - c.from < c.size) {
			*found = c;
			is_found = 1;
		}
	}
	return is_found;
}

enum call_site call_site_read(enum language language, const struct call_site_table *table, uint64_t ip,
                              uint64_t *landing)
{
	struct table t;
	struct call call;
	int is_found;

	*landing = 0;
	if (language == LANGUAGE_UNKNOWN)
		return SITE_ASK;
	if (!table->at)
		return SITE_NONE;
	if (!table_open(&t, table->at, table->end))
		return SITE_DAMAGED;
	is_found = calls_read(&t, ip - 1 - table->start, table->size, &call);
	if (is_found < 0)
		return SITE_DAMAGED;
	/* The table has no entry for the call, which must not throw. C++ and a Rust panic then call std::terminate() or the
	 * like; in C the exception continues in the caller. */
	if (!is_found)
		return language == LANGUAGE_C ? SITE_NONE : SITE_ASK;
	if (!call.pad)
		return SITE_NONE;
	if (t.is_split)
		return SITE_ASK;
	*landing = table->start + call.pad;
	if (!call.action || language == LANGUAGE_C)
		return SITE_CLEANUP;
	if (language == LANGUAGE_CXX)
		return actions_read(&t, call.action - 1);
	return SITE_ASK;
}
