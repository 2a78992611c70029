/* SPDX-License-Identifier: MIT */
/* Prints the tables of a kernel file (kernel_views.h), with their entries resolved, as text, TSV or JSON. */
#include "kernel/kernel_views.h"

#include "kernel/kernel_orc.h"
#include "kernel/kernel_tables.h"
#include "report/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define PROBLEM          \
	{                    \
		"problem", false \
	}

static const struct column ex_columns[] = {
	{"instruction", false}, {"fixup", false}, {"type", false}, {"register", true}, {"flags", true}, {"immediate", true},
	{"name", false},        {"to", false},    PROBLEM,
};
static const struct column ex_handler_columns[] = {
	{"instruction", false}, {"fixup", false}, {"handler", false}, {"name", false}, {"to", false}, PROBLEM,
};
static const struct column alt_columns[] = {
	{"instruction", false},
	{"length", true},
	{"replacement", false},
	{"new_length", true},
	{"feature", false},
	{"cpuid", false},
	{"flags", false},
	{"name", false},
	{"original", false},
	{"new", false},
	PROBLEM,
};
static const struct column paravirt_columns[] = {
	{"instruction", false}, {"length", true}, {"slot", true}, {"name", false}, {"original", false}, PROBLEM,
};
static const struct column jump_columns[] = {
	{"instruction", false}, {"target", false},   {"key", false}, {"flags", false}, {"name", false},
	{"to", false},          {"key_name", false}, {"now", false}, PROBLEM,
};
static const struct column call_columns[] = {
	{"instruction", false}, {"key", false}, {"flags", false}, {"name", false},
	{"key_name", false},    {"now", false}, PROBLEM,
};
static const struct column site_columns[] = {
	{"instruction", false},
	{"name", false},
	{"now", false},
	PROBLEM,
};
static const struct column bug_columns[] = {
	{"instruction", false}, {"file", false}, {"line", true},    {"flags", false},
	{"taint", true},        {"name", false}, {"format", false}, PROBLEM,
};

/* Context while the listing of one table is filled. */
struct row_context {
	struct kernel *k;
	const struct kernel_table *table;
	struct kernel_entry entry;
	struct listing *l;
};

/* ---- cells ------------------------------------------------------------------------- */

static void place_add(struct row_context *m, enum kernel_field field)
{
	char text[256];

	kernel_place_text(m->k, &m->entry.place[field], text, sizeof(text));
	listing_add(m->l, "%s", text);
}

static void name_add(struct row_context *m, enum kernel_field field)
{
	char text[256];

	kernel_place_name(m->k, &m->entry.place[field], text, sizeof(text));
	listing_add(m->l, "%s", text);
}

static void string_add(struct row_context *m, enum kernel_field field)
{
	const char *s = kernel_place_string(m->k, &m->entry.place[field]);

	listing_add(m->l, "%.300s", s && *s ? s : "-");
}

static void code_add(struct row_context *m, enum kernel_field field, uint64_t length)
{
	char text[1024];

	if (kernel_place_is_code(m->k, &m->entry.place[field])) {
		kernel_code_text(m->k, &m->entry.place[field], length, text, sizeof(text));
		listing_add(m->l, "%s", text);
	} else {
		listing_add(m->l, "-");
	}
}

/* Adds a cell that lists the bits of `flags`: by name, or by number if a bit has no name; "-" if no bit is set. */
static void bits_add(struct listing *l, uint64_t flags, const char *const *names, unsigned count)
{
	char text[128] = "";
	size_t n = 0;
	unsigned i;

	for (i = 0; i < 64 && n < sizeof(text); i++)
		if (flags >> i & 1)
			n += (size_t)(i < count ? snprintf(text + n, sizeof(text) - n, ",%s", names[i])
			                        : snprintf(text + n, sizeof(text) - n, ",bit%u", i));
	listing_add(l, "%s", text[0] ? text + 1 : "-");
}

/* ---- names of numbers ------------------------------------------------------------------- */

/* Returns the name of a type of __ex_table entries (arch/x86/include/asm/extable_fixup_types.h) in 5.16 and later, or
 * null if the type is unknown. */
static const char *ex_type_name(unsigned type)
{
	static const char *const names[] = {
		"none",           "default",     "fault",        "uaccess",      "copy",
		"clear-fs",       "fpu-restore", "bpf",          "wrmsr",        "rdmsr",
		"wrmsr-safe",     "rdmsr-safe",  "wrmsr-in-mce", "rdmsr-in-mce", "default-mce-safe",
		"fault-mce-safe", "pop-reg",     "imm-reg",      "fault-sgx",    "ucopy-len",
		"zeropad",        "eretu",
	};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}

