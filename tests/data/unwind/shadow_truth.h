/* SPDX-License-Identifier: MIT */
/*
 * Truth for unwinding, from watching a program execute one instruction after the
 * other: a shadow stack with, for each call, where it will return to, what rsp
 * was before it (the CFA of the called function) and what rbp was. Beside it, an
 * unwinder of a few lines over rows that tests/analysis/rows.py wrote, and the
 * comparison of the two. tests/data/unwind/step.c watches over ptrace, and
 * tests/data/unwind/shadow.c from inside, by the trap flag. Nothing here needs libc
 * but memcpy, memset and snprintf.
 */
#ifndef SHADOW_TRUTH_H
#define SHADOW_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <etch/orc.h>

/* ---- what both sides give ---------------------------------------------------- */

struct regs {
	uint64_t r[16]; /* by encoding: rax rcx rdx rbx rsp rbp rsi rdi r8-r15 */
	uint64_t rip;
};
#define RAX 0
#define RSP 4
#define RBP 5

/* Rows of one file, sorted; the last one is UNDEF. */
struct file_row {
	uint64_t addr;
	struct etch_rule rule;
};

struct module {
	uint64_t lo, hi, bias; /* the executable mapping, and what to take off an address */
	const struct file_row *rows;
	size_t count;
	char name[160];
};

enum frame_kind { FRAME_CALL, FRAME_SIGNAL };

#define KEPT 5
static const uint8_t kept_reg[KEPT] = { 3, 12, 13, 14, 15 };

struct frame {
	uint64_t cfa;  /* rsp of the caller before the call; SIGNAL: rsp of what was interrupted */
	uint64_t ret;  /* where it will return to; SIGNAL: rip of what was interrupted */
	uint64_t rbp;  /* of the caller */
	uint64_t at;   /* SIGNAL: rsp at the first instruction of the handler */
	uint8_t kind;
	uint8_t alt;   /* SIGNAL: the handler runs on another stack */
	uint8_t pad;   /* ret is a landing pad that eh_return put there, after no call */
	uint8_t judged; /* `kept` was seen */
	uint64_t kept[KEPT]; /* rbx, r12 to r15 of the caller */
};

/* What a frame is compared in; also the index of a count. */
enum what {
	WHAT_CFA, WHAT_RA, WHAT_RBP, WHAT_SIGNAL, WHAT_EARLY_END, WHAT_NO_END, WHAT_REG, WHAT_MEMORY, WHAT_UNDEF,
	WHAT_NO_TABLE, WHAT_LIB, WHAT_COUNT
};
static const char *const what_name[] = { "cfa", "ra", "rbp", "signal", "early-end", "no-end", "register", "memory",
	                                 "undef", "no-table", "libetch" };

struct trouble {
	uint64_t addr;   /* of the row, link time */
	uint64_t ip;     /* link time */
	uint64_t got, want, count, step;
	const struct module *m;
	int what, frame;
	struct etch_rule rule;
};

#define MAX_DEPTH 65536
#define MAX_TROUBLE 4096
#define MAX_MODULE 256
#define ROW_CACHE 8192

struct truth {
	struct module modules[MAX_MODULE];
	int module_count;
	struct frame frames[MAX_DEPTH];
	int depth;
	int seeded; /* this many outermost frames came from another unwinder, not from watching */
	struct regs prev;
	int insn; /* of the instruction at prev.rip */
	bool started;
	/* Reads one word of the program's memory; false when there is none. */
	bool (*word)(void *ctx, uint64_t addr, uint64_t *out);
	bool (*code)(void *ctx, uint64_t addr, uint8_t out[16]);
	/* Called when rip is in no module; may add one. */
	void (*unknown)(void *ctx, uint64_t addr);
	/* Another unwinder, which compares what it finds with `frames`; or null. */
	void (*library)(void *ctx, const struct regs *r);
	void *ctx;
	/* counts */
	uint64_t steps, walked, checked, calls, signals, eh_returns, odd_returns, tails, deepest, root_no_end;
	uint64_t injected, library_frames;
	uint64_t library_values, library_unknown; /* registers of `kept` that it found in these, and those that it could not */
	uint64_t counts[WHAT_COUNT];
	int ended; /* why the last walk over the rows ended early, or -1 */
	struct trouble trouble[MAX_TROUBLE];
	int trouble_count;
	struct {
		uint64_t ip;
		const struct file_row *row;
		const struct module *m;
	} cache[ROW_CACHE];
	uint64_t rewritten; /* walks that met a return address that the program has changed */
};

