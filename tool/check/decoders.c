/* SPDX-License-Identifier: MIT */
/*
 * ETCH-D004: instructions that the two decoders decode differently. Each form (the encoding without
 * register numbers and constants) is compared once per process, or with options.both_decoders
 * every instruction. One finding per file, mnemonic and kind of difference.
 */
#include "arch/x86/cross_check.h"
#include "arch/x86/insn.h"
#include "check/check.h"
#include "support/vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hash set of the forms on which the decoders agree. Once it is full, further forms are compared each time. */
#define FORMS 32768u          /* a power of two */
static uint64_t forms[FORMS]; /* 0 = empty */
static size_t form_count;

static uint64_t *form_slot(uint64_t key)
{
	size_t i = (size_t)(key >> 40) & (FORMS - 1);

	while (forms[i] && forms[i] != key)
		i = (i + 1) & (FORMS - 1);
	return &forms[i];
}

static bool form_is_agreed(uint64_t key) { return *form_slot(key) == key; }

static void form_learn(uint64_t key)
{
	uint64_t *slot = form_slot(key);

	if (!*slot && form_count < FORMS - FORMS / 4) {
		*slot = key;
		form_count++;
	}
}

/* A difference: mnemonic, kind, first place, number of places. */
struct dispute {
	const char *name, *about;
	size_t section; /* index in the code space */
	uint64_t at;
	size_t count;
};

struct disputes {
	struct dispute *list;
	size_t count, room;
};

static bool dispute_note(struct disputes *d, const struct insn_views *v, size_t section, uint64_t at)
{
	size_t i;

	for (i = 0; i < d->count; i++)
		if (!strcmp(d->list[i].name, v->name) && !strcmp(d->list[i].about, v->about)) {
			d->list[i].count++;
			return true;
		}
	if (!room_make(&d->list, &d->room, d->count, sizeof(*d->list)))
		return false;
	d->list[d->count++] = (struct dispute){v->name, v->about, section, at, 1};
	return true;
}

static bool dispute_report(struct subject *s, const struct dispute *d)
{
	const struct code_section *c = &s->frames.space.list[d->section];
	uint64_t off = d->at - c->addr, at = elf_is_object(s->file) ? off : d->at;
	const uint8_t *bytes = c->bytes + off;
	char hex[3 * 15 + 1] = "";
	struct insn_views v;
	struct finding *x;
	struct insn in;
	unsigned i, n = 0;

	if (insn_views_agree(bytes, c->size - off, at, &v))
		return true;
	x = d->count > 1 ? finding_add(&s->found, "ETCH-D004", c->section, at,
	                               "the decoders disagree about %s, here and at %zu more %s instructions", v.about,
	                               d->count - 1, v.name)
	                 : finding_add(&s->found, "ETCH-D004", c->section, at, "the decoders disagree about %s", v.about);
	if (insn_decode(bytes, c->size - off, at, &in))
		for (i = 0; i < in.len; i++)
			n += (unsigned)snprintf(hex + n, sizeof(hex) - n, i ? " %02x" : "%02x", bytes[i]);
	return x && finding_fact(x, "Zydis", "%s", v.first) && finding_fact(x, "Capstone", "%s", v.second) &&
	       finding_fact(x, "bytes", "%s", hex);
}

/* Compares the decoders on one instruction. Its address only matters for the target of a branch. */
static bool insn_check(const struct subject *s, struct disputes *d, size_t section, uint64_t at)
{
	const struct code_section *c = &s->frames.space.list[section];
	const uint8_t *bytes = c->bytes + (at - c->addr);
	size_t avail = c->size - (at - c->addr);
	struct insn_views v;
	uint64_t key;
	bool agree;

	if (!s->options->both_decoders && insn_is_agreed(bytes, avail))
		return true;
	key = insn_form_key(bytes, avail);
	if (!key)
		return true;
	agree = (!s->options->both_decoders && form_is_agreed(key)) || insn_views_agree(bytes, avail, at, &v);
	if (agree) {
		form_learn(key);
		insn_agreed(bytes, avail);
	}
	return agree || dispute_note(d, &v, section, at);
}

int check_decoders(struct subject *s, struct error *e)
{
	const struct code_space *space = &s->frames.space;
	struct disputes d = {0};
	bool ok = true;
	size_t i;

	for (i = 0; i < space->count && ok; i++) {
		const struct code_section *c = &space->list[i];
		uint64_t at = c->addr;

		for (; ok && (at = reached_next(&s->frames.reached, space, i, at)) != UINT64_MAX; at++)
			ok = insn_check(s, &d, i, at);
	}
	for (i = 0; i < d.count && ok; i++)
		ok = dispute_report(s, &d.list[i]);
	free(d.list);
	return ok ? 0 : error_memory(e);
}
