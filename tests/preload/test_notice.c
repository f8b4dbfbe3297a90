/* Lines on stderr: the text for an error, and the cost to the job of a stderr that is full or
 * another file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"
#include "process/notice.h"
#include "process/settings.h"
#include "process/stderr.h"
#include "record/recorder.h"
#include "record/writer.h"

static char directory[] = "/tmp/memtrace-test-XXXXXX";
static const struct identity nobody = { .rank = -1, .local_rank = -1, .run_id = "run" };
static int original;

static int begin(void **state)
{
	(void)state;
	original = dup(STDERR_FILENO);
	settings.QUIET = 0;
	return original < 0 || !mkdtemp(directory) || chdir(directory) != 0 || mkdir("t", 0700);
}

/* FD is what the job was started with as stderr. */
static void started_with(int fd)
{
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	stderr_remember();
	notice_begin(&nobody, "t", 0);
}

static void over(void)
{
	dup2(original, STDERR_FILENO);
	stderr_remember();
}

static void fill(int fd)
{
	static char bytes[4096];
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	for (size_t n = sizeof(bytes); n; n /= 2)
		while (write(fd, bytes, n) > 0)
			;
	fcntl(fd, F_SETFL, flags);
}

/* A terminal whose other side nobody reads; -1: none can be had here. */
static int terminal(int *other)
{
	*other = posix_openpt(O_RDWR | O_NOCTTY);
	if (*other < 0 || grantpt(*other) != 0 || unlockpt(*other) != 0)
		return -1;
	return open(ptsname(*other), O_RDWR | O_NOCTTY);
}

static void test_full_and_unread(void **state)
{
	int pipes[2], sockets[2], other, flags;
	int full[3];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	full[0] = pipes[1];
	full[1] = sockets[1];
	full[2] = terminal(&other);
	for (int i = 0; i < 3; i++) {
		uint64_t start = now_ns();
		if (full[i] < 0)
			continue;
		fill(full[i]);
		flags = fcntl(full[i], F_GETFL);
		started_with(full[i]);
		alarm(10); /* ends the test where a write waits */
		notice_end(1 << 20, 1 << 20, 1 << 20, 0);
		notice_setting("MEMTRACE_X=1", NULL);
		alarm(0);
		over();
		assert_in_range(now_ns() - start, 0, LOCK_MS(1000));
		assert_int_equal(fcntl(full[i], F_GETFL),
				 flags); /* the job's own writes still wait */
		close(full[i]);
	}
	close(pipes[0]);
	close(sockets[0]);
	close(other);
}

static const char *heard(int fd)
{
	static char text[8192];
	ssize_t n;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	n = read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = 0;
	return text;
}

