/* SPDX-License-Identifier: MIT */
/*
 * pv_forms.c: libetch on tables of call sites made at run time, in memory of this
 * program: every form and every kind of target against a model, and damaged tables.
 *
 *     pv_forms every SEED ROUNDS    random sets, releases, syncs and seals
 *     pv_forms linked SEED 1        tables in order, nothing baked: patched at start
 *     pv_forms damaged SEED COUNT   COUNT damaged tables: ignored or used, never out of bounds
 *     pv_forms start SITES          patched at start and set, for measurements
 *
 * The program carries no table of its own (ETCH_NO_MODULE) and hands descriptors
 * to etch_module_load_v2() itself.
 */
#ifndef ETCH_NO_MODULE
#define ETCH_NO_MODULE
#endif
#include <etch/pv_forms.h>
#include <sys/wait.h>
#include <time.h>

#include "site.h"

#define SLOTS 8192
#define OBJECTS 64

/* The text that is patched: one site in 16 bytes. */
__asm__(".text\n\t.balign 4096\n\t.globl slots\nslots:\t.fill 8192 * 16, 1, 0x90\n\t.balign 4096");
extern uint8_t slots[SLOTS * 16];

/* What is called. Some of it is what a compiler makes of a small function. */
#define FUNCTION(name, code) \
	__asm__(".pushsection .text\n\t.balign 16\n" #name ":\t" code "\n\tret\n\t.fill 16, 1, 0x90\n\t.popsection"); \
	extern const uint8_t name[]
FUNCTION(plain_1, "mov (%rdi),%rax");
FUNCTION(plain_2, "mov (%rsi),%rax");
FUNCTION(nothing, "");
FUNCTION(same, "mov %rdi,%rax");
FUNCTION(sum, "lea (%rdi,%rsi),%rax");
FUNCTION(next, "mov %edi,%eax\n\tinc %eax");
FUNCTION(unchecked, "mov %rsi,%rax");
FUNCTION(liar, "mov %rdx,%rax");
FUNCTION(marked, "endbr64\n\tlea 1(%rdi),%eax");
FUNCTION(marked_copy, "lea 1(%rdi),%eax");
FUNCTION(zero, "xor %eax,%eax");
FUNCTION(constant, ".byte 0xb8\n\t.long 1234");
FUNCTION(same_marked, "endbr64\n\tmov %rdi,%rax");
FUNCTION(same_32, "mov %edi,%eax");

static uint8_t zero_in_data[] = {0x31, 0xc0, 0xc3};

struct target {
	const void *at;
	struct etch_pv_body body;
	int known;
	/* its record: flags, and where the sequence is; none if `code` is null */
	const uint8_t *code;
	uint8_t length, flags;
};
#define NONE_ {0, 0, {0}}, 0, NULL, 0, 0
#define MANY 64
static struct target targets[MANY] = {
	{NULL, NONE_},
	{(void *)1, NONE_},
	{plain_1, NONE_},
	{plain_2, NONE_},
	{zero_in_data, NONE_},
	{nothing, {0, 1, {0}}, 1, nothing, 0, ETCH_NATIVE_CHECKED},
	{same, {3, 1, {0x48, 0x89, 0xf8}}, 1, same, 3, ETCH_NATIVE_CHECKED | ETCH_NATIVE_ONE},
	{sum, {4, 1, {0x48, 0x8d, 0x04, 0x37}}, 1, sum, 4, ETCH_NATIVE_CHECKED | ETCH_NATIVE_ONE},
	{next, {4, 0, {0x89, 0xf8, 0xff, 0xc0}}, 1, next, 4, ETCH_NATIVE_CHECKED},
	{unchecked, {0, 0, {0}}, 0, unchecked, 3, 0},
	{liar, {0, 0, {0}}, 0, same, 3, ETCH_NATIVE_CHECKED | ETCH_NATIVE_ONE},
	{marked, {3, 1, {0x8d, 0x47, 0x01}}, 1, marked_copy, 3, ETCH_NATIVE_CHECKED | ETCH_NATIVE_ONE},
	{zero, {2, 1, {0x31, 0xc0}}, 1, NULL, 0, 0},
	{constant, {5, 1, {0xb8, 0xd2, 0x04, 0, 0}}, 1, NULL, 0, 0},
	{same_marked, {3, 1, {0x48, 0x89, 0xf8}}, 1, NULL, 0, 0},
	{same_32, {2, 1, {0x89, 0xf8}}, 1, NULL, 0, 0},
	/* filled in: code in memory that is no module's, near and far */
};
static size_t target_count = 16;

/* Objects of 64 bytes: five slots, one that is not aligned, and other fields. */
static uint8_t objects[OBJECTS * 64] __attribute__((section("etched"), aligned(4096)));
static uint8_t model[sizeof(objects)];
static const unsigned slot_at[6] = {0, 8, 16, 24, 32, 44};
#define FIELD_AT 52 /* an int, and an int site for some */

static struct {
	struct etch_module desc;
	uint64_t got[16];
	struct etch_imv pv[SLOTS];
	struct etch_imv imv[SLOTS];
	struct etch_obj obj[OBJECTS + 16];
	struct etch_native native[MANY];
	char name[16];
} t = {.name = "objects"};
static size_t natives;

static uint64_t seed;

static uint64_t rnd(void)
{
	seed += 0x9e3779b97f4a7c15;
	uint64_t z = seed;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static int32_t rel(const void *field, const void *to)
{
	intptr_t d = (intptr_t)to - (intptr_t)field;

	CHECK_EQ(d, (int32_t)d);
	return (int32_t)d;
}

static void load(void)
{
	const struct etch_bounds b[] = {{NULL, NULL}, {NULL, NULL}, {objects, objects + sizeof(objects)},
		{NULL, NULL}, {NULL, NULL}, {t.native, t.native + natives}};

	etch_module_load_v2(&t.desc, b, 6);
}

static void describe(size_t calls, size_t loads, size_t records)
{
	t.desc = (struct etch_module){.magic = ETCH_MODULE_MAGIC, .version = ETCH_MODULE_VERSION,
		.size = sizeof(t.desc), .flags = ETCH_MODULE_MOVED,
		.imv = (char *)t.imv - (char *)&t.desc.imv, .imv_count = loads,
		.obj = (char *)t.obj - (char *)&t.desc.obj, .obj_count = records,
		.pv = (char *)t.pv - (char *)&t.desc.pv, .pv_count = calls};
}

static void record(struct etch_obj *o, int i, unsigned size)
{
	*o = (struct etch_obj){.addr = rel(&o->addr, objects + 64 * i), .size = size,
	                       .ref = rel(&o->ref, t.name), .kind = ETCH_OBJ_OBJECT};
}

static void map_code(uint64_t at, const uint8_t *code, size_t size)
{
	uint8_t *p = mmap((void *)at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
	                  MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	CHECK(p != MAP_FAILED && (!at || p == (void *)at));
	memcpy(p, code, size);
	targets[target_count++].at = p;
}

static void prepare(void)
{
	static const uint8_t zero_code[] = {0x31, 0xc0, 0xc3};

	map_code(0x30000000, zero_code, 3); /* within reach, but nobody's */
	map_code(0, zero_code, 3);          /* out of reach: this is no PIE */
	for (size_t i = 0; i < target_count; i++)
		if (targets[i].code) {
			struct etch_native *n = &t.native[natives++];

			*n = (struct etch_native){.func = rel(&n->func, targets[i].at), .code = rel(&n->code, targets[i].code),
			                          .len = targets[i].length, .flags = targets[i].flags};
		}
}

static const struct target *target_of(const uint8_t *slot)
{
	const void *at;

	memcpy(&at, slot, 8);
	for (size_t i = 0; i < target_count; i++)
		if (targets[i].at == at)
			return &targets[i];
	fprintf(stderr, "no such target: %p\n", at);
	exit(1);
}

/* Makes the instruction of a site and its entry; 0 if these fields have no such form. */
static int site(struct etch_imv *e, uint8_t *at, uint8_t *slot, unsigned form, unsigned mode, unsigned reg,
                int disp, unsigned shape)
{
	uint8_t out[16];

	for (unsigned len = 2; len <= 9; len++) {
		*e = (struct etch_imv){.site = rel(&e->site, at), .obj = rel(&e->obj, slot), .form = (uint8_t)form,
		                       .shape = (uint8_t)(len | mode << 4 | shape)};
		if (!etch_pv_set(e, mode < ETCH_ADDR_BASE ? 0 : reg, mode == ETCH_ADDR_BASE ? disp : 0))
			break;
		if (!etch_pv_valid(e) || etch_pv_load(e, (uintptr_t)at, (uintptr_t)slot, out) != len)
			continue;
		/* A longer displacement than is needed, sometimes. */
		if (mode == ETCH_ADDR_BASE && len < 7 && rnd() % 2)
			continue;
		memcpy(at, out, len);
		return 1;
	}
	memset(e, 0, sizeof(*e));
	return 0;
}

static size_t fill(size_t limit)
{
	size_t n = 0;

	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_WRITE | PROT_EXEC));
	while (n < limit)
		for (unsigned k = 0; k < 8 && n < limit; k++) {
			static const int disps[] = {0, 0, 8, 16, -8, 120, 128, 1016, -1024};
			uint8_t *at = slots + 16 * n + (rnd() % 4 ? 0 : rnd() % 7);
			uint8_t *slot = objects + 64 * (rnd() % OBJECTS) + slot_at[rnd() % 6];
			unsigned shape = rnd() % 4 ? 0 : ETCH_PV_NOTRACK;

			shape |= rnd() % 2 ? 0x40 : 0;
			n += (unsigned)site(&t.pv[n], at, slot, ETCH_FORM_CALL + k % 2, k / 2, rnd() % 16,
			                    disps[rnd() % 9], shape);
		}
	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_EXEC));
	return n;
}

