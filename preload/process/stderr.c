#define _GNU_SOURCE
#include "process/stderr.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/descriptors.h"

/* This file makes system calls directly: the C library's write(), open(), close() and poll() are
 * cancellation points, at which a cancelled thread would end. */

static struct stat first; /* st_nlink 0: descriptor 2 was closed */

static int status_of(int fd, struct stat *st)
{
	return (int)syscall(SYS_fstat, fd, st);
}

static int is_first(int fd)
{
	struct stat now;

	return first.st_mode && status_of(fd, &now) == 0 && now.st_dev == first.st_dev &&
	       now.st_ino == first.st_ino && (now.st_mode & S_IFMT) == (first.st_mode & S_IFMT);
}

__attribute__((constructor)) void stderr_remember(void)
{
	int e = errno;

	if (status_of(STDERR_FILENO, &first) != 0)
		first = (struct stat){ 0 };
	errno = e;
}

/* A regular file never waits, and its position is after the job's last line. A socket has
 * MSG_DONTWAIT. */
static long write_directly(const char *line, size_t n)
{
	if (S_ISSOCK(first.st_mode))
		return syscall(SYS_sendto, STDERR_FILENO, line, n, MSG_DONTWAIT | MSG_NOSIGNAL,
			       NULL, 0);
	return syscall(SYS_write, STDERR_FILENO, line, n);
}

/*
 * Opens the pipe or terminal once more. O_NONBLOCK belongs to the open file: on descriptor 2 it
 * would also hold for the job and its parents. If it cannot be opened (no /proc, another user's),
 * poll() tells if the pipe has room; another writer may still fill it before this line is written.
 */
static long write_without_waiting(const char *line, size_t n)
{
	struct pollfd room = { STDERR_FILENO, POLLOUT, 0 };
	struct timespec now = { 0 };
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/fd/2",
			      O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	long written = -1;
	int e;

	if (n > PIPE_BUF) /* a longer write would not be atomic */
		n = PIPE_BUF;
	if (fd >= 0) {
		if (is_first(fd))
			written = syscall(SYS_write, fd, line, n);
		e = errno;
		syscall(SYS_close, fd);
		errno = e;
		return written;
	}
	if (errno == ENXIO) /* a pipe without a reader */
		return -1;
	if (syscall(SYS_ppoll, &room, 1, &now, NULL, 0) != 1 || !(room.revents & POLLOUT))
		return -1;
	return syscall(SYS_write, STDERR_FILENO, line, n);
}

struct sending {
	const char *line;
	size_t n;
};

static void send_line(void *argument)
{
	const struct sending *s = argument;
	const char *line = s->line;
	size_t n = s->n;
	const uint64_t pipe = 1ull << (SIGPIPE - 1); /* the kernel's set: 64 bits */
	uint64_t old = 0, pending = 0;
	struct timespec now = { 0 };
	int is_direct = S_ISREG(first.st_mode) || S_ISSOCK(first.st_mode);

	if (!is_first(STDERR_FILENO))
		return;
	syscall(SYS_rt_sigpending, &pending, sizeof(pending));
	if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, &pipe, &old, sizeof(pipe)) != 0)
		return;
	if ((is_direct ? write_directly(line, n) : write_without_waiting(line, n)) < 0 &&
	    errno == EPIPE && !(pending & pipe))
		(void)syscall(SYS_rt_sigtimedwait, &pipe, NULL, &now, sizeof(pipe));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
}

/* Writes in a copy of the descriptor table, so that number 2 is the same file for the check and for
 * the write. */
void stderr_line(const char *line, size_t n)
{
	struct sending s = { line, n };
	int e = errno;

	if (!descriptors_call_apart(send_line, &s))
		send_line(&s);
	errno = e;
}
