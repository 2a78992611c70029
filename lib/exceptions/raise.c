/* SPDX-License-Identifier: MIT */
/*
 * raise.c: raises an exception in two phases (Itanium C++ ABI: Exception Handling, 1.3), with a record (records.h)
 * for each return address in place of .eh_frame.
 *
 * The first phase looks for the frame with the handler, and notes the first frame on the way at which the second
 * phase has anything to do. Whatever a record cannot express is handed over to libgcc, which starts from the same
 * frame as this library did. Nothing has changed by then: the first phase changes nothing, and the second, before it
 * lands, has only asked personality routines that had nothing to do.
 *
 * RULES OF THIS FILE. An exception may be thrown in a signal handler: no malloc, no lock.
 */
#include <string.h>

#include "exceptions/against_gcc.h"
#include "exceptions/frame.h"
#include "exceptions/gcc_abi.h"
#include "exceptions/personalities.h"
#include "exceptions/file_places.h"
#include "exceptions/records.h"
#include "exceptions/start.h"
#include "unwind/unwind_internal.h"

/* The loop over the frames has what it does with a frame in it. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* entry_x86.S knows this layout. */
struct entry {
	struct frame came;          /* the caller's registers */
	uint64_t land[FRAME_COUNT]; /* registers, stack pointer and address of the landing pad */
	uint64_t cfa;               /* the frame's stack pointer at its call */
	uint64_t rax, rdx;
};

/* entry_x86.S calls these. */
int exceptions_raise(struct exception *e, struct entry *entry);
int exceptions_resume(struct exception *e, struct entry *entry);
int exceptions_rethrow(struct exception *e, struct entry *entry);

/* What entry_x86.S does with the result of these functions. */
enum {
	LAND = -1,
	HAND_OVER = -2,
	/* The others do not reach entry_x86.S. */
	GO_ON = -3, /* the walk continues with the caller's frame */
	FOUND = -4, /* this is the frame with the handler */
};

struct raise {
	struct exception *e;
	struct entry *entry;
	struct frame frame;
	struct records_view view;
	enum exceptions_mode mode;
	/* The first frame at which the second phase has something to do. */
	struct frame first;
	bool is_first;
	bool is_context; /* `context` has the members that are the same for each frame */
	struct gcc_context context;
};

/* ---- personality routines ------------------------------------------------------------ */

/* Prepares what personality routines get: registers by value, which libgcc's functions accept. */
static void context_begin(struct raise *x)
{
	struct gcc_context *c = &x->context;

	if (x->is_context)
		return;
	memset(c, 0, sizeof(*c));
	memset(c->by_value, 1, sizeof(c->by_value));
	c->flags = GCC_CONTEXT_EXTENDED;
	x->is_context = true;
}

static __attribute__((noinline)) int ask(struct raise *x, const struct record *r, int actions)
{
	personality_fn *fn = (personality_fn *)personality_function(&personalities[r->personality]);
	const uint64_t *reg = x->frame.reg;
	struct gcc_context *c = &x->context;

	context_begin(x);
	c->reg[DWARF_RBX] = reg[FRAME_RBX];
	c->reg[DWARF_RBP] = reg[FRAME_RBP];
	for (unsigned i = 0; i < 4; i++)
		c->reg[DWARF_R12 + i] = reg[FRAME_R12 + i];
	c->reg[DWARF_RSP] = c->cfa = reg[FRAME_RSP];
	c->reg[DWARF_RIP] = c->ra = reg[FRAME_RIP];
	c->lsda = r->flags & RECORD_LSDA ? record_address(r, r->lsda) : 0;
	c->function = record_address(r, r->start);
	c->args_size = r->args_size;
	return fn(1, actions, x->e->class, x->e, c);
}

/* Is the record's personality routine still the one that it was when the record was made? A module that has been loaded
 * again may have been bound to another routine, or another file may be at the routine's address. */
static __attribute__((noinline)) bool same_personality(struct records_view *v, const struct record *r)
{
	const struct personality *p = &personalities[r->personality];

	if (personality_function(p) != p->function)
		return false;
	if (p->module && v->personality != r->personality) {
		if (!place_is(p->module, p->function))
			return false;
		v->personality = r->personality;
	}
	return true;
}

/* What is known about the frame without asking its personality routine. */
static ALWAYS_INLINE enum call_site site_of(struct raise *x, const struct record *r)
{
	if (__builtin_expect(x->mode == EXCEPTIONS_ON && !r->module, 1))
		return r->site;
	if (!r->personality)
		return SITE_NONE;
	if (x->mode != EXCEPTIONS_ON || (r->site != SITE_ASK && !same_personality(&x->view, r)))
		return SITE_ASK;
	return r->site;
}

