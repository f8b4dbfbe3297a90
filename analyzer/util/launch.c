#include "util/launch.h"

#include "util/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

char *launch_self(struct err *e)
{
	char *self = realpath("/proc/self/exe", NULL);

	/* A build root or a container may have no /proc. */
	if (!self)
		self = realpath((const char *)getauxval(AT_EXECFN), NULL);
	if (!self)
		err_set(e, "cannot find the path of this program: %s", strerror(errno));
	return self;
}

char *launch_find(const char *library, struct err *e)
{
	static const char *const places[] = { "", "../lib/memtrace/" };
	char *self = launch_self(e), *found = NULL;

	if (!self)
		return NULL;
	strrchr(self, '/')[1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places) && !found; i++) {
		char *joined = xasprintf("%s%s%s", self, places[i], library);

		found = realpath(joined, NULL);
		free(joined);
	}
	if (!found)
		err_set(e, "there is no %s in %s nor in %s../lib/memtrace", library, self, self);
	free(self);
	return found;
}

int launch_preload(const char *library, struct err *e)
{
	const char *old = getenv("LD_PRELOAD");
	char *path = launch_find(library, e), *value;
	int status = 0;

	if (!path)
		return -1;
	/* The loader splits LD_PRELOAD at these characters. */
	if (strpbrk(path, ": \t\n;")) {
		err_set(e, "%s: LD_PRELOAD cannot hold a path with a colon or a space", path);
		free(path);
		return -1;
	}
	value = xasprintf("%s%s%s", path, old && *old ? ":" : "", old ? old : "");
	if (setenv("LD_PRELOAD", value, 1) < 0)
		status = err_set(e, "cannot set LD_PRELOAD: %s", strerror(errno));
	free(value);
	free(path);
	return status;
}

int launch_set_triton(struct err *e)
{
	char *path = launch_find("libcudasim.so", e), *folder;
	struct stat s;
	int status = 0;

	if (!path)
		return -1;
	*strrchr(path, '/') = '\0';
	folder = xasprintf("%s/cudasim", path);
	if (!stat(folder, &s) && S_ISDIR(s.st_mode) && setenv("TRITON_LIBCUDA_PATH", folder, 0) < 0)
		status = err_set(e, "cannot set TRITON_LIBCUDA_PATH: %s", strerror(errno));
	free(folder);
	free(path);
	return status;
}

int launch_set_directory(const char *directory, struct err *e)
{
	char *cwd = NULL, *path;
	int status = 0;

	if (!directory)
		return 0;
	if (!*directory)
		return err_set(e, "--output is empty, expected a directory");
	if (*directory != '/' && !(cwd = getcwd(NULL, 0)))
		return err_set(e, "cannot find the working directory: %s", strerror(errno));
	path = xasprintf("%s%s%s", cwd ? cwd : "", cwd ? "/" : "", directory);
	if (setenv("MEMTRACE_DIR", path, 1) < 0)
		status = err_set(e, "cannot set MEMTRACE_DIR: %s", strerror(errno));
	free(path);
	free(cwd);
	return status;
}

int launch_exec(char **argv)
{
	execvp(argv[0], argv);
	err_print("cannot run %s: %s", argv[0], strerror(errno));
	return errno == ENOENT || errno == ENOTDIR ? LAUNCH_NOT_FOUND : LAUNCH_CANNOT_RUN;
}
