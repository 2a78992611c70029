/* SPDX-License-Identifier: MIT */
/*
 * As GHC's code is, by hand (test_haskell.py): a run-time system of two functions, and code with a stack of its own,
 * which rbp points to, that is entered by jumps after info tables.
 *
 * RUN:      with the run-time system; without, the code comes back through the symbol of another file
 * CODE:     with the code
 * TWICE:    with code after a switch that overlaps what its info table decodes as
 * ALIGNED:  run() aligns its frame, so that the CFA is only in a slot, and the caller's rbp at a distance from rsp
 * RESERVED: bytes that run() makes space for
 */
	.text

#ifdef RUN
	.globl run, back
	.type run, @function
run:
	.cfi_startproc
#ifdef ALIGNED
	lea 8(%rsp), %r10
	.cfi_def_cfa r10, 0
	and $-16, %rsp
	sub $64, %rsp
	mov %r10, 48(%rsp)
#else
	sub $48, %rsp
#endif
	mov %rsp, %rax
	sub $RESERVED, %rsp
	mov %rbx, 0(%rax)
	mov %rbp, 8(%rax)
	mov %r12, 16(%rax)
	mov %r13, 24(%rax)
	mov %r14, 32(%rax)
	mov %r15, 40(%rax)
	/* From here on GHC says where rsp and all others were in a form that no row has. */
	.cfi_def_cfa rsp, 0
	.cfi_offset rbp, RESERVED + 8
	.cfi_offset rip, RESERVED + 48
	.cfi_escape 0x16, 7, 4, 0x77, 0xb8, 0x80, 0x01
	mov %rsi, %r13
	mov %rdi, %rax
	jmp *%rax
back:
	mov %rbx, %rax
	add $RESERVED, %rsp
	mov 0(%rsp), %rbx
	mov 8(%rsp), %rbp
	mov 16(%rsp), %r12
	mov 24(%rsp), %r13
	mov 32(%rsp), %r14
	mov 40(%rsp), %r15
#ifdef ALIGNED
	mov 48(%rsp), %r10
	lea -8(%r10), %rsp
#else
	add $48, %rsp
#endif
	ret
	.cfi_endproc
	.size run, . - run
#endif

#ifdef CODE
	.macro info name, type
	.p2align 3
	.quad 0
	.long \type, 0
\name:
	.endm

	/* The registers that r13 points to begin with a pointer to the stack. */
	.globl work_info
	.type work_info, @function
	info work_info, 14
	mov (%r13), %rbp
	lea then_info(%rip), %rax
	add $-16, %rbp
	mov %rax, 0(%rbp)
	mov $3, %ebx
	mov %rbx, 64(%rsp)      /* a spill */
	sub $8, %rsp
	mov %rbp, %rdi
	call outside@PLT
	add $8, %rsp
	mov 64(%rsp), %rbx
	jmp *(%rbp)
	.size work_info, . - work_info

	/* Only the address that work_info takes says that there is something: a switch. */
	info then_info, 30
	mov %rbx, %rcx
	and $3, %ecx
	lea table(%rip), %rax
	movslq (%rax, %rcx, 8), %rcx
	add %rcx, %rax
	jmp *%rax
one:	add $1, %rbx
	jmp both
two:	push $5                 /* an argument on the stack, and one for alignment */
	push $4
	mov %rbp, %rdi
	call outside@PLT
	add $16, %rsp
both:	add $16, %rbp
	lea thunk_info(%rip), %rbx
	and $-8, %rbx
	jmp *%rbx

	info thunk_info, 15
	mov $7, %ebx
	jmp last

	/* Without an info table, and only jumped to. */
	.p2align 3
last:
	add $35, %rbx
	mov back@GOTPCREL(%rip), %rcx
	jmp *%rcx

	/* Without an info table, and only C knows its address: as the run-time system's stg_returnToStackTop. */
	.globl first
	.type first, @function
	.p2align 3
first:
	mov (%r13), %rbp
	add $-8, %rbp
	lea then_first_info(%rip), %rax
	mov %rax, 0(%rbp)
	mov $1, %ebx
	jmp *0(%rbp)
	.size first, . - first

	info then_first_info, 30
	add $8, %rbp
	jmp work_info

	/* Like such code, with one difference: C calls it, or it returns. */
	.globl called_info, returns_info, spills_info
	.type called_info, @function
	info called_info, 14
	add $8, %rbp
	jmp *(%rbp)
	.size called_info, . - called_info
	.type returns_info, @function
	info returns_info, 14
	test %rbx, %rbx
	jz 1f
	jmp *(%rbp)
1:	ret
	.size returns_info, . - returns_info

	/* Without an info table; code that has one jumps into its middle, with as much on the C stack. */
	.globl middle
	.type middle, @function
	.p2align 3
middle:
	sub $8, %rsp
1:	call outside@PLT
	add $8, %rsp
	mov back@GOTPCREL(%rip), %rcx
	jmp *%rcx
	.size middle, . - middle

	info spills_info, 30
	sub $8, %rsp
	mov %rbp, %rdi
	jmp 1b

#ifdef TWICE
	/*
	 * The code after the switch is looked through, one instruction after the other: the bytes of the info table, except
	 * for the first, decode, and the last of them with those of found_info to where `2` is. Then the address that is taken is
	 * followed. The code there makes no jump that is new; only now something begins at `held`, which nothing leads to.
	 */
	.globl twice_info
	.type twice_info, @function
	info twice_info, 14
	lea found_info(%rip), %rax
	mov %rax, 0(%rbp)
	and $-8, %rbx
	jmp *%rbx
	.p2align 3
	.quad 6                 /* no instruction begins with it */
	.long 30, 0
found_info:
	jmp 2f                  /* 00 | eb 04 | 48 83 c5 08: 00 eb, 04 48, 83 c5 08 */
held:	add $8, %rbp
2:	jmp work_info@PLT
	.size twice_info, . - twice_info
#endif

	.section .rodata
	.p2align 3
table:
	.long both - table, 0
	.long one - table, 0
	.long one - table, 0
	.long two - table, 0
#endif
	.section .note.GNU-stack, "", @progbits
