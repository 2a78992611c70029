/* SPDX-License-Identifier: MIT */
/* etch inspect as a whole: all views of a file. */
#include "fuzz.h"

#include <inttypes.h>
#include <unistd.h>

#include "inspect/inspect.h"

/* Functions by name and by address; the first few. */
static void show_functions(const char *path, const struct elf_file *f, struct code_options *o, unsigned most)
{
	char at[32];
	struct error e;
	uint32_t i, shown = 0;

	for (i = 0; i < f->symbol_count && shown < most; i++)
		if (ELF64_ST_TYPE(f->symbols[i].type) == STT_FUNC && f->symbols[i].section) {
			o->at = f->symbols[i].name;
			show_code(path, o, &e);
			shown++;
		}
	snprintf(at, sizeof(at), "%" PRIx64, elf_is_object(f) ? 0 : f->eh.e_entry);
	o->at = at;
	show_code(path, o, &e);
}

static void view_one(const char *path, bool tables, enum format format)
{
	struct error e;
	struct view v;

	if (!view_load(&v, path, &e)) {
		if (tables && !elf_is_object(&v.file))
			show_tables(&v, format);
		else if (!tables)
			show_sites(&v, format);
	}
	view_free(&v);
}

static void marks_of(const char *path, enum format format)
{
	struct error e;
	struct view v;

	if (!view_load(&v, path, &e))
		show_marks(&v, format, &e);
	view_free(&v);
}

/* The last byte says how. */
void fuzz_inspect(const uint8_t *data, size_t size) { fuzz_inspect_how(data, size, size ? data[size - 1] : 0); }

void fuzz_inspect_how(const uint8_t *data, size_t size, unsigned how)
{
	unsigned what;
	enum format format = how % 3;
	struct code_options code = {.no_cfi = how & 4, .intel = how & 8, .bytes = how & 16, .jobs = 1, .format = format};
	struct kernel_options kernel = {.tables = how & 4, .format = format};
	struct fuzz_out out;
	struct elf_file f;
	struct error e;
	char path[32];
	int fd;

	if (fuzz_open(&f, data, size)) {
		fd = fuzz_path(data, size, path);
		for (what = 0; what < 8; what++) {
			fuzz_print(&out);
			switch (what) {
			case 0: show_summary(path, 1, format, &e); break;
			case 1: show_orc(path, NULL, code.no_cfi, format, &e); break;
			case 2: show_kernel(path, &kernel, &e); break;
			case 3: view_one(path, how & 4, format); break;
			case 4: show_orc(path, NULL, UNWIND_SFRAME, format, &e); break;
			case 5: show_orc(path, NULL, UNWIND_CFI, format, &e); break;
			case 6: marks_of(path, format); break;
			default: show_functions(path, &f, &code, how & 0xe0 ? 1 : 3);
			}
			fuzz_printed(&out, what < 7 && format == FORMAT_JSON);
		}
		close(fd);
	}
	elf_close(&f);
}
