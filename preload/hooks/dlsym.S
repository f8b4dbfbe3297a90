/*
 * dlsym() and dlvsym(). The real ones find out who calls by the return address (RTLD_NEXT, RTLD_DEFAULT), so everything is passed on by
 * a jump, never by a call. Only names that begin like CUDA's or NCCL's, looked up in a library, go to lookup.c, which jumps back for
 * none: there the caller does not matter.
 *
 * A name is compared byte by byte: an empty one may end a page. In a scope (RTLD_NEXT, RTLD_DEFAULT) lookup_in_scope()
 * may replace it.
 */
#if defined(__x86_64__)

	.text
	.macro LOOKUP name, real, in_library, chained
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
2:	testq	%rsi, %rsi
	jz	3f
	cmpb	$'c', (%rsi)
	jne	1f
	cmpb	$'u', 1(%rsi)
	je	5f
	jmp	3f
1:	cmpb	$'n', (%rsi)
	jne	3f
	cmpb	$'c', 1(%rsi)
	je	5f
3:	movq	\real(%rip), %rax	/* pass on */
	testq	%rax, %rax
	jz	4f
	jmp	*%rax
4:	pushq	%rdi			/* the first time: find it */
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	call	lookup_begin
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	movq	\real(%rip), %rax
	testq	%rax, %rax
	jnz	2b
	ret				/* no C library that we know: nothing is found */
5:	cmpq	$0, \real(%rip)		/* perhaps ours */
	je	4b
	leaq	1(%rdi), %rax		/* RTLD_NEXT is -1, RTLD_DEFAULT 0 */
	cmpq	$1, %rax
	ja	\in_library
	cmpb	$0, \chained(%rip)	/* another preload's, which is asked by name and does not know who calls */
	jne	\in_library
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movq	%rsi, %rdi
	movq	24(%rsp), %rsi		/* who calls */
	call	lookup_in_scope
	movq	%rax, %rsi
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	3b
	.cfi_endproc
	.size	\name, . - \name
	.endm

#elif defined(__aarch64__)

	.text
	.macro LOOKUP name, real, in_library, chained
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	hint	#34			/* bti c */
2:	cbz	x1, 3f
	ldrb	w9, [x1]
	cmp	w9, #'c'
	b.ne	1f
	ldrb	w9, [x1, #1]
	cmp	w9, #'u'
	b.eq	5f
	b	3f
1:	cmp	w9, #'n'
	b.ne	3f
	ldrb	w9, [x1, #1]
	cmp	w9, #'c'
	b.eq	5f
3:	adrp	x16, \real		/* pass on */
	ldr	x16, [x16, #:lo12:\real]
	cbz	x16, 4f
	br	x16
4:	stp	x29, x30, [sp, #-48]!	/* the first time: find it */
	.cfi_adjust_cfa_offset 48
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	bl	lookup_begin
	ldp	x0, x1, [sp, #16]
	ldr	x2, [sp, #32]
	ldp	x29, x30, [sp], #48
	.cfi_adjust_cfa_offset -48
	adrp	x16, \real
	ldr	x16, [x16, #:lo12:\real]
	cbnz	x16, 2b
	mov	x0, #0			/* no C library that we know: nothing is found */
	ret
5:	adrp	x16, \real		/* perhaps ours */
	ldr	x16, [x16, #:lo12:\real]
	cbz	x16, 4b
	add	x9, x0, #1		/* RTLD_NEXT is -1, RTLD_DEFAULT 0 */
	cmp	x9, #1
	b.hi	\in_library
	adrp	x9, \chained	/* another preload's, which is asked by name and does not know who calls */
	ldrb	w9, [x9, #:lo12:\chained]
	cbnz	w9, \in_library
	stp	x29, x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	stp	x0, x2, [sp, #16]
	mov	x0, x1
	mov	x1, x30			/* who calls */
	bl	lookup_in_scope
	mov	x1, x0
	ldp	x0, x2, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	b	3b
	.cfi_endproc
	.size	\name, . - \name
	.endm

#else
#error "dlsym.S: x86-64 and aarch64 only"
#endif

	LOOKUP memtrace_dlsym, lookup_real_dlsym, lookup_dlsym, lookup_dlsym_is_chained
	LOOKUP memtrace_dlvsym, lookup_real_dlvsym, lookup_dlvsym, lookup_dlvsym_is_chained

/* The versions of the C library: GLIBC_2.34, and that of its first release for the processor. See dlsym.map. */
#ifdef __x86_64__
#define FIRST GLIBC_2.2.5
#else
#define FIRST GLIBC_2.17
#endif
	.macro VERSIONS name, function, first
	.globl	\name\()_first, \name\()_2_34
	.set	\name\()_first, \function
	.set	\name\()_2_34, \function
	.type	\name\()_first, %function
	.type	\name\()_2_34, %function
	.symver	\name\()_first, \name@\first, remove
	.symver	\name\()_2_34, \name@@GLIBC_2.34, remove
	.endm
	VERSIONS dlsym, memtrace_dlsym, FIRST
	VERSIONS dlvsym, memtrace_dlvsym, FIRST

	.section .note.GNU-stack, "", %progbits
