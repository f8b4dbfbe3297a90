/* The ranks of a job beside each other: layouts, groups, outliers, what is missing; many traces
 * read at a time. */
#include "session/session.h"
#include "report/rank_groups.h"
#include "json/report_json.h"
#include "render/report_text.h"
#include "write_training.h"
#include "readers/native.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)

struct fixture {
	char directory[64];
	struct session session;
	int has_session;
	struct buf notes, out;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	strcpy(f->directory, "/tmp/memtrace-test-XXXXXX");
	*state = f;
	return mkdtemp(f->directory) ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	if (f->has_session)
		session_release(&f->session);
	buf_release(&f->notes);
	buf_release(&f->out);
	snprintf(command, sizeof(command), "rm -rf %s", f->directory);
	free(f);
	return system(command) ? -1 : 0;
}

static char *path_of(const struct fixture *f, int rank)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/rank%04d.mtr", f->directory, rank);
	return path;
}

/* A rank without a declared layout, that holds `mib` MiB in each of `steps` steps; from step `from`
 * on `more` MiB beside it. */
static void write_rank(struct fixture *f, int rank, int world, int64_t mib, int steps, int from,
		       int64_t more)
{
	uint32_t stack, optimizer;
	uint16_t python, autograd;
	struct writer w;

	write_start(&w);
	w.header.rank = rank;
	w.header.world_size = world;
	python = write_thread(&w, 100, "python");
	autograd = write_thread(&w, 101, "pt_autograd_0");
	write_module(&w, "/site-packages/torch/lib/libc10_cuda.so");
	stack = write_stack(&w, 1, write_frame(&w, "GPT.forward", "/job/train.py", 1), 0, 0, 0);
	optimizer = write_stack(&w, 1, write_frame(&w, "AdamW.step", "/x/torch/optim/adamw.py", 1),
				0, 0, 0);
	write_event(&w, MT_TENSOR_ALLOC, 1, 10 * MIB, stack, python);
	for (int step = 1; step <= steps; step++) {
		int64_t n = (mib + (step >= from ? more : 0)) * MIB;

		write_event(&w, MT_TENSOR_ALLOC, 2, n, stack, python);
		write_event(&w, MT_TENSOR_ALLOC, 3, MIB, 0, autograd);
		write_event(&w, MT_TENSOR_FREE, 2, -n, 0, autograd);
		write_event(&w, MT_TENSOR_ALLOC, 4, MIB, optimizer, python);
		write_event(&w, MT_TENSOR_FREE, 4, -MIB, optimizer, python);
		write_event(&w, MT_TENSOR_FREE, 3, -MIB, optimizer, python);
	}
	assert_int_equal(write_save(&w, path_of(f, rank)), 0);
	write_release(&w);
}

static void write_megatron(struct fixture *f, int rank, int world, size_t events, int64_t scale)
{
	struct writer w;

	write_megatron_rank(&w, rank, world, events, scale);
	assert_int_equal(write_save(&w, path_of(f, rank)), 0);
	write_release(&w);
}

static const struct ranks *load(struct fixture *f)
{
	const struct session_options options = { .rank = NO_RANK };
	char *path = f->directory;
	struct err e = { 0 };

	f->has_session = 1;
	if (session_load(&f->session, &path, 1, &options, &f->notes, &e) < 0)
		fail_msg("%s", e.text);
	return f->session.report.as_job;
}

static void show(struct fixture *f, int width)
{
	struct style style = { .width = width, .top = 10 };

	report_text(&f->session.report, &style, &f->out);
}

static void assert_says(const struct fixture *f, const char *text)
{
	if (!strstr(f->out.text, text))
		fail_msg("\"%s\" is not in:\n%s", text, f->out.text);
}

static void numbers_are_listed_as_runs(void **state)
{
	static const int numbers[] = { 0, 1, 2, 3, 7, 9, 10 };
	struct fixture *f = *state;

	ranks_list(&f->out, numbers, ARRAY_SIZE(numbers), 6);
	assert_string_equal(f->out.text, "0-3, 7, 9, 10");
	buf_release(&f->out);
	ranks_list(&f->out, numbers, ARRAY_SIZE(numbers), 1);
	assert_string_equal(f->out.text, "0-3 and 3 more");
}