/* Loads of the other field of some objects, after the calls. */
static size_t fill_loads(size_t first, size_t limit)
{
	size_t n = 0;

	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_WRITE | PROT_EXEC));
	for (; n < limit; n++) {
		uint8_t *at = slots + 16 * (first + n) + rnd() % 6, *field = objects + 64 * (rnd() % OBJECTS) + FIELD_AT;
		struct etch_imv *e = &t.imv[n];

		*e = (struct etch_imv){.site = rel(&e->site, at), .obj = rel(&e->obj, field), .form = ETCH_FORM_MOV32,
		                       .regs = rnd() % 8, .shape = 6};
		CHECK_EQ(etch_form_load(e, (uintptr_t)at, (uintptr_t)field, at), 6);
	}
	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_EXEC));
	return n;
}

struct seen {
	unsigned long direct, inlined, indirect, loads, immediates;
};

#define ARMED 1
#define SEALED 2

static void check_bytes(size_t i, const struct etch_imv *e, const uint8_t *at, const uint8_t *want, unsigned len)
{
	if (!memcmp(at, want, len))
		return;
	fprintf(stderr, "site %zu: form %u shape %#x regs %#x flags %#x\n", i, e->form, e->shape, e->regs, e->flags);
	for (unsigned k = 0; k < len; k++)
		fprintf(stderr, " %02x/%02x", at[k], want[k]);
	fprintf(stderr, " found/expected\n");
	exit(1);
}