/*
 * Returns the source of a word of CPU feature bits: a CPUID leaf such as "7.0:ebx", or "linux" for a word that the
 * kernel defines. Returns null if the source is unknown or differs between kernel versions. A feature's number is word
 * * 32 + bit (arch/x86/include/asm/cpufeatures.h).
 */
static const char *feature_word(unsigned word)
{
	/* by enum cpuid_leafs of asm/cpufeature.h: only the words that have the same meaning in all versions */
	static const char *const words[] = {
		[0] = "1:edx",         [1] = "80000001:edx",  [2] = "80860001:edx", [3] = "linux",         [4] = "1:ecx",
		[5] = "c0000001:edx",  [6] = "80000001:ecx",  [7] = "linux",        [8] = "linux",         [9] = "7.0:ebx",
		[10] = "d.1:eax",      [13] = "80000008:ebx", [14] = "6:eax",       [15] = "8000000a:edx", [16] = "7.0:ecx",
		[17] = "80000007:ebx", [18] = "7.0:edx",
	};

	return word < sizeof(words) / sizeof(words[0]) ? words[word] : NULL;
}

/* ---- rows -------------------------------------------------------------------------- */

static void ex_add(struct row_context *m)
{
	uint32_t data = (uint32_t)m->entry.number[KF_DATA];
	const char *type = ex_type_name(data & 0xff);

	place_add(m, KF_INSN);
	place_add(m, KF_TO);
	if (m->table->layout->fields[2].field == KF_HANDLER) {
		name_add(m, KF_HANDLER);
	} else {
		if (type)
			listing_add(m->l, "%s", type);
		else
			listing_add(m->l, "%u", data & 0xff);
		listing_add(m->l, "%u", data >> 8 & 15);
		listing_add(m->l, "%u", data >> 12 & 15);
		listing_add(m->l, "%d", (int16_t)(data >> 16));
	}
	name_add(m, KF_INSN);
	name_add(m, KF_TO);
}

static void alt_add(struct row_context *m)
{
	static const char *const flags[] = {"not", "direct-call"};
	const struct kernel_entry *x = &m->entry;
	unsigned feature = (unsigned)x->number[KF_FEATURE];
	const char *word = feature_word(feature / 32);
	uint64_t length = x->number[KF_LENGTH], to = x->number[KF_NEW_LENGTH];

	place_add(m, KF_INSN);
	listing_add(m->l, "%" PRIu64, length);
	place_add(m, KF_TO);
	listing_add(m->l, "%" PRIu64, to);
	listing_add(m->l, "%u*32+%u", feature / 32, feature % 32);
	if (word && !strcmp(word, "linux"))
		listing_add(m->l, "linux");
	else if (word)
		listing_add(m->l, "%s bit %u", word, feature % 32);
	else
		listing_add(m->l, "-");
	bits_add(m->l, x->number[KF_FLAGS], flags, COUNT(flags));
	name_add(m, KF_INSN);
	if (length)
		code_add(m, KF_INSN, length);
	else
		listing_add(m->l, "-");
	if (to)
		code_add(m, KF_TO, to);
	else
		listing_add(m->l, "%s", length ? "nop" : "-");
}

static void paravirt_add(struct row_context *m)
{
	place_add(m, KF_INSN);
	listing_add(m->l, "%" PRIu64, m->entry.number[KF_LENGTH]);
	listing_add(m->l, "%" PRIu64, m->entry.number[KF_SLOT]);
	name_add(m, KF_INSN);
	code_add(m, KF_INSN, m->entry.number[KF_LENGTH]);
}

static void jump_add(struct row_context *m)
{
	static const char *const flags[] = {"branch", "objtool"};

	place_add(m, KF_INSN);
	place_add(m, KF_TO);
	place_add(m, KF_KEY);
	bits_add(m->l, m->entry.number[KF_FLAGS], flags, COUNT(flags));
	name_add(m, KF_INSN);
	name_add(m, KF_TO);
	name_add(m, KF_KEY);
	code_add(m, KF_INSN, 0);
}

static void call_add(struct row_context *m)
{
	static const char *const flags[] = {"tail", "init"};

	place_add(m, KF_INSN);
	place_add(m, KF_KEY);
	bits_add(m->l, m->entry.number[KF_FLAGS], flags, COUNT(flags));
	name_add(m, KF_INSN);
	name_add(m, KF_KEY);
	code_add(m, KF_INSN, 0);
}

static void site_add(struct row_context *m)
{
	place_add(m, KF_INSN);
	name_add(m, KF_INSN);
	code_add(m, KF_INSN, 0);
}

