/* SPDX-License-Identifier: MIT */
/*
 * Reads instructions that are newer than Zydis 4.0, and decodes them by older ones (newer.h). To add an instruction,
 * add a row to `promoted_rows` (EVEX map 4), to `rows` (other encodings), or to the table in newer_vector.c. Sources:
 * Intel APX Architecture Specification 355828 (chapters 3 and 4: REX2, EVEX map 4, NDD, NF, CCMP, push2); Intel
 * Architecture Instruction Set Extensions 319433 (the extensions of the table); SDM vol. 2, 2.2 to 2.7.
 * tests/arch/test_newer.py compares everything here with encodings by LLVM.
 */
#include "arch/x86/newer_internal.h"
#include "arch/x86/zydis.h"

#include <string.h>

/* Returns the number of legacy prefixes at the start, or 0xff if there are too many or if nothing follows them. */
static unsigned prefixes_of(const uint8_t *b, size_t avail)
{
	unsigned at = 0;

	while (at < avail && at < INSN_MOST &&
	       (b[at] == 0x66 || b[at] == 0x67 || b[at] == 0x2e || b[at] == 0x36 || b[at] == 0x3e || b[at] == 0x26 ||
	        b[at] == 0x64 || b[at] == 0x65 || b[at] == 0xf0 || b[at] == 0xf2 || b[at] == 0xf3))
		at++;
	return at < avail && at < INSN_MOST ? at : 0xff;
}

/* Is any of the first n bytes one of the bytes in `which`? */
static bool any_of(const uint8_t *b, unsigned n, const char *which)
{
	unsigned i;

	for (i = 0; i < n; i++)
		if (strchr(which, b[i]))
			return true;
	return false;
}

/* Appends a byte to n->alike, or sets n->full if there is no space. */
static void add(struct newer *n, unsigned byte)
{
	if (n->alike_len < INSN_MOST)
		n->alike[n->alike_len++] = (uint8_t)byte;
	else
		n->full = true;
}

/* Copies all bytes from `at` on to n->alike. They follow the opcode, and are the same in the newer and the older
 * encoding. */
static void add_rest(struct newer *n, const uint8_t *b, size_t avail, unsigned at)
{
	n->head = at;
	n->alike_head = n->alike_len;
	for (; at < avail && n->alike_len < INSN_MOST; at++)
		add(n, b[at]);
}

/*
 * Returns the REX prefix of the older encoding. In place of r16 to r31 it encodes one of r8 to r15: numbers below 8 may
 * have a special meaning in the encoding, as those of rsp and rbp have in ModRM and SIB, and rax in nop.
 */
static unsigned rex_of(const struct newer *n, bool w)
{
	return REX | (w ? REX_W : 0) | ((n->low | n->high) & HIGH_REG ? REX_R : 0) |
	       ((n->low | n->high) & HIGH_INDEX ? REX_X : 0) | ((n->low | n->high) & HIGH_BASE ? REX_B : 0);
}

/* ---- REX2 ----------------------------------------------------------------------------- */

/* Is an opcode one that cannot have a REX2 prefix? Such opcodes are in certain rows of the opcode map, are prefixes and
 * escapes (APX 3.1.2.1), or are xsave and its relatives. */
static bool rex2_has_not(bool map1, unsigned opcode, unsigned modrm)
{
	unsigned rows = map1 ? 1u << 3 | 1u << 8 : 1u << 4 | 1u << 7 | 1u << 0xa | 1u << 0xe, reg = modrm >> 3 & 7;

	if (rows >> (opcode >> 4) & 1)
		return true;
	if (map1)
		return modrm < 0xc0 && ((opcode == 0xae && reg >= 4 && reg <= 6) || (opcode == 0xc7 && reg >= 3 && reg <= 5));
	switch (opcode) {
	case 0x0f:
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
	case 0x66:
	case 0x67:
	case EVEX:
	case VEX3:
	case VEX2:
	case REX2:
	case 0xf0:
	case 0xf2:
	case 0xf3: return true;
	default: return false;
	}
}

/* Reads an instruction with a REX2 prefix at offset `at`. Returns false if it is none that is known. */
static bool rex2_read(const uint8_t *b, size_t avail, unsigned at, struct newer *n)
{
	unsigned payload, opcode;
	bool map1;

	if (at + 3u > avail)
		return false;
	payload = b[at + 1];
	opcode = b[at + 2];
	map1 = payload & REX2_MAP1;
	n->high = (payload & 0x40 ? HIGH_REG : 0) | (payload & 0x20 ? HIGH_INDEX : 0) | (payload & 0x10 ? HIGH_BASE : 0);
	n->low = (payload & REX_R ? HIGH_REG : 0) | (payload & REX_X ? HIGH_INDEX : 0) | (payload & REX_B ? HIGH_BASE : 0);
	memcpy(n->alike, b, at);
	n->alike_len = at;
	if (!map1 && opcode == 0xa1) { /* jmpabs; a mov of a 64-bit immediate stands in for it */
		if ((payload & REX_W) || any_of(b, at, "\x66\x67\xf0\xf2\xf3"))
			return false;
		n->mnemonic = NEWER_JMPABS;
		n->name = "jmpabs";
		n->high = n->low = 0;
		add(n, REX | REX_W);
		add(n, 0xb8);
		add_rest(n, b, avail, at + 3);
		return true;
	}
	if (rex2_has_not(map1, opcode, at + 3u < avail ? b[at + 3] : 0))
		return false;
	add(n, rex_of(n, payload & REX_W));
	if (map1)
		add(n, 0x0f);
	add(n, opcode);
	if (!map1 && (payload & REX_W) && opcode >> 4 == 5)
		n->name = opcode < 0x58 ? "pushp" : "popp";
	add_rest(n, b, avail, at + 3);
	return true;
}

/* ---- EVEX map 4: the integer instructions --------------------------------------------- */

/* Reads the EVEX prefix at offset `at`, and the opcode and ModRM after it. Returns false if there are too few bytes. */
static bool evex_read(const uint8_t *b, size_t avail, unsigned at, struct evex *e)
{
	unsigned p0, p1, p2;

	if (at + 6u > avail)
		return false;
	p0 = b[at + 1];
	p1 = b[at + 2];
	p2 = b[at + 3];
	e->map = p0 & 7;
	e->low = (p0 & 0x80 ? 0 : HIGH_REG) | (p0 & 0x40 ? 0 : HIGH_INDEX) | (p0 & 0x20 ? 0 : HIGH_BASE);
	e->high = (p0 & 0x10 ? 0 : HIGH_REG) | (p0 & 8 ? HIGH_BASE : 0) | (p1 & 4 ? 0 : HIGH_INDEX);
	e->w = p1 & 0x80;
	e->vvvv = (~p1 >> 3 & 15) | (p2 & 8 ? 0 : 16);
	e->pp = p1 & 3;
	e->top = p2 >> 5;
	e->nd = p2 & 0x10;
	e->nf = p2 & 4;
	e->mask = p2 & 7;
	e->scc = p2 & 15;
	e->opcode = b[at + 4];
	e->modrm = b[at + 5];
	return true;
}

