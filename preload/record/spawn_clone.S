/*
 * spawn_clone(): clone() for a child that shares this process's memory and runs on its own stack. The C library's clone() is not used: a
 * sanitizer in the host may define it. writer_start(): the entry point of libmemtrace.so when it is executed as a program.
 */
	.text

#if defined(__x86_64__)

/* long spawn_clone(int (*run)(void *), void *stack_top, unsigned long flags, void *argument, int *cleared)
 * Returns the child's pid, or -errno. The child calls run(argument) and ends with its result as status. */
	.globl	spawn_clone
	.hidden	spawn_clone
	.type	spawn_clone, @function
spawn_clone:
	.cfi_startproc
	and	$-16, %rsi
	sub	$16, %rsi
	mov	%rdi, (%rsi)		/* run */
	mov	%rcx, 8(%rsi)		/* argument */
	mov	%rdx, %rdi		/* flags; rsi is the stack */
	xor	%edx, %edx		/* parent_tid */
	mov	%r8, %r10		/* child_tid: cleared at the child's end or exec */
	xor	%r8d, %r8d		/* tls */
	mov	$56, %eax		/* clone */
	syscall
	test	%rax, %rax
	jz	1f
	ret
1:	.cfi_undefined rip
	xor	%ebp, %ebp
	pop	%rax
	pop	%rdi
	call	*%rax
	mov	%eax, %edi
	mov	$231, %eax		/* exit_group */
	syscall
	hlt
	.cfi_endproc
	.size	spawn_clone, . - spawn_clone

	.globl	writer_start
	.hidden	writer_start
	.type	writer_start, @function
writer_start:
	.cfi_startproc
	.cfi_undefined rip
	xor	%ebp, %ebp
	and	$-16, %rsp
	call	writer_process
	mov	%eax, %edi
	mov	$231, %eax
	syscall
	hlt
	.cfi_endproc
	.size	writer_start, . - writer_start

#elif defined(__aarch64__)

	.globl	spawn_clone
	.hidden	spawn_clone
	.type	spawn_clone, %function
spawn_clone:
	.cfi_startproc
	and	x1, x1, -16
	stp	x0, x3, [x1, -16]!	/* run, argument */
	mov	x0, x2			/* flags */
	mov	x2, xzr			/* parent_tid */
	mov	x3, xzr			/* tls; child_tid is in x4 already */
	mov	x8, 220			/* clone */
	svc	0
	cbz	x0, 1f
	ret
1:	.cfi_undefined x30
	mov	x29, xzr
	ldp	x1, x0, [sp], 16
	blr	x1
	mov	x8, 94			/* exit_group */
	svc	0
	brk	0
	.cfi_endproc
	.size	spawn_clone, . - spawn_clone

	.globl	writer_start
	.hidden	writer_start
	.type	writer_start, %function
writer_start:
	.cfi_startproc
	.cfi_undefined x30
	mov	x29, xzr
	mov	x30, xzr
	bl	writer_process
	mov	x8, 94
	svc	0
	brk	0
	.cfi_endproc
	.size	writer_start, . - writer_start

#endif

	.section .note.GNU-stack, "", %progbits
