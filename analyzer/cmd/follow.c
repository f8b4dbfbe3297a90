#include "cmd/follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cmd/command.h"
#include "live/folder.h"
#include "live/tail.h"
#include "top/follow_text.h"
#include "util/buf.h"

#define INTERVAL_S 2
#define SILENT_S 30

/* The trace of the process that runs in a directory; of the only one, if none runs. */
static int choose(const char *directory, char **trace, struct err *e)
{
	struct folder f;
	size_t running = 0, last = 0;
	int status = folder_open(&f, directory, SILENT_S, e);

	for (size_t i = 0; i < f.count && !status; i++)
		if (!live_process_is_over(&f.list[i])) {
			last = i;
			running++;
		}
	if (!status && running > 1)
		status = err_set(
			e,
			"--follow follows one process, and %zu run in %s: name the trace of "
			"one, or use memtrace top",
			running, directory);
	else if (!status && !running && f.count > 1)
		status = err_set(e, "no process runs in %s: leave --follow away", directory);
	else if (!status)
		*trace = xstrdup(f.list[last].path);
	folder_release(&f);
	return status;
}

static int print(const struct live_process *p)
{
	time_t now = time(NULL);
	struct buf out = { 0 };
	char clock[16] = "";
	struct tm local;
	int status;

	if (localtime_r(&now, &local))
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	follow_text(&out, p, clock);
	status = command_print(out.text ? out.text : "", out.length);
	buf_release(&out);
	return status;
}

/* A sum that changes if one of the printed values does. */
static uint64_t sum_of(const struct live_process *p)
{
	uint64_t sum = p->records + p->state;

	for (size_t i = 0; i < p->device_count; i++)
		sum += p->devices[i].allocs + p->devices[i].frees + p->devices[i].ooms +
		       p->devices[i].refused + (uint64_t)live_device_bytes(&p->devices[i]);
	return sum;
}

static void print_given_up(const struct live_process *p)
{
	struct buf b = { 0 };

	follow_given_up(&b, p, 0);
	err_print("%s", b.text);
	buf_release(&b);
}

static int follow_trace(struct live_process *p, struct err *e)
{
	const struct timespec pause = { .tv_sec = INTERVAL_S };
	uint64_t before = 0;

	for (;;) {
		live_process_read(p, SILENT_S);
		if (p->why)
			return err_set(e, "%s", p->why);
		if (sum_of(p) != before) {
			live_tail_read(p);
			if (print(p))
				return err_set(e, "the result cannot be written");
		}
		before = sum_of(p);
		if (live_process_is_over(p))
			break;
		nanosleep(&pause, NULL);
	}
	if (p->state == LIVE_UNKNOWN)
		print_given_up(p);
	return 0;
}

int follow(const char *path, char **trace, struct err *e)
{
	struct live_process p = { 0 };
	struct stat st;
	int status = 0;

	if (stat(path, &st) < 0)
		return err_set(e, "cannot open %s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		status = choose(path, trace, e);
	else
		*trace = xstrdup(path);
	if (!status) {
		p.path = xstrdup(*trace);
		status = follow_trace(&p, e);
	}
	live_process_release(&p);
	return status;
}
