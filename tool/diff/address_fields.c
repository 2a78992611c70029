/* SPDX-License-Identifier: MIT */
/* Finds the address fields of an instruction: by relocations in object files, by the operands in linked files. */
#include "diff/address_fields.h"

#include <inttypes.h>
#include <stdio.h>

#define CLASS_PC    1u
#define CLASS_SLOT  2u
#define CLASS_ABS   3u
#define CLASS_OTHER 16u /* a CLASS_* of this number + the type of the relocation */

/* ---- operands: object files -------------------------------------------------------- */

/* Returns the size in bytes of the field that a relocation writes, or 0 if it writes none. */
static unsigned reloc_size(uint32_t type)
{
	switch (type) {
	case R_X86_64_TLSDESC_CALL: /* it marks an instruction and changes none of its bytes */
	case R_X86_64_NONE: return 0;
	case R_X86_64_8:
	case R_X86_64_PC8: return 1;
	case R_X86_64_16:
	case R_X86_64_PC16: return 2;
	case R_X86_64_64:
	case R_X86_64_PC64:
	case R_X86_64_GOTOFF64:
	case R_X86_64_GOT64:
	case R_X86_64_GOTPCREL64:
	case R_X86_64_GOTPC64:
	case R_X86_64_GOTPLT64:
	case R_X86_64_PLTOFF64:
	case R_X86_64_SIZE64:
	case R_X86_64_DTPOFF64:
	case R_X86_64_TPOFF64: return 8;
	default: return 4;
	}
}

/* Returns the CLASS_* of a relocation. Sets *pc if the relocated value is relative to the field. */
static uint32_t reloc_class(uint32_t type, bool *pc)
{
	*pc = true;
	switch (type) {
	case R_X86_64_PC8:
	case R_X86_64_PC16:
	case R_X86_64_PC32:
	case R_X86_64_PLT32: return CLASS_PC;
	case R_X86_64_GOTPCREL:
	case R_X86_64_GOTPCRELX:
	case R_X86_64_REX_GOTPCRELX: return CLASS_SLOT;
	case R_X86_64_GOTTPOFF:
	case R_X86_64_TLSGD:
	case R_X86_64_TLSLD:
	case R_X86_64_GOTPC32:
	case R_X86_64_GOTPC32_TLSDESC: return CLASS_OTHER + type;
	default: *pc = false; return type == R_X86_64_32 || type == R_X86_64_32S ? CLASS_ABS : CLASS_OTHER + type;
	}
}

/* Finds the operands of an instruction by its relocations. Returns their number. */
static unsigned operands_of_object(const struct image *im, const struct function *fn, const struct normal *n,
                                   struct operand *out)
{
	const struct elf_reloc *r = place_reloc(im, fn->section, n->addr, n->addr + n->len);
	const struct place_relocs *all = &im->places.relocs[fn->section];
	unsigned count = 0;
	bool filled = false, pc;

	for (; r && r < all->list + all->count && r->offset < n->addr + n->len && count < OPERANDS_MOST; r++) {
		unsigned at = (unsigned)(r->offset - n->addr), size = reloc_size(r->type);
		struct operand *o = &out[count];

		if (!size || at + size > n->len || r->symbol >= im->file.symbol_count)
			continue;
		*o = (struct operand){.at = (uint8_t)at,
		                      .len = (uint8_t)size,
		                      .how = BY_SYMBOL,
		                      .branch = n->branch,
		                      .symbol = &im->file.symbols[r->symbol],
		                      .addend = r->addend};
		o->class = reloc_class(r->type, &pc);
		if (pc)
			o->addend = (int64_t)((uint64_t)o->addend + n->len - at);
		o->place = (struct place){o->symbol->section, o->symbol->value + (uint64_t)o->addend};
		filled |= n->branch || at == n->disp_at;
		count++;
	}
	/* This operand has no relocation, since the assembler has resolved it: its target is in the same section. */
	if ((n->branch || n->pc) && !filled && count < OPERANDS_MOST)
		out[count++] = (struct operand){.at = n->branch ? n->imm_at : n->disp_at,
		                                .len = n->branch ? n->imm_len : n->disp_len,
		                                .branch = n->branch,
		                                .class = CLASS_PC,
		                                .place = {fn->section, n->target}};
	return count;
}

/* ---- operands: linked files ---------------------------------------------------------- */

/*
 * In a file with a fixed load address, any number in an instruction may be an address. Returns true if this number may
 * be one, and sets *out to its place. A number in the range of code counts only if it is the start of a function, since
 * flags and sizes are often in that range.
 */
static bool number_is_place(const struct image *im, int64_t v, struct place *out)
{
	uint32_t fn;

	*out = (struct place){v > 0 ? place_section(im, (uint64_t)v) : 0, (uint64_t)v};
	if (!out->section && v > 1)
		return place_section(im, (uint64_t)v - 1) != 0; /* the number may be the address at which a section ends */
	if (!out->section || !place_is_code(im, out->section))
		return out->section != 0;
	fn = image_function(im, out->section, out->addr);
	return fn != NO_FUNC && im->funcs[fn].start == out->addr;
}

static unsigned operands_of_linked(const struct image *im, const struct normal *n, struct operand *out)
{
	struct place at;
	unsigned count = 0;

	if (n->branch || n->pc) {
		at = (struct place){place_section(im, n->target), n->target};
		out[count++] = (struct operand){.at = n->branch ? n->imm_at : n->disp_at,
		                                .len = n->branch ? n->imm_len : n->disp_len,
		                                .branch = n->branch,
		                                .class = CLASS_PC,
		                                .place = at};
	}
	if (n->segment && n->disp_len == 4 && !n->based && n->disp < 0)
		out[count++] =
			(struct operand){.at = n->disp_at, .len = 4, .how = BY_THREAD, .class = CLASS_ABS, .addend = n->disp};
	if (!im->places.fixed || n->branch)
		return count;
	if (n->disp_len == 4 && !n->pc && !n->segment && number_is_place(im, n->disp, &at))
		out[count++] = (struct operand){.at = n->disp_at, .len = 4, .class = CLASS_ABS, .place = at};
	if (n->imm_len >= 4 && count < OPERANDS_MOST && number_is_place(im, n->imm, &at))
		out[count++] = (struct operand){.at = n->imm_at, .len = n->imm_len, .class = CLASS_ABS, .place = at};
	return count;
}

unsigned operands_find(const struct image *im, const struct function *fn, const struct normal *n, struct operand *out)
{
	return elf_is_object(&im->file) ? operands_of_object(im, fn, n, out) : operands_of_linked(im, n, out);
}

void operand_ref(const struct body_side *side, const struct normal *n, const struct operand *o, struct xref *out,
                 char *text, size_t size)
{
	const struct image *im = side->im;
	const struct function *fn = &im->funcs[side->func];
	struct ref_use use = {.func = side->func, .own = side->body->own, .own_count = side->body->own_count};

	if (o->how == BY_THREAD) {
		if (ref_thread(im, o->addend, out, text, size))
			return;
		*out = (struct xref){.kind = REF_NUMBER, .value = (uint64_t)o->addend};
		if (text)
			snprintf(text, size, "%" PRId64, o->addend);
		return;
	}
	if (!o->branch && o->class != CLASS_SLOT && o->at == n->disp_at && n->disp_len && !n->based)
		use.access = normal_access(fn->bytes + (n->addr - fn->start), n->len);
	if (o->how == BY_SYMBOL)
		ref_symbol(im, (struct symbol_offset){o->symbol, o->addend}, &use, out, text, size);
	else
		ref_place(im, o->place, &use, out, text, size);
}
