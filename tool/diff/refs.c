/* SPDX-License-Identifier: MIT */
/*
 * Makes references to functions, symbols, the contents of constants, jump tables, GOT slots and the bounds of sections.
 */
#include "diff/image.h"
#include "diff/jump_tables.h"
#include "shared/search.h"

#include "arch/x86/address_free.h"
#include "arch/x86/fast_decoder.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STRING_MOST    65536u /* in bytes; longer strings are compared only up to this length */
#define CODE_HASH_MOST 4u     /* number of instructions by which a place inside another function is identified */

/* ---- code -------------------------------------------------------------------- */

/* Returns a hash that identifies a place in code: of its first instructions, without their addresses. */
static uint32_t code_hash_at(const struct image *im, struct place at)
{
	struct elf_held held = elf_held(&im->file, at.section, at.addr);
	uint64_t off = 0, h = 1;
	struct normal n;
	unsigned i;

	for (i = 0; i < CODE_HASH_MOST && off < held.size; i++) {
		if (!normal_decode(held.bytes + off, held.size - off, at.addr + off, &n))
			break;
		h = mix(h, hash_bytes(n.code, n.code_len));
		off += n.len;
	}
	return (uint32_t)(h ^ h >> 32) | 1;
}

/* Returns the dynamic relocation of the slot through which a PLT entry jumps, or null. */
static const struct dynamic_reloc *plt_reloc(const struct image *im, struct place at)
{
	struct elf_held entry = elf_held(&im->file, at.section, at.addr);
	uint64_t slot;

	if (elf_is_object(&im->file) || !entry.size || strncmp(im->file.sections[at.section].name, ".plt", 4))
		return NULL;
	slot = plt_slot(entry.bytes, entry.size, at.addr);
	return slot ? place_dynamic(im, slot, 1) : NULL;
}

/* Makes a reference to a place in a section of code. */
static void code_ref(const struct image *im, struct place at, const struct ref_use *use, struct xref *out, char *text,
                     size_t size)
{
	const struct dynamic_reloc *plt = plt_reloc(im, at);
	uint32_t fn;

	if (plt && plt->type == R_X86_64_IRELATIVE && place_section(im, plt->addend))
		/* the relocation is that of an IFUNC, and its addend is the resolver */
		at = (struct place){place_section(im, plt->addend), plt->addend};
	fn = place_is_code(im, at.section) ? image_function(im, at.section, at.addr) : NO_FUNC;
	if (plt && plt->symbol && plt->symbol->name[0]) {
		*out = (struct xref){.kind = REF_NAMED, .value = name_hash(&im->names, plt->symbol->name)};
		if (text)
			snprintf(text, size, "%.*s", (int)size, plt->symbol->name);
	} else if (fn == NO_FUNC) {
		*out = (struct xref){.kind = REF_DATA, .value = at.addr, .more = at.section};
		if (text)
			snprintf(text, size, "%.*s", (int)size, im->file.sections[at.section].name);
	} else if (use && fn == use->func) {
		*out = (struct xref){.kind = REF_INSIDE, .value = at.addr};
	} else {
		bool start = im->funcs[fn].start == at.addr;

		*out = (struct xref){.kind = REF_FUNCTION, .value = fn, .more = start ? 0 : code_hash_at(im, at)};
		if (text) {
			image_name(im, fn, text, size);
			if (!start && strlen(text) + 4 < size)
				strcat(text, "+..");
		}
	}
}

/* ---- data -------------------------------------------------------------------- */

/* True if an operand of the function holds an address in [lo, hi). */
static bool uses(const struct ref_use *use, uint32_t section, uint64_t lo, uint64_t hi)
{
	struct place first = {section, lo};
	size_t a = SEARCH(use->own_count, i, place_order(&use->own[i], &first) < 0);

	return a < use->own_count && use->own[a].section == section && use->own[a].addr < hi;
}

/*
 * Returns an object that ends at `at`, if the function also refers to addresses inside that object; otherwise null.
 * Such an operand is the end of a loop over the object, rather than the start of the data that follows it.
 */
