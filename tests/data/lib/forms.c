/* SPDX-License-Identifier: MIT */
/*
 * forms.c: libetch on tables made at run time, in memory of this program: every
 * form, random sets against a model, and damaged tables.
 *
 *     forms every SEED ROUNDS    every form, register and addressing: arm, set, release
 *     forms damaged SEED COUNT   COUNT damaged tables: ignored or used, never out of bounds
 *     forms busy SEED 1          a breakpoint is there before libetch: trouble is per object
 *     forms start SITES          patched at start, for measurements
 *
 * The program carries no table of its own (ETCH_NO_MODULE) and hands descriptors
 * to etch_module_load_v1() itself.
 */
#ifndef ETCH_NO_MODULE
#define ETCH_NO_MODULE
#endif
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "site.h"

#define SLOTS 8192

/* The text that is patched: one site a slot of 16 bytes. */
__asm__(".text\n\t.balign 4096\n\t.globl slots\nslots:\t.fill 8192 * 16, 1, 0x90\n\t.balign 4096");
extern uint8_t slots[SLOTS * 16];

/* The objects: 64 of 64 bytes on a page, and the model of what they hold. */
#define OBJECTS 64
static uint8_t objects[OBJECTS * 64] __attribute__((section("etched"), aligned(4096)));
static uint8_t model[sizeof(objects)];

static struct {
	struct etch_module desc;
	uint64_t got[16];
	struct etch_imv imv[SLOTS];
	struct etch_obj obj[OBJECTS + 16];
	char name[16];
} t = {.name = "objects"};

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
	/* A second descriptor of the main program: it is not unloaded, so each
	 * test that needs another one forks. */
	etch_module_load_v1(&t.desc, NULL, NULL, NULL, NULL, objects, objects + sizeof(objects), NULL, NULL);
}

static void describe(size_t sites, size_t records)
{
	t.desc = (struct etch_module){.magic = ETCH_MODULE_MAGIC, .version = ETCH_MODULE_VERSION,
		.size = sizeof(t.desc), .flags = ETCH_MODULE_MOVED,
		.imv = (char *)t.imv - (char *)&t.desc.imv, .imv_count = sites,
		.obj = (char *)t.obj - (char *)&t.desc.obj, .obj_count = records};
}

static void record(struct etch_obj *o, int i, unsigned size)
{
	*o = (struct etch_obj){.addr = rel(&o->addr, objects + 64 * i), .size = size,
	                       .ref = rel(&o->ref, t.name), .kind = ETCH_OBJ_OBJECT};
}

/* Makes the instruction of a site and its entry; 0 if these fields have no load form. */
static int site(struct etch_imv *e, uint8_t *slot, uint8_t *object, unsigned form, unsigned reg,
                unsigned mode, unsigned base)
{
	uint8_t out[16];
	struct etch_form_info f = etch_form_info(form);

	for (int rex = 0; rex < 2; rex++)
		for (unsigned len = 6; len < 12; len++) {
			*e = (struct etch_imv){.site = rel(&e->site, slot), .obj = rel(&e->obj, object),
				.form = (uint8_t)form, .regs = (uint8_t)(reg | base << 4),
				.shape = (uint8_t)(len | mode << 4 | (unsigned)rex << 6)};
			/* Without REX, registers 4 to 7 of a byte form are ah to bh. */
			if (f.width == 1 && !rex && reg >= 4)
				continue;
			if (etch_form_load(e, (uintptr_t)slot, (uintptr_t)object, out) != len)
				continue;
			memcpy(slot, out, len);
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
		for (unsigned form = 1; form <= ETCH_FORM_LAST && n < limit; form++)
			for (unsigned mode = 0; mode < 3 && n < limit; mode++) {
				unsigned size = etch_form_size(form);
				/* mostly aligned, some live, some over the end of a word */
				uint8_t *slot = slots + 16 * n + (rnd() % 4 ? 0 : rnd() % 5);
				uint8_t *object;
				unsigned offset = (unsigned)(rnd() % (64 - size + 1));

				if (!size)
					continue;
				object = objects + 64 * (rnd() % OBJECTS) + (rnd() % 4 ? offset - offset % size : offset);
				n += (unsigned)site(&t.imv[n], slot, object, form, form == ETCH_FORM_PUSH64 ? 0 : rnd() % 16,
				                    mode, mode == ETCH_ADDR_BASE ? rnd() % 16 : 0);
			}
	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_EXEC));
	return n;
}

