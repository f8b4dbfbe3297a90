#define _GNU_SOURCE
#include "base/peek.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * Can the 8 bytes at ADDRESS be read? The kernel copies the set of signals before it checks the
 * first argument, which is invalid: EFAULT means no, EINVAL yes. No filter of system calls forbids
 * this call, and it needs no descriptor.
 */
static int is_readable(uintptr_t address)
{
	return syscall(SYS_rt_sigprocmask, ~0L, address & ~(uintptr_t)7, NULL, 8) != 0 &&
	       errno != EFAULT;
}

/* Does the kernel check in that order? An emulator may check the first argument first. */
static int can_ask(void)
{
	static atomic_int answers; /* 0: not tried; 1: yes; 2: no */

	if (!atomic_load(&answers))
		atomic_store(&answers, is_readable((uintptr_t)&answers) && !is_readable(8) ? 1 : 2);
	return atomic_load(&answers) == 1;
}

int peek(const void *object, int offset, void *out, size_t n)
{
	uintptr_t address = (uintptr_t)object + (uintptr_t)offset;
	struct iovec to = { out, n }, from = { (void *)address, n };

	if (!can_ask())
		return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)n ? 0 : -1;
	if (!is_readable(address) || !is_readable(address + n - 1))
		return -1;
	memcpy(out, (const void *)address, n);
	return 0;
}
