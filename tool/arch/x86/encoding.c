/* SPDX-License-Identifier: MIT */
/* The cache of decoded instructions (encoding.h): a hash table, in front of which a small direct-mapped table is
 * searched. */
#include "arch/x86/encoding.h"
#include "support/memory.h"

#include <Zydis/Zydis.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_FIRST 64u
#define SIZE_MOST  65536u /* when a table of this size is full, it is emptied */
#define SIZE_NEAR  8192u
#define HEAD_MOST  8u /* maximum number of bytes of a key */
#define PREFIXES   3u

/* The way in which step.imm is computed. */
enum encoding_imm {
	IMM_CONSTANT, /* a constant, for all instructions with this key */
	IMM_SIGNED,   /* the immediate field, sign-extended */
	IMM_UNSIGNED,
	IMM_NEGATED,
	IMM_RELATIVE, /* the immediate or displacement field, relative to the end of the instruction */
};

/* ---- the key bytes ------------------------------------------------------------- */

/* For opcodes of more than one byte: moves *at to the last byte of the opcode, and returns what follows it: RAW_NO,
 * RAW_PLAIN or RAW_MODRM. `kind` is that of the byte p[*at], which follows the prefixes. */
static inline unsigned long_opcode(const uint8_t *p, unsigned kind, unsigned *at)
{
	switch (kind) {
	case RAW_ESCAPE:
		++*at;
		if (p[*at] != 0x38 && p[*at] != 0x3a)
			return raw_follows[1][p[*at]];
		++*at;
		return RAW_MODRM;
	case RAW_VEX3:
	case RAW_VEX2:
		*at += kind == RAW_VEX3 ? 3 : 2;
		return p[*at] == 0x77 ? RAW_NO : RAW_MODRM; /* vzeroupper has no ModRM */
	default: return 0;
	}
}

/* Returns the number of bytes in front of displacement and immediate, or 0 if the cache does not serve such
 * instructions. */
static inline __attribute__((always_inline)) unsigned head_length(const uint8_t *p)
{
	unsigned at = 0, kind = raw_follows[0][p[0]], modrm;

	while (kind == RAW_PREFIX) {
		if (++at > PREFIXES)
			return 0;
		kind = raw_follows[0][p[at]];
	}
	if (kind == RAW_REX)
		kind = raw_follows[0][p[++at]];
	if (__builtin_expect(kind >= RAW_PREFIX, 0))
		kind = long_opcode(p, kind, &at);
	at++;
	if (kind == RAW_NO)
		return 0;
	if (kind != RAW_PLAIN) {
		modrm = p[at++];
		at += modrm < 0xc0 && (modrm & 7) == 4;
	}
	return at <= HEAD_MOST ? at : 0;
}

/* Returns the key bytes as a number, padded with zeros. The bytes of one key are never the beginning of another key, so
 * the padding makes no two keys equal. */
static inline uint64_t key_of(const uint8_t *p, unsigned head)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word & UINT64_MAX >> (64 - 8 * head);
}

#define REST offsetof(struct step, writes) /* offset in struct step of the members that encoding.rest holds */
_Static_assert(sizeof(struct step) - REST == sizeof(((struct encoding *)0)->rest),
               "struct encoding contains what follows step.number");

#define LEN_IN_REST  (offsetof(struct step, len) - REST)
#define FLOW_IN_REST (offsetof(struct step, flow) - REST)

/* ---- the hash table ------------------------------------------------------------- */

static inline size_t hash_of(uint64_t key, unsigned shift) { return key * 0x9e3779b97f4a7c15u >> shift; }

/* Returns the slot of a key, or the empty slot where it belongs. */
static inline struct encoding *slot_of(const struct encodings *all, uint64_t key)
{
	size_t i = hash_of(key, all->shift);

	while (all->list[i].key != key && all->list[i].key)
		i = (i + 1) & (all->size - 1);
	return &all->list[i];
}

/* Looks up in `list` a key that is not in `near`. Returns null if it is not in `list` either. */
static __attribute__((noinline)) const struct encoding *find_in_list(struct encodings *all, uint64_t key)
{
	const struct encoding *x = slot_of(all, key);

	if (x->key != key)
		return NULL;
	if (all->near != all->list)
		all->near[hash_of(key, all->near_shift)] = *x;
	return x;
}

