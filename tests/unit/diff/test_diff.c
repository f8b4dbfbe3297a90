/* Two jobs beside each other: medians, spreads, stacks whose lines moved, what they declare; limits
 * as people write them. */
#include "diff/diff.h"
#include "util/limit.h"
#include "render/diff_text.h"
#include "readers/native.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Runs of one rank each, made by hand: their texts are constants. */
struct run {
	struct session session;
	struct rank rank;
	struct stack_row rows[4];
};

static struct run runs[4];
static struct diff diff;
static struct err why;
static char host[] = "h", id[] = "run", trace[] = "t.mtr", none[] = "";

static int setup(void **state)
{
	(void)state;
	memset(runs, 0, sizeof(runs));
	memset(&diff, 0, sizeof(diff));
	memset(&why, 0, sizeof(why));
	for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
		struct run *r = &runs[i];

		config_init(&r->session.config);
		r->rank = (struct rank){ .rank = NO_RANK,
					 .restart_count = NO_RANK,
					 .host = host,
					 .run_id = id,
					 .trace = trace,
					 .total = UNKNOWN_BYTES };
		r->rank.stacks.rows = r->rows;
		r->session.report.ranks = &r->rank;
		r->session.report.count = 1;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(runs); i++)
		config_release(&runs[i].session.config);
	diff_release(&diff);
	return 0;
}

static void take(int side, struct run *r)
{
	diff.side[side].runs[diff.side[side].count++] = &r->session;
}

static void add_stack(struct run *r, const char *stack, bytes n)
{
	r->rows[r->rank.stacks.count++] = (struct stack_row){ .stack = (char *)(uintptr_t)stack,
							      .label = (char *)(uintptr_t)stack,
							      .inner = none,
							      .bytes = n };
}

/* A block of a backward pass: all of them have one stack. */
static void add_backward(struct run *r, const char *of, bytes n)
{
	add_stack(r, "(no Python stack, thread pt_autograd_0)", n);
	r->rows[r->rank.stacks.count - 1].backward_of = (char *)(uintptr_t)of;
}

static const struct diff_item *find(enum diff_kind kind, const char *name)
{
	const struct diff_item *i = diff_find(&diff, kind, name);

	if (!i)
		fail_msg("there is no %s \"%s\"", diff_kind_name(kind), name);
	return i;
}

/* A: 10 and 14, of which the lower counts; B: 15 and 20. */
static void a_change_is_beyond_the_spread(void **state)
{
	static const bytes peaks[] = { 14, 10, 20, 15 };
	const struct diff_item *i;

	(void)state;
	for (int k = 0; k < 4; k++) {
		runs[k].rank.peak_allocated = peaks[k];
		runs[k].rank.peak_reserved = k == 2 ? 12 : peaks[k];
		take(k / 2, &runs[k]);
	}
	assert_int_equal(diff_make(&diff, NO_RANK, &why), 0);
	i = find(DIFF_PEAK, "allocated");
	assert_int_equal(i->side[SIDE_A].median, 10);
	assert_int_equal(i->side[SIDE_A].most, 14);
	assert_int_equal(diff_item_change(i), 5);
	assert_true(i->is_changed);
	i = find(DIFF_PEAK, "reserved"); /* 12 lies between 10 and 14 */
	assert_false(i->is_changed);
	assert_false(find(DIFF_PEAK, "device")->is_changed);
}

/* Lines move, functions do not: two of the same name pair by size. */
static void stacks_are_the_same_where_lines_moved(void **state)
{
	(void)state;
	add_stack(&runs[0], "f a.py:10;g a.py:20", 100);
	add_stack(&runs[0], "f a.py:10;g a.py:25", 50);
	add_stack(&runs[0], "f a.py:10;h a.py:30", 7);
	add_stack(&runs[1], "f a.py:11;g a.py:21", 60);
	add_stack(&runs[1], "f a.py:11;g a.py:26", 100);
	add_stack(&runs[1], "f a.py:11;k a.py:30", 7);
	take(SIDE_A, &runs[0]);
	take(SIDE_B, &runs[1]);
	assert_int_equal(diff_make(&diff, NO_RANK, &why), 0);
	assert_int_equal(diff_item_change(find(DIFF_STACK, "f a.py:11;g a.py:26")), 0);
	assert_false(find(DIFF_STACK, "f a.py:11;g a.py:26")->is_changed);
	assert_int_equal(diff_item_change(find(DIFF_STACK, "f a.py:11;g a.py:21")), 10);
	assert_int_equal(diff_item_change(find(DIFF_STACK, "f a.py:10;h a.py:30")), -7);
	assert_int_equal(diff_item_change(find(DIFF_STACK, "f a.py:11;k a.py:30")), 7);
	assert_null(diff_find(&diff, DIFF_STACK, "f a.py:10;g a.py:20"));
}

