/* Files of formats: texts with the characters that the format gives a meaning to, and what is left
 * behind after a failure. */
#include "export/export.h"
#include "export/rows.h"
#include "fixture.h"
#include "util/sqlite.h"

#include <dirent.h>
#include <sys/stat.h>

#define HOSTILE "a\"b,\n;</script>\\"

static const struct export_format *format(const char *name)
{
	for (size_t i = 0; export_formats[i].name; i++)
		if (!strcmp(export_formats[i].name, name))
			return &export_formats[i];
	fail();
	return NULL;
}

/* The traces that are written, of the test's directory, and what is said about them. */
struct job {
	struct export_options options;
	char paths[4][128], output[128];
	size_t count;
	struct buf notes;
};

static struct job job_of(struct fixture *f, const char *name, int table)
{
	struct job j = { .options = { .format = format(name),
				      .table = table,
				      .moment = MOMENT_OF_FORMAT,
				      .rank = NO_RANK,
				      .device = -1 } };

	snprintf(j.output, sizeof(j.output), "%s/out", f->directory);
	return j;
}

/* Saves the trace as that of a process. */
static void add_process(struct job *j, struct fixture *f, int rank, uint32_t pid)
{
	char *path = j->paths[j->count++];

	f->w.header.rank = rank;
	f->w.header.pid = pid;
	snprintf(path, sizeof(j->paths[0]), "%s/%u.mtr", f->directory, pid);
	assert_int_equal(write_save(&f->w, path), 0);
}

/* The text that is written; the caller frees it, and the notes. */
static char *run_job(struct job *j, int status)
{
	char *paths[] = { j->paths[0], j->paths[1], j->paths[2], j->paths[3] };
	struct trace_files files = { .paths = paths, .count = j->count };
	struct err e = { 0 };
	char *text = xcalloc(1, 1 << 18);
	FILE *file;

	j->options.path = j->output;
	assert_int_equal(export_traces(&files, &j->options, &j->notes, &e), status);
	file = fopen(j->output, "rb");
	assert_int_equal(file != NULL, status == 0);
	if (file) {
		assert_true(fread(text, 1, (1 << 18) - 1, file) > 0);
		fclose(file);
	}
	return text;
}

/* The text of one process. */
static char *exported(struct fixture *f, const char *name, int table, int status)
{
	struct job j = job_of(f, name, table);
	char *text;

	add_process(&j, f, 0, 100);
	text = run_job(&j, status);
	buf_release(&j.notes);
	return text;
}

static void one_block(struct fixture *f)
{
	uint32_t frame = write_frame(&f->w, HOSTILE, "/job/" HOSTILE ".py", 3);
	uint32_t stack = write_stack(&f->w, write_module(&f->w, "libc10_cuda.so"), frame, 0, 0, 0);

	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 512, stack);
}

/* RFC 4180: a quote is doubled within quotes; the line end became "?". */
static void csv_quotes(void **state)
{
	char *text;

	one_block(*state);
	text = exported(*state, "csv", TABLE_stacks, 0);
	assert_non_null(strstr(text, "rank,process,stack,module,owner,place,frames\n"));
	assert_non_null(strstr(text, "\"\"b,"));
	free(text);
}

static void collapsed_has_one_line_a_stack(void **state)
{
	char *text, *end;

	one_block(*state);
	text = exported(*state, "collapsed", 0, 0);
	end = strchr(text, '\n');
	assert_non_null(end);
	assert_int_equal(end[1], 0);
	assert_string_equal(end - 4, " 512\n");
	free(text);
}

/* Three processes, two of them of rank 0: the one with 1536 bytes, not that with 512 and not that
 * of rank 1 with 2560. A file that is no trace has no peak. */