/* Columns of the table below. */
enum {
	THIRD = 1,      /* ND may be set; then vvvv is a third operand, the destination */
	KEEPS = 2,      /* NF may be set; then the instruction leaves the flags unchanged */
	ZEROES = 4,     /* ND may be set; then the upper part of the destination becomes zero */
	CONDITION = 8,  /* ccmp and ctest: NF, ND and vvvv encode a condition, and the flags that are set if it is false */
	SIZED = 16,     /* pp = 66: 16-bit operands */
	SIZED_ODD = 32, /* pp = 66: 16-bit operands if the opcode is odd; even opcodes have 8-bit operands */
	CMOV = 64,
	WIDE = 128, /* 64-bit operands, whatever W is */
};
enum { MEMORY = 1, REGISTER = 2, BOTH = 3 };
enum { NONE = 1 << PP_NONE, P66 = 1 << PP_66, F3 = 1 << PP_F3, F2 = 1 << PP_F2 };
#define ARITHMETIC (THIRD | KEEPS | SIZED_ODD)
#define NAMED(m)   (NEWER_CHANGED | ZYDIS_MNEMONIC_##m)

/* The instructions of map 4, each with the older instruction that stands in for it (APX 3.1.3 and the table of chapter
 * 4). */
static const struct promoted {
	uint8_t first, last; /* opcodes */
	uint8_t regs;        /* bit n: ModRM.reg may be n */
	uint8_t pps;         /* bit n: pp may be n; SIZED adds 66 */
	uint8_t operand;     /* what ModRM.rm may be: MEMORY, REGISTER, BOTH */
	uint8_t map, opcode; /* of the older instruction that belongs to opcode `first`; map 0: one byte, 1: 0f, 2: 0f 38 */
	uint8_t prefix;      /* mandatory prefix of the older instruction; 0: none */
	uint8_t flags;
	uint16_t mnemonic; /* 0: that of the older instruction, which does the same */
	char name[8];      /* empty: it has the older instruction's name */
} promoted_rows[] = {
	{0x00, 0x03, 0xff, NONE, BOTH, 0, 0x00, 0, ARITHMETIC, 0, ""},        /* add */
	{0x08, 0x0b, 0xff, NONE, BOTH, 0, 0x08, 0, ARITHMETIC, 0, ""},        /* or */
	{0x10, 0x13, 0xff, NONE, BOTH, 0, 0x10, 0, THIRD | SIZED_ODD, 0, ""}, /* adc */
	{0x18, 0x1b, 0xff, NONE, BOTH, 0, 0x18, 0, THIRD | SIZED_ODD, 0, ""}, /* sbb */
	{0x20, 0x23, 0xff, NONE, BOTH, 0, 0x20, 0, ARITHMETIC, 0, ""},        /* and */
	{0x28, 0x2b, 0xff, NONE, BOTH, 0, 0x28, 0, ARITHMETIC, 0, ""},        /* sub */
	{0x30, 0x33, 0xff, NONE, BOTH, 0, 0x30, 0, ARITHMETIC, 0, ""},        /* xor */
	{0x38, 0x3b, 0xff, NONE, BOTH, 0, 0x38, 0, CONDITION | SIZED_ODD, NAMED(CMP), "ccmp"},
	{0x24, 0x24, 0xff, NONE, BOTH, 1, 0xa4, 0, THIRD | KEEPS | SIZED, 0, ""}, /* shld */
	{0x2c, 0x2c, 0xff, NONE, BOTH, 1, 0xac, 0, THIRD | KEEPS | SIZED, 0, ""}, /* shrd */
	{0x40, 0x4f, 0xff, NONE, BOTH, 1, 0x40, 0, THIRD | KEEPS | SIZED | CMOV, 0, ""},
	{0x40, 0x4f, 0xff, F2, BOTH, 1, 0x90, 0, ZEROES, 0, ""},    /* setcc */
	{0x60, 0x61, 0xff, NONE, MEMORY, 2, 0xf0, 0, SIZED, 0, ""}, /* movbe */
	{0x60, 0x60, 0xff, NONE, REGISTER, 0, 0x8b, 0, SIZED, NAMED(MOVBE), "movbe"},
	{0x61, 0x61, 0xff, NONE, REGISTER, 0, 0x89, 0, SIZED, NAMED(MOVBE), "movbe"},
	{0x65, 0x65, 0xff, P66, MEMORY, 2, 0xf5, 0x66, 0, 0, ""},                  /* wruss */
	{0x66, 0x66, 0xff, NONE, MEMORY, 2, 0xf6, 0, 0, 0, ""},                    /* wrss */
	{0x66, 0x66, 0xff, P66, BOTH, 2, 0xf6, 0x66, THIRD, 0, ""},                /* adcx */
	{0x66, 0x66, 0xff, F3, BOTH, 2, 0xf6, 0xf3, THIRD, 0, ""},                 /* adox */
	{0x69, 0x69, 0xff, NONE, BOTH, 0, 0x69, 0, ZEROES | KEEPS | SIZED, 0, ""}, /* imul */
	{0x6b, 0x6b, 0xff, NONE, BOTH, 0, 0x6b, 0, ZEROES | KEEPS | SIZED, 0, ""},
	{0x80, 0x81, 0x73, NONE, BOTH, 0, 0x80, 0, ARITHMETIC, 0, ""},        /* add or and sub xor with a constant */
	{0x80, 0x81, 0x0c, NONE, BOTH, 0, 0x80, 0, THIRD | SIZED_ODD, 0, ""}, /* adc sbb */
	{0x80, 0x81, 0x80, NONE, BOTH, 0, 0x80, 0, CONDITION | SIZED_ODD, NAMED(CMP), "ccmp"},
	{0x83, 0x83, 0x73, NONE, BOTH, 0, 0x83, 0, ARITHMETIC, 0, ""},
	{0x83, 0x83, 0x0c, NONE, BOTH, 0, 0x83, 0, THIRD | SIZED_ODD, 0, ""},
	{0x83, 0x83, 0x80, NONE, BOTH, 0, 0x83, 0, CONDITION | SIZED_ODD, NAMED(CMP), "ccmp"},
	{0x84, 0x85, 0xff, NONE, BOTH, 0, 0x84, 0, CONDITION | SIZED_ODD, NAMED(TEST), "ctest"},
	{0x88, 0x88, 0xff, NONE, BOTH, 1, 0xb8, 0xf3, KEEPS | SIZED, 0, ""},      /* popcnt */
	{0xa5, 0xa5, 0xff, NONE, BOTH, 1, 0xa5, 0, THIRD | KEEPS | SIZED, 0, ""}, /* shld */
	{0xad, 0xad, 0xff, NONE, BOTH, 1, 0xad, 0, THIRD | KEEPS | SIZED, 0, ""}, /* shrd */
	{0xaf, 0xaf, 0xff, NONE, BOTH, 1, 0xaf, 0, THIRD | KEEPS | SIZED, 0, ""}, /* imul */
	{0xc0, 0xc1, 0xb3, NONE, BOTH, 0, 0xc0, 0, ARITHMETIC, 0, ""},            /* rol ror shl shr sar */
	{0xc0, 0xc1, 0x0c, NONE, BOTH, 0, 0xc0, 0, THIRD | SIZED_ODD, 0, ""},     /* rcl rcr */
	{0xd0, 0xd3, 0xb3, NONE, BOTH, 0, 0xd0, 0, ARITHMETIC, 0, ""},
	{0xd0, 0xd3, 0x0c, NONE, BOTH, 0, 0xd0, 0, THIRD | SIZED_ODD, 0, ""},
	{0xf0, 0xf0, 0xff, NONE, BOTH, 2, 0xf0, 0xf2, 0, 0, ""}, /* crc32 */
	{0xf1, 0xf1, 0xff, NONE, BOTH, 2, 0xf1, 0xf2, SIZED, 0, ""},
	{0xf0, 0xf2, 0xff, F3, MEMORY, 2, 0x80, 0x66, 0, 0, ""},             /* invept invvpid invpcid */
	{0xf4, 0xf4, 0xff, NONE, BOTH, 1, 0xbc, 0xf3, KEEPS | SIZED, 0, ""}, /* tzcnt */
	{0xf5, 0xf5, 0xff, NONE, BOTH, 1, 0xbd, 0xf3, KEEPS | SIZED, 0, ""}, /* lzcnt */
	{0xf6, 0xf7, 0x01, NONE, BOTH, 0, 0xf6, 0, CONDITION | SIZED_ODD, NAMED(TEST), "ctest"},
	{0xf6, 0xf7, 0x04, NONE, BOTH, 0, 0xf6, 0, THIRD | SIZED_ODD, 0, ""}, /* not */
	{0xf6, 0xf7, 0x08, NONE, BOTH, 0, 0xf6, 0, ARITHMETIC, 0, ""},        /* neg */
	{0xf6, 0xf7, 0xf0, NONE, BOTH, 0, 0xf6, 0, KEEPS | SIZED_ODD, 0, ""}, /* mul imul div idiv */
	{0xf8, 0xf8, 0xff, P66, MEMORY, 2, 0xf8, 0x66, 0, 0, ""},             /* movdir64b */
	{0xf8, 0xf8, 0xff, F2, MEMORY, 2, 0xf8, 0xf2, 0, 0, ""},              /* enqcmd */
	{0xf8, 0xf8, 0xff, F3, MEMORY, 2, 0xf8, 0xf3, 0, 0, ""},              /* enqcmds */
	{0xf8, 0xf8, 0xff, F2, REGISTER, 0, 0x89, 0, WIDE, NAMED(MOV), "urdmsr"},
	{0xf8, 0xf8, 0xff, F3, REGISTER, 0, 0x39, 0, WIDE, NAMED(CMP), "uwrmsr"},
	{0xf9, 0xf9, 0xff, NONE, MEMORY, 2, 0xf9, 0, 0, 0, ""}, /* movdiri */
	{0xfc, 0xfc, 0xff, NONE, MEMORY, 0, 0x01, 0, 0, NAMED(ADD), "aadd"},
	{0xfc, 0xfc, 0xff, P66, MEMORY, 0, 0x01, 0, 0, NAMED(AND), "aand"},
	{0xfc, 0xfc, 0xff, F2, MEMORY, 0, 0x01, 0, 0, NAMED(OR), "aor"},
	{0xfc, 0xfc, 0xff, F3, MEMORY, 0, 0x01, 0, 0, NAMED(XOR), "axor"},
	{0xfe, 0xff, 0x03, NONE, BOTH, 0, 0xfe, 0, ARITHMETIC, 0, ""}, /* inc dec */
};

