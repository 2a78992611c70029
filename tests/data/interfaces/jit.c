/* SPDX-License-Identifier: MIT */
/*
 * lib/interfaces: code made at run time. Prints for each walk whether it comes to main: before registration,
 * registered with libgcc's functions, after deregistration. The made function saves rbx and sets it, so that a
 * walk has to restore it; and it is a frame by rbp, for ETCH_UNWIND_FRAME_POINTERS.
 */
#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind.h>

void __register_frame(void *);
void __deregister_frame(void *);
void __register_frame_info(void *, void *);
void *__deregister_frame_info(void *);

extern const char __start_main_text[], __stop_main_text[];

static int reached[2];
static uint64_t rbx_of_main;

static int is_main(uint64_t ip) { return ip - (uint64_t)__start_main_text < (uint64_t)(__stop_main_text - __start_main_text); }

static _Unwind_Reason_Code note(struct _Unwind_Context *c, void *arg)
{
	if (is_main(_Unwind_GetIP(c)) && !*(int *)arg) {
		*(int *)arg = 1;
		rbx_of_main = _Unwind_GetGR(c, 3);
	}
	return _URC_NO_REASON;
}

static __attribute__((noinline)) void walk(void)
{
	void *ips[64];

	reached[0] = reached[1] = 0;
	for (int i = backtrace(ips, 64); i--;)
		reached[0] |= is_main((uint64_t)ips[i]);
	_Unwind_Backtrace(note, &reached[1]);
}

static void handler(int sig)
{
	(void)sig;
	walk();
}

static void by_signal(void) { raise(SIGUSR1); }

/* push rbp; mov rsp,rbp; push rbx; sub $8,rsp; mov $0x1234,ebx; call *rdi; add $8,rsp; pop rbx; pop rbp; ret */
static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec, 0x08, 0xbb, 0x34, 0x12, 0x00, 0x00,
                               0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0xc3};

/* CIE: version 1, no augmentation, code 1, data -8, return address 16; CFA = rsp + 8, ra at CFA - 8.
 * FDE: absolute addresses, filled in. After 1: CFA = rsp + 16, rbp at CFA - 16; 3 later by rbp; 1: rbx at CFA - 24. */
static uint8_t frame[] __attribute__((aligned(8))) = {
	0x14, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0, 0, 0, /* 24 bytes */
	0x24, 0, 0, 0, 0x1c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x41, 0x83, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0};

#define RBX 0x77665544332211

__attribute__((section("main_text"), noinline)) static void call_with_rbx(void (*jit)(void (*)(void)), void (*f)(void))
{
	uint64_t rbx = RBX;

	__asm__ volatile("call *%1" : "+b"(rbx) : "r"(jit), "D"(f) : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	if (rbx != RBX)
		abort();
}

static const char *rbx_text(void)
{
	if (rbx_of_main == RBX)
		return "rbx";
	return rbx_of_main ? "wrong" : "unknown";
}

static __attribute__((noinline)) void call(void (*jit)(void (*)(void)), const char *what)
{
	call_with_rbx(jit, walk);
	printf("%s: %d %d", what, reached[0], reached[1]);
	call_with_rbx(jit, by_signal);
	printf(" %d %d %s\n", reached[0], reached[1], reached[1] ? rbx_text() : "-");
}

__attribute__((section("main_text"))) int main(void)
{
	uint8_t *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*jit)(void (*)(void)) = (void (*)(void (*)(void)))(uintptr_t)at;
	uint64_t start = (uint64_t)at, size = sizeof(code), object[8];

	memcpy(at, code, sizeof(code));
	memcpy(frame + 32, &start, 8);
	memcpy(frame + 40, &size, 8);
	signal(SIGUSR1, handler);
	call(jit, "unregistered");
	__register_frame(frame);
	call(jit, "registered");
	__deregister_frame(frame);
	call(jit, "deregistered");
	__register_frame_info(frame, object);
	call(jit, "registered");
	__deregister_frame_info(frame);
	return 0;
}
