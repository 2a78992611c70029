/* SPDX-License-Identifier: MIT */
#include "code/haskell.h"

#include "arch/x86/haskell.h"
#include "code/flow_parts.h"
#include "code/work.h"

#include <stdio.h>
#include <string.h>

/* ---- which files ------------------------------------------------------------------------ */

/* libHSbase-4.15.1.0-ghc9.0.2.so, libHSrts_thr-ghc9.0.2.so: which release? False: it is none of GHC's. */
static bool release_of(const char *name, unsigned *major, unsigned *minor)
{
	const char *at = strncmp(name, "libHS", 5) ? NULL : strstr(name, "-ghc");

	return at && sscanf(at, "-ghc%3u.%3u.", major, minor) == 2;
}

/* A name is among those that count: all have to say the same. */
static void name_take(struct haskell *h, const char *name)
{
	struct etch_rule rule;
	unsigned major, minor;

	if (!release_of(name, &major, &minor))
		return;
	if (haskell_convention(major, minor, &rule) && (h->rule.kind == ETCH_RULE_UNDEF || !memcmp(&h->rule, &rule, sizeof(rule))))
		h->rule = rule;
	else
		h->differ = true;
}

/* The strings of the dynamic segment; their size, 0: there are none. */
static size_t strings_of(const struct elf_file *f, const char **out)
{
	uint64_t at, size;

	if (!elf_dynamic(f, DT_STRTAB, &at) || !elf_dynamic(f, DT_STRSZ, &size) || !size)
		return 0;
	*out = (const char *)elf_at(f, at, size);
	return *out && !(*out)[size - 1] ? (size_t)size : 0;
}

void haskell_open(struct work *w)
{
	const struct elf_file *f = w->file;
	const char *strings = NULL;
	size_t size = elf_is_object(f) ? 0 : strings_of(f, &strings);
	uint32_t i;

	for (i = 0; size && i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];
		const uint8_t *bytes = p->p_type == PT_DYNAMIC ? elf_at(f, p->p_vaddr, p->p_filesz) : NULL;
		uint64_t at;
		Elf64_Dyn d = {.d_tag = 1};

		for (at = 0; bytes && d.d_tag != DT_NULL && at + sizeof(d) <= p->p_filesz; at += sizeof(d)) {
			memcpy(&d, bytes + at, sizeof(d));
			if ((d.d_tag == DT_NEEDED || d.d_tag == DT_SONAME) && d.d_un.d_val < size)
				name_take(&w->haskell, strings + d.d_un.d_val);
		}
	}
	if (w->haskell.differ)
		w->haskell = (struct haskell){0};
	w->env.haskell = w->haskell.rule.kind != ETCH_RULE_UNDEF;
}

bool haskell_is_run(const struct step *in, const struct state *s, struct etch_rule *out)
{
	const struct value *code, *base = &s->reg[HASKELL_BASE];

	if (in->deref || in->a >= 16)
		return false;
	code = &s->reg[in->a];
	if (code->kind != VALUE_ENTRY || code->reg != HASKELL_RUN_CODE || base->kind != VALUE_ENTRY ||
	    base->reg != HASKELL_RUN_REGISTERS)
		return false;
	state_rule(s, out);
	/* By rsp alone: rbp is what code of GHC keeps its frames by. */
	return out->kind == ETCH_RULE_CALL && (out->cfa & ~ETCH_CFA_DEREF) == ETCH_REG_RSP && out->cfa_off > HASKELL_RESERVED &&
	       out->ra == ETCH_RA_CFA && (out->bp == ETCH_BP_CFA || out->bp == ETCH_BP_RSP);
}

void haskell_take(struct haskell *h, const struct etch_rule *run)
{
	h->differ |= h->run && memcmp(&h->rule, run, sizeof(*run));
	h->rule = *run;
	h->run = true;
}

bool haskell_may_be(const struct piece *p) { return p->fde < 0 && !p->plt && !p->go && !p->outermost; }

void haskell_decide(struct work *w)
{
	bool is = w->haskell.rule.kind != ETCH_RULE_UNDEF && !w->haskell.differ;
	size_t i;

	if (is == w->env.haskell)
		return;
	w->env.haskell = is;
	for (i = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];

		if (!haskell_may_be(&w->pieces.list[i]))
			continue;
		if (s->dubious) {
			s->fragment = s->dubious = false;
			s->extended = s->held = 0;
		}
		s->run |= RUN_NEWS;
	}
}

/* ---- which code ------------------------------------------------------------------------- */

bool haskell_begins(const struct flow_env *env, uint64_t addr)
{
	const struct code_section *c = env->haskell ? space_at(env->space, addr) : NULL;

	return c && haskell_is_entry(c->bytes + (addr - c->addr), addr, addr - c->addr);
}

