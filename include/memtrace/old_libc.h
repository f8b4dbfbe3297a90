/*
 * Programs built on a new system run on an old one, down to the C library that FLOOR in the
 * Makefile names. The linker takes the newest version of a function, so a function with a version
 * newer than FLOOR must not be used as it is. The Makefile includes this file before every other:
 *
 * - glibc 2.33 has stat() functions of its own; before, only the system calls exist.
 * - glibc 2.32 moved pthread_sigmask() from libpthread; on Linux sigprocmask() does the same for
 * the calling thread.
 * - glibc 2.38 replaces strtol() by __isoc23_strtol(), which reads 0b1 too, unless the macros below
 * are 0.
 *
 * Functions that glibc 2.34 took over from libpthread and libdl are linked with the stubs in libc/.
 * The preload uses none of them, since it may need nothing but the C library: it looks
 * pthread_create() up. `make lint` checks the result.
 */
#if !defined(MEMTRACE_OLD_LIBC_H) && !defined(__ASSEMBLER__)
#define MEMTRACE_OLD_LIBC_H

#define _GNU_SOURCE
#include <features.h>
#undef __GLIBC_USE_C2X_STRTOL
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#define __GLIBC_USE_C23_STRTOL 0

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's struct stat is the C library's, on x86-64 and aarch64. */
static inline int old_libc_fstat(int fd, struct stat *status)
{
	return (int)syscall(SYS_fstat, fd, status);
}

static inline int old_libc_stat(const char *path, struct stat *status)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);
}

#define fstat(fd, status) old_libc_fstat(fd, status)
#define stat(path, status) old_libc_stat(path, status)
#define pthread_sigmask(how, set, old) sigprocmask(how, set, old)

#endif
