/* SPDX-License-Identifier: MIT */
/* Decodes bytes to struct step: by the cache of encodings if possible, else by the instruction's form, else in full by
 * Zydis. */
#include "arch/x86/fast_decoder.h"
#include "arch/x86/encoding.h"
#include "arch/x86/newer.h"
#include "arch/x86/step_full.h"
#include "support/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RSP         4u
#define CACHES_KEPT 4u    /* enough for one thread, and for the passes that run at the same time */
#define SIZE_KEPT   4096u /* size of the hash table; larger caches are freed, since they would fragment the heap */

static ZydisDecoder lengths; /* a decoder in minimal mode, which gives prefixes, opcode and ModRM, but no operands */
static pthread_once_t lengths_once = PTHREAD_ONCE_INIT;

static void lengths_init(void)
{
	lengths = *zydis_decoder();
	ZydisDecoderEnableMode(&lengths, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
}

/* Caches that were freed, for the next step_cache_new(). The result of decoding depends only on the bytes, so the cache
 * of one pass, round or file can serve the next one. Without this, the passes over a small object file would spend most
 * of their time on decoding the first instruction of each form again. */
static struct step_cache *kept[CACHES_KEPT];
static size_t size_kept = SIZE_KEPT;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

struct step_cache *step_cache_new(void)
{
	struct step_cache *c = NULL;
	size_t i;

	pthread_mutex_lock(&kept_lock);
	for (i = 0; i < CACHES_KEPT && !c; i++) {
		c = kept[i];
		kept[i] = NULL;
	}
	pthread_mutex_unlock(&kept_lock);
	return c ? c : mem_zero(1, sizeof(struct step_cache));
}

void step_caches_keep(bool large) { size_kept = large ? SIZE_MAX : SIZE_KEPT; }

void step_cache_free(struct step_cache *c)
{
	bool keep = false;
	size_t i;

	if (!c)
		return;
	pthread_mutex_lock(&kept_lock);
	for (i = 0; i < CACHES_KEPT && !keep && c->encodings.size <= size_kept; i++)
		if (!kept[i]) {
			kept[i] = c;
			keep = true;
		}
	pthread_mutex_unlock(&kept_lock);
	if (keep)
		return;
	free(c->forms.list);
	encodings_free(&c->encodings);
	free(c);
}

static inline uint16_t bit(unsigned r) { return r < 16 ? (uint16_t)(1u << r) : 0; }

/* Computes step.touches, the mask of the registers that are read or changed. It includes rsp if rsp is changed, and for
 * each op that is not listed here. The value of rsp is always known in some way, so the analysis never skips these
 * instructions. */
static uint16_t touches(const struct step *in)
{
	uint16_t mask = in->writes | (in->a == RSP ? bit(RSP) : 0);

	switch (in->op) {
	case STEP_NONE:
	case STEP_LIMIT:
	case STEP_HALT:
	case STEP_SYSCALL: return mask;
	case STEP_CONST:
	case STEP_ENTRY:
	case STEP_ADD:
	case STEP_ALIGN:
	case STEP_FETCH: return mask | bit(in->a);
	case STEP_STORE: return mask | bit(in->b);
	case STEP_MOVE:
	case STEP_SWAP:
	case STEP_COMPARE:
	case STEP_ADDREG:
	case STEP_SUBREG:
	case STEP_EXTEND:
	case STEP_LOAD:
	case STEP_EXCHANGE: return mask | bit(in->a) | bit(in->b);
	case STEP_SUM: return mask | bit(in->a) | bit(in->b) | bit(in->index);
	case STEP_ADDRESS: return mask | bit(in->a) | bit(in->b);
	case STEP_PUSH2:
	case STEP_POP2: return mask | bit(RSP) | bit(in->a) | bit(in->b);
	default: return mask | bit(RSP);
	}
}

/* Has an instruction EFFECT_OTHER? */
static bool changes_more(const struct step *in)
{
	switch (in->op) {
	case STEP_PUSH:
	case STEP_POP:
	case STEP_PUSH2:
	case STEP_POP2:
	case STEP_LEAVE:
	case STEP_ENTER:
	case STEP_SWAP: return true;
	default: return in->writes || in->a == RSP;
	}
}

/* Computes step.effects (EFFECT_*). */
static uint8_t effects(const struct step *in)
{
	bool way = in->flow != FLOW_NEXT || in->op == STEP_SYSCALL;
	bool number = in->op == STEP_CONST || in->op == STEP_ENTRY || in->op == STEP_LIMIT ||
	              (in->op == STEP_ADDRESS && in->b == INSN_PC_REG);
	bool needs = in->flow == FLOW_JUMP_IND || in->op == STEP_SYSCALL ||
	             (in->a == RSP && (in->op == STEP_ADDREG || in->op == STEP_SUBREG));

	return EFFECT_ALL | (in->cond ? EFFECT_FLAGS : 0) | (way ? EFFECT_CONTROL : 0) |
	       (changes_more(in) ? EFFECT_OTHER : 0) | (number ? EFFECT_CONSTANT : 0) | (needs ? EFFECT_NEEDS_CONSTANT : 0);
}

/* Makes the step of an instruction from its form and its raw fields, and caches its encoding. */
static void step_of_form(struct step_cache *cache, const struct form *f, const struct raw *raw, const uint8_t *padded,
                         uint64_t addr, struct step *out)
{
	form_apply(f, raw, addr, out);
	out->touches = touches(out);
	out->effects = effects(out);
	encoding_add(&cache->encodings, padded, f, raw, out);
}

/*
 * Decodes an instruction without Zydis, and returns false if this is not possible. It is possible if the form is known,
 * and raw_read() gave the same fields as Zydis for an earlier instruction of the form. It then does so for all
 * instructions of the form, since the positions of fields depend only on what is in raw_key(), and on the fields in
 * front of them. *fresh becomes true if the form is not known yet.
 */
static bool step_by_form(struct step_cache *cache, const uint8_t *padded, size_t avail, uint64_t addr, struct step *out,
                         bool *fresh)
{
	unsigned imm_at, slot;
	const struct form *f;
	struct raw raw;
	uint32_t key;

	key = raw_read(padded, &raw, &imm_at);
	f = key ? form_find(&cache->forms, key, &slot) : NULL;
	*fresh = key && !f;
	if (!f || !f->quick || imm_at + f->imm_size > avail)
		return false;
	form_finish(f, padded, imm_at, &raw);
	step_of_form(cache, f, &raw, padded, addr, out);
	return true;
}

void step_check_again(const uint8_t *bytes, size_t avail, uint64_t addr, const struct step *found)
{
	struct step truth;

	if (step_decode(NULL, bytes, avail, addr, &truth) && !memcmp(&truth, found, sizeof(truth)))
		return;
	fprintf(stderr, "step_check: %02x %02x %02x %02x ... is not what Zydis has\n", bytes[0], bytes[1], bytes[2],
	        bytes[3]);
	abort();
}

/* Sets the effect of push2 or pop2. */
static void pair_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct step *out)
{
	bool push = (unsigned)z->mnemonic == NEWER_PUSH2;

	out->op = push ? STEP_PUSH2 : STEP_POP2;
	out->a = (uint8_t)zydis_gpr(ops[0].reg.value);
	out->b = (uint8_t)zydis_gpr(ops[1].reg.value);
	out->imm = 16;
	out->writes &= (uint16_t) ~(1u << RSP | (push ? 0 : bit(out->a) | bit(out->b)));
}