/* One stack with blocks of two categories is two rows of the report and one item. */
static void a_stack_is_one_item(void **state)
{
	(void)state;
	add_stack(&runs[0], "f a.py:10", 100);
	add_stack(&runs[0], "f a.py:10", 11);
	take(SIDE_A, &runs[0]);
	take(SIDE_B, &runs[1]);
	assert_int_equal(diff_make(&diff, NO_RANK, &why), 0);
	assert_int_equal(find(DIFF_STACK, "f a.py:10")->side[SIDE_A].median, 111);
	assert_int_equal(find(DIFF_STACK, "f a.py:10")->side[SIDE_B].median, 0);
}

static void assert_line(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("\"%s\" is not in:\n%s", line, text);
}

/* Blocks of the backward pass belong to lines of the forward pass, which may move; two stacks of
 * one line have different innermost frames. */
static void stacks_have_the_words_of_the_report(void **state)
{
	struct style style = { .width = 100, .top = 10 };
	char label[] = "main  a.py:25", inner[2][17] = { "init adam.py:179", "init adam.py:183" };
	struct buf out = { 0 };

	(void)state;
	add_backward(&runs[0], "loss  a.py:42", 300 << 20);
	add_backward(&runs[0], "forward  a.py:12", 200 << 20);
	add_backward(&runs[1], "loss  a.py:43", 100 << 20);
	add_stack(&runs[1], "main a.py:25;init adam.py:179", 50 << 20);
	add_stack(&runs[1], "main a.py:25;init adam.py:183", 60 << 20);
	for (int k = 1; k < 3; k++) {
		runs[1].rows[k].label = label;
		runs[1].rows[k].inner = inner[k - 1];
	}
	take(SIDE_A, &runs[0]);
	take(SIDE_B, &runs[1]);
	assert_int_equal(diff_make(&diff, NO_RANK, &why), 0);
	diff_text(&diff, NULL, NULL, &style, &out);
	assert_line(out.text,
		    "300.0 MiB  100.0 MiB  -200.0 MiB   -67 %  backward of loss  a.py:43\n");
	assert_line(out.text, "-200.0 MiB  -100 %  backward of forward  a.py:12\n");
	assert_line(out.text, "main  a.py:25 (in init adam.py:179)\n");
	assert_line(out.text, "main  a.py:25 (in init adam.py:183)\n");
	assert_null(strstr(out.text, "no Python stack"));
	buf_release(&out);
}

static void a_file_that_does_not_tell_the_end_is_no_death(void **state)
{
	struct oom oom = { .requested = 1 << 20,
			   .when = { .step = 3, .phase = "forward" },
			   .survived = SURVIVED_UNKNOWN };
	size_t count;

	(void)state;
	runs[1].rank.ooms = runs[2].rank.ooms = runs[3].rank.ooms = &oom;
	runs[1].rank.oom_count = runs[2].rank.oom_count = runs[3].rank.oom_count = 1;
	runs[2].rank.end = END_OOM;
	take(SIDE_A, &runs[0]);
	take(SIDE_A, &runs[1]);
	take(SIDE_A, &runs[2]);
	take(SIDE_B, &runs[3]);
	assert_int_equal(diff_make(&diff, NO_RANK, &why), 0);
	assert_ptr_equal(diff_side_failed(&diff.side[SIDE_A], &count), &runs[1].rank);
	assert_int_equal(count, 2);
	assert_non_null(rank_why_unknown_death(&runs[1].rank));
	assert_null(rank_why_unknown_death(&runs[2].rank));
	assert_ptr_equal(diff_side_failed(&diff.side[SIDE_B], NULL), &runs[3].rank);
	oom.survived = SURVIVED_YES;
	assert_null(diff_side_failed(&diff.side[SIDE_B], NULL));
	assert_ptr_equal(diff_side_failed(&diff.side[SIDE_A], &count), &runs[2].rank);
}