static void near_make(struct encodings *all)
{
	unsigned size = all->size < SIZE_NEAR ? all->size : SIZE_NEAR;

	all->near = all->size <= SIZE_NEAR ? all->list : mem_zero(size, sizeof(*all->near));
	all->near_shift = 64 - (unsigned)__builtin_ctz(size);
}

/* Makes space for one more entry: grows a table that is nearly full, or empties it if it has the largest size. */
static void make_capacity(struct encodings *all)
{
	struct encodings more = {.size = all->size ? 4 * all->size : SIZE_FIRST};
	unsigned i;

	if (all->count < all->size / 4 * 3)
		return;
	if (more.size > SIZE_MOST) {
		memset(all->list, 0, all->size * sizeof(*all->list));
		all->count = 0;
		return;
	}
	more.list = mem_zero(more.size, sizeof(*more.list));
	near_make(&more);
	more.shift = 64 - (unsigned)__builtin_ctz(more.size);
	more.count = all->count;
	for (i = 0; i < all->size; i++)
		if (all->list[i].key)
			*slot_of(&more, all->list[i].key) = all->list[i];
	encodings_free(all);
	*all = more;
}

void encodings_free(struct encodings *all)
{
	if (all->near != all->list)
		free(all->near);
	free(all->list);
	memset(all, 0, sizeof(*all));
}

/* Makes the step of the instruction at `bytes` from x, the cache's entry for it. */
static inline void entry_apply(const struct encoding *x, const uint8_t *bytes, uint64_t addr, struct step *out)
{
	uint64_t word;
	int64_t imm;

	memcpy((uint8_t *)out + REST, x->rest, sizeof(x->rest));
	out->number = 0;
	out->disp = 0;
	if (x->disp_shift) {
		memcpy(&word, bytes + x->head, sizeof(word));
		out->disp = (int32_t)((int64_t)(word << x->disp_shift) >> x->disp_shift);
	}
	out->imm = x->constant;
	if (x->imm == IMM_CONSTANT)
		return;
	memcpy(&word, bytes + x->imm_at, sizeof(word));
	word <<= x->imm_shift;
	imm = (int64_t)word >> x->imm_shift;
	if (x->imm == IMM_RELATIVE)
		imm = (int64_t)((uint64_t)imm + addr + out->len);
	else if (x->imm == IMM_NEGATED)
		imm = -imm;
	else if (x->imm == IMM_UNSIGNED)
		imm = (int64_t)(word >> x->imm_shift);
	out->imm = imm;
}

bool encoding_decode(struct encodings *all, const uint8_t *bytes, uint64_t addr, struct step *out)
{
	unsigned head = all->size ? head_length(bytes) : 0;
	uint64_t key = head ? key_of(bytes, head) : 0;
	const struct encoding *x = key ? find_in_list(all, key) : NULL;

	if (x)
		entry_apply(x, bytes, addr, out);
	return x;
}

/* Returns the entry of the instruction at `bytes` if it is in `near`, else null. */
static inline __attribute__((always_inline)) const struct encoding *near_entry(const struct step_cache *cache,
                                                                               const uint8_t *bytes, size_t readable)
{
	const struct encoding *x;
	unsigned head;
	uint64_t key;

	if (!cache || readable < ENCODING_BYTES || !cache->encodings.size || !(head = head_length(bytes)))
		return NULL;
	key = key_of(bytes, head);
	x = &cache->encodings.near[hash_of(key, cache->encodings.near_shift)];
	return key && x->key == key ? x : NULL;
}

/* Implements step_decode_in() for an instruction that is not in `near`. It is a separate function so that
 * step_decode_in() need not save registers. */
static __attribute__((noinline)) bool step_decode_far(struct step_cache *cache, const uint8_t *bytes, size_t avail,
                                                      size_t readable, uint64_t addr, struct step *out)
{
	if (!cache || readable < ENCODING_BYTES || !encoding_decode(&cache->encodings, bytes, addr, out) ||
	    out->len > avail)
		return step_uncached(cache, bytes, avail, addr, out);
	step_check(bytes, avail, addr, out);
	return true;
}

bool step_decode_in(struct step_cache *cache, const uint8_t *bytes, size_t avail, size_t readable, uint64_t addr,
                    struct step *out)
{
	const struct encoding *x = near_entry(cache, bytes, readable);

	if (!x || x->rest[LEN_IN_REST] > avail)
		return step_decode_far(cache, bytes, avail, readable, addr, out);
	entry_apply(x, bytes, addr, out);
	step_check(bytes, avail, addr, out);
	return true;
}

