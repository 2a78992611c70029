/* SPDX-License-Identifier: MIT */
/* Instructions with an EVEX prefix: those of AVX10.2, and those of AMX and MOVRS with vector registers (319433). The
 * table gives for each an older instruction with the same operands, which stands in for it. */
#include "arch/x86/newer_internal.h"

/* The older instructions that stand in for newer ones on vectors, distinguished by their operands. _UNLIKE: not all
 * operands are the same as those of the newer instruction, so its text is only its name. */
enum as {
	AS_THREE,            /* vaddps */
	AS_IMMEDIATE,        /* vrangeps */
	AS_SCALAR_IMMEDIATE, /* vrangess */
	AS_TWO,              /* vsqrtps */
	AS_TWO_IMMEDIATE,    /* vrndscaleps */
	AS_NARROWS,          /* vcvtpd2ps */
	AS_WIDENS,           /* vcvtps2pd */
	AS_COMPARE,          /* vucomiss */
	AS_LOAD,             /* vmovups */
	AS_MOVE,             /* vmovss, to a register */
	AS_MOVE_TO,          /* vmovss, to memory */
	AS_TO_GENERAL,       /* vcvttss2si */
	AS_KINDS,
	AS_THREE_UNLIKE = AS_THREE | 16,
	AS_IMMEDIATE_UNLIKE = AS_IMMEDIATE | 16,
	AS_TWO_UNLIKE = AS_TWO | 16,
};
/* The size of the vector's elements. It matters since a displacement of one byte is in multiples of it (SDM vol. 2,
 * 2.7.5). */
enum element { HALF, SINGLE, DOUBLE, ELEMENTS };
#define KEEP_W 2u

static const struct {
	uint8_t map, pp, opcode, w;
} as_of[AS_KINDS][ELEMENTS] = {
	[AS_THREE] = {{5, PP_NONE, 0x58, 0}, {1, PP_NONE, 0x58, 0}, {1, PP_66, 0x58, 1}},
	[AS_IMMEDIATE] = {{3, PP_NONE, 0xc2, 0}, {3, PP_66, 0x50, 0}, {3, PP_66, 0x50, 1}},
	[AS_SCALAR_IMMEDIATE] = {{3, PP_NONE, 0x57, 0}, {3, PP_66, 0x51, 0}, {3, PP_66, 0x51, 1}},
	[AS_TWO] = {{5, PP_NONE, 0x51, 0}, {1, PP_NONE, 0x51, 0}, {1, PP_66, 0x51, 1}},
	[AS_TWO_IMMEDIATE] = {{3, PP_NONE, 0x08, 0}, {3, PP_66, 0x08, 0}, {3, PP_66, 0x09, 1}},
	[AS_NARROWS] = {[DOUBLE] = {1, PP_66, 0x5a, 1}},
	[AS_WIDENS] = {[SINGLE] = {1, PP_NONE, 0x5a, 0}},
	[AS_COMPARE] = {{5, PP_NONE, 0x2e, 0}, {1, PP_NONE, 0x2e, 0}, {1, PP_66, 0x2e, 1}},
	[AS_LOAD] = {[SINGLE] = {1, PP_NONE, 0x10, 0}},
	[AS_MOVE] = {{5, PP_F3, 0x10, 0}, {1, PP_F3, 0x10, 0}},
	[AS_MOVE_TO] = {{5, PP_F3, 0x11, 0}, {1, PP_F3, 0x11, 0}},
	[AS_TO_GENERAL] = {[SINGLE] = {1, PP_F3, 0x2c, KEEP_W}, [DOUBLE] = {1, PP_F2, 0x2c, KEEP_W}},
};

