/* SPDX-License-Identifier: MIT */
/*
 * shared/cfi_entries.h: parses the entries of .eh_frame and the table of .eh_frame_hdr. It is internal to etch: the
 * tool and the library share it, it is no interface for programs, and it may change at any time. C only. Signal and
 * thread safety: as in shared/cfi.h.
 */
#ifndef ETCH_LIB_SHARED_CFI_ENTRIES_H
#define ETCH_LIB_SHARED_CFI_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A common information entry. Offsets are in bytes from the section's start. */
struct etch_cie {
	uint64_t at;
	uint64_t program, program_end;
	uint64_t code_align;
	int64_t data_align;
	uint8_t fde_encoding, lsda_encoding; /* DW_EH_PE_* */
	bool data;                           /* augmentation 'z': FDEs have augmentation data */
	bool signal;                         /* augmentation 'S': its FDEs describe signal frames */
	bool personality_indirect;           /* the next field is the address of a pointer to it */
	uint64_t personality;                /* address of the personality routine, or 0 */
};

/* An .eh_frame section that is being parsed. */
struct etch_cfi {
	const uint8_t *bytes;
	uint64_t size;
	uint64_t addr;      /* address of bytes[0], in the address space of the results */
	uint64_t data_base; /* base for DW_EH_PE_datarel and _textrel; 0 if unknown */
	uint64_t text_base;
	bool stop;           /* stop at a zero terminator, if the size is unknown */
	uint64_t at;         /* offset where etch_cfi_next() continues */
	uint64_t bad;        /* number of malformed entries skipped */
	struct etch_cie cie; /* the last CIE parsed; .program 0 = none yet */
};

/* A frame description entry: the range of code that it describes, and its program. */
struct etch_fde {
	uint64_t start, end; /* addresses; a caller may lower `end` before etch_cfi_rows() */
	uint64_t lsda;       /* address, or 0 */
	uint64_t at;         /* offset of this entry */
	uint64_t program, program_end;
	const struct etch_cfi *cfi;
	struct etch_cie cie;
};

/* `bytes` remain the caller's and must outlive c and its FDEs. */
static inline void etch_cfi_open(struct etch_cfi *c, const void *bytes, uint64_t size, uint64_t addr);

/* Parses the next FDE in section order. Returns 1, or 0 at the end. A malformed entry is skipped alone. */
static inline int etch_cfi_next(struct etch_cfi *c, struct etch_fde *fde);

/* Parses the FDE at an offset (etch_fde.at, or from the table of .eh_frame_hdr). Returns 1, or 0 if there is none or
 * it is malformed. Does not change c. */
static inline int etch_cfi_at(const struct etch_cfi *c, uint64_t at, struct etch_fde *fde);

/* The contents of .eh_frame_hdr, which a linked file's PT_GNU_EH_FRAME covers. */
struct etch_cfi_hdr {
	uint64_t eh_frame;    /* address of .eh_frame */
	uint64_t count;       /* entries of the table; 0 without a table */
	const uint8_t *table; /* int32_t[count][2]: start of a function and its FDE, relative to addr */
	uint64_t addr;
};

/* Reads the section .eh_frame_hdr. Returns false if it is malformed. A table in an unusual encoding counts as missing.
 */
static inline bool etch_cfi_hdr(const void *bytes, uint64_t size, uint64_t addr, struct etch_cfi_hdr *out);

/* Start address of the function of entry i < count. */
static inline uint64_t etch_cfi_hdr_start(const struct etch_cfi_hdr *h, uint64_t i)
{
	int32_t off;

	memcpy(&off, h->table + 8 * i, 4);
	return h->addr + (uint64_t)(int64_t)off;
}

/* Address of the FDE of entry i < count. */
static inline uint64_t etch_cfi_hdr_fde(const struct etch_cfi_hdr *h, uint64_t i)
{
	int32_t off;

	memcpy(&off, h->table + 8 * i + 4, 4);
	return h->addr + (uint64_t)(int64_t)off;
}

/* ---- reading bytes --------------------------------------------------------- */

/* A cursor over [at, end) of the section. Once `bad` is set, it stays set and all reads return 0. */
struct etch_cfi_in {
	const struct etch_cfi *cfi;
	uint64_t at, end;
	bool bad;
};

static inline uint64_t etch_cfi_u(struct etch_cfi_in *in, unsigned bytes)
{
	uint64_t v = 0;

	if (in->end - in->at < bytes) {
		in->bad = true;
		in->at = in->end;
		return 0;
	}
	memcpy(&v, in->cfi->bytes + in->at, bytes);
	in->at += bytes;
	return v;
}

