/* SPDX-License-Identifier: MIT */
/* Reads program headers, dynamic section and property note into struct elf_hardening, for `etch check`. */
#include "elf/hardening.h"

#include <string.h>

static uint32_t word(const uint8_t *p)
{
	uint32_t w;

	memcpy(&w, p, sizeof(w));
	return w;
}

/* Reads the properties of one note: each has a type, a size and as many bytes, padded to a multiple of 8. */
static void properties_read(const uint8_t *p, uint64_t size, struct elf_hardening *out)
{
	while (size >= 8) {
		uint64_t data = word(p + 4), step = 8 + ((data + 7) & ~7ull);

		if (data > size - 8)
			return;
		if (word(p) == GNU_PROPERTY_X86_FEATURE_1_AND && data >= 4) {
			out->ibt = word(p + 8) & GNU_PROPERTY_X86_FEATURE_1_IBT;
			out->shstk = word(p + 8) & GNU_PROPERTY_X86_FEATURE_1_SHSTK;
		}
		if (step > size)
			return;
		p += step;
		size -= step;
	}
}

/* Notes in .note.gnu.property are padded to 8 bytes (psABI); the 12-byte header and the 4-byte owner "GNU" take 16. */
static void property_note_read(const uint8_t *p, uint64_t size, struct elf_hardening *out)
{
	while (size >= sizeof(Elf64_Nhdr) + 4) {
		Elf64_Nhdr h;
		uint64_t step;

		memcpy(&h, p, sizeof(h));
		if (h.n_namesz != 4 || h.n_descsz > size - sizeof(h) - 4)
			return;
		if (h.n_type == NT_GNU_PROPERTY_TYPE_0 && !memcmp(p + sizeof(h), ELF_NOTE_GNU, 4))
			properties_read(p + sizeof(h) + 4, h.n_descsz, out);
		step = sizeof(h) + 4 + (((uint64_t)h.n_descsz + 7) & ~7ull);
		if (step > size)
			return;
		p += step;
		size -= step;
	}
}

static bool binds_now(const struct elf_file *f)
{
	uint64_t value;

	return elf_dynamic(f, DT_BIND_NOW, &value) || (elf_dynamic(f, DT_FLAGS, &value) && (value & DF_BIND_NOW)) ||
	       (elf_dynamic(f, DT_FLAGS_1, &value) && (value & DF_1_NOW));
}

static void segments_read(const struct elf_file *f, struct elf_hardening *out)
{
	bool dynamic = false, relro = false, interpreter = false;
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_DYNAMIC)
			dynamic = true;
		else if (p->p_type == PT_GNU_RELRO)
			relro = true;
		else if (p->p_type == PT_INTERP)
			interpreter = true;
		else if (p->p_type == PT_GNU_STACK)
			out->stack = p->p_flags & PF_X ? STACK_EXECUTABLE : STACK_PLAIN;
	}
	out->is_static = (out->pie || f->eh.e_type == ET_EXEC) && !interpreter;
	out->relro = RELRO_NONE;
	if (relro)
		out->relro = !dynamic || binds_now(f) ? RELRO_FULL : RELRO_PARTIAL;
}

void elf_hardening_read(const struct elf_file *f, struct elf_hardening *out)
{
	uint32_t i;

	memset(out, 0, sizeof(*out));
	out->pie = elf_is_pie(f);
	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];

		if (s->sh.sh_type == SHT_NOTE && s->data && !strcmp(s->name, ".note.gnu.property"))
			property_note_read(s->data, s->sh.sh_size, out);
		else if (elf_is_object(f) && !strcmp(s->name, ".note.GNU-stack"))
			out->stack = s->sh.sh_flags & SHF_EXECINSTR ? STACK_EXECUTABLE : STACK_PLAIN;
	}
	if (!elf_is_object(f))
		segments_read(f, out);
}

const char *elf_relro_name(enum elf_relro r)
{
	static const char *const names[] = {"none", "partial", "full"};

	return names[r];
}

const char *elf_stack_name(enum elf_stack s)
{
	static const char *const names[] = {"unmarked", "not executable", "executable"};

	return names[s];
}