/* Are all sites what they must be: for armed objects the immediate of what memory
 * holds where there is one, else the load? */
static unsigned long check_sites(size_t n, const uint8_t *armed)
{
	unsigned long immediates = 0;
	uint8_t out[16];

	CHECK(!memcmp(objects, model, sizeof(objects)));
	for (size_t i = 0; i < n; i++) {
		const struct etch_imv *e = &t.imv[i];
		const uint8_t *at = (const uint8_t *)(uintptr_t)etch_ref((uintptr_t)&e->site, e->site);
		const uint8_t *object = (const uint8_t *)(uintptr_t)etch_ref((uintptr_t)&e->obj, e->obj);
		unsigned len = etch_imv_len(e);

		if (armed[(object - objects) / 64] && etch_form_imm(e, (uintptr_t)at, object, out) == len)
			immediates++;
		else
			CHECK_EQ(etch_form_load(e, (uintptr_t)at, (uintptr_t)object, out), len);
		if (memcmp(at, out, len)) {
			fprintf(stderr, "site %zu: form %u shape %#x regs %#x\n", i, e->form, e->shape, e->regs);
			for (unsigned k = 0; k < len; k++)
				fprintf(stderr, " %02x/%02x", at[k], out[k]);
			fprintf(stderr, " found/expected\n");
			exit(1);
		}
	}
	return immediates;
}

/* Records as the link step leaves them, as gcc emits them (last to first), or as
 * several files make them together: some of each. */
static void record_all(unsigned order)
{
	for (int i = 0; i < OBJECTS; i++) {
		int falling = OBJECTS - 1 - i;
		const int orders[] = {i, falling, (falling ^ 20) * 5 % OBJECTS};

		record(&t.obj[i], orders[order < 2 ? order : 2], 64);
	}
}

static void run_every(unsigned rounds)
{
	uint8_t armed[OBJECTS];
	unsigned long immediates, most = 0;
	size_t n, page_ok;

	for (size_t i = 0; i < sizeof(objects); i++)
		model[i] = objects[i] = (uint8_t)rnd();
	n = fill(SLOTS - 4);
	record_all(rnd() % 3);
	describe(n, OBJECTS);
	load();
	memset(armed, 1, sizeof(armed));
	check_sites(n, armed);
	CHECK_EQ(info_now().sites, n);
	CHECK_EQ(info_now().objects, OBJECTS);
	CHECK_PERMS(objects, "r--p");

	for (unsigned r = 0; r < rounds; r++) {
		struct etch_change c[100];
		uint8_t value[100][64];
		unsigned count = 1 + (unsigned)(rnd() % 100), o = (unsigned)(rnd() % OBJECTS);
		unsigned runs = (unsigned)(rnd() % 4); /* descending ones in the batch; 0: any order */

		switch (rnd() % 4) {
		case 0:
			CHECK_EQ(etch_release_bytes(objects + 64 * o, 64), 0);
			armed[o] = 0;
			break;
		case 1:
			CHECK_EQ(etch_sync_bytes(objects + 64 * o, 64), 0);
			armed[o] = 1;
			break;
		}
		for (unsigned i = 0; i < count; i++) {
			size_t size = rnd() % 3 ? (size_t)1 << rnd() % 4 : 1 + rnd() % 64;
			size_t at = 64 * (rnd() % OBJECTS) + rnd() % (64 - size + 1);

			if (runs) {
				size = 1u << rnd() % 4;
				at = sizeof(objects) - 8 * (i * runs % 100 * 5 + 1 + rnd() % 5);
			}
			/* Small values too: they fit where random ones do not. */
			for (size_t b = 0; b < 64; b++)
				value[i][b] = (uint8_t)rnd();
			if (rnd() % 2)
				memset(value[i] + 1, rnd() % 2 ? 0 : 0xff, 63);
			if (size == 8 && rnd() % 2) { /* addresses: near the code no mov holds them, but a lea does */
				uintptr_t near = (uintptr_t)slots + (uintptr_t)((int64_t)rnd() >> (32 + rnd() % 24));

				at &= ~(size_t)7;
				memcpy(value[i], &near, 8);
			}
			c[i] = (struct etch_change){objects + at, value[i], size};
			memcpy(model + at, value[i], size);
		}
		CHECK_EQ(etch_set_batch(c, count), 0);
		immediates = check_sites(n, armed);
		most = immediates > most ? immediates : most;
		CHECK_EQ(info_now().armed, immediates);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		for (page_ok = 0; page_ok < OBJECTS && armed[page_ok]; page_ok++)
			;
		CHECK_PERMS(objects, page_ok == OBJECTS ? "r--p" : "rw-p");
		CHECK_PERMS(slots, "r-xp");
		CHECK_PERMS(slots + sizeof(slots) - 1, "r-xp");
	}
	CHECK_EQ(etch_release_bytes(objects, sizeof(objects)), 0);
	memset(armed, 0, sizeof(armed));
	CHECK_EQ(check_sites(n, armed), 0);
	printf("%zu sites, up to %lu immediates\n", n, most);
}

