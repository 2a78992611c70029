/* SPDX-License-Identifier: MIT */
/* etch rewrite and etch check as a whole, except for reading and writing files. */
#include "fuzz.h"

#include "check/check.h"
#include "output/segment.h"
#include "output/undo.h"
#include "report/report_json.h"
#include "report/report.h"
#include "rewrite/rewrite.h"

#include <json-c/json.h>

/* The last byte says how. */
static struct rewrite_options options_of(const uint8_t *data, size_t size)
{
	unsigned how = size ? data[size - 1] : 0;
	struct rewrite_options o = {.imv = true, .pv = true, .orc = true, .ex = true, .unwind = {.jobs = 1, .map_shift = 6}};

	o.unwind.encoding = how & 1 ? ETCH_ENCODING_ORC : ETCH_ENCODING_BLOCK;
	o.unwind.no_cfi = how & 2;
	if (how & 4)
		o.imv = o.pv = false;
	return o;
}

/* The new bytes; null: refused, or right as they are. */
static uint8_t *rewritten(const uint8_t *data, size_t size, const struct rewrite_options *o, size_t *out_size)
{
	struct rewrite_result done = {0};
	struct name_set others = {0};
	struct scan scan = {0};
	uint8_t *out = NULL, *opened = NULL;
	struct elf_file f;
	struct error e;
	int r;

	if (fuzz_open(&f, data, size)) {
		opened = f.bytes;
		r = elf_is_object(&f) ? rewrite_object(&f, o, &others, &scan, &done, &e) : rewrite_linked(&f, o, &scan, &done, &e);
		if (!r && done.bytes) {
			out = done.bytes;
			*out_size = done.size;
			done.bytes = NULL;
		}
		rewrite_result_free(&done);
		scan_free(&scan);
	}
	if (opened != f.bytes) /* elf_bytes_own() */
		free(opened);
	elf_close(&f);
	return out;
}

/* What an earlier run has left, damaged: it is not known for what it is. Or no section is code: then all of
 * a segment is, the headers that are written anew among it. */
static bool damaged(const uint8_t *data, size_t size)
{
	struct segment_found found;
	struct elf_file f;
	struct error e;
	bool ours = false, code = false;
	uint32_t i;

	if (fuzz_open(&f, data, size))
		for (i = 1; i < f.section_count; i++) {
			ours |= !strncmp(f.sections[i].name, SEGMENT_UNLOADED, sizeof(SEGMENT_UNLOADED) - 1);
			code |= f.sections[i].data && (f.sections[i].sh.sh_flags & SHF_EXECINSTR);
		}
	elf_close(&f);
	return !code || (ours && segment_find(data, size, &found, &e) != 1);
}

/* What was written can be read, is not out of proportion, rewritten again it is the same, and the record
 * gives the file back. */
void fuzz_rewrite(const uint8_t *data, size_t size)
{
	struct rewrite_options o = options_of(data, size);
	uint8_t *out, *again;
	size_t out_size, again_size;
	struct undo undo;
	struct elf_file f;
	struct error e;

	out = rewritten(data, size, &o, &out_size);
	if (!out)
		return;
	must(out_size <= 16 * size + (20u << 20)); /* 16 MB: MAX_FILL of tool/output/segment_place.c */
	must(fuzz_open(&f, out, out_size));
	elf_close(&f);
	again = rewritten(out, out_size, &o, &again_size);
	must(!again || damaged(data, size) || (again_size == out_size && !memcmp(again, out, out_size)));
	free(again);
	if (undo_attach(&out, &out_size, data, size, &e)) {
		must(undo_detach(out, out_size, &undo, &e) == 1);
		must(undo.original_size == size && !memcmp(undo.original, data, size));
		undo_free(&undo);
	}
	free(out);
}

/* The report as JSON, which another process would get, and back. */
static void report_check(struct report *report)
{
	struct json_object *o = report_to_json(report, EXCHANGE_EXACT);
	struct report copy = {0};
	struct error e;

	must(o);
	must(!report_from_json(&copy, o, &e));
	must(copy.count == report->count);
	report_free(&copy);
	json_object_put(o);
}

void fuzz_check(const uint8_t *data, size_t size) { fuzz_check_how(data, size, size ? data[size - 1] : 0); }

void fuzz_check_how(const uint8_t *data, size_t size, unsigned how)
{
	struct check_options o = {.jobs = 1};
	struct report report = {0};
	struct subject s = {0};
	struct elf_file f;
	struct error e;

	o.no_cfi = how & 1;
	o.sls = how & 2;
	o.both_decoders = how & 4;
	if (fuzz_open(&f, data, size) && !check_file(&f, &o, &s, &e)) {
		report_make(&report, &f, &s.found);
		report.path = strdup("input");
		report_check(&report);
	}
	report_free(&report);
	subject_free(&s);
	elf_close(&f);
}
