#include "util/whole_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/util.h"

/* Is it there, and no file that another one may take the place of: /dev/null, a pipe? */
static int is_device(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* The suffix of this host's temporary files: ".memtrace-HOST-". */
static char *own_mark(void)
{
	char host[HOST_NAME_MAX + 1] = "";

	gethostname(host, sizeof(host) - 1);
	for (char *c = host; *c; c++)
		if (*c == '/')
			*c = '_';
	return xasprintf(".memtrace-%s-", host);
}

/* Is `name` the name of the file, the mark, and PID.tmp? */
static int is_temporary(const char *name, const char *base, const char *mark)
{
	size_t n = strlen(base), m = strlen(mark), digits;

	if (strncmp(name, base, n) || strncmp(name + n, mark, m))
		return 0;
	digits = strspn(name + n + m, "0123456789");
	return digits && !strcmp(name + n + m + digits, ".tmp");
}

/* Removes a temporary file if its writer has ended: then the file is not locked. */
static void remove_abandoned(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		unlinkat(directory, name, 0);
	close(fd);
}

static void clean_beside(const char *path, const char *mark)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	char *folder = slash ? xasprintf("%.*s", (int)(base - path), path) : xstrdup(".");
	DIR *directory = opendir(folder);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (is_temporary(entry->d_name, base, mark))
			remove_abandoned(dirfd(directory), entry->d_name);
	if (directory)
		closedir(directory);
	free(folder);
}

/* Opens a new file and takes its lock. Another writer may take the file for an abandoned one before
 * that: then it is opened anew. */
static int open_locked(const char *name)
{
	for (int attempts = 0; attempts < 100; attempts++) {
		struct stat st;
		int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

		if (fd < 0)
			return -1;
		/* A file system without locks has no abandoned files that are seen as such. */
		if ((!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && !fstat(fd, &st) &&
		    st.st_nlink)
			return fd;
		close(fd);
	}
	errno = EBUSY;
	return -1;
}

int whole_file_begin(struct whole_file *w, const char *path, int needs_name, struct err *e)
{
	int fd;

	*w = (struct whole_file){ .path = xstrdup(path) };
	if (!is_device(path)) {
		char *mark = own_mark();

		w->temporary = xasprintf("%s%s%ld.tmp", w->path, mark, (long)getpid());
		clean_beside(path, mark);
		free(mark);
		fd = open_locked(w->temporary);
	} else if (needs_name) {
		err_set(e, "cannot write %s: not a file", path);
		return whole_file_end(w, 1, e);
	} else {
		fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	}
	w->file = fd < 0 ? NULL : fdopen(fd, "wb");
	if (w->file)
		return 0;
	err_set(e, "cannot write %s: %s", w->temporary ? w->temporary : path, strerror(errno));
	return whole_file_end(w, 1, e);
}

/* A network's file system reports a full disk when the file is closed; the lock is needed until the
 * file has its name. */
static int flush(FILE *file)
{
	int copy, failed = fflush(file) || ferror(file);

	copy = dup(fileno(file));
	return (copy >= 0 && close(copy)) || failed ? -1 : 0;
}

int whole_file_end(struct whole_file *w, int failed, struct err *e)
{
	int status = w->file ? flush(w->file) : -1;

	if (!status && !failed && w->temporary)
		status = rename(w->temporary, w->path);
	if (status && !failed)
		err_set(e, "cannot write %s: %s", w->path, strerror(errno));
	if (w->file && w->temporary && (failed || status))
		unlink(w->temporary);
	if (w->file)
		fclose(w->file);
	free(w->path);
	free(w->temporary);
	*w = (struct whole_file){ 0 };
	return failed || status ? -1 : 0;
}