static void bug_add(struct row_context *m)
{
	static const char *const flags[] = {"warning", "once", "done", "no-cut-here", "format"};

	place_add(m, KF_INSN);
	string_add(m, KF_FILE);
	if (m->table->layout->count > 2)
		listing_add(m->l, "%" PRIu64, m->entry.number[KF_LINE]);
	else
		listing_add(m->l, "-");
	bits_add(m->l, m->entry.number[KF_FLAGS] & 0xff, flags, COUNT(flags));
	listing_add(m->l, "%" PRIu64, m->entry.number[KF_FLAGS] >> 8);
	name_add(m, KF_INSN);
	string_add(m, KF_FORMAT);
}

/* ---- tables ------------------------------------------------------------------------- */

/* How a kind of table is printed: its columns, and the function that adds an entry as a row. */
struct table_view {
	const struct column *columns;
	size_t count;
	void (*add)(struct row_context *m);
};

static struct table_view view_of(const struct kernel_table *t)
{
	static const struct table_view views[] = {
		[KT_EX] = {ex_columns, COUNT(ex_columns), ex_add},
		[KT_ALT] = {alt_columns, COUNT(alt_columns), alt_add},
		[KT_PARAVIRT] = {paravirt_columns, COUNT(paravirt_columns), paravirt_add},
		[KT_JUMP] = {jump_columns, COUNT(jump_columns), jump_add},
		[KT_STATIC_CALL] = {call_columns, COUNT(call_columns), call_add},
		[KT_SITES] = {site_columns, COUNT(site_columns), site_add},
		[KT_BUG] = {bug_columns, COUNT(bug_columns), bug_add},
	};
	struct table_view v = views[t->kind->id];

	if (t->kind->id == KT_EX && t->layout->fields[2].field == KF_HANDLER) {
		v.columns = ex_handler_columns;
		v.count = COUNT(ex_handler_columns);
	}
	return v;
}

/* Fills a listing with a table. For text output, leaves out the column of problems if no entry has one. */
static void table_list(struct kernel *k, const struct kernel_table *t, enum format format, struct listing *l)
{
	struct table_view v = view_of(t);
	struct row_context m = {.k = k, .table = t, .l = l};
	bool problems = t->bad || format != FORMAT_TEXT;
	size_t i;

	listing_init(l, v.columns, problems ? v.count : v.count - 1);
	for (i = 0; i < t->count; i++) {
		kernel_entry_read(k, t, i, &m.entry);
		if (m.entry.empty)
			continue;
		v.add(&m);
		if (problems)
			listing_add(l, "%s", m.entry.problem ? m.entry.problem : "-");
	}
}

/* Returns how the layout was determined, or null if the table has only one layout. */
static const char *from_text(const struct kernel_table *t)
{
	static const char *const text[] = {
		[KLAYOUT_ENTRIES] = "its entries", [KLAYOUT_RELEASE] = "the release", [KLAYOUT_ASSUMED] = "assumed"};

	return t->from == KLAYOUT_ONLY ? NULL : text[t->from];
}

static void place_of(const struct kernel *k, const struct kernel_table *t, char *out, size_t size)
{
	const struct elf_section *s = &k->file->sections[t->section];

	out[0] = 0;
	if (!elf_is_object(k->file))
		snprintf(out, size, ", at %" PRIx64 "%s%.100s", s->sh.sh_addr + t->offset, t->by_symbols ? " in " : "",
		         t->by_symbols ? s->name : "");
}

static void head_print(const struct kernel *k, const struct kernel_table *t, const char *mark)
{
	static const char *const from[] = {[KLAYOUT_ONLY] = "the only one",
	                                   [KLAYOUT_ENTRIES] = "from its entries",
	                                   [KLAYOUT_RELEASE] = "from the release",
	                                   [KLAYOUT_ASSUMED] = "assumed: several fit"};
	char place[160];

	place_of(k, t, place, sizeof(place));
	printf("%s%s: %zu %s of %u bytes%s", mark, t->kind->name, t->count, t->count == 1 ? "entry" : "entries",
	       t->layout->size, place);
	if (t->layout->name)
		printf(", layout of %s (%s)", t->layout->name, from[t->from]);
	if (t->kind->id == KT_EX && !elf_is_object(k->file))
		printf(", %s", t->sorted ? "sorted" : "not sorted");
	if (t->empty)
		printf(", %zu of them zeros", t->empty);
	if (t->bad)
		printf(", %zu malformed", t->bad);
	if (t->problem[0])
		printf("; %s", t->problem);
	putchar('\n');
}

static void orc_head_print(struct kernel *k, const char *mark)
{
	struct kernel_rows rows;

	if (kernel_orc_head(k, &rows))
		printf("%s.orc_unwind: %zu rows, layout of %s (%s)%s%s; shown by etch inspect orc\n", mark, rows.count,
		       kernel_orc_layout_text(rows.layout), rows.layout_from, rows.problem[0] ? "; " : "", rows.problem);
}

