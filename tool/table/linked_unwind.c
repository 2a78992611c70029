/* SPDX-License-Identifier: MIT */
/* Makes, reads and completes the unwind table of a linked file, in the block encoding or the orc encoding. */
#include "table/linked_unwind.h"

#include "support/memory.h"

#include <etch/format.h>
#include <etch/orc_registers.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((uint64_t)1 << ETCH_BLOCK_SHIFT)

enum { SEC_HEADER, SEC_IP, SEC_ORC, SEC_LOOKUP }; /* indexes of the sections of the orc encoding */

static const struct segment_section loaded = {.type = SHT_PROGBITS};

static struct segment_section *section_add(struct linked_unwind *u, const char *name, uint64_t align, void *data,
                                           uint64_t size)
{
	struct segment_section *s = &u->sections[u->count++];

	*s = loaded;
	s->name = name;
	s->align = align;
	s->data = data;
	s->size = size;
	return s;
}

/* Sets the properties, other than contents, of a section that other unwinders read. */
static void section_traits(struct segment_section *s)
{
	if (!strcmp(s->name, SFRAME_SECTION)) {
		s->type = SHT_GNU_SFRAME;
		s->phdr = PT_GNU_SFRAME;
	} else if (!strcmp(s->name, EH_HDR_SECTION)) {
		s->phdr = PT_GNU_EH_FRAME;
		s->former = EH_HDR_LINKED;
	} else if (!strcmp(s->name, EH_FRAME_SECTION)) {
		s->former = EH_FRAME_LINKED;
	}
}

void linked_unwind_init_list(struct linked_unwind *u, const uint64_t *addresses, size_t count)
{
	const size_t size = count * sizeof(*addresses);

	section_add(u, ETCH_SEC_INIT_LIST, 8, mem_copy(addresses, size), size)->unloaded = true;
}

/* ---- making --------------------------------------------------------------- */

static int make_block(const struct row_list *rows, const struct unwind_kind *kind, struct linked_unwind *u,
                      struct error *e)
{
	uint8_t *table, *sources;
	size_t size;

	if (unwind_block_encode(rows, kind, &table, &size, e))
		return -1;
	memcpy(table + offsetof(struct etch_unwind, build_id), u->header.build_id, sizeof(u->header.build_id));
	memcpy(&u->header, table, sizeof(u->header));
	section_add(u, ETCH_SEC_UNWIND, 64, table, size);
	unwind_sources_encode(rows, &sources, &size);
	if (size)
		section_add(u, ETCH_SEC_SOURCE, 1, sources, size)->unloaded = true;
	else
		free(sources);
	return 0;
}

/* Sets lookup[i] to the index of the last row that begins at or before block i, or to 0 if there is none. */
static void lookup_make(const struct row_list *rows, uint64_t text, uint64_t blocks, uint32_t *lookup)
{
	uint64_t i;
	size_t k = 0;

	for (i = 0; i <= blocks; i++) {
		while (k + 1 < rows->count && rows->rows[k + 1].addr <= text + i * BLOCK)
			k++;
		lookup[i] = (uint32_t)k;
	}
}

/* Makes the sections of the orc encoding. *lost is increased by the number of rules that it cannot express. */
static int make_orc(const struct row_list *rows, struct linked_unwind *u, size_t *lost, struct error *e)
{
	uint64_t text = rows->rows[0].addr & ~(BLOCK - 1), end = rows->rows[rows->count - 1].addr;
	uint64_t blocks = (end - text + BLOCK - 1) / BLOCK;
	struct etch_orc *orc;
	uint32_t *lookup;
	size_t i;

	if (rows->count > UINT32_MAX)
		return error_set(e, "%zu unwind rows: too many for a table", rows->count);
	u->header.magic = ETCH_UNWIND_MAGIC;
	u->header.version = ETCH_UNWIND_VERSION;
	u->header.size = u->header.bytes = sizeof(u->header);
	u->header.encoding = ETCH_ENCODING_ORC;
	u->header.rows = (uint32_t)rows->count;
	u->header.text = text;
	u->header.text_size = end - text;
	orc = mem_zero(rows->count, sizeof(*orc));
	lookup = mem_zero(blocks + 1, sizeof(*lookup));
	u->targets = mem_zero(rows->count, sizeof(*u->targets));
	section_add(u, ETCH_SEC_UNWIND, 64, mem_zero(1, sizeof(u->header)), sizeof(u->header));
	section_add(u, ETCH_SEC_ORC_IP, 4, mem_zero(rows->count, 4), rows->count * 4);
	section_add(u, ETCH_SEC_ORC, 2, orc, rows->count * sizeof(*orc));
	section_add(u, ETCH_SEC_ORC_LOOKUP, 4, lookup, (blocks + 1) * sizeof(*lookup));
	for (i = 0; i < rows->count; i++) {
		*lost += !unwind_orc_pack(&rows->rows[i].rule, rows->rows[i].source, &orc[i]);
		u->targets[i] = rows->rows[i].addr;
	}
	lookup_make(rows, text, blocks, lookup);
	return 0;
}

