/* SPDX-License-Identifier: MIT */
/*
 * copy_x86.S: copies that say how far they got.
 *
 *     size_t NAME(void *dst, const void *src, size_t n);     bytes NOT copied
 *
 * One idea keeps the residue exact: at every instruction that may fault, rdi, rsi and
 * rdx say what is still to be copied, all of it and nothing that is not. A block is
 * loaded as a whole, then stored as a whole, and only then are the three moved on. A
 * fault anywhere therefore goes on at one place, which copies what rdx says byte by
 * byte, until the very byte that faults: rep movsb leaves the count of the rest in rcx
 * (Intel SDM vol. 2, REP: the registers are those of the iteration that faulted).
 * Bytes that a block had stored before it faulted are stored once more.
 *
 * Leaf functions that use no stack. The System V ABI's direction flag is clear.
 */
#include <etch/extable.h>
#ifdef __CET__ /* says of this file what the compiler says of the others */
#include <cet.h>
#endif

	.text

/* An instruction that may fault; label 99 is the end of the function around it. */
.macro EX insn:vararg
9:	\insn
	ETCH_EX_PLAIN 9b, 99f
.endm

/* After ymm0 to ymm15 (SDM vol. 1, 14.8.2, "mixing"). The zmm20 to zmm23 of the avx512
 * variants have no such effect. */
.macro VZERO size
	.if \size == 32
	vzeroupper
	.endif
.endm

/* mov unaligned, from or to memory: LOAD size, memory, register. */
.macro LOAD size, at:vararg
	.if \size == 64
	EX vmovdqu64 \at
	.elseif \size == 32
	EX vmovdqu \at
	.else
	EX movdqu \at
	.endif
.endm

/* 0 to 15 bytes. */
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
	EX movw	%cx, -2(%rdi,%rdx)
	xor	%eax, %eax
	ret
40:	EX movl	(%rsi), %eax
	EX movl	-4(%rsi,%rdx), %ecx
	EX movl	%eax, (%rdi)
	EX movl	%ecx, -4(%rdi,%rdx)
	xor	%eax, %eax
	ret
80:	EX movq	(%rsi), %rax
	EX movq	-8(%rsi,%rdx), %rcx
	EX movq	%rax, (%rdi)
	EX movq	%rcx, -8(%rdi,%rdx)
	xor	%eax, %eax
	ret
.endm

/* From v to 2v bytes. */
.macro TWO v, r
	LOAD \v, (%rsi), %\r\()0
	LOAD \v, -\v(%rsi,%rdx), %\r\()1
	LOAD \v, %\r\()0, (%rdi)
	LOAD \v, %\r\()1, -\v(%rdi,%rdx)
	xor	%eax, %eax
	VZERO \v
	ret
.endm

/* From 2v to 4v bytes. */
.macro FOUR v, r
	LOAD \v, (%rsi), %\r\()0
	LOAD \v, \v(%rsi), %\r\()1
	LOAD \v, -2*\v(%rsi,%rdx), %\r\()2
	LOAD \v, -\v(%rsi,%rdx), %\r\()3
	LOAD \v, %\r\()0, (%rdi)
	LOAD \v, %\r\()1, \v(%rdi)
	LOAD \v, %\r\()2, -2*\v(%rdi,%rdx)
	LOAD \v, %\r\()3, -\v(%rdi,%rdx)
	xor	%eax, %eax
	VZERO \v
	ret
.endm

/* A block of 4v bytes, at an offset. */
.macro BLOCK v, r, off
	LOAD \v, \off(%rsi), %\r\()0
	LOAD \v, \v+\off(%rsi), %\r\()1
	LOAD \v, 2*\v+\off(%rsi), %\r\()2
	LOAD \v, 3*\v+\off(%rsi), %\r\()3
	LOAD \v, %\r\()0, \off(%rdi)
	LOAD \v, %\r\()1, \v+\off(%rdi)
	LOAD \v, %\r\()2, 2*\v+\off(%rdi)
	LOAD \v, %\r\()3, 3*\v+\off(%rdi)
