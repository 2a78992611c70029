/* SPDX-License-Identifier: MIT */
/*
 * Appends and removes the undo record. A file with a record has this layout (docs/formats.md):
 *     [the rewritten file] [section names] [section headers] [record]
 *
 * The section headers and names of the rewritten file stay in it as some kilobytes of unused bytes, so that removing
 * the record only truncates the file and restores the ELF header.
 */
#include "output/undo.h"

#include "output/delta.h"
#include "support/bounds.h"
#include "support/memory.h"
#include "support/sort.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC   "etchundo"
#define VERSION 1u

struct record {
	char magic[8];
	uint32_t version;    /* VERSION */
	uint32_t delta_size; /* bytes of the delta that follows the record */
	uint64_t original_size, kept_size;
	uint8_t original_hash[16], kept_hash[16]; /* XXH3, 128 bits, canonical (big-endian) form */
	Elf64_Ehdr header;                        /* ELF header of the kept file */
};

static void hash(const void *data, size_t size, uint8_t out[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(data, size));
	memcpy(out, c.digest, 16);
}

/* The section headers of a file and the names of sections. */
struct headers {
	Elf64_Ehdr eh;
	uint64_t count;
	const uint8_t *table;
	Elf64_Shdr names;
	uint32_t names_index;
};

static Elf64_Shdr header_at(const struct headers *h, uint64_t i)
{
	Elf64_Shdr sh;

	memcpy(&sh, h->table + i * sizeof(sh), sizeof(sh)); /* the table need not be aligned */
	return sh;
}

/* Reads the place of the section headers. Numbers that do not fit the ELF header are in the first section header (gABI,
 * "Sections"). Returns false if there are no section headers, or if they are malformed. */
static bool headers_read(const uint8_t *file, size_t size, struct headers *h)
{
	Elf64_Shdr first;

	if (size < sizeof(h->eh))
		return false;
	memcpy(&h->eh, file, sizeof(h->eh));
	if (memcmp(h->eh.e_ident, ELFMAG, SELFMAG) || h->eh.e_ident[EI_CLASS] != ELFCLASS64 || !h->eh.e_shoff ||
	    h->eh.e_shentsize != sizeof(Elf64_Shdr) || h->eh.e_shoff > size || size - h->eh.e_shoff < sizeof(first))
		return false;
	h->table = file + h->eh.e_shoff;
	first = header_at(h, 0);
	h->count = h->eh.e_shnum ? h->eh.e_shnum : first.sh_size;
	h->names_index = h->eh.e_shstrndx == SHN_XINDEX ? first.sh_link : h->eh.e_shstrndx;
	if (!h->count || h->count > (size - h->eh.e_shoff) / sizeof(first) || h->names_index >= h->count)
		return false;
	h->names = header_at(h, h->names_index);
	return h->names.sh_offset <= size && h->names.sh_size <= size - h->names.sh_offset && h->names.sh_size;
}

/* Finds the section of the record, which is the last one if a linker has combined several files with records. */
static bool section_find(const uint8_t *file, size_t size, Elf64_Shdr *out)
{
	struct headers h;
	uint64_t i;

	if (!headers_read(file, size, &h))
		return false;
	for (i = h.count; i-- > 0;) {
		*out = header_at(&h, i);
		if (out->sh_name <= h.names.sh_size && h.names.sh_size - out->sh_name >= sizeof(UNDO_SECTION) &&
		    !memcmp(file + h.names.sh_offset + out->sh_name, UNDO_SECTION, sizeof(UNDO_SECTION)))
			return true;
	}
	return false;
}

/* The bytes that are appended to a file before its record, and the ELF header that leads to them. */
struct addition {
	Elf64_Ehdr header;
	uint8_t *bytes; /* they follow the end of the file; malloc'd */
	size_t size;
};

/*
 * Makes the section names and headers that are appended to a file of `size` bytes, with one more for its record, which
 * follows them and has `length` bytes.
 */