static inline int64_t etch_cfi_s(struct etch_cfi_in *in, unsigned bytes)
{
	unsigned shift = 64 - 8 * bytes;

	return (int64_t)(etch_cfi_u(in, bytes) << shift) >> shift;
}

/*
 * Reads a LEB128 number (DWARF 5, 7.6), signed or unsigned. A number that needs more than 64 bits is malformed: all
 * bits after the first 63 repeat the sign, except that the 64th bit of an unsigned number is free.
 */
static inline uint64_t etch_cfi_leb(struct etch_cfi_in *in, bool is_signed)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b, rest;

	if (in->at < in->end && in->cfi->bytes[in->at] < 0x80) { /* nearly all numbers have one byte */
		b = in->cfi->bytes[in->at++];
		return is_signed && (b & 0x40) ? b | ~(uint64_t)0x7f : b;
	}
	do {
		if (in->at == in->end) {
			in->bad = true;
			return 0;
		}
		b = in->cfi->bytes[in->at++];
		rest = b & 0x7f;
		if (shift < 63) {
			v |= (uint64_t)rest << shift;
			shift += 7;
			continue;
		}
		if (shift == 63) {
			v |= (uint64_t)rest << 63;
			shift += 7;
			if (!is_signed)
				rest &= 0x7e;
		}
		if (rest != (is_signed && v >> 63 ? 0x7f : 0))
			in->bad = true;
	} while (b & 0x80);
	if (is_signed && shift < 64 && (b & 0x40))
		v |= ~(uint64_t)0 << shift;
	return v;
}

static inline uint64_t etch_cfi_uleb(struct etch_cfi_in *in) { return etch_cfi_leb(in, false); }

static inline int64_t etch_cfi_sleb(struct etch_cfi_in *in) { return (int64_t)etch_cfi_leb(in, true); }

#define ETCH_PE_OMIT     0xffu
#define ETCH_PE_ALIGNED  0x50u
#define ETCH_PE_INDIRECT 0x80u

/*
 * Reads an encoded pointer (LSB, "Pointer Encoding"). A value of 0 stays 0, whatever it is relative to (unwind-pe.h).
 * With DW_EH_PE_indirect the result is the address of the pointer, not its value, because the dynamic linker writes
 * that word.
 */
static inline uint64_t etch_cfi_pointer(struct etch_cfi_in *in, uint8_t enc, uint64_t func)
{
	uint64_t from = in->at, v;

	if (enc == ETCH_PE_OMIT)
		return 0;
	if ((enc & 0x7f) == ETCH_PE_ALIGNED) {
		uint64_t pad = -(in->cfi->addr + in->at) & 7;

		if (in->end - in->at < pad) {
			in->bad = true;
			return 0;
		}
		in->at += pad;
		return etch_cfi_u(in, 8);
	}
	switch (enc & 0x0f) {
	case 0x00:
	case 0x04:
	case 0x08:
	case 0x0c: /* absptr, udata8, signed, sdata8 */ v = etch_cfi_u(in, 8); break;
	case 0x01: v = etch_cfi_uleb(in); break;
	case 0x02: v = etch_cfi_u(in, 2); break;
	case 0x03: v = etch_cfi_u(in, 4); break;
	case 0x09: v = (uint64_t)etch_cfi_sleb(in); break;
	case 0x0a: v = (uint64_t)etch_cfi_s(in, 2); break;
	case 0x0b: v = (uint64_t)etch_cfi_s(in, 4); break;
	default: in->bad = true; return 0;
	}
	if (in->bad || !v)
		return 0;
	switch (enc & 0x70) {
	case 0x00: return v;
	case 0x10: return v + in->cfi->addr + from; /* pcrel */
	case 0x20: return v + in->cfi->text_base;
	case 0x30: return v + in->cfi->data_base;
	case 0x40: return v + func;
	default: in->bad = true; return 0;
	}
}

/* ---- entries ---------------------------------------------------------------- */

static inline void etch_cfi_open(struct etch_cfi *c, const void *bytes, uint64_t size, uint64_t addr)
{
	memset(c, 0, sizeof(*c));
	c->bytes = (const uint8_t *)bytes;
	c->size = size;
	c->addr = addr;
}

/*
 * Reads the length of the entry at `at`; *in covers its contents from the CIE id or pointer on.
 * Returns 1, 0 for a zero terminator, -1 if it does not fit the section.
 */
