/* SPDX-License-Identifier: MIT */
/*
 * stress_tables.c: what libetch does with its tables, and no call through a site: a
 * program whose tables a fuzzer may damage at will. Exit 0, or 1 when libetch refuses
 * or finds something; anything else is a fault of libetch's.
 */
#include <etch/pv.h>
#include <stdint.h>
#include <stdio.h>

typedef long fn(long, long);
struct ops { fn *f, *g; void (*v)(void); };

__attribute__((noinline)) static long one(long a, long b) { return a + 10 * b; }
static long zero(long a, long b) { (void)a; (void)b; return 0; }
long native_second(long a, long b);
long native_two(long a, long b);
PV_NATIVE(native_second, "mov %rsi, %rax");
PV_NATIVE(native_two, "mov %rdi, %rax; sub %rsi, %rax");

DEFINE_PV_OPS(struct ops, ops) = {.f = one, .g = pv_ident_64, .v = pv_nop};
static DEFINE_PV_OPS(struct ops, own) = {.f = native_second, .g = zero, .v = pv_nop};
DEFINE_IMV(int, level) = 3;

/* Sites, for the tool: never run. */
long sites(long a, long b);
long sites(long a, long b)
{
	fn *f = own.f;

	ops.v();
	if (f)
		a += f(a, b);
	a += ops.f(a, b) + ops.g(b, a) + imv_read(level);
	own.v();
	return own.g(a, b);
}
long tail(long a, long b);
long tail(long a, long b) { return ops.g(a, b); }

int main(void)
{
	struct etch_info info = {.size = sizeof(info)};
	fn *const to[] = {zero, native_two, one, (fn *)0, native_second};
	int bad = 0;

	bad |= etch_info(&info);
	bad |= etch_verify(NULL, NULL) != 0;
	bad |= etch_sync(&ops, sizeof(ops));
	for (unsigned i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
		fn *other = to[(i + 1) % 5];
		struct etch_change c[] = {ETCH_CHANGE(&ops.g, &to[i]), ETCH_CHANGE(&own.f, &other)};

		bad |= pv_set(ops.f, to[i]) | pv_set(own.g, to[i]) | etch_set_batch(c, 2);
		bad |= imv_set(level, (int)i);
		bad |= etch_verify(NULL, NULL) != 0;
		if (i == 2)
			bad |= etch_seal(&own, sizeof(own));
	}
	bad |= etch_release(&ops, sizeof(ops)) | etch_release(&own, sizeof(own));
	bad |= etch_verify(NULL, NULL) != 0;
	printf("%lu calls, %lu sites: %s\n", info.calls, info.sites, bad ? "refused" : "done");
	return bad != 0;
}
