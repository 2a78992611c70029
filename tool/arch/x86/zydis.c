/* SPDX-License-Identifier: MIT */
/* The Zydis decoder that all files share, and zydis_flow(), which classifies instructions by their control flow. */
#include "arch/x86/zydis.h"
#include "arch/x86/newer.h"

#include <pthread.h>

static ZydisDecoder decoder;

static void decoder_init(void) { ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64); }

const ZydisDecoder *zydis_decoder(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, decoder_init);
	return &decoder;
}

bool zydis_decode(const uint8_t *bytes, size_t avail, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops)
{
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, avail, z, ops)) ||
	       newer_decode(bytes, avail, z, ops);
}

enum insn_flow zydis_flow(const ZydisDecodedInstruction *z, bool direct)
{
	if (z->mnemonic == ZYDIS_MNEMONIC_XABORT) /* continues if no transaction is active */
		return FLOW_NEXT;
	switch (z->meta.category) {
	case ZYDIS_CATEGORY_CALL: return direct ? FLOW_CALL : FLOW_CALL_IND;
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (zydis_is_inline_jump(z))
			return FLOW_BRANCH;
		return direct ? FLOW_JUMP : FLOW_JUMP_IND;
	case ZYDIS_CATEGORY_COND_BR: /* Zydis counts xend among these */ return direct ? FLOW_BRANCH : FLOW_NEXT;
	case ZYDIS_CATEGORY_RET: return FLOW_RETURN;
	default: break;
	}
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_INT3: return FLOW_STOP;
	default: return direct ? FLOW_BRANCH : FLOW_NEXT; /* xbegin */
	}
}