static const struct elf_symbol *object_before(const struct image *im, struct place at, const struct ref_use *use,
                                              const struct elf_symbol *here)
{
	const struct symbol_index *objects = &im->places.objects;
	size_t i = at.addr ? symbol_index_above(objects, at.section, at.addr - 1) : 0;
	const struct elf_symbol *last = i ? objects->list[i - 1] : NULL, *s = NULL;

	if (use->access || !last || last->section != at.section || (here && here->value != at.addr))
		return NULL;
	for (; i > 0 && objects->list[i - 1]->section == at.section && objects->list[i - 1]->value == last->value; i--)
		if (last->value + objects->list[i - 1]->size == at.addr)
			s = objects->list[i - 1];
	return s && uses(use, at.section, s->value, at.addr) ? s : NULL;
}

/*
 * True for sections whose contents are not compared: those over which code iterates from a start symbol to an end
 * symbol, and etch's own tables, since a rewrite changes them.
 */
static bool is_set(const struct elf_section *s)
{
	const char *p = s->name;

	if (!strncmp(p, ".etch", 5) || !strncmp(p, ".orc_", 5) || !strcmp(p, ".eh_frame"))
		return true;
	while (isalnum((unsigned char)*p) || *p == '_')
		p++;
	return p > s->name && !*p;
}

static void bound_ref(const struct image *im, const struct elf_section *s, bool end, struct xref *out, char *text,
                      size_t size)
{
	*out = (struct xref){
		.kind = REF_NAMED, .value = name_hash(&im->names, s->name), .more = end ? UINT32_MAX : UINT32_MAX - 1};
	if (text)
		snprintf(text, size, "%s of %.*s", end ? "end" : "start", (int)size, s->name);
}

/* Returns the loaded section that ends at an address, or 0. */
static uint32_t loaded_before(const struct image *im, uint64_t addr)
{
	const struct places *p = &im->places;
	size_t k = SEARCH(p->loaded_count, i, im->file.sections[p->loaded[i]].sh.sh_addr < addr);
	const Elf64_Shdr *sh = k ? &im->file.sections[p->loaded[k - 1]].sh : NULL;

	return sh && sh->sh_addr + sh->sh_size == addr ? p->loaded[k - 1] : 0;
}

/* Returns the loaded section that begins at an address, or 0. */
static uint32_t loaded_at(const struct image *im, uint64_t addr)
{
	const struct places *p = &im->places;
	size_t k = SEARCH(p->loaded_count, i, im->file.sections[p->loaded[i]].sh.sh_addr < addr);

	return k < p->loaded_count && im->file.sections[p->loaded[k]].sh.sh_addr == addr ? p->loaded[k] : 0;
}

static bool same_set(const struct image *old, uint32_t a, const struct image *new, uint32_t b)
{
	const struct elf_section *s = &old->file.sections[a], *t = &new->file.sections[b];

	return a && b && is_set(s) && !name_order(&old->names, s->name, &new->names, t->name);
}

/*
 * Returns the section that ends at an address, or null. Unless `any` is set, the function must also refer to addresses
 * inside the section.
 */
static const struct elf_section *section_before(const struct image *im, uint64_t addr, const struct ref_use *use,
                                                bool any)
{
	uint32_t i = loaded_before(im, addr);
	const struct elf_section *s = &im->file.sections[i];

	return i && (any || uses(use, i, s->sh.sh_addr, addr)) ? s : NULL;
}

/*
 * Makes a reference to the start or the end of a section. An address may be the end of one section (.fini_array) and
 * the start of the next. Returns false if the place is neither.
 */
static bool section_ref(const struct image *im, struct place at, const struct ref_use *use, struct xref *out,
                        char *text, size_t size)
{
	const struct elf_section *here = &im->file.sections[at.section], *before;

	if (use->access || elf_is_object(&im->file) || here->sh.sh_addr != at.addr)
		return false;
	before = section_before(im, at.addr, use, false);
	if (!before && !is_set(here))
		return false;
	bound_ref(im, before ? before : here, before, out, text, size);
	return true;
}

