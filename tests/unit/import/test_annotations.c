/* Named ranges as steps and phases. Every test counts the records that come out. */
#include "fixture.h"
#include "import/annotations.h"

struct named {
	struct annotations a;
	struct image i;
	uint64_t now;
	size_t steps, begins, ends, open, most_open;
};

static int named_setup(void **state)
{
	struct named *n = xcalloc(1, sizeof(*n));

	image_begin(&n->i);
	*state = n;
	return 0;
}

static int named_teardown(void **state)
{
	struct named *n = *state;

	image_release(&n->i);
	free(n);
	return 0;
}

/* The names stay in the file's memory as long as the annotations. */
static struct str name_of(const char *word, int number)
{
	static char names[4096][32];
	static int used;
	char *text = names[used++];

	snprintf(text, sizeof(names[0]), "%s%d", word, number);
	return (struct str){ text, strlen(text) };
}

static void put(struct named *n, int is_end, const char *word, int number)
{
	annotations_add(&n->a, n->now++, is_end, name_of(word, number));
}

/* Each end must be that of an open phase. */
static void finish(struct named *n)
{
	char is_open[4096] = { 0 };

	annotations_finish(&n->a, &n->i, 1);
	for (size_t k = 0; k < n->i.count; k++) {
		const struct mt_record *r = &n->i.records[k];

		n->steps += r->kind == MT_STEP;
		if (r->kind == MT_PHASE_BEGIN) {
			n->begins++;
			n->open++;
			is_open[r->address] = 1;
		} else if (r->kind == MT_PHASE_END) {
			n->ends++;
			n->open--;
			assert_true(is_open[r->address]);
			is_open[r->address] = 0;
		}
		n->most_open = n->open > n->most_open ? n->open : n->most_open;
	}
}

/* Only the outer range is the step, however it is called; forward is within both. */
static void a_counted_range_within_a_step_is_a_phase(void **state)
{
	struct named *n = *state;

	for (int k = 0; k < 100; k++) {
		put(n, 0, "iteration ", k);
		put(n, 0, "train_step ", k);
		put(n, 0, "forward", 0);
		put(n, 1, "forward", 0);
		put(n, 1, "train_step ", k);
		put(n, 1, "iteration ", k);
	}
	finish(n);
	assert_int_equal(n->steps, 100);
	assert_int_equal(n->begins, 200);
	assert_int_equal(n->ends, 200);
	assert_int_equal(n->most_open, 2);
}

/* Three epochs of five steps. */
static void numbers_restart(void **state)
{
	struct named *n = *state;

	for (int k = 0; k < 15; k++) {
		put(n, 0, "## step ", k % 5);
		put(n, 0, "iteration ", k); /* another word, and within the step */
		put(n, 1, "iteration ", k);
		put(n, 1, "## step ", k % 5);
		put(n, 0, "iter ", k); /* another word */
		put(n, 1, "iter ", k);
	}
	finish(n);
	assert_int_equal(n->steps, 15);
	assert_int_equal(n->begins, 30);
	assert_int_equal(n->ends, 30);
	assert_int_equal(n->most_open, 1);
}

/* A history that begins or ends within a step, and steps whose ends are out of order. */
static void ends_are_missing(void **state)
{
	struct named *n = *state;

	put(n, 1, "forward", 0);
	put(n, 1, "step ", 1);
	put(n, 0, "step ", 2); /* its end is missing */
	put(n, 0, "step ", 3);
	put(n, 0, "step ", 4);
	put(n, 1, "step ", 3);
	put(n, 1, "step ", 4);
	put(n, 0, "forward", 0);
	finish(n);
	assert_int_equal(n->steps, 3);
	assert_int_equal(n->begins, 1);
	assert_int_equal(n->ends, 0);
}

/* 200 phases within each other, and one of the same name within itself. */
static void phases_are_nested_without_a_limit(void **state)
{
	struct named *n = *state;

	for (int k = 0; k < 200; k++)
		put(n, 0, "layer ", k);
	put(n, 0, "layer ", 199);
	put(n, 1, "layer ", 199);
	for (int k = 200; k-- > 0;)
		put(n, 1, "layer ", k);
	finish(n);
	assert_int_equal(n->steps, 0);
	assert_int_equal(n->begins, 201);
	assert_int_equal(n->ends, 201);
	assert_int_equal(n->most_open, 201);
}

/* With the profiler's own steps, names that count are phases. */
static void the_profiler_s_steps_come_first(void **state)
{
	struct named *n = *state;

	for (int k = 0; k < 4; k++) {
		put(n, 0, "ProfilerStep#", k);
		put(n, 0, "step ", k);
		put(n, 1, "step ", k);
		put(n, 1, "ProfilerStep#", k);
	}
	finish(n);
	assert_int_equal(n->steps, 4);
	assert_int_equal(n->begins, 4);
	assert_int_equal(n->ends, 4);
}

/* An allocation of the same microsecond is the step's first one. */
static void a_step_begins_before_the_events_of_its_time(void **state)
{
	struct named *n = *state;
	const struct mt_record alloc = { .kind = MT_TENSOR_ALLOC, .bytes = 512, .time_ns = 1000 };
	const struct mt_record *sorted;
	unsigned char *file;
	uint64_t size;

	image_record(&n->i, &alloc);
	for (n->now = 0; n->now <= 2000; n->now += 999) /* put() adds one */
		put(n, 0, "step ", (int)n->now / 1000);
	annotations_finish(&n->a, &n->i, 1);
	file = image_finish(&n->i, &size);
	assert_true(size > 4 * sizeof(*sorted));
	sorted = (const struct mt_record *)(file + size - 4 * sizeof(*sorted));
	for (int k = 0; k < 4; k++)
		assert_int_equal(sorted[k].kind, k == 2 ? MT_TENSOR_ALLOC : MT_STEP);
	free(file);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, named_setup, named_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_counted_range_within_a_step_is_a_phase),
		TEST(numbers_restart),
		TEST(ends_are_missing),
		TEST(phases_are_nested_without_a_limit),
		TEST(the_profiler_s_steps_come_first),
		TEST(a_step_begins_before_the_events_of_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
