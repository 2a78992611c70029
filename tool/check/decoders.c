/* SPDX-License-Identifier: MIT */
/*
 * Implements ETCH-D004 (instructions that the two decoders decode differently) and ETCH-D008 (instructions that only
 * the first decoder knows, so that they cannot be compared). The form of an instruction is its encoding without
 * register numbers and constants. Each form is compared once per process; with options.both_decoders every instruction
 * is compared. A file gets one finding for each mnemonic and kind of difference.
 */
#include "arch/x86/cross_check.h"
#include "arch/x86/insn.h"
#include "check/check.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A hash set of the forms on which the decoders agree. Once it is full, a form that is not in it is compared each time
 * that it occurs.
 */
#define FORMS 32768u          /* a power of two */
static uint64_t forms[FORMS]; /* 0: empty */
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

/* The number of mnemonics that one ETCH-D008 lists, and the greatest length of each in bytes. */
#define NAMES_MOST 8u
#define NAME_MOST  32u

/* A difference between the decoders for one mnemonic, with the first place and the number of places. */
struct dispute {
	const char *name, *about;
	size_t section; /* index in the code space of the section of the first place */
	uint64_t at;
	size_t count;
};

struct disputes {
	struct dispute *list;
	size_t count, capacity;
	struct unjudged {
		size_t count, section, names;
		uint64_t at; /* address of the first place */
		char name[NAMES_MOST][NAME_MOST];
	} unjudged;
};

/*
 * Records an instruction that the second decoder does not know. `text` is the instruction; its first word is the
 * mnemonic.
 */
static void unjudged_note(struct unjudged *u, const char *text, size_t section, uint64_t at)
{
	size_t i, n;

	if (!u->count++) {
		u->section = section;
		u->at = at;
	}
	if (*text == '{')
		text += strcspn(text, " ") + (strchr(text, ' ') != NULL);
	n = strcspn(text, " ");
	for (i = 0; i < u->names && (strlen(u->name[i]) != n || strncmp(u->name[i], text, n)); i++)
		;
	if (i == u->names && i < NAMES_MOST)
		snprintf(u->name[u->names++], NAME_MOST, "%.*s", (int)n, text);
}

static void unjudged_report(struct subject *s, const struct unjudged *u)
{
	const struct code_section *c = &s->frames.space.list[u->section];
	uint64_t at = elf_is_object(s->file) ? u->at - c->addr : u->at;
	char names[NAMES_MOST * (NAME_MOST + 2) + 8] = "";
	struct finding *x;
	size_t i, n = 0;

	if (!u->count)
		return;
	for (i = 0; i < u->names; i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "", u->name[i]);
	if (u->names == NAMES_MOST)
		snprintf(names + n, sizeof(names) - n, ", ...");
	x = finding_add(&s->found, "ETCH-D008", c->section, at,
	                "%zu instruction%s, this one first, that Capstone does not know: not judged", u->count,
	                u->count == 1 ? "" : "s");
	finding_fact(x, "instructions", "%s", names);
}

static void dispute_note(struct disputes *d, const struct insn_views *v, size_t section, uint64_t at)
{
	size_t i;

	for (i = 0; i < d->count; i++)
		if (!strcmp(d->list[i].name, v->name) && !strcmp(d->list[i].about, v->about)) {
			d->list[i].count++;
			return;
		}
	mem_reserve(&d->list, &d->capacity, d->count, sizeof(*d->list));
	d->list[d->count++] = (struct dispute){v->name, v->about, section, at, 1};
}

static void dispute_report(struct subject *s, const struct dispute *d)
{
	const struct code_section *c = &s->frames.space.list[d->section];
	uint64_t off = d->at - c->addr, at = elf_is_object(s->file) ? off : d->at;
	const uint8_t *bytes = c->bytes + off;
	char hex[3 * 15 + 1] = "";
	struct insn_views v;
	struct finding *x;
	struct insn in;
	unsigned i, n = 0;

	if (insn_views_compare(bytes, c->size - off, at, &v) != VIEWS_DIFFER)
		return;
	x = d->count > 1 ? finding_add(&s->found, "ETCH-D004", c->section, at,
	                               "the decoders disagree about %s, here and at %zu more %s instructions", v.about,
	                               d->count - 1, v.name)
	                 : finding_add(&s->found, "ETCH-D004", c->section, at, "the decoders disagree about %s", v.about);
	if (insn_decode(bytes, c->size - off, at, &in))
		for (i = 0; i < in.len; i++)
			n += (unsigned)snprintf(hex + n, sizeof(hex) - n, i ? " %02x" : "%02x", bytes[i]);
	finding_fact(x, "Zydis", "%s", v.first);
	finding_fact(x, "Capstone", "%s", v.second);
	finding_fact(x, "bytes", "%s", hex);
}

/* Compares the decoders on one instruction. The address of the instruction matters only for the target of a branch. */
static void insn_check(const struct subject *s, struct disputes *d, size_t section, uint64_t at)
{
	const struct code_section *c = &s->frames.space.list[section];
	const uint8_t *bytes = c->bytes + (at - c->addr);
	size_t avail = c->size - (at - c->addr);
	enum insn_verdict verdict = VIEWS_AGREE;
	struct insn_views v;
	uint64_t key;

	if (!s->options->both_decoders && insn_is_agreed(bytes, avail))
		return;
	key = insn_form_key(bytes, avail);
	if (!key || s->options->both_decoders || !form_is_agreed(key))
		verdict = insn_views_compare(bytes, avail, at, &v);
	if (verdict == VIEWS_MISSING)
		unjudged_note(&d->unjudged, v.first, section, at);
	if (verdict == VIEWS_AGREE && key) {
		form_learn(key);
		insn_agreed(bytes, avail);
	}
	if (verdict == VIEWS_DIFFER)
		dispute_note(d, &v, section, at);
}

void check_decoders(struct subject *s)
{
	const struct code_space *space = &s->frames.space;
	struct disputes d = {0};
	size_t i;

	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];
		uint64_t at = c->addr;

		for (; (at = reached_next(&s->frames.reached, space, i, at)) != UINT64_MAX; at++)
			insn_check(s, &d, i, at);
	}
	for (i = 0; i < d.count; i++)
		dispute_report(s, &d.list[i]);
	unjudged_report(s, &d.unjudged);
	free(d.list);
}
