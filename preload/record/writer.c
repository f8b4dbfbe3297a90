#define _GNU_SOURCE
#include "record/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/descriptors.h"
#include "record/file.h"
#include "record/image.h"
#include "base/lock.h"
#include "record/spawn.h"
#include "record/thread.h"

#define CLAIM_MS 2000 /* a process that has not begun after this time has failed */
#define GO_MS 10000

static struct image image;

static long futex(_Atomic uint32_t *word, int op, uint32_t value, unsigned ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	return syscall(SYS_futex, word, op, value, &t, NULL, 0);
}

static void set_state(struct writer_control *c, enum writer_state state, int error)
{
	if (error)
		atomic_store(&c->error, error);
	if (atomic_exchange(&c->state, state) == state)
		return;
	futex(&c->state, FUTEX_WAKE, INT32_MAX, 0);
	atomic_fetch_add(&c->helper_wakeups, 1);
	futex(&c->helper_wakeups, FUTEX_WAKE, 1, 0);
}

/* ---- common to the process and the thread ---- */

static void open_file(struct writer_control *c)
{
	image_begin(&image, c);
	image.fd = file_create(c->directory, c->name);
	if (image.fd < 0)
		set_state(c, WRITER_REFUSED, -image.fd);
}

static void pass(struct writer_control *c)
{
	uint32_t state = atomic_load(&c->state);
	int e = 0;

	if (state == WRITER_REFUSED || state == WRITER_DONE)
		return;
	if (state == WRITER_FULL)
		image_header_when_full(&image, atomic_load(&c->error));
	else
		e = image_pass(&image);
	if (e && state == WRITER_WAITING) {
		file_discard(c->directory, c->name);
		set_state(c, WRITER_REFUSED, -e);
	} else if (e) {
		image_header_when_full(&image, -e);
		set_state(c, WRITER_FULL, -e);
	} else if (state == WRITER_WAITING) {
		set_state(c, WRITER_WRITING, 0);
	}
	atomic_fetch_add(&c->passes, 1);
}

static int is_complete(struct writer_control *c)
{
	uint32_t state = atomic_load(&c->state);

	return state == WRITER_DONE || state == WRITER_REFUSED;
}

static void make_marker(struct writer_control *c)
{
	if (atomic_load(&c->marker) != WRITER_MARKER_WANTED)
		return;
	atomic_store(&c->marker_result, file_make_empty(c->directory, c->marker_name));
	atomic_store(&c->marker, WRITER_MARKER_DECIDED);
	futex(&c->marker, FUTEX_WAKE, INT32_MAX, 0);
}

static void finish(struct writer_control *c)
{
	pass(c);
	if (is_complete(c))
		return;
	image_trim(&image);
	file_close(image.fd);
	image.fd = -1;
	set_state(c, WRITER_DONE, 0);
}

static int claim(struct writer_control *c, enum writer_owner who)
{
	uint32_t nobody = WRITER_NOBODY;

	return atomic_compare_exchange_strong(&c->owner, &nobody, who);
}

/* Writes all new data every WRITER_EVERY_MS and after each writer_wake(), until the recording is
 * closed or IS_GONE() returns 1 because the job has ended. */
static void write_until_the_end(struct writer_control *c, int (*is_gone)(struct writer_control *))
{
	while (!atomic_load(&c->ended) && !is_gone(c)) {
		uint32_t helper;

		if (atomic_load(&c->state) == WRITER_REFUSED)
			return;
		pass(c);
		make_marker(c);
		helper = atomic_load(&c->helper_thread);
		if (!atomic_load(&c->ended) && !(helper & FUTEX_OWNER_DIED) &&
		    atomic_load(&c->marker) != WRITER_MARKER_WANTED)
			futex(&c->helper_thread, FUTEX_WAIT, helper, WRITER_EVERY_MS);
	}
	finish(c);
}

/* ---- in the job ---- */

static struct {
	struct writer_control *control;
	uint64_t begun_ns; /* time at which the process was started; 0: none was */
	int resumes;       /* the thread continues the file of a process that was killed */
	atomic_int has_thread;
} job;

void writer_begin(struct writer_control *c, int has_process)
{
	c->build = WRITER_BUILD;
	c->pid = (uint32_t)getpid();
	job.control = c;
	job.begun_ns = has_process ? now_ns() : 0;
	job.resumes = 0;
	atomic_store(&job.has_thread, 0);
	atomic_store(&c->go, 1);
}

static int is_here(struct writer_control *c)
{
	(void)c;
	return 0; /* the thread cannot outlive its process */
}

/* The trace file is open in the descriptor table of this thread alone: the job could close a number
 * of its own table and open another file with it between two writes. */
static void *write_as_a_thread(void *unused)
{
	struct writer_control *c = job.control;

	(void)unused;
	prctl(PR_SET_NAME, "memtrace-writer");
	if (!descriptors_leave()) {
		set_state(c, WRITER_REFUSED, EPERM);
		return NULL;
	}
	if (!job.resumes) {
		open_file(c);
	} else {
		image_resume(&image, c);
		image.fd = file_open(c->directory, c->name);
		if (image.fd < 0)
			set_state(c, WRITER_REFUSED, -image.fd);
	}
	write_until_the_end(c, is_here);
	return NULL;
}

static void start_thread(struct writer_control *c)
{
	if (!atomic_exchange(&job.has_thread, 1) && thread_start(write_as_a_thread) != 0)
		set_state(c, WRITER_REFUSED, EAGAIN);
}

