#ifndef MEMTRACE_TEST_FORKS_H
#define MEMTRACE_TEST_FORKS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that ends by exit(), as jobs do: `make coverage` then counts what it ran. Nothing that
 * this process has printed is printed again. */
static inline pid_t fork_job(void)
{
	fflush(NULL);
	return fork();
}

#endif