/* ---- types that do not match --------------------------------------------------------- */

/* The class of the exceptions that g++'s throw makes, in one word: "GNUCC++\0". */
#define CLASS_CXX 0x474e5543432b2b00u

/* struct __cxa_exception ends with the exception, and begins with the address of the type's std::type_info. */
#define CXX_TYPE_OFFSET 80u

/*
 * Returns the type of the exception if it may be remembered which handlers do not match it, that is, if neither the
 * type nor the types of the frame's handlers can be unloaded. Returns 0 otherwise.
 */
static uint64_t type_of(const struct raise *x, const struct record *r)
{
	uint64_t type;

	if (x->e->class != CLASS_CXX || r->module)
		return 0;
	type = stack_load((uint64_t)(uintptr_t)x->e - CXX_TYPE_OFFSET);
	return permanent_at(type) ? type : 0;
}

static bool type_is_known(const struct record *r, uint64_t type)
{
	for (unsigned i = 0; type && i < RECORD_TYPES; i++)
		if (__atomic_load_n(&r->not_type[i], __ATOMIC_RELAXED) == type)
			return true;
	return false;
}

/* Called when the personality routine has said that no handler of the call matches the type. */
static void type_learn(const struct record *r, uint64_t type)
{
	uint64_t *to = (uint64_t *)(uintptr_t)r->not_type, none = 0;

	for (unsigned i = 0; type && i < RECORD_TYPES; i++, none = 0)
		if (__atomic_compare_exchange_n(&to[i], &none, type, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return;
}

static inline bool is_for_types(enum call_site site) { return site == SITE_TYPES || site == SITE_TYPES_CLEANUP; }

static inline bool not_for_types(const struct raise *x, const struct record *r, enum call_site site)
{
	return __builtin_expect(is_for_types(site), 0) && type_is_known(r, type_of(x, r));
}

/* ---- the first phase ------------------------------------------------------------------ */

static void first_note(struct raise *x)
{
	if (!x->is_first)
		x->first = x->frame;
	x->is_first = true;
}

/* Handles one frame in the first phase. */
static ALWAYS_INLINE int search(struct raise *x, const struct record *r)
{
	enum call_site site = site_of(x, r);
	int reason;

	if (__builtin_expect(site == SITE_NONE, 1))
		return GO_ON;
	if (not_for_types(x, r, site))
		site = site == SITE_TYPES ? SITE_NONE : SITE_CLEANUP;
	if (site == SITE_CLEANUP)
		first_note(x);
	if (site <= SITE_CLEANUP)
		return GO_ON;
	reason = ask(x, r, ACTION_SEARCH);
	if (x->mode == EXCEPTIONS_CHECK && !check_search(r, reason, not_for_types(x, r, r->site)))
		return HAND_OVER;
	if (reason == REASON_HANDLER_FOUND) {
		first_note(x);
		x->e->private_1 = 0;
		x->e->private_2 = x->frame.reg[FRAME_RSP];
		return FOUND;
	}
	if (reason != REASON_CONTINUE)
		return HAND_OVER;
	if (is_for_types(r->site))
		type_learn(r, type_of(x, r));
	if (site != SITE_TYPES || !not_for_types(x, r, site))
		first_note(x);
	return GO_ON;
}

/* ---- the second phase ----------------------------------------------------------------- */

/* Prepares the landing in the frame of a record, at `rip` with these two registers. */
static int land(struct raise *x, const struct record *r, uint64_t rip, uint64_t rax, uint64_t rdx)
{
	struct entry *to = x->entry;

	memcpy(to->land, x->frame.reg, sizeof(to->land));
	to->land[FRAME_RSP] = x->frame.reg[FRAME_RSP] + r->args_size;
	to->land[FRAME_RIP] = rip;
	to->cfa = x->frame.reg[FRAME_RSP];
	to->rax = rax;
	to->rdx = rdx;
	return LAND;
}

/* Lands as the frame's personality routine has set the context. */
static int land_by(struct raise *x, const struct record *r)
{
	const struct gcc_context *c = &x->context;

	x->frame.reg[FRAME_RBX] = c->reg[DWARF_RBX];
	x->frame.reg[FRAME_RBP] = c->reg[DWARF_RBP];
	for (unsigned i = 0; i < 4; i++)
		x->frame.reg[FRAME_R12 + i] = c->reg[DWARF_R12 + i];
	return land(x, r, c->ra, c->reg[DWARF_RAX], c->reg[DWARF_RDX]);
}

/* Handles one frame in the second phase. */
static ALWAYS_INLINE int unwind(struct raise *x, const struct record *r)
{
	bool is_handler = x->frame.reg[FRAME_RSP] == x->e->private_2;
	enum call_site site = is_handler ? SITE_ASK : site_of(x, r);
	int reason;

	if (__builtin_expect(site == SITE_NONE, 1))
		return GO_ON;
	if (not_for_types(x, r, site))
		site = site == SITE_TYPES ? SITE_NONE : SITE_CLEANUP;
	if (site == SITE_CLEANUP)
		return land(x, r, record_address(r, r->landing), (uint64_t)(uintptr_t)x->e, 0);
	if (site == SITE_NONE)
		return GO_ON;
	if (!r->personality)
		return HAND_OVER;
	reason = ask(x, r, ACTION_CLEANUP | (is_handler ? ACTION_HANDLER_FRAME : 0));
	if (x->mode == EXCEPTIONS_CHECK && !is_handler &&
	    !check_cleanup(r, reason, &x->context, not_for_types(x, r, r->site)))
		return HAND_OVER;
	if (reason == REASON_INSTALL_CONTEXT)
		return land_by(x, r);
	return reason == REASON_CONTINUE && !is_handler ? GO_ON : HAND_OVER;
}

/* ---- frame by frame ------------------------------------------------------------------- */

typedef int step_fn(struct raise *x, const struct record *r);

/* Goes from frame to frame until a step returns something other than GO_ON. */
static ALWAYS_INLINE int frames_walk(struct raise *x, step_fn *step)
{
	for (;;) {
		const struct record *r = record_at(&x->view, x->frame.reg[FRAME_RIP]);
		int what;

		if (!r)
			return HAND_OVER;
		what = step(x, r);
		if (what != GO_ON)
			return what;
		record_step(r, &x->frame);
	}
}

struct checked {
	struct raise *x;
	step_fn *step;
	int what;
};

static bool checked_step(void *arg, const struct record *r)
{
	struct checked *c = arg;

	c->what = c->step(c->x, r);
	return c->what == GO_ON;
}

/* Does what frames_walk() does, and compares the walk with libgcc's. */
static int frames_check(struct raise *x, step_fn *step)
{
	struct checked c = {x, step, HAND_OVER};

	if (!check_frames(&x->frame, &x->view, checked_step, &c) || c.what == GO_ON)
		return HAND_OVER;
	return c.what;
}

/* ---- entries (entry_x86.S) ------------------------------------------------------------- */

/* Returns false if libgcc handles the exception. */
static bool begin(struct raise *x, struct exception *e, struct entry *entry)
{
	x->mode = __atomic_load_n(&exceptions_mode, __ATOMIC_ACQUIRE);
	if (__builtin_expect(x->mode == EXCEPTIONS_UNKNOWN, 0)) {
		exceptions_start();
		x->mode = __atomic_load_n(&exceptions_mode, __ATOMIC_ACQUIRE);
	}
	if (x->mode <= EXCEPTIONS_OFF)
		return false;
	x->e = e;
	x->entry = entry;
	x->frame = entry->came;
	x->view = (struct records_view){0};
	x->is_first = x->is_context = false;
	return true;
}

int exceptions_raise(struct exception *e, struct entry *entry)
{
	struct raise x;
	int what;

	if (!begin(&x, e, entry))
		return HAND_OVER;
	what = x.mode == EXCEPTIONS_CHECK ? frames_check(&x, search) : frames_walk(&x, search);
	if (what != FOUND)
		return HAND_OVER;
	x.frame = x.first;
	return frames_walk(&x, unwind); /* through frames that have just been checked */
}

/* If private_1 is set, libgcc was forced to unwind (_Unwind_ForcedUnwind), and asks that function where to stop. */
int exceptions_resume(struct exception *e, struct entry *entry)
{
	struct raise x;

	if (e->private_1 || !begin(&x, e, entry))
		return HAND_OVER;
	return x.mode == EXCEPTIONS_CHECK ? frames_check(&x, unwind) : frames_walk(&x, unwind);
}

int exceptions_rethrow(struct exception *e, struct entry *entry)
{
	return e->private_1 ? HAND_OVER : exceptions_raise(e, entry);
}