/* Is each site what it must be? */
static struct seen check_sites(size_t calls, size_t loads, const uint8_t *state)
{
	struct seen seen = {0};
	uint8_t out[16];

	CHECK(!memcmp(objects, model, sizeof(objects)));
	for (size_t i = 0; i < calls; i++) {
		const struct etch_imv *e = &t.pv[i];
		const uint8_t *at = (const uint8_t *)(uintptr_t)etch_ref((uintptr_t)&e->site, e->site);
		const uint8_t *slot = (const uint8_t *)(uintptr_t)etch_ref((uintptr_t)&e->obj, e->obj);
		unsigned len = etch_imv_len(e), count, n = 0, how = state[(slot - objects) / 64];
		const struct target *to = target_of(slot);

		if (how & (SEALED | ARMED)) {
			n = etch_pv_image(e, (uintptr_t)at, (uintptr_t)to->at, to->known ? &to->body : NULL, out, &count);
			if (n && count > 1 && !(how & SEALED))
				n = etch_pv_image(e, (uintptr_t)at, (uintptr_t)to->at, NULL, out, &count);
		}
		if (!n) {
			seen.indirect++;
			CHECK_EQ(etch_pv_load(e, (uintptr_t)at, (uintptr_t)slot, out), len);
		} else if (len >= 5 && (out[len - 5] == 0xe8 || out[len - 5] == 0xe9)) {
			seen.direct++;
		} else {
			seen.inlined++;
		}
		check_bytes(i, e, at, out, len);
	}
	for (size_t i = 0; i < loads; i++) {
		const struct etch_imv *e = &t.imv[i];
		const uint8_t *at = (const uint8_t *)(uintptr_t)etch_ref((uintptr_t)&e->site, e->site);
		const uint8_t *field = (const uint8_t *)(uintptr_t)etch_ref((uintptr_t)&e->obj, e->obj);
		unsigned how = state[(field - objects) / 64];

		if (how & (SEALED | ARMED)) {
			seen.immediates++;
			CHECK_EQ(etch_form_imm(e, (uintptr_t)at, field, out), 6);
		} else {
			seen.loads++;
			CHECK_EQ(etch_form_load(e, (uintptr_t)at, (uintptr_t)field, out), 6);
		}
		check_bytes(i, e, at, out, 6);
	}
	return seen;
}