bool step_outline(struct step_cache *cache, const uint8_t *bytes, size_t avail, struct step *out)
{
	const struct encoding *x = near_entry(cache, bytes, avail);

	if (!x || x->rest[LEN_IN_REST] > avail)
		return step_decode_far(cache, bytes, avail, avail, 0, out);
	out->len = x->rest[LEN_IN_REST];
	out->flow = x->rest[FLOW_IN_REST];
	return true;
}

/* ---- adding an entry ------------------------------------------------------------- */

/* Returns the size in bytes of the displacement after the key bytes (SDM vol. 2, 2.1.5). */
static unsigned disp_size(const struct raw *raw)
{
	unsigned rm = raw->field[FIELD_RM] & 7;

	if (raw->mod == 3)
		return 0;
	if (raw->mod == 1)
		return 1;
	return raw->mod == 2 || rm == 5 || (rm == 4 && (raw->base & 7) == 5) ? 4 : 0;
}

/* Does the displacement or the immediate affect other members of the step than disp and imm? Then the instruction
 * cannot be cached. */
static bool is_irregular(const struct form *f, const struct raw *raw)
{
	struct raw zero = *raw, ones = *raw;

	zero.imm = 0;
	ones.imm = -1;
	return f->shape == SHAPE_AND || f->shape == SHAPE_ENTER ||
	       (f->stored && (stores_back(f->mnemonic, f->op, &zero) || stores_back(f->mnemonic, f->op, &ones)));
}

/* Returns the enum encoding_imm that describes how form_apply() computes step.imm, or -1 if none does. */
static int imm_of(const struct form *f, const struct raw *raw, const struct step *s)
{
	bool field = f->quick && f->imm_size;
	int number = f->imm_signed || f->imm_size == 8 ? IMM_SIGNED : IMM_UNSIGNED;
	int other = s->b == INSN_PC_REG ? IMM_RELATIVE : IMM_CONSTANT;

	if (s->padding)
		return IMM_CONSTANT;
	if (flow_is_direct(s->flow))
		return field && f->imm_signed ? IMM_RELATIVE : -1;
	if (f->done)
		return flow_is_indirect(s->flow) ? other : IMM_CONSTANT;
	switch (s->op) {
	case STEP_PUSH:
	case STEP_POP: return IMM_CONSTANT;
	case STEP_CONST:
		if (f->shape == SHAPE_XOR)
			return IMM_CONSTANT;
		if (f->op[0].size == 32)
			number = f->imm_size == 4 ? IMM_UNSIGNED : -1;
		break;
	case STEP_ADD:
		if (!f->imm_signed)
			return -1;
		number = f->shape == SHAPE_SUB ? IMM_NEGATED : IMM_SIGNED;
		break;
	case STEP_LIMIT: break;
	case STEP_NONE:
	case STEP_STORE:
		if (!raw->imm32)
			return other;
		if (other != IMM_CONSTANT)
			return -1;
		break;
	default: return other;
	}
	return field ? number : -1; /* step.imm is the immediate */
}

void encoding_add(struct encodings *all, const uint8_t *bytes, const struct form *f, const struct raw *raw,
                  const struct step *step)
{
	unsigned head = head_length(bytes), disp = disp_size(raw), size = f->imm_size;
	struct encoding x = {.head = (uint8_t)head};
	int imm;

	if (!head || head + disp + f->imm_size != raw->len || is_irregular(f, raw) || (imm = imm_of(f, raw, step)) < 0)
		return;
	x.key = key_of(bytes, head);
	x.imm = (uint8_t)imm;
	x.imm_at = (uint8_t)(head + disp);
	if (imm == IMM_RELATIVE && step->b == INSN_PC_REG) { /* step.imm is computed from the displacement */
		x.imm_at = (uint8_t)head;
		size = disp;
	}
	if (imm != IMM_CONSTANT)
		x.imm_shift = (uint8_t)(64 - 8 * size);
	else if ((x.constant = (uint8_t)step->imm) != step->imm)
		return;
	if (disp && f->memory && f->follow && !step->padding)
		x.disp_shift = (uint8_t)(64 - 8 * disp);
	memcpy(x.rest, (const uint8_t *)step + REST, sizeof(x.rest));
	if (!x.key)
		return;
	make_capacity(all);
	all->count += !slot_of(all, x.key)->key;
	*slot_of(all, x.key) = x;
}
