/* SPDX-License-Identifier: MIT */
/* .eh_frame, LSDAs, and code: decoder, flow, rows. */
#include "fuzz.h"

#include "analysis/interproc/frames.h"
#include "analysis/facts/cfi_file.h"

#include <etch/orc_lookup.h>

#define BASE 0x400000u

struct seen {
	uint64_t at;
	unsigned rows;
};

static void row(void *ctx, const struct etch_cfi_row *r)
{
	struct seen *s = ctx;

	must(r->start == s->at && r->end > r->start);
	must(etch_rule_valid(&r->rule));
	must(r->rule.kind != ETCH_RULE_UNDEF || r->why);
	s->at = r->end;
	s->rows++;
}

/* At most of the bytes of code that there are: a PLT has rows for each 16 of them. */
static void fde_rows(struct etch_fde *fde)
{
	unsigned flags;

	if (fde->end > fde->start + 65536)
		fde->end = fde->start + 65536;
	for (flags = 0; flags <= ETCH_CFI_SAVES; flags += ETCH_CFI_SAVES) {
		struct seen s = {.at = fde->start};

		etch_cfi_rows(fde, flags, row, &s);
		must(fde->start >= fde->end || s.at == fde->end);
	}
}

/* The section, entry by entry; and the same bytes as an .eh_frame_hdr that leads into it. */
void fuzz_cfi(const uint8_t *data, size_t size)
{
	uint8_t *bytes = fuzz_copy(data, size);
	struct etch_cfi_hdr h;
	struct etch_cfi cfi;
	struct etch_fde fde;
	uint64_t i;

	etch_cfi_open(&cfi, bytes, size, BASE);
	while (etch_cfi_next(&cfi, &fde)) {
		must(fde.at < size);
		fde_rows(&fde);
	}
	if (etch_cfi_hdr(bytes, size, BASE, &h)) {
		must(h.count <= size / 8);
		for (i = 0; i < h.count && i < 64; i++)
			if (etch_cfi_at(&cfi, etch_cfi_hdr_fde(&h, i) - BASE, &fde))
				fde_rows(&fde);
	}
	free(bytes);
}

static void site(void *ctx, uint64_t start, uint64_t end, uint64_t pad)
{
	uint64_t *sum = ctx;

	*sum += start ^ end ^ pad;
}

void fuzz_lsda(const uint8_t *data, size_t size)
{
	struct cfi_part part = {.size = size, .addr = BASE};
	struct cfi_fde fde = {.start = 0x1000, .end = 0x2000, .lsda = BASE};
	struct cfi_file c = {.fdes = &fde, .count = 1, .lsdas = &part, .lsda_count = 1};
	struct elf_file f = {0};
	uint64_t sum = 0;
	long n;

	part.owned = fuzz_copy(data, size);
	part.bytes = part.owned;
	n = lsda_call_sites(&f, &c, 0, site, &sum);
	must(n <= (long)size);
	free(part.owned);
}

/* ---- code ------------------------------------------------------------------------- */

/* An object file of one function. Its sections: .text, symbols, and one table of strings. */
struct object {
	Elf64_Ehdr eh;
	Elf64_Shdr sh[4];
	Elf64_Sym sym[2];
	char strings[32];
};

static uint8_t *object_make(const uint8_t *code, size_t size, bool linked, size_t *out_size)
{
	static const char strings[32] = "\0.text\0.symtab\0.strtab\0f";
	struct object o = {
		.eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT}, .e_machine = EM_X86_64,
		       .e_type = ET_REL, .e_version = EV_CURRENT, .e_shoff = offsetof(struct object, sh), .e_ehsize = 64,
		       .e_shentsize = 64, .e_shnum = 4, .e_shstrndx = 3},
	};
	Elf64_Phdr ph = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = BASE, .p_align = 0x1000};
	uint64_t base = linked ? BASE + sizeof(o) : 0;
	uint8_t *bytes = malloc(sizeof(o) + size + sizeof(ph));

	if (!bytes)
		abort();
	o.sh[1] = (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = base,
	                       .sh_offset = sizeof(o), .sh_size = size, .sh_addralign = 1};
	o.sh[2] = (Elf64_Shdr){.sh_name = 7, .sh_type = SHT_SYMTAB, .sh_offset = offsetof(struct object, sym),
	                       .sh_size = sizeof(o.sym), .sh_link = 3, .sh_info = 1, .sh_addralign = 8, .sh_entsize = 24};
	o.sh[3] = (Elf64_Shdr){.sh_name = 15, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct object, strings),
	                       .sh_size = sizeof(o.strings), .sh_addralign = 1};
	o.sym[1] = (Elf64_Sym){.st_name = 23, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_value = base,
	                       .st_size = size};
	memcpy(o.strings, strings, sizeof(strings));
	if (linked) {
		o.eh.e_type = ET_EXEC;
		o.eh.e_entry = base;
		o.eh.e_phoff = sizeof(o) + size;
		o.eh.e_phentsize = sizeof(ph);
		o.eh.e_phnum = 1;
		ph.p_filesz = ph.p_memsz = sizeof(o) + size;
	}
	memcpy(bytes, &o, sizeof(o));
	memcpy(bytes + sizeof(o), code, size);
	memcpy(bytes + sizeof(o) + size, &ph, sizeof(ph));
	*out_size = sizeof(o) + size + sizeof(ph);
	return bytes;
}

/* The same rows, whether it was asked for findings too. */
static void rows_same(const struct elf_file *f, struct frames_options options, const struct row_list *rows)
{
	struct frames fr = {0};
	struct error e;
	size_t i;

	options.observe = !options.observe;
	must(!frames_find(f, &options, &fr, &e));
	must(fr.rows.count == rows->count);
	for (i = 0; i < rows->count; i++)
		must(fr.rows.rows[i].addr == rows->rows[i].addr && etch_rule_equal(&fr.rows.rows[i].rule, &rows->rows[i].rule));
	frames_free(&fr);
}

/* All of the text has rows, in order. The first byte: options. */
void fuzz_code(const uint8_t *data, size_t size)
{
	struct frames_options options = {.jobs = 1};
	struct frames fr = {0};
	struct elf_file f;
	struct error e;
	uint8_t *bytes;
	size_t n, i;

	if (size < 2)
		return;
	options.observe = data[0] & 1;
	options.no_cfi = data[0] & 2;
	bytes = object_make(data + 1, size - 1, data[0] & 4, &n);
	must(!elf_open_bytes(&f, "code", bytes, n, &e));
	must(!frames_find(&f, &options, &fr, &e));
	for (i = 0; i < fr.rows.count; i++) {
		must(etch_rule_valid(&fr.rows.rows[i].rule));
		must(!i || fr.rows.rows[i].addr > fr.rows.rows[i - 1].addr);
	}
	must(fr.covered + fr.undefined <= size - 1);
	if (data[0] & 8)
		rows_same(&f, options, &fr.rows);
	frames_free(&fr);
	elf_close(&f);
}