/* A debugger that came first has put cc into one site, which stays a load; all others are armed, and sets of all are
 * right, also of that one when the debugger has gone. */
static void run_busy(void)
{
	const uint8_t *out;
	uint8_t armed[OBJECTS], cc = 0xcc, byte;
	size_t n, i, o;
	int v = 5;

	for (i = 0; i < sizeof(objects); i++)
		model[i] = objects[i] = (uint8_t)rnd();
	n = fill(1000);
	for (i = 0; i < OBJECTS; i++)
		record(&t.obj[i], (int)i, 64);
	describe(n, OBJECTS);
	for (i = 0; !etch_site_is_live(etch_ref((uintptr_t)&t.imv[i].site, t.imv[i].site), etch_imv_len(&t.imv[i])); i++)
		;
	out = (const uint8_t *)(uintptr_t)etch_ref((uintptr_t)&t.imv[i].site, t.imv[i].site);
	o = (etch_ref((uintptr_t)&t.imv[i].obj, t.imv[i].obj) - (uintptr_t)objects) / 64;
	byte = *out;
	poke(out, &cc, 1);
	load();
	CHECK_EQ(info_now().armed_objects, OBJECTS);
	memcpy(model + 64 * o, &v, 4);
	CHECK_EQ(etch_set_bytes(objects + 64 * o, &v, 4), 0);
	CHECK_EQ(*out, 0xcc);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	poke(out, &byte, 1);
	CHECK_EQ(etch_release_bytes(objects + 64 * o, 64), 0);
	memset(armed, 1, sizeof(armed));
	armed[o] = 0;
	check_sites(n, armed);
	CHECK_EQ(info_now().armed_objects, OBJECTS - 1);
	CHECK_PERMS(objects, "rw-p");
	for (i = 0; i < OBJECTS; i++) {
		memcpy(model + 64 * i, &v, 4);
		CHECK_EQ(etch_set_bytes(objects + 64 * i, &v, 4), 0);
	}
	check_sites(n, armed);
	CHECK_EQ(etch_sync_bytes(objects + 64 * o, 64), 0);
	armed[o] = 1;
	check_sites(n, armed);
	CHECK_PERMS(objects, "r--p");
}

/* ---- damaged tables ----------------------------------------------------------- */

