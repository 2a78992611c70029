/* SPDX-License-Identifier: MIT */
/*
 * copy_x86.S: copy loops that return the exact number of bytes not copied.
 *
 *     size_t NAME(void *dst, const void *src, size_t n);     returns bytes NOT copied
 *
 * Three rules keep that number exact, whatever another thread maps or unmaps at the same time:
 *  - Bytes are stored in order of address: what has been stored is always one contiguous range.
 *  - A block is loaded as a whole, then stored as a whole, then rdi, rsi and rdx are advanced. So at a load they
 *    describe what is still to be copied; a store that faults has a fixup that first advances them by what its block
 *    has stored before.
 *  - After a fault the rest is copied byte by byte, up to the byte that faults: rep movsb leaves the remaining count in
 *    rcx (Intel SDM vol. 2, REP: the registers are those of the iteration that faulted).
 * Stored bytes are counted and never read again from the source, which may be unmapped by then; no byte after the
 * counted ones has been written.
 *
 * Leaf functions that use no stack. DF is clear, as the System V ABI requires at a call.
 */
#include <etch/extable.h>
#ifdef __CET__ /* the property note that the compiler emits for C files */
#include <cet.h>
#endif

	.text

/* An instruction that may fault. Label 99 is the end of the surrounding function. */
.macro EX insn:vararg
9:	\insn
	ETCH_EX_PLAIN 9b, 99f
.endm

/* A store that resumes at label 99\at when it faults: see FIXUPS. */
.macro EX_AT at, insn:vararg
9:	\insn
	ETCH_EX_PLAIN 9b, 99\at\()f
.endm

/* Avoids the AVX-SSE transition penalty after ymm0 to ymm15 are used (SDM vol. 1, 14.8.2, "mixing"). The registers
 * zmm20 to zmm23 of the avx512 variants cause no penalty. */
.macro VZERO size
	.if \size == 32
	vzeroupper
	.endif
.endm

/* An unaligned mov: LOAD size, memory, register; STORE size, fixup, register, memory. */
.macro LOAD size, at:vararg
	.if \size == 64
	EX vmovdqu64 \at
	.elseif \size == 32
	EX vmovdqu \at
	.else
	EX movdqu \at
	.endif
.endm
.macro STORE size, fixup, at:vararg
	.if \size == 64
	EX_AT \fixup, vmovdqu64 \at
	.elseif \size == 32
	EX_AT \fixup, vmovdqu \at
	.else
	EX_AT \fixup, movdqu \at
	.endif
.endm

/* Copies 0 to 15 bytes and returns. */
.macro TAIL_SMALL
	cmp	$8, %edx
	jae	80f
	cmp	$4, %edx
	jae	40f
	cmp	$2, %edx
	jae	20f
	test	%edx, %edx
	jz	10f
	EX movzbl (%rsi), %eax
	EX movb	%al, (%rdi)
10:	xor	%eax, %eax
	ret
20:	EX movzwl (%rsi), %eax
	EX movzwl -2(%rsi,%rdx), %ecx
	EX movw	%ax, (%rdi)
	EX_AT 02, movw %cx, -2(%rdi,%rdx)
	xor	%eax, %eax
	ret
40:	EX movl	(%rsi), %eax
	EX movl	-4(%rsi,%rdx), %ecx
	EX movl	%eax, (%rdi)
	EX_AT 04, movl %ecx, -4(%rdi,%rdx)
	xor	%eax, %eax
	ret
80:	EX movq	(%rsi), %rax
	EX movq	-8(%rsi,%rdx), %rcx
	EX movq	%rax, (%rdi)
	EX_AT 08, movq %rcx, -8(%rdi,%rdx)
	xor	%eax, %eax
	ret
.endm

/* Copies v to 2v bytes and returns. fixup: the fixup of the second store. */
.macro TWO v, r, fixup
	LOAD \v, (%rsi), %\r\()0
	LOAD \v, -\v(%rsi,%rdx), %\r\()1
	STORE \v, , %\r\()0, (%rdi)
	STORE \v, \fixup, %\r\()1, -\v(%rdi,%rdx)
	xor	%eax, %eax
	VZERO \v
	ret
.endm

/* Copies 2v to 4v bytes and returns. */
.macro FOUR v, r
	LOAD \v, (%rsi), %\r\()0
	LOAD \v, \v(%rsi), %\r\()1
	LOAD \v, -2*\v(%rsi,%rdx), %\r\()2
	LOAD \v, -\v(%rsi,%rdx), %\r\()3
	STORE \v, , %\r\()0, (%rdi)
	STORE \v, 1, %\r\()1, \v(%rdi)
	STORE \v, 2, %\r\()2, -2*\v(%rdi,%rdx)
	STORE \v, 70, %\r\()3, -\v(%rdi,%rdx)
	xor	%eax, %eax
	VZERO \v
	ret
.endm