static bool is_sized(const struct promoted *p, unsigned opcode)
{
	return (p->flags & SIZED) || ((p->flags & SIZED_ODD) && (opcode & 1));
}

/* Returns the row of an instruction of map 4, or null if there is none. */
static const struct promoted *promoted_find(const struct evex *e)
{
	unsigned operand = e->modrm < 0xc0 ? MEMORY : REGISTER, i;

	for (i = 0; i < sizeof(promoted_rows) / sizeof(promoted_rows[0]); i++) {
		const struct promoted *p = &promoted_rows[i];

		if (e->opcode >= p->first && e->opcode <= p->last && (p->regs >> (e->modrm >> 3 & 7) & 1) &&
		    ((p->pps >> e->pp & 1) || (e->pp == PP_66 && is_sized(p, e->opcode))) && (p->operand & operand))
			return p;
	}
	return NULL;
}

/* Is the instruction push2 or pop2? */
static bool is_pair(const struct evex *e)
{
	unsigned reg = e->modrm >> 3 & 7;

	return e->modrm >> 6 == MOD_REGISTER && ((e->opcode == 0xff && reg == 6) || (e->opcode == 0x8f && !reg));
}

/* Reads push2 and pop2. xchg of two registers stands in for them. */
static bool pair_read(const uint8_t *b, size_t avail, unsigned at, const struct evex *e, struct newer *n)
{
	static const char *const names[2][2] = {{"pop2", "pop2p"}, {"push2", "push2p"}}; /* indexes: `push`; W */
	unsigned rm = (e->modrm & 7) | (e->low & HIGH_BASE ? 8 : 0) | (e->high & HIGH_BASE ? 16 : 0);
	bool push = e->opcode == 0xff;

	/* Neither register may be rsp, and the two of a pop may not be the same (APX 4.3). */
	if (e->pp || e->nf || !e->nd || e->vvvv == 4 || rm == 4 || (!push && rm == e->vvvv) || at)
		return false;
	n->high &= ~(unsigned)HIGH_REG;
	n->low &= ~(unsigned)HIGH_REG;
	n->mnemonic = push ? NEWER_PUSH2 : NEWER_POP2;
	n->name = names[push][e->w];
	n->destination = true;
	n->no_reads = !push;
	add(n, rex_of(n, true));
	add(n, push ? 0x85 : 0x87);
	add(n, e->modrm); /* its reg field is no operand of the pair, so finish() drops this operand */
	add_rest(n, b, avail, at + 6);
	n->head--;
	n->alike_head--;
	return true;
}

/* Handles cmov and cfcmov. cfcmov is cmov with the bit NF, or without a third operand. */
static void conditional_move(const struct evex *e, struct newer *n, unsigned *opcode, unsigned *map)
{
	static const char *const names[16] = {"cfcmovo",  "cfcmovno", "cfcmovb",  "cfcmovae", "cfcmove", "cfcmovne",
	                                      "cfcmovbe", "cfcmova",  "cfcmovs",  "cfcmovns", "cfcmovp", "cfcmovnp",
	                                      "cfcmovl",  "cfcmovge", "cfcmovle", "cfcmovg"};

	n->tests_flags = true;
	if (e->nd && !e->nf)
		return;
	n->name = names[e->opcode & 15];
	n->mnemonic = NEWER_CHANGED | ZYDIS_MNEMONIC_CMOVO;
	n->first_written = !e->nd;
	if (e->nf && !e->nd) { /* it moves to the operand that may be memory; mov stands in for it */
		*map = 0;
		*opcode = 0x89;
	}
}

/* Applies the bits ND, NF and vvvv to *n. Returns false if the instruction may not have them. */
static bool promoted_bits(const struct evex *e, const struct promoted *p, struct newer *n)
{
	if (p->flags & CONDITION) {
		n->all_flags = true;
		n->scc = e->scc;
		return !e->nd;
	}
	if ((e->mask & 3) || (e->nf && !(p->flags & KEEPS)) || (e->nd && !(p->flags & (THIRD | ZEROES))))
		return false;
	n->destination = e->nd && (p->flags & THIRD);
	if (e->vvvv && !n->destination)
		return false;
	if (e->nf && !(p->flags & CMOV)) {
		n->no_flags = true;
		n->before = "{nf} ";
	}
	n->zeroes = e->nd && (p->flags & ZEROES);
	if (e->nd && !n->mnemonic)
		n->mnemonic = NEWER_CHANGED;
	return true;
}