static void addition_make(const struct headers *h, const uint8_t *file, size_t size, size_t length,
                          struct addition *out)
{
	size_t names = (size + 7) & ~(size_t)7, names_size = h->names.sh_size + sizeof(UNDO_SECTION);
	size_t table = (names + names_size + 7) & ~(size_t)7;
	uint64_t count = h->count + 1;
	uint8_t *to;
	Elf64_Shdr sh;

	out->size = table + count * sizeof(sh) - size;
	out->bytes = mem_zero(out->size, 1);
	to = out->bytes + (names - size);
	memcpy(to, file + h->names.sh_offset, h->names.sh_size);
	memcpy(to + h->names.sh_size, UNDO_SECTION, sizeof(UNDO_SECTION));
	to = out->bytes + (table - size);
	memcpy(to, h->table, h->count * sizeof(sh));
	sh = h->names;
	sh.sh_offset = names;
	sh.sh_size = names_size;
	memcpy(to + h->names_index * sizeof(sh), &sh, sizeof(sh));
	/* SHF_EXCLUDE makes a linker drop the record, which concerns this object file alone. */
	sh = (Elf64_Shdr){.sh_name = (Elf64_Word)h->names.sh_size,
	                  .sh_type = SHT_PROGBITS,
	                  .sh_offset = size + out->size,
	                  .sh_size = length,
	                  .sh_addralign = 8,
	                  .sh_flags = h->eh.e_type == ET_REL ? SHF_EXCLUDE : 0};
	memcpy(to + h->count * sizeof(sh), &sh, sizeof(sh));
	out->header = h->eh;
	out->header.e_shoff = table;
	if (count < SHN_LORESERVE) {
		out->header.e_shnum = (Elf64_Half)count;
	} else {
		memcpy(&sh, to, sizeof(sh));
		sh.sh_size = count;
		memcpy(to, &sh, sizeof(sh));
		out->header.e_shnum = 0;
	}
}

/* Appends the addition and `length` bytes for the record to *bytes, which is reallocated. Returns the offset of the
 * record. */
static size_t append(uint8_t **bytes, size_t size, const struct headers *h, size_t length)
{
	struct addition add;

	addition_make(h, *bytes, size, length, &add);
	*bytes = mem_resize(*bytes, size + add.size + length, 1);
	memcpy(*bytes + size, add.bytes, add.size);
	memcpy(*bytes, &add.header, sizeof(add.header));
	free(add.bytes);
	return size + add.size;
}

/* Bounds the memory that a hostile record can ask for: a real original is not so much larger. */
static bool size_is_likely(uint64_t original, uint64_t kept, uint64_t delta) { return original / 4 <= kept + delta; }

static const char changed[] = "changed while etch read it";
static const char stale[] = "was changed after etch rewrote it: cannot undo";

enum record_state { RECORD_GOOD, RECORD_DAMAGED, RECORD_UNKNOWN };

/* Reads the record in section `sh`, which must be the last bytes of a file. Unless the record is good, a message says
 * that it is not well-formed, or is of a version that this etch does not know. */
static enum record_state record_read(const uint8_t *file, size_t size, const Elf64_Shdr *sh, struct record *r,
                                     struct error *e)
{
	if (sh->sh_type != SHT_PROGBITS || sh->sh_offset > size || sh->sh_size != size - sh->sh_offset ||
	    sh->sh_size < sizeof(*r)) {
		error_set(e, stale);
		return RECORD_DAMAGED;
	}
	memcpy(r, file + sh->sh_offset, sizeof(*r));
	if (!memcmp(r->magic, MAGIC, sizeof(r->magic)) && r->version != VERSION) {
		error_set(e, "has an undo record of version %u, and this etch knows version %u: use the etch that wrote it",
		          r->version, VERSION);
		return RECORD_UNKNOWN;
	}
	if (memcmp(r->magic, MAGIC, sizeof(r->magic)) || r->delta_size != sh->sh_size - sizeof(*r) ||
	    r->kept_size > sh->sh_offset || r->kept_size < sizeof(r->header) || r->original_size < sizeof(r->header) ||
	    !size_is_likely(r->original_size, r->kept_size, r->delta_size)) {
		error_set(e, stale);
		return RECORD_DAMAGED;
	}
	return RECORD_GOOD;
}

