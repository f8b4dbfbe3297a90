/* Records: the same rank again, 64 KiB at most, and joined whatever their order. */
#include "fixture.h"

#include "readers/derive.h"
#include "record/record.h"
#include "record/record_merge.h"
#include "report/rank_groups.h"
#include "session/session.h"

#include <string.h>
#include <unistd.h>

static char *line_of(const struct report *r, size_t i, const struct config *c)
{
	struct diagnosis d = { 0 };
	struct buf out = { 0 };

	diagnose(&d, r);
	record_write(&out, &r->ranks[i], c, &d, i, NULL);
	diagnosis_release(&d);
	return buf_take(&out);
}

static struct report again(const char *line)
{
	struct report r = { 0 };
	struct err e = { 0 };
	json_t *j = record_parse(line, strlen(line) - 1, &e);

	assert_non_null(j);
	assert_int_equal(record_add(&r, j, &e), 0);
	json_decref(j);
	return r;
}

/* A record that is read and written again is the same record. */
static void test_round_trip(void **state)
{
	struct fixture *f = *state;
	struct report r;
	struct config c;
	char *first, *second;

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, 5 * MIB, f->c10);
	fixture_event(f, MT_TENSOR_ALLOC, 1 << 30, 7 * MIB, f->c10);
	fixture_event(f, MT_TENSOR_FREE, 1 << 20, -5 * MIB, f->c10);
	assert_int_equal(fixture_report(f)->peak_allocated, 12 * MIB);
	config_init(&c);
	first = line_of(&f->report, 0, &c);
	r = again(first);
	assert_int_equal(r.ranks[0].peak_allocated, 12 * MIB);
	assert_int_equal(r.ranks[0].final_bytes, 7 * MIB);
	second = line_of(&r, 0, &c);
	assert_string_equal(first, second);
	report_release(&r);
	config_release(&c);
	free(first);
	free(second);
}

/* Long texts and many rows: a record stays within its limit. */
static void test_limit(void **state)
{
	enum { ROWS = 500 };
	static char longest[20000];
	static struct stack_row rows[ROWS];
	static struct step_row steps[ROWS];
	static char *warnings[ROWS];
	struct rank x = { .run_id = longest,
			  .host = longest,
			  .trace = longest,
			  .command = longest,
			  .gpu = longest,
			  .stacks = { .rows = rows, .count = ROWS },
			  .steps = steps,
			  .step_count = ROWS,
			  .warnings = warnings,
			  .warning_count = ROWS };
	struct report r = { .ranks = &x, .count = 1 }, back;
	struct config c;
	char *line;

	(void)state;
	memset(longest, 1, sizeof(longest) - 1);
	for (size_t i = 0; i < ROWS; i++) {
		rows[i] = (struct stack_row){
			.stack = longest, .label = longest, .inner = longest, .module = longest
		};
		warnings[i] = longest;
	}
	config_init(&c);
	line = line_of(&r, 0, &c);
	assert_in_range(strlen(line), 1000, RECORD_MAX);
	back = again(line);
	assert_true(back.ranks[0].stacks.count < ROWS);
	assert_int_equal(back.ranks[0].stacks.count + back.ranks[0].stacks.left_out, ROWS);
	report_release(&back);
	config_release(&c);
	free(line);
}

static void test_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"{}",
		"[1]",
		"{\"memtrace_record\":2,\"run\":\"a\",\"device\":0}",
		"{\"memtrace_record\":\"1\"}",
		"{\"memtrace_record\":1,\"run\":\"a\",\"run\":\"b\",\"device\":0}",
		"{\"memtrace_record\":1,\"device\":0}",
		"{\"memtrace_record\":1,\"run\":7,\"device\":0}",
		"{\"memtrace_record\":1,\"run\":\"a\",\"device\":\"0\"}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct err e = { 0 };

		assert_null(record_parse(lines[i], strlen(lines[i]), &e));
		assert_true(e.text[0]);
	}
}

/* Numbers that no trace has, and values of other types. */
static void test_hostile_values(void **state)
{
	struct report r = again(
		"{\"memtrace_record\":1,\"run\":\"a\",\"device\":99999999999,\"rank\":-5,\"peak_allocated_bytes\":"
		"9223372036854775807,\"duration_s\":\"x\",\"places\":[1,null],\"steps\":{},\"oom\":[[]],\"metrics\":"
		"{\"requested\":9223372036854775807},\"owners\":{\"pytorch\":7},\"versions\":{\"a\":1},\"end\":5,\"warnings\":[3]}\n");
	struct diagnosis d = { 0 };

	(void)state;
	assert_int_equal(r.count, 1);
	assert_true(r.ranks[0].peak_allocated <= BYTES_LIMIT);
	assert_int_equal(r.ranks[0].rank, 0);
	assert_true(r.ranks[0].metrics->requested < INT64_C(1) << 60);
	/* What every trace has is not unknown: it is added up. */
	assert_string_equal(r.ranks[0].peak.phase, "unknown");
	assert_int_equal(r.ranks[0].peak.other, 0);
	assert_true(r.ranks[0].total == UNKNOWN_BYTES);
	diagnose(&d, &r);
	diagnosis_release(&d);
	report_release(&r);
}