/* Reads an instruction of EVEX map 4, whose prefix is at offset `at`. Returns false if it is none that is known. */
static bool promoted_read(const uint8_t *b, size_t avail, unsigned at, const struct evex *e, struct newer *n)
{
	const struct promoted *p;
	unsigned opcode, map;

	n->high = e->high;
	n->low = e->low;
	n->vvvv = e->vvvv;
	if (e->top || any_of(b, at, "\x66\xf0\xf2\xf3") || (e->modrm >> 6 == MOD_REGISTER && (e->high & HIGH_INDEX)))
		return false;
	if (is_pair(e))
		return !(e->mask & 3) && pair_read(b, avail, at, e, n);
	p = promoted_find(e);
	if (!p)
		return false;
	n->name = *p->name ? p->name : NULL;
	n->mnemonic = p->mnemonic;
	n->no_flags = p->mnemonic && !(p->flags & CONDITION);
	n->both = p->flags & WIDE;
	opcode = p->opcode + (e->opcode - p->first);
	map = p->map;
	if (!promoted_bits(e, p, n))
		return false;
	if (p->flags & CMOV)
		conditional_move(e, n, &opcode, &map);
	memcpy(n->alike, b, at);
	n->alike_len = at;
	if (e->pp == PP_66 && !(p->pps & P66))
		add(n, 0x66);
	if (p->prefix)
		add(n, p->prefix);
	add(n, rex_of(n, e->w || (p->flags & WIDE)));
	if (map)
		add(n, 0x0f);
	if (map == 2)
		add(n, 0x38);
	add(n, opcode);
	add_rest(n, b, avail, at + 5);
	return true;
}

/* ---- other instructions: the table ---------------------------------------------------- */

enum space { LEGACY, VEX };

/* Columns of the table below. */
enum {
	UPDATES = 1,   /* cmpccxadd: its first two operands, memory and a register, are both read and written */
	KEPT = 2,      /* the instruction has no effect on flags, but the older one has */
	RETURNS = 4,   /* iretq stands in for it */
	BY_REGS = 8,   /* the opcode alone does not select the instruction: ModRM must also be `modrm` */
	ANY_L = 16,    /* VEX.L may be 0 or 1; otherwise it is `l` */
	NO_VVVV = 32,  /* vvvv must be unused */
	PREFIXED = 64, /* a prefix 66 sets the operand size, and is no mandatory prefix */
	EITHER = 128,  /* assemblers do not agree which register is the destination */
};

/*
 * Instructions of other extensions. An older instruction with the same kinds of operands stands in for each of them: it
 * reads and writes the same general registers and memory.
 */