static const struct vector_row {
	uint8_t map, pp, opcode, w;
	uint8_t as;      /* enum as */
	uint8_t element; /* enum element */
	char name[17];
} vector_rows[] = {
	{1, PP_66, 0xd6, 0, AS_MOVE_TO, SINGLE, "vmovd"},
	{1, PP_F3, 0x2e, 0, AS_COMPARE, SINGLE, "vucomxss"},
	{1, PP_F3, 0x2f, 0, AS_COMPARE, SINGLE, "vcomxss"},
	{1, PP_F3, 0x7e, 0, AS_MOVE, SINGLE, "vmovd"},
	{1, PP_F2, 0x2e, 1, AS_COMPARE, DOUBLE, "vucomxsd"},
	{1, PP_F2, 0x2f, 1, AS_COMPARE, DOUBLE, "vcomxsd"},
	{2, PP_NONE, 0x50, 0, AS_THREE, SINGLE, "vpdpbuud"},
	{2, PP_NONE, 0x51, 0, AS_THREE, SINGLE, "vpdpbuuds"},
	{2, PP_NONE, 0x52, 0, AS_THREE, SINGLE, "vdpphps"},
	{2, PP_NONE, 0x6d, 0, AS_THREE_UNLIKE, SINGLE, "tcvtrowps2phh"},
	{2, PP_NONE, 0x74, 0, AS_THREE_UNLIKE, HALF, "vcvtbiasph2bf8"},
	{2, PP_NONE, 0xd2, 0, AS_THREE, SINGLE, "vpdpwuud"},
	{2, PP_NONE, 0xd3, 0, AS_THREE, SINGLE, "vpdpwuuds"},
	{2, PP_66, 0x4a, 0, AS_THREE_UNLIKE, SINGLE, "tilemovrow"},
	{2, PP_66, 0x67, 0, AS_THREE, SINGLE, "vcvt2ps2phx"},
	{2, PP_66, 0x6d, 0, AS_THREE_UNLIKE, SINGLE, "tcvtrowps2phl"},
	{2, PP_66, 0xd2, 0, AS_THREE, SINGLE, "vpdpwusd"},
	{2, PP_66, 0xd3, 0, AS_THREE, SINGLE, "vpdpwusds"},
	{2, PP_F3, 0x4a, 0, AS_THREE_UNLIKE, SINGLE, "tcvtrowd2ps"},
	{2, PP_F3, 0x50, 0, AS_THREE, SINGLE, "vpdpbsud"},
	{2, PP_F3, 0x51, 0, AS_THREE, SINGLE, "vpdpbsuds"},
	{2, PP_F3, 0x6d, 0, AS_THREE_UNLIKE, SINGLE, "tcvtrowps2bf16l"},
	{2, PP_F3, 0x74, 0, AS_TWO_UNLIKE, HALF, "vcvtph2bf8"},
	{2, PP_F3, 0xd2, 0, AS_THREE, SINGLE, "vpdpwsud"},
	{2, PP_F3, 0xd3, 0, AS_THREE, SINGLE, "vpdpwsuds"},
	{2, PP_F3, 0xda, 0, AS_THREE, SINGLE, "vsm4key4"},
	{2, PP_F2, 0x50, 0, AS_THREE, SINGLE, "vpdpbssd"},
	{2, PP_F2, 0x51, 0, AS_THREE, SINGLE, "vpdpbssds"},
	{2, PP_F2, 0x6d, 0, AS_THREE_UNLIKE, SINGLE, "tcvtrowps2bf16h"},
	{2, PP_F2, 0x74, 0, AS_THREE, HALF, "vcvt2ph2bf8"},
	{2, PP_F2, 0xda, 0, AS_THREE, SINGLE, "vsm4rnds4"},
	{3, PP_NONE, 0x07, 0, AS_IMMEDIATE_UNLIKE, SINGLE, "tcvtrowps2phh"},
	{3, PP_NONE, 0x52, 0, AS_IMMEDIATE_UNLIKE, HALF, "vminmaxph"},
	{3, PP_NONE, 0x53, 0, AS_SCALAR_IMMEDIATE, HALF, "vminmaxsh"},
	{3, PP_66, 0x07, 0, AS_IMMEDIATE_UNLIKE, SINGLE, "tilemovrow"},
	{3, PP_66, 0x52, 0, AS_IMMEDIATE, SINGLE, "vminmaxps"},
	{3, PP_66, 0x52, 1, AS_IMMEDIATE, DOUBLE, "vminmaxpd"},
	{3, PP_66, 0x53, 0, AS_SCALAR_IMMEDIATE, SINGLE, "vminmaxss"},
	{3, PP_66, 0x53, 1, AS_SCALAR_IMMEDIATE, DOUBLE, "vminmaxsd"},
	{3, PP_F3, 0x07, 0, AS_IMMEDIATE_UNLIKE, SINGLE, "tcvtrowd2ps"},
	{3, PP_F3, 0x42, 0, AS_IMMEDIATE, SINGLE, "vmpsadbw"},
	{3, PP_F3, 0x77, 0, AS_IMMEDIATE_UNLIKE, SINGLE, "tcvtrowps2bf16l"},
	{3, PP_F2, 0x07, 0, AS_IMMEDIATE_UNLIKE, SINGLE, "tcvtrowps2bf16h"},
	{3, PP_F2, 0x08, 0, AS_TWO_IMMEDIATE, HALF, "vrndscalebf16"},
	{3, PP_F2, 0x26, 0, AS_TWO_IMMEDIATE, HALF, "vgetmantbf16"},
	{3, PP_F2, 0x52, 0, AS_IMMEDIATE_UNLIKE, HALF, "vminmaxbf16"},
	{3, PP_F2, 0x56, 0, AS_TWO_IMMEDIATE, HALF, "vreducebf16"},
	{3, PP_F2, 0x66, 0, AS_IMMEDIATE_UNLIKE, HALF, "vfpclassbf16"},
	{3, PP_F2, 0x77, 0, AS_IMMEDIATE_UNLIKE, SINGLE, "tcvtrowps2phl"},
	{3, PP_F2, 0xc2, 0, AS_IMMEDIATE_UNLIKE, HALF, "vcmpbf16"},
	{5, PP_NONE, 0x18, 0, AS_THREE_UNLIKE, HALF, "vcvtbiasph2hf8"},
	{5, PP_NONE, 0x1b, 0, AS_THREE_UNLIKE, HALF, "vcvtbiasph2hf8s"},
	{5, PP_NONE, 0x68, 0, AS_TWO, HALF, "vcvttph2ibs"},
	{5, PP_NONE, 0x69, 0, AS_TWO, HALF, "vcvtph2ibs"},
	{5, PP_NONE, 0x6a, 0, AS_TWO, HALF, "vcvttph2iubs"},
	{5, PP_NONE, 0x6b, 0, AS_TWO, HALF, "vcvtph2iubs"},
	{5, PP_NONE, 0x6c, 0, AS_TWO, SINGLE, "vcvttps2udqs"},
	{5, PP_NONE, 0x6c, 1, AS_NARROWS, DOUBLE, "vcvttpd2udqs"},
	{5, PP_NONE, 0x6d, 0, AS_TWO, SINGLE, "vcvttps2dqs"},
	{5, PP_NONE, 0x6d, 1, AS_NARROWS, DOUBLE, "vcvttpd2dqs"},
	{5, PP_NONE, 0x74, 0, AS_THREE_UNLIKE, HALF, "vcvtbiasph2bf8s"},
	{5, PP_66, 0x2f, 0, AS_COMPARE, HALF, "vcomisbf16"},
	{5, PP_66, 0x51, 0, AS_TWO, HALF, "vsqrtbf16"},
	{5, PP_66, 0x58, 0, AS_THREE, HALF, "vaddbf16"},
	{5, PP_66, 0x59, 0, AS_THREE, HALF, "vmulbf16"},
	{5, PP_66, 0x5c, 0, AS_THREE, HALF, "vsubbf16"},
	{5, PP_66, 0x5d, 0, AS_THREE, HALF, "vminbf16"},
	{5, PP_66, 0x5e, 0, AS_THREE, HALF, "vdivbf16"},
	{5, PP_66, 0x5f, 0, AS_THREE, HALF, "vmaxbf16"},
	{5, PP_66, 0x68, 0, AS_TWO, SINGLE, "vcvttps2ibs"},
	{5, PP_66, 0x69, 0, AS_TWO, SINGLE, "vcvtps2ibs"},
	{5, PP_66, 0x6a, 0, AS_TWO, SINGLE, "vcvttps2iubs"},
	{5, PP_66, 0x6b, 0, AS_TWO, SINGLE, "vcvtps2iubs"},
	{5, PP_66, 0x6c, 0, AS_WIDENS, SINGLE, "vcvttps2uqqs"},
	{5, PP_66, 0x6c, 1, AS_TWO, DOUBLE, "vcvttpd2uqqs"},
	{5, PP_66, 0x6d, 0, AS_WIDENS, SINGLE, "vcvttps2qqs"},
	{5, PP_66, 0x6d, 1, AS_TWO, DOUBLE, "vcvttpd2qqs"},
	{5, PP_F3, 0x18, 0, AS_TWO_UNLIKE, HALF, "vcvtph2hf8"},
	{5, PP_F3, 0x1b, 0, AS_TWO_UNLIKE, HALF, "vcvtph2hf8s"},
	{5, PP_F3, 0x2e, 0, AS_COMPARE, HALF, "vucomxsh"},
	{5, PP_F3, 0x2f, 0, AS_COMPARE, HALF, "vcomxsh"},
	{5, PP_F3, 0x6c, 0, AS_TO_GENERAL, SINGLE, "vcvttss2usis"},
	{5, PP_F3, 0x6c, 1, AS_TO_GENERAL, SINGLE, "vcvttss2usis"},
	{5, PP_F3, 0x6d, 0, AS_TO_GENERAL, SINGLE, "vcvttss2sis"},
	{5, PP_F3, 0x6d, 1, AS_TO_GENERAL, SINGLE, "vcvttss2sis"},
	{5, PP_F3, 0x6e, 0, AS_MOVE, HALF, "vmovw"},
	{5, PP_F3, 0x6f, 0, AS_LOAD, SINGLE, "vmovrsd"},
	{5, PP_F3, 0x6f, 1, AS_LOAD, SINGLE, "vmovrsq"},
	{5, PP_F3, 0x74, 0, AS_TWO_UNLIKE, HALF, "vcvtph2bf8s"},
	{5, PP_F3, 0x7e, 0, AS_MOVE_TO, HALF, "vmovw"},
	{5, PP_F2, 0x18, 0, AS_THREE, HALF, "vcvt2ph2hf8"},
	{5, PP_F2, 0x1b, 0, AS_THREE, HALF, "vcvt2ph2hf8s"},
	{5, PP_F2, 0x1e, 0, AS_WIDENS, SINGLE, "vcvthf82ph"},
	{5, PP_F2, 0x68, 0, AS_TWO, HALF, "vcvttbf162ibs"},
	{5, PP_F2, 0x69, 0, AS_TWO, HALF, "vcvtbf162ibs"},
	{5, PP_F2, 0x6a, 0, AS_TWO, HALF, "vcvttbf162iubs"},
	{5, PP_F2, 0x6b, 0, AS_TWO, HALF, "vcvtbf162iubs"},
	{5, PP_F2, 0x6c, 0, AS_TO_GENERAL, DOUBLE, "vcvttsd2usis"},
	{5, PP_F2, 0x6c, 1, AS_TO_GENERAL, DOUBLE, "vcvttsd2usis"},
	{5, PP_F2, 0x6d, 0, AS_TO_GENERAL, DOUBLE, "vcvttsd2sis"},
	{5, PP_F2, 0x6d, 1, AS_TO_GENERAL, DOUBLE, "vcvttsd2sis"},
	{5, PP_F2, 0x6f, 0, AS_LOAD, SINGLE, "vmovrsb"},
	{5, PP_F2, 0x6f, 1, AS_LOAD, SINGLE, "vmovrsw"},
	{5, PP_F2, 0x74, 0, AS_THREE, HALF, "vcvt2ph2bf8s"},
	{6, PP_NONE, 0x2c, 0, AS_THREE, HALF, "vscalefbf16"},
	{6, PP_NONE, 0x42, 0, AS_TWO, HALF, "vgetexpbf16"},
	{6, PP_NONE, 0x4c, 0, AS_TWO, HALF, "vrcpbf16"},
	{6, PP_NONE, 0x4e, 0, AS_TWO, HALF, "vrsqrtbf16"},
	{6, PP_NONE, 0x98, 0, AS_THREE, HALF, "vfmadd132bf16"},
	{6, PP_NONE, 0x9a, 0, AS_THREE, HALF, "vfmsub132bf16"},
	{6, PP_NONE, 0x9c, 0, AS_THREE, HALF, "vfnmadd132bf16"},
	{6, PP_NONE, 0x9e, 0, AS_THREE, HALF, "vfnmsub132bf16"},
	{6, PP_NONE, 0xa8, 0, AS_THREE, HALF, "vfmadd213bf16"},
	{6, PP_NONE, 0xaa, 0, AS_THREE, HALF, "vfmsub213bf16"},
	{6, PP_NONE, 0xac, 0, AS_THREE, HALF, "vfnmadd213bf16"},
	{6, PP_NONE, 0xae, 0, AS_THREE, HALF, "vfnmsub213bf16"},
	{6, PP_NONE, 0xb8, 0, AS_THREE, HALF, "vfmadd231bf16"},
	{6, PP_NONE, 0xba, 0, AS_THREE, HALF, "vfmsub231bf16"},
	{6, PP_NONE, 0xbc, 0, AS_THREE, HALF, "vfnmadd231bf16"},
	{6, PP_NONE, 0xbe, 0, AS_THREE, HALF, "vfnmsub231bf16"},
};

const struct vector_row *newer_vector_find(const struct evex *e)
{
	size_t i;

	for (i = 0; i < sizeof(vector_rows) / sizeof(vector_rows[0]); i++)
		if (vector_rows[i].map == e->map && vector_rows[i].pp == e->pp && vector_rows[i].opcode == e->opcode &&
		    vector_rows[i].w == e->w)
			return &vector_rows[i];
	return NULL;
}

bool newer_vector_general(const struct vector_row *r) { return r->as == AS_TO_GENERAL; }

void newer_vector_take(const struct vector_row *r, unsigned at, struct newer *n)
{
	unsigned k = r->as & 15, e = r->element, w = as_of[k][e].w == KEEP_W ? r->w : as_of[k][e].w;

	n->mnemonic = NEWER_VECTOR;
	n->name = r->name;
	n->unlike = r->as >= AS_KINDS || k == AS_MOVE || k == AS_MOVE_TO;
	n->alike[at + 1] = (uint8_t)((n->alike[at + 1] & ~7u) | as_of[k][e].map);
	n->alike[at + 2] = (uint8_t)((n->alike[at + 2] & ~0x83u) | w << 7 | as_of[k][e].pp);
	n->alike[at + 4] = as_of[k][e].opcode;
}
