/* SPDX-License-Identifier: MIT */
/* How much of a stack each call of libetch takes: it runs on one that has been painted. */
#include <etch/imv.h>
#include <etch/pv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAINT 0xa5

DEFINE_IMV(int, value) = 0;
ETCHED struct { char c; int a; long b; double d; long many[100]; } cfg = {1, 2, 3, 4, {5}};
ETCHED long single[60];
struct ops { long (*f)(long); long (*g)(long); void (*h)(void); };
static long up(long x) { return x + 1; }
static long down(long x) { return x - 1; }
static void nothing(void) {}
DEFINE_PV_OPS(struct ops, ops) = {up, pv_ident_64, nothing};

static int err, turn;
static unsigned char *stack;
static size_t size;
static ucontext_t back, there;

static void set_imv(void) { err = imv_set(value, ++turn); }
static void set_field(void) { err = etch_set(&cfg.b, ++turn); }
static void set_char(void) { err = etch_set(&cfg.c, (char)++turn); }
static void set_double(void) { err = etch_set(&cfg.d, ++turn); }
static void set_all(void)
{
	static long many[100];

	many[turn++ % 100]++;
	err = etch_set_bytes(cfg.many, many, sizeof(many));
}
static void set_batch(void)
{
	static long values[60];
	static struct etch_change changes[60];

	turn++;
	for (int i = 0; i < 60; i++) {
		values[i] += turn * i + 1;
		changes[59 - i] = (struct etch_change){&single[i], &values[i], sizeof(long)};
	}
	err = etch_set_batch(changes, 60);
}
static void set_call(void) { err = pv_set(ops.f, ++turn & 1 ? down : up); }
static void set_ident(void) { err = pv_set(ops.g, ++turn & 1 ? up : pv_ident_64); }
static void set_nop(void) { err = pv_set(ops.h, ++turn & 1 ? pv_nop : (void *)nothing); }
static void sync_all(void) { err = etch_sync(&cfg, sizeof(cfg)); }
static void release(void) { err = etch_release(&cfg, sizeof(cfg)); }
static void seal(void) { err = etch_seal(&ops, sizeof(ops)); }
static void refused(void) { err = etch_set_bytes(&turn, &err, 4) != ETCH_ENOTETCHED; }
static void info(void) { err = etch_info(&(struct etch_info){.size = sizeof(struct etch_info)}); }
static void verify(void) { err = (int)etch_verify(NULL, NULL); }

static const struct { const char *name; void (*f)(void); } calls[] = {
	{"set_imv", set_imv}, {"set_field", set_field}, {"set_char", set_char}, {"set_double", set_double}, {"set_all", set_all},
	{"set_batch", set_batch}, {"set_call", set_call}, {"set_ident", set_ident}, {"set_nop", set_nop}, {"release", release},
	{"sync", sync_all}, {"seal", seal}, {"sealed", set_call}, {"refused", refused}, {"info", info}, {"verify", verify},
};

static size_t used(void (*f)(void))
{
	size_t i = 0;

	memset(stack, PAINT, size);
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = size;
	there.uc_link = &back;
	makecontext(&there, f, 0);
	swapcontext(&back, &there);
	while (i < size && stack[i] == PAINT)
		i++;
	return size - i;
}

__attribute__((noinline)) static long reads(long x)
{
	ops.h();
	for (int i = 0; i < 60; i += 20)
		x += single[i];
	return x + imv_read(value) + cfg.a + cfg.b + cfg.c + (long)cfg.d + cfg.many[3] + ops.f(x) + ops.g(x);
}

int main(int argc, char **argv)
{
	char *all;

	/* A page that nobody may touch, and a stack of so many bytes after it. */
	size = argc > 1 ? (size_t)atol(argv[1]) : 65536;
	all = mmap(NULL, 4096 + 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED || mprotect(all, 4096, PROT_NONE))
		return 3;
	stack = (unsigned char *)all + 4096;
	for (int twice = 0; twice < 2; twice++)
		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			printf("%s %zu %d\n", calls[i].name, used(calls[i].f), err);
	return reads(1) == 0;
}
