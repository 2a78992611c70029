/* SPDX-License-Identifier: MIT */
/* The tables: unwind tables of both encodings, libetch's own look at tables of sites, and the
 * tool's at those of a linked file. */
#include "fuzz.h"

#include <sys/mman.h>

#include <etch/orc_registers.h>

#include "analysis/facts/fixups.h"
#include "table/ex_table.h"
#include "table/object_orc.h"
#include "table/linked_tables.h"
#include "table/register_table.h"
#include "table/unwind_tables.h"

#include "patch/parts.h" /* libetch's */

static uint64_t spend; /* so that no lookup is optimized away */

static void block_decode(const uint8_t *table, size_t size)
{
	struct row_list rows = {0};
	struct error e;
	size_t i;

	must(!unwind_block_decode(table, size, NULL, 0, &rows, &e));
	for (i = 1; i < rows.count; i++)
		must(rows.rows[i].addr > rows.rows[i - 1].addr);
	row_list_free(&rows);
}

/* The register table after a block table. */
static void registers_read(const struct etch_unwind *u, size_t size)
{
	const struct etch_unwind *r = etch_registers_behind(u, size);
	size_t left = r ? size - (size_t)((const uint8_t *)r - (const uint8_t *)u) : 0, i;
	struct register_list list;
	struct etch_saves s;
	struct error e;

	for (i = 0; r && i < r->text_size + 600; i += r->text_size / 4096 + 1) {
		etch_registers_find(r, i, &s);
		must(etch_saves_valid(&s));
	}
	if (!r || !etch_registers_valid(u, r, left) || r->text_size >= 1u << 20)
		return;
	must(!register_table_decode((const uint8_t *)r, left, &list, &e));
	for (i = 1; i < list.count; i++)
		must(list.rows[i].addr > list.rows[i - 1].addr);
	register_list_free(&list);
}

/* A header that is valid promises that every lookup stays inside; a table that is valid can be
 * taken apart. */
void fuzz_block(const uint8_t *data, size_t size)
{
	uint8_t *table = NULL;
	const struct etch_unwind *u;
	uint64_t i, step;

	if (posix_memalign((void **)&table, 64, size ? size : 1))
		abort();
	memcpy(table, data, size);
	u = (const void *)table;
	if (etch_unwind_header_valid(table, size) && u->encoding == ETCH_ENCODING_BLOCK) {
		step = u->text_size / 4096 + 1;
		for (i = 0; i < u->text_size + 600; i += step) {
			struct etch_map_rule m;

			spend += (uint64_t)etch_block_find(u, i)->cfa_off + etch_block_find_scalar(u, i)->kind +
			         (etch_map_find(u, i, &m) ? m.flags : 0u);
		}
		if (etch_unwind_valid(table, size) && u->text_size < 1u << 20)
			block_decode(table, size);
		registers_read(u, size);
	}
	free(table);
}

/* The arrays, each in a buffer of its own: rows, text in blocks, and how far the text is from the
 * first array come from the input. */
void fuzz_orc(const uint8_t *data, size_t size)
{
	struct etch_orc_table t = {.ip_addr = 0x10000, .text = 0x10000};
	uint8_t *ip, *orc, *lookup;
	uint64_t blocks, i;
	struct etch_rule rule;
	size_t used;

	if (size < 4)
		return;
	blocks = data[0] & 31u;
	t.text_size = blocks * 256 - (blocks ? data[1] : 0u);
	t.text += (uint64_t)data[2] << 8;
	t.rows = data[3];
	used = 4 + (blocks + 1) * 4 + (size_t)t.rows * 10;
	if (size < used)
		return;
	lookup = fuzz_copy(data + 4, (blocks + 1) * 4);
	ip = fuzz_copy(data + 4 + (blocks + 1) * 4, t.rows * 4);
	orc = fuzz_copy(data + used - (size_t)t.rows * 6, (size_t)t.rows * 6);
	t.lookup = (const void *)lookup;
	t.ip = (const void *)ip;
	t.orc = (const void *)orc;
	for (i = 0; i < t.text_size + 600; i += 3)
		must(etch_orc_find(&t, i) < (int64_t)t.rows);
	if (etch_orc_valid(&t))
		for (i = 0; i < t.rows; i++)
			must(etch_orc_unpack(&t.orc[i], &rule) && etch_rule_valid(&rule));
	free(lookup);
	free(ip);
	free(orc);
}

