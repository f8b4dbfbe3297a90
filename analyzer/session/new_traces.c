#include "session/new_traces.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "util/loader.h"
#include "util/util.h"

#define DEFAULT "memtrace"
#define SMALLEST_TRACE                                                             \
	(1 << 20) /* bytes: on a disk with less the recorder gives up, and says so \
		   */

int64_t new_traces_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The beginning of a trace, from its name: HOST-rRANK-PID-BEGINNING.mtr. 0: it has another name. */
static int64_t beginning_of(const char *name)
{
	const char *dash = strrchr(name, '-');

	return dash && ends_with(name, ".mtr") ? strtoll(dash + 1, NULL, 10) : 0;
}

static int has_new(const char *directory, int64_t since)
{
	DIR *d = opendir(directory);
	const struct dirent *entry;
	int found = 0;

	while (d && !found && (entry = readdir(d)))
		found = beginning_of(entry->d_name) >= since;
	if (d)
		closedir(d);
	return found;
}

int new_traces_exist(const char *directory, const char *working, int64_t since)
{
	const struct dirent *entry;
	int found = 0;
	DIR *d;

	if (directory)
		return has_new(directory, since);
	d = opendir(working);
	while (d && !found && (entry = readdir(d))) {
		const char *rest = entry->d_name + strlen(DEFAULT);
		char *path;

		if (strncmp(entry->d_name, DEFAULT, strlen(DEFAULT)) != 0 ||
		    (*rest && *rest != '-'))
			continue;
		path = xasprintf("%s/%s", working, entry->d_name);
		found = has_new(path, since);
		free(path);
	}
	if (d)
		closedir(d);
	return found;
}

/* Of a folder that does not exist, the nearest one above it counts. Nothing is created. */
int new_traces_possible(const char *directory)
{
	char *path = xstrdup(directory);
	struct statvfs disk;
	int status;

	while ((status = statvfs(path, &disk)) && errno == ENOENT && strrchr(path, '/') > path)
		*strrchr(path, '/') = '\0';
	status = !status && !access(path, W_OK | X_OK) &&
		 disk.f_bavail * disk.f_frsize >= SMALLEST_TRACE;
	free(path);
	return status;
}

void new_traces_missing(const char *directory, const char *command, int status, struct buf *out)
{
	const char *disable = getenv("MEMTRACE_DISABLE");

	buf_puts(out, "nothing was recorded in ");
	buf_add_clean(out, (struct str){ directory, strlen(directory) });
	buf_puts(out, ": no process allocated GPU memory with libmemtrace.so loaded. ");
	if (disable && !strcmp(disable, "1"))
		buf_puts(out, "MEMTRACE_DISABLE=1 is set");
	else if (loader_is_static(command))
		buf_addf(out, "%s is a static program: it ignores LD_PRELOAD", command);
	else if (status)
		buf_addf(out, "The command ended with status %d before that: see its messages",
			 status);
	else
		buf_puts(
			out,
			"If no message above gives the reason: does the command use a GPU? Does something in it "
			"clear LD_PRELOAD (env -i, sudo, ssh, a container), or is its program static (file -L "
			"PROGRAM)?");
}
