/* SPDX-License-Identifier: MIT */
/* Opens kernel files (kernel.h): recognizes them by their sections and finds their release. */
#include "kernel/kernel.h"

#include <etch/format.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sections of programs that include etch/imv.h, and of objects that etch has processed. */
static const char *const etch_sections[] = {ETCH_SEC_MODULE, ETCH_SEC_IMV, ETCH_SEC_OBJ, ETCH_SEC_PV};

/* Sections that identify modules and vmlinux. */
static const char *const kernel_sections[] = {
	".modinfo",    ".gnu.linkonce.this_module", "__ksymtab", "__ksymtab_gpl", "__ksymtab_strings", "__bug_table",
	".orc_header",
};

/*
 * Sections that identify the objects of the kernel's build. A program may also have a section with one of these names.
 */
static const char *const object_sections[] = {
	".altinstructions", ".parainstructions", ".smp_locks", ".static_call_sites", ".retpoline_sites",
	".return_sites",    ".call_sites",       ".cfi_sites", ".ibt_endbr_seal",    "__jump_table",
};

static const char *first_of(const struct elf_file *f, const char *const *names, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (elf_section_find(f, names[i], 1))
			return names[i];
	return NULL;
}

#define FIRST_OF(f, names) first_of(f, names, sizeof(names) / sizeof((names)[0]))

const char *kernel_sign(const struct elf_file *f)
{
	const char *name;

	if (FIRST_OF(f, etch_sections))
		return NULL;
	name = FIRST_OF(f, kernel_sections);
	return name || !elf_is_object(f) ? name : FIRST_OF(f, object_sections);
}

const char *kernel_kind(const struct kernel *k)
{
	if (!elf_is_object(k->file))
		return "vmlinux";
	return elf_section_find(k->file, ".gnu.linkonce.this_module", 1) ? "kernel module" : "kernel object";
}

/* ---- the release -------------------------------------------------------------- */

/* Copies a release up to the next space; it must start with two numbers. Returns false if the text is not a release. */
static bool release_take(struct kernel *k, const char *from, const uint8_t *p, size_t left)
{
	unsigned major, minor;
	char text[sizeof(k->release)];
	size_t n = 0;

	while (n < left && n + 1 < sizeof(text) && p[n] > ' ' && p[n] < 0x7f) {
		text[n] = (char)p[n];
		n++;
	}
	text[n] = 0;
	if (sscanf(text, "%4u.%3u", &major, &minor) != 2 || major > 99)
		return false;
	memcpy(k->release, text, n + 1);
	k->release_from = from;
	k->version = KERNEL_VERSION_OF(major, minor);
	return true;
}

static bool release_find(struct kernel *k, uint32_t section, const char *before, const char *from)
{
	const struct elf_section *s = &k->file->sections[section];
	const uint8_t *p = s->data, *end = p + s->sh.sh_size;
	size_t n = strlen(before);

	while (p && (p = memmem(p, (size_t)(end - p), before, n))) {
		p += n;
		if (release_take(k, from, p, (size_t)(end - p)))
			return true;
	}
	return false;
}

/*
 * Reads the release from a module's vermagic (include/linux/vermagic.h), or from the banner that a kernel prints at
 * boot (init/version.c). The banner is in the constant data of vmlinux.
 */
static void release_read(struct kernel *k)
{
	const struct elf_file *f = k->file;
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		if (f->sections[i].data && !strcmp(f->sections[i].name, ".modinfo") &&
		    release_find(k, i, "vermagic=", ".modinfo"))
			return;
	for (i = 1; i < f->section_count && !elf_is_object(f); i++)
		if (f->sections[i].data && (f->sections[i].sh.sh_flags & SHF_ALLOC) &&
		    !(f->sections[i].sh.sh_flags & SHF_EXECINSTR) && release_find(k, i, "Linux version ", "its banner"))
			return;
}

int kernel_open(struct kernel *k, const struct elf_file *f, const char *map, struct error *e)
{
	memset(k, 0, sizeof(*k));
	k->file = f;
	k->sign = kernel_sign(f);
	kernel_relocs_open(k);
	release_read(k);
	return kernel_symbols_load(k, map, e);
}

void kernel_close(struct kernel *k)
{
	kernel_symbols_free(&k->symbols);
	kernel_relocs_free(k);
	memset(k, 0, sizeof(*k));
}