static void assert_config(const char *name, const char *a, const char *b)
{
	const struct diff_item *i = find(DIFF_CONFIG, name);
	const char *const texts[] = { a, b };

	for (int s = 0; s < SIDES; s++)
		if (texts[s])
			assert_string_equal(i->side[s].text, texts[s]);
		else
			assert_null(i->side[s].text);
}

static void what_was_declared_is_compared(void **state)
{
	char *a[] = { (char[]){ "python" },  (char[]){ "train.py" }, (char[]){ "--lr=1" },
		      (char[]){ "--flash" }, (char[]){ "--sizes" },  (char[]){ "1" },
		      (char[]){ "-2" } },
	     *b[] = { (char[]){ "python" }, (char[]){ "new.py" },  (char[]){ "--lr" },
		      (char[]){ "2" },      (char[]){ "--sizes" }, (char[]){ "1" },
		      (char[]){ "-2" } };
	struct version versions[] = { { (char[]){ "torch" }, (char[]){ "2.7" } } };

	(void)state;
	runs[0].session.argv = a;
	runs[0].session.argv_count = ARRAY_SIZE(a);
	runs[1].session.argv = b;
	runs[1].session.argv_count = ARRAY_SIZE(b);
	runs[1].rank.versions = versions;
	runs[1].rank.version_count = 1;
	runs[1].rank.simulated = 1;
	assert_int_equal(config_set(&runs[0].session.config, "hidden_size", "64", "x", &why), 0);
	assert_int_equal(config_set(&runs[1].session.config, "hidden_size", "128", "x", &why), 0);
	assert_int_equal(config_set(&runs[0].session.config, "environment",
				    "{\"NCCL_X\":\"1\",\"RANK\":\"0\"}", "x", &why),
			 0);
	assert_int_equal(config_set(&runs[1].session.config, "environment",
				    "{\"NCCL_X\":\"2\",\"RANK\":\"1\"}", "x", &why),
			 0);
	take(SIDE_A, &runs[0]);
	take(SIDE_B, &runs[1]);
	assert_int_equal(diff_make(&diff, NO_RANK, &why), 0);
	assert_config("hidden_size", "64", "128");
	assert_config("--lr", "1", "2");
	assert_config("--flash", "", NULL);
	assert_config("command", "python train.py", "python new.py");
	assert_config("env:NCCL_X", "1", "2");
	assert_config("version:torch", NULL, "2.7");
	assert_config("source", "observed", "simulated");
	assert_null(diff_find(&diff, DIFF_CONFIG, "env:RANK"));
	assert_null(diff_find(&diff, DIFF_CONFIG, "--sizes"));
}

static void no_text_reaches_the_terminal_as_it_is(void **state)
{
	struct style style = { .width = 80, .top = 10 };
	char *a[] = { (char[]){ "--x" }, (char[]){ "\033[31m" } };
	struct buf out = { 0 };

	(void)state;
	runs[0].session.argv = a;
	runs[0].session.argv_count = ARRAY_SIZE(a);
	take(SIDE_A, &runs[0]);
	take(SIDE_B, &runs[1]);
	assert_int_equal(diff_make(&diff, NO_RANK, &why), 0);
	diff_text(&diff, NULL, NULL, &style, &out);
	assert_null(strchr(out.text, '\033'));
	assert_non_null(strstr(out.text, "--x: ?[31m -> (not given)"));
	buf_release(&out);
}

static void limits_are_sizes_or_percentages(void **state)
{
	static const struct {
		const char *text;
		bytes of_200;
	} good[] = { { "0", 0 },      { "5%", 10 }, { "0.5 %", -1 }, { "2KiB", 2048 },
		     { "150%", 300 }, { "x%", -1 }, { "-1%", -1 },   { "nan%", -1 },
		     { "5%%", -1 },   { "%", -1 },  { "", -1 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct err e = { 0 };
		struct limit l;

		assert_int_equal(limit_parse(&l, "x", good[i].text, &e),
				 good[i].of_200 < 0 ? -1 : 0);
		if (good[i].of_200 >= 0)
			assert_int_equal(limit_of(&l, 200), good[i].of_200);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_change_is_beyond_the_spread),
		T(stacks_are_the_same_where_lines_moved),
		T(a_stack_is_one_item),
		T(stacks_have_the_words_of_the_report),
		T(a_file_that_does_not_tell_the_end_is_no_death),
		T(what_was_declared_is_compared),
		T(no_text_reaches_the_terminal_as_it_is),
		T(limits_are_sizes_or_percentages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