/* Makes the step of an instruction that was decoded with all operands. */
static void step_of(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out)
{
	memset(out, 0, sizeof(*out));
	out->a = out->b = out->index = INSN_NO_REG;
	out->len = z->length;
	step_full(z, ops, addr, out);
	if ((unsigned)z->mnemonic == NEWER_PUSH2 || (unsigned)z->mnemonic == NEWER_POP2)
		pair_set(z, ops, out);
	out->touches = touches(out);
	out->effects = effects(out);
}

/* Decodes an instruction that Zydis does not know. */
static bool step_newer(const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;

	if (!newer_decode(bytes, avail, &z, ops))
		return false;
	step_of(&z, ops, addr, out);
	return true;
}

/* Decodes an instruction with all operands, without making a form. */
static bool step_in_full(const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, avail, &z, ops)))
		return step_newer(bytes, avail, addr, out);
	step_of(&z, ops, addr, out);
	return true;
}

/* The bytes of an instruction. If fewer than ENCODING_BYTES are available, `padded` is a copy that is filled up with
 * zeros. */
struct code_bytes {
	const uint8_t *bytes;
	size_t avail;
	const uint8_t *padded;
};

/* Decodes with Zydis: only the raw fields if the form is known, also the operands if it is not. `fresh_form`: the
 * caller knows that the form is not known. */
