#define _GNU_SOURCE
#include "process/notice.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "process/settings.h"
#include "process/stderr.h"
#include "base/text.h"
#include "record/recorder.h"
#include "record/writer.h"

#define MARKER_MS 500 /* the longest wait for the writer to make a marker file */

static const struct identity *me;
static const char *traces;    /* the directory as given */
static struct text directory; /* the same as an absolute path, valid after a chdir() of the job */
static struct text start_cwd;
static int on_simulator;

/* Buffers for lines, for one thread at a time: a thread of the job may have a small stack. */
static struct {
	struct lock busy;
	struct text line, cwd;
	struct short_text marker;
} own;

static void read_cwd(struct text *t)
{
	long n = syscall(SYS_getcwd, t->s, sizeof(t->s));

	t->n = n > 0 && t->s[0] == '/' ? (size_t)n - 1 : 0; /* n includes the final zero */
	t->s[t->n] = 0;
}

void notice_begin(const struct identity *who, const char *given, int simulated)
{
	me = who;
	traces = given;
	on_simulator = simulated;
	read_cwd(&start_cwd);
	directory.n = 0;
	if (given[0] != '/' && start_cwd.n) {
		text_str(&directory, start_cwd.s);
		text_str(&directory, "/");
	}
	text_str(&directory, given);
	lock_release(&own.busy); /* its holder is not in a forked child */
}

/* Returns the line to fill. NULL: another thread writes a line. */
static struct text *start(void)
{
	if (settings.QUIET || !lock_acquire(&own.busy, LOCK_WAIT))
		return NULL;
	own.line.n = 0;
	text_str(&own.line, "memtrace: ");
	return &own.line;
}

static void print_line(struct text *t)
{
	for (size_t i = 0; i < t->n; i++) /* a path may contain any character */
		if ((unsigned char)t->s[i] < ' ' || t->s[i] == 0x7f)
			t->s[i] = '?';
	if (t->n == sizeof(t->s) - 1)
		t->n--; /* the line was cut */
	text_str(t, "\n");
	stderr_line(t->s, t->n);
	lock_release(&own.busy);
}

/* Appends the command to type next. It has the whole path if the current directory is not that of
 * the start, and quotes if a shell needs them. `verb`: "report" or "html". */
static void next_command(struct text *t, const char *verb)
{
	const char *path;
	int quote;

	read_cwd(&own.cwd);
	path = start_cwd.n && strcmp(own.cwd.s, start_cwd.s) != 0 ? directory.s : traces;
	quote = path[strcspn(path, " \t\n\"\\$&|;<>()*?[]{}!`~#")] != 0;
	text_str(t, "memtrace ");
	text_str(t, verb);
	text_str(t, " ");
	text_str(t, quote ? "'" : "");
	text_str(t, path);
	text_str(t, quote ? "'" : "");
}

static void rank(struct text *t)
{
	if (me->rank >= 0) {
		text_str(t, " on rank ");
		text_number(t, (uint64_t)me->rank);
	}
	if (on_simulator)
		text_str(t, " (simulated device)");
}

void notice_setting(const char *name, const char *expected)
{
	struct text *t = me->rank > 0 ? NULL : start();

	if (!t)
		return;
	text_bytes(t, name, strcspn(name, "="));
	if (expected) {
		text_str(t, " must be ");
		text_str(t, expected);
		text_str(t, "; using the default");
	} else {
		text_str(t, " is no setting (see: memtrace run --help)");
	}
	print_line(t);
}

/* The errors of files, mappings and threads. strerror() is not used: it may allocate and translate.
 */
