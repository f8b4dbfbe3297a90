/* clang-format off */
/*
 * Stubs to link with: libpthread and libdl as they were before glibc 2.34 took their functions over. A program that is
 * linked with them refers to the first version of a function, in the library that an old system has it in (before glibc
 * 2.30 the loader insists on both). A new system has that version in libc.so.6, and both libraries are empty.
 * The functions here are never called. If one is missing, `make lint` fails: add its row.
 *
 * This is assembler, which clang-format does not know.
 */
#ifdef __x86_64__
#define FIRST GLIBC_2.2.5
#define GLIBC_2_12 GLIBC_2.12
#else
#define FIRST GLIBC_2.17
#define GLIBC_2_12 GLIBC_2.17
#endif

	.text
	.macro FUNCTION name, version=FIRST
	.globl	stub_\name
	.type	stub_\name, %function
stub_\name:
	.symver	stub_\name, \name@@\version, remove
	.endm

	.section .note.GNU-stack, "", %progbits
	.text
