/*
 * What is built on a new system runs on an old one, down to the C library that FLOOR in the Makefile names. The
 * Makefile has this included before every file. The linker takes a function's newest version; here stand those
 * functions whose newest version is younger than the floor, each with how the older one is had:
 *
 * - glibc 2.34 took in libpthread and libdl. Their functions keep their first version beside the new one; an old
 *   system finds that version in libpthread.so.0 and libdl.so.2, which new systems still have. The preload, which is
 *   to need nothing but the C library, may use none of these functions: thread.c looks pthread_create() up.
 * - glibc 2.33 made stat() functions of their own; older ones have the system call alone.
 * - glibc 2.32 moved pthread_sigmask() from libpthread; sigprocmask() is the same on Linux, for the calling thread.
 * - glibc 2.38 replaces strtol() by __isoc23_strtol(), which takes 0b1 too, unless it is told not to.
 *
 * `make lint` holds what was built against the floor.
 */
#ifndef MEMTRACE_OLD_LIBC_H
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

#ifdef OLD_LIBC_VERSIONS
#ifdef __x86_64__
#define OLD_LIBC_FIRST "GLIBC_2.2.5"
#else
#define OLD_LIBC_FIRST "GLIBC_2.17"
#endif
#define OLD_LIBC_SINCE(version, function) __asm__(".symver " #function ", " #function "@" version)

OLD_LIBC_SINCE(OLD_LIBC_FIRST, dladdr);
OLD_LIBC_SINCE(OLD_LIBC_FIRST, dlclose);
OLD_LIBC_SINCE(OLD_LIBC_FIRST, dlopen);
OLD_LIBC_SINCE(OLD_LIBC_FIRST, dlsym);
OLD_LIBC_SINCE(OLD_LIBC_FIRST, pthread_create);
OLD_LIBC_SINCE(OLD_LIBC_FIRST, pthread_join);
OLD_LIBC_SINCE(OLD_LIBC_FIRST, pthread_once);
OLD_LIBC_SINCE(OLD_LIBC_FIRST, pthread_rwlock_rdlock);
OLD_LIBC_SINCE(OLD_LIBC_FIRST, pthread_rwlock_unlock);
OLD_LIBC_SINCE(OLD_LIBC_FIRST, pthread_rwlock_wrlock);
#ifdef __x86_64__
OLD_LIBC_SINCE("GLIBC_2.12", pthread_getname_np);
#else
OLD_LIBC_SINCE(OLD_LIBC_FIRST, pthread_getname_np);
#endif
#endif

#endif
