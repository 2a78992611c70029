/* SPDX-License-Identifier: MIT */
/*
 * A shared object with a table of its own, for tests/data/faults/modules.c. UNSORTED: its
 * entries are the other way round than its code. DAMAGED=n: one of them is wrong.
 */
#include <errno.h>

#include <etch/extable.h>

#ifdef UNSORTED
/* plugin_second's entry comes before plugin_first's. */
#define TABLE_FIRST
#define TABLE_SECOND ETCH_EX_ENTRY_("at_second", "to_second", "1") ETCH_EX_ENTRY_("at_first", "to_first", "2")
#else
#define TABLE_FIRST  ETCH_EX_ENTRY_("at_first", "to_first", "2")
#define TABLE_SECOND ETCH_EX_ENTRY_("at_second", "to_second", "1")
#endif

__asm__(".text\n"
        ".globl plugin_first, plugin_at_first, plugin_second, plugin_at_second\n\t"
        ".type plugin_first, @function\n\t.type plugin_second, @function\n\t"
        "plugin_first: in_first: mov $7, %eax\n"
        "plugin_at_first: at_first: mov (%rdi), %rax\n"
        "to_first: ret\n"
        "plugin_second: in_second: mov $7, %eax\n"
        "plugin_at_second: at_second: mov (%rdi), %rax\n"
        "to_second: ret\n\t" TABLE_FIRST TABLE_SECOND
#if DAMAGED == 1
        ETCH_EX_ENTRY_("in_first", "to_first", "4") /* type */
#elif DAMAGED == 2
        ETCH_EX_ENTRY_("in_first", "to_first", "0x10000") /* an immediate that PLAIN has not */
#elif DAMAGED == 3
        ETCH_EX_ENTRY_("in_first", "to_first", "0x1003") /* a bit that is zero */
#elif DAMAGED == 4
        ETCH_EX_ENTRY_("in_first", "plugin_data", "0") /* to go on where no code is */
#elif DAMAGED == 5
        ".pushsection __ex_table,\"aR?\",@progbits\n\t.byte 1\n\t.popsection\n\t" /* one byte more */
#elif DAMAGED == 6
        ETCH_EX_ENTRY_("plugin_data", "to_first", "0") /* no instruction: of no effect */
#elif DAMAGED == 7
        ".pushsection __ex_table,\"aR?\",@progbits\n\t.long 0x7fffffff, 0x7fffffff, 0\n\t.popsection\n\t" /* likewise */
#elif DAMAGED == 8
        ".pushsection __ex_table,\"aR?\",@progbits\n\t.long in_first - ., 0x7fffffff, 0\n\t.popsection\n\t"
#endif
        ".data\nplugin_data: .quad 0\n.text");

/* A call that is inlined: the macro for C. */
long plugin_c(const long *p);
long plugin_c(const long *p)
{
	long v = 3;

	__asm__ __volatile__("1: mov %1, %0\n2:\n\t" ETCH_EX_EFAULT("1b", "2b", "%0") : "+r"(v) : "m"(*p));
	return v;
}