static void random_slots(void)
{
	for (int i = 0; i < OBJECTS; i++)
		for (int k = 0; k < 6; k++)
			memcpy(objects + 64 * i + slot_at[k], &targets[rnd() % target_count].at, 8);
	memcpy(model, objects, sizeof(model));
}

static void check_counts(struct seen s, size_t calls)
{
	struct etch_info i = info_now();

	CHECK_EQ(i.calls, calls);
	CHECK_EQ(i.calls_direct, s.direct);
	CHECK_EQ(i.calls_inline, s.inlined);
	CHECK_EQ(i.calls_indirect, s.indirect);
	CHECK_EQ(i.armed, s.immediates);
	CHECK_EQ(i.loads, s.loads);
}

static void run_every(unsigned rounds)
{
	uint8_t state[OBJECTS];
	struct seen s, most = {0};
	size_t calls, loads, i;

	random_slots();
	calls = fill(SLOTS - 600);
	loads = fill_loads(calls, 500);
	for (i = 0; i < OBJECTS; i++)
		record(&t.obj[i], (int)i, 64);
	describe(calls, loads, OBJECTS);
	load();
	memset(state, ARMED, sizeof(state));
	check_counts(check_sites(calls, loads, state), calls);
	CHECK_PERMS(objects, "r--p");

	for (unsigned r = 0; r < rounds; r++) {
		struct etch_change c[60];
		uint64_t value[60];
		unsigned count = 1 + (unsigned)(rnd() % 60), o = (unsigned)(rnd() % OBJECTS);

		switch (rnd() % 5) {
		case 0:
			CHECK_EQ(etch_release_bytes(objects + 64 * o, 64), 0);
			state[o] = 0;
			break;
		case 1:
			CHECK_EQ(etch_sync_bytes(objects + 64 * o, 64), 0);
			state[o] |= ARMED;
			break;
		case 2:
			CHECK_EQ(etch_seal_bytes(objects + 64 * o + 8, 8), 0);
			state[o] = ARMED | SEALED;
			break;
		}
		for (i = 0; i < count; i++) {
			size_t at = 64 * (rnd() % OBJECTS);

			if (rnd() % 4) {
				at += slot_at[rnd() % 6];
				memcpy(&value[i], &targets[rnd() % target_count].at, 8);
				c[i] = (struct etch_change){objects + at, &value[i], 8};
			} else {
				value[i] = rnd();
				at += FIELD_AT;
				c[i] = (struct etch_change){objects + at, &value[i], 4};
			}
			memcpy(model + at, &value[i], c[i].size);
		}
		CHECK_EQ(etch_set_batch(c, count), 0);
		s = check_sites(calls, loads, state);
		check_counts(s, calls);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		most.direct = s.direct > most.direct ? s.direct : most.direct;
		most.inlined = s.inlined > most.inlined ? s.inlined : most.inlined;
		for (i = 0; i < OBJECTS && state[i]; i++)
			;
		CHECK_PERMS(objects, i == OBJECTS ? "r--p" : "rw-p");
		CHECK_PERMS(slots, "r-xp");
		CHECK_PERMS(slots + sizeof(slots) - 1, "r-xp");
	}
	CHECK_EQ(etch_release_bytes(objects, sizeof(objects)), 0);
	memset(state, 0, sizeof(state));
	s = check_sites(calls, loads, state);
	CHECK_EQ(s.indirect, calls);
	CHECK_EQ(s.loads, loads);
	printf("%zu sites, up to %lu direct, %lu inline\n", calls, most.direct, most.inlined);
}