static const struct row {
	uint8_t space, map, pp, first, last;
	uint8_t operand; /* MEMORY, REGISTER, BOTH */
	uint8_t w, l;    /* w: 0, 1, 2: any */
	uint8_t modrm;   /* with BY_REGS */
	uint8_t as_map, as_pp, as_opcode;
	uint8_t as_modrm; /* with BY_REGS; 0: the same */
	uint8_t flags;
	char name[16], second[12]; /* name of the instruction with opcode `first`; of the one with the next opcode */
} rows[] = {
	/* AVX-VNNI-INT8 and INT16: vpdpbusd stands in for them */
	{VEX, 2, PP_NONE, 0x50, 0x51, BOTH, 0, 0, 0, 2, PP_66, 0x50, 0, ANY_L, "vpdpbuud", "vpdpbuuds"},
	{VEX, 2, PP_F3, 0x50, 0x51, BOTH, 0, 0, 0, 2, PP_66, 0x50, 0, ANY_L, "vpdpbsud", "vpdpbsuds"},
	{VEX, 2, PP_F2, 0x50, 0x51, BOTH, 0, 0, 0, 2, PP_66, 0x50, 0, ANY_L, "vpdpbssd", "vpdpbssds"},
	{VEX, 2, PP_NONE, 0xd2, 0xd3, BOTH, 0, 0, 0, 2, PP_66, 0x50, 0, ANY_L, "vpdpwuud", "vpdpwuuds"},
	{VEX, 2, PP_66, 0xd2, 0xd3, BOTH, 0, 0, 0, 2, PP_66, 0x50, 0, ANY_L, "vpdpwusd", "vpdpwusds"},
	{VEX, 2, PP_F3, 0xd2, 0xd3, BOTH, 0, 0, 0, 2, PP_66, 0x50, 0, ANY_L, "vpdpwsud", "vpdpwsuds"},
	/* AVX-IFMA: vpsllvq stands in for it */
	{VEX, 2, PP_66, 0xb4, 0xb4, BOTH, 1, 0, 0, 2, PP_66, 0x47, 0, ANY_L, "vpmadd52luq", ""},
	{VEX, 2, PP_66, 0xb5, 0xb5, BOTH, 1, 0, 0, 2, PP_66, 0x47, 0, ANY_L, "vpmadd52huq", ""},
	/* AVX-NE-CONVERT: vpabsb and vpbroadcastw stand in for it */
	{VEX, 2, PP_NONE, 0xb0, 0xb0, MEMORY, 0, 0, 0, 2, PP_66, 0x1c, 0, ANY_L | NO_VVVV, "vcvtneoph2ps", ""},
	{VEX, 2, PP_66, 0xb0, 0xb0, MEMORY, 0, 0, 0, 2, PP_66, 0x1c, 0, ANY_L | NO_VVVV, "vcvtneeph2ps", ""},
	{VEX, 2, PP_F3, 0xb0, 0xb0, MEMORY, 0, 0, 0, 2, PP_66, 0x1c, 0, ANY_L | NO_VVVV, "vcvtneebf162ps", ""},
	{VEX, 2, PP_F2, 0xb0, 0xb0, MEMORY, 0, 0, 0, 2, PP_66, 0x1c, 0, ANY_L | NO_VVVV, "vcvtneobf162ps", ""},
	{VEX, 2, PP_66, 0xb1, 0xb1, MEMORY, 0, 0, 0, 2, PP_66, 0x79, 0, ANY_L | NO_VVVV, "vbcstnesh2ps", ""},
	{VEX, 2, PP_F3, 0xb1, 0xb1, MEMORY, 0, 0, 0, 2, PP_66, 0x79, 0, ANY_L | NO_VVVV, "vbcstnebf162ps", ""},
	{VEX, 2, PP_F3, 0x72, 0x72, BOTH, 0, 0, 0, 2, PP_66, 0x1c, 0, ANY_L | NO_VVVV, "vcvtneps2bf16", ""},
	/* SM3, SM4, SHA512: vpshufb, vpalignr and vpabsb stand in for them */
	{VEX, 2, PP_NONE, 0xda, 0xda, BOTH, 0, 0, 0, 2, PP_66, 0x00, 0, 0, "vsm3msg1", ""},
	{VEX, 2, PP_66, 0xda, 0xda, BOTH, 0, 0, 0, 2, PP_66, 0x00, 0, 0, "vsm3msg2", ""},
	{VEX, 3, PP_66, 0xde, 0xde, BOTH, 0, 0, 0, 3, PP_66, 0x0f, 0, 0, "vsm3rnds2", ""},
	{VEX, 2, PP_F3, 0xda, 0xda, BOTH, 0, 0, 0, 2, PP_66, 0x00, 0, ANY_L, "vsm4key4", ""},
	{VEX, 2, PP_F2, 0xda, 0xda, BOTH, 0, 0, 0, 2, PP_66, 0x00, 0, ANY_L, "vsm4rnds4", ""},
	{VEX, 2, PP_F2, 0xcb, 0xcb, REGISTER, 0, 1, 0, 2, PP_66, 0x00, 0, 0, "vsha512rnds2", ""},
	{VEX, 2, PP_F2, 0xcc, 0xcc, REGISTER, 0, 1, 0, 2, PP_66, 0x1c, 0, NO_VVVV, "vsha512msg1", ""},
	{VEX, 2, PP_F2, 0xcd, 0xcd, REGISTER, 0, 1, 0, 2, PP_66, 0x1c, 0, NO_VVVV, "vsha512msg2", ""},
	/* AMX: tdpbssd stands in for it, and tileloadd for its loads */
	{VEX, 2, PP_F2, 0x5c, 0x5c, REGISTER, 0, 0, 0, 2, PP_F2, 0x5e, 0, 0, "tdpfp16ps", ""},
	{VEX, 2, PP_66, 0x6c, 0x6c, REGISTER, 0, 0, 0, 2, PP_F2, 0x5e, 0, 0, "tcmmimfp16ps", ""},
	{VEX, 2, PP_NONE, 0x6c, 0x6c, REGISTER, 0, 0, 0, 2, PP_F2, 0x5e, 0, 0, "tcmmrlfp16ps", ""},
	{VEX, 2, PP_66, 0x48, 0x48, REGISTER, 0, 0, 0, 2, PP_F2, 0x5e, 0, 0, "tmmultf32ps", ""},
	{VEX, 5, PP_NONE, 0xfd, 0xfd, REGISTER, 0, 0, 0, 2, PP_F2, 0x5e, 0, 0, "tdpbf8ps", ""},
	{VEX, 5, PP_F2, 0xfd, 0xfd, REGISTER, 0, 0, 0, 2, PP_F2, 0x5e, 0, 0, "tdpbhf8ps", ""},
	{VEX, 5, PP_F3, 0xfd, 0xfd, REGISTER, 0, 0, 0, 2, PP_F2, 0x5e, 0, 0, "tdphbf8ps", ""},
	{VEX, 5, PP_66, 0xfd, 0xfd, REGISTER, 0, 0, 0, 2, PP_F2, 0x5e, 0, 0, "tdphf8ps", ""},
	{VEX, 2, PP_F2, 0x4a, 0x4a, MEMORY, 0, 0, 0, 2, PP_F2, 0x4b, 0, NO_VVVV, "tileloaddrs", ""},
	{VEX, 2, PP_66, 0x4a, 0x4a, MEMORY, 0, 0, 0, 2, PP_66, 0x4b, 0, NO_VVVV, "tileloaddrst1", ""},
	/* CMPCCXADD: bextr stands in for it */
	{VEX, 2, PP_66, 0xe0, 0xef, MEMORY, 2, 0, 0, 2, PP_NONE, 0xf7, 0, UPDATES, "", ""},
	/* RAO-INT: add stands in for it. For the other instructions of user space, mov and cmp do */
	{LEGACY, 2, PP_NONE, 0xfc, 0xfc, MEMORY, 2, 0, 0, 0, PP_NONE, 0x01, 0, KEPT, "aadd", ""},
	{LEGACY, 2, PP_66, 0xfc, 0xfc, MEMORY, 2, 0, 0, 0, PP_NONE, 0x01, 0, KEPT, "aand", ""},
	{LEGACY, 2, PP_F2, 0xfc, 0xfc, MEMORY, 2, 0, 0, 0, PP_NONE, 0x01, 0, KEPT, "aor", ""},
	{LEGACY, 2, PP_F3, 0xfc, 0xfc, MEMORY, 2, 0, 0, 0, PP_NONE, 0x01, 0, KEPT, "axor", ""},
	{LEGACY, 2, PP_NONE, 0x8a, 0x8b, MEMORY, 2, 0, 0, 0, PP_NONE, 0x8a, 0, PREFIXED, "movrs", "movrs"},
	{LEGACY, 2, PP_F2, 0xf8, 0xf8, REGISTER, 2, 0, 0, 0, PP_NONE, 0x89, 0, EITHER, "urdmsr", ""},
	{LEGACY, 2, PP_F3, 0xf8, 0xf8, REGISTER, 2, 0, 0, 0, PP_NONE, 0x39, 0, KEPT, "uwrmsr", ""},
	/* Kernels: lldt stands in for lkgs, iretq for erets and eretu, rdtscp for the lists of MSRs and pbndkb */
	{LEGACY, 1, PP_F2, 0x00, 0x00, BOTH, 2, 0, 0x30, 1, PP_NONE, 0x00, 0x10, BY_REGS, "lkgs", ""},
	{LEGACY, 1, PP_F2, 0x01, 0x01, REGISTER, 2, 0, 0xca, 0, PP_NONE, 0xcf, 0, BY_REGS | RETURNS, "erets", ""},
	{LEGACY, 1, PP_F3, 0x01, 0x01, REGISTER, 2, 0, 0xca, 0, PP_NONE, 0xcf, 0, BY_REGS | RETURNS, "eretu", ""},
	{LEGACY, 1, PP_NONE, 0x01, 0x01, REGISTER, 2, 0, 0xc6, 1, PP_NONE, 0x30, 0, BY_REGS, "wrmsrns", ""},
	{LEGACY, 1, PP_F2, 0x01, 0x01, REGISTER, 2, 0, 0xc6, 1, PP_NONE, 0x01, 0xf9, BY_REGS, "rdmsrlist", ""},
	{LEGACY, 1, PP_F3, 0x01, 0x01, REGISTER, 2, 0, 0xc6, 1, PP_NONE, 0x01, 0xf9, BY_REGS, "wrmsrlist", ""},
	{LEGACY, 1, PP_NONE, 0x01, 0x01, REGISTER, 2, 0, 0xc7, 1, PP_NONE, 0x01, 0xf9, BY_REGS, "pbndkb", ""},
};

/* Returns which of the first `at` bytes, which are legacy prefixes, is the mandatory prefix (PP_*). f2 and f3 take
 * precedence over 66. */
static unsigned mandatory_of(const uint8_t *b, unsigned at)
{
	if (any_of(b, at, "\xf2"))
		return PP_F2;
	if (any_of(b, at, "\xf3"))
		return PP_F3;
	return any_of(b, at, "\x66") ? PP_66 : PP_NONE;
}

/* An instruction as row_find() needs it: the fields of a VEX prefix and the opcode after it, or those of a legacy
 * instruction and its mandatory prefix. */
struct encoded {
	unsigned space, map, pp, opcode, modrm, vvvv, l;
	bool w;
	unsigned after; /* offset after the opcode */
};

/* Is the opcode of an instruction one of a row? */
static bool has_opcode(const struct encoded *c, const struct row *r)
{
	return r->space == c->space && r->map == c->map && c->opcode >= r->first && c->opcode <= r->last &&
	       (r->pp == c->pp || ((r->flags & PREFIXED) && c->pp == PP_66));
}

/* Has an instruction the operands that a row demands? */
static bool has_operands(const struct encoded *c, const struct row *r)
{
	if (!(r->operand & (c->modrm < 0xc0 ? MEMORY : REGISTER)) || (r->w != 2 && r->w != c->w))
		return false;
	if (c->space == VEX && !(r->flags & ANY_L) && r->l != c->l)
		return false;
	if ((r->flags & NO_VVVV) && c->vvvv)
		return false;
	if ((r->flags & BY_REGS) && (r->operand == BOTH ? c->modrm & 0x38 : c->modrm) != r->modrm)
		return false;
	return r->as_opcode != 0x4b || (c->modrm & 7) == 4; /* tileloadd and its relatives must have a SIB byte */
}