.endm

/* What was stored is copied from here on: should another thread take src away now, the
 * residue does not count it again. */
.macro MOVE_ON by
	add	$\by, %rsi
	add	$\by, %rdi
	sub	$\by, %rdx
.endm

/* The last 4v bytes, of which the first may have been copied before. */
.macro LAST v, r
	LOAD \v, -4*\v(%rsi,%rdx), %\r\()0
	LOAD \v, -3*\v(%rsi,%rdx), %\r\()1
	LOAD \v, -2*\v(%rsi,%rdx), %\r\()2
	LOAD \v, -\v(%rsi,%rdx), %\r\()3
	LOAD \v, %\r\()0, -4*\v(%rdi,%rdx)
	LOAD \v, %\r\()1, -3*\v(%rdi,%rdx)
	LOAD \v, %\r\()2, -2*\v(%rdi,%rdx)
	LOAD \v, %\r\()3, -\v(%rdi,%rdx)
.endm

/*
 * v: bytes of a vector register, r with 0 to 3 behind it its name. rep: from this many bytes on by rep movsb, 0 = never
 * (ERMS, Intel Optimization Reference Manual, "enhanced rep movsb").
 */
.macro COPY name, v, r, rep
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 6
\name:
	.cfi_startproc
	endbr64
	cmp	$\v, %rdx
	jb	1f
	cmp	$2*\v, %rdx
	ja	5f
	TWO \v, \r
	.p2align 4
5:	cmp	$4*\v, %rdx
	ja	6f
	FOUR \v, \r
	.p2align 4
6:	cmp	$8*\v, %rdx
	ja	7f
	BLOCK \v, \r, 0
	MOVE_ON 4*\v
	LAST \v, \r
	xor	%eax, %eax
	VZERO \v
	ret
	/* Less than a vector. */
	.p2align 4
1:	cmp	$16, %edx
	jb	2f
	.if \v > 32
	cmp	$32, %edx
	jb	3f
	TWO 32, ymm
3:
	.endif
	.if \v > 16
	TWO 16, xmm
	.endif
2:	TAIL_SMALL

	.p2align 4
7:
	.if \rep
	cmp	$\rep, %rdx
	jae	8f
	.endif
	/* The first vector unaligned; from then on stores are aligned. */
	LOAD \v, (%rsi), %\r\()0
	LOAD \v, %\r\()0, (%rdi)
	mov	%edi, %eax
	or	$-\v, %rax
	neg	%rax		/* bytes to the boundary, 1 to v */
	add	%rax, %rdi
	add	%rax, %rsi
	sub	%rax, %rdx
	cmp	$8*\v, %rdx
	jbe	72f
	.p2align 5
71:	BLOCK \v, \r, 0
	MOVE_ON 4*\v
	BLOCK \v, \r, 0
	MOVE_ON 4*\v
	cmp	$8*\v, %rdx
	ja	71b
72:	cmp	$4*\v, %rdx
	jbe	73f
	BLOCK \v, \r, 0
	MOVE_ON 4*\v
73:	/* With what an earlier block had: at least 4v bytes lie before the end. */
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
	/* A fault: what is left, byte by byte. */
99:	mov	%rdx, %rcx
9:	rep movsb
98:	mov	%rcx, %rax
	.if \v > 16 /* avx512 too: 32 to 63 bytes go by ymm0 */
	vzeroupper
	.endif
	ret
	ETCH_EX_PLAIN 9b, 98b
	.cfi_endproc
	.size	\name, . - \name
.endm

	COPY	etch_copy_sse2, 16, xmm, 0
	COPY	etch_copy_avx2, 32, ymm, 0
	COPY	etch_copy_avx512, 64, zmm2, 0
	COPY	etch_copy_erms, 16, xmm, 2048
	COPY	etch_copy_avx2_erms, 32, ymm, 4096
	COPY	etch_copy_avx512_erms, 64, zmm2, 8192

.macro NTSTORE size, at:vararg
	.if \size > 16
	EX vmovntdq \at
	.else
	EX movntdq \at
	.endif