/* ---- linked modules ------------------------------------------------------------- */

static void sort_linked(struct etch_imv *table, size_t n)
{
	for (size_t i = 1; i < n; i++)
		for (size_t j = i; j; j--) {
			struct etch_imv *a = &table[j - 1], *b = &table[j], x, y;
			uint64_t sa = etch_ref((uintptr_t)&a->site, a->site), sb = etch_ref((uintptr_t)&b->site, b->site);
			uint64_t oa = etch_ref((uintptr_t)&a->obj, a->obj), ob = etch_ref((uintptr_t)&b->obj, b->obj);

			if (oa < ob || (oa == ob && sa <= sb))
				break;
			x = *a;
			y = *b;
			*a = y;
			*b = x;
			a->site = rel(&a->site, (void *)sb);
			a->obj = rel(&a->obj, (void *)ob);
			b->site = rel(&b->site, (void *)sa);
			b->obj = rel(&b->obj, (void *)oa);
		}
}

/* As the link step leaves a module whose slots the dynamic linker fills in: the half
 * of the sites of armed objects that it could bake, and no load. */
static void run_linked(void)
{
	uint8_t state[OBJECTS], out[16];
	unsigned count;
	size_t calls, baked = 0;
	struct seen s;

	random_slots();
	calls = fill(2000);
	sort_linked(t.pv, calls);
	for (int i = 0; i < OBJECTS; i++) {
		state[i] = rnd() % 4 ? ARMED : 0;
		record(&t.obj[i], i, 64);
		t.obj[i].flags = state[i] ? ETCH_OBJ_ARMED : ETCH_OBJ_STORED;
	}
	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_WRITE | PROT_EXEC));
	for (size_t i = 0; i < calls; i++) {
		struct etch_imv *e = &t.pv[i];
		uint8_t *at = (uint8_t *)(uintptr_t)etch_ref((uintptr_t)&e->site, e->site);
		uint8_t *slot = (uint8_t *)(uintptr_t)etch_ref((uintptr_t)&e->obj, e->obj);
		const struct target *to = target_of(slot);

		if (!state[(slot - objects) / 64] || !etch_site_is_live((uintptr_t)at, etch_imv_len(e)) || rnd() % 2)
			continue;
		if (!etch_pv_image(e, (uintptr_t)at, (uintptr_t)to->at, to->known ? &to->body : NULL, out, &count) || count > 1)
			continue;
		memcpy(at, out, etch_imv_len(e));
		e->flags |= ETCH_IMV_BAKED;
		baked++;
	}
	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_EXEC));
	describe(calls, 0, OBJECTS);
	t.desc.flags |= ETCH_MODULE_LINKED;
	load();
	s = check_sites(calls, 0, state);
	check_counts(s, calls);
	CHECK_EQ(info_now().patched_at_start + baked, s.direct + s.inlined);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	for (unsigned r = 0; r < 200; r++) {
		unsigned o = (unsigned)(rnd() % OBJECTS), k = (unsigned)(rnd() % 6);
		const void *at = targets[rnd() % target_count].at;

		memcpy(model + 64 * o + slot_at[k], &at, 8);
		CHECK_EQ(etch_set_bytes(objects + 64 * o + slot_at[k], &at, 8), 0);
		check_sites(calls, 0, state);
	}
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	printf("%zu baked, %lu direct, %lu inline\n", baked, s.direct, s.inlined);
}