/* Returns the row of an instruction, or null if there is none. */
static const struct row *row_find(const struct encoded *c)
{
	unsigned i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (has_opcode(c, &rows[i]) && has_operands(c, &rows[i]))
			return &rows[i];
	return NULL;
}

/* Sets the members of *n that the row of an instruction determines. */
static void row_take(const struct row *r, const struct encoded *c, struct newer *n)
{
	static const char *const names[16] = {"cmpoxadd",  "cmpnoxadd", "cmpbxadd",  "cmpaexadd", "cmpexadd", "cmpnexadd",
	                                      "cmpbexadd", "cmpaxadd",  "cmpsxadd",  "cmpnsxadd", "cmppxadd", "cmpnpxadd",
	                                      "cmplxadd",  "cmpgexadd", "cmplexadd", "cmpgxadd"};

	n->mnemonic = NEWER_ROW + (unsigned)(r - rows);
	n->name = c->opcode > r->first ? r->second : r->name;
	if (!*r->name)
		n->name = names[c->opcode & 15];
	n->updates = r->flags & UPDATES;
	n->no_flags = r->flags & KEPT;
	n->both = r->flags & EITHER;
}

/* Adds to n->alike a VEX prefix with the register bits of *n, and the opcode. */
static void add_vex(struct newer *n, const struct encoded *c)
{
	add(n, VEX3);
	add(n, ((n->low | n->high) & HIGH_REG ? 0 : 0x80) | ((n->low | n->high) & HIGH_INDEX ? 0 : 0x40) |
	           ((n->low | n->high) & HIGH_BASE ? 0 : 0x20) | c->map);
	add(n, (c->w ? 0x80u : 0) | (~(c->vvvv & 16 ? c->vvvv | 8 : c->vvvv) & 15) << 3 | c->l << 2 | c->pp);
	add(n, c->opcode);
}

/* Reads urdmsr, uwrmsr, rdmsr and wrmsrns if the number of the MSR is an immediate. A mov to a 64-bit register stands
 * in for those that read an MSR, a cmp of a 64-bit register for those that write one. */
static bool msr_read(const uint8_t *b, size_t avail, const struct encoded *c, struct newer *n)
{
	static const char *const names[2][2] = {{"wrmsrns", "rdmsr"}, {"uwrmsr", "urdmsr"}}; /* by user mode and `reads` */
	bool reads = c->pp == PP_F2;

	if ((c->opcode != 0xf6 && c->opcode != 0xf8) || c->pp < PP_F3 || c->modrm < 0xc0 || (c->modrm & 0x38) || c->w ||
	    c->l || c->vvvv)
		return false;
	n->mnemonic = NEWER_CHANGED | (reads ? ZYDIS_MNEMONIC_MOV : ZYDIS_MNEMONIC_CMP);
	n->name = names[c->opcode == 0xf8][reads];
	n->no_flags = true;
	add(n, rex_of(n, true));
	add(n, reads ? 0xc7 : 0x81);
	add(n, reads ? c->modrm : c->modrm | 0x38);
	add_rest(n, b, avail, c->after + 1);
	n->head--;
	n->alike_head--;
	return true;
}

/* Reads an instruction with a VEX prefix, or one with an EVEX prefix (`evex`) that encodes the same as VEX would, but
 * with r16 to r31. Returns false if it is none that is known. */
static bool vex_take(const uint8_t *b, size_t avail, unsigned at, struct encoded *c, bool evex, struct newer *n)
{
	const struct row *r;

	if (any_of(b, at, "\x66\xf0\xf2\xf3"))
		return false;
	if (c->map == 7)
		return !at && msr_read(b, avail, c, n);
	n->vvvv = c->vvvv;
	n->high |= c->vvvv & 16 ? HIGH_VVVV : 0;
	r = row_find(c);
	if (!r && !evex)
		return false;
	memcpy(n->alike, b, at);
	n->alike_len = at;
	if (r) {
		row_take(r, c, n);
		c->opcode = r->as_opcode;
		c->map = r->as_map;
		c->pp = r->as_pp;
	}
	add_vex(n, c);
	add_rest(n, b, avail, c->after);
	return true;
}

/* Reads an instruction with a VEX prefix at offset `at`. Returns false if it is none that is known. */
static bool vex_read(const uint8_t *b, size_t avail, unsigned at, struct newer *n)
{
	struct encoded c = {.space = VEX};
	bool three = b[at] == VEX3;
	unsigned p = at + three;

	if (at + 5u + three > avail + 1)
		return false;
	c.map = three ? b[at + 1] & 31 : 1;
	c.w = three && b[p + 1] & 0x80;
	c.vvvv = ~b[p + 1] >> 3 & 15;
	c.l = b[p + 1] >> 2 & 1;
	c.pp = b[p + 1] & 3;
	c.opcode = b[p + 2];
	c.modrm = b[p + 3];
	c.after = p + 3;
	n->low = b[at + 1] & 0x80 ? 0 : HIGH_REG;
	if (three)
		n->low |= (b[at + 1] & 0x40 ? 0 : HIGH_INDEX) | (b[at + 1] & 0x20 ? 0 : HIGH_BASE);
	return vex_take(b, avail, at, &c, false, n);
}

/* Adds the first `count` bytes, which are legacy prefixes, to n->alike, except mandatory ones. */
static void add_prefixes(struct newer *n, const uint8_t *b, unsigned count, const struct row *r)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if ((b[i] != 0x66 || (r->flags & PREFIXED)) && b[i] != 0xf2 && b[i] != 0xf3)
			add(n, b[i]);
}

/* Reads an instruction of the table that has no VEX or EVEX prefix; `at` is the offset after its legacy prefixes.
 * Returns false if it is none that is known. */
static bool legacy_read(const uint8_t *b, size_t avail, unsigned at, struct newer *n)
{
	struct encoded c = {.space = LEGACY};
	const struct row *r;
	unsigned rex = 0, prefixes = at;
	bool wide;

	if ((b[at] & 0xf0) == REX)
		rex = b[at++];
	if (at + 3u > avail || b[at] != 0x0f)
		return false;
	c.map = b[at + 1] == 0x38 ? 2 : 1;
	at += c.map;
	if (at + 2u > avail)
		return false;
	c.opcode = b[at];
	c.modrm = b[at + 1];
	c.after = at + 1;
	c.pp = mandatory_of(b, prefixes);
	r = row_find(&c);
	if (!r || any_of(b, prefixes, "\xf0"))
		return false;
	add_prefixes(n, b, prefixes, r);
	row_take(r, &c, n);
	wide = (r->flags & RETURNS) || (r->operand == REGISTER && !(r->flags & BY_REGS)); /* whatever REX.W is */
	if (rex || wide)
		add(n, rex | REX | (wide ? REX_W : 0));
	if (r->as_map)
		add(n, 0x0f);
	add(n, r->as_opcode + (c.opcode - r->first));
	if (!(r->flags & BY_REGS)) {
		add_rest(n, b, avail, c.after);
		return true;
	}
	if (r->operand == BOTH) { /* the older instruction has another ModRM.reg */
		add(n, (c.modrm & 0xc7) | r->as_modrm);
		add_rest(n, b, avail, c.after + 1);
		n->head--;
		n->alike_head--;
		return true;
	}
	if (r->as_modrm)
		add(n, r->as_modrm);
	add_rest(n, b, avail, c.after + 1);
	return true;
}

/* Reads udb (SDM, since 2025: the opcode of salc, which 64-bit mode lacks). ud2 stands in for it. Prefixes have no
 * meaning. */
