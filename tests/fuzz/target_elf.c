/* SPDX-License-Identifier: MIT */
/* The ELF reader, the relocations, archives, and the record of what a file was. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "input/archive.h"
#include "output/delta.h"
#include "elf/dynamic.h"
#include "elf/hardening.h"
#include "output/undo.h"

#include <xxhash.h>

/* Everything that a header promises is there. */
static uint64_t touch(const struct elf_file *f)
{
	uint64_t sum = 0, k;
	uint32_t i;

	for (i = 0; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];

		sum += strlen(s->name) + elf_section_rela(f, i, 1);
		for (k = 0; s->data && k < s->sh.sh_size; k++)
			sum += s->data[k];
		must(s->sh.sh_link < f->section_count);
	}
	for (i = 0; i < f->symbol_count; i++) {
		sum += strlen(f->symbols[i].name);
		must(f->symbols[i].section < f->section_count);
	}
	for (i = 0; i < f->dynsym_count; i++) {
		sum += strlen(f->dynsyms[i].name);
		must(f->dynsyms[i].section < f->section_count);
	}
	return sum;
}

/* The same one by one. */
static uint32_t first_holder(const struct elf_file *f, uint64_t addr)
{
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const Elf64_Shdr *sh = &f->sections[i].sh;

		if ((sh->sh_flags & SHF_ALLOC) && !(sh->sh_flags & SHF_TLS) && addr >= sh->sh_addr &&
		    addr - sh->sh_addr < sh->sh_size)
			return i;
	}
	return 0;
}

/* What is handed out for an address is in the file, and none of it is of a section without contents. */
static void held_check(const struct elf_file *f, uint32_t section)
{
	const Elf64_Shdr *sh = &f->sections[section].sh;
	const uint64_t offsets[] = {0, 1, sh->sh_size / 2, sh->sh_size - 1, sh->sh_size, sh->sh_size + 1, ~0ull};
	size_t i;

	for (i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
		struct elf_held held = elf_held(f, section, (elf_is_object(f) ? 0 : sh->sh_addr) + offsets[i]);

		must(!held.size == !held.bytes && !(held.size && sh->sh_type == SHT_NOBITS));
		must(!held.size || (held.bytes >= f->bytes && held.bytes - f->bytes + held.size <= f->size &&
		                    held.size == sh->sh_size - offsets[i]));
	}
}

static void ask_for_holders(const struct elf_file *f)
{
	uint64_t end;
	uint32_t i;
	int k;

	for (i = 0; i < f->section_count && i < 64; i++)
		held_check(f, i);
	for (i = 0; !elf_is_object(f) && i < f->section_count && i < 64; i++) {
		end = f->sections[i].sh.sh_addr + f->sections[i].sh.sh_size;
		for (k = -1; k <= 1; k++) {
			must(elf_section_at(f, f->sections[i].sh.sh_addr + (uint64_t)k) ==
			     first_holder(f, f->sections[i].sh.sh_addr + (uint64_t)k));
			must(elf_section_at(f, end + (uint64_t)k) == first_holder(f, end + (uint64_t)k));
		}
	}
}

void fuzz_elf(const uint8_t *data, size_t size)
{
	struct elf_hardening hardening;
	struct elf_file f;
	const uint8_t *id, *at;
	char text[64];
	uint32_t i;
	size_t n;

	if (fuzz_open(&f, data, size)) {
		touch(&f);
		ask_for_holders(&f);
		n = elf_build_id(&f, &id);
		must(id >= f.bytes && id <= f.bytes + f.size && n <= (size_t)(f.bytes + f.size - id));
		for (i = 0; i < f.phdr_count; i++) {
			at = elf_at(&f, f.phdrs[i].p_vaddr, f.phdrs[i].p_filesz);
			must(!at || (at >= f.bytes && f.phdrs[i].p_filesz <= (size_t)(f.bytes + f.size - at)));
		}
		for (i = 0; i < f.symbol_count && i < 64; i++) {
			elf_describe(&f, f.symbols[i].section, f.symbols[i].value, text, sizeof(text));
			must(memchr(text, 0, sizeof(text)));
		}
		elf_is_pie(&f);
		elf_is_slim_lto(&f);
		elf_hardening_read(&f, &hardening);
	}
	elf_close(&f);
}