#define ERRORS(X)                                                          \
	X(ENOSPC, "no space left on device")                               \
	X(EDQUOT, "disk quota exceeded")                                   \
	X(EFBIG, "file size limit reached")                                \
	X(EROFS, "read-only file system")                                  \
	X(EACCES, "permission denied")                                     \
	X(EPERM, "operation not permitted")                                \
	X(EMFILE, "too many open files")                                   \
	X(ENFILE, "too many open files on this machine")                   \
	X(ENOMEM, "out of memory")                                         \
	X(EEXIST, "it exists already")                                     \
	X(ENOENT, "no such file or directory")                             \
	X(ENOTDIR, "not a directory")                                      \
	X(EISDIR, "it is a directory")                                     \
	X(ENAMETOOLONG, "name too long")                                   \
	X(ELOOP, "too many symbolic links, or one where none is followed") \
	X(EIO, "input/output error")                                       \
	X(ESTALE, "stale file handle")                                     \
	X(ETIMEDOUT, "timed out")                                          \
	X(EHOSTDOWN, "the file server is down")                            \
	X(ENOTCONN, "not connected")                                       \
	X(EBUSY, "device or resource busy")                                \
	X(ETXTBSY, "text file busy")                                       \
	X(EAGAIN, "resource temporarily unavailable")                      \
	X(EINTR, "interrupted")                                            \
	X(EINVAL, "invalid argument")                                      \
	X(EOVERFLOW, "value too large")                                    \
	X(ENODEV, "no such device")                                        \
	X(ENXIO, "no such device or address")                              \
	X(EBADF, "bad file descriptor")                                    \
	X(ENOLCK, "no locks available")                                    \
	X(EOPNOTSUPP, "operation not supported")                           \
	X(ENOSYS, "the system does not have that call")

static void add_error(struct text *t, int e)
{
	const char *name = NULL;

	switch (e) {
#define X(number, text)      \
	case number:         \
		name = text; \
		break;
		ERRORS(X)
#undef X
	}
	text_str(t, " (");
	text_str(t, name ? name : "error ");
	if (!name)
		text_number(t, (uint64_t)(uint32_t)e);
	text_str(t, ")");
}

void notice_lost(const char *how, const char *why, int e)
{
	/* each node has its own disk: one line a node */
	int is_other = me->local_rank > 0 || (me->local_rank < 0 && me->rank > 0);
	struct text *t = is_other ? NULL : start();

	if (!t)
		return;
	text_str(t, how);
	text_str(t, ": ");
	text_str(t, why);
	text_str(t, " in ");
	text_str(t, traces);
	if (e)
		add_error(t, e);
	text_str(t, "; the job goes on. MEMTRACE_DIR chooses another directory");
	print_line(t);
}

/* Returns 1 in one process of the run: the one for which the writer makes the marker file, or the
 * first rank if no such file can be made. */
static int first_to_say(const char *what)
{
	struct writer_control *c = recorder_control();
	int e;

	own.marker.n = 0;
	text_str(&own.marker, ".");
	text_str(&own.marker, what);
	text_str(&own.marker, "-");
	text_str(&own.marker, me->run_id);
	text_str(&own.marker, "-");
	text_number(&own.marker, (uint64_t)me->restart_count);
	e = c ? writer_make_marker(c, own.marker.s, MARKER_MS) : -ENOENT;
	return e == 0 || (e != -EEXIST && me->rank <= 0);
}

int notice_is_first_to_end(void)
{
	int is_first = 1;

	if (me->is_child && me->rank <= 0 && start()) {
		is_first = first_to_say("end");
		lock_release(&own.busy);
	}
	return is_first;
}

void notice_out_of_memory(uint64_t requested, uint64_t free_bytes)
{
	struct text *t = start();

	if (!t)
		return;
	if (!first_to_say("oom")) {
		lock_release(&own.busy);
		return;
	}
	text_str(t, "out of memory");
	rank(t);
	text_str(t, ": asked ");
	text_size(t, requested);
	if (free_bytes != UINT64_MAX) {
		text_str(t, ", free ");
		text_size(t, free_bytes);
	}
	text_str(t, ". See why: ");
	next_command(t, "report");
	print_line(t);
}

void notice_end(uint64_t allocated_peak, uint64_t reserved_peak, uint64_t device_peak,
		uint64_t lost_events)
{
	struct text *t = me->rank > 0 ? NULL : start();

	if (!t)
		return;
	text_str(t, "peak ");
	text_size(t, reserved_peak ? allocated_peak : device_peak);
	text_str(t, reserved_peak ? " allocated, " : " of device memory");
	if (reserved_peak) {
		text_size(t, reserved_peak);
		text_str(t, " reserved");
	}
	if (lost_events) {
		text_str(t, ", not exact: ");
		text_number(t, lost_events);
		text_str(t, " events are missing");
	}
	rank(t);
	text_str(t, ". See where it went: ");
	next_command(t, "report");
	text_str(t, "; as a page: ");
	next_command(t, "html");
	print_line(t);
}

void notice_order(void)
{
	struct text *t = start();

	if (!t)
		return;
	text_str(t, "no CUDA call was recorded: libcudasim.so stands before libmemtrace.so in "
		    "LD_PRELOAD. Name libmemtrace.so first, or use: memtrace simulate");
	print_line(t);
}
