#define _GNU_SOURCE
#include "notice.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "settings.h"
#include "text.h"

static const struct who *me;
static const char *traces;
static struct text cwd; /* where `traces` is meant from */
static int on_simulator;

void notice_begin(const struct who *who, const char *directory, int simulated)
{
	me = who;
	traces = directory;
	on_simulator = simulated;
	cwd.n = 0;
	if (getcwd(cwd.s, sizeof(cwd.s)))
		cwd.n = strlen(cwd.s);
}

/* One write. A reader that has gone away must not kill the job by SIGPIPE. */
static void say(struct text *t)
{
	struct timespec now = { 0 };
	sigset_t pipe, old, pending;

	text_str(t, "\n");
	if (settings.QUIET)
		return;
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe, &old);
	if (write(STDERR_FILENO, t->s, t->n) < 0 && errno == EPIPE &&
	    !sigismember(&pending, SIGPIPE))
		(void)sigtimedwait(&pipe, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* The command to type next: from another directory than at the start, with the whole path; quoted
 * where a shell needs it. */
static void next_command(struct text *t)
{
	char here[4096];
	struct text path = { 0 };
	int quote;

	if (traces[0] != '/' && cwd.n &&
	    (!getcwd(here, sizeof(here)) || strcmp(here, cwd.s) != 0)) {
		text_str(&path, cwd.s);
		text_str(&path, "/");
	}
	text_str(&path, traces);
	quote = path.s[strcspn(path.s, " \t\n\"\\$&|;<>()*?[]{}!`~#")] != 0;
	text_str(t, "memtrace report ");
	text_str(t, quote ? "'" : "");
	text_str(t, path.s);
	text_str(t, quote ? "'" : "");
}

static struct text start(void)
{
	struct text t = { 0 };

	text_str(&t, "memtrace: ");
	return t;
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
	struct text t = start();

	if (me->rank > 0)
		return;
	text_bytes(&t, name, strcspn(name, "="));
	if (expected) {
		text_str(&t, " must be ");
		text_str(&t, expected);
		text_str(&t, "; using the default");
	} else {
		text_str(&t, " is no setting (see: memtrace run --help)");
	}
	say(&t);
}

/* strerror() may allocate and translate; these are the errors that files have. */
static const char *error_text(int e)
{
	switch (e) {
	case 0:
		return "";
	case ENOSPC:
		return "no space left on device";
	case EDQUOT:
		return "disk quota exceeded";
	case EFBIG:
		return "file size limit reached";
	case EROFS:
		return "read-only file system";
	case EACCES:
	case EPERM:
		return "permission denied";
	case EMFILE:
	case ENFILE:
		return "too many open files";
	case ENOMEM:
		return "out of memory";
	case EEXIST:
		return "it exists already";
	case ENOTDIR:
		return "not a directory";
	case ENAMETOOLONG:
		return "name too long";
	default:
		return "input/output error";
	}
}

void notice_lost(const char *how, const char *why, int e)
{
	struct text t = start();

	if (me->local_rank > 0 || (me->local_rank < 0 && me->rank > 0))
		return; /* each node's disk is its own: one line a node */
	text_str(&t, how);
	text_str(&t, ": ");
	text_str(&t, why);
	text_str(&t, " in ");
	text_str(&t, traces);
	if (*error_text(e)) {
		text_str(&t, " (");
		text_str(&t, error_text(e));
		text_str(&t, ")");
	}
	text_str(&t, "; the job goes on. MEMTRACE_DIR chooses another directory");
	say(&t);
}

/* One process of the run gets 1: the one that makes the marker file. Where none can be made, the
 * first rank. */
static int first_to_say(const char *what)
{
	struct text path = { 0 };
	int fd;

	text_str(&path, traces);
	text_str(&path, "/.");
	text_str(&path, what);
	text_str(&path, "-");
	text_str(&path, me->run_id);
	text_str(&path, "-");
	text_number(&path, (uint64_t)me->restart_count);
	fd = open(path.s, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || (errno != EEXIST && me->rank <= 0);
}

void notice_out_of_memory(uint64_t requested, uint64_t free_bytes)
{
	struct text t = start();

	if (settings.QUIET || !first_to_say("oom"))
		return;
	text_str(&t, "out of memory");
	rank(&t);
	text_str(&t, ": asked ");
	text_size(&t, requested);
	if (free_bytes != UINT64_MAX) {
		text_str(&t, ", free ");
		text_size(&t, free_bytes);
	}
	text_str(&t, ". See why: ");
	next_command(&t);
	say(&t);
}

void notice_end(uint64_t allocated_peak, uint64_t reserved_peak, uint64_t device_peak,
		uint64_t lost_events)
{
	struct text t = start();

	if (me->rank > 0 || settings.QUIET || (me->is_child && !first_to_say("end")))
		return;
	text_str(&t, "peak ");
	text_size(&t, reserved_peak ? allocated_peak : device_peak);
	text_str(&t, reserved_peak ? " allocated, " : " of device memory");
	if (reserved_peak) {
		text_size(&t, reserved_peak);
		text_str(&t, " reserved");
	}
	if (lost_events) {
		text_str(&t, ", not exact: ");
		text_number(&t, lost_events);
		text_str(&t, " events are missing");
	}
	rank(&t);
	text_str(&t, ". See where it went: ");
	next_command(&t);
	say(&t);
}

void notice_order(void)
{
	struct text t = start();

	text_str(&t, "no CUDA call was recorded: libcudasim.so stands before libmemtrace.so in "
		     "LD_PRELOAD. Name libmemtrace.so first, or use: memtrace simulate");
	say(&t);
}