/* Returns the ELF header of the file without its record. Changes that a tool has made in it since stay, except those of
 * the place and number of section headers. */
static Elf64_Ehdr kept_header(const Elf64_Ehdr *file, const struct record *r)
{
	Elf64_Ehdr eh = *file;

	eh.e_shoff = r->header.e_shoff;
	eh.e_shnum = r->header.e_shnum;
	return eh;
}

/*
 * Checks that the record is that of this file: what undo_attach() appends to `kept` before a record of `length` bytes
 * must be equal to what the file has from r->kept_size on (`tail`, of `tail_size` bytes), and its ELF header must be
 * equal to `header`. Returns 0, or -1 and a message if the file has been changed since.
 */
static int kept_check(const uint8_t *kept, const struct record *r, const Elf64_Ehdr *header, const uint8_t *tail,
                      size_t tail_size, size_t length, struct error *e)
{
	struct addition add;
	struct headers h;
	bool same;

	if (!headers_read(kept, r->kept_size, &h))
		return error_set(e, stale);
	addition_make(&h, kept, r->kept_size, length, &add);
	same = add.size == tail_size && !memcmp(&add.header, header, sizeof(add.header)) &&
	       !memcmp(add.bytes, tail, tail_size);
	free(add.bytes);
	return same ? 0 : error_set(e, stale);
}

/* Sets out->kept to the file without its record, and returns the result of kept_check(). */
static int kept_take(const uint8_t *file, size_t size, const struct record *r, size_t record_at, struct undo *out,
                     struct error *e)
{
	Elf64_Ehdr header, eh;

	out->kept = big_zero(r->kept_size, 1);
	out->kept_size = r->kept_size;
	big_copy(out->kept, file, r->kept_size);
	memcpy(&header, file, sizeof(header));
	eh = kept_header(&header, r);
	memcpy(out->kept, &eh, sizeof(eh));
	return kept_check(out->kept, r, &header, file + r->kept_size, record_at - r->kept_size, size - record_at, e);
}

int undo_detach(const uint8_t *file, size_t size, struct undo *out, struct error *e)
{
	uint8_t found[16];
	Elf64_Shdr sh;
	enum record_state why;
	struct record r;

	*out = (struct undo){0};
	if (!section_find(file, size, &sh))
		return 0;
	why = record_read(file, size, &sh, &r, e);
	out->unknown = why == RECORD_UNKNOWN;
	if (why != RECORD_GOOD)
		return -1;
	if (kept_take(file, size, &r, sh.sh_offset, out, e)) {
		undo_free(out);
		return -1;
	}
	out->original_size = r.original_size;
	out->original = big_zero(r.original_size + 1, 1);
	hash(out->kept, out->kept_size, found);
	if (!memcmp(found, r.kept_hash, sizeof(found)) &&
	    !delta_apply(out->kept, out->kept_size, file + sh.sh_offset + sizeof(r), r.delta_size, out->original,
	                 out->original_size)) {
		hash(out->original, out->original_size, found);
		if (!memcmp(found, r.original_hash, sizeof(found)))
			return 1;
	}
	free(out->original);
	out->original = NULL;
	return error_set(e, stale);
}

/* ---- the original, while it is written --------------------------------------------------------- */

#define PART ((size_t)1 << 20) /* bytes read at a time */

struct undo_reader {
	int fd;
	const struct file_mark *mark;
	uint8_t *image; /* as large as the file, but only headers, section names and the record are read into it */
	size_t size;
	struct record record;
	Elf64_Ehdr header; /* ELF header of the file without its record */
	const uint8_t *delta;
	XXH3_state_t *hash;
	uint8_t *part;
	/* The state of the contents that are being given out. */
	struct delta_reader commands;
	struct delta_command now;
	uint64_t literal_given, copy_given;
	struct outfile_source source;
};

