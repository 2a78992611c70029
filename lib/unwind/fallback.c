/* SPDX-License-Identifier: MIT */
/*
 * fallback.c: finds the rule of a frame whose code no table covers, for walks that ask for it
 * (cursor.without_tables). It comes from .eh_frame, which is read at each step; that is slower than a table, and as
 * correct.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc, no lock, no
 * thread-local storage, no libc. Do not introduce any dependency there.
 */
#include "unwind/cursor.h"
#include "unwind/eh_view.h"
#include "unwind/cfi_map.h"
#include "unwind/plain_frames.h"
#include "unwind/recover.h"
#include "unwind/table_cache.h"

/* The offset of the interrupted rsp from rsp in the restorer: struct ucontext begins there (asm-generic/ucontext.h,
 * asm/sigcontext.h). */
#define RESTORER_RSP 160

/*
 * Is this the code that a signal handler returns to: mov $__NR_rt_sigreturn,%rax; syscall? The kernel's ABI requires
 * nothing else of it; musl's restorer has no .eh_frame, and gdb and libgcc recognize it by these bytes.
 */
NO_ASAN static int is_restorer(uint64_t ip)
{
	static const uint8_t restorer[9] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	uint8_t code[sizeof(restorer)];

	return !memory_copy(code, ip, sizeof(code)) && !memcmp(code, restorer, sizeof(code));
}

/*
 * The rule of code that nothing describes, such as a JIT's: rbp is assumed to point to the caller's rbp, which the
 * return address follows. This is a guess (an interrupted function may not have set rbp yet, and then its caller is
 * left out), so it is made only where the program asked for it, and outside all modules.
 */
NO_ASAN static int frame_pointer_rule(struct cursor *c, struct etch_rule *r)
{
	uint64_t bp = c->reg[ETCH_RBP], next, ip;
	struct prepare_image im;
	struct window w;

	if (!(c->known & KNOWN(ETCH_RBP)) || (bp & 7) || bp < c->reg[ETCH_RSP] ||
	    loaded_image(c->reg[ETCH_RIP] - !c->interrupted, &im) || stack_window(bp, &w) || stack_window(bp + 8, &w) ||
	    memory_read(bp, &next) || memory_read(bp + 8, &ip))
		return ETCH_UNWIND_NOTABLE;
	/* The caller is either another such frame, or code that does not use rbp in this way. */
	if (next <= bp && !loaded_image(ip - 1, &im))
		return ETCH_UNWIND_NOTABLE;
	*r = (struct etch_rule){
		.cfa_off = 16, .cfa = ETCH_REG_RBP, .bp = ETCH_BP_CFA, .bp_off = -16, .kind = ETCH_RULE_CALL};
	return ETCH_UNWIND_OK;
}

/* ---- rules that have been read ---------------------------------------------------------- */

/* A rule by address. `seq` is odd while the rule is written: a reader or writer that finds it odd does without the
 * rule. */
struct kept_rule {
	uint64_t seq, at, image;
	struct etch_rule rule;
};

#define KEPT (FALLBACK_BYTES / sizeof(struct kept_rule))

static struct kept_rule *kept;

void fallback_keep(void *capacity) { __atomic_store_n(&kept, capacity, __ATOMIC_RELEASE); }

/* The same build-id at the same place means the same file, with the same rules. */
uint64_t fallback_key(const struct prepare_image *im)
{
	struct identity id;
	uint64_t key = im->start, word;

	if (im->end <= im->start)
		return 0;
	if (loaded_is_permanent(im))
		return key;
	memset(id.id, 0, sizeof(id.id));
	id.id_size = 0;
	image_build_id(im, &id);
	if (!id.id_size)
		return 0;
	for (unsigned i = 0; i < sizeof(id.id); i += 8) {
		memcpy(&word, id.id + i, 8);
		key = (key ^ word) * 0x9e3779b97f4a7c15u;
		key ^= key >> 32;
	}
	return key | 1;
}

/* The place of the rule of this address; null if no rules are kept. */
static struct kept_rule *kept_slot(uint64_t at)
{
	struct kept_rule *list = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);

	return list ? &list[(at * 0x9e3779b97f4a7c15u >> 32) * KEPT >> 32] : NULL;
}

/* Reads a kept rule. Returns false if it is that of another address or another module, or is being written. */
static bool kept_find(const struct kept_rule *k, uint64_t at, uint64_t image, struct etch_rule *r)
{
	uint64_t seq = __atomic_load_n(&k->seq, __ATOMIC_ACQUIRE);
	bool same = k->at == at && k->image == image && !(seq & 1);

	*r = k->rule;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return same && __atomic_load_n(&k->seq, __ATOMIC_RELAXED) == seq;
}