static bool udb_read(unsigned at, struct newer *n)
{
	n->name = "udb";
	add(n, 0x0f);
	add(n, 0x0b);
	n->head = at + 1;
	n->alike_head = n->alike_len;
	return true;
}

/* ---- EVEX of the other maps, with r16 to r31 ------------------------------------------- */

/* Is the instruction one that has a VEX encoding, and an EVEX encoding only for r16 to r31? These are instructions of
 * BMI, CMPCCXADD, AMX, MSR access and mask registers. */
static bool is_of_vex(const struct evex *e)
{
	unsigned op = e->opcode;

	if (e->map == 7)
		return true;
	if (e->map == 1)
		return op >= 0x90 && op <= 0x93;
	if (e->map == 3)
		return op == 0xf0;
	return e->map == 2 && ((op >= 0xe0 && op <= 0xef) || op == 0x49 || op == 0x4a || op == 0x4b || op == 0xf2 ||
	                       op == 0xf3 || (op >= 0xf5 && op <= 0xf7));
}

/* Is the instruction one of these that may have the bit NF: andn, blsr and its relatives, bzhi, bextr? */
static bool may_keep(const struct evex *e)
{
	return e->map == 2 && e->pp == PP_NONE &&
	       (e->opcode == 0xf2 || e->opcode == 0xf3 || e->opcode == 0xf5 || e->opcode == 0xf7);
}

/* Reads an instruction for which is_of_vex() is true, by its VEX encoding. Returns false if it is none that is
 * known. */
static bool evex_as_vex(const uint8_t *b, size_t avail, unsigned at, const struct evex *e, struct newer *n)
{
	struct encoded c = {VEX, e->map, e->pp, e->opcode, e->modrm, e->vvvv, 0, e->w, at + 5};

	if (e->top || e->nd || (e->mask & 3) || (e->nf && !may_keep(e)))
		return false;
	n->high = e->high;
	n->low = e->low;
	if (e->nf) {
		n->no_flags = true;
		n->before = "{nf} ";
	}
	return vex_take(b, avail, at, &c, true, n);
}

/* Makes n->alike the same instruction, but with r8 to r15 in place of r16 to r31 in the fields that `high` names
 * (HIGH_*). `start` is the offset of the EVEX prefix. */
static void evex_lower(const uint8_t *b, size_t avail, unsigned start, const struct evex *e, unsigned high,
                       struct newer *n)
{
	n->high = high;
	n->low = e->low;
	add_rest(n, b, avail, 0);
	n->head = n->alike_head = start + 5;
	if (high & HIGH_BASE)
		n->alike[start + 1] &= (uint8_t)~0x28; /* clears B4, and B, which is inverted */
	if (high & HIGH_INDEX) {
		n->alike[start + 2] |= 4;
		n->alike[start + 1] &= (uint8_t)~0x40;
	}
	if (high & HIGH_REG) {
		n->alike[start + 1] |= 0x10;
		n->alike[start + 1] &= (uint8_t)~0x80;
	}
}

/* ---- the result ------------------------------------------------------------------------ */

static const ZydisAccessedFlags flags_all = {
	.tested =
		ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF,
	.modified =
		ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF,
};
static const ZydisAccessedFlags flags_tested = {
	.tested = ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF,
};

/* Returns register `number`, 16 to 31, with a size in bits. */
static ZydisRegister high_register(unsigned size, unsigned number)
{
	unsigned first;

	switch (size) {
	case 8: first = NEWER_R16B; break;
	case 16: first = NEWER_R16W; break;
	case 32: first = NEWER_R16D; break;
	default: first = NEWER_R16;
	}
	return (ZydisRegister)(first + number - 16);
}

/* Returns general register `number`, 0 to 31, with a size in bits. */
static ZydisRegister any_register(unsigned size, unsigned number)
{
	if (number >= 16)
		return high_register(size, number);
	switch (size) {
	case 8: return (ZydisRegister)(number < 4 ? ZYDIS_REGISTER_AL + number : ZYDIS_REGISTER_SPL + number - 4);
	case 16: return (ZydisRegister)(ZYDIS_REGISTER_AX + number);
	case 32: return (ZydisRegister)(ZYDIS_REGISTER_EAX + number);
	default: return (ZydisRegister)(ZYDIS_REGISTER_RAX + number);
	}
}

/* Returns the number, 16 to 31, of the register in field `which`, whose number in the older encoding is gpr, 8 to
 * 15. */
static unsigned raised(const struct newer *n, unsigned which, unsigned gpr)
{
	return 16 + (n->low & which ? 8 : 0) + (gpr & 7);
}

/* Puts r16 to r31 in an operand where the newer instruction has them. Returns false if a field that n->high names does
 * not number a general register. */
static bool operand_raise(const struct newer *n, ZydisDecodedOperand *op)
{
	unsigned which = 0, gpr;

	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT) {
		gpr = zydis_gpr(op->mem.base);
		if ((n->high & HIGH_BASE) && gpr != INSN_NO_REG)
			op->mem.base = high_register(op->mem.base >= ZYDIS_REGISTER_RAX ? 64 : 32, raised(n, HIGH_BASE, gpr));
		gpr = zydis_gpr(op->mem.index);
		if ((n->high & HIGH_INDEX) && gpr != INSN_NO_REG)
			op->mem.index = high_register(op->mem.index >= ZYDIS_REGISTER_RAX ? 64 : 32, raised(n, HIGH_INDEX, gpr));
		return true;
	}
	if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return true;
	switch (op->encoding) {
	case ZYDIS_OPERAND_ENCODING_MODRM_REG: which = HIGH_REG; break;
	case ZYDIS_OPERAND_ENCODING_MODRM_RM:
	case ZYDIS_OPERAND_ENCODING_OPCODE: which = HIGH_BASE; break;
	case ZYDIS_OPERAND_ENCODING_NDSNDD: which = HIGH_VVVV; break;
	default: return true;
	}
	if (!(n->high & which))
		return true;
	gpr = zydis_gpr(op->reg.value);
	if (gpr == INSN_NO_REG)
		return false;
	op->reg.value = high_register(op->size, which == HIGH_VVVV ? n->vvvv : raised(n, which, gpr));
	return true;
}

/* Adds the register in vvvv as the first operand, the destination. The operands of the older instruction become
 * sources. */
static bool destination_add(const struct newer *n, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops)
{
	ZydisDecodedOperand *first = &ops[0];
	bool pair = n->mnemonic == NEWER_PUSH2 || n->mnemonic == NEWER_POP2;

	if (!z->operand_count || z->operand_count >= ZYDIS_MAX_OPERAND_COUNT)
		return false;
	if (pair) { /* xchg's operand in ModRM.reg is dropped; the pair has vvvv instead, as its first operand */
		unsigned i = ops[0].encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM ? 0 : 1;

		ops[1] = ops[i];
		z->operand_count = z->operand_count_visible = 2;
		ops[1].actions = ops[0].actions = n->no_reads ? ZYDIS_OPERAND_ACTION_WRITE : ZYDIS_OPERAND_ACTION_READ;
	} else {
		memmove(ops + 1, ops, z->operand_count * sizeof(*ops));
		z->operand_count++;
		z->operand_count_visible++;
		ops[1].actions = ZYDIS_OPERAND_ACTION_READ;
		first->actions = ZYDIS_OPERAND_ACTION_WRITE;
	}
	first->type = ZYDIS_OPERAND_TYPE_REGISTER;
	first->visibility = ZYDIS_OPERAND_VISIBILITY_EXPLICIT;
	first->encoding = ZYDIS_OPERAND_ENCODING_NDSNDD;
	first->size = ops[1].size;
	memset(&first->reg, 0, sizeof(first->reg));
	first->reg.value = any_register(first->size, n->vvvv);
	return true;
}