/* Copies a block of 4v bytes and advances. */
.macro BLOCK v, r
	LOAD \v, (%rsi), %\r\()0
	LOAD \v, \v(%rsi), %\r\()1
	LOAD \v, 2*\v(%rsi), %\r\()2
	LOAD \v, 3*\v(%rsi), %\r\()3
	STORE \v, , %\r\()0, (%rdi)
	STORE \v, 1, %\r\()1, \v(%rdi)
	STORE \v, 2, %\r\()2, 2*\v(%rdi)
	STORE \v, 3, %\r\()3, 3*\v(%rdi)
	MOVE_ON $4*\v
.endm

.macro MOVE_ON by
	add	\by, %rsi
	add	\by, %rdi
	sub	\by, %rdx
.endm

/* Copies the last 4v bytes, the first of which may have been copied before. */
.macro LAST v, r
	LOAD \v, -4*\v(%rsi,%rdx), %\r\()0
	LOAD \v, -3*\v(%rsi,%rdx), %\r\()1
	LOAD \v, -2*\v(%rsi,%rdx), %\r\()2
	LOAD \v, -\v(%rsi,%rdx), %\r\()3
	STORE \v, , %\r\()0, -4*\v(%rdi,%rdx)
	STORE \v, 71, %\r\()1, -3*\v(%rdi,%rdx)
	STORE \v, 72, %\r\()2, -2*\v(%rdi,%rdx)
	STORE \v, 73, %\r\()3, -\v(%rdi,%rdx)
.endm

/*
 * Where a faulting store resumes: advances by what its block has stored, then copies the rest byte by byte. 991 to
 * 993: 1 to 3 vectors are stored; 9902 to 9948: 2 to 48 bytes. 99: nothing of this block is stored. The unaligned
 * first vector, which reaches to r8, may be stored, though rdi was advanced only to the boundary after its start; so
 * the bytes up to r8 are skipped.
 */
.macro FIXUPS v, bytes
991:	mov	$\v, %eax
	jmp	98f
992:	mov	$2*\v, %eax
	jmp	98f
993:	mov	$3*\v, %eax
	jmp	98f
	.irp	n, \bytes
99\n\():	mov	$1\n - 100, %eax
	jmp	98f
	.endr
98:	MOVE_ON	%rax
99:	mov	%r8, %rax
	sub	%rdi, %rax
	jbe	96f
	MOVE_ON	%rax
96:	mov	%rdx, %rcx
9:	rep movsb
95:	mov	%rcx, %rax
	ETCH_EX_PLAIN 9b, 95b
.endm

/* Fixups of the stores at the end of the buffer. 9971 to 9973 belong to LAST: all but three, two or one vector have
 * been stored; a negative number means that the bytes had been copied before. 9970 belongs to FOUR: all but one
 * vector have been stored, or the first two. Place before FIXUPS. */
.macro FIXUPS_END v
9970:	mov	$2*\v, %ecx
	lea	-\v(%rdx), %rax
	cmp	%rcx, %rax
	cmovb	%rcx, %rax
	jmp	98f
9971:	lea	-3*\v(%rdx), %rax
	jmp	97f
9972:	lea	-2*\v(%rdx), %rax
	jmp	97f
9973:	lea	-\v(%rdx), %rax
97:	test	%rax, %rax
	js	99f
	jmp	98f
.endm

/*
 * Defines a copy function. v: bytes of a vector register; its name is r followed by 0 to 3. rep: the size from which
 * rep movsb is used, 0 = never (ERMS, Intel Optimization Reference Manual, "enhanced rep movsb").
 */
.macro COPY name, v, r, rep
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 6
\name:
	.cfi_startproc
	endbr64
	mov	%rdi, %r8	/* end of what has been stored, used on a fault */
	cmp	$\v, %rdx
	jb	1f
	cmp	$2*\v, %rdx
	ja	5f
	TWO \v, \r, 1
	.p2align 4
5:	cmp	$4*\v, %rdx
	ja	6f
	FOUR \v, \r
	.p2align 4
6:	cmp	$8*\v, %rdx
	ja	7f
	BLOCK \v, \r
	LAST \v, \r
	xor	%eax, %eax
	VZERO \v
	ret
	/* Less than one vector. */
	.p2align 4
1:	cmp	$16, %edx
	jb	2f
	.if \v > 32
	cmp	$32, %edx
	jb	3f
	TWO 32, ymm, 32
3:
	.endif
	.if \v > 16
	TWO 16, xmm, 16
	.endif
2:	TAIL_SMALL

	.p2align 4
7:
	.if \rep
	cmp	$\rep, %rdx
	jae	8f
	.endif
	/* The first vector is unaligned; the stores after it are aligned. */
	LOAD \v, (%rsi), %\r\()0
	STORE \v, , %\r\()0, (%rdi)
	add	$\v, %r8
	mov	%edi, %eax
	or	$-\v, %rax
	neg	%rax		/* bytes to the boundary, 1 to v */
	MOVE_ON	%rax
	cmp	$8*\v, %rdx
	jbe	72f
	.p2align 5
71:	BLOCK \v, \r
	BLOCK \v, \r
	cmp	$8*\v, %rdx
	ja	71b
