/*
 * Makes the memory of a recording, and the process that writes it to the trace file.
 *
 * The memory is a memfd, mapped shared. Its descriptor is only ever open in the descriptor table of
 * a child: the job's own table is never touched, so no number of the job's can be taken or used by
 * mistake. The child shares the job's memory until it executes libmemtrace.so as a program; it is
 * the job's grandchild, so that no wait() of the job sees it.
 */
#ifndef PRELOAD_SPAWN_H
#define PRELOAD_SPAWN_H

#include <stddef.h>
#include <stdint.h>

#define SPAWN_MEMORY_FD 3 /* the memfd's number in the executed program */

/*
 * clone(2) with FLAGS: the child calls RUN(ARGUMENT) on the stack that ends at STACK_TOP, and ends
 * with its result as status. CLEARED: for CLONE_CHILD_CLEARTID. Returns the child's pid or -errno.
 * Defined in spawn_clone.S.
 */
long spawn_clone(int (*run)(void *), void *stack_top, unsigned long flags, void *argument,
		 int *cleared);

/*
 * Maps BYTES (less where RLIMIT_FSIZE or RLIMIT_AS leave less; a power of two of pages of it) of
 * zeroed shared memory and starts the writer process. *GOT is what was mapped. Returns NULL where
 * no such process can be made: errno tells.
 */
void *spawn_writer(size_t bytes, size_t *got);

/* Returns 1 if the program could not be executed; known a moment after spawn_writer(). */
int spawn_failed(void);

/* The same memory without a process. */
void *spawn_memory_only(size_t bytes, size_t *got);

#endif