/* Keeps a rule, unless another thread is writing to the same place. */
static void kept_set(struct kept_rule *k, uint64_t at, uint64_t image, const struct etch_rule *r)
{
	uint64_t seq = __atomic_load_n(&k->seq, __ATOMIC_RELAXED);

	if ((seq & 1) || !__atomic_compare_exchange_n(&k->seq, &seq, seq + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	k->at = at;
	k->image = image;
	k->rule = *r;
	__atomic_store_n(&k->seq, seq + 2, __ATOMIC_RELEASE);
}

/* The absence of a rule is kept, too, as a rule of kind UNDEF. */
bool fallback_rule(const struct prepare_image *im, uint64_t key, uint64_t at, struct etch_rule *r)
{
	bool inside = at - im->start < im->end - im->start; /* code that a JIT registers comes and goes */
	struct kept_rule *k = key && inside ? kept_slot(at) : NULL;
	int found;

	if (k && kept_find(k, at, key, r))
		return r->kind != ETCH_RULE_UNDEF;
	found = recover_rule(im, at, r);
	if (found <= 0)
		*r = (struct etch_rule){.kind = ETCH_RULE_UNDEF};
	if (k && found >= 0)
		kept_set(k, at, key, r);
	return r->kind != ETCH_RULE_UNDEF;
}

NO_ASAN int fallback_move(const struct window *w, struct frame *f, const struct etch_rule *r)
{
	uint64_t cfa = (r->cfa == ETCH_REG_RBP ? slot_load(f) : f->sp) + (uint64_t)(int64_t)r->cfa_off;
	uint64_t bp_at = cfa + (uint64_t)(int64_t)r->bp_off;

	if (r->kind != ETCH_RULE_CALL || r->ra != ETCH_RA_CFA || (r->cfa != ETCH_REG_RBP && r->cfa != ETCH_REG_RSP) ||
	    cfa - 8 < f->sp || !window_has(w, cfa - 8))
		return 0;
	if (r->bp == ETCH_BP_CFA && window_has(w, bp_at))
		f->slot = (const word *)(uintptr_t)bp_at;
	else if (r->bp != ETCH_BP_SAME)
		return 0;
	f->ip = memory_load(cfa - 8);
	f->sp = cfa;
	return 1;
}

NO_ASAN void **kept_frames(struct cursor *c, struct frame *f, void **out, void **end)
{
	struct etch_rule r;

	if (!c->bare_key)
		return out;

	while (out < end && f->ip - 1 - c->bare.start < c->bare.end - c->bare.start) {
		uint64_t at = f->ip - 1;
		const struct kept_rule *k = kept_slot(at);

		if (!k || !kept_find(k, at, c->bare_key, &r) || !fallback_move(&c->window, f, &r))
			break;
		if (!c->untabled)
			c->untabled = at + 1;
		*out++ = (void *)(uintptr_t)f->ip;
	}
	return out;
}

int cursor_fallback(struct cursor *c, const struct unwind_module *m, struct etch_rule *r)
{
	const struct prepare_image *im = m ? &m->in_place->im : &c->bare;
	uint64_t ip = c->reg[ETCH_RIP], key = m ? m->in_place->key : c->bare_key;

	if (c->target)
		return ETCH_UNWIND_NOTABLE;
	if (!m && !c->untabled)
		c->untabled = ip;
	if (m && m->in_place->map && !c->interrupted)
		in_place_meet(m, ip);
	if (fallback_rule(im, key, ip - !c->interrupted, r))
		return ETCH_UNWIND_OK;
	/* The return address may be the first address of a function: that of a context of makecontext, a thread, or a
	 * restorer. */
	if (!c->interrupted && fallback_rule(im, key, ip, r)) {
		if (r->kind != ETCH_RULE_CALL)
			return ETCH_UNWIND_OK;
		if (ip - im->start < im->end - im->start && eh_view_discards_stack(im, ip - im->bias)) {
			*r = (struct etch_rule){.kind = ETCH_RULE_END};
			return ETCH_UNWIND_OK;
		}
	}
	if (is_restorer(ip)) {
		*r =
			(struct etch_rule){.cfa_off = RESTORER_RSP, .cfa = ETCH_REG_RSP | ETCH_CFA_DEREF, .kind = ETCH_RULE_SIGNAL};
		return ETCH_UNWIND_OK;
	}
	if ((c->without_tables & CURSOR_FRAME_POINTERS) && !(c->interrupted && cursor_in_no_code(c)))
		return frame_pointer_rule(c, r);
	return ETCH_UNWIND_NOTABLE;
}