static inline int etch_cfi_entry(const struct etch_cfi *c, uint64_t at, struct etch_cfi_in *in)
{
	uint64_t length;

	*in = (struct etch_cfi_in){c, at, c->size, at > c->size};
	if (in->bad)
		return -1;
	length = etch_cfi_u(in, 4);
	if (length == 0xffffffff)
		length = etch_cfi_u(in, 8);
	else if (length >= 0xfffffff0)
		return -1;
	if (in->bad || length > in->end - in->at)
		return -1;
	in->end = in->at + length;
	return length ? 1 : 0;
}

/* The CIE is parsed again for every FDE: without a limit, a hostile file would take time quadratic in its size. Real
 * CIEs and expressions have 20 to 60 bytes. */
#define ETCH_CFI_CIE_MAX        4096u
#define ETCH_CFI_EXPRESSION_MAX 255u

/* Parses the letters `s` of an augmentation. Its data begin at in->at and end at data_end. False if it is malformed
 * or unknown. */
static inline bool etch_cfi_augmentation(struct etch_cie *cie, const uint8_t *s, struct etch_cfi_in *in,
                                         uint64_t data_end)
{
	for (; *s; s++) {
		uint64_t end = in->end;

		if (*s == 'S') {
			cie->signal = true;
			continue;
		}
		if (*s == 'B') /* only used on other machines */
			continue;
		if (!cie->data)
			return false;
		in->end = data_end;
		if (*s == 'R') {
			cie->fde_encoding = (uint8_t)etch_cfi_u(in, 1);
		} else if (*s == 'L') {
			cie->lsda_encoding = (uint8_t)etch_cfi_u(in, 1);
		} else if (*s == 'P') {
			uint8_t enc = (uint8_t)etch_cfi_u(in, 1);

			cie->personality = etch_cfi_pointer(in, enc, 0);
			cie->personality_indirect = enc & ETCH_PE_INDIRECT;
		} else {
			return false; /* the effect of an unknown augmentation on the FDEs is unknown */
		}
		in->end = end;
		if (in->bad)
			return false;
	}
	return true;
}

/* Reads the register of the return address, whose encoding in a CIE depends on the version. */
static inline uint64_t etch_cfi_return_register(struct etch_cfi_in *in, uint8_t version)
{
	return version == 1 ? etch_cfi_u(in, 1) : etch_cfi_uleb(in);
}

static inline bool etch_cfi_cie(const struct etch_cfi *c, uint64_t at, struct etch_cie *cie)
{
	struct etch_cfi_in in;
	uint64_t string, data_end, ra;
	uint8_t version;
	const uint8_t *s;

	memset(cie, 0, sizeof(*cie));
	cie->at = at;
	cie->lsda_encoding = ETCH_PE_OMIT;
	/* In .eh_frame the id is 4 bytes with both forms of length. */
	if (etch_cfi_entry(c, at, &in) != 1 || etch_cfi_u(&in, 4) != 0 || in.end - in.at > ETCH_CFI_CIE_MAX)
		return false;
	version = (uint8_t)etch_cfi_u(&in, 1);
	if (version != 1 && version != 3 && version != 4)
		return false;
	string = in.at;
	while (etch_cfi_u(&in, 1))
		;
	s = c->bytes + string;
	if (in.bad)
		return false;
	if (s[0] == 'e' && s[1] == 'h') { /* gcc 2 wrote a pointer that is not needed */
		etch_cfi_u(&in, 8);
		s += 2;
	}
	if (version == 4 && (etch_cfi_u(&in, 1) != 8 || etch_cfi_u(&in, 1) != 0)) /* address, segment size */
		return false;
	cie->code_align = etch_cfi_uleb(&in);
	cie->data_align = etch_cfi_sleb(&in);
	ra = etch_cfi_return_register(&in, version);
	if (in.bad || ra != 16)
		return false;
	if (*s == 'z') {
		uint64_t length = etch_cfi_uleb(&in);

		if (in.bad || length > in.end - in.at)
			return false;
		data_end = in.at + length;
		cie->data = true;
		s++;
	} else {
		data_end = in.at;
	}
	if (!etch_cfi_augmentation(cie, s, &in, data_end))
		return false;
	cie->program = data_end;
	cie->program_end = in.end;
	return true;
}

