/* SPDX-License-Identifier: MIT */
/*
 * etch/extable.h: instructions that are allowed to fault.
 *
 *     static int read_int(const int *p, int *out)
 *     {
 *             int err = 0, v;
 *
 *             __asm__ __volatile__("2: {movl %2, %1|mov %1, %2}\n3:\n\t"
 *                                  ETCH_EX_EFAULT("2b", "3b", "%0")
 *                                  : "+r"(err), "=r"(v) : "m"(*p));
 *             *out = v;
 *             return err;             // 0, or -EFAULT and a value without meaning
 *     }
 *
 * Each macro adds an entry to the section __ex_table: the address of the instruction, the address
 * to resume at when it faults (the fixup), and what to do to a register before that. The idea, the
 * name and the types are Linux's (Documentation/arch/x86/exception-tables.rst). After
 * etch_fault_init() a SIGSEGV or SIGBUS at such an instruction resumes at its fixup; all other
 * faults are handled as before. `etch rewrite` sorts and checks the table.
 *
 * The header also works in assembly files (.S), with the same names as assembler macros:
 * ETCH_EX_PLAIN 1b, 2f. Use a macro in the section of its instruction: the entry then belongs to
 * the COMDAT group of that section (flag "?"). Otherwise linkers reject a template that is
 * instantiated in two files. Entries survive --gc-sections, and so does the code that they refer to
 * (SHF_GNU_RETAIN, "R": lld drops the table otherwise).
 */
#ifndef ETCH_EXTABLE_H
#define ETCH_EXTABLE_H

/* What happens to a register before execution resumes at the fixup (bits 0-7 of data). */
#define ETCH_EX_TYPE_PLAIN  0 /* nothing */
#define ETCH_EX_TYPE_EFAULT 1 /* register = -EFAULT, 64 bits */
#define ETCH_EX_TYPE_ZERO   2 /* register = 0, 64 bits */
#define ETCH_EX_TYPE_LEN    3 /* rcx = register + immediate * rcx: the bytes that a rep movs has left */
#define ETCH_EX_TYPE_LAST   3

#ifdef __ASSEMBLER__

.macro ETCH_EX_ENTRY from:req, to:req, data:req
	.pushsection __ex_table, "aR?", @progbits
	.balign 4
	.long (\from) - .
	.long (\to) - .
	.long \data
	.popsection
.endm
.macro ETCH_EX_PLAIN from:req, to:req
	ETCH_EX_ENTRY \from, \to, ETCH_EX_TYPE_PLAIN
.endm
/* reg: number of the register in instruction encoding, 0 = rax */
.macro ETCH_EX_EFAULT from:req, to:req, reg:req
	ETCH_EX_ENTRY \from, \to, (ETCH_EX_TYPE_EFAULT | \reg << 8)
.endm
.macro ETCH_EX_ZERO from:req, to:req, reg:req
	ETCH_EX_ENTRY \from, \to, (ETCH_EX_TYPE_ZERO | \reg << 8)
.endm
.macro ETCH_EX_LEN from:req, to:req, reg:req, imm:req
	ETCH_EX_ENTRY \from, \to, (ETCH_EX_TYPE_LEN | \reg << 8 | \imm << 16)
.endm

#else /* C and C++ */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ETCH_SEC_EXTABLE "__ex_table" /* struct etch_ex[] */

/*
 * One entry. 12 bytes, 4-byte aligned. An empty entry, whose instruction the linker has dropped,
 * refers to no code.
 */
struct etch_ex {
	int32_t insn;  /* the instruction that may fault, relative to &insn */
	int32_t fixup; /* address to resume at, relative to &fixup */
	uint32_t data; /* bits 0-7 type, 8-11 register, 12-15 zero, 16-31 signed immediate */
};

static inline unsigned etch_ex_type(const struct etch_ex *e) { return e->data & 0xff; }
static inline unsigned etch_ex_reg(const struct etch_ex *e) { return e->data >> 8 & 15; }
static inline int etch_ex_imm(const struct etch_ex *e) { return (int16_t)(e->data >> 16); }

/* Is an entry well formed: is its type known, and are unused fields zero? The references in it are not checked. */
static inline int etch_ex_valid(const struct etch_ex *e)
{
	unsigned type = etch_ex_type(e);

	if (type > ETCH_EX_TYPE_LAST || (e->data & 0xf000))
		return 0;
	if (type == ETCH_EX_TYPE_PLAIN && (e->data & ~0xffu))
		return 0;
	return type == ETCH_EX_TYPE_LEN || !(e->data >> 16);
}

/* ---- for inline assembly ------------------------------------------------------ */

/* Sets the assembler symbol etch_ex_n_ to the number of the register whose name an operand prints as. */
#define ETCH_EX_NAMES_                                                                       \
	".irp etch_r, rax,rcx,rdx,rbx,rsp,rbp,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15\n\t"         \
	".ifc \\etch_o, {%%|}\\etch_r\n\t.set etch_ex_n_, etch_ex_i_\n\t.endif\n\t"              \
	".set etch_ex_i_, etch_ex_i_ + 1\n\t.endr\n\t"                                           \
	".set etch_ex_i_, 0\n\t"                                                                 \
	".irp etch_r, eax,ecx,edx,ebx,esp,ebp,esi,edi,r8d,r9d,r10d,r11d,r12d,r13d,r14d,r15d\n\t" \
	".ifc \\etch_o, {%%|}\\etch_r\n\t.set etch_ex_n_, etch_ex_i_\n\t.endif\n\t"              \
	".set etch_ex_i_, etch_ex_i_ + 1\n\t.endr\n\t"