/* Tags are names: a tag that is not known here is none, and a number of another version's rows is
 * not read. */
static void test_tags(void **state)
{
	struct report r = again(
		"{\"memtrace_record\":1,\"run\":\"a\",\"device\":0,\"metrics\":{\"step\":1},\"tags\":255,"
		"\"stack_tags\":[\"OPTIMIZER\",\"OF_A_LATER_VERSION\",3,null,\"FSDP\"]}\n");
	struct config c;
	char *line;

	(void)state;
	assert_true(r.ranks[0].metrics->tags == (TAGGED(OPTIMIZER) | TAGGED(FSDP)));
	config_init(&c);
	line = line_of(&r, 0, &c);
	assert_non_null(strstr(line, "\"stack_tags\":[\"OPTIMIZER\",\"FSDP\"]"));
	config_release(&c);
	report_release(&r);
	free(line);
}

#define GIB (INT64_C(1) << 30)
#define STEPS 1000

/* The record of a rank that holds 10 GiB, and in step 50 or 20 of the first rank 50 GiB. */
static void add_rank(struct report *to, int number, size_t steps, size_t high)
{
	static struct step_row rows[STEPS];
	static char name[] = "a";
	struct rank x = { .run_id = name,
			  .host = name,
			  .trace = name,
			  .rank = number,
			  .world_size = 4,
			  .peak_allocated = 50 * GIB,
			  .steps = rows,
			  .step_count = steps };
	struct report one = { .ranks = &x, .count = 1 }, back;
	struct config c;
	char *line;

	for (size_t i = 0; i < steps; i++)
		rows[i] = (struct step_row){ .step = (uint32_t)i + 1,
					     .peak = (i + 1 == high ? 50 : 10) * GIB };
	config_init(&c);
	line = line_of(&one, 0, &c);
	back = again(line);
	assert_int_equal(back.ranks[0].step_count, steps < 64 ? steps : 64);
	to->ranks = xrealloc(to->ranks, to->count + 1, sizeof(*to->ranks));
	to->ranks[to->count++] = back.ranks[0];
	back.count = 0;
	report_release(&back);
	config_release(&c);
	free(line);
}