/* Linked files: makes a reference to an address outside of all sections. */
static void outside_ref(const struct image *im, uint64_t addr, const struct ref_use *use, struct xref *out, char *text,
                        size_t size)
{
	const struct elf_section *before = elf_is_object(&im->file) ? NULL : section_before(im, addr, use, true);

	if (before) {
		bound_ref(im, before, true, out, text, size);
		return;
	}
	*out = (struct xref){.kind = REF_DATA, .value = addr};
	if (text)
		snprintf(text, size, "0x%" PRIx64, addr);
}

bool ref_bounds_meet(const struct image *old, uint64_t a, const struct image *new, uint64_t b)
{
	return same_set(old, loaded_at(old, a), new, loaded_at(new, b)) ||
	       same_set(old, loaded_before(old, a), new, loaded_before(new, b));
}

/*
 * Returns the length of an object's name without the number at its end, as in "CSWTCH.12" or "buf.0". Compilers number
 * such objects differently in each build.
 */
static size_t object_base(const struct elf_symbol *s)
{
	size_t n = strnlen(s->name, NAME_SHORT + 1), k = n;

	if (s->bind != STB_LOCAL || n > NAME_SHORT)
		return n;
	while (k > 0 && isdigit((unsigned char)s->name[k - 1]))
		k--;
	return k > 1 && k < n && s->name[k - 1] == '.' ? k - 1 : n;
}

static void object_ref(const struct image *im, const struct elf_symbol *s, int64_t offset, struct xref *out, char *text,
                       size_t size)
{
	size_t base = object_base(s);
	struct place at = {s->section, s->value};
	bool whole = base > NAME_SHORT || !s->name[base];
	const uint8_t *p = whole ? NULL : place_bytes(im, at, s->size);

	*out = (struct xref){.kind = REF_NAMED,
	                     .value = whole ? name_hash(&im->names, s->name) : hash_bytes(s->name, base),
	                     .more = (uint32_t)offset};
	/* The name of this constant was made by the compiler, so the contents identify the constant. */
	if (p && !(im->file.sections[s->section].sh.sh_flags & SHF_WRITE) && s->size <= STRING_MOST &&
	    !place_is_relocated(im, at, s->size))
		*out = (struct xref){.kind = REF_CONTENT, .value = mix(hash_bytes(p, s->size), (uint64_t)offset)};
	if (text && offset)
		snprintf(text, size, "%.*s%+" PRId64, (int)base, s->name, offset);
	else if (text)
		snprintf(text, size, "%.*s", (int)base, s->name);
}

/*
 * Returns the address at which the data at a place ends at the latest: the next data address in operands of code, or
 * the end of the section.
 */
static uint64_t limit_of(const struct image *im, struct place at)
{
	const Elf64_Shdr *sh = &im->file.sections[at.section].sh;
	uint64_t end = (elf_is_object(&im->file) ? 0 : sh->sh_addr) + sh->sh_size;
	size_t lo = SEARCH(im->places.used_count, i, place_order(&im->places.used[i], &at) <= 0);

	if (lo < im->places.used_count && im->places.used[lo].section == at.section && im->places.used[lo].addr < end)
		return im->places.used[lo].addr;
	return end;
}