#define ETCH_EX_NUMBER_(operand)                                 \
	".set etch_ex_n_, -1\n\t.set etch_ex_i_, 0\n\t"              \
	".macro etch_ex_find_ etch_o\n\t" ETCH_EX_NAMES_ ".endm\n\t" \
	"etch_ex_find_ " operand "\n\t.purgem etch_ex_find_\n\t"     \
	".if etch_ex_n_ < 0\n\t.error \"etch: not a general register of 32 or 64 bits\"\n\t.endif\n\t"
#define ETCH_EX_ENTRY_(from, to, data)                           \
	".pushsection __ex_table,\"aR?\",@progbits\n\t.balign 4\n\t" \
	".long (" from ") - .\n\t.long (" to ") - .\n\t.long " data "\n\t.popsection\n\t"
#define ETCH_EX_REG_(from, to, type, operand, imm) \
	ETCH_EX_NUMBER_(operand) ETCH_EX_ENTRY_(from, to, type " | etch_ex_n_ << 8 | (" imm ") << 16")

/* from, to: labels as strings, "1b"; operand: a register of the asm, "%0" or "%k0". */
#define ETCH_EX_PLAIN(from, to)             ETCH_EX_ENTRY_(from, to, "0")
#define ETCH_EX_EFAULT(from, to, operand)   ETCH_EX_REG_(from, to, "1", operand, "0")
#define ETCH_EX_ZERO(from, to, operand)     ETCH_EX_REG_(from, to, "2", operand, "0")
/* rcx = operand + imm * rcx. imm: bytes per iteration, 1 to 8 for rep movs. */
#define ETCH_EX_LEN(from, to, operand, imm) ETCH_EX_REG_(from, to, "3", operand, imm)

/* ---- calls --------------------------------------------------------------------- */

/*
 * Installs handlers of SIGSEGV and SIGBUS. Later calls do nothing, unless a previous handler with
 * SA_RESETHAND has run in the meantime, which uninstalls etch's handler as well. etch's handler
 * calls the previously installed one for every fault that is not in a table, with its own flags and
 * mask; if that was the default action, the fault recurs without etch's handler and gives the same
 * core dump. A handler that the program installs later replaces etch's: let it call
 * etch_fixup_exception. Returns 0, or a negative errno. Thread-safe; not to be called from a signal
 * handler.
 */
int etch_fault_init(void);

/*
 * For programs with a SIGSEGV handler of their own: if the interrupted instruction is in the table
 * of a loaded module, edits the context so that execution resumes at the fixup, and returns 1; else
 * returns 0 and changes nothing. Call it only if si_code > 0: a signal sent by kill(2) or the like
 * is unrelated to the instruction. Install the handler with a full sa_mask, so that no other
 * handler runs while SIGSEGV is blocked. `ucontext` is the handler's third argument (ucontext_t *).
 * Async-signal-safe, thread-safe, lock-free.
 */
int etch_fixup_exception(void *ucontext);

/* Is there an entry for this instruction? 1 or 0. Async-signal-safe. */
int etch_fault_expected(const void *instruction);

/* ---- what the header emits into each object file ------------------------------------ */

/* Called by the constructor below; not for programs. */
void etch_extable_load_v1(const struct etch_ex *start, const struct etch_ex *stop);
void etch_extable_unload_v1(const struct etch_ex *start);

#ifndef ETCH_NO_MODULE /* libetch registers its own table */
#define ETCH_HIDDEN_WEAK_ __attribute__((weak, visibility("hidden")))
extern const struct etch_ex etch_ex_start_[] __asm__("__start___ex_table") ETCH_HIDDEN_WEAK_;
extern const struct etch_ex etch_ex_stop_[] __asm__("__stop___ex_table") ETCH_HIDDEN_WEAK_;
/* gcc 12 forgets the visibility of a weak declaration if the file does not define the symbol. */
__asm__(".weak __start___ex_table, __stop___ex_table\n\t.hidden __start___ex_table, __stop___ex_table");

/* The linker keeps one definition per module. Priority 101 makes it run before the program's own constructors. */
ETCH_HIDDEN_WEAK_ __attribute__((constructor(101))) void etch_extable_ctor_(void);
void etch_extable_ctor_(void)
{
	if (&etch_ex_start_[0] != &etch_ex_stop_[0])
		etch_extable_load_v1(etch_ex_start_, etch_ex_stop_);
}
ETCH_HIDDEN_WEAK_ __attribute__((destructor(101))) void etch_extable_dtor_(void);
void etch_extable_dtor_(void)
{
	if (&etch_ex_start_[0] != &etch_ex_stop_[0])
		etch_extable_unload_v1(etch_ex_start_);
}
#undef ETCH_HIDDEN_WEAK_
#endif /* ETCH_NO_MODULE */

#ifdef __cplusplus
}
#endif
#endif /* C */
#endif
