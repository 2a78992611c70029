// SPDX-License-Identifier: MIT
/* pads.cc: throws through the functions of pads.S, and prints what the registers were at their landing pads. */
#include <cstdio>
#include <dlfcn.h>

extern "C" {
typedef void Then();
void pad_inside(Then *then), pad_inside_landing();
void pad_outside(Then *then), pad_outside_landing();
extern unsigned long landed[10];
}

static void then() { throw 7; }

/* What a value is: the landing pad, the stack pointer, another address of the stack, or an address in a file. */
static const char *what(unsigned long value, unsigned long landing)
{
	unsigned long sp = landed[9];
	Dl_info info;

	if (value == landing)
		return "the landing pad";
	if (value == sp)
		return "the stack pointer";
	if (value - (sp - 65536) < 131072)
		return "the stack";
	if (value > 65536 && dladdr(reinterpret_cast<void *>(value), &info))
		return info.dli_fname;
	return "something else";
}

static void show(const char *name, Then *landing)
{
	static const char *const names[] = {"rcx", "rsi", "rdi", "r8", "r9", "r10"};

	printf("%s: rdx %lu\n", name, landed[1]);
	for (int i = 0; i < 6; i++)
		printf("%s %s: %s\n", name, names[i], what(landed[2 + i], reinterpret_cast<unsigned long>(landing)));
}

template <void (*function)(Then *)> static void throw_through()
{
	try {
		function(then);
	} catch (int n) {
		printf("caught %d\n", n);
	}
}

int main()
{
	throw_through<pad_inside>();
	show("inside", pad_inside_landing);
	throw_through<pad_outside>();
	show("outside", pad_outside_landing);
}
