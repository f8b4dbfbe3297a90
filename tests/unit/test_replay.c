/* The replay, with numbers worked out by hand. */
#include "replay.h"

#include "write_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)
#define NONE 0

struct job {
	struct writer w;
	uint16_t python, autograd;
	uint32_t pytorch, nccl, model, optimizer; /* places */
	unsigned char *file;
	struct trace trace;
	struct replay replay;
};

static int setup(void **state)
{
	struct job *j = calloc(1, sizeof(*j));
	uint32_t c10, other;

	if (!j)
		return -1;
	write_start(&j->w);
	j->python = write_thread(&j->w, 100, "python");
	j->autograd = write_thread(&j->w, 101, "pt_autograd_0");
	c10 = write_module(&j->w, "/site-packages/torch/lib/libc10_cuda.so");
	other = write_module(&j->w, "/lib/libnccl.so.2");
	j->pytorch = write_place(&j->w, c10, 0, 0, 0, 0);
	j->nccl = write_place(&j->w, other, 0, 0, 0, 0);
	j->model = write_place(&j->w, c10, write_frame(&j->w, "forward", "/job/model.py", 52), 0, 0,
			       0);
	j->optimizer = write_place(
		&j->w, c10,
		write_frame(&j->w, "_init_group", "/p/site-packages/torch/optim/adamw.py", 9),
		write_frame(&j->w, "train", "/job/train.py", 3), 0, 0);
	*state = j;
	return 0;
}

static int teardown(void **state)
{
	struct job *j = *state;

	replay_release(&j->replay);
	trace_release(&j->trace);
	write_release(&j->w);
	free(j->file);
	free(j);
	return 0;
}

static void run(struct job *j)
{
	const struct replay_options options = { .keep_live = 1 };
	struct err e = { 0 };
	size_t size;

	j->file = write_finish(&j->w, &size);
	assert_int_equal(trace_open_memory(&j->trace, j->file, size, &e), 0);
	replay_trace(&j->replay, &j->trace, &options);
}

static void forward(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_ALLOC, address, n, j->model, j->python);
}

static void backward(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_ALLOC, address, n, j->pytorch, j->autograd);
}

static void optimizer(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_ALLOC, address, n, j->optimizer, j->python);
}

static void release(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_FREE, address, -n, NONE, j->python);
}

static void the_peak_and_what_was_live(void **state)
{
	struct job *j = *state;
	const struct device *d = &j->replay.device[0];

	forward(j, 0x1000, 100);
	forward(j, 0x2000, 100);
	release(j, 0x1000, 100);
	forward(j, 0x3000, 300); /* the peak: 400 */
	release(j, 0x3000, 300);
	forward(j, 0x3000, 50);
	run(j);
	assert_int_equal(d->events, 6);
	assert_int_equal(d->tensor_allocs, 4);
	assert_int_equal(d->tensor_frees, 2);
	assert_int_equal(d->peak.allocated, 400);
	assert_int_equal(d->peak.time_ns, 4000000);
	/* One place, but what is freed in the same forward is no activation. */
	assert_int_equal(d->at_peak.count, 2);
	assert_int_equal(d->at_peak.groups[0].place, j->model);
	assert_int_equal(d->at_peak.groups[0].blocks, 1);
	assert_int_equal(d->at_peak.groups[0].bytes, 300);
	assert_int_equal(d->at_peak.groups[0].category, CATEGORY_TEMPORARIES);
	assert_int_equal(d->at_peak.groups[1].place, j->model);
	assert_int_equal(d->at_peak.groups[1].bytes, 100);
	assert_int_equal(d->at_peak.groups[1].category, CATEGORY_ACTIVATIONS);
	assert_int_equal(d->at_peak.blocks, 2);
	assert_int_equal(d->final.bytes, 150);
	assert_int_equal(d->live_count, 2);
	assert_int_equal(d->live[0].address, 0x2000);
	assert_int_equal(d->live[1].address, 0x3000);
	assert_int_equal(d->live[1].bytes, 50);
}

static void mistakes_are_counted(void **state)
{
	struct job *j = *state;

	forward(j, 0x1000, 100);
	forward(j, 0x1000, 100);
	release(j, 0x9000, 1);
	run(j);
	assert_int_equal(j->replay.allocs_twice, 1);
	assert_int_equal(j->replay.frees_unknown, 1);
}

