/* SPDX-License-Identifier: MIT */
/*
 * Finds callee-saved registers of outer frames by .eh_frame. Few CFAs are relative to such a register: that of the
 * dynamic linker's lazy resolver (rbx + 32), and those of some functions written by hand. lib/unwind/recover.c does the
 * same for a process's own stack.
 */
#define ETCH_NO_MODULE /* no constructor for fault tables, which nothing here has */
#include "profile/sample_walk.h"

#include <string.h>

#include "shared/cfi.h"
#include "unwind/recover.h"

#define KNOWN(r) (1u << (r))

/* Finds the row of a file's .eh_frame for a link-time address. Returns false if there is none that is a rule for
 * calls. */
static bool row_find(const struct binary *b, uint64_t at, struct etch_cfi_row *out)
{
	struct etch_cfi cfi;
	struct etch_fde fde;

	if (!binary_fde(b, at, &cfi, &fde))
		return false;
	*out = etch_cfi_row_at(&fde, ETCH_CFI_SAVES, at);
	return out->rule.kind == ETCH_RULE_CALL;
}

struct frame {
	const struct sample *sample;
	uint64_t reg[17];
	uint32_t known;
	bool interrupted;
};

/* Reads a register of the caller, by the way in which this function has saved it. */
static bool saved_read(const struct frame *f, uint64_t cfa, unsigned how, int32_t off, unsigned reg, uint64_t *v)
{
	uint64_t base;

	switch (how) {
	case ETCH_BP_SAME: *v = f->reg[reg]; return f->known & KNOWN(reg);
	case ETCH_BP_CFA: base = cfa; break;
	case ETCH_BP_RSP: base = f->reg[ETCH_RSP]; break;
	case ETCH_BP_RBP:
		if (!(f->known & KNOWN(ETCH_RBP)))
			return false;
		base = f->reg[ETCH_RBP];
		break;
	default: return false;
	}
	return !sample_read(f->sample, base + (uint64_t)(int64_t)off, v);
}

/* Steps to the caller's frame. */
static bool frame_step(struct frame *f, const struct etch_cfi_row *row)
{
	static const uint8_t saved[6] = {ETCH_RBX, ETCH_R12, ETCH_R13, ETCH_R14, ETCH_R15, ETCH_RBP};
	const struct etch_rule *r = &row->rule;
	uint32_t known = KNOWN(ETCH_RSP) | KNOWN(ETCH_RIP);
	uint64_t cfa, ip, v[6] = {0};

	if (!(f->known & KNOWN(r->cfa & 15)) || (r->cfa & ETCH_CFA_INDEX) || r->ra != ETCH_RA_CFA)
		return false;
	cfa = f->reg[r->cfa & 15] + (uint64_t)(int64_t)r->cfa_off;
	if (r->cfa & ETCH_CFA_DEREF) {
		if (sample_read(f->sample, cfa, &cfa))
			return false;
		cfa += (uint64_t)(int64_t)r->cfa_add;
	}
	if (cfa < 8 || (cfa <= f->reg[ETCH_RSP] && !rule_may_switch(r)) || sample_read(f->sample, cfa - 8, &ip))
		return false;
	for (unsigned i = 0; i < 6; i++) {
		unsigned how = i < 5 ? row->saves.how[i] : r->bp;

		if (saved_read(f, cfa, how, i < 5 ? row->saves.off[i] : r->bp_off, saved[i], &v[i]))
			known |= KNOWN(saved[i]);
	}
	for (unsigned i = 0; i < 6; i++)
		if (known & KNOWN(saved[i]))
			f->reg[saved[i]] = v[i];
	f->reg[ETCH_RSP] = cfa;
	f->reg[ETCH_RIP] = ip;
	f->known = known;
	f->interrupted = false;
	return true;
}

void sample_registers(const struct process *p, const struct binary_list *binaries, const struct sample *s,
                      uint64_t reg[17], uint32_t *known)
{
	struct frame f = {.sample = s, .known = 0x1ffff, .interrupted = true};

	memcpy(f.reg, s->reg, sizeof(f.reg));
	for (unsigned n = 0; n < FRAMES_MOST; n++) {
		uint64_t at = f.reg[ETCH_RIP] - !f.interrupted;
		struct etch_cfi_row row;
		long i = process_find(p, at);

		if (n && f.reg[ETCH_RSP] == reg[ETCH_RSP] && f.reg[ETCH_RIP] == reg[ETCH_RIP])
			break;
		if (i < 0 || p->binary[i] == BINARY_UNKNOWN ||
		    !row_find(binaries->list[p->binary[i]], at - p->target[i].bias, &row) || !frame_step(&f, &row))
			return;
	}
	for (unsigned i = ETCH_RAX; i <= ETCH_R15; i++)
		if (i != ETCH_RSP && (f.known & KNOWN(i)) && !(*known & KNOWN(i))) {
			reg[i] = f.reg[i];
			*known |= KNOWN(i);
		}
}