/* Parses the FDE whose contents after the CIE pointer are `in`. */
static inline bool etch_cfi_fde(const struct etch_cfi *c, uint64_t at, struct etch_cfi_in in, struct etch_fde *fde)
{
	const struct etch_cie *cie = &fde->cie;
	uint64_t size;

	fde->at = at;
	fde->cfi = c;
	fde->lsda = 0;
	if (cie->fde_encoding == ETCH_PE_OMIT || (cie->fde_encoding & ETCH_PE_INDIRECT))
		return false;
	fde->start = etch_cfi_pointer(&in, cie->fde_encoding, 0);
	if ((cie->fde_encoding & 0x7f) == ETCH_PE_ALIGNED)
		size = etch_cfi_u(&in, 8);
	else
		size = etch_cfi_pointer(&in, cie->fde_encoding & 0x0f, 0);
	if (in.bad || fde->start + size < fde->start)
		return false;
	fde->end = fde->start + size;
	if (cie->data) {
		uint64_t length = etch_cfi_uleb(&in);
		struct etch_cfi_in data = in;

		if (in.bad || length > in.end - in.at)
			return false;
		data.end = in.at + length;
		if (length && !(cie->lsda_encoding & ETCH_PE_INDIRECT)) { /* DW_EH_PE_omit has this bit too */
			fde->lsda = etch_cfi_pointer(&data, cie->lsda_encoding, fde->start);
			if (data.bad)
				fde->lsda = 0;
		}
		in.at += length;
	}
	fde->program = in.at;
	fde->program_end = in.end;
	return true;
}

static inline bool etch_cfi_cie_of(const struct etch_cfi *c, uint64_t field, uint32_t delta, struct etch_cie *cie)
{
	uint64_t at = field - (uint64_t)(int64_t)(int32_t)delta;

	if (at >= c->size)
		return false;
	if (c->cie.program && c->cie.at == at) {
		*cie = c->cie;
		return true;
	}
	return etch_cfi_cie(c, at, cie);
}

static inline int etch_cfi_at(const struct etch_cfi *c, uint64_t at, struct etch_fde *fde)
{
	struct etch_cfi_in in;
	uint64_t field;
	uint32_t delta;

	if (etch_cfi_entry(c, at, &in) != 1)
		return 0;
	field = in.at;
	delta = (uint32_t)etch_cfi_u(&in, 4);
	return !in.bad && delta && etch_cfi_cie_of(c, field, delta, &fde->cie) && etch_cfi_fde(c, at, in, fde);
}

static inline int etch_cfi_next(struct etch_cfi *c, struct etch_fde *fde)
{
	while (c->at < c->size) {
		struct etch_cfi_in in;
		uint64_t at = c->at, field;
		uint32_t delta;
		int kind = etch_cfi_entry(c, at, &in);

		if (kind < 0) {
			c->bad++;
			c->at = c->size;
			return 0;
		}
		c->at = in.end;
		if (!kind) {
			if (c->stop)
				c->at = c->size;
			continue; /* ld -r leaves terminators in the middle of the section */
		}
		field = in.at;
		delta = (uint32_t)etch_cfi_u(&in, 4);
		if (in.bad) {
			c->bad++;
			continue;
		}
		if (!delta) {
			if (!etch_cfi_cie(c, at, &c->cie)) {
				c->cie.program = 0;
				c->bad++;
			}
			continue;
		}
		if (etch_cfi_cie_of(c, field, delta, &fde->cie) && etch_cfi_fde(c, at, in, fde)) {
			c->cie = fde->cie;
			return 1;
		}
		c->bad++;
	}
	return 0;
}

/* LSB, "The .eh_frame_hdr section". */
static inline bool etch_cfi_hdr(const void *bytes, uint64_t size, uint64_t addr, struct etch_cfi_hdr *out)
{
	struct etch_cfi c;
	struct etch_cfi_in in;
	uint8_t frame, count, table;

	memset(out, 0, sizeof(*out));
	etch_cfi_open(&c, bytes, size, addr);
	c.data_base = addr;
	in = (struct etch_cfi_in){&c, 0, size, false};
	if (etch_cfi_u(&in, 1) != 1) /* version */
		return false;
	frame = (uint8_t)etch_cfi_u(&in, 1);
	count = (uint8_t)etch_cfi_u(&in, 1);
	table = (uint8_t)etch_cfi_u(&in, 1);
	out->addr = addr;
	out->eh_frame = etch_cfi_pointer(&in, frame, 0);
	if (in.bad || !out->eh_frame || (frame & ETCH_PE_INDIRECT))
		return false;
	if (count != ETCH_PE_OMIT && table == 0x3b) { /* datarel, sdata4 */
		uint64_t n = etch_cfi_pointer(&in, count, 0);

		if (!in.bad && n <= (size - in.at) / 8) {
			out->table = c.bytes + in.at;
			out->count = n;
		}
	}
	return true;
}

#endif