static void each_curve_has_its_own_peak(void **state)
{
	struct job *j = *state;
	const struct device *d = &j->replay.device[0];

	/* 1000 MiB device; 100 are used before anything is tracked */
	write_event(&j->w, MT_DEVICE_SAMPLE, 900 * MIB, 1000 * MIB, NONE, j->python);
	write_event(&j->w, MT_DEVICE_ALLOC, 0x100000, 20 * MIB, j->nccl, j->python);
	write_event(&j->w, MT_DEVICE_ALLOC, 0x200000000, 200 * MIB, j->pytorch, j->python);
	write_event(&j->w, MT_RESERVED, 0, 200 * MIB, NONE, j->python);
	forward(j, 0x200000000, 150 * MIB);
	/* 1000 - 640 - 200 - 20 = 140 untracked: 40 more than the context */
	write_event(&j->w, MT_DEVICE_SAMPLE, 640 * MIB, 1000 * MIB, NONE, j->python);
	release(j, 0x200000000, 150 * MIB);
	write_event(&j->w, MT_RESERVED, 0, 0, NONE, j->python);
	run(j);
	assert_int_equal(d->total, 1000 * MIB);
	assert_int_equal(d->peak.allocated, 150 * MIB);
	assert_int_equal(d->peak.untracked, 100 * MIB);
	assert_int_equal(d->reserved_peak, 200 * MIB);
	assert_int_equal(moment_device(&d->device_peak), 360 * MIB);
	assert_int_equal(d->device_peak.reserved, 200 * MIB);
	assert_int_equal(d->device_peak.other, 20 * MIB);
	assert_int_equal(d->device_peak.untracked, 140 * MIB);
	assert_int_equal(d->context, 100 * MIB);
	assert_int_equal(d->events, 4);
}

static void untracked_is_never_negative(void **state)
{
	struct job *j = *state;

	write_event(&j->w, MT_RESERVED, 0, 200 * MIB, NONE, j->python);
	write_event(&j->w, MT_DEVICE_SAMPLE, 900 * MIB, 1000 * MIB, NONE, j->python);
	write_event(&j->w, MT_DEVICE_SAMPLE, 2000 * MIB, 1000 * MIB, NONE, j->python);
	run(j);
	assert_int_equal(j->replay.device[0].now.untracked, 0);
	assert_int_equal(moment_device(&j->replay.device[0].device_peak), 200 * MIB);
}

static void steps_end_with_the_optimizer(void **state)
{
	struct job *j = *state;
	const struct device *d = &j->replay.device[0];

	forward(j, 1, 10);
	backward(j, 2, 10);
	forward(j, 3, 10); /* a second micro-batch, still step 1 */
	backward(j, 4, 10);
	optimizer(j, 5, 10);
	forward(j, 6, 10); /* step 2 */
	backward(j, 7, 10);
	optimizer(j, 8, 100); /* the peak */
	run(j);
	assert_int_equal(d->peak.step, 2);
	assert_int_equal(d->peak.phase, PHASE_OPTIMIZER);
	assert_int_equal(d->peak.thread, j->python);
	assert_int_equal(d->now.step, 2);
}

static void without_an_optimizer_each_backward_ends_a_step(void **state)
{
	struct job *j = *state;

	for (unsigned i = 0; i < 3; i++) {
		forward(j, 1 + i * 2, 10);
		backward(j, 2 + i * 2, 10);
	}
	run(j);
	assert_int_equal(j->replay.device[0].peak.step, 3);
	assert_int_equal(j->replay.device[0].peak.phase, PHASE_BACKWARD);
	assert_int_equal(j->replay.device[0].peak.thread, j->autograd);
}

/* A segment of 100 MiB with blocks at 0-10, 40-50 and 90-100: gaps of 30 and 40. A second segment
 * is empty: 20. */
static void two_segments(struct job *j)
{
	write_event(&j->w, MT_DEVICE_ALLOC, 1000 * MIB, 100 * MIB, j->pytorch, j->python);
	write_event(&j->w, MT_DEVICE_ALLOC, 3000 * MIB, 20 * MIB, j->pytorch, j->python);
	write_event(&j->w, MT_RESERVED, 0, 120 * MIB, NONE, j->python);
	forward(j, 1000 * MIB, 10 * MIB);
	forward(j, 1040 * MIB, 10 * MIB);
	forward(j, 1090 * MIB, 10 * MIB);
}

