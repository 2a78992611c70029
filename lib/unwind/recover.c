/* SPDX-License-Identifier: MIT */
/*
 * recover.c: recovers registers of outer frames that the tables do not track: rbx and r12-r15.
 *
 * Few walks need one: in usual programs only those through the dynamic linker's lazy resolver (its CFA is rbx + 32)
 * and a few hand-written functions. Then the frames from the last one with all registers known are walked again by a
 * source that says where each callee-saved register is: a module's register table, or .eh_frame.
 *
 * It runs in signal context: no malloc, no lock, and of libc only memcpy; bounded; 2 KiB of stack. It is slow
 * compared with a table lookup.
 */
#define ETCH_CFI_DEPTH 8 /* maximum depth of remember_state; 200 bytes each */

#include "unwind/eh_view.h"
#include "shared/search.h"
#include "unwind/recover.h"
#include "unwind/registered_frames.h"

/* Maximum number of frames walked: a register is needed close to the frame whose registers are known. */
#define FRAMES 512

NO_ASAN static bool word_read(struct recover_frame *f, uint64_t at, uint64_t *v)
{
	struct window *w = &f->window;
	struct window new;

	if (f->target)
		return !f->target->read(f->target->arg, at, v);
	if (!window_has(w, at)) {
		if (stack_window(at, &new))
			return false;
		*w = new;
	}
	return !memory_read(at, v);
}

bool recover_fde(const struct prepare_image *im, uint64_t at, struct eh_view *v, struct etch_fde *fde)
{
	size_t k;

	if (!eh_view_open(v, im))
		return false;
	at -= im->bias;
	k = SEARCH(v->h.count, i, eh_view_start(v, i) <= at);
	while (k > 1 && eh_view_start(v, k - 2) == eh_view_start(v, k - 1))
		k--;
	if (k && eh_view_fde(v, k - 1, fde) && at >= fde->start && at < fde->end)
		return true;
	eh_view_close(v);
	return false;
}

/* Finds the row of .eh_frame for an address of this module, or, if the address is not in it, of code that a JIT has
 * registered. Returns 1; 0 if there is none; -1 if that is unknown because the module has been unloaded. flags: those
 * of etch_cfi_rows(). */
static int row_find(const struct prepare_image *im, uint64_t at, unsigned flags, struct etch_cfi_row *out)
{
	struct etch_cfi cfi;
	struct etch_fde fde;
	struct eh_view v;

	if (at - im->start < im->end - im->start) {
		if (!recover_fde(im, at, &v, &fde))
			return v.gone ? -1 : 0;
		*out = etch_cfi_row_at(&fde, flags, at - im->bias);
		eh_view_close(&v);
	} else {
		if (!registered_fde(at, &cfi, &fde))
			return 0;
		*out = etch_cfi_row_at(&fde, flags, at);
	}
	return out->rule.kind != ETCH_RULE_UNDEF;
}

int recover_rule(const struct prepare_image *im, uint64_t at, struct etch_rule *rule)
{
	struct etch_cfi_row row;
	int found = row_find(im, at, 0, &row);

	if (found > 0)
		*rule = row.rule;
	return found;
}

#define KNOWN(r) (1u << (r))

static bool slot_read(struct recover_frame *f, uint64_t cfa, unsigned how, int32_t off, unsigned reg, uint64_t *v)
{
	uint64_t base = cfa;

	if (how == ETCH_BP_SAME) {
		*v = f->reg[reg];
		return f->known & KNOWN(reg);
	}
	if (how == ETCH_BP_RBP) {
		if (!(f->known & KNOWN(ETCH_RBP)))
			return false;
		base = f->reg[ETCH_RBP];
	} else if (how == ETCH_BP_RSP) {
		base = f->reg[ETCH_RSP];
	} else if (how != ETCH_BP_CFA) {
		return false;
	}
	return word_read(f, base + (uint64_t)(int64_t)off, v);
}

/* Finds the row of a frame in its module's register table, or else in .eh_frame. */
static bool frame_row(const struct recover_frame *f, recover_image_fn *image, struct etch_cfi_row *row)
{
	uint64_t at = f->reg[ETCH_RIP] - !f->interrupted;
	struct prepare_image im;

	if (f->target)
		return registers_target_row(f->target, at, row);
	if (!image(at, &im))
		im.start = im.end = 0;
	else if (registers_row(&im, at, row))
		return true;
	return row_find(&im, at, ETCH_CFI_SAVES, row) > 0 && row->rule.kind == ETCH_RULE_CALL;
}