/* Megatron-core's RankGenerator for tp 2, cp 2, dp 2, pp 2 and ep 2, etp 1, by hand. */
static void ranks_stand_in_megatrons_order(void **state)
{
	struct rank_layout l = { .size = { 2, 2, 2, 2, 2 }, .expert_tensor = 1 };
	struct rank_coordinates c;

	(void)state;
	c = rank_coordinates(&l, 13); /* 13 = 1 + 2 (0 + 2 (1 + 2 * 1)) */
	assert_int_equal(c.at[AXIS_TP], 1);
	assert_int_equal(c.at[AXIS_CP], 0);
	assert_int_equal(c.at[AXIS_DP], 1);
	assert_int_equal(c.at[AXIS_PP], 1);
	assert_int_equal(c.at[AXIS_EP], 1); /* the 6th of its stage, experts alternate */
	l.stages_before_data = 1;           /* 13 = 1 + 2 (0 + 2 (1 + 2 * 1)), stage before data */
	c = rank_coordinates(&l, 5);
	assert_int_equal(c.at[AXIS_TP], 1);
	assert_int_equal(c.at[AXIS_CP], 0);
	assert_int_equal(c.at[AXIS_PP], 1);
	assert_int_equal(c.at[AXIS_DP], 0);
	assert_int_equal(c.at[AXIS_EP], 1);
}

static void read_layout(const char *text, int world, int known, const int64_t *size)
{
	struct config c;
	struct rank_layout l;
	struct err e = { 0 };
	char *copy = xstrdup(text);

	config_init(&c);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		assert_int_equal(config_set(&c, word, value, "test", &e), 0);
	}
	assert_int_equal(rank_layout_read(&l, &c, world), known);
	for (int a = 0; known && a < AXES; a++)
		assert_int_equal(l.size[a], size[a]);
	config_release(&c);
	free(copy);
}

static void layouts_are_read_where_they_divide(void **state)
{
	(void)state;
	read_layout("tensor_model_parallel_size=2 pipeline_model_parallel_size=4", 16, 1,
		    (const int64_t[]){ 2, 1, 1, 2, 4 });
	read_layout("expert_model_parallel_size=4 tensor_model_parallel_size=2", 8, 1,
		    (const int64_t[]){ 2, 1, 4, 4, 1 });
	read_layout("tensor_model_parallel_size=3", 16, 0, NULL);
	read_layout("tensor_model_parallel_size=32", 16, 0, NULL);
	read_layout("expert_model_parallel_size=16 tensor_model_parallel_size=2", 16, 0, NULL);
	read_layout("data_parallel_size=16", 16, 0, NULL); /* says nothing of the others */
	read_layout("num_layers=2", 16, 0, NULL);
}

static void stages_are_groups_and_the_odd_rank_sticks_out(void **state)
{
	struct fixture *f = *state;
	const struct ranks *job;

	for (int rank = 0; rank < 16; rank++)
		if (rank != 6)
			write_megatron(f, rank, 16, 9000, rank == 10 ? 2 : 1);
	job = load(f);
	assert_true(job->is_placed);
	assert_int_equal(job->group_count, 4);
	assert_int_equal(job->groups[1].count, 3);
	assert_int_equal(job->groups[2].stage, 2);
	assert_int_equal(job->groups[2].most, 2 * job->groups[2].median[LEVEL_ALLOCATED]);
	assert_int_equal(job->outlier_count, 1);
	assert_int_equal(f->session.report.ranks[job->outliers[0].rank].rank, 10);
	assert_int_equal(job->outliers[0].value, 2 * job->outliers[0].median);
	assert_int_equal(job->outliers[0].step, 1);
	assert_int_equal(job->missing_count, 1);
	assert_int_equal(job->missing[0], 6);
	show(f, 100);
	assert_says(f, "outlier     rank 10 (pp 2, dp 1, tp 0): ");
	assert_says(f, "missing     rank 6 of 16: there is no trace of it here\n");
}

static void unknown_layouts_group_what_is_alike(void **state)
{
	struct fixture *f = *state;
	const struct ranks *job;

	for (int rank = 0; rank < 8; rank++)
		write_rank(f, rank, 8, rank < 4 ? 100 : rank == 7 ? 400 : 200, 3, 9, 0);
	job = load(f);
	assert_false(job->is_placed);
	assert_int_equal(job->group_count, 3);
	assert_int_equal(job->groups[0].count, 4);
	assert_int_equal(job->groups[0].median[LEVEL_ALLOCATED], 111 * MIB);
	assert_int_equal(job->groups[1].count, 3);
	assert_int_equal(job->outlier_count, 1);
	assert_int_equal(job->outliers[0].value, 411 * MIB);
	show(f, 100);
	assert_says(f, "ranks that are alike together");
	assert_says(f, "outlier     rank 7: 411.0 MiB allocated");
}

/* As one group, by a layout of data parallelism alone. */
static const struct ranks *load_as_one_group(struct fixture *f)
{
	struct report *r = &f->session.report;

	load(f);
	ranks_free(r->as_job);
	r->as_job = NULL;
	f->session.config.from_framework = 1;
	ranks_relate(r, &f->session.config);
	assert_int_equal(r->as_job->group_count, 1);
	return r->as_job;
}