void fuzz_relocs(const uint8_t *data, size_t size)
{
	struct elf_reloc *r;
	struct elf_file f;
	struct error e;
	uint32_t i;
	long n, k;

	if (fuzz_open(&f, data, size)) {
		for (i = 0; i < f.section_count; i++) {
			if (f.sections[i].sh.sh_type != SHT_RELA)
				continue;
			n = elf_relocs(&f, i, &r, &e);
			for (k = 1; k < n; k++)
				must(r[k].offset >= r[k - 1].offset);
			for (k = 0; k < n; k++)
				must(!r[k].symbol || r[k].symbol < f.symbol_count || r[k].symbol < f.dynsym_count);
			if (n >= 0)
				free(r);
		}
	}
	elf_close(&f);
}

struct members {
	uint64_t size, count;
};

static void member(void *ctx, const struct archive_member *m)
{
	struct members *l = ctx;

	must(m->thin || (m->offset <= l->size && m->size <= l->size - m->offset));
	must(strlen(m->name) < 5000);
	must(++l->count < 1u << 20);
}

void fuzz_archive(const uint8_t *data, size_t size)
{
	struct members l = {.size = size};
	int fd = memfd_create("archive", MFD_CLOEXEC);
	uint64_t at, offset, length;
	struct error e;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	archive_each(fd, 0, size, member, &l, &e);
	must(l.count <= size / 60 + 1);
	for (at = 0; at < size; at += size / 8 + 1)
		if (!archive_member_at(fd, at, size, &offset, &length, &e))
			must(offset <= size && length <= size - offset);
	close(fd);
}

static void hash_put(uint8_t to[16], const void *data, size_t size)
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(data, size));
	memcpy(to, c.digest, sizeof(c.digest));
}

/* Hashes that fit, in the record that the file ends with, whatever else it says: who lies has them right
 * (docs/formats.md has the offsets). */
static void record_sign(uint8_t *file, size_t size)
{
	uint64_t sizes[2] = {0}; /* of the original, of what is kept */
	uint8_t *at = file, *next, *kept, *original;

	while ((next = memmem(at + 1, size - (size_t)(at + 1 - file), "etchundo", 8)))
		at = next;
	if (at == file || size - (size_t)(at - file) < 128)
		return;
	memcpy(sizes, at + 16, sizeof(sizes));
	if (sizes[1] < 64 || sizes[1] > size || sizes[0] > 4 * size)
		return;
	kept = fuzz_copy(file, sizes[1]);
	original = calloc(1, sizes[0] + 1);
	memcpy(kept + offsetof(Elf64_Ehdr, e_shoff), at + 64 + offsetof(Elf64_Ehdr, e_shoff), sizeof(Elf64_Off));
	memcpy(kept + offsetof(Elf64_Ehdr, e_shnum), at + 64 + offsetof(Elf64_Ehdr, e_shnum), sizeof(Elf64_Half));
	if (original && !delta_apply(kept, sizes[1], at + 128, size - (size_t)(at + 128 - file), original, sizes[0]))
		hash_put(at + 32, original, sizes[0]);
	hash_put(at + 48, kept, sizes[1]);
	free(original);
	free(kept);
}

/* What a record gives is an ELF file's size, in proportion, and can be put into a record again. */
static void record_check(const uint8_t *data, size_t size)
{
	struct undo undo, again;
	struct error e;
	int r = undo_detach(data, size, &undo, &e);

	must(r != 1 || (undo.original_size >= sizeof(Elf64_Ehdr) && undo.original_size <= 64 * size + 4096));
	if (r == 1 && undo_attach(&undo.kept, &undo.kept_size, undo.original, undo.original_size, &e)) {
		must(undo_detach(undo.kept, undo.kept_size, &again, &e) == 1);
		must(again.original_size == undo.original_size && !memcmp(again.original, undo.original, undo.original_size));
		undo_free(&again);
	}
	undo_free(&undo);
}

/* What comes out again is what was put in; of anything else, something of a likely size. */
void fuzz_undo(const uint8_t *data, size_t size)
{
	uint8_t *out = fuzz_copy(data, size), *want;
	struct undo again;
	size_t out_size = size;
	struct error e;

	record_check(out, size);
	if (size > sizeof(Elf64_Ehdr))
		record_sign(out, size);
	record_check(out, size);
	memcpy(out, data, size);
	want = fuzz_copy(data, size / 2);
	if (undo_attach(&out, &out_size, want, size / 2, &e)) {
		must(undo_detach(out, out_size, &again, &e) == 1);
		must(again.original_size == size / 2 && !memcmp(again.original, want, size / 2));
		must(again.kept_size == size && !memcmp(again.kept, data, size));
		undo_free(&again);
	}
	free(out);
	free(want);
	want = malloc(4096);
	if (want && size > 16)
		delta_apply(data, size / 2, data + size / 2, size - size / 2, want, 4096);
	free(want);
}
