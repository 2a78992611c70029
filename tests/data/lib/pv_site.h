/* SPDX-License-Identifier: MIT */
/*
 * pv_site.h: call sites, their tables and what they call, written by hand, as the
 * tool would leave them.
 */
#ifndef TEST_PV_SITE_H
#define TEST_PV_SITE_H

#include <etch/pv_forms.h>

#include "site.h"

/* An entry of __pv_sites for the instruction at the last label 771. */
#define CALL_ENTRY(slot, form, regs, shape, flags)                             \
	"\n\t.pushsection __pv_sites,\"ao\",@progbits,.text\n\t.balign 4\n\t"  \
	".long 771b - .\n\t.long " slot " - .\n\t"                             \
	".byte " STR(form) ", " STR(regs) ", " STR(shape) ", " STR(flags) "\n\t.popsection\n\t"

/* long name(long, long): calls through `slot`, by an instruction `skip` bytes after an
 * 8-byte boundary (live up to 2). name_site is its address. */
#define CALLER(name, slot, skip)                                               \
	extern long name(long, long);                                          \
	extern const volatile uint8_t name##_site[];                           \
	__asm__(".text\n\t.balign 16\n\t.globl " #name ", " #name "_site\n" #name ":\tsub $8, %rsp\n\t" \
	        ".balign 8\n\t.fill " STR(skip) ", 1, 0x90\n" #name "_site:\n771:\tcall *" slot "(%rip)\n\t" \
	        CALL_ENTRY(slot, 64, 0, 6, 0) "add $8, %rsp\n\tret")
/* The same by a tail jump. */
#define JUMPER(name, slot, skip)                                               \
	extern long name(long, long);                                          \
	extern const volatile uint8_t name##_site[];                           \
	__asm__(".text\n\t.balign 16\n\t.globl " #name ", " #name "_site\n" #name ":\n\t" \
	        ".fill " STR(skip) ", 1, 0x90\n" #name "_site:\n771:\tjmp *" slot "(%rip)" \
	        CALL_ENTRY(slot, 65, 0, 6, 0))
/* The same through the GOT: the object's address in %r11, the slot `disp` bytes in,
 * the disp / 8 coded in regs. By call *disp8(%r11), which is 4 bytes long. */
#define FAR_CALLER(name, object, disp) FAR_CALLER_AT(name, object, disp, 0)
#define FAR_CALLER_AT(name, object, disp, skip)                                \
	extern long name(long, long);                                          \
	extern const volatile uint8_t name##_site[];                           \
	__asm__(".text\n\t.balign 16\n\t.globl " #name ", " #name "_site\n" #name ":\tsub $8, %rsp\n\t" \
	        "mov " object "@GOTPCREL(%rip), %r11\n\t.balign 8\n\t.fill " STR(skip) ", 1, 0x90\n" #name "_site:\n" \
	        "771:\t.byte 0x41, 0xff, 0x53, " STR(disp) "\n\t"              \
	        ".pushsection __pv_sites,\"ao\",@progbits,.text\n\t.balign 4\n\t" \
	        ".long 771b - .\n\t.long " object "@GOTPCREL\n\t"               \
	        ".byte 64, 11 | (" STR(disp) " / 8) << 4, 4 | 2 << 4 | 1 << 6, 2\n\t.popsection\n\t" \
	        "add $8, %rsp\n\tret")

/* A function with a record in __pv_native. flags: 1 checked, 2 one instruction. */
#define NATIVE(name, code, flags)                                              \
	extern long name(long, long);                                          \
	__asm__(".text\n\t.balign 16\n\t.globl " #name "\n\t.type " #name ", @function\n" #name ":\n" \
	        "770:\n771:\t" code "\n772:\tret\n\t.balign 16\n\t"                  \
	        ".pushsection __pv_native,\"a\",@progbits\n\t.balign 4\n\t"    \
	        ".long 770b - .\n\t.long 771b - .\n\t.byte 772b - 771b, " STR(flags) ", 0, 0\n\t.popsection")

/* What stands at a site. */
enum call_form { INDIRECT, DIRECT, INLINE };

static inline enum call_form call_form(const volatile uint8_t *site)
{
	uint8_t b[6];

	for (int i = 0; i < 6; i++)
		b[i] = site[i];
	if (b[0] == 0xff || b[1] == 0xff)
		return INDIRECT;
	return b[1] == 0xe8 || b[1] == 0xe9 ? DIRECT : INLINE;
}

#endif