.endm

/*
 * Around the cache: non-temporal stores of whole lines, and prefetchnta ahead of the
 * loads, which brings a line in so that it displaces little (Intel SDM vol. 1, 10.4.6.2).
 * The stores are weakly ordered: sfence before every return, the one after a fault too.
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
	/* One line unaligned, by plain stores; from then on dst is aligned to 64. */
	LOAD 16, (%rsi), %xmm0
	LOAD 16, 16(%rsi), %xmm1
	LOAD 16, 32(%rsi), %xmm2
	LOAD 16, 48(%rsi), %xmm3
	LOAD 16, %xmm0, (%rdi)
	LOAD 16, %xmm1, 16(%rdi)
	LOAD 16, %xmm2, 32(%rdi)
	LOAD 16, %xmm3, 48(%rdi)
	mov	%edi, %eax
	or	$-64, %rax
	neg	%rax
	add	%rax, %rdi
	add	%rax, %rsi
	sub	%rax, %rdx
	cmp	$NT_PAGES_FROM, %rdx
	jb	7f
	/*
	 * Four pages side by side: more streams at memory than one, as glibc does. The three
	 * registers stay until all four are done, so a fault copies up to 16 KiB once more.
	 * Bytes behind it have not been stored: the first turn loads from all four, and
	 * stores in order of address; later only the fourth stream comes to a new page.
	 */
	.p2align 4
6:	xor	%eax, %eax
61:	prefetcht0 2*64(%rsi,%rax)
	prefetcht0 4096+2*64(%rsi,%rax)
	prefetcht0 8192+2*64(%rsi,%rax)
	prefetcht0 12288+2*64(%rsi,%rax)
	.set etch_at, 0
	.rept 64 / \v
	LOAD \v, etch_at(%rsi,%rax), %\r\()0
	LOAD \v, 4096+etch_at(%rsi,%rax), %\r\()1
	LOAD \v, 8192+etch_at(%rsi,%rax), %\r\()2
	LOAD \v, 12288+etch_at(%rsi,%rax), %\r\()3
	NTSTORE \v, %\r\()0, etch_at(%rdi,%rax)
	NTSTORE \v, %\r\()1, 4096+etch_at(%rdi,%rax)
	NTSTORE \v, %\r\()2, 8192+etch_at(%rdi,%rax)
	NTSTORE \v, %\r\()3, 12288+etch_at(%rdi,%rax)
	.set etch_at, etch_at + \v
	.endr
	add	$64, %eax
	cmp	$4096, %eax
	jb	61b
	add	$16384, %rsi
	add	$16384, %rdi
	sub	$16384, %rdx
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
	LOAD \v, (%rsi), %\r\()0
	LOAD \v, \v(%rsi), %\r\()1
	LOAD \v, 2*\v(%rsi), %\r\()2
	LOAD \v, 3*\v(%rsi), %\r\()3
	NTSTORE \v, %\r\()0, (%rdi)
	NTSTORE \v, %\r\()1, \v(%rdi)
	NTSTORE \v, %\r\()2, 2*\v(%rdi)
	NTSTORE \v, %\r\()3, 3*\v(%rdi)
	add	$4*\v, %rsi
	add	$4*\v, %rdi
	sub	$4*\v, %rdx
	cmp	$4*\v, %rdx
	jae	7b
	sfence
	VZERO \v
	jmp	\plain		/* less than 4v are left */
99:	sfence
	mov	%rdx, %rcx
9:	rep movsb
98:	mov	%rcx, %rax
	VZERO \v
	ret
	ETCH_EX_PLAIN 9b, 98b
	.cfi_endproc
	.size	\name, . - \name
.endm

	COPY_NT	etch_copy_nt_sse2, 16, xmm, etch_copy_sse2
	COPY_NT	etch_copy_nt_avx2, 32, ymm, etch_copy_avx2
	COPY_NT	etch_copy_nt_avx512, 64, zmm2, etch_copy_avx512

	.section .note.GNU-stack, "", @progbits