int linked_unwind_sframe(struct linked_unwind *u, const struct row_list *rows, unsigned version, struct error *e)
{
	struct segment_section *s;

	if (sframe_encode(rows, version, true, &u->sframe, e))
		return -1;
	u->sframe_at = u->count;
	s = section_add(u, SFRAME_SECTION, 8, u->sframe.bytes, u->sframe.size);
	section_traits(s);
	u->sframe.bytes = NULL; /* the section owns these bytes */
	return 0;
}

int linked_unwind_eh_frame(const struct cfi_file *cfi, const struct code_space *space, const struct eh_rows *rows,
                           struct linked_unwind *u, struct error *e)
{
	if (eh_frame_encode(cfi, space, rows, &u->eh, e))
		return -1;
	u->eh_at = u->count;
	section_add(u, EH_HDR_SECTION, 4, u->eh.hdr, u->eh.hdr_size);
	section_add(u, EH_FRAME_SECTION, 8, u->eh.frame, u->eh.frame_size);
	section_traits(&u->sections[u->eh_at]);
	section_traits(&u->sections[u->eh_at + 1]);
	u->eh.hdr = u->eh.frame = NULL; /* the sections own these bytes */
	return 0;
}

int linked_unwind_registers(struct linked_unwind *u, const struct register_sources *in, size_t *lost, struct error *e)
{
	uint8_t *table;
	size_t size;

	if (register_table_make(in, &table, &size, lost, e))
		return -1;
	memcpy(table + offsetof(struct etch_unwind, build_id), u->header.build_id, sizeof(u->header.build_id));
	/* Readers look for the register table directly after the block table, whose size is a multiple of 8. */
	section_add(u, ETCH_SEC_REGISTERS, 8, table, size);
	return 0;
}

const struct segment_section *linked_unwind_registers_section(const struct linked_unwind *u)
{
	size_t i;

	for (i = 0; i < u->count; i++)
		if (!strcmp(u->sections[i].name, ETCH_SEC_REGISTERS))
			return &u->sections[i];
	return NULL;
}

/* Fills in addresses in the sections that other unwinders read. */
static int others_fill(struct linked_unwind *u, struct error *e)
{
	int err = 0;

	if (u->sframe_at) {
		u->sframe.bytes = (uint8_t *)u->sections[u->sframe_at].data;
		err = sframe_place(&u->sframe, u->sections[u->sframe_at].addr, e);
		u->sframe.bytes = NULL;
	}
	if (u->eh_at && !err) {
		const struct segment_section *hdr = &u->sections[u->eh_at], *frame = hdr + 1;

		u->eh.hdr = (uint8_t *)hdr->data;
		u->eh.frame = (uint8_t *)frame->data;
		err = eh_frame_place(&u->eh, frame->addr, hdr->addr, e);
		u->eh.hdr = u->eh.frame = NULL;
	}
	return err;
}

int linked_unwind_make(const struct elf_file *f, const struct row_list *rows, const struct unwind_kind *kind,
                       struct linked_unwind *out, size_t *lost, struct error *e)
{
	const uint8_t *id;
	size_t id_size = elf_build_id(f, &id);

	memset(out, 0, sizeof(*out));
	*lost = 0;
	if (!rows->count)
		return 0;
	memcpy(out->header.build_id, id, id_size < sizeof(out->header.build_id) ? id_size : sizeof(out->header.build_id));
	return kind->encoding == ETCH_ENCODING_BLOCK ? make_block(rows, kind, out, e) : make_orc(rows, out, lost, e);
}

int linked_unwind_fill(struct linked_unwind *u, struct error *e)
{
	uint8_t *ip;
	size_t i;

	for (i = 0; i < u->count && u->kept; i++)
		if (u->kept_at[i] && u->sections[i].addr != u->kept_at[i])
			return error_set(e, "its unwind table would have to move: rewrite it without --only");
	if (others_fill(u, e))
		return -1;
	if (!u->targets)
		return 0;
	u->header.orc_ip = u->sections[SEC_IP].addr;
	u->header.orc = u->sections[SEC_ORC].addr;
	u->header.orc_lookup = u->sections[SEC_LOOKUP].addr;
	memcpy((void *)u->sections[SEC_HEADER].data, &u->header, sizeof(u->header));
	ip = (uint8_t *)u->sections[SEC_IP].data;
	for (i = 0; i < u->header.rows; i++) {
		int64_t d = (int64_t)(u->targets[i] - (u->header.orc_ip + 4 * i));
		int32_t field = (int32_t)d;

		if (field != d)
			return error_set(e, "its unwind rows are more than 2 GiB away from the code");
		memcpy(ip + 4 * i, &field, 4);
	}
	return 0;
}

