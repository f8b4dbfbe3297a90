#define _GNU_SOURCE
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_directories(const char *path)
{
	char part[4096];
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, path, n + 1);
	for (char *p = part + 1;; p++) {
		char c = *p;
		if (c != '/' && c != 0)
			continue;
		*p = 0;
		if (mkdir(part, 0777) != 0 && errno != EEXIST)
			return -errno;
		if (!c)
			return 0;
		*p = c;
	}
}

/* Growing past RLIMIT_FSIZE raises SIGXFSZ, which kills: ask first. */
static int exceeds_limit(uint64_t size)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	       size > limit.rlim_cur;
}

static void *map(int fd, uint64_t offset, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, MADV_DONTFORK); /* a forked child cannot write here even by mistake */
	return p;
}

void *file_grow(struct trace_file *f, size_t bytes, uint64_t *offset)
{
	uint64_t at = f->size;
	int e, tries = 0;
	void *p;

	if (exceeds_limit(at + bytes)) {
		errno = EFBIG;
		return NULL;
	}
	do
		e = posix_fallocate(f->fd, (off_t)at, (off_t)bytes);
	while (e == EINTR && tries++ < 100);
	if (e) {
		if (ftruncate(f->fd, (off_t)at) != 0)
			e = errno;
		errno = e;
		return NULL;
	}
	p = map(f->fd, at, bytes);
	if (!p)
		return NULL;
	f->size = at + bytes;
	*offset = at;
	return p;
}

static int join(char *path, size_t bytes, const char *directory, const char *name)
{
	size_t d = strlen(directory), n = strlen(name);

	if (d + n + 2 > bytes)
		return -1;
	memcpy(path, directory, d);
	path[d] = '/';
	memcpy(path + d + 1, name, n + 1);
	return 0;
}

void file_discard(struct trace_file *f, const char *directory, const char *name)
{
	char path[4096];

	if (join(path, sizeof(path), directory, name) == 0)
		unlink(path);
	if (f->header)
		munmap(f->header, f->size);
	close(f->fd);
	*f = (struct trace_file){ .fd = -1 };
}

int file_create(struct trace_file *f, const char *directory, const char *name, size_t first)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[4096];
	uint64_t offset;
	int e = make_directories(directory);

	if (e)
		return e;
	if (join(path, sizeof(path), directory, name) != 0)
		return -ENAMETOOLONG;
	f->size = 0;
	f->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return -errno;
	f->header = file_grow(f, MT_HEADER_BYTES + first, &offset);
	if (!f->header) {
		e = -errno;
		file_discard(f, directory, name);
		return e;
	}
	/* Tells a reader that the writer lives. Not every file system has locks; a reader then says
	 * "unknown". */
	(void)fcntl(f->fd, F_SETLK, &lock);
	return 0;
}

long file_read(const char *path, void *buffer, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	size_t n = 0;
	ssize_t got;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) { /* a FIFO would keep the host waiting */
		close(fd);
		return -1;
	}
	while (n < bytes && (got = read(fd, (char *)buffer + n, bytes - n)) > 0)
		n += (size_t)got;
	close(fd);
	return (long)n;
}