/* The distances from the median, 1020 MiB: 0 20 20 40 60 80 280; five times their median is 200. */
static void five_median_deviations_are_an_outlier(void **state)
{
	static const int64_t sizes[] = { 1000, 1020, 1040, 980, 960, 1100, 1300 };
	struct fixture *f = *state;
	const struct ranks *job;

	for (int rank = 0; rank < 7; rank++)
		write_rank(f, rank, 7, sizes[rank], 3, 9, 0);
	job = load_as_one_group(f);
	assert_int_equal(job->groups[0].median[LEVEL_ALLOCATED], (1020 + 11) * MIB);
	assert_int_equal(job->groups[0].deviation[LEVEL_ALLOCATED], 40 * MIB);
	assert_int_equal(job->outlier_count, 1);
	assert_int_equal(job->outliers[0].rank, 6);
	assert_int_equal(job->outliers[0].value, (1300 + 11) * MIB);
}

/* Rank 3 was stopped in step 2, before all needed more; rank 4 needs more from step 3 on. */
static void ranks_are_compared_by_steps(void **state)
{
	struct fixture *f = *state;
	const struct ranks *job;

	for (int rank = 0; rank < 6; rank++)
		write_rank(f, rank, 6, 100, rank == 3 ? 2 : 5, rank == 4 ? 3 : 5,
			   rank == 4 ? 300 : 50);
	job = load_as_one_group(f);
	assert_int_equal(job->outlier_count, 1);
	assert_int_equal(job->outliers[0].rank, 4);
	assert_int_equal(job->outliers[0].step, 3);
}

/* Of two thousand million ranks that a damaged header tells of, a list would need 8 GiB. */
static void a_world_beyond_all_is_bounded(void **state)
{
	struct fixture *f = *state;
	const struct ranks *job;

	for (int rank = 0; rank < 2; rank++)
		write_rank(f, rank, INT32_MAX, 100, 3, 9, 0);
	job = load(f);
	assert_int_equal(job->missing_count, (1 << 17) - 2);
	assert_int_equal(job->missing[0], 2);
}

static void files_that_cannot_be_read_are_named(void **state)
{
	struct fixture *f = *state;
	char path[160];
	FILE *file;

	for (int rank = 0; rank < 2; rank++)
		write_rank(f, rank, 4, 100, 3, 9, 0);
	snprintf(path, sizeof(path), "%s/rank0002.mtr", f->directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("memtrace", file);
	fclose(file);
	write_rank(f, 3, 4, 100, 3, 9, 0);
	assert_int_equal(truncate(path_of(f, 3), MT_HEADER_BYTES + 400), 0);
	load(f);
	show(f, 300);
	assert_says(f, "rank0002.mtr ends inside its header");
	assert_says(f, "missing     rank 2 of 4");
	assert_says(f,
		    "warning     rank 3: the file is truncated: read up to its last whole record");
}

static void the_table_fits(void **state)
{
	struct fixture *f = *state;

	for (int rank = 0; rank < 4; rank++)
		write_megatron(f, rank, 4, 3000, 1);
	load(f);
	for (size_t i = 0; i < f->session.report.count; i++)
		f->session.report.ranks[i].simulated = 1;
	for (int width = 60; width <= 100; width += 20) {
		buf_release(&f->out);
		show(f, width);
		for (const char *line = f->out.text; *line; line += strcspn(line, "\n") + 1)
			if (strcspn(line, "\n") > (size_t)width && strncmp(line, "next", 4))
				fail_msg("too long for %d: %.*s", width, (int)strcspn(line, "\n"),
					 line);
		assert_says(f, "simulated\n");
		assert_says(f, " reserved");
	}
	assert_null(strchr(f->out.text, '\033'));
}

/* A rank that is reduced keeps points of its curve, and in them its highest level. */
static void assert_reduced_curve(const struct rank *r, int64_t peak)
{
	int64_t most = 0;

	assert_int_equal(r->timeline_count, SESSION_REDUCED_POINTS);
	for (size_t i = 0; i < r->timeline_count; i++) {
		if (i)
			assert_true(r->timeline[i - 1].time_s < r->timeline[i].time_s);
		if (r->timeline[i].allocated > most)
			most = r->timeline[i].allocated;
	}
	assert_int_equal(most, peak);
}

/* More than are kept whole. */
static void many_ranks_are_read_at_a_time(void **state)
{
	struct fixture *f = *state;
	const struct report *r = &f->session.report;
	const struct rank *worst;
	const json_t *rank;
	json_t *root;

	for (int i = 0; i < 2 * SESSION_MAX_WHOLE; i++)
		write_megatron(f, i, 2 * SESSION_MAX_WHOLE, 4000, i == 70 ? 3 : 1);
	assert_int_equal(load(f)->group_count, 4);
	assert_int_equal(r->count, 2 * SESSION_MAX_WHOLE);
	for (size_t i = 0; i < r->count; i++) {
		assert_int_equal(r->ranks[i].rank, i);
		assert_int_equal(r->ranks[i].events, 4000);
	}
	worst = report_worst(r);
	for (size_t i = 0; i < r->count; i++)
		if (&r->ranks[i] == worst)
			assert_true(r->ranks[i].stacks.count > SESSION_REDUCED_STACKS);
		else
			assert_int_equal(r->ranks[i].stacks.count, SESSION_REDUCED_STACKS);
	assert_reduced_curve(&r->ranks[32], r->ranks[32].peak_allocated);
	assert_reduced_curve(&r->ranks[71], r->ranks[71].peak_allocated);
	/* What two ranks have is held once. */
	assert_string_equal(r->ranks[32].stacks.rows[0].stack, r->ranks[33].stacks.rows[0].stack);
	assert_ptr_equal(r->ranks[32].stacks.rows[0].stack, r->ranks[33].stacks.rows[0].stack);
	/* Reduced or not: the same numbers. */
	assert_int_equal(r->ranks[32].peak_allocated, r->ranks[63].peak_allocated);
	assert_int_equal(r->ranks[70].peak_allocated, 3 * r->ranks[71].peak_allocated);
	assert_int_equal(r->as_job->outlier_count, 1);
	show(f, 100);
	assert_says(f, "outlier     rank 70 (");
	assert_says(f, "more: memtrace report --json\n");
	buf_release(&f->out);
	report_json(r, &f->out);
	root = json_loads(f->out.text, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(root, "ranks")), 2 * SESSION_MAX_WHOLE);
	rank = json_array_get(json_object_get(json_object_get(root, "job"), "seats"), 70);
	assert_int_equal(json_integer_value(json_object_get(rank, "pp")), 2);
	assert_int_equal(json_integer_value(json_object_get(rank, "dp")), 3);
	json_decref(root);
}