uint64_t linked_unwind_size(const struct linked_unwind *u)
{
	uint64_t size = 0;
	size_t i;

	for (i = 0; i < u->count; i++)
		if (!u->sections[i].unloaded && !u->sections[i].phdr && !u->sections[i].former &&
		    &u->sections[i] != linked_unwind_registers_section(u))
			size += u->sections[i].size;
	return size;
}

void linked_unwind_free(struct linked_unwind *u)
{
	size_t i;

	for (i = 0; i < u->count; i++)
		free((void *)u->sections[i].data);
	free(u->targets);
	sframe_free(&u->sframe);
	eh_frame_free(&u->eh);
	memset(u, 0, sizeof(*u));
}

/* ---- reading --------------------------------------------------------------- */

/* Has etch made this section? The etch segment may also contain sections of the linker that had to be moved. */
static bool is_ours(const struct elf_section *s, const struct segment_found *at)
{
	const uint64_t type = !strcmp(s->name, SFRAME_SECTION) ? SHT_GNU_SFRAME : SHT_PROGBITS;

	return s->data && s->sh.sh_type == type && (s->sh.sh_flags & SHF_ALLOC) && at->first <= at->size &&
	       s->sh.sh_addr - at->addr - at->first < at->size - at->first;
}

/* Copies a section that an earlier run has made. It lies in the etch segment or, if `unloaded`, is not loaded. Returns
 * 1; 0 if there is none; -1 with a message in *e if it is malformed. */
static int section_keep(const struct elf_file *f, const struct segment_found *at, const char *name, bool unloaded,
                        struct linked_unwind *u, struct error *e)
{
	uint32_t i = 0;

	while ((i = elf_section_find(f, name, i + 1))) {
		const struct elf_section *s = &f->sections[i];
		struct segment_section *k;

		if (unloaded ? !s->data || s->sh.sh_type != SHT_PROGBITS || (s->sh.sh_flags & SHF_ALLOC) : !is_ours(s, at))
			continue;
		if (!unloaded && (s->sh.sh_addr - at->addr > at->size - s->sh.sh_size ||
		                  s->sh.sh_offset != at->offset + (s->sh.sh_addr - at->addr)))
			return error_set(e, "section %s: its file offset disagrees with the etch segment", name);
		u->kept_at[u->count] = unloaded ? 0 : s->sh.sh_addr;
		k = section_add(u, name, s->sh.sh_addralign, mem_copy(s->data, s->sh.sh_size), s->sh.sh_size);
		k->unloaded = unloaded;
		section_traits(k);
		return 1;
	}
	return 0;
}

static int read_orc(const struct elf_file *f, const struct segment_found *at, struct linked_unwind *u, struct error *e)
{
	static const char *const names[] = {ETCH_SEC_ORC_IP, ETCH_SEC_ORC, ETCH_SEC_ORC_LOOKUP};
	const uint64_t addr[] = {u->header.orc_ip, u->header.orc, u->header.orc_lookup};
	const uint64_t size[] = {(uint64_t)u->header.rows * 4, (uint64_t)u->header.rows * sizeof(struct etch_orc),
	                         (u->header.text_size / BLOCK + (u->header.text_size % BLOCK != 0) + 1) * 4};
	struct etch_orc_table table;
	size_t i;

	for (i = 0; i < 3; i++) {
		int r = section_keep(f, at, names[i], false, u, e);

		if (r < 0)
			return -1;
		if (!r || u->sections[i + 1].size != size[i] || u->kept_at[i + 1] != addr[i])
			return error_set(e, "its unwind table is malformed: section %s does not match the header", names[i]);
	}
	table = (struct etch_orc_table){
		.ip = u->sections[SEC_IP].data,
		.orc = u->sections[SEC_ORC].data,
		.lookup = u->sections[SEC_LOOKUP].data,
		.rows = u->header.rows,
		.ip_addr = u->header.orc_ip,
		.text = u->header.text,
		.text_size = u->header.text_size,
	};
	return etch_orc_valid(&table) ? 1 : error_set(e, "its unwind table is malformed");
}

/* Returns the section of this name in the etch segment that etch has made, or null. */
static const struct elf_section *ours_find(const struct elf_file *f, const char *name)
{
	struct segment_found at;
	struct error e;
	uint32_t i = 0;

	if (segment_find(f->bytes, f->size, &at, &e) <= 0)
		return NULL;
	while ((i = elf_section_find(f, name, i + 1)))
		if (is_ours(&f->sections[i], &at))
			return &f->sections[i];
	return NULL;
}