/* Finds the CFA of a frame by the rule *r. False if the rule's register is unknown or memory cannot be read. */
static bool frame_cfa(struct recover_frame *f, const struct etch_rule *r, uint64_t *cfa)
{
	unsigned reg = r->cfa & 15;
	uint64_t base = f->reg[reg];

	if (!(f->known & KNOWN(reg)))
		return false;
	if (r->cfa & ETCH_CFA_INDEX)
		base = f->reg[ETCH_RSP] + 8 * base;
	*cfa = base + (uint64_t)(int64_t)r->cfa_off;
	if (r->cfa & ETCH_CFA_DEREF) {
		if (!word_read(f, *cfa, cfa))
			return false;
		*cfa += (uint64_t)(int64_t)r->cfa_add;
	}
	return true;
}

/* Finds the return address of a frame. False if the rule or the CFA cannot be right, or memory cannot be read. */
static bool frame_return(struct recover_frame *f, const struct etch_rule *r, uint64_t cfa, uint64_t *ip)
{
	uint64_t at, sp = f->reg[ETCH_RSP];

	if (r->ra & ETCH_RA_REG) {
		if (!f->interrupted || cfa < sp)
			return false;
		*ip = f->reg[r->ra & 15];
		return true;
	}
	if (r->ra == ETCH_RA_SLOT) {
		at = cfa + (uint64_t)(int64_t)r->cfa_add;
		return cfa > sp && at >= sp && word_read(f, at, ip);
	}
	return cfa >= 8 && (cfa - 8 >= sp || rule_may_switch(r)) && word_read(f, cfa - 8, ip);
}

bool recover_step(struct recover_frame *f, recover_image_fn *image)
{
	static const uint8_t saved[5] = {ETCH_RBX, ETCH_R12, ETCH_R13, ETCH_R14, ETCH_R15};
	struct etch_cfi_row row;
	const struct etch_rule *r = &row.rule;
	uint64_t cfa, v[5] = {0}, bp = 0, ip;
	uint32_t known = KNOWN(ETCH_RSP) | KNOWN(ETCH_RIP);
	unsigned i;

	if (!frame_row(f, image, &row) || !frame_cfa(f, r, &cfa) || !frame_return(f, r, cfa, &ip))
		return false;
	if (slot_read(f, cfa, r->bp, r->bp_off, ETCH_RBP, &bp))
		known |= KNOWN(ETCH_RBP);
	for (i = 0; i < 5; i++)
		if (slot_read(f, cfa, row.saves.how[i], row.saves.off[i], saved[i], &v[i]))
			known |= KNOWN(saved[i]);
	for (i = 0; i < 5; i++)
		if (known & KNOWN(saved[i]))
			f->reg[saved[i]] = v[i];
	if (known & KNOWN(ETCH_RBP))
		f->reg[ETCH_RBP] = bp;
	/*
	 * .eh_frame has no rules for scratch registers. All other readers assume that they are unchanged, and OpenSSL's
	 * assembly relies on it: a function with its CFA in rax calls a local function that preserves rax. This is
	 * allowed for one step only.
	 */
	if (f->interrupted)
		known |= RECOVER_SCRATCH;
	f->reg[ETCH_RSP] = cfa;
	f->reg[ETCH_RIP] = ip;
	f->known = known;
	f->interrupted = false;
	return true;
}

int recover_register(const uint64_t reg[17], bool returned, uint64_t rip, uint64_t rsp, unsigned want,
                     recover_image_fn *image, uint64_t *value)
{
	struct recover_frame f;
	unsigned i;

	if (want > ETCH_R15)
		return -1;
	memcpy(f.reg, reg, sizeof(f.reg));
	f.known = 0x1ffff;
	f.interrupted = !returned;
	f.window.lo = f.window.hi = 0;
	f.target = NULL;
	for (i = 0; i < FRAMES; i++) {
		if (!recover_step(&f, image)) /* frames further out may be on another stack than that of the wanted frame */
			return -1;
		if (f.reg[ETCH_RSP] == rsp && f.reg[ETCH_RIP] == rip) {
			*value = f.reg[want];
			return f.known & KNOWN(want) ? 0 : -1;
		}
	}
	return -1;
}
