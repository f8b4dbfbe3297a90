#define _GNU_SOURCE
#include "record/descriptors.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "record/spawn.h"

#define STACK_BYTES (32u << 10)
#define END_MS 10000 /* the longest that the child's end is waited for if wait4() cannot */
#define MOST_DESCRIPTORS (1u << 20)

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

static struct {
	struct lock lock;
	int alive; /* the kernel makes it 0 when the child ends */
	char stack[STACK_BYTES] __attribute__((aligned(64)));
} apart;

/* Waits until the child no longer runs on its stack. */
static int wait_for_end(long pid)
{
	int status;
	uint64_t start = now_ns();

	while (syscall(SYS_wait4, pid, &status, __WALL, NULL) < 0 && errno == EINTR)
		;
	while (__atomic_load_n(&apart.alive, __ATOMIC_ACQUIRE)) {
		if (now_ns() - start > LOCK_MS(END_MS))
			return 0;
		lock_pause();
	}
	return 1;
}

int descriptors_call_apart(int (*run)(void *), void *argument)
{
	uint64_t all = ~0ull, old;
	int e = errno;
	long pid;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0; /* a sanitizer cannot follow the child */
#endif
	if (!lock_acquire(&apart.lock, LOCK_WAIT))
		return 0;
	/* The child runs no signal handler of the job. */
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(all));
	apart.alive = 1;
	pid = spawn_clone(run, apart.stack + STACK_BYTES, CLONE_VM | CLONE_CHILD_CLEARTID, argument,
			  &apart.alive);
	if (pid < 0 || wait_for_end(pid)) /* else its stack is in use for ever */
		lock_release(&apart.lock);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	errno = e;
	return pid >= 0;
}

int descriptors_leave(void)
{
	struct rlimit limit;
	unsigned most = MOST_DESCRIPTORS;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) == 0)
		return 1;
#endif
	if (syscall(SYS_unshare, CLONE_FILES) != 0)
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < most)
		most = (unsigned)limit.rlim_cur;
	for (unsigned i = 0; i < most; i++)
		syscall(SYS_close, i);
	return 1;
}