/* Returns the length of the UTF-8 character whose first byte is given, or 0 if no character begins with this byte. */
static size_t character_length(uint8_t first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/*
 * Returns the length of the UTF-8 character at p, in a buffer that ends with a zero, or 0 if it is not a character of
 * text.
 */
static size_t character(const uint8_t *p)
{
	size_t n = character_length(*p), i;

	if (*p < 0x20 && !(*p >= 7 && *p <= 13) && *p != 0x1b)
		return 0;
	for (i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* Returns the length of the string at a place including its terminator, or 0 if there is no string. */
static size_t string_at(const struct image *im, struct place at)
{
	struct elf_held held = elf_held(&im->file, at.section, at.addr);
	const uint8_t *p = held.bytes;
	bool known = im->file.sections[at.section].sh.sh_flags & SHF_STRINGS;
	size_t most = held.size < STRING_MOST ? held.size : STRING_MOST, n, step;
	const uint8_t *end = p ? memchr(p, 0, most) : NULL;

	if (!end)
		return 0;
	for (n = 0; p + n < end && !known; n += step) {
		step = character(p + n);
		if (!step)
			return 0;
	}
	return end > p || known ? (size_t)(end - p) + 1 : 0;
}

static void string_text(const uint8_t *p, size_t n, char *text, size_t size)
{
	size_t k = 0, i;

	text[k++] = '"';
	for (i = 0; i < n && p[i] && k + 8 < size && k < 60; i++) {
		if (p[i] == '"' || p[i] == '\\')
			text[k++] = '\\';
		if (p[i] == '\n' || p[i] == '\t') {
			text[k++] = '\\';
			text[k++] = p[i] == '\n' ? 'n' : 't';
		} else {
			text[k++] = p[i] < 0x20 || p[i] == 0x7f ? '?' : (char)p[i];
		}
	}
	k += (size_t)snprintf(text + k, size - k, "%s", i < n && p[i] ? "\".." : "\"");
}

/* Makes a reference to the contents of n bytes. Returns false if the bytes are not constant, or too many. */
static bool content_ref(const struct image *im, struct place at, unsigned n, struct xref *out, char *text, size_t size)
{
	const uint8_t *p =
		n && n <= 64 && !(im->file.sections[at.section].sh.sh_flags & SHF_WRITE) ? place_bytes(im, at, n) : NULL;
	unsigned i;

	if (!p || place_is_relocated(im, at, n))
		return false;
	*out = (struct xref){.kind = REF_CONTENT, .value = hash_bytes(p, n)};
	if (!text)
		return true;
	snprintf(text, size, "{0x");
	for (i = n; i-- > 0 && strlen(text) + 8 < size && n - i <= 16;)
		snprintf(text + strlen(text), size - strlen(text), "%02x", p[i]);
	snprintf(text + strlen(text), size - strlen(text), "%s", n > 16 ? "..}" : "}");
	return true;
}

static bool table_ref(const struct image *im, struct place at, struct xref *out, char *text, size_t size)
{
	unsigned width;
	size_t n = jump_table_at(im, at, limit_of(im, at) - at.addr, &width);

	if (!n)
		return false;
	*out = (struct xref){.kind = REF_TABLE, .value = at.addr, .more = (uint32_t)n << 4 | width, .section = at.section};
	if (text)
		snprintf(text, size, "(table of %zu)", n);
	return true;
}

/* Makes a reference to data without a symbol. */
static void nameless_ref(const struct image *im, struct place at, const struct ref_use *use, struct xref *out,
                         char *text, size_t size)
{
	const struct elf_section *s = &im->file.sections[at.section];
	bool set = is_set(s);
	size_t n;

	if (!set && content_ref(im, at, use->access, out, text, size))
		return;
	if (!set && !use->access && table_ref(im, at, out, text, size))
		return;
	n = set || use->access || (s->sh.sh_flags & SHF_WRITE) ? 0 : string_at(im, at);
	if (n) {
		const uint8_t *p = place_bytes(im, at, n);

		*out = (struct xref){.kind = REF_CONTENT, .value = hash_bytes(p, n)};
		if (text)
			string_text(p, n, text, size);
		return;
	}
	*out = (struct xref){.kind = REF_DATA, .value = at.addr, .more = at.section};
	if (text)
		snprintf(text, size, "%.*s", (int)size, s->name);
}

/*
 * Makes a reference to the value that a GOT slot has at run time. Returns false if the place is not a slot, or the
 * value is unknown.
 */
static bool slot_ref(const struct image *im, struct place at, struct xref *out, char *text, size_t size)
{
	static const struct ref_use any = {.func = NO_FUNC};
	const struct dynamic_reloc *r = place_dynamic(im, at.addr, 1);
	uint64_t v = r ? r->addend : 0;
	const uint8_t *p = place_bytes(im, at, 8);
	uint32_t section;

	if (elf_is_object(&im->file) || strncmp(im->file.sections[at.section].name, ".got", 4))
		return false;
	if (r && r->symbol && r->symbol->name[0]) {
		*out = (struct xref){.kind = REF_NAMED, .value = name_hash(&im->names, r->symbol->name)};
		if (text)
			snprintf(text, size, "%.*s", (int)size, r->symbol->name);
		return true;
	}
	if (r && r->type == R_X86_64_TPOFF64)
		return ref_thread(im, (int64_t)(v - im->places.tls_size), out, text, size);
	if (!r && p)
		memcpy(&v, p, 8);
	section = r && r->type != R_X86_64_RELATIVE && r->type != R_X86_64_IRELATIVE ? 0 : place_section(im, v);
	/*
	 * The value must not lead to another GOT slot, since the recursion might not end. It must not lead to the start of
	 * a data section either, since that address may instead mean the end of the section before.
	 */
	if (!section || !strncmp(im->file.sections[section].name, ".got", 4) ||
	    (v == im->file.sections[section].sh.sh_addr && !place_is_code(im, section)))
		return false;
	ref_place(im, (struct place){section, v}, &any, out, text, size);
	return true;
}

void ref_place(const struct image *im, struct place at, const struct ref_use *use, struct xref *out, char *text,
               size_t size)
{
	const struct elf_symbol *s, *before;

	if (!at.section) {
		outside_ref(im, at.addr, use, out, text, size);
		return;
	}
	if (place_is_code(im, at.section) && im->file.sections[at.section].data) {
		code_ref(im, at, use, out, text, size);
		return;
	}
	if (slot_ref(im, at, out, text, size))
		return;
	s = symbol_index_find(&im->places.objects, at.section, at.addr);
	if (!(s && s->value == at.addr) && section_ref(im, at, use, out, text, size))
		return;
	before = object_before(im, at, use, s);
	/* A jump table of the same function may follow an array. */
	if (before && !s && table_ref(im, at, out, text, size))
		return;
	if (before)
		s = before;
	if (s)
		object_ref(im, s, (int64_t)(at.addr - s->value), out, text, size);
	else
		nameless_ref(im, at, use, out, text, size);
}

void ref_symbol(const struct image *im, struct symbol_offset at, const struct ref_use *use, struct xref *out,
                char *text, size_t size)
{
	const struct elf_symbol *s = at.symbol;
	int64_t addend = at.addend;
	/* The symbol of the relocation is used even if the address is at the end of the symbol's object. */
	bool own = s->name[0] && s->type != STT_SECTION &&
	           (!s->section || (!place_is_code(im, s->section) && (s->size || s->bind != STB_LOCAL)));

	if (!own) {
		ref_place(im, (struct place){s->section, s->value + (uint64_t)addend}, use, out, text, size);
	} else if (s->section && s->size) {
		object_ref(im, s, addend, out, text, size);
	} else {
		*out = (struct xref){.kind = REF_NAMED, .value = name_hash(&im->names, s->name), .more = (uint32_t)addend};
		if (text && addend)
			snprintf(text, size, "%.*s%+" PRId64, (int)size, s->name, addend);
		else if (text)
			snprintf(text, size, "%.*s", (int)size, s->name);
	}
}

bool ref_thread(const struct image *im, int64_t offset, struct xref *out, char *text, size_t size)
{
	uint64_t at = im->places.tls_size + (uint64_t)offset;
	const struct elf_symbol *best = NULL;
	size_t i;

	if (offset >= 0 || at >= im->places.tls_size)
		return false;
	for (i = im->places.threads.count; i > 0; i--) {
		const struct elf_symbol *s = im->places.threads.list[i - 1];

		if (best && s->value != best->value)
			break;
		if (at - s->value < s->size)
			best = s;
	}
	if (best) {
		object_ref(im, best, (int64_t)(at - best->value), out, text, size);
		return true;
	}
	*out = (struct xref){.kind = REF_DATA, .value = at, .more = PLACE_TLS};
	if (text)
		snprintf(text, size, ".tls");
	return true;
}
