/*
 * Makes the memory of a recording, and the process that writes it to the trace file.
 *
 * The memory is a memfd, mapped shared. Its descriptor is only ever open in the descriptor table of
 * a child: the job's own table does not change, so no number of the job can be taken or used by
 * mistake. The child shares the memory of the job until it executes libmemtrace.so as a program. It
 * is a grandchild of the job, so that no wait() of the job sees it.
 */
#ifndef PRELOAD_SPAWN_H
#define PRELOAD_SPAWN_H

#include <stddef.h>
#include <stdint.h>

#define SPAWN_MEMORY_FD 3 /* the memfd's number in the executed program */

/*
 * clone(2) with FLAGS: the child calls RUN(ARGUMENT) on the stack that ends at STACK_TOP, and ends
 * with the result of RUN as status. CLEARED is the word for CLONE_CHILD_CLEARTID. Returns the
 * child's pid or -errno. Defined in spawn_clone.S.
 */
long spawn_clone(int (*run)(void *), void *stack_top, unsigned long flags, void *argument,
		 int *cleared);

/*
 * Maps BYTES of zeroed shared memory and starts the writer process. *GOT is the mapped size: less
 * if RLIMIT_FSIZE allows less, and halved while RLIMIT_AS allows less. Returns NULL with errno if
 * no such process can be made.
 */
void *spawn_writer(size_t bytes, size_t *got);

/* Returns 1 if the program could not be executed; the result is known shortly after spawn_writer().
 */
int spawn_failed(void);

/* The same memory without a process. */
void *spawn_memory_only(size_t bytes, size_t *got);

#endif
