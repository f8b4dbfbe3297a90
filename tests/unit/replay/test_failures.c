/* Failed allocations, in traces of known numbers. */
#include "replay_job.h"

/* A segment of 100 MiB with blocks at 0-10, 40-50 and 90-100: gaps of 30 and 40. A second segment
 * is empty: 20. */
static void two_segments(struct fixture *f)
{
	write_event(&f->w, MT_DEVICE_ALLOC, 1000 * MIB, 100 * MIB, f->pytorch, f->python);
	write_event(&f->w, MT_DEVICE_ALLOC, 3000 * MIB, 20 * MIB, f->pytorch, f->python);
	write_event(&f->w, MT_RESERVED, 0, 120 * MIB, NONE, f->python);
	forward(f, 1000 * MIB, 10 * MIB);
	forward(f, 1040 * MIB, 10 * MIB);
	forward(f, 1090 * MIB, 10 * MIB);
}

static void an_oom_and_the_largest_gap(void **state)
{
	struct fixture *f = *state;
	const struct device *d = &f->replay.device[0];

	two_segments(f);
	write_event(&f->w, MT_DEVICE_FAIL, 5 * MIB, 64 * MIB, f->pytorch,
		    f->python); /* tried again: no failure yet */
	write_event(&f->w, MT_TENSOR_OOM, 5 * MIB, 64 * MIB, f->model, f->python);
	run(f);
	assert_int_equal(d->failures_seen, 1);
	assert_int_equal(d->failures[0].requested, 64 * MIB);
	assert_int_equal(d->failures[0].free, 5 * MIB);
	assert_int_equal(d->failures[0].when.allocated, 30 * MIB);
	assert_int_equal(d->failures[0].when.reserved, 120 * MIB);
	assert_int_equal(d->failures[0].when.step, 1);
	assert_int_equal(d->failures[0].largest_free, 40 * MIB);
	assert_int_equal(d->failures[0].live.blocks, 3);
	assert_false(failure_survived(&d->failures[0]));
}

/* A request of 6 MiB takes a segment of 20 MiB (kLargeBuffer); PyTorch asks for it twice. */
static void the_segment_of_a_small_request(void **state)
{
	struct fixture *f = *state;

	two_segments(f);
	for (int i = 0; i < 2; i++)
		write_event(&f->w, MT_DEVICE_FAIL, 12 * MIB, 20 * MIB, f->pytorch, f->python);
	write_event(&f->w, MT_TENSOR_OOM, 12 * MIB, 6 * MIB, f->model, f->python);
	run(f);
	assert_int_equal(f->replay.device[0].failures[0].requested, 6 * MIB);
	assert_int_equal(f->replay.device[0].failures[0].segment, 20 * MIB);
}

/* A block came after the refusal, so that the refusal is not of this failure, as if a limit of
 * PyTorch's own were reached; a library was refused; a page of an expandable segment was. */
static void no_segment_of_the_request_was_refused(void **state)
{
	struct fixture *f = *state;
	const struct device *d = &f->replay.device[0];

	two_segments(f);
	write_event(&f->w, MT_DEVICE_FAIL, 12 * MIB, 20 * MIB, f->pytorch, f->python);
	forward(f, 1060 * MIB, MIB);
	write_event(&f->w, MT_TENSOR_OOM, 12 * MIB, 6 * MIB, f->model, f->python);
	write_event(&f->w, MT_DEVICE_FAIL, 12 * MIB, 20 * MIB, f->nccl, f->python);
	write_event(&f->w, MT_TENSOR_OOM, 12 * MIB, 6 * MIB, f->model, f->python);
	write_event(&f->w, MT_DEVICE_FAIL, 12 * MIB, 20 * MIB, f->pytorch, f->python);
	write_event(&f->w, MT_TENSOR_OOM, 12 * MIB, 64 * MIB, f->model, f->python);
	run(f);
	assert_int_equal(d->failure_count, 4);
	for (size_t i = 0; i < d->failure_count; i++)
		assert_int_equal(d->failures[i].segment, 0);
}