static void an_oom_and_the_largest_gap(void **state)
{
	struct job *j = *state;
	const struct device *d = &j->replay.device[0];

	two_segments(j);
	write_event(&j->w, MT_DEVICE_FAIL, 5 * MIB, 64 * MIB, j->pytorch,
		    j->python); /* tried again: no failure yet */
	write_event(&j->w, MT_TENSOR_OOM, 5 * MIB, 64 * MIB, j->model, j->python);
	run(j);
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

static void without_mappings_the_gap_is_unknown(void **state)
{
	struct job *j = *state;

	write_event(&j->w, MT_RESERVED, 0, 120 * MIB, NONE, j->python);
	forward(j, 1000 * MIB, 10 * MIB);
	write_event(&j->w, MT_TENSOR_OOM, MT_UNKNOWN, 64 * MIB, j->model, j->python);
	run(j);
	assert_int_equal(j->replay.device[0].failures[0].largest_free, -1);
	assert_true(j->replay.device[0].failures[0].free == MT_UNKNOWN);
}

static void a_job_that_goes_on_survived(void **state)
{
	struct job *j = *state;

	write_event(&j->w, MT_TENSOR_OOM, 0, 64 * MIB, j->model, j->python);
	for (unsigned i = 0; i < 1001; i++)
		forward(j, 0x1000 + i, MIB);
	run(j);
	assert_true(failure_survived(&j->replay.device[0].failures[0]));
	assert_int_equal(j->replay.device[0].failures[0].later_allocs, 1001);
}

static void many_small_blocks_are_no_recovery(void **state)
{
	struct job *j = *state;

	write_event(&j->w, MT_TENSOR_OOM, 0, 64 * MIB, j->model, j->python);
	for (unsigned i = 0; i < 1001; i++)
		forward(j, 0x1000 + i, 512);
	run(j);
	assert_false(failure_survived(&j->replay.device[0].failures[0]));
}

static void other_modules_failures_count(void **state)
{
	struct job *j = *state;

	forward(j, 0x1000, MIB);
	write_event(&j->w, MT_DEVICE_FAIL, 5 * MIB, 64 * MIB, j->nccl, j->python);
	run(j);
	assert_int_equal(j->replay.device[0].failures_seen, 1);
	assert_true(j->replay.device[0].failures[0].from_runtime);
}

static void only_so_many_failures_are_kept(void **state)
{
	struct job *j = *state;
	const struct device *d = &j->replay.device[0];

	for (unsigned i = 1; i <= 500; i++)
		write_event(&j->w, MT_TENSOR_OOM, 0, i * MIB, j->model, j->python);
	run(j);
	assert_int_equal(d->failures_seen, 500);
	assert_int_equal(d->failure_count, REPLAY_MAX_OOMS);
	assert_int_equal(d->failures[0].requested, MIB);
	assert_int_equal(d->failures[REPLAY_MAX_OOMS - 1].requested, 500 * MIB);
}

static void pools_stand_in_for_a_silent_allocator(void **state)
{
	struct job *j = *state;
	const struct device *d = &j->replay.device[0];

	write_event(&j->w, MT_POOL_RESERVED, 0, 64 * MIB, NONE, j->python);
	write_event(&j->w, MT_POOL_ALLOC, 0x1000, 20 * MIB, j->model, j->python);
	write_event(&j->w, MT_DEVICE_ALLOC, 0x2000, 5 * MIB, j->model, j->python);
	write_event(&j->w, MT_DEVICE_ALLOC, 0x3000, 7 * MIB, j->nccl, j->python);
	write_event(&j->w, MT_POOL_FREE, 0x1000, -20 * MIB, j->model, j->python);
	write_event(&j->w, MT_DEVICE_FAIL, 0, 99 * MIB, j->model, j->python);
	run(j);
	assert_true(d->stand_in);
	assert_int_equal(d->peak.allocated, 25 * MIB);
	assert_int_equal(d->reserved_peak, 69 * MIB);
	assert_int_equal(moment_device(&d->device_peak), 76 * MIB);
	assert_int_equal(d->device_peak.other, 7 * MIB);
	assert_int_equal(d->at_peak.blocks, 2);
	assert_int_equal(d->final.bytes, 5 * MIB);
	assert_int_equal(d->failures_seen, 1);
	assert_int_equal(d->events, 4);
}

static void other_allocations_of_a_process_are_no_stand_in(void **state)
{
	struct job *j = *state;

	write_event(&j->w, MT_POOL_ALLOC, 0x1000, 20 * MIB, j->nccl, j->python);
	write_event(&j->w, MT_HOST_ALLOC, 0x1000, 20 * MIB, j->nccl, j->python);
	run(j);
	assert_false(j->replay.device[0].stand_in);
	assert_int_equal(j->replay.device[0].peak.allocated, 0);
	assert_int_equal(j->replay.device[0].now.other, 20 * MIB);
	assert_int_equal(j->replay.host_events, 1);
	assert_int_equal(j->replay.frees_unknown + j->replay.allocs_twice, 0);
}

static void a_gap_is_bridged_by_the_keyframe(void **state)
{
	struct job *j = *state;
	const struct device *d = &j->replay.device[0];

	forward(j, 0x1000, 100);
	forward(j, 0x2000, 100);
	write_segment(&j->w, 1000);
	write_keyframe(&j->w, MT_RESERVED, 0, 4000, NONE);
	write_keyframe(&j->w, MT_TENSOR_ALLOC, 0x2000, 100, j->model);
	write_keyframe(&j->w, MT_TENSOR_ALLOC, 0x5000, 700, j->optimizer);
	write_keyframe(&j->w, MT_DEVICE_ALLOC, 0x9000, 30, j->nccl);
	release(j, 0x2000, 100);
	forward(j, 0x6000, 150); /* 850: the peak */
	run(j);
	assert_int_equal(j->replay.given_up, 1000);
	assert_int_equal(j->replay.open_gaps, 0);
	/* nobody counted the steps in between */
	assert_int_equal(j->replay.device[0].now.step, 0);
	assert_int_equal(d->events, 4);
	assert_int_equal(d->peak.allocated, 850);
	assert_int_equal(d->peak.reserved, 4000);
	assert_int_equal(d->peak.other, 30);
	assert_int_equal(d->at_peak.bytes, 850);
	assert_int_equal(d->at_peak.groups[0].place, j->optimizer);
	assert_int_equal(j->replay.frees_unknown, 0);
}

static void a_peak_may_lie_in_a_keyframe(void **state)
{
	struct job *j = *state;
	const struct device *d = &j->replay.device[0];

	forward(j, 0x1000, 100);
	write_segment(&j->w, 10);
	write_keyframe(&j->w, MT_TENSOR_ALLOC, 0x5000, 700, j->model);
	release(j, 0x5000, 700);
	run(j);
	assert_int_equal(d->peak.allocated, 700);
	assert_int_equal(d->at_peak.bytes, 700);
	assert_int_equal(d->final.bytes, 0);
}

static void a_gap_without_keyframe_is_said(void **state)
{
	struct job *j = *state;

	forward(j, 0x1000, 100);
	write_segment(&j->w, 10);
	forward(j, 0x2000, 100);
	run(j);
	assert_int_equal(j->replay.open_gaps, 1);
	assert_int_equal(j->replay.device[0].peak.allocated, 200);
}

static void segments_follow_each_other_in_sequence(void **state)
{
	struct job *j = *state;
	struct mt_segment first;
	struct mt_header *h;
	size_t size;
	struct err e = { 0 };
	const struct replay_options options = { 0 };

	forward(j, 0x1000, 100);
	write_segment(&j->w, 0);
	release(j, 0x1000, 100);
	j->file = write_finish(&j->w, &size);
	h = (struct mt_header *)(void *)j->file;
	first = h->segment[0];
	h->segment[0] = h->segment[1];
	h->segment[1] = first;
	assert_int_equal(trace_open_memory(&j->trace, j->file, size, &e), 0);
	replay_trace(&j->replay, &j->trace, &options);
	assert_int_equal(j->replay.frees_unknown, 0);
	assert_int_equal(j->replay.given_up, 0);
	assert_int_equal(j->replay.device[0].final.blocks, 0);
}

static void devices_are_kept_apart(void **state)
{
	struct job *j = *state;

	write_event_on(&j->w, 0, MT_TENSOR_ALLOC, 0x1000, 100, j->model, j->python);
	write_event_on(&j->w, 3, MT_TENSOR_ALLOC, 0x2000, 900, j->model, j->python);
	run(j);
	assert_int_equal(j->replay.device[0].peak.allocated, 100);
	assert_int_equal(j->replay.device[3].peak.allocated, 900);
	assert_int_equal(j->replay.device[3].at_peak.bytes, 900);
	assert_false(j->replay.device[1].seen);
}

static void the_live_set_holds_a_lot(void **state)
{
	struct job *j = *state;
	struct live l;
	struct mt_record r = { .kind = MT_TENSOR_ALLOC };

	run(j);
	live_init(&l);
	for (uint64_t i = 0; i < 100000; i++) {
		r.address = i * 512;
		assert_true(live_add(&l, &r));
		if (i % 3)
			assert_true(live_remove(&l, MT_TENSOR_ALLOC, i * 512));
	}
	assert_int_equal(l.count, 33334);
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(live_remove(&l, MT_TENSOR_ALLOC, i * 512), i % 3 == 0);
	assert_int_equal(l.count, 0);
	live_release(&l);
}

static void a_timeline_keeps_its_extremes(void **state)
{
	struct timeline *t = timeline_new(2);
	bytes levels[2] = { 0, 7 }, most = 0;

	(void)state;
	for (uint64_t i = 0; i < 100000; i++) {
		uint64_t time = i * 1000000;

		if (timeline_is_due(t, time))
			timeline_advance(t, time, levels);
		levels[0] = i == 54321 ? 1000000 : (bytes)i;
		timeline_take(t, 0, levels[0]);
	}
	assert_in_range(t->used, TIMELINE_BINS / 2, TIMELINE_BINS);
	for (size_t i = 0; i < t->used; i++) {
		most = timeline_most(t, i, 0) > most ? timeline_most(t, i, 0) : most;
		assert_int_equal(timeline_most(t, i, 1), 7);
	}
	assert_int_equal(most, 1000000);
	assert_int_equal(t->bins[(t->used - 1) * 2].last, 99999);
	timeline_advance(t, UINT64_MAX, levels);
	assert_in_range(t->used, 1, TIMELINE_BINS);
	free(t);
}

/* What held until then, not what comes. */
static void a_timeline_fills_the_time_between(void **state)
{
	struct timeline *t = timeline_new(1);
	bytes level = 5;

	(void)state;
	timeline_advance(t, 0, &level);
	timeline_advance(t, 10 << 16, &level);
	timeline_take(t, 0, 9);
	assert_int_equal(t->used, 11);
	assert_int_equal(timeline_most(t, 9, 0), 5);
	assert_int_equal(timeline_most(t, 10, 0), 9);
	free(t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_peak_and_what_was_live),
		TEST(mistakes_are_counted),
		TEST(each_curve_has_its_own_peak),
		TEST(untracked_is_never_negative),
		TEST(steps_end_with_the_optimizer),
		TEST(without_an_optimizer_each_backward_ends_a_step),
		TEST(an_oom_and_the_largest_gap),
		TEST(without_mappings_the_gap_is_unknown),
		TEST(a_job_that_goes_on_survived),
		TEST(many_small_blocks_are_no_recovery),
		TEST(other_modules_failures_count),
		TEST(only_so_many_failures_are_kept),
		TEST(pools_stand_in_for_a_silent_allocator),
		TEST(other_allocations_of_a_process_are_no_stand_in),
		TEST(a_gap_is_bridged_by_the_keyframe),
		TEST(a_peak_may_lie_in_a_keyframe),
		TEST(a_gap_without_keyframe_is_said),
		TEST(segments_follow_each_other_in_sequence),
		TEST(devices_are_kept_apart),
		TEST(the_live_set_holds_a_lot),
		cmocka_unit_test(a_timeline_keeps_its_extremes),
		cmocka_unit_test(a_timeline_fills_the_time_between),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