static void tables_print(struct kernel *k, const struct kernel_tables *t, enum format format)
{
	const char *mark = format == FORMAT_TSV ? "# " : "\n";
	struct listing l;
	size_t i;

	printf("%s", format == FORMAT_TSV ? "# " : "");
	text_clean(stdout, k->file->path);
	printf(": %s, %s%s%s%s (identified by its %s)\n", kernel_kind(k), k->release[0] ? "release " : "unknown release",
	       k->release, k->release[0] ? " in " : "", k->release[0] ? k->release_from : "", k->sign);
	orc_head_print(k, mark);
	for (i = 0; i < t->count; i++) {
		head_print(k, &t->list[i], mark);
		if (t->list[i].count == t->list[i].empty)
			continue;
		table_list(k, &t->list[i], format, &l);
		listing_print(&l, format);
		listing_free(&l);
	}
	for (i = 0; i < t->missing_count; i++)
		printf("%s%s: inside another section; needs --symbols System.map\n", i && format == FORMAT_TEXT ? "" : mark,
		       t->missing[i]->name);
}

/* ---- JSON ------------------------------------------------------------------------------ */

/* Prints a JSON value and frees it. */
static void value_put(struct json_object *o)
{
	json_put(stdout, o, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	json_object_put(o);
}

static void json_string(const char *key, const char *value, const char *end)
{
	printf("\"%s\": ", key);
	if (value)
		value_put(json_name(value));
	else
		printf("null");
	printf("%s", end);
}

static void table_json(struct kernel *k, const struct kernel_table *t, bool first)
{
	struct json_object *rows;
	struct listing l;
	size_t i;

	printf("%s\n    {", first ? "" : ",");
	json_string("name", t->kind->name, ", ");
	json_string("section", k->file->sections[t->section].name, ", ");
	printf("\"offset\": %" PRIu64 ", \"count\": %zu, \"entry_size\": %u, ", t->offset, t->count, t->layout->size);
	json_string("layout", t->layout->name, ", ");
	json_string("layout_from", from_text(t), ", ");
	printf("\"sorted\": %s, \"malformed\": %zu, \"empty\": %zu, \"left_over\": %" PRIu64 ", ",
	       t->sorted ? "true" : "false", t->bad, t->empty, t->rest);
	json_string("problem", t->problem[0] ? t->problem : NULL, ", \"entries\": [");
	table_list(k, t, FORMAT_JSON, &l);
	rows = listing_json(&l);
	listing_free(&l);
	for (i = 0; i < json_object_array_length(rows); i++) {
		printf("%s\n      ", i ? "," : "");
		json_put(stdout, json_object_array_get_idx(rows, i), JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	}
	json_object_put(rows);
	printf("%s]}", t->count > t->empty ? "\n    " : "");
}

static void orc_json(struct kernel *k)
{
	struct kernel_rows rows;

	if (!kernel_orc_head(k, &rows)) {
		printf("  \"orc\": null,\n");
		return;
	}
	printf("  \"orc\": {\"count\": %zu, ", rows.count);
	json_string("layout", kernel_orc_layout_text(rows.layout), ", ");
	json_string("layout_from", rows.layout_from, ", ");
	json_string("problem", rows.problem[0] ? rows.problem : NULL, "},\n");
}

static void tables_json(struct kernel *k, const struct kernel_tables *t)
{
	size_t i;

	json_document_begin();
	printf("{\n  \"format\": \"etch-inspect-kernel\",\n  \"version\": 1,\n  ");
	json_string("file", k->file->path, ",\n  ");
	json_string("kind", kernel_kind(k), ",\n  ");
	json_string("release", k->release[0] ? k->release : NULL, ",\n  ");
	json_string("release_from", k->release[0] ? k->release_from : NULL, ",\n  ");
	json_string("told_by", k->sign, ",\n");
	orc_json(k);
	printf("  \"tables\": [");
	for (i = 0; i < t->count; i++)
		table_json(k, &t->list[i], !i);
	printf("%s],\n  \"missing\": [", t->count ? "\n  " : "");
	for (i = 0; i < t->missing_count; i++) {
		printf("%s", i ? ", " : "");
		value_put(json_name(t->missing[i]->name));
	}
	printf("]\n}\n");
}

void kernel_tables_show(struct kernel *k, enum format format)
{
	struct kernel_tables t;

	kernel_tables_find(k, &t);
	if (format == FORMAT_JSON)
		tables_json(k, &t);
	else
		tables_print(k, &t, format);
	kernel_tables_free(&t);
}