static void test_read(void **state)
{
	int pipes[2], sockets[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	started_with(pipes[1]);
	errno = 77;
	notice_end(1 << 20, 1 << 20, 1 << 20, 0);
	assert_int_equal(errno, 77);
	started_with(sockets[1]);
	notice_end(1 << 21, 1 << 21, 1 << 21, 0);
	over();
	assert_string_equal(heard(pipes[0]),
			    "memtrace: peak 1.0 MiB allocated, 1.0 MiB reserved. "
			    "See where it went: memtrace report t; as a page: memtrace html t\n");
	assert_string_equal(heard(sockets[0]),
			    "memtrace: peak 2.0 MiB allocated, 2.0 MiB reserved. "
			    "See where it went: memtrace report t; as a page: memtrace html t\n");
	for (int i = 0; i < 2; i++)
		close(pipes[i]), close(sockets[i]);
}

/* A directory's name may hold characters that change a terminal. */
static void test_control_characters(void **state)
{
	int pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	started_with(pipes[1]);
	notice_begin(&nobody, "a\033[31m\nb", 0);
	notice_lost("not recording", "no trace can be made", ENOENT);
	over();
	assert_string_equal(
		heard(pipes[0]),
		"memtrace: not recording: no trace can be made in a?[31m?b (no such file or "
		"directory); the job goes on. MEMTRACE_DIR chooses another directory\n");
	close(pipes[0]);
	close(pipes[1]);
}

/* Nobody has the pipe's other end any more: no line, no SIGPIPE. */
static void test_gone_reader(void **state)
{
	int pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	close(pipes[0]);
	started_with(pipes[1]);
	signal(SIGPIPE, SIG_DFL);
	notice_end(1 << 20, 1 << 20, 1 << 20, 0);
	over();
	close(pipes[1]);
}

static void test_files(void **state)
{
	int log = open("log", O_RDWR | O_CREAT | O_TRUNC, 0600), data, pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	/* a regular file from the start is as good as any */
	started_with(log);
	assert_int_equal(write(STDERR_FILENO, "job\n", 4), 4);
	notice_end(1 << 20, 1 << 20, 1 << 20, 0);
	assert_int_equal(write(STDERR_FILENO, "job\n", 4), 4);
	/* the number taken by another file, by a pipe, by nothing */
	close(STDERR_FILENO);
	data = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(data, STDERR_FILENO);
	assert_int_equal(write(data, "checkpoint", 10), 10);
	notice_end(1 << 20, 1 << 20, 1 << 20, 0);
	notice_lost("recording ended", "no trace can be made", ENOENT);
	assert_int_equal(lseek(data, 0, SEEK_END), 10);
	dup2(pipes[1], STDERR_FILENO);
	notice_end(1 << 20, 1 << 20, 1 << 20, 0);
	close(STDERR_FILENO);
	notice_end(1 << 20, 1 << 20, 1 << 20, 0);
	over();
	assert_string_equal(heard(pipes[0]), "");
	assert_int_equal(pread(log, (char[200]){ 0 }, 200, 0), 4 + 117 + 4);
	close(log);
}

/* errno's values, and their names as everyone has them. */
static void test_errors(void **state)
{
	static const struct {
		int number;
		const char *text;
	} cases[] = {
		{ 2, "(no such file or directory)" },
		{ 5, "(input/output error)" },
		{ 6, "(no such device or address)" },
		{ 13, "(permission denied)" },
		{ 16, "(device or resource busy)" },
		{ 19, "(no such device)" },
		{ 22, "(invalid argument)" },
		{ 28, "(no space left on device)" },
		{ 38, "(the system does not have that call)" },
		{ 40, "(too many symbolic links" },
		{ 110, "(timed out)" },
		{ 116, "(stale file handle)" },
		{ 122, "(disk quota exceeded)" },
		{ 125, "(error 125)" },
	};
	int pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *said;
		started_with(pipes[1]);
		notice_lost("not recording", "no trace can be made", cases[i].number);
		over();
		said = heard(pipes[0]);
		if (!strstr(said, cases[i].text))
			fail_msg("errno %d: %s", cases[i].number, said);
	}
	close(pipes[0]);
	close(pipes[1]);
}

static int reached;

static void *cancelled(void *how)
{
	pthread_cancel(pthread_self());
	if (how)
		notice_out_of_memory(1 << 20, 1 << 19);
	else
		notice_end(1 << 20, 1 << 20, 1 << 20, 0);
	reached++;
	return NULL;
}

/* On a stack of 16 KiB, with a cancellation pending: the line is said and the thread goes on. */
static void test_cancelled_on_a_small_stack(void **state)
{
	pthread_attr_t small;
	int pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	started_with(pipes[1]);
	pthread_attr_init(&small);
	assert_int_equal(pthread_attr_setstacksize(&small, 16384), 0);
	for (uintptr_t i = 0; i < 2; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, &small, cancelled, (void *)i), 0);
		pthread_join(thread, NULL);
	}
	over();
	assert_int_equal(reached, 2);
	assert_non_null(strstr(heard(pipes[0]), "\nmemtrace: out of memory: asked 1.0 MiB"));
	close(pipes[0]);
	close(pipes[1]);
}

/* Begins a recording, which a thread of this program writes. */
static void record_in(const char *folder)
{
	char path[256];
	struct recorder_setup setup = { .directory = path, .name = "x.mtr", .budget = 1u << 20 };

	snprintf(path, sizeof(path), "%s/%s", directory, folder);
	assert_int_equal(recorder_open(&setup), 0);
	recorder_begin();
	writer_check(recorder_control());
}

/* A job that has gone to another directory: the mark is in the traces', and the command names it
 * whole. */
static void test_chdir(void **state)
{
	const struct identity second = { .rank = 1, .local_rank = 1, .run_id = "moved" };
	int pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	started_with(pipes[1]);
	notice_begin(&second, "t", 0);
	record_in("t");
	assert_int_equal(mkdir("other", 0700) || chdir("other") || mkdir("t", 0700), 0);
	notice_out_of_memory(1 << 20, UINT64_MAX);
	over();
	assert_int_not_equal(access("t/.oom-moved-0", F_OK), 0);
	assert_int_equal(chdir(".."), 0);
	assert_int_equal(access("t/.oom-moved-0", F_OK), 0);
	assert_non_null(strstr(heard(pipes[0]), directory));
	assert_int_equal(writer_finish(recorder_control(), 10000), 1);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_and_unread),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_control_characters),
		cmocka_unit_test(test_gone_reader),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_cancelled_on_a_small_stack),
		cmocka_unit_test(test_chdir),
	};

	return cmocka_run_group_tests_name("notice", tests, begin, NULL);
}
