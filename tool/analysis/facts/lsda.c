/* SPDX-License-Identifier: MIT */
/* Decodes the call-site table of one LSDA. */
#include "analysis/facts/lsda.h"

/* Opens the section or segment that contains an LSDA, for reads up to its end. *offset becomes the offset of the LSDA
 * in it. Returns false if the address is in none. */
static bool lsda_bytes(const struct elf_file *f, const struct cfi_file *c, uint64_t addr, struct etch_cfi *out,
                       uint64_t *offset)
{
	uint32_t i;

	for (i = 0; i < c->lsda_count; i++) {
		const struct cfi_part *p = &c->lsdas[i];

		if (addr >= p->addr && addr - p->addr < p->size) {
			etch_cfi_open(out, p->bytes, p->size, p->addr);
			*offset = addr - p->addr;
			return true;
		}
	}
	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_LOAD && addr >= p->p_vaddr && addr - p->p_vaddr < p->p_filesz) {
			etch_cfi_open(out, f->bytes + p->p_offset, p->p_filesz, p->p_vaddr);
			*offset = addr - p->p_vaddr;
			return true;
		}
	}
	return false;
}

long lsda_call_sites(const struct elf_file *f, const struct cfi_file *c, size_t i, lsda_call_site_fn *fn, void *ctx)
{
	const struct cfi_fde *fde = &c->fdes[i];
	struct etch_cfi bytes;
	struct etch_cfi_in in = {&bytes, 0, 0, false};
	uint64_t pads = fde->start, length;
	uint8_t enc;
	long n = 0;

	if (!fde->lsda)
		return 0;
	if (!lsda_bytes(f, c, fde->lsda, &bytes, &in.at))
		return -1;
	in.end = bytes.size;
	enc = (uint8_t)etch_cfi_u(&in, 1); /* LPStart: base of the landing pads, if it is not the function's start */
	if (enc != ETCH_PE_OMIT)
		pads = etch_cfi_pointer(&in, enc, fde->start);
	if (enc != ETCH_PE_OMIT && (enc & ETCH_PE_INDIRECT))
		return -1;
	enc = (uint8_t)etch_cfi_u(&in, 1); /* TType: encoding of the type table, and offset to it */
	if (enc != ETCH_PE_OMIT)
		etch_cfi_uleb(&in);
	enc = (uint8_t)etch_cfi_u(&in, 1) & 0x0f;
	length = etch_cfi_uleb(&in);
	if (in.bad || length > in.end - in.at)
		return -1;
	in.end = in.at + length;
	/* There is at most one call site per byte of code. A longer table is one that many FDEs share; to read all of it
	 * for each would take quadratic time. */
	while (in.at < in.end && (uint64_t)n < fde->end - fde->start) {
		uint64_t start = etch_cfi_pointer(&in, enc, 0);
		uint64_t size = etch_cfi_pointer(&in, enc, 0);
		uint64_t pad = etch_cfi_pointer(&in, enc, 0);

		etch_cfi_uleb(&in); /* action */
		if (in.bad)
			return -1;
		fn(ctx, fde->start + start, fde->start + start + size, pad ? pads + pad : 0);
		n++;
	}
	return n;
}
