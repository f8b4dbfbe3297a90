/*
 * What is built on a new system runs on an old one, down to the C library that FLOOR in the Makefile names. The linker
 * takes a function's newest version, so a function that got a new one after the floor is not to be used as it stands.
 * The Makefile has this included before every file:
 *
 * - glibc 2.33 made stat() functions of their own; older ones have the system call alone.
 * - glibc 2.32 moved pthread_sigmask() from libpthread; sigprocmask() is the same on Linux, for the calling thread.
 * - glibc 2.38 replaces strtol() by __isoc23_strtol(), which takes 0b1 too, unless it is told not to.
 *
 * What glibc 2.34 took in from libpthread and libdl is linked with the stand-ins in libc/. The preload, which is to need
 * nothing but the C library, uses none of that: thread.c looks pthread_create() up. `make lint` holds the result.
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