/* Of 6,000 ranks three of ten need 200 MiB more from step 58 on, and two of ten stopped early. The
 * median of a step is computed once, not again for each of them, which would take minutes. */
static void many_outliers_take_seconds(void **state)
{
	enum { RANKS = 6000, STEPS = 60, SINCE = 58 };
	static char name[] = "a";
	struct report r = { .ranks = xcalloc(RANKS, sizeof(*r.ranks)), .count = RANKS };
	struct config c;
	clock_t began = clock();

	(void)state;
	for (int i = 0; i < RANKS; i++) {
		struct rank *x = &r.ranks[i];
		int is_out = i % 10 < 3, is_early = i % 10 > 7;

		x->run_id = x->host = x->trace = name;
		x->rank = i;
		x->world_size = RANKS;
		x->peak_allocated = (1000 + 200 * is_out) * MIB;
		x->step_count = is_early ? 20 + (size_t)(i % 37) : STEPS;
		x->steps = xcalloc(STEPS, sizeof(*x->steps));
		for (uint32_t k = 0; k < STEPS; k++)
			x->steps[k] = (struct step_row){
				.step = k + 1,
				.peak = (1000 + (is_out && k + 1 >= SINCE ? 200 : 0)) * MIB
			};
	}
	config_init(&c);
	c.from_framework = 1;
	ranks_relate(&r, &c);
	assert_int_equal(r.as_job->group_count, 1);
	assert_int_equal(r.as_job->outlier_count, RANKS * 3 / 10);
	for (size_t i = 0; i < r.as_job->outlier_count; i++) {
		assert_int_equal(r.as_job->outliers[i].step, SINCE);
		assert_true(r.as_job->outliers[i].rank % 10 < 3);
	}
	assert_true(clock() - began < 10 * CLOCKS_PER_SEC);
	ranks_free(r.as_job);
	report_release(&r);
	config_release(&c);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(numbers_are_listed_as_runs),
		T(ranks_stand_in_megatrons_order),
		T(layouts_are_read_where_they_divide),
		T(stages_are_groups_and_the_odd_rank_sticks_out),
		T(unknown_layouts_group_what_is_alike),
		T(five_median_deviations_are_an_outlier),
		T(ranks_are_compared_by_steps),
		T(many_outliers_take_seconds),
		T(a_world_beyond_all_is_bounded),
		T(files_that_cannot_be_read_are_named),
		T(the_table_fits),
		T(many_ranks_are_read_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
