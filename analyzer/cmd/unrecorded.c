#include "cmd/unrecorded.h"

#include "session/new_traces.h"
#include "util/at_end.h"
#include "util/err.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* State for the end of the command; static, since a forked process uses it. */
static struct {
	const char *directory; /* NULL: the default */
	char *working;
	const char *command;
	int64_t since;
} job;

static void print(const char *directory, const char *command, int status)
{
	struct buf text = { 0 };

	new_traces_missing(directory, command, status, &text);
	err_print("%s", text.text);
	buf_release(&text);
}

void unrecorded_tell(const char *directory, int64_t since, const char *command, int status)
{
	if (!new_traces_exist(directory, NULL, since))
		print(directory, command, status);
}

static void check(void *context)
{
	const char *directory = job.directory ? job.directory : job.working;

	(void)context;
	if (!new_traces_exist(job.directory, job.working, job.since) &&
	    new_traces_possible(directory))
		print(directory, job.command, 0);
}

void unrecorded_tell_at_end(char *const *command)
{
	const char *quiet = getenv("MEMTRACE_QUIET");

	if (quiet && !strcmp(quiet, "1"))
		return;
	job.directory = getenv("MEMTRACE_DIR");
	job.working = getcwd(NULL, 0);
	job.command = command[0];
	job.since = new_traces_now();
	if (job.working && (!job.directory || *job.directory == '/'))
		at_end(check, NULL);
	free(job.working);
	job.working = NULL;
}