static void without_mappings_the_gap_is_unknown(void **state)
{
	struct fixture *f = *state;

	write_event(&f->w, MT_RESERVED, 0, 120 * MIB, NONE, f->python);
	forward(f, 1000 * MIB, 10 * MIB);
	write_event(&f->w, MT_TENSOR_OOM, MT_UNKNOWN, 64 * MIB, f->model, f->python);
	run(f);
	assert_int_equal(f->replay.device[0].failures[0].largest_free, -1);
	assert_true(f->replay.device[0].failures[0].free == MT_UNKNOWN);
}

static void a_job_that_goes_on_survived(void **state)
{
	struct fixture *f = *state;

	write_event(&f->w, MT_TENSOR_OOM, 0, 64 * MIB, f->model, f->python);
	for (unsigned i = 0; i < 1001; i++)
		forward(f, 0x1000 + i, MIB);
	run(f);
	assert_true(failure_survived(&f->replay.device[0].failures[0]));
	assert_int_equal(f->replay.device[0].failures[0].later_allocs, 1001);
}

/* Half of the batch, in a small job. */
static void a_job_that_trains_on_survived(void **state)
{
	struct fixture *f = *state;

	write_event(&f->w, MT_TENSOR_OOM, 0, 64 * MIB, f->model, f->python);
	forward(f, 0x1000, MIB);
	backward(f, 0x2000, MIB);
	run(f);
	assert_true(failure_survived(&f->replay.device[0].failures[0]));
}

/* A job that ends frees its graph, also by a thread of autograd's. */
static void a_job_that_frees_only_has_not_survived(void **state)
{
	struct fixture *f = *state;

	backward(f, 0x2000, MIB);
	forward(f, 0x1000, MIB);
	write_event(&f->w, MT_TENSOR_OOM, 0, 64 * MIB, f->model, f->python);
	write_event(&f->w, MT_TENSOR_FREE, 0x1000, -MIB, NONE, f->python);
	write_event(&f->w, MT_TENSOR_FREE, 0x2000, -MIB, NONE, f->autograd);
	run(f);
	assert_false(failure_survived(&f->replay.device[0].failures[0]));
}

static void many_small_blocks_are_no_recovery(void **state)
{
	struct fixture *f = *state;

	write_event(&f->w, MT_TENSOR_OOM, 0, 64 * MIB, f->model, f->python);
	for (unsigned i = 0; i < 1001; i++)
		forward(f, 0x1000 + i, 512);
	run(f);
	assert_false(failure_survived(&f->replay.device[0].failures[0]));
}

static void other_modules_failures_count(void **state)
{
	struct fixture *f = *state;

	forward(f, 0x1000, MIB);
	write_event(&f->w, MT_DEVICE_FAIL, 5 * MIB, 64 * MIB, f->nccl, f->python);
	run(f);
	assert_int_equal(f->replay.device[0].failures_seen, 1);
	assert_true(f->replay.device[0].failures[0].from_runtime);
}

static void only_so_many_failures_are_kept(void **state)
{
	struct fixture *f = *state;
	const struct device *d = &f->replay.device[0];

	for (unsigned i = 1; i <= 500; i++)
		write_event(&f->w, MT_TENSOR_OOM, 0, i * MIB, f->model, f->python);
	run(f);
	assert_int_equal(d->failures_seen, 500);
	assert_int_equal(d->failure_count, REPLAY_MAX_OOMS);
	assert_int_equal(d->failures[0].requested, MIB);
	assert_int_equal(d->failures[REPLAY_MAX_OOMS - 1].requested, 500 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_oom_and_the_largest_gap),
		TEST(the_segment_of_a_small_request),
		TEST(no_segment_of_the_request_was_refused),
		TEST(without_mappings_the_gap_is_unknown),
		TEST(a_job_that_goes_on_survived),
		TEST(a_job_that_trains_on_survived),
		TEST(a_job_that_frees_only_has_not_survived),
		TEST(many_small_blocks_are_no_recovery),
		TEST(other_modules_failures_count),
		TEST(only_so_many_failures_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