static void a_format_of_one_process_has_one_of_the_rank(void **state)
{
	struct fixture *f = *state;
	struct job j = job_of(f, "collapsed", 0);
	char *text, *end;

	one_block(f);
	f->w.header.device[0].allocated_peak = 512;
	add_process(&j, f, 0, 100);
	fixture_event(f, MT_TENSOR_ALLOC, 0x2000, 1024, 1);
	f->w.header.device[0].allocated_peak = 1536;
	add_process(&j, f, -1, 200);
	fixture_event(f, MT_TENSOR_ALLOC, 0x3000, 1024, 1);
	f->w.header.device[0].allocated_peak = 2560;
	add_process(&j, f, 1, 300);

	j.options.rank = 0;
	text = run_job(&j, 0);
	end = strchr(text, '\n');
	assert_non_null(end);
	assert_int_equal(end[1], 0);
	assert_string_equal(end - 5, " 1536\n");
	assert_non_null(
		strstr(j.notes.text, "/200.mtr, whose peak is the highest of 2 of rank 0 "));
	free(text);

	buf_release(&j.notes);
	j.options.rank = NO_RANK;
	text = run_job(&j, 0);
	assert_non_null(strstr(text, " 2560\n"));
	assert_null(strstr(text, " 1536\n"));
	assert_non_null(strstr(j.notes.text, "/300.mtr, whose peak is the highest of 3 "));
	free(text);

	buf_release(&j.notes);
	j.options.rank = 1; /* one alone is no choice */
	free(run_job(&j, 0));
	assert_int_equal(j.notes.length, 0);
	assert_int_equal(truncate(j.paths[2], 100), 0); /* no trace any more */
	assert_int_equal(unlink(j.output), 0);
	free(run_job(&j, -1));
	buf_release(&j.notes);
}

static void ndjson_is_one_object_a_line(void **state)
{
	char *text, *end;

	one_block(*state);
	text = exported(*state, "ndjson", TABLE_blocks, 0);
	end = strchr(text, '\n');
	assert_non_null(end);
	assert_int_equal(end[1], 0);
	assert_int_equal(end[-1], '}');
	assert_non_null(strstr(text, "\"size\":512,"));
	assert_non_null(strstr(text, "\"freed_ns\":null,"));
	free(text);
}