72:	cmp	$4*\v, %rdx
	jbe	73f
	BLOCK \v, \r
73:	/* The last 4v bytes may overlap what an earlier block has copied. */
	LAST \v, \r
	xor	%eax, %eax
	VZERO \v
	ret
	.if \rep
8:	mov	%rdx, %rcx
9:	rep movsb
98:	mov	%rcx, %rax
	ret
	ETCH_EX_PLAIN 9b, 98b
	.endif
	FIXUPS_END \v
	.if \v == 64
	FIXUPS \v, "02, 04, 08, 16, 32"
	.elseif \v == 32
	FIXUPS \v, "02, 04, 08, 16"
	.else
	FIXUPS \v, "02, 04, 08"
	.endif
	.if \v > 16 /* avx512 needs it too: 32 to 63 bytes are copied with ymm0 */
	vzeroupper
	.endif
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	COPY	etch_copy_sse2, 16, xmm, 0
	COPY	etch_copy_avx2, 32, ymm, 0
	COPY	etch_copy_avx512, 64, zmm2, 0
	COPY	etch_copy_erms, 16, xmm, 2048
	COPY	etch_copy_avx2_erms, 32, ymm, 4096
	COPY	etch_copy_avx512_erms, 64, zmm2, 8192

.macro NTSTORE size, fixup, at:vararg
	.if \size > 16
	EX_AT \fixup, vmovntdq \at
	.else
	EX_AT \fixup, movntdq \at
	.endif
.endm

/* BLOCK with non-temporal stores. */
.macro NTBLOCK v, r
	LOAD \v, (%rsi), %\r\()0
	LOAD \v, \v(%rsi), %\r\()1
	LOAD \v, 2*\v(%rsi), %\r\()2
	LOAD \v, 3*\v(%rsi), %\r\()3
	NTSTORE \v, , %\r\()0, (%rdi)
	NTSTORE \v, 1, %\r\()1, \v(%rdi)
	NTSTORE \v, 2, %\r\()2, 2*\v(%rdi)
	NTSTORE \v, 3, %\r\()3, 3*\v(%rdi)
	MOVE_ON $4*\v
.endm

/*
 * Defines a copy function that bypasses the cache: it makes non-temporal stores of whole lines, and prefetchnta ahead
 * of the loads, which minimizes what a line displaces (Intel SDM vol. 1, 10.4.6.2). The stores are weakly ordered, so
 * there is an sfence before every return, also after a fault.
 */
	.set	NT_PAGES_FROM, 8 << 20
.macro COPY_NT name, v, r, plain
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 6
\name:
	.cfi_startproc
	endbr64
	cmp	$512, %rdx
	jb	\plain
	/* Plain stores write one unaligned line; from then on dst is aligned to 64. */
	mov	%rdi, %r8
	LOAD 16, (%rsi), %xmm0
	LOAD 16, 16(%rsi), %xmm1
	LOAD 16, 32(%rsi), %xmm2
	LOAD 16, 48(%rsi), %xmm3
	STORE 16, , %xmm0, (%rdi)
	STORE 16, 16, %xmm1, 16(%rdi)
	STORE 16, 32, %xmm2, 32(%rdi)
	STORE 16, 48, %xmm3, 48(%rdi)
	add	$64, %r8
	mov	%edi, %eax
	or	$-64, %rax
	neg	%rax
	MOVE_ON	%rax
	cmp	$NT_PAGES_FROM, %rdx
	jb	7f
	/*
	 * While four pages are copied, in order, the next four are prefetched in parallel, so that several streams come
	 * from memory instead of one. A source of this size replaces the contents of the second level cache in any case,
	 * so prefetcht1 loses nothing.
	 */
	lea	16384(%rsi), %r9
	.p2align 4
6:	mov	$64, %ecx
61:	prefetcht1 (%r9)
	prefetcht1 4096(%r9)
	prefetcht1 8192(%r9)
	prefetcht1 12288(%r9)
	add	$64, %r9
	.rept 64 / \v
	NTBLOCK \v, \r
	.endr
	dec	%ecx
	jnz	61b
	add	$12288, %r9
	cmp	$16384 + 512, %rdx
	jae	6b
	.p2align 4
7:	prefetchnta 1024(%rsi)
	.if \v > 16
	prefetchnta 1088(%rsi)
	.endif
	.if \v > 32
	prefetchnta 1152(%rsi)
	prefetchnta 1216(%rsi)
	.endif
	NTBLOCK \v, \r
	cmp	$4*\v, %rdx
	jae	7b
	sfence
	VZERO \v
	jmp	\plain		/* less than 4v bytes are left */
	FIXUPS \v, "16, 32, 48"
	sfence
	VZERO \v
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	COPY_NT	etch_copy_nt_sse2, 16, xmm, etch_copy_sse2
	COPY_NT	etch_copy_nt_avx2, 32, ymm, etch_copy_avx2
	COPY_NT	etch_copy_nt_avx512, 64, zmm2, etch_copy_avx512

	.section .note.GNU-stack, "", @progbits