/* Adds rsp as a hidden operand of push2 and pop2. */
static void stack_add(ZydisDecodedInstruction *z, ZydisDecodedOperand *ops)
{
	ZydisDecodedOperand *op = &ops[z->operand_count++];

	memset(op, 0, sizeof(*op));
	op->type = ZYDIS_OPERAND_TYPE_REGISTER;
	op->visibility = ZYDIS_OPERAND_VISIBILITY_HIDDEN;
	op->size = 64;
	op->actions = ZYDIS_OPERAND_ACTION_READWRITE;
	op->reg.value = ZYDIS_REGISTER_RSP;
}

/* Adds `by`, the difference between the lengths of the two encodings, to the length and to the offsets that Zydis has
 * found. */
static void offsets_shift(ZydisDecodedInstruction *z, int by)
{
	unsigned i;

	z->length = (uint8_t)(z->length + by);
	if (z->raw.modrm.offset)
		z->raw.modrm.offset = (uint8_t)(z->raw.modrm.offset + by);
	if (z->raw.sib.offset)
		z->raw.sib.offset = (uint8_t)(z->raw.sib.offset + by);
	if (z->raw.disp.size)
		z->raw.disp.offset = (uint8_t)(z->raw.disp.offset + by);
	for (i = 0; i < 2; i++)
		if (z->raw.imm[i].size)
			z->raw.imm[i].offset = (uint8_t)(z->raw.imm[i].offset + by);
}

static void flags_set(const struct newer *n, ZydisDecodedInstruction *z)
{
	if (n->no_flags)
		z->cpu_flags = NULL;
	if (n->all_flags)
		z->cpu_flags = &flags_all;
	if (n->tests_flags)
		z->cpu_flags = &flags_tested;
}

/* Decodes the older instruction in n->alike by Zydis, and turns the result into that of the newer one. Returns false if
 * there is no such instruction. */
static bool finish(const struct newer *n, size_t avail, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops)
{
	int by = (int)n->head - (int)n->alike_head;
	unsigned i;

	if (!n->alike_len || n->full ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), n->alike, n->alike_len, z, ops)) ||
	    z->length + by > (int)INSN_MOST || z->length + by > (int)avail)
		return false;
	offsets_shift(z, by);
	for (i = 0; i < z->operand_count; i++)
		if (!operand_raise(n, &ops[i]))
			return false;
	if (n->destination && !destination_add(n, z, ops))
		return false;
	if (n->mnemonic == NEWER_PUSH2 || n->mnemonic == NEWER_POP2)
		stack_add(z, ops);
	if (n->first_written)
		ops[0].actions =
			ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY ? ZYDIS_OPERAND_ACTION_CONDWRITE : ZYDIS_OPERAND_ACTION_WRITE;
	if (n->both)
		ops[0].actions = ops[1].actions = ZYDIS_OPERAND_ACTION_READWRITE;
	if (n->updates) {
		ZydisDecodedOperand memory = ops[1];

		ops[1] = ops[0];
		ops[0] = memory;
		ops[0].actions = ops[1].actions = ZYDIS_OPERAND_ACTION_READWRITE;
	}
	if (n->mnemonic == NEWER_JMPABS) {
		/* Its target is an address and not a distance, so the jump counts as indirect. */
		ops[0] = ops[1];
		z->operand_count = z->operand_count_visible = 1;
		z->meta.category = ZYDIS_CATEGORY_UNCOND_BR;
	}
	flags_set(n, z);
	if (n->mnemonic == NEWER_CHANGED)
		z->mnemonic = (ZydisMnemonic)(NEWER_CHANGED | (unsigned)z->mnemonic);
	else if (n->mnemonic)
		z->mnemonic = (ZydisMnemonic)n->mnemonic;
	return true;
}

/* Reads and decodes an instruction with an EVEX prefix in a map other than 4. Zydis fails on these if they have r16 to
 * r31. */
static bool evex_other(const uint8_t *b, size_t avail, unsigned at, const struct evex *e, struct newer *n,
                       ZydisDecodedInstruction *z, ZydisDecodedOperand *ops)
{
	const struct vector_row *r = newer_vector_find(e);
	unsigned memory = e->modrm < 0xc0 ? e->high & (HIGH_BASE | HIGH_INDEX) : e->high & HIGH_BASE;

	if (e->modrm >= 0xc0 && (e->high & HIGH_INDEX))
		return false;
	if (r) {
		/* bit 4 of ModRM.reg is lowered only for a general register: Zydis reads that of a vector register */
		evex_lower(b, avail, at, e, memory | (newer_vector_general(r) ? e->high & HIGH_REG : 0), n);
		newer_vector_take(r, at, n);
		return finish(n, avail, z, ops);
	}
	if (is_of_vex(e) && evex_as_vex(b, avail, at, e, n))
		return finish(n, avail, z, ops);
	/* First tries to leave bit 4 of ModRM.reg as it is, which is right if it numbers a vector register. If it numbers a
	 * general register, that bit belongs to APX, and is lowered, too. */
	if (memory) {
		memset(n, 0, sizeof(*n));
		evex_lower(b, avail, at, e, memory, n);
		if (finish(n, avail, z, ops))
			return true;
	}
	if (!(e->high & HIGH_REG))
		return false;
	memset(n, 0, sizeof(*n));
	evex_lower(b, avail, at, e, e->high, n);
	return finish(n, avail, z, ops);
}

bool newer_read(const uint8_t *b, size_t avail, struct newer *n, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops)
{
	unsigned at = prefixes_of(b, avail);
	struct evex e;
	bool read = false;

	memset(n, 0, sizeof(*n));
	if (at == 0xff)
		return false;
	switch (b[at]) {
	case REX2: read = rex2_read(b, avail, at, n); break;
	case EVEX:
		if (!evex_read(b, avail, at, &e))
			return false;
		if (e.map != 4)
			return evex_other(b, avail, at, &e, n, z, ops);
		read = promoted_read(b, avail, at, &e, n);
		break;
	case VEX3:
	case VEX2: read = vex_read(b, avail, at, n); break;
	case UDB: read = udb_read(at, n); break;
	default: read = legacy_read(b, avail, at, n); break;
	}
	return read && finish(n, avail, z, ops);
}

bool newer_decode(const uint8_t *bytes, size_t avail, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops)
{
	struct newer n;

	return newer_read(bytes, avail, &n, z, ops);
}

bool newer_is_reserved(const uint8_t *b, size_t avail)
{
	unsigned at = prefixes_of(b, avail), next;

	if (at == 0xff)
		return false;
	if ((b[at] & 0xf0) == REX && at + 1u < avail)
		at++;
	next = at + 1u < avail ? b[at + 1] : 0;
	switch (b[at]) {
	case REX2:
	case VEX3:
	case VEX2: return true;
	case EVEX: return next & 7;
	case XOP: return (next & 31) >= 8;
	case 0x0f:
		return next == 0x00 || next == 0x01 || (next >= 0x18 && next <= 0x1f) || (next >= 0x24 && next <= 0x27) ||
		       next == 0x38 || next == 0x3a || next == 0xa6 || next == 0xa7 || next == 0xae || next == 0xc7;
	default: return false;
	}
}
