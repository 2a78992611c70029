/* SPDX-License-Identifier: MIT */
/*
 * The note about the rewrite is the section .note.etch. It is a note of type NT_VERSION without a descriptor, whose
 * text is in the name of the owner (gABI, "Note Section"; elf.h). readelf -n shows it, and eu-elflint accepts this type
 * from any owner.
 */
#include "unwinding/unwind_make.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define WAS ", was XXH3 "

/* Returns the hash in the note of an earlier run, or null if the section is not such a note. */
static const char *hash_in(const struct elf_section *s)
{
	const char *at = NULL;

	if (s->data && s->sh.sh_size > sizeof(Elf64_Nhdr) + 16)
		at = memmem(s->data, s->sh.sh_size - 16, WAS, strlen(WAS));
	at += at ? strlen(WAS) : 0;
	return at && strspn(at, "0123456789abcdef") >= 16 && at[16] == '\0' ? at : NULL;
}

/* The words in the note which say that FDEs were replaced, by enum eh_replace. */
static const char *const replaced[] = {"", " --fix-cfi", " --eh-frame=all"};

enum eh_replace rewrite_note_replaces(const struct elf_file *f)
{
	uint32_t i = 0;

	while ((i = elf_section_find(f, NOTE_SECTION, i + 1))) {
		const char *hash = hash_in(&f->sections[i]);
		enum eh_replace x = EH_REPLACE_ALL;
		size_t before = hash ? (size_t)((const uint8_t *)hash - f->sections[i].data) - strlen(WAS) : 0;

		for (; hash && x; x--)
			if (before >= strlen(replaced[x]) &&
			    !memcmp(hash - strlen(WAS) - strlen(replaced[x]), replaced[x], strlen(replaced[x])))
				return x;
	}
	return EH_REPLACE_NONE;
}

/* Writes the hash of the original file to `hash`: the hash in the note of an earlier run or, if there is none, the hash
 * of `was`. */
static void hash_report(const struct elf_file *f, const uint8_t *was, char hash[17])
{
	const char *at = NULL;
	uint32_t i = 0;

	/* another tool's section may have the same name */
	while (!at && (i = elf_section_find(f, NOTE_SECTION, i + 1)))
		at = hash_in(&f->sections[i]);
	if (at)
		memcpy(hash, at, 17);
	else
		snprintf(hash, 17, "%016" PRIx64, (uint64_t)XXH3_64bits(was, f->size));
}

void rewrite_note_add(struct linked_unwind *u, const struct elf_file *f, const uint8_t *was, enum eh_replace replace)
{
	Elf64_Nhdr head = {.n_type = NT_VERSION};
	char hash[17], text[80];
	uint8_t *data;
	size_t size;

	hash_report(f, was, hash);
	head.n_namesz =
		(Elf64_Word)snprintf(text, sizeof(text), "etch %s%s" WAS "%s", ETCH_VERSION, replaced[replace], hash) + 1;
	size = sizeof(head) + (head.n_namesz + 3u) / 4 * 4;
	data = mem_zero(size, 1);
	memcpy(data, &head, sizeof(head));
	memcpy(data + sizeof(head), text, head.n_namesz);
	u->sections[u->count++] =
		(struct segment_section){.name = NOTE_SECTION, .type = SHT_NOTE, .align = 4, .data = data, .size = size};
}