/* A module of three segments of 8 KiB, of which the last has code and the first is the input. */
#define SEGMENT 8192u

static uint8_t image[3 * SEGMENT] __attribute__((aligned(4096)));

static struct bounds place(const uint8_t *p)
{
	struct bounds b;
	uint16_t at[2];

	memcpy(at, p, sizeof(at));
	b.start = (uint64_t)(uintptr_t)image + at[0] % (SEGMENT + 64);
	b.stop = b.start + at[1] % (SEGMENT + 64);
	return b;
}

/* All forms, as where nothing of libetch is left out. */
const struct part_objects part_objects = {.size = forms_size, .valid = forms_valid};

static void entries_check(const struct module *m)
{
	size_t i, kind;

	for (kind = 0; kind < SITES_KINDS; kind++)
		for (i = 0; i < m->sites[kind].count; i++) {
			const struct etch_imv *e = &m->sites[kind].entry[i];
			uint64_t at = etch_ref((uint64_t)(uintptr_t)&e->site, e->site);

			if (table_site_ok(m, e, kind == SITES_CALL) && e->form != ETCH_FORM_NONE)
				must(at >= (uint64_t)(uintptr_t)image + 2 * SEGMENT &&
				     at + etch_imv_len(e) <= (uint64_t)(uintptr_t)image + 3 * SEGMENT);
		}
	for (i = 0; i < m->native_count; i++)
		spend += (uint64_t)table_native_ok(m, &m->native[i]);
	for (i = 0; i < m->obj_count; i++)
		spend += (uint64_t)table_object_ok(m, &m->obj[i]);
	spend += (uint64_t)table_linked_ok(m);
}

/* What libetch asks of the tables of a module that has been loaded. */
void fuzz_sites(const uint8_t *data, size_t size)
{
	struct module_arguments args = {.desc = (const void *)image};
	struct module m = {.image = {.start = (uint64_t)(uintptr_t)image, .segments = 3}};
	unsigned i;

	if (size < 24 || size > SEGMENT)
		return;
	for (i = 0; i < 3; i++)
		m.image.segment[i] = (struct segment){.start = m.image.start + i * SEGMENT,
		                                      .end = m.image.start + (i + 1) * SEGMENT,
		                                      .prot = i == 2 ? PROT_READ | PROT_EXEC : PROT_READ | PROT_WRITE};
	m.image.end = m.image.start + sizeof(image);
	args.imv = place(data);
	args.pv = place(data + 4);
	args.obj = place(data + 8);
	args.native = place(data + 12);
	args.in_place = place(data + 16);
	memset(image, 0, SEGMENT);
	memcpy(image, data + 20, size - 20);
	if (table_locate(&m, &args))
		entries_check(&m);
}

/* What the tool asks of those of a linked file. */
void fuzz_tables(const uint8_t *data, size_t size)
{
	struct linked_tables t = {0};
	struct elf_file f;
	struct error e;
	size_t rows;

	if (fuzz_open(&f, data, size) && !elf_is_object(&f)) {
		if (!linked_tables_read(&f, &t, &e))
			must(t.imv_count <= size && t.pv_count <= size && t.obj_count <= size);
		linked_tables_free(&t);
		object_orc_sort(&f, &rows, &e);
	}
	elf_close(&f);
}

void fuzz_extable(const uint8_t *data, size_t size)
{
	struct code_space space = {0};
	struct findings found = {0};
	struct fixups x = {0};
	struct elf_file f;
	struct error e;
	size_t dropped;

	if (fuzz_open(&f, data, size)) {
		space_build(&f, &space);
		if (!fixups_read(&f, &space, &x, &e)) {
			must(x.count <= size / sizeof(struct etch_ex));
			must(!ex_table_check(&f, &space, &x, &found, &e));
			if (!elf_is_object(&f))
				ex_table_sort(&f, &x, &dropped, &e);
		}
		fixups_free(&x);
		findings_free(&found);
		space_free(&space);
	}
	elf_close(&f);
}
