#ifndef MEMTRACE_TEST_FORKS_H
#define MEMTRACE_TEST_FORKS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that ends as jobs do: `make coverage` then counts what it ran. AddressSanitizer would
 * report what it still holds at its end. */
#ifdef __SANITIZE_ADDRESS__
#define end_job(status) _exit(status)
#else
#define end_job(status) exit(status)
#endif

/* Nothing that this process has printed is printed again by the child. */
static inline pid_t fork_job(void)
{
	fflush(NULL);
	return fork();
}

#endif