static bool bytes_read(int fd, void *to, size_t size, uint64_t at)
{
	uint8_t *out = to;

	if (lseek(fd, (off_t)at, SEEK_SET) < 0)
		return false;
	while (size) {
		ssize_t n = read(fd, out, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		out += n;
		size -= (size_t)n;
	}
	return true;
}

/* Reads a part of the file into the image. Returns false if it is not in the file, or cannot be read. */
static bool image_read(struct undo_reader *u, uint64_t at, uint64_t size)
{
	return at <= u->size && size <= u->size - at && bytes_read(u->fd, u->image + at, size, at);
}

/* Reads the parts that headers_read() and section_find() examine: the section headers, to which the ELF header in the
 * image leads, and their names. Parts that are not read are zero, and those functions refuse them. */
static void image_headers(struct undo_reader *u)
{
	Elf64_Ehdr eh;
	struct headers h;

	memcpy(&eh, u->image, sizeof(eh));
	if (eh.e_shentsize != sizeof(Elf64_Shdr) || !image_read(u, eh.e_shoff, sizeof(Elf64_Shdr)))
		return;
	memset(&h, 0, sizeof(h));
	h.table = u->image + eh.e_shoff;
	h.count = eh.e_shnum ? eh.e_shnum : header_at(&h, 0).sh_size;
	if (h.count > (u->size - eh.e_shoff) / sizeof(Elf64_Shdr) ||
	    !image_read(u, eh.e_shoff, h.count * sizeof(Elf64_Shdr)) || !headers_read(u->image, u->size, &h))
		return;
	image_read(u, h.names.sh_offset, h.names.sh_size);
}

/* Reads a part of the file as it is without its record. */
static bool kept_read(const struct undo_reader *u, void *to, size_t size, uint64_t at)
{
	if (!bytes_read(u->fd, to, size, at))
		return false;
	if (at < sizeof(u->header))
		memcpy(to, (const uint8_t *)&u->header + at,
		       size < sizeof(u->header) - at ? size : sizeof(u->header) - (size_t)at);
	return true;
}

static bool hash_is(XXH3_state_t *state, const uint8_t want[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(state));
	return !memcmp(c.digest, want, 16);
}

static bool kept_is_whole(struct undo_reader *u)
{
	uint64_t at, n;

	XXH3_128bits_reset(u->hash);
	for (at = 0; at < u->record.kept_size; at += n) {
		n = u->record.kept_size - at < PART ? u->record.kept_size - at : PART;
		if (!kept_read(u, u->part, n, at))
			return false;
		XXH3_128bits_update(u->hash, u->part, n);
	}
	return hash_is(u->hash, u->record.kept_hash);
}

static void original_rewind(void *context)
{
	struct undo_reader *u = context;

	delta_open(&u->commands, (struct bytes){u->delta, u->record.delta_size}, u->record.kept_size,
	           u->record.original_size);
	u->now = (struct delta_command){0};
	u->literal_given = u->copy_given = 0;
	XXH3_128bits_reset(u->hash);
}

/* Checks, when the contents are complete, that they are the original, and that the file has not been written since it
 * was opened. */
static int original_end(struct undo_reader *u)
{
	if (file_is_written_since(u->fd, u->mark))
		u->source.why = changed;
	else if (!hash_is(u->hash, u->record.original_hash))
		u->source.why = stale;
	else
		return 0;
	return ECANCELED;
}

static int original_next(void *context, const void **data, size_t *size)
{
	struct undo_reader *u = context;
	uint64_t left;
	int more;

	*size = 0;
	while (u->literal_given == u->now.literal_size && u->copy_given == u->now.size) {
		more = delta_next(&u->commands, &u->now);
		if (more < 0) {
			u->source.why = stale;
			return ECANCELED;
		}
		if (!more)
			return original_end(u);
		u->literal_given = u->copy_given = 0;
	}
	if (u->literal_given < u->now.literal_size) {
		*data = u->now.literal;
		*size = (size_t)u->now.literal_size;
		u->literal_given = u->now.literal_size;
	} else {
		left = u->now.size - u->copy_given;
		*data = u->part;
		*size = left < PART ? (size_t)left : PART;
		if (!kept_read(u, u->part, *size, u->now.from + u->copy_given)) {
			u->source.why = file_is_written_since(u->fd, u->mark) ? changed : "cannot be read";
			return ECANCELED;
		}
		u->copy_given += *size;
	}
	XXH3_128bits_update(u->hash, *data, *size);
	return 0;
}

/* Reads and checks the record. Returns what undo_open() returns. */
static int reader_fill(struct undo_reader *u, struct error *e)
{
	Elf64_Ehdr header;
	Elf64_Shdr sh;

	u->image = big_zero(u->size + 1, 1);
	u->part = mem_alloc(PART, 1);
	u->hash = XXH3_createState();
	if (!u->hash)
		bounds_exhausted();
	if (!image_read(u, 0, u->size < sizeof(header) ? u->size : sizeof(header)))
		return error_set(e, "cannot read: %s", strerror(errno));
	image_headers(u);
	if (!section_find(u->image, u->size, &sh))
		return 0;
	if (sh.sh_offset <= u->size && !image_read(u, sh.sh_offset, u->size - sh.sh_offset))
		return error_set(e, "cannot read: %s", strerror(errno));
	if (record_read(u->image, u->size, &sh, &u->record, e) != RECORD_GOOD)
		return -1;
	u->delta = u->image + sh.sh_offset + sizeof(u->record);
	memcpy(&header, u->image, sizeof(header));
	u->header = kept_header(&header, &u->record);
	memcpy(u->image, &u->header, sizeof(u->header));
	image_headers(u);
	if (!image_read(u, u->record.kept_size, sh.sh_offset - u->record.kept_size))
		return error_set(e, "cannot read: %s", strerror(errno));
	if (kept_check(u->image, &u->record, &header, u->image + u->record.kept_size, sh.sh_offset - u->record.kept_size,
	               u->size - sh.sh_offset, e))
		return -1;
	return kept_is_whole(u) ? 1 : error_set(e, stale);
}

int undo_open(int fd, const struct file_mark *mark, struct undo_reader **out, struct error *e)
{
	struct undo_reader *u = *out = mem_zero(1, sizeof(*u));
	int found;

	u->fd = fd;
	u->mark = mark;
	u->size = (size_t)mark->size;
	u->source = (struct outfile_source){.rewind = original_rewind, .next = original_next, .context = u};
	found = reader_fill(u, e);
	/* If the file was written meanwhile, that explains whatever is wrong with it. */
	return found <= 0 && file_is_written_since(fd, mark) ? error_set(e, changed) : found;
}

const struct outfile_source *undo_source(const struct undo_reader *u, uint64_t *size)
{
	*size = u->record.original_size;
	return &u->source;
}

void undo_close(struct undo_reader *u)
{
	if (!u)
		return;
	if (u->hash)
		XXH3_freeState(u->hash);
	free(u->part);
	free(u->image);
	free(u);
}

void undo_free(struct undo *u)
{
	free(u->kept);
	free(u->original);
	*u = (struct undo){0};
}

/* Returns the end of everything that headers describe, or `size` if only zeros follow. Other data after that may be
 * something that a program looks for at the end of its file, where it must stay. */
static uint64_t described_end(const uint8_t *bytes, size_t size, const struct headers *h)
{
	uint64_t end = h->eh.e_shoff + h->count * sizeof(Elf64_Shdr), i, at;

	for (i = 0; i < h->count; i++) {
		Elf64_Shdr sh = header_at(h, i);

		if (sh.sh_type != SHT_NOBITS && sh.sh_type != SHT_NULL && sh.sh_offset <= size &&
		    sh.sh_size <= size - sh.sh_offset && sh.sh_offset + sh.sh_size > end)
			end = sh.sh_offset + sh.sh_size;
	}
	for (i = 0; i < h->eh.e_phnum && h->eh.e_phoff <= size && size - h->eh.e_phoff >= (i + 1) * sizeof(Elf64_Phdr);
	     i++) {
		Elf64_Phdr ph;

		memcpy(&ph, bytes + h->eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_offset <= size && ph.p_filesz <= size - ph.p_offset && ph.p_offset + ph.p_filesz > end)
			end = ph.p_offset + ph.p_filesz;
	}
	for (at = end; at < size && !bytes[at];)
		at++;
	return at < size ? end : size;
}

static int guess_order(const void *a, const void *b)
{
	const struct delta_guess *x = a, *y = b;

	return x->want < y->want ? -1 : x->want > y->want;
}

/* Guesses for the delta: each section's old and new offset (sections keep their numbers), and those of the global
 * symbols, since a symbol table may have new local symbols before them. malloc'd; null, and a count of 0: none. */
static struct delta_guess *guesses_make(const struct headers *kept, const uint8_t *original, size_t size, size_t *count)
{
	struct delta_guess *list;
	struct headers was;
	uint64_t i, n = 0;

	*count = 0;
	if (!headers_read(original, size, &was))
		return NULL;
	list = mem_alloc(2 * was.count + 1, sizeof(*list));
	for (i = 0; i < was.count && i < kept->count; i++) {
		Elf64_Shdr from = header_at(&was, i), to = header_at(kept, i);

		if (from.sh_type == SHT_NOBITS || from.sh_type != to.sh_type)
			continue;
		list[n++] = (struct delta_guess){from.sh_offset, to.sh_offset};
		if (from.sh_type == SHT_SYMTAB)
			list[n++] = (struct delta_guess){from.sh_offset + from.sh_info * sizeof(Elf64_Sym),
			                                 to.sh_offset + to.sh_info * sizeof(Elf64_Sym)};
	}
	list[n++] = (struct delta_guess){was.eh.e_shoff, kept->eh.e_shoff};
	sort_by_address(list, n, sizeof(*list), guess_order);
	*count = n;
	return list;
}

/* Makes the delta that restores `original` from `kept`. */
static void original_record(struct bytes kept, const struct headers *h, struct bytes original, uint8_t **delta,
                            size_t *delta_size)
{
	size_t count;
	struct delta_guess *guesses = guesses_make(h, original.at, original.size, &count);

	delta_make(kept, original, guesses, count, delta, delta_size);
	free(guesses);
}

bool undo_attach(uint8_t **bytes, size_t *size, const uint8_t *original, size_t original_size, struct error *e)
{
	struct record r = {.version = VERSION, .original_size = original_size, .kept_size = *size};
	size_t delta_size, at;
	struct headers h;
	uint8_t *delta;
	uint64_t end;

	memcpy(r.magic, MAGIC, sizeof(r.magic));
	if (!headers_read(*bytes, *size, &h)) {
		error_set(e, "cannot hold an undo record: no section name table (use --no-undo)");
		return false;
	}
	end = described_end(*bytes, *size, &h);
	if (end < *size) {
		error_set(e,
		          "data after the last section (at offset %#" PRIx64
		          ") that no header describes: an undo record would have to follow it (use --no-undo)",
		          end);
		return false;
	}
	original_record((struct bytes){*bytes, *size}, &h, (struct bytes){original, original_size}, &delta, &delta_size);
	r.delta_size = (uint32_t)delta_size;
	r.header = h.eh;
	hash(original, original_size, r.original_hash);
	hash(*bytes, *size, r.kept_hash);
	if (delta_size > UINT32_MAX || !size_is_likely(original_size, *size, delta_size)) {
		free(delta);
		error_set(e, "the undo record would be too large (use --no-undo)");
		return false;
	}
	at = append(bytes, *size, &h, sizeof(r) + delta_size);
	memcpy(*bytes + at, &r, sizeof(r));
	memcpy(*bytes + at + sizeof(r), delta, delta_size);
	*size = at + sizeof(r) + delta_size;
	free(delta);
	return true;
}
