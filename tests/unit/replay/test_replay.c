/* The replay of traces of known numbers. */
#include "replay/live_set.h"
#include "replay_job.h"

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
	/* The stack is the same, but a block that is freed in the same forward pass is no
	 * activation. */
	assert_int_equal(d->at_peak.count, 2);
	assert_int_equal(d->at_peak.groups[0].stack, j->model);
	assert_int_equal(d->at_peak.groups[0].blocks, 1);
	assert_int_equal(d->at_peak.groups[0].bytes, 300);
	assert_int_equal(d->at_peak.groups[0].category, CATEGORY_TEMPORARIES);
	assert_int_equal(d->at_peak.groups[1].stack, j->model);
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

	/* a device of 1000 MiB, 100 of them used before anything is tracked */
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

static void without_reports_of_the_allocator_pools_count(void **state)
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
	assert_true(d->counted_from_runtime);
	assert_int_equal(d->peak.allocated, 25 * MIB);
	assert_int_equal(d->reserved_peak, 69 * MIB);
	assert_int_equal(moment_device(&d->device_peak), 76 * MIB);
	assert_int_equal(d->device_peak.other, 7 * MIB);
	assert_int_equal(d->at_peak.blocks, 2);
	assert_int_equal(d->final.bytes, 5 * MIB);
	assert_int_equal(d->failures_seen, 1);
	assert_int_equal(d->events, 4);
}

static void allocations_of_other_callers_do_not_count_as_the_allocators(void **state)
{
	struct job *j = *state;

	write_event(&j->w, MT_POOL_ALLOC, 0x1000, 20 * MIB, j->nccl, j->python);
	write_event(&j->w, MT_HOST_ALLOC, 0x1000, 20 * MIB, j->nccl, j->python);
	run(j);
	assert_false(j->replay.device[0].counted_from_runtime);
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
	/* the steps in the gap are not counted */
	assert_int_equal(j->replay.device[0].now.step, 0);
	assert_int_equal(d->events, 4);
	assert_int_equal(d->peak.allocated, 850);
	assert_int_equal(d->peak.reserved, 4000);
	assert_int_equal(d->peak.other, 30);
	assert_int_equal(d->at_peak.bytes, 850);
	assert_int_equal(d->at_peak.groups[0].stack, j->optimizer);
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

static void a_gap_without_keyframe_is_counted(void **state)
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

static void the_live_set_grows(void **state)
{
	struct job *j = *state;
	struct live_set l;
	struct mt_record r = { .kind = MT_TENSOR_ALLOC };

	run(j);
	live_set_init(&l);
	for (uint64_t i = 0; i < 100000; i++) {
		r.address = i * 512;
		assert_true(live_set_add(&l, &r));
		if (i % 3)
			assert_true(live_set_remove(&l, MT_TENSOR_ALLOC, i * 512));
	}
	assert_int_equal(l.count, 33334);
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(live_set_remove(&l, MT_TENSOR_ALLOC, i * 512), i % 3 == 0);
	assert_int_equal(l.count, 0);
	live_set_release(&l);
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
		timeline_record(t, 0, levels[0]);
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

/* A bin without an event has the level before it. */
static void a_timeline_fills_the_time_between(void **state)
{
	struct timeline *t = timeline_new(1);
	bytes level = 5;

	(void)state;
	timeline_advance(t, 0, &level);
	timeline_advance(t, 10 << 16, &level);
	timeline_record(t, 0, 9);
	assert_int_equal(t->used, 11);
	assert_int_equal(timeline_most(t, 9, 0), 5);
	assert_int_equal(timeline_most(t, 10, 0), 9);
	free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_peak_and_what_was_live),
		TEST(mistakes_are_counted),
		TEST(each_curve_has_its_own_peak),
		TEST(untracked_is_never_negative),
		TEST(steps_end_with_the_optimizer),
		TEST(without_an_optimizer_each_backward_ends_a_step),
		TEST(without_reports_of_the_allocator_pools_count),
		TEST(allocations_of_other_callers_do_not_count_as_the_allocators),
		TEST(a_gap_is_bridged_by_the_keyframe),
		TEST(a_peak_may_lie_in_a_keyframe),
		TEST(a_gap_without_keyframe_is_counted),
		TEST(segments_follow_each_other_in_sequence),
		TEST(devices_are_kept_apart),
		TEST(the_live_set_grows),
		cmocka_unit_test(a_timeline_keeps_its_extremes),
		cmocka_unit_test(a_timeline_fills_the_time_between),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
