/* How a job ended, and which of a directory's runs is taken. */
#include "report_job.h"

#include "session/trace_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static void assert_end(struct fixture *f, const char *path, enum end expected)
{
	add(f, path, 0);
	assert_string_equal(end_name(f->report.ranks[0].end), end_name(expected));
	report_release(&f->report);
}

static void ends_are_told_apart(void **state)
{
	struct fixture *f = *state;

	write_event(&f->w, MT_TENSOR_ALLOC, GIB, GIB, f->loss, f->python);
	f->w.header.exit_status = 1;
	assert_end(f, save(f, "a"), END_EXIT);
	f->w.header.state = MT_STATE_RECORDING;
	assert_end(f, save(f, "a"), END_KILLED);
	write_event(&f->w, MT_TENSOR_OOM, 0, GIB, f->loss, f->python);
	assert_end(f, save(f, "a"), END_OOM);
	strcpy(f->w.header.host, "elsewhere");
	assert_end(f, save(f, "a"), END_UNKNOWN);
	f->w.header.state = MT_STATE_ENDED;
	assert_end(f, save(f, "a"), END_OOM);
	f->w.header.exit_status = 0;
	assert_end(f, save(f, "a"), END_EXIT);
}

static void phase(struct fixture *f, int kind, uint64_t id, const char *name)
{
	write_event_on(&f->w, MT_NO_DEVICE, kind, id, 0,
		       write_stack(&f->w, 0, write_frame(&f->w, name, "", 0), 0, 0, 0), f->python);
}

/* A job that dies in the second of two phases; the report is of `asked`. */
static const struct rank *die_in_second(struct fixture *f, const char *asked)
{
	phase(f, MT_PHASE_BEGIN, 1, "first");
	write_event(&f->w, MT_TENSOR_ALLOC, GIB, GIB, f->loss, f->python);
	phase(f, MT_PHASE_END, 1, "first");
	phase(f, MT_PHASE_BEGIN, 2, "second");
	write_death(f);
	f->phase = asked;
	return fixture_report(f);
}

static void a_phase_before_the_death_did_not_fail(void **state)
{
	const struct rank *r = die_in_second(*state, "first");

	assert_string_equal(end_name(r->end), "oom");
	assert_int_equal(r->peak_allocated, GIB);
	assert_int_equal(r->oom_count, 0);
	assert_false(rank_died(r));
}

static void the_phase_of_the_death_failed(void **state)
{
	const struct rank *r = die_in_second(*state, "second");

	assert_string_equal(end_name(r->end), "oom");
	assert_int_equal(r->peak_allocated, 15 * GIB);
	assert_int_equal(r->oom_count, 1);
	assert_int_equal(rank_oom(r)->requested, 288 * MIB);
	assert_true(rank_died(r));
}

static void a_held_lock_means_running(void **state)
{
	struct fixture *f = *state;
	const char *path;
	int ready[2];
	pid_t child;
	char c;

	f->w.header.state = MT_STATE_RECORDING;
	path = save(f, "a");
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
	assert_end(f, path, END_RUNNING);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	assert_end(f, path, END_KILLED);
}

static void write_run(struct fixture *f, const char *name, const char *run, int restart,
		      uint64_t start)
{
	snprintf(f->w.header.run_id, sizeof(f->w.header.run_id), "%s", run);
	f->w.header.restart_count = restart;
	f->w.header.start_realtime_ns = start;
	save(f, name);
}

static void assert_gathered_of(struct fixture *f, const char *run, int every_attempt, size_t count,
			       const char *notes)
{
	char *arguments[] = { f->directory };
	struct buf said = { 0 };
	struct trace_files g;
	struct err e = { 0 };

	assert_int_equal(trace_files_find(&g, arguments, 1, run, every_attempt, &said, &e),
			 count ? 0 : -1);
	assert_int_equal(g.count, count);
	if (notes && !strstr(said.text ? said.text : "", notes))
		fail_msg("\"%s\" is not in \"%s\"", notes, said.text);
	trace_files_release(&g);
	buf_release(&said);
}

static void assert_gathered(struct fixture *f, const char *run, size_t count, const char *notes)
{
	assert_gathered_of(f, run, 0, count, notes);
}

static void of_a_directory_the_latest_run_is_taken(void **state)
{
	struct fixture *f = *state;
	char junk[128];
	FILE *junk_file;

	assert_gathered(f, NULL, 0, NULL);
	write_run(f, "a0", "old", 0, 10);
	write_run(f, "b0", "new", 0, 20);
	write_run(f, "b1", "new", 0, 21);
	write_run(f, "b2", "new", 1, 30);
	snprintf(junk, sizeof(junk), "%s/junk.mtr", f->directory);
	junk_file = fopen(junk, "w");
	assert_non_null(junk_file);
	fputs("nothing", junk_file);
	fclose(junk_file);
	assert_gathered(f, NULL, 1, "junk.mtr is not a memtrace trace");
	assert_int_equal(truncate(junk, 0), 0);
	assert_gathered(f, NULL, 1, "junk.mtr holds nothing yet");
	assert_int_equal(truncate(junk, 65536), 0); /* a writer writes its header last */
	assert_gathered(f, NULL, 1, "junk.mtr holds nothing yet");
	assert_gathered(f, NULL, 1,
			"this is run new:1; also here: old:0 (1 trace), new:0 (2 traces)");
	assert_gathered(f, "old", 1, NULL);
	assert_gathered(f, "new:0", 2, NULL);
	assert_gathered(f, "new", 1, NULL);
	assert_gathered(f, "newer", 0, NULL);
	assert_gathered_of(f, NULL, 1, 3, "this is run new; also here: old:0 (1 trace); --run");
	assert_gathered_of(f, "new", 1, 3, NULL);
	assert_gathered_of(f, "new:0", 1, 2, NULL);
	assert_gathered_of(f, ":1", 1, 1, NULL);
	assert_gathered_of(f, "old", 1, 1, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ends_are_told_apart),
		TEST(a_phase_before_the_death_did_not_fail),
		TEST(the_phase_of_the_death_failed),
		TEST(a_held_lock_means_running),
		TEST(of_a_directory_the_latest_run_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
