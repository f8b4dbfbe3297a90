#define _GNU_SOURCE
#include "record/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "record/descriptors.h"
#include "record/thread.h"

/*
 * System calls, not the C library's functions: a library of the job may define those again, with a
 * table of what is behind each number of the job's descriptors (file systems and traces in user
 * space). The numbers here are of another descriptor table, and mean nothing there.
 */
static int open_at(int directory, const char *path, int flags)
{
	return (int)syscall(SYS_openat, directory, path, flags | O_CLOEXEC, 0600);
}

void file_close(int fd)
{
	(void)syscall(SYS_close, fd);
}

/* The type bits of NAME in DIRECTORY, or of DIRECTORY itself if NAME is ""; 0: unknown. fstatat()
 * is new in glibc 2.33. */
static unsigned type_of(int directory, const char *name)
{
	struct stat st;

	return syscall(SYS_newfstatat, directory, name, &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) ==
			       0
		       ? st.st_mode & S_IFMT
		       : 0;
}

static int exists(const char *path)
{
	return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* Makes each missing directory of PATH. The function changes PATH and restores it. */
static int make_directories(char *path)
{
	if (!*path)
		return -ENOENT;
	for (char *p = path + 1;; p++) {
		char c = *p;
		int made;

		if (c != '/' && c != 0)
			continue;
		*p = 0;
		made = syscall(SYS_mkdirat, AT_FDCWD, path, 0700) == 0 ? 0 : errno;
		*p = c;
		/* an existing directory may give another error than EEXIST (read-only file system):
		 * open() decides later */
		if (!c)
			return made && made != EEXIST && !exists(path) ? -made : 0;
		if (made && made != EEXIST && made != EROFS && made != EACCES && made != EPERM)
			return -made;
	}
}

/* The directory's descriptor, or -errno. MAKES: a missing one is made. Not thread-safe: the path is
 * in static memory. */
static int open_directory(const char *directory, int makes)
{
	static char path[4096];
	size_t n = strlen(directory);
	int e, fd;

	if (n >= sizeof(path))
		return -ENAMETOOLONG;
	memcpy(path, directory, n + 1);
	while (n > 1 && path[n - 1] == '/') /* "link/" would be followed */
		path[--n] = 0;
	e = makes ? make_directories(path) : 0;
	if (e)
		return e;
	fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (fd >= 0)
		return fd;
	e = errno; /* also ENOTDIR, if the path is a link */
	return e == ENOTDIR && type_of(AT_FDCWD, path) == S_IFLNK ? -ELOOP : -e;
}

static int open_in(const char *directory, int makes, const char *name, int flags)
{
	int d = open_directory(directory, makes), fd;

	if (d < 0)
		return d;
	fd = open_at(d, name, O_RDWR | O_NOFOLLOW | flags);
	if (fd < 0)
		fd = -errno;
	file_close(d);
	return fd;
}

static int lock(int fd)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	/* Not every file system has locks; a reader then says "unknown". */
	if (fd >= 0 && syscall(SYS_fcntl, fd, F_OFD_SETLK, &whole) != 0)
		(void)syscall(SYS_fcntl, fd, F_SETLK, &whole);
	return fd;
}

int file_create(const char *directory, const char *name)
{
	return lock(open_in(directory, 1, name, O_CREAT | O_EXCL));
}

int file_open(const char *directory, const char *name)
{
	return lock(open_in(directory, 0, name, 0));
}

void file_discard(const char *directory, const char *name)
{
	int d = open_directory(directory, 0);

	if (d < 0)
		return;
	(void)syscall(SYS_unlinkat, d, name, 0);
	file_close(d);
}

int file_write(int fd, const void *from, uint64_t bytes, uint64_t offset)
{
	while (bytes) {
		long n = syscall(SYS_pwrite64, fd, from, bytes < 1u << 30 ? bytes : 1u << 30,
				 (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		from = (const char *)from + n;
		bytes -= (uint64_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

void file_cut(int fd, uint64_t bytes)
{
	(void)syscall(SYS_ftruncate, fd, (off_t)bytes);
}

struct reading {
	const char *path;
	char *buffer;
	size_t bytes;
	long result;
};

static void read_whole(void *argument)
{
	struct reading *r = argument;
	int fd = open_at(AT_FDCWD, r->path, O_RDONLY | O_NONBLOCK);
	size_t n = 0;
	long got;

	if (fd < 0)
		return;
	if (type_of(fd, "") == S_IFREG) { /* a FIFO would keep the job waiting */
		while (n < r->bytes &&
		       (got = syscall(SYS_read, fd, r->buffer + n, r->bytes - n)) > 0)
			n += (size_t)got;
		r->result = (long)n;
	}
	file_close(fd);
}

long file_read(const char *path, void *buffer, size_t bytes)
{
	struct reading r = { path, buffer, bytes, -1 };

	if (!descriptors_call_apart(read_whole, &r))
		read_whole(&r);
	return r.result;
}

/* A thread that a file server keeps waiting may use this after file_read_within() has returned. */
static struct {
	struct reading reading;
	atomic_int is_done;
} late;

static void *read_late(void *unused)
{
	(void)unused;
	(void)descriptors_leave();
	read_whole(&late.reading);
	atomic_store(&late.is_done, 1);
	return NULL;
}

long file_read_within(const char *path, void *buffer, size_t bytes, unsigned limit_ms)
{
	const uint64_t start = now_ns();

	late.reading = (struct reading){ path, buffer, bytes, -1 };
	atomic_store(&late.is_done, 0);
	if (thread_start(read_late) != 0)
		return file_read(path, buffer, bytes);
	while (!atomic_load(&late.is_done)) {
		if (now_ns() - start > LOCK_MS(limit_ms))
			return -1;
		lock_pause();
	}
	return late.reading.result;
}

int file_make_empty(const char *directory, const char *name)
{
	int fd = open_in(directory, 0, name, O_CREAT | O_EXCL);

	if (fd < 0)
		return fd;
	file_close(fd);
	return 0;
}