/* ---- instructions --------------------------------------------------------------- */

enum insn { INSN_OTHER, INSN_CALL, INSN_JUMP, INSN_RET, INSN_SYSCALL };

/* As much of decoding as a shadow stack needs (SDM volume 2, chapter 2). */
static int insn_kind(const uint8_t b[16])
{
	int i = 0;

	while (i < 14 && (b[i] == 0x66 || b[i] == 0x67 || b[i] == 0xf2 || b[i] == 0xf3 || b[i] == 0x2e || b[i] == 0x36 ||
	                  b[i] == 0x3e || b[i] == 0x26 || b[i] == 0x64 || b[i] == 0x65))
		i++;
	if ((b[i] & 0xf0) == 0x40)
		i++;
	switch (b[i]) {
	case 0xe8: return INSN_CALL;
	case 0xe9: case 0xeb: return INSN_JUMP;
	case 0xc2: case 0xc3: case 0xcf: return INSN_RET;
	case 0x0f: return b[i + 1] == 0x05 ? INSN_SYSCALL : INSN_OTHER;
	case 0xff:
		switch (b[i + 1] >> 3 & 7) {
		case 2: case 3: return INSN_CALL;
		case 4: case 5: return INSN_JUMP;
		}
	}
	return INSN_OTHER;
}

/* ---- rows ------------------------------------------------------------------------ */

static const struct module *module_at(struct truth *t, uint64_t ip)
{
	for (int i = 0; i < t->module_count; i++)
		if (ip - t->modules[i].lo < t->modules[i].hi - t->modules[i].lo)
			return &t->modules[i];
	return NULL;
}