/* A rank that ended early is compared with the others up to there, as far as their records say. */
static void test_steps_that_are_left_out(void **state)
{
	static const struct {
		size_t ended, high, high_of_others, outliers;
	} cases[] = {
		{ 100, 50, 50, 0 },  /* their step 50 is in no record */
		{ 100, 20, 990, 0 }, /* nor would it be */
		{ 30, 20, 20, 0 },
		{ 30, 20, 990, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct report r = { 0 };

		add_rank(&r, 0, cases[i].ended, cases[i].high);
		for (int k = 1; k < 4; k++)
			add_rank(&r, k, STEPS, cases[i].high_of_others);
		ranks_relate(&r, NULL);
		assert_non_null(r.as_job);
		assert_int_equal(r.as_job->group_count, 1);
		assert_int_equal(r.as_job->outlier_count, cases[i].outliers);
		if (cases[i].outliers)
			assert_int_equal(r.as_job->outliers[0].step, cases[i].high);
		ranks_free(r.as_job);
		report_release(&r);
	}
}

static void test_one_rank(void **state)
{
	static char path[] = "/tmp/memtrace-records-XXXXXX";
	char *paths[] = { path };
	struct session_options options = { .rank = 1 };
	struct session s;
	struct buf notes = { 0 };
	struct err e = { 0 };
	FILE *f = fdopen(mkstemp(path), "w");

	(void)state;
	assert_non_null(f);
	for (int i = 0; i < 3; i++)
		fprintf(f, "{\"memtrace_record\":1,\"run\":\"a\",\"device\":0,\"rank\":%d}\n", i);
	fclose(f);
	assert_int_equal(session_load(&s, paths, 1, &options, &notes, &e), 0);
	assert_int_equal(s.report.count, 1);
	assert_int_equal(s.report.ranks[0].rank, 1);
	session_release(&s);
	options.rank = 3;
	assert_int_equal(session_load(&s, paths, 1, &options, &notes, &e), -1);
	assert_string_equal(e.text, "there is no record of rank 3 here");
	session_release(&s);
	buf_release(&notes);
	unlink(path);
}

/* A record with values of metrics that no trace has together: each of them 0, missing, or extreme.
 */
static char *any_metrics(unsigned draw)
{
	static const char *const values[] = { "0", "1",          "-1",
					      "4", "1073741824", "9223372036854775807" };
	struct buf line = { 0 };

	buf_puts(&line,
		 "{\"memtrace_record\":1,\"run\":\"a\",\"device\":0,\"metrics\":{\"step\":1");
	for (size_t i = 0; i < metric_count; i++) {
		draw = draw * 1103515245 + 12345;
		if (draw >> 16 & 1 && strcmp(metric_rows[i].name, "step"))
			buf_addf(&line, ",\"%s\":%s", metric_rows[i].name,
				 values[(draw >> 17) % ARRAY_SIZE(values)]);
	}
	buf_puts(&line, "}}\n");
	return buf_take(&line);
}

/* No rule divides by 0, or computes what does not fit, whatever the metrics of a record. */
static void test_hostile_metrics(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4000; i++) {
		char *a = any_metrics(2 * i), *b = any_metrics(2 * i + 1);
		struct report r = again(a), second = again(b);
		struct diagnosis d = { 0 };

		r.ranks = xrealloc(r.ranks, 2, sizeof(*r.ranks));
		r.ranks[r.count++] = second.ranks[0];
		second.count = 0;
		/* Two pipeline stages, which are compared. */
		for (size_t k = 0; k < r.count; k++) {
			r.ranks[k].peak_allocated = INT64_C(1) << 40;
			r.ranks[k].metrics->tags =
				i % 3 ? (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) : 0;
		}
		diagnose(&d, &r);
		diagnosis_release(&d);
		report_release(&second);
		report_release(&r);
		free(a);
		free(b);
	}
}

static void add(struct record_merge *m, const char *line)
{
	struct err e = { 0 };
	json_t *j = record_parse(line, strlen(line), &e);

	assert_non_null(j);
	assert_int_equal(record_merge_add(m, j, (struct str){ line, strlen(line) }, &e), 0);
	json_decref(j);
}

static void made(struct record_merge *m, int rank, int events)
{
	char line[256];

	snprintf(
		line, sizeof(line),
		"{\"memtrace_record\":1,\"run\":\"r%d\",\"restart\":%d,\"rank\":%d,\"device\":0,\"host\":\"n\",\"pid\":%d,"
		"\"events\":%d,\"ended\":false,\"padding\":\"%0*d\"}",
		rank % 3, rank % 2, rank, 1000 + rank, events, rank % 50 + 1, 0);
	add(m, line);
}

static int keep(void *context, struct str line)
{
	buf_add(context, line.at, line.length);
	return 0;
}

static char *result(struct record_merge *m)
{
	struct buf out = { 0 };
	struct err e = { 0 };

	assert_int_equal(record_merge_each(m, keep, &out, &e), 0);
	record_merge_free(m);
	return buf_take(&out);
}

#define RANKS 10240

/* Each once, in any order, repeated, and in parts that are joined afterwards. */
static void test_any_order(void **state)
{
	struct err e = { 0 };
	struct record_merge *forth = record_merge_new(&e), *shuffled = record_merge_new(&e),
			    *twice = record_merge_new(&e);
	char *a, *b, *c;
	size_t lines = 0;

	(void)state;
	for (int i = 0; i < RANKS; i++)
		made(forth, i, 5);
	/* 7919 and RANKS have no common factor: every rank, far from its neighbours. Of a job that
	 * was running when it was summarized first, an older record is there too. */
	for (int i = 0; i < RANKS; i++) {
		made(shuffled, (int)((long long)i * 7919 % RANKS), 5);
		made(shuffled, (int)((long long)i * 7333 % RANKS), 4);
	}
	a = result(forth);
	b = result(shuffled);
	for (const char *at = a; *at; at = strchr(at, '\n') + 1)
		lines++;
	assert_int_equal(lines, RANKS);
	assert_string_equal(a, b);
	for (char *at = b, *end; *at; at = end + 1) {
		end = strchr(at, '\n');
		*end = 0;
		add(twice, at);
		add(twice, at);
	}
	c = result(twice);
	assert_string_equal(a, c);
	free(a);
	free(b);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, fixture_setup, fixture_teardown),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_hostile_values),
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_steps_that_are_left_out),
		cmocka_unit_test(test_one_rank),
		cmocka_unit_test(test_hostile_metrics),
		cmocka_unit_test(test_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