unsigned linked_unwind_sframe_version(const struct elf_file *f)
{
	const struct elf_section *s = ours_find(f, SFRAME_SECTION);

	if (!s || s->sh.sh_size < 3)
		return 0;
	return s->data[2] == 3 ? 3 : 2;
}

bool linked_unwind_has_eh_frame(const struct elf_file *f) { return ours_find(f, EH_FRAME_SECTION) != NULL; }

bool linked_unwind_has_registers(const struct elf_file *f) { return ours_find(f, ETCH_SEC_REGISTERS) != NULL; }

/* Copies the register table of an earlier run. Returns 1; 0 if there is none; -1 with a message in *e if it is
 * malformed. */
static int registers_keep(const struct elf_file *f, const struct segment_found *at, struct linked_unwind *u,
                          struct error *e)
{
	const struct segment_section *s;
	int r = section_keep(f, at, ETCH_SEC_REGISTERS, false, u, e);

	if (r <= 0)
		return r;
	s = &u->sections[u->count - 1];
	if (u->header.encoding != ETCH_ENCODING_BLOCK ||
	    u->kept_at[u->count - 1] != u->kept_at[0] + ((u->header.bytes + 7) & ~7ull) ||
	    !etch_registers_valid(u->sections[0].data, s->data, s->size))
		return error_set(e, "its register table is malformed");
	return 1;
}

int linked_unwind_read(const struct elf_file *f, struct linked_unwind *out, struct error *e)
{
	struct segment_found at;
	int r = segment_find(f->bytes, f->size, &at, e);

	memset(out, 0, sizeof(*out));
	out->kept = true;
	if (r <= 0)
		return r;
	r = section_keep(f, &at, ETCH_SEC_UNWIND, false, out, e);
	if (r <= 0)
		return r;
	if (out->kept_at[0] != at.addr + at.first || out->sections[0].size < sizeof(out->header))
		return error_set(e, "section " ETCH_SEC_UNWIND ": not the first in the etch segment");
	memcpy(&out->header, out->sections[0].data, sizeof(out->header));
	if (out->header.magic != ETCH_UNWIND_MAGIC || out->header.version < ETCH_UNWIND_VERSION ||
	    out->header.version > ETCH_UNWIND_VERSION_LAST)
		return error_set(e, "its unwind table is malformed or of another version (%u, this etch writes %u and %u)",
		                 out->header.version, ETCH_UNWIND_VERSION, ETCH_UNWIND_VERSION_LAST);
	if (!etch_unwind_valid(out->sections[0].data, out->sections[0].size))
		return error_set(e, "its unwind table is malformed");
	r = out->header.encoding == ETCH_ENCODING_ORC ? read_orc(f, &at, out, e)
	                                              : section_keep(f, &at, ETCH_SEC_SOURCE, true, out, e);
	if (r < 0 || registers_keep(f, &at, out, e) < 0 || section_keep(f, &at, SFRAME_SECTION, false, out, e) < 0 ||
	    section_keep(f, &at, EH_HDR_SECTION, false, out, e) < 0 ||
	    section_keep(f, &at, EH_FRAME_SECTION, false, out, e) < 0)
		return -1;
	return 1;
}

static int orc_rows(const struct linked_unwind *u, struct row_list *out, struct error *e)
{
	size_t i, n = u->header.rows;

	out->rows = mem_zero(n, sizeof(*out->rows));
	out->capacity = n;
	for (i = 0; i < n; i++) {
		struct row *row = &out->rows[i];
		struct etch_orc x;
		int32_t d;

		memcpy(&d, (const uint8_t *)u->sections[SEC_IP].data + 4 * i, 4);
		memcpy(&x, (const uint8_t *)u->sections[SEC_ORC].data + sizeof(x) * i, sizeof(x));
		row->addr = u->header.orc_ip + 4 * i + (uint64_t)(int64_t)d;
		if (!etch_orc_unpack(&x, &row->rule) || (i && row->addr <= row[-1].addr))
			return error_set(e, "its unwind table is malformed: entry %zu", i);
		row->source = x.bits >> 12 & 3;
	}
	out->count = n;
	return 0;
}

int linked_unwind_rows(const struct linked_unwind *u, struct row_list *out, bool *sources, struct error *e)
{
	const struct segment_section *s = u->count > 1 && u->sections[1].unloaded ? &u->sections[1] : NULL;

	memset(out, 0, sizeof(*out));
	*sources = true;
	if (u->header.encoding == ETCH_ENCODING_ORC)
		return orc_rows(u, out, e);
	*sources = s != NULL;
	return unwind_block_decode(u->sections[0].data, u->sections[0].size, s ? s->data : NULL, s ? s->size : 0, out, e);
}