static const struct file_row *row_find(const struct module *m, uint64_t addr)
{
	size_t lo = 0, hi = m->count;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (m->rows[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &m->rows[lo - 1] : NULL;
}

static const struct file_row *row_at(struct truth *t, uint64_t ip, const struct module **m)
{
	size_t slot = (ip * 0x9e3779b97f4a7c15u) >> 51;

	if (t->cache[slot].ip == ip && t->cache[slot].m) {
		*m = t->cache[slot].m;
		return t->cache[slot].row;
	}
	*m = module_at(t, ip);
	if (!*m && t->unknown) {
		t->unknown(t->ctx, ip);
		*m = module_at(t, ip);
	}
	if (!*m)
		return NULL;
	t->cache[slot].ip = ip;
	t->cache[slot].m = *m;
	t->cache[slot].row = row_find(*m, ip - (*m)->bias);
	return t->cache[slot].row;
}

/* ---- trouble ----------------------------------------------------------------------- */

static void trouble_add(struct truth *t, int what, int frame, uint64_t ip, const struct module *m,
                        const struct file_row *row, uint64_t got, uint64_t want)
{
	uint64_t addr = row ? row->addr : ip;

	t->counts[what]++;
	t->ended = what;
	for (int i = 0; i < t->trouble_count; i++)
		if (t->trouble[i].addr == addr && t->trouble[i].what == what && t->trouble[i].m == m) {
			t->trouble[i].count++;
			return;
		}
	if (t->trouble_count == MAX_TROUBLE)
		return;
	t->trouble[t->trouble_count++] = (struct trouble){
		.addr = addr, .ip = m ? ip - m->bias : ip, .got = got, .want = want, .count = 1, .step = t->steps, .m = m,
		.what = what, .frame = frame, .rule = row ? row->rule : (struct etch_rule){ 0 },
	};
}

/* ---- the unwinder ------------------------------------------------------------------- */

/*
 * From these registers out to the end, each frame against the shadow stack. Stops at the
 * first difference of a walk. An undefined row ends a walk and is counted.
 */
static void truth_walk(struct truth *t, const struct regs *now)
{
	uint64_t ip = now->rip, rsp = now->r[RSP], rbp = now->r[RBP];
	bool exact = true; /* ip is an address executed, not one returned to */
	bool all = true;   /* every register is known: frame 0, and after signal frames */
	struct regs inner = *now;

	t->walked++;
	t->ended = -1;
	for (int i = 0, k = t->depth - 1;; i++, k--) {
		const struct module *m;
		uint64_t at = exact ? ip : ip - 1;
		const struct file_row *row = row_at(t, at, &m);
		const struct frame *f = k >= 0 ? &t->frames[k] : NULL;
		uint64_t cfa, ra, bp = rbp;
		const struct etch_rule *r;

		if (!m) {
			trouble_add(t, WHAT_NO_TABLE, i, at, NULL, NULL, 0, 0);
			return;
		}
		if (!row || row->rule.kind == ETCH_RULE_UNDEF) {
			if (f)
				trouble_add(t, WHAT_UNDEF, i, at, m, row, 0, 0);
			else
				t->root_no_end++;
			return;
		}
		r = &row->rule;
		if (r->kind == ETCH_RULE_END) {
			if (f)
				trouble_add(t, WHAT_EARLY_END, i, at, m, row, 0, f->ret);
			return;
		}
		if (!f) {
			trouble_add(t, WHAT_NO_END, i, at, m, row, 0, 0);
			return;
		}
		if ((r->kind == ETCH_RULE_SIGNAL) != (f->kind == FRAME_SIGNAL)) {
			trouble_add(t, WHAT_SIGNAL, i, at, m, row, r->kind, f->kind);
			return;
		}
		if (r->kind == ETCH_RULE_SIGNAL) {
			/* struct sigcontext: r8-r15 rdi rsi rbp rbx rdx rax rcx rsp rip */
			static const uint8_t place[16] = { 13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7 };
			uint64_t context = rsp + (uint64_t)(int64_t)r->cfa_off - 15 * 8;

			for (int n = 0; n < 16; n++)
				if (!t->word(t->ctx, context + 8u * place[n], &inner.r[n]))
					goto memory;
			if (!t->word(t->ctx, context + 16 * 8, &ra))
				goto memory;
			if (inner.r[RSP] != f->cfa || ra != f->ret || inner.r[RBP] != f->rbp) {
				trouble_add(t, WHAT_SIGNAL, i, at, m, row, ra, f->ret);
				return;
			}
			ip = ra;
			rsp = inner.r[RSP];
			rbp = inner.r[RBP];
			exact = all = true;
			t->checked++;
			continue;
		}
		if ((r->cfa & 15) == RSP)
			cfa = rsp;
		else if ((r->cfa & 15) == RBP)
			cfa = rbp;
		else if (all)
			cfa = inner.r[r->cfa & 15];
		else {
			trouble_add(t, WHAT_REG, i, at, m, row, r->cfa, 0);
			return;
		}
		if (r->cfa & ETCH_CFA_INDEX)
			cfa = rsp + 8 * cfa;
		cfa += (uint64_t)(int64_t)r->cfa_off;
		if (r->cfa & ETCH_CFA_DEREF) {
			if (!t->word(t->ctx, cfa, &cfa))
				goto memory;
			cfa += (uint64_t)(int64_t)r->cfa_add;
		}
		if (cfa != f->cfa) {
			trouble_add(t, WHAT_CFA, i, at, m, row, cfa, f->cfa);
			return;
		}
		if (r->ra & ETCH_RA_REG) {
			if (!all) {
				trouble_add(t, WHAT_REG, i, at, m, row, r->ra, 0);
				return;
			}
			ra = inner.r[r->ra & 15];
		} else if (!t->word(t->ctx, cfa + (r->ra == ETCH_RA_SLOT ? (uint64_t)(int64_t)r->cfa_add : (uint64_t)-8), &ra)) {
			goto memory;
		}
		if (ra != f->ret && r->ra == ETCH_RA_CFA) {
			/* The CFA is right and its return address is another: the program has changed it
			 * (_Unwind_RaiseException installs a landing pad). The chain ends for this step. */
			t->rewritten++;
			return;
		}
		if (ra != f->ret) {
			trouble_add(t, WHAT_RA, i, at, m, row, ra, f->ret);
			return;
		}
		switch (r->bp) {
		case ETCH_BP_SAME:
			break;
		case ETCH_BP_CFA:
			if (!t->word(t->ctx, cfa + (uint64_t)(int64_t)r->bp_off, &bp))
				goto memory;
			break;
		case ETCH_BP_RBP:
			if (!t->word(t->ctx, rbp + (uint64_t)(int64_t)r->bp_off, &bp))
				goto memory;
			break;
		case ETCH_BP_RSP:
			if (!t->word(t->ctx, rsp + (uint64_t)(int64_t)r->bp_off, &bp))
				goto memory;
			break;
		default:
			trouble_add(t, WHAT_RBP, i, at, m, row, 0, f->rbp);
			return;
		}
		if (bp != f->rbp) {
			trouble_add(t, WHAT_RBP, i, at, m, row, bp, f->rbp);
			return;
		}
		t->checked++;
		if (f->pad) { /* ret - 1 means nothing, for any unwinder */
			t->rewritten++;
			return;
		}
		ip = ra;
		rsp = cfa;
		rbp = bp;
		exact = all = false;
		continue;
memory:
		trouble_add(t, WHAT_MEMORY, i, at, m, row, 0, 0);
		return;
	}
}

/* ---- the shadow stack ---------------------------------------------------------------- */

static void frame_push(struct truth *t, struct frame f)
{
	if (t->depth < MAX_DEPTH)
		t->frames[t->depth++] = f;
	if ((uint64_t)t->depth > t->deepest)
		t->deepest = (uint64_t)t->depth;
}

/* The same, made by an instruction before which the registers were these. */
static void frame_push_kept(struct truth *t, struct frame f, const struct regs *r)
{
	for (int i = 0; i < KEPT; i++)
		f.kept[i] = r->r[kept_reg[i]];
	f.judged = 1;
	frame_push(t, f);
}

/* Whether rsp has left the frames above a signal frame without rt_sigreturn. */
static bool signal_left(const struct frame *f, uint64_t rsp)
{
	if (!f->alt)
		return rsp > f->at + 8;
	return rsp > f->at + (64 << 10) || rsp < f->at - (1 << 20);
}

/*
 * Brings the shadow stack from the state before an instruction to the one after it.
 * A frame is gone when rsp is at or above its CFA after a jump or return (ret, a
 * longjmp, a landing pad); an instruction that is neither must move rsp beyond the CFA
 * (the `mov %rcx,%rsp` of __builtin_eh_return), since `pop %rdi` of vfork does not return.
 */
static void truth_advance(struct truth *t, const struct regs *now, bool handler)
{
	const struct regs *p = &t->prev;
	uint64_t from = p->rip, word;
	int insn = t->insn;
	bool branch, popped = false;
	uint8_t code[16];

	if (handler) {
		uint64_t frame = now->r[RSP];
		bool alt = !(p->r[RSP] > frame && p->r[RSP] - frame < (32 << 10));

		if (!t->word(t->ctx, frame, &word))
			word = 0;
		t->signals++;
		frame_push_kept(t, (struct frame){ .cfa = p->r[RSP], .ret = p->rip, .rbp = p->r[RBP], .at = frame,
		                                   .kind = FRAME_SIGNAL, .alt = alt }, p);
		frame_push_kept(t, (struct frame){ .cfa = frame + 8, .ret = word, .rbp = now->r[RBP], .kind = FRAME_CALL }, now);
		return;
	}
	if (insn == INSN_SYSCALL && p->r[RAX] == 15 && t->depth && t->frames[t->depth - 1].kind == FRAME_SIGNAL) {
		t->depth--;
		return;
	}
	if (insn == INSN_SYSCALL && now->rip != from + 2 && t->code(t->ctx, from + 2, code)) {
		/* Under the trap flag the kernel lets one more instruction run after a system call. */
		from += 2;
		insn = insn_kind(code);
	}
	if (insn == INSN_CALL && now->r[RSP] == p->r[RSP] - 8 && t->word(t->ctx, now->r[RSP], &word) && word - from >= 2 &&
	    word - from <= 15) {
		t->calls++;
		frame_push_kept(t, (struct frame){ .cfa = p->r[RSP], .ret = word, .rbp = p->r[RBP], .kind = FRAME_CALL }, p);
		return;
	}
	branch = insn != INSN_OTHER;
	for (;;) {
		struct frame *f = t->depth ? &t->frames[t->depth - 1] : NULL;
		int s;

		/* On another stack than the frames below: only its own may be compared with rsp. */
		for (s = t->depth - 1; s >= 0 && t->frames[s].kind != FRAME_SIGNAL; s--)
			;
		if (s >= 0 && t->frames[s].alt && signal_left(&t->frames[s], now->r[RSP])) {
			t->depth = s;
			popped = true;
			continue;
		}
		if (!f)
			break;
		if (f->kind == FRAME_SIGNAL) {
			if (!signal_left(f, now->r[RSP]))
				break;
		} else if (!(f->cfa < now->r[RSP] || (f->cfa == now->r[RSP] && branch))) {
			break;
		}
		if (insn == INSN_RET && !popped && f->ret != now->rip)
			t->odd_returns++;
		t->depth--;
		popped = true;
	}
	if (popped && insn == INSN_OTHER && t->depth) {
		/* eh_return has put the landing pad where the return address was. */
		struct frame *f = &t->frames[t->depth - 1];

		t->eh_returns++;
		if (f->kind == FRAME_CALL && t->word(t->ctx, f->cfa - 8, &word)) {
			f->ret = word;
			f->pad = 1;
		}
	}
}

#if defined(SHADOW_ETCH) || defined(STEP_ETCH)
#include <etch/unwind.h>

/* Holds what a cursor finds of rbx and r12 to r15 in the frame of *f's caller against what was there before the call.
 * Returns the register that is wrong, or -1. */
static int kept_wrong(struct truth *t, struct etch_cursor *c, const struct frame *f, uint64_t *got)
{
	for (int i = 0; i < KEPT && f->judged; i++) {
		if (etch_find_reg(c, kept_reg[i], got)) {
			t->library_unknown++;
			continue;
		}
		t->library_values++;
		if (*got != f->kept[i])
			return i;
	}
	return -1;
}
#endif

/* One instruction was executed, or (handler) a signal was delivered. */
static void truth_step(struct truth *t, const struct regs *now, bool handler)
{
	uint8_t code[16];

	if (t->started)
		truth_advance(t, now, handler);
	t->started = true;
	t->steps++;
	truth_walk(t, now);
	if (t->library)
		t->library(t->ctx, now);
	t->prev = *now;
	t->insn = t->code(t->ctx, now->rip, code) ? insn_kind(code) : INSN_OTHER;
}

/* ---- a report that tests/analysis/dynamic.py reads --------------------------------------- */

static int truth_print(const struct truth *t, char *out, size_t size)
{
	int n = snprintf(out, size,
	                 "steps %lu\nwalked %lu\nchecked %lu\ncalls %lu\nsignals %lu\ninjected %lu\neh_returns %lu\n"
	                 "odd_returns %lu\ndeepest %lu\nroot_no_end %lu\nmodules %d\nlibrary_frames %lu\n"
	                 "library_values %lu\nlibrary_unknown %lu\nrewritten %lu\n",
	                 t->steps, t->walked, t->checked, t->calls, t->signals, t->injected, t->eh_returns, t->odd_returns,
	                 t->deepest, t->root_no_end, t->module_count, t->library_frames,
	                 t->library_values, t->library_unknown, t->rewritten);

	for (int i = 0; i < WHAT_COUNT && (size_t)n < size; i++)
		n += snprintf(out + n, size - (size_t)n, "count %s %lu\n", what_name[i], t->counts[i]);
	for (int i = 0; i < t->trouble_count && (size_t)n < size; i++) {
		const struct trouble *x = &t->trouble[i];

		n += snprintf(out + n, size - (size_t)n,
		              "trouble %s %s ip %lx row %lx got %lx want %lx frame %d step %lu count %lu "
		              "cfa %02x%+d%+d bp %d%+d kind %d ra %d\n",
		              what_name[x->what], x->m ? x->m->name : "-", x->ip, x->addr, x->got, x->want, x->frame, x->step,
		              x->count, x->rule.cfa, x->rule.cfa_off, x->rule.cfa_add, x->rule.bp, x->rule.bp_off, x->rule.kind,
		              x->rule.ra);
	}
	return (size_t)n < size ? n : (int)size - 1;
}

#endif