/* ---- damaged tables ----------------------------------------------------------- */

static void damaged(size_t n, uint64_t how)
{
	static const uint8_t loud[] = {0, 1, 0x7f, 0x80, 0xff, 0xcc};
	struct { void *at; size_t size; } area[] = {
		{t.pv, n * sizeof(t.pv[0])}, {t.native, natives * sizeof(t.native[0])},
		{t.obj, (OBJECTS + 2) * sizeof(t.obj[0])}, {&t.desc, sizeof(t.desc)}};
	static const unsigned char areas[] = {0, 0, 0, 0, 1, 1, 2, 3};
	unsigned which = areas[how % 8];
	int err[5], rounds = 1 + (int)(rnd() % 3);
	const void *v;
	long bad;

	while (rounds--)
		((uint8_t *)area[which].at)[rnd() % area[which].size] = rnd() % 2 ? loud[rnd() % sizeof(loud)] : (uint8_t)rnd();
	if (rnd() % 8 == 0) /* a slot of the GOT that points anywhere */
		t.got[rnd() % 16] = rnd() % 2 ? rnd() : (uintptr_t)objects + rnd() % 8192;
	load();
	for (int i = 0; i < OBJECTS; i++) {
		v = rnd() % 4 ? targets[rnd() % target_count].at : (void *)rnd();
		err[0] = etch_set_bytes(objects + 64 * i + 8 * (i % 5), &v, 8);
		CHECK(err[0] || !memcmp(objects + 64 * i + 8 * (i % 5), &v, 8));
		CHECK(err[0] >= 0 && err[0] <= ETCH_ETHREADS);
	}
	err[1] = etch_sync_bytes(objects + 64, 64);
	err[2] = etch_release_bytes(objects + 128, 64);
	err[4] = etch_seal_bytes(objects + 256, 64);
	bad = etch_verify(NULL, NULL);
	err[3] = etch_info(&(struct etch_info){.size = sizeof(struct etch_info)});
	for (int i = 1; i < 5; i++)
		CHECK(err[i] >= 0 && err[i] <= ETCH_ETHREADS);
	CHECK(bad == -ETCH_EFORMAT || bad >= 0);
	CHECK((bad == -ETCH_EFORMAT) == (err[3] == ETCH_EFORMAT));
}

