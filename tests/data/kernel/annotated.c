/* SPDX-License-Identifier: MIT */
/*
 * C as in a kernel, with what Linux 6.1 says of its code in special sections: static keys, alternatives, fixups, warnings
 * that go on, static calls. gcc makes the retpolines and return thunks. For tests/objtool/test_objtool_judged.py.
 */
#define KEY(code) \
	".pushsection __jump_table, \"aw\"\n.balign 8\n.long 1b - ., %l[yes] - .\n.quad %c0 + " #code " - .\n.popsection\n"
#define ALTERNATIVE(feature, to) \
	".pushsection .altinstructions, \"a\"\n.long 661b - ., 663f - .\n.word " #feature FLAGS \
	"\n.byte 662b - 661b, 664f - 663f\n.popsection\n.pushsection .altinstr_replacement, \"ax\"\n663: " to "\n664:\n.popsection\n"
#ifdef LINUX_6_12
#define FLAGS ", 0"
#else
#define FLAGS ""
#endif
#define GOES_ON ".pushsection .discard.reachable\n.long 2b - .\n.popsection\n"
#define FIXUP(type) ".pushsection __ex_table, \"a\"\n.balign 4\n.long 1b - ., 2b - ., " #type "\n.popsection\n"

struct key {
	int count;
};
struct key tracing, slow;
extern void __SCK__hook(void);
void *hook_key = (void *)__SCK__hook; /* as an exported key is */

void panic(const char *, ...) __attribute__((noreturn));
void other(void *), more(long), log_it(const char *);

static inline __attribute__((always_inline)) int is_traced(void)
{
	asm goto("1: jmp %l[yes]\n" KEY(2) : : "i"(&tracing) : : yes);
	return 0;
yes:
	return 1;
}

static inline __attribute__((always_inline)) int is_quick(void)
{
	asm goto("1: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n" KEY(1) : : "i"(&slow) : : yes);
	return 1;
yes:
	return 0;
}

static inline __attribute__((always_inline)) int has_feature(void)
{
	asm goto("661: jmp 6f\n.nops 3\n662:\n" ALTERNATIVE(0x34, "jmp %l[no]") ALTERNATIVE(0x1234, "")
	         ".pushsection .altinstr_aux, \"ax\"\n6: testb $4, tracing\njnz %l[yes]\njmp %l[no]\n.popsection\n"
	         : : : "cc" : yes, no);
yes:
	return 1;
no:
	return 0;
}

void warns(long x)
{
	if (__builtin_expect(x < 0, 0)) {
		asm volatile("1: ud2\n2:\n" GOES_ON);
		log_it("negative");
	}
	more(x);
}

long keyed(long x)
{
	long kept = x * 3;

	if (is_traced()) {
		other(&kept);
		more(kept);
	}
	if (!is_quick()) {
		more(kept + 1);
		kept -= x;
	}
	return kept + x;
}

int featured(void *p)
{
	int n = 0;

	other(p);
	if (has_feature())
		other(&n);
	more(n);
	return n;
}

long saves_flags(void)
{
	long flags;

	asm volatile("661: call *pv_save\n662:\n" ALTERNATIVE(0x100, "pushfq\npop %%rax")
	             ".pushsection .discard.retpoline_safe\n.quad 661b\n.popsection\n"
	             : "=a"(flags) : : "memory", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
	more(flags);
	return flags;
}

long reads(const long *p)
{
	long x = 0, failed = 0;

	asm volatile("661: .nops 3\n662:\n" ALTERNATIVE(0x134, ".byte 0x0f, 0x01, 0xcb") : : : "memory");
	asm volatile("1: mov %2, %0\njmp 3f\n2: mov $-14, %1\n3:\n" FIXUP(3) : "=r"(x), "+r"(failed) : "m"(*p));
	asm volatile("661: .nops 3\n662:\n" ALTERNATIVE(0x134, ".byte 0x0f, 0x01, 0xca") : : : "memory");
	if (failed)
		panic("no %ld", failed);
	more(x);
	return x;
}

void calls(void (*f)(long), long (*g)(void))
{
	f(4);
	asm volatile("call __SCT__hook" : : : "memory", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
	more(g());
}

void ends(const char *s)
{
	char *copy = __builtin_alloca(__builtin_strlen(s) + 1);

	__builtin_strcpy(copy, s);
	log_it(copy);
	asm volatile("1: ud2\n");
	__builtin_unreachable();
}

void aligned(long n)
{
	long lines[16] __attribute__((aligned(64)));
	char capacity[n];

	other(lines);
	other(capacity);
	if (n > 100)
		panic("large");
	more(lines[n]);
}