void writer_check(struct writer_control *c)
{
	uint32_t owner = atomic_load(&c->owner);

	if (owner == WRITER_PROCESS && atomic_load(&c->state) == WRITER_WRITING &&
	    atomic_load(&c->writer) & FUTEX_OWNER_DIED) {
		job.resumes = 1;
		atomic_store(&c->owner, WRITER_THREAD);
	} else if (owner == WRITER_NOBODY && (!job.begun_ns || spawn_failed() ||
					      now_ns() - job.begun_ns > LOCK_MS(CLAIM_MS))) {
		(void)claim(c, WRITER_THREAD);
	}
	if (atomic_load(&c->owner) == WRITER_THREAD)
		start_thread(c);
}

void writer_wake(struct writer_control *c)
{
	futex(&c->helper_thread, FUTEX_WAKE, INT32_MAX, 0);
}

int writer_take_over(struct writer_control *c)
{
	return claim(c, WRITER_THREAD);
}

int writer_finish(struct writer_control *c, unsigned limit_ms)
{
	uint64_t start = now_ns();

	atomic_store(&c->ended, 1);
	while (!is_complete(c) && now_ns() - start < LOCK_MS(limit_ms)) {
		uint32_t state = atomic_load(&c->state);

		writer_wake(c);
		if (!is_complete(c))
			futex(&c->state, FUTEX_WAIT, state, 1);
	}
	return is_complete(c);
}

int writer_make_marker(struct writer_control *c, const char *name, unsigned limit_ms)
{
	const uint64_t start = now_ns();
	const size_t n = strlen(name);
	uint32_t state;

	if (atomic_load(&c->marker) == WRITER_MARKER_WANTED)
		return -ETIMEDOUT; /* the file system has not answered the last time */
	if (n >= sizeof(c->marker_name))
		return -ENAMETOOLONG;
	memcpy(c->marker_name, name, n + 1);
	atomic_store(&c->marker, WRITER_MARKER_WANTED);
	while ((state = atomic_load(&c->marker)) == WRITER_MARKER_WANTED) {
		if (is_complete(c) || now_ns() - start > LOCK_MS(limit_ms))
			return -ETIMEDOUT;
		writer_wake(c);
		futex(&c->marker, FUTEX_WAIT, state, 1);
	}
	return atomic_load(&c->marker_result);
}

/* The kernel follows this list when the thread ends. The C library's own list of this thread is
 * empty: nothing here uses its mutexes. */
static struct {
	struct robust_list_head head;
	struct robust_list entry;
} watched;

/* Stores this thread's id in WORD; the kernel adds FUTEX_OWNER_DIED when the thread ends. */
static void watch_this_thread(_Atomic uint32_t *word)
{
	watched.entry.next = &watched.head.list;
	watched.head.list.next = &watched.entry;
	watched.head.list_op_pending = NULL;
	watched.head.futex_offset = (char *)word - (char *)&watched.entry;
	atomic_store(word, (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS);
	syscall(SYS_set_robust_list, &watched.head, sizeof(watched.head));
}

void writer_watch_this_thread(struct writer_control *c)
{
	watch_this_thread(&c->helper_thread);
}

void writer_unwatch_this_thread(struct writer_control *c)
{
	watched.head.list.next = &watched.head.list;
	atomic_store(&c->helper_thread, 0);
}

/* ---- the process ---- */

static int pidfd; /* of the job, or -1 */

/* Has the job's process ended, or executed another program? */
static int job_is_gone(struct writer_control *c)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	if (atomic_load(&c->helper_thread) & FUTEX_OWNER_DIED)
		return 1;
	if (pidfd >= 0)
		return poll(&p, 1, 0) == 1;
	return kill((pid_t)c->pid, 0) != 0 && errno == ESRCH;
}

static struct writer_control *take_memory(void)
{
	off_t bytes = lseek(SPAWN_MEMORY_FD, 0, SEEK_END);
	struct writer_control *c;

	if (bytes < (off_t)(WRITER_CONTROL_BYTES + MT_HEADER_BYTES))
		return NULL;
	c = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, SPAWN_MEMORY_FD, 0);
	file_close(SPAWN_MEMORY_FD);
	if (c == MAP_FAILED)
		return NULL;
	for (unsigned i = 0; !atomic_load(&c->go) && i < GO_MS; i++)
		futex(&c->go, FUTEX_WAIT, 0, 1);
	return atomic_load(&c->go) && c->build == WRITER_BUILD ? c : NULL;
}

/* A signal to the process group of the job must not end this process before all is written. The job
 * has priority for processors. */
static void detach(void)
{
	uint64_t all = ~0ull;

	prctl(PR_SET_NAME, "memtrace-writer");
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
	(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 5);
}

int writer_process(void)
{
	struct writer_control *c;

	detach();
	c = take_memory();
	if (!c)
		return 1;
	thread_schedule_as((pid_t)c->pid);
	watch_this_thread(&c->writer);
	if (!claim(c, WRITER_PROCESS))
		return 1;
#ifdef SYS_pidfd_open
	pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
#else
	pidfd = -1;
#endif
	open_file(c);
	(void)!chdir("/"); /* do not keep the job's working directory busy */
	write_until_the_end(c, job_is_gone);
	return atomic_load(&c->state) == WRITER_REFUSED;
}
