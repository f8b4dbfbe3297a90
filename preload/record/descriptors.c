#define _GNU_SOURCE
#include "record/descriptors.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "record/spawn.h"
#include "record/thread.h"

#define STACK_BYTES (32u << 10)
#define MAX_DESCRIPTORS (1u << 20)

/*
 * Gives the thread a new table with only the numbers below `first`. close_range() copies no other
 * number. To close a file in a full copy would flush that file, and a file system can delay that.
 */
static int leave_from(unsigned first)
{
	struct rlimit limit;
	unsigned most = MAX_DESCRIPTORS;

	if (syscall(SYS_close_range, first, ~0u, CLOSE_RANGE_UNSHARE) == 0)
		return 1;
	if (syscall(SYS_unshare, CLONE_FILES) != 0)
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < most)
		most = (unsigned)limit.rlim_cur;
	for (unsigned i = first; i < most; i++)
		syscall(SYS_close, i);
	return 1;
}

int descriptors_leave(void)
{
	return leave_from(0);
}

static struct {
	struct lock lock;
	int alive; /* when the thread ends, the kernel stores 0 here and wakes all waiters */
	int could_leave;
	void (*run)(void *);
	void *argument;
	char stack[STACK_BYTES] __attribute__((aligned(64)));
} apart;

static int run_apart(void *unused)
{
	(void)unused;
	apart.could_leave = leave_from(STDERR_FILENO + 1);
	if (apart.could_leave)
		apart.run(apart.argument);
	syscall(SYS_exit,
		0); /* ends this thread only; after a return, spawn_clone() ends the process */
	return 0;
}

#define THREAD_FLAGS                                                                        \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | \
	 CLONE_CHILD_CLEARTID)

static int start_and_wait(void)
{
	long tid;
	int alive;

	apart.alive = 1;
	tid = spawn_clone(run_apart, apart.stack + STACK_BYTES, THREAD_FLAGS, NULL, &apart.alive);
	if (tid < 0)
		return 0;
	while ((alive = __atomic_load_n(&apart.alive, __ATOMIC_ACQUIRE)))
		syscall(SYS_futex, &apart.alive, FUTEX_WAIT, alive, NULL, NULL, 0);
	return apart.could_leave;
}

int descriptors_call_apart(void (*run)(void *), void *argument)
{
	uint64_t blocked = THREAD_BLOCKS, old;
	int e = errno, called;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0; /* a sanitizer cannot follow the thread */
#endif
	if (!lock_acquire(&apart.lock, LOCK_WAIT))
		return 0;
	apart.run = run;
	apart.argument = argument;
	/* The thread runs no signal handler of the job. */
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &old, sizeof(blocked));
	called = start_and_wait();
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	lock_release(&apart.lock);
	errno = e;
	return called;
}

void descriptors_forget(void)
{
	lock_release(&apart.lock);
}