static void run_damaged(unsigned count)
{
	size_t n;
	int status;

	random_slots();
	n = fill(200);
	for (int i = 0; i < OBJECTS; i++)
		record(&t.obj[i], i, i % 2 ? 64 : 60);
	t.got[0] = (uintptr_t)(objects + 64 * 5);
	t.obj[OBJECTS] = (struct etch_obj){.kind = ETCH_OBJ_STORE, .addr = rel(&t.obj[OBJECTS].addr, objects + 64 * 4)};
	t.obj[OBJECTS + 1] = (struct etch_obj){.kind = ETCH_OBJ_ESCAPE, .flags = ETCH_OBJ_GOT,
		.addr = rel(&t.obj[OBJECTS + 1].addr, &t.got[0])};
	sort_linked(t.pv, n);
	/* Two through the GOT: by a base register, and by a register. */
	for (unsigned i = 1; i < 3; i++, n++) {
		static const uint8_t code[2][3] = {{0xff, 0x52, 0x10}, {0xff, 0xd2}};
		struct etch_imv *e = &t.pv[n];

		poke(slots + 16 * n, code[i - 1], 4 - i);
		t.got[i] = (uintptr_t)(objects + 64 * i);
		*e = (struct etch_imv){.site = rel(&e->site, slots + 16 * n), .obj = rel(&e->obj, &t.got[i]),
			.form = ETCH_FORM_CALL, .shape = (uint8_t)((4 - i) | (ETCH_ADDR_BASE + i - 1) << 4),
			.flags = ETCH_IMV_GOT};
		CHECK(etch_pv_set(e, 2, 16) && etch_pv_valid(e));
	}
	for (unsigned i = 0; i < count; i++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (!pid) {
			seed += i * 0x1234567;
			describe(n + 3, 0, OBJECTS + 4); /* some empty ones */
			if (!i || rnd() % 2)
				t.desc.flags |= ETCH_MODULE_LINKED;
			/* An empty entry that says it goes through a slot, nowhere. */
			if (!i) {
				t.pv[n + 1].flags = ETCH_IMV_GOT;
				t.pv[n + 1].obj = 0x70000000;
				load();
				CHECK_EQ(etch_verify(NULL, NULL), -ETCH_EFORMAT);
				_exit(0);
			}
			damaged(n, rnd());
			_exit(0);
		}
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		if (status) {
			fprintf(stderr, "mutant %u: status %#x\n", i, status);
			exit(1);
		}
	}
	printf("%u damaged tables\n", count);
}

/* ---- measurements -------------------------------------------------------------- */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double best_set(unsigned from, unsigned to)
{
	double a, b, best = 1e18;

	for (int v = 0; v < 200; v++) {
		a = now();
		CHECK_EQ(etch_set_bytes(objects, &targets[v & 1 ? from : to].at, 8), 0);
		b = now();
		best = b - a < best ? b - a : best;
	}
	return best;
}

/* Time of loading, and of sets that reach all sites, per site. */
static void run_start(size_t n)
{
	static const struct { const char *name; unsigned from, to; } pairs[] = {
		{"direct, direct", 2, 3}, {"direct, nop", 2, 5}, {"nop, ident", 5, 6}, {"direct, indirect", 2, 0}};
	double a, b;

	CHECK(n && n <= SLOTS);
	memcpy(objects, &targets[2].at, 8);
	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_WRITE | PROT_EXEC));
	for (size_t i = 0; i < n; i++)
		CHECK(site(&t.pv[i], slots + 16 * i, objects, ETCH_FORM_CALL, ETCH_ADDR_RIP, 0, 0, 0));
	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_EXEC));
	record(&t.obj[0], 0, 64);
	describe(n, 0, 1);
	a = now();
	load();
	b = now();
	CHECK_EQ(info_now().calls_direct, n);
	printf("start: %zu sites, %.0f ns, %.1f ns a site\n", n, b - a, (b - a) / (double)n);
	for (int i = 0; i < 4; i++) {
		double best = best_set(pairs[i].from, pairs[i].to);

		printf("set: %s: %zu sites, best %.0f ns, %.1f ns a site\n", pairs[i].name, n, best, best / (double)n);
	}
}

int main(int argc, char **argv)
{
	prepare();
	if (argc == 3 && !strcmp(argv[1], "start")) {
		run_start(strtoul(argv[2], NULL, 0));
		return 0;
	}
	CHECK_EQ(argc, 4);
	seed = strtoul(argv[2], NULL, 0) * 0x9e3779b97f4a7c15;
	if (!strcmp(argv[1], "every"))
		run_every((unsigned)strtoul(argv[3], NULL, 0));
	else if (!strcmp(argv[1], "linked"))
		run_linked();
	else if (!strcmp(argv[1], "damaged"))
		run_damaged((unsigned)strtoul(argv[3], NULL, 0));
	else
		return 2;
	return 0;
}
