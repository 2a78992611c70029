/* SPDX-License-Identifier: MIT */
#include <etch/imv.h>

#include "parts/use.h"

DEFINE_IMV(int, v) = 3;
DEFINE_IMV(long, w) = 5;
DEFINE_IMV(unsigned char, c) = 7;

static volatile int stop, wrong;

static NOINLINE int get_v(void) { return imv_read(v); }
static NOINLINE long get_w(void) { return imv_read(w); }
static NOINLINE int get_c(void) { return imv_read(c); }

static void *reader(void *arg)
{
	int before = 3, now;

	while (!stop) {
		now = get_v();
		if (now < before)
			wrong = 1;
		before = now;
	}
	return arg;
}

static int sets(void)
{
	static const long wide[] = {-1, 1L << 40, 0xffffffff, -0x80000000L, 6};

	for (int i = 4; i < 1000; i++)
		CHECK(!imv_set(v, i) && get_v() == i && imv_read(v) == i);
	for (unsigned i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
		CHECK(!imv_set(w, wide[i]) && get_w() == wide[i]);
	for (int i = 0; i < 256; i++)
		CHECK(!imv_set(c, i) && get_c() == i);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	long other = 77;
	int err;

	if (is_asked(argc, argv, "refused")) {
		CHECK(imv_set(v, 9) == ETCH_EFORMAT && get_v() == 3 && _imv_read(v) == 3);
		return 0;
	}
	CHECK(get_v() == 3 && get_w() == 5 && get_c() == 7);
	CHECK(!pthread_create(&thread, NULL, reader, NULL));
	err = sets();
	stop = 1;
	CHECK(!pthread_join(thread, NULL) && !err && !wrong);
	if (is_asked(argc, argv, "immediate")) {
		CHECK(poke(ETCH_ADDR(v__imv), &other, sizeof(int)) && poke(ETCH_ADDR(w__imv), &other, sizeof(long)) &&
		      poke(ETCH_ADDR(c__imv), &other, 1));
		CHECK(get_v() == 999 && get_w() == 6 && get_c() == 255);
	}
	return 0;
}