bool haskell_follow(struct flow *f)
{
	bool some = false;
	struct state entry;

	state_entry(&entry);
	for (; f->haskell && f->followed < f->step_count && !f->failed; f->followed++) {
		const struct step *in = &f->steps[f->followed];
		uint64_t to = (uint64_t)in->imm, off = to - f->piece->start;

		if (!(f->seen[f->followed] & FLOW_WALKED) || in->flow != FLOW_NEXT || !flow_inside(f, to) ||
		    !flow_takes_address(f, in) || flow_walked(f, off) || !haskell_begins(f->env, to))
			continue;
		flow_enter(f, to, &entry);
		flow_walk(f);
		some = true;
	}
	return some && !f->failed;
}

bool haskell_switches(const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->step_count; i++) {
		const struct step *in = &f->steps[i];

		if ((f->seen[i] & FLOW_WALKED) && in->flow == FLOW_JUMP_IND && (!in->deref || in->index != INSN_NO_REG) &&
		    !(in->number && f->jumps[in->number - 1].entries))
			return true;
	}
	return false;
}

/* Goes on from where it was when it was asked last, as jumps_agree() does. */
bool haskell_agree(struct flow *f, struct state *out)
{
	struct flow_agreed *a = &f->agreed;
	unsigned r;

	state_entry(out);
	for (r = 0; r < 16; r++)
		if (r != ETCH_REG_RSP)
			out->reg[r] = (struct value){0};
	out->known = 1u << ETCH_REG_RSP;
	for (; a->upto < f->jump_count; a->upto++)
		a->differ |= memcmp(&f->jumps[a->upto].state.reg[ETCH_REG_RSP], &out->reg[ETCH_REG_RSP], sizeof(struct value)) != 0;
	return !a->differ;
}

uint64_t haskell_table(const struct flow *f, uint64_t off)
{
	uint64_t size = f->piece->end - f->piece->start, k;

	for (k = HASKELL_TABLE_LEAST; off % 8 == 0 && k <= HASKELL_TABLE_MOST && off + k < size; k += 8)
		if (flow_walked(f, off + k) && haskell_begins(f->env, f->piece->start + off + k))
			return k;
	return 0;
}

/* ---- rows ---------------------------------------------------------------------------------- */

/*
 * The analysis takes such code for a function of C's, of which the return address is at rsp where it begins. How
 * far rsp is from there is all that counts of it.
 */
static void rule_convert(const struct etch_rule *run, struct etch_rule *r)
{
	int32_t down = r->cfa_off - 8;
	bool known = r->kind == ETCH_RULE_CALL && r->cfa == ETCH_REG_RSP && down >= 0 && down <= HASKELL_RESERVED;

	*r = known ? *run : (struct etch_rule){0};
	if (!known)
		return;
	r->cfa_off += down;
	if (r->bp == ETCH_BP_RSP)
		r->bp_off += down;
}

static void piece_convert(const struct etch_rule *run, struct piece_state *s, uint64_t end)
{
	struct piece_rows *r = &s->rows;
	uint32_t i;

	r->undefined = 0;
	for (i = 0; i < r->count; i++) {
		rule_convert(run, &r->rows[i].rule);
		if (r->rows[i].rule.kind == ETCH_RULE_UNDEF)
			r->undefined += (i + 1 < r->count ? r->rows[i + 1].addr : end) - r->rows[i].addr;
	}
}

/* Such code is never called, and never returns as C does. */
static bool is_c(const struct work *w, size_t i) { return w->state[i].returned || (w->ways[i] & WAY_CALLED); }

/* What hands its call on to C is C, as crt's frame_dummy. */
static void tails_settle(struct work *w)
{
	size_t i;

	for (i = 0; i < w->tails.count; i++) {
		const struct link *x = &w->tails.list[i];

		if (x->kind == EXIT_TAIL && x->start && !x->outside && !w->state[x->from].foreign &&
		    (w->pieces.list[x->to].fde >= 0 || (!w->state[x->to].foreign && is_c(w, x->to))))
			w->state[x->from].returned = true;
	}
}

bool haskell_rows(struct work *w)
{
	size_t i;

	if (!w->env.haskell)
		return true;
	if (!ways_find(w))
		return false;
	tails_settle(w);
	for (i = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];

		if (!haskell_may_be(&w->pieces.list[i]) || (!s->foreign && is_c(w, i)))
			continue;
		if (s->foreign && !is_c(w, i)) {
			piece_convert(&w->haskell.rule, s, w->pieces.list[i].end);
			s->foreign = false;
		} else {
			s->foreign = true; /* it may be either: no rows */
		}
	}
	return true;
}