static size_t count_of(const char *text, const char *part)
{
	size_t n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

/* Of three processes of rank 0 the one that began last has the samples, in whatever order they
 * come, and the one of rank 1 has its own. */
static void samples_have_labels_of_their_own(void **state)
{
	struct fixture *f = *state;
	struct job j = job_of(f, "prometheus", 0);
	uint64_t start = f->w.header.start_realtime_ns;
	char *text;

	one_block(f);
	add_process(&j, f, 0, 100);
	fixture_event(f, MT_TENSOR_ALLOC, 0x2000, 1024, 1);
	f->w.header.start_realtime_ns = start + 2;
	add_process(&j, f, -1, 200);
	fixture_event(f, MT_TENSOR_ALLOC, 0x3000, 4096, 1);
	f->w.header.start_realtime_ns = start + 1;
	add_process(&j, f, 0, 300);
	add_process(&j, f, 1, 400);
	text = run_job(&j, 0);
	assert_int_equal(count_of(text, "\nmemtrace_allocated_bytes{"), 2);
	assert_int_equal(count_of(text, "\nmemtrace_lost_events_total{"), 2);
	assert_non_null(strstr(text, "\nmemtrace_allocated_bytes{run=\"run1\",rank=\"0\","
				     "device=\"0\"} 1536\n"));
	assert_non_null(strstr(text, "\nmemtrace_allocated_bytes{run=\"run1\",rank=\"1\","
				     "device=\"0\"} 5632\n"));
	assert_non_null(strstr(j.notes.text, "left out: 2 processes,"));
	buf_release(&j.notes);
	free(text);
}

/* The answer of a query, one integer. */
static int64_t ask(const char *path, const char *query)
{
	struct sqlite s;
	sqlite3_stmt *q;
	struct err e = { 0 };
	int64_t answer;

	assert_int_equal(sqlite_load(&s, "the test", &e), 0);
	assert_int_equal(s.open_v2(path, &s.db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(s.prepare_v2(s.db, query, -1, &q, NULL), SQLITE_OK);
	assert_int_equal(s.step(q), SQLITE_ROW);
	answer = s.column_int64(q, 0);
	s.finalize(q);
	sqlite_unload(&s);
	return answer;
}

/* Two processes without a rank and one of rank 0: each of the three blocks has one stack. */
static void processes_of_one_rank_have_rows_of_their_own(void **state)
{
	static const char *const tables[] = { "processes", "stacks",   "device_traces",
					      "blocks",    "segments", "records" };
	struct job j = job_of(*state, "sqlite", 0);
	char query[256];

	one_block(*state);
	fixture_event(*state, MT_DEVICE_ALLOC, 0x1000, 2 * MIB, 1);
	add_process(&j, *state, -1, 100);
	add_process(&j, *state, -1, 200);
	add_process(&j, *state, 0, 300);
	free(run_job(&j, 0));
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		snprintf(
			query, sizeof(query),
			"SELECT count(DISTINCT process) + 10 * count(DISTINCT rank) + 100 * max(rank) "
			"FROM %s",
			tables[i]);
		assert_int_equal(ask(j.output, query), 3 + 10);
	}
	assert_int_equal(ask(j.output, "SELECT count(*) FROM blocks JOIN stacks "
				       "USING (process, stack)"),
			 3);
	assert_int_equal(ask(j.output, "SELECT count(*) FROM blocks JOIN processes "
				       "USING (process)"),
			 3);
}

/* A trace without an event of a device: neither the file nor its temporary name exists afterwards.
 */
static void a_failure_leaves_no_file(void **state)
{
	struct fixture *f = *state;
	struct dirent *entry;
	int files = 0;
	DIR *d;

	free(exported(f, "collapsed", 0, -1));
	d = opendir(f->directory);
	while ((entry = readdir(d)))
		files += entry->d_name[0] != '.';
	closedir(d);
	assert_int_equal(files, 1); /* the trace */
}

/* Without the caching allocator the runtime's refusal is the failure. */
static void the_runtime_fails(void **state)
{
	struct fixture *f = *state;
	uint32_t frame = write_frame(&f->w, "forward", "/job/model.py", 3);
	uint32_t stack = write_stack(&f->w, write_module(&f->w, "libc10_cuda.so"), frame, 0, 0, 0);
	char *text;

	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 4096, stack);
	fixture_event(f, MT_DEVICE_FAIL, 77, 9 * MIB, stack);
	text = exported(f, "csv", TABLE_device_traces, 0);
	assert_non_null(strstr(text, "\"alloc\",4096,4096,"));
	assert_non_null(strstr(text, "\"oom\",,9437184,77,"));
	free(text);
}

static void integers_are_decimal(void **state)
{
	static const int64_t values[] = { 0, 7, -10, INT64_MAX, INT64_MIN };
	struct fixture *f = *state;
	struct output o;
	struct err e = { 0 };
	char path[128], text[128] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/out", f->directory);
	assert_int_equal(output_begin(&o, path, NULL, 0, &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		output_add_integer(&o, values[i]);
		output_add(&o, " ", 1);
	}
	assert_int_equal(output_end(&o, 0, &e), 0);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert_string_equal(text, "0 7 -10 9223372036854775807 -9223372036854775808 ");
}

/* The file of -o may be a device, which nothing takes the place of. */
static void a_device_is_written_to(void **state)
{
	struct fixture *f = *state;
	struct output o;
	struct err e = { 0 };
	struct stat st;
	char path[128];

	snprintf(path, sizeof(path), "%s/out", f->directory);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_int_equal(output_begin(&o, path, NULL, 0, &e), 0);
	output_add(&o, "x", 1);
	assert_int_equal(output_end(&o, 0, &e), 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(output_begin(&o, path, NULL, 1, &e), -1);
	assert_int_equal(output_end(&o, 1, &e), -1);
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup_directory, fixture_teardown)
		TEST(a_device_is_written_to),
		TEST(the_runtime_fails),
		TEST(integers_are_decimal),
		TEST(samples_have_labels_of_their_own),
		TEST(a_format_of_one_process_has_one_of_the_rank),
		TEST(processes_of_one_rank_have_rows_of_their_own),
		TEST(csv_quotes),
		TEST(collapsed_has_one_line_a_stack),
		TEST(ndjson_is_one_object_a_line),
		TEST(a_failure_leaves_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