static void sort_linked(size_t n)
{
	/* By object, then site; insertion, for the table is small. Self-relative
	 * fields are moved with care. */
	for (size_t i = 1; i < n; i++)
		for (size_t j = i; j; j--) {
			struct etch_imv *a = &t.imv[j - 1], *b = &t.imv[j], x, y;
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

static void damaged(size_t n, uint64_t how)
{
	struct { void *at; size_t size; } areas[] = {
		{t.imv, n * sizeof(t.imv[0])}, {t.obj, (OBJECTS + 2) * sizeof(t.obj[0])}, {&t.desc, sizeof(t.desc)}};
	uint8_t *area = areas[how % 3].at;
	size_t size = areas[how % 3].size;
	static const uint8_t loud[] = {0, 1, 0x7f, 0x80, 0xff, 0xcc};
	int v, err[4], rounds = 1 + (int)(rnd() % 3);
	long bad;

	while (rounds--)
		area[rnd() % size] = rnd() % 2 ? loud[rnd() % sizeof(loud)] : (uint8_t)rnd();
	if (rnd() % 8 == 0) /* a slot of the GOT that points anywhere */
		t.got[rnd() % 16] = rnd() % 2 ? rnd() : (uintptr_t)objects + rnd() % 8192;
	load();
	for (int i = 0; i < OBJECTS; i++) {
		v = (int)rnd();
		err[0] = etch_set_bytes(objects + 64 * i, &v, 4);
		CHECK(err[0] || !memcmp(objects + 64 * i, &v, 4));
		CHECK(err[0] >= 0 && err[0] <= ETCH_EFORMAT);
	}
	err[1] = etch_sync_bytes(objects + 64, 64);
	err[2] = etch_release_bytes(objects + 128, 64);
	bad = etch_verify(NULL, NULL);
	err[3] = etch_info(&(struct etch_info){.size = sizeof(struct etch_info)});
	for (int i = 1; i < 4; i++)
		CHECK(err[i] >= 0 && err[i] <= ETCH_EFORMAT);
	/* Text that was one thing or the other still is. */
	CHECK(bad == -ETCH_EFORMAT || bad >= 0);
	CHECK((bad == -ETCH_EFORMAT) == (err[3] == ETCH_EFORMAT));
}

static void run_damaged(unsigned count)
{
	size_t n;
	int status;

	memset(objects, 1, sizeof(objects));
	n = fill(200);
	for (int i = 0; i < OBJECTS; i++)
		record(&t.obj[i], i, i % 2 ? 64 : 60);
	/* A fact, and one through the GOT. */
	t.got[0] = (uintptr_t)(objects + 64 * 5);
	t.obj[OBJECTS] = (struct etch_obj){.kind = ETCH_OBJ_STORE, .addr = rel(&t.obj[OBJECTS].addr, objects + 64 * 4)};
	t.obj[OBJECTS + 1] = (struct etch_obj){.kind = ETCH_OBJ_ESCAPE, .flags = ETCH_OBJ_GOT,
		.addr = rel(&t.obj[OBJECTS + 1].addr, &t.got[0])};
	sort_linked(n);
	/* Two sites through the GOT. */
	for (int i = 1; i < 3; i++, n++) {
		CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_WRITE | PROT_EXEC));
		CHECK(site(&t.imv[n], slots + 16 * n, objects, ETCH_FORM_MOV32, 1, ETCH_ADDR_BASE, 2));
		CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_EXEC));
		t.got[i] = (uintptr_t)(objects + 64 * i);
		t.imv[n].obj = rel(&t.imv[n].obj, &t.got[i]);
		t.imv[n].flags = ETCH_IMV_GOT;
	}
	for (unsigned i = 0; i < count; i++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (!pid) {
			seed += i * 0x1234567;
			describe(n + 3, OBJECTS + 4); /* some empty ones */
			if (rnd() % 2)
				t.desc.flags |= ETCH_MODULE_LINKED;
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

/* Time of loading, and of a set that reaches all sites, per site. */
static void run_start(size_t n)
{
	double a, b, best = 1e18;
	int v;

	CHECK(n && n <= SLOTS);
	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_WRITE | PROT_EXEC));
	for (size_t i = 0; i < n; i++)
		CHECK(site(&t.imv[i], slots + 16 * i, objects, ETCH_FORM_MOV32, i % 8, ETCH_ADDR_RIP, 0));
	CHECK(!mprotect(slots, sizeof(slots), PROT_READ | PROT_EXEC));
	record(&t.obj[0], 0, 64);
	describe(n, 1);
	a = now();
	load();
	b = now();
	CHECK_EQ(info_now().armed, n);
	printf("start: %zu sites, %.0f ns, %.1f ns a site\n", n, b - a, (b - a) / (double)n);
	for (v = 1; v < 200; v++) {
		a = now();
		CHECK_EQ(etch_set_bytes(objects, &v, 4), 0);
		b = now();
		best = b - a < best ? b - a : best;
	}
	printf("set: %zu sites, best %.0f ns, %.1f ns a site\n", n, best, best / (double)n);
}

/* With another thread, which does nothing, sites that cross words are changed with their pages. */
static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc == 5 && !strcmp(argv[4], "thread") && argc--)
		CHECK(!pthread_create(&thread, NULL, idle, NULL));
	if (argc == 3 && !strcmp(argv[1], "start")) {
		run_start(strtoul(argv[2], NULL, 0));
		return 0;
	}
	if (argc != 4)
		return 2;
	seed = strtoull(argv[2], NULL, 0);
	if (!strcmp(argv[1], "every"))
		run_every((unsigned)strtoul(argv[3], NULL, 0));
	else if (!strcmp(argv[1], "busy"))
		run_busy();
	else
		run_damaged((unsigned)strtoul(argv[3], NULL, 0));
	return 0;
}