static bool step_by_zydis(struct step_cache *cache, const struct code_bytes *code, uint64_t addr, bool fresh_form,
                          struct step *out)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecoderContext context;
	struct form *known = NULL, fresh;
	unsigned slot = 0;
	struct raw raw;
	uint32_t key = 0;

	if (!fresh_form) {
		pthread_once(&lengths_once, lengths_init);
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&lengths, &context, code->bytes, code->avail, &z)))
			return step_newer(code->bytes, code->avail, addr, out);
		key = raw_key(&z);
		known = key ? form_find(&cache->forms, key, &slot) : NULL;
		raw_of(&z, &raw);
		if (!key)
			return step_in_full(code->bytes, code->avail, addr, out);
	}
	if (known) {
		form_compare(known, &z, code->bytes);
		step_of_form(cache, known, &raw, code->padded, addr, out);
		return true;
	}
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), code->bytes, code->avail, &z, ops)))
		return step_newer(code->bytes, code->avail, addr, out);
	key = raw_key(&z);
	if (!key || !form_make(&z, ops, &fresh))
		return step_in_full(code->bytes, code->avail, addr, out);
	fresh.key = key;
	form_compare(&fresh, &z, code->bytes);
	raw_of(&z, &raw);
	step_of_form(cache, &fresh, &raw, code->padded, addr, out);
	if (!form_find(&cache->forms, key, &slot))
		form_add(&cache->forms, &fresh, slot);
	return true;
}

bool step_uncached(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out)
{
	const uint8_t *padded = bytes;
	uint8_t copy[ENCODING_BYTES];
	bool fresh = false;

	if (!cache)
		return step_in_full(bytes, avail, addr, out);
	if (avail < ENCODING_BYTES) {
		memset(copy, 0, sizeof(copy));
		memcpy(copy, bytes, avail);
		padded = copy;
	}
	if (!(padded == copy && encoding_decode(&cache->encodings, padded, addr, out) && out->len <= avail) &&
	    !step_by_form(cache, padded, avail, addr, out, &fresh))
		return step_by_zydis(cache, &(struct code_bytes){bytes, avail, padded}, addr, fresh, out);
	step_check(bytes, avail, addr, out);
	return true;
}

bool step_decode(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out)
{
	return step_decode_in(cache, bytes, avail, avail, addr, out);
}

uint64_t plt_slot(const uint8_t *bytes, size_t size, uint64_t addr)
{
	struct step s;
	size_t at = 0;
	int i;

	for (i = 0; i < 3 && at < size; i++) {
		if (!step_decode(NULL, bytes + at, size - at, addr + at, &s))
			return 0;
		if (s.flow == FLOW_JUMP_IND)
			return s.deref && s.b == INSN_PC_REG ? (uint64_t)s.imm : 0;
		if (s.flow != FLOW_NEXT || s.op != STEP_NONE)
			return 0;
		at += s.len;
	}
	return 0;
}

bool plt_is_first(const uint8_t *b, size_t size)
{
	return size >= 13 && b[0] == 0xff && b[1] == 0x35 &&
	       (b[6] == 0xff ? b[7] == 0x25 : b[6] == 0xf2 && b[7] == 0xff && b[8] == 0x25);
}

bool code_is_near(const uint8_t *bytes, size_t size)
{
	unsigned form;

	while (size &&
	       (*bytes == 0x2e || *bytes == 0x3e || *bytes == 0x66 || *bytes >> 1 == 0xf2 / 2 || (*bytes & 0xf0) == 0x40))
		bytes++, size--;
	if (size < 2 || *bytes != 0xff)
		return size && (*bytes == 0xc3 || *bytes == 0xc2);
	form = bytes[1] >> 3 & 7;
	return form == 2 || form == 4;
}

bool code_is_sigreturn(const uint8_t *bytes, size_t size)
{
	static const uint8_t wide[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}; /* mov $15,%rax; syscall */
	static const uint8_t narrow[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};           /* mov $15,%eax; syscall */

	int i;

	for (i = 0; i < 2 && size; i++, bytes++, size--) /* in glibc the FDE begins one byte before the code */
		if ((size >= sizeof(wide) && !memcmp(bytes, wide, sizeof(wide))) ||
		    (size >= sizeof(narrow) && !memcmp(bytes, narrow, sizeof(narrow))))
			return true;
	return false;
}
