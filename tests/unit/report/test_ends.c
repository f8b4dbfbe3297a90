/* How a job ended, and which of a directory's runs is taken. */
#include "report_job.h"

#include "session/trace_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static void assert_end(struct job *j, const char *path, enum end expected)
{
	add(j, path, 0);
	assert_string_equal(end_name(j->report.ranks[0].end), end_name(expected));
	report_release(&j->report);
}

static void ends_are_told_apart(void **state)
{
	struct job *j = *state;

	write_event(&j->w, MT_TENSOR_ALLOC, GIB, GIB, j->loss, j->python);
	j->w.header.exit_status = 1;
	assert_end(j, save(j, "a"), END_EXIT);
	j->w.header.state = MT_STATE_RECORDING;
	assert_end(j, save(j, "a"), END_KILLED);
	write_event(&j->w, MT_TENSOR_OOM, 0, GIB, j->loss, j->python);
	assert_end(j, save(j, "a"), END_OOM);
	strcpy(j->w.header.host, "elsewhere");
	assert_end(j, save(j, "a"), END_UNKNOWN);
	j->w.header.state = MT_STATE_ENDED;
	assert_end(j, save(j, "a"), END_OOM);
	j->w.header.exit_status = 0;
	assert_end(j, save(j, "a"), END_EXIT);
}

static void a_held_lock_means_running(void **state)
{
	struct job *j = *state;
	const char *path;
	int ready[2];
	pid_t child;
	char c;

	j->w.header.state = MT_STATE_RECORDING;
	path = save(j, "a");
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (!child) {
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
		int fd = open(path, O_RDWR);

		if (fcntl(fd, F_SETLK, &lock) || write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_end(j, path, END_RUNNING);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	assert_end(j, path, END_KILLED);
}

static void write_run(struct job *j, const char *name, const char *run, int restart, uint64_t start)
{
	snprintf(j->w.header.run_id, sizeof(j->w.header.run_id), "%s", run);
	j->w.header.restart_count = restart;
	j->w.header.start_realtime_ns = start;
	save(j, name);
}

static void assert_gathered(struct job *j, const char *run, size_t count, const char *notes)
{
	char *arguments[] = { j->directory };
	struct buf said = { 0 };
	struct trace_files g;
	struct err e = { 0 };

	assert_int_equal(trace_files_find(&g, arguments, 1, run, &said, &e), count ? 0 : -1);
	assert_int_equal(g.count, count);
	if (notes && !strstr(said.text ? said.text : "", notes))
		fail_msg("\"%s\" is not in \"%s\"", notes, said.text);
	trace_files_release(&g);
	buf_release(&said);
}

static void of_a_directory_the_latest_run_is_taken(void **state)
{
	struct job *j = *state;
	char junk[128];
	FILE *f;

	assert_gathered(j, NULL, 0, NULL);
	write_run(j, "a0", "old", 0, 10);
	write_run(j, "b0", "new", 0, 20);
	write_run(j, "b1", "new", 0, 21);
	write_run(j, "b2", "new", 1, 30);
	snprintf(junk, sizeof(junk), "%s/junk.mtr", j->directory);
	f = fopen(junk, "w");
	assert_non_null(f);
	fputs("nothing", f);
	fclose(f);
	assert_gathered(j, NULL, 1, "junk.mtr is not a memtrace trace");
	assert_gathered(j, NULL, 1,
			"this is run new:1; also here: old:0 (1 trace), new:0 (2 traces)");
	assert_gathered(j, "old", 1, NULL);
	assert_gathered(j, "new:0", 2, NULL);
	assert_gathered(j, "new", 1, NULL);
	assert_gathered(j, "newer", 0, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ends_are_told_apart),
		TEST(a_held_lock_means_running),
		TEST(of_a_directory_the_latest_run_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
