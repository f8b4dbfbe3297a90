/* The replay of traces of known numbers. */
#include "replay/live_set.h"
#include "replay_job.h"

static void the_peak_and_what_was_live(void **state)
{
	struct fixture *f = *state;
	const struct device *d = &f->replay.device[0];

	forward(f, 0x1000, 100);
	forward(f, 0x2000, 100);
	release(f, 0x1000, 100);
	forward(f, 0x3000, 300); /* the peak: 400 */
	release(f, 0x3000, 300);
	forward(f, 0x3000, 50);
	run(f);
	assert_int_equal(device_events(d), 6);
	assert_int_equal(d->tensor_allocs, 4);
	assert_int_equal(d->tensor_frees, 2);
	assert_int_equal(d->peak.allocated, 400);
	assert_int_equal(d->peak.time_ns, 4000000);
	/* The stack is the same, but a block that is freed in the same forward pass is no
	 * activation. */
	assert_int_equal(d->at_peak.count, 2);
	assert_int_equal(d->at_peak.groups[0].stack, f->model);
	assert_int_equal(d->at_peak.groups[0].blocks, 1);
	assert_int_equal(d->at_peak.groups[0].bytes, 300);
	assert_int_equal(d->at_peak.groups[0].category, CATEGORY_TEMPORARIES);
	assert_int_equal(d->at_peak.groups[1].stack, f->model);
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
	struct fixture *f = *state;

	forward(f, 0x1000, 100);
	forward(f, 0x1000, 100);
	release(f, 0x9000, 1);
	run(f);
	assert_int_equal(f->replay.allocs_twice, 1);
	assert_int_equal(f->replay.frees_unknown, 1);
}

static void each_curve_has_its_own_peak(void **state)
{
	struct fixture *f = *state;
	const struct device *d = &f->replay.device[0];

	/* a device of 1000 MiB, 100 of them used before anything is tracked */
	write_event(&f->w, MT_DEVICE_SAMPLE, 900 * MIB, 1000 * MIB, NONE, f->python);
	write_event(&f->w, MT_DEVICE_ALLOC, 0x100000, 20 * MIB, f->nccl, f->python);
	write_event(&f->w, MT_DEVICE_ALLOC, 0x200000000, 200 * MIB, f->pytorch, f->python);
	write_event(&f->w, MT_RESERVED, 0, 200 * MIB, NONE, f->python);
	forward(f, 0x200000000, 150 * MIB);
	/* 1000 - 640 - 200 - 20 = 140 untracked: 40 more than the context */
	write_event(&f->w, MT_DEVICE_SAMPLE, 640 * MIB, 1000 * MIB, NONE, f->python);
	release(f, 0x200000000, 150 * MIB);
	write_event(&f->w, MT_RESERVED, 0, 0, NONE, f->python);
	run(f);
	assert_int_equal(d->total, 1000 * MIB);
	assert_int_equal(d->peak.allocated, 150 * MIB);
	assert_int_equal(d->peak.untracked, 100 * MIB);
	assert_int_equal(d->reserved_peak, 200 * MIB);
	assert_int_equal(moment_device(&d->device_peak), 360 * MIB);
	assert_int_equal(d->device_peak.reserved, 200 * MIB);
	assert_int_equal(d->device_peak.other, 20 * MIB);
	assert_int_equal(d->device_peak.untracked, 140 * MIB);
	assert_int_equal(d->context, 100 * MIB);
	assert_int_equal(device_events(d), 4);
}

static void untracked_is_never_negative(void **state)
{
	struct fixture *f = *state;

	write_event(&f->w, MT_RESERVED, 0, 200 * MIB, NONE, f->python);
	write_event(&f->w, MT_DEVICE_SAMPLE, 900 * MIB, 1000 * MIB, NONE, f->python);
	write_event(&f->w, MT_DEVICE_SAMPLE, 2000 * MIB, 1000 * MIB, NONE, f->python);
	run(f);
	assert_int_equal(f->replay.device[0].now.untracked, 0);
	assert_int_equal(moment_device(&f->replay.device[0].device_peak), 200 * MIB);
}

static void steps_end_with_the_optimizer(void **state)
{
	struct fixture *f = *state;
	const struct device *d = &f->replay.device[0];

	forward(f, 1, 10);
	backward(f, 2, 10);
	forward(f, 3, 10); /* a second micro-batch, still step 1 */
	backward(f, 4, 10);
	optimizer(f, 5, 10);
	forward(f, 6, 10); /* step 2 */
	backward(f, 7, 10);
	optimizer(f, 8, 100); /* the peak */
	run(f);
	assert_int_equal(d->peak.step, 2);
	assert_int_equal(d->peak.phase, PHASE_OPTIMIZER);
	assert_int_equal(d->peak.thread, f->python);
	assert_int_equal(d->now.step, 2);
}

static void without_an_optimizer_each_backward_ends_a_step(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 3; i++) {
		forward(f, 1 + i * 2, 10);
		backward(f, 2 + i * 2, 10);
	}
	run(f);
	assert_int_equal(f->replay.device[0].peak.step, 3);
	assert_int_equal(f->replay.device[0].peak.phase, PHASE_BACKWARD);
	assert_int_equal(f->replay.device[0].peak.thread, f->autograd);
}

static void without_reports_of_the_allocator_pools_count(void **state)
{
	struct fixture *f = *state;
	const struct device *d = &f->replay.device[0];

	write_event(&f->w, MT_POOL_RESERVED, 0, 64 * MIB, NONE, f->python);
	write_event(&f->w, MT_POOL_ALLOC, 0x1000, 20 * MIB, f->model, f->python);
	write_event(&f->w, MT_DEVICE_ALLOC, 0x2000, 5 * MIB, f->model, f->python);
	write_event(&f->w, MT_DEVICE_ALLOC, 0x3000, 7 * MIB, f->nccl, f->python);
	write_event(&f->w, MT_POOL_FREE, 0x1000, -20 * MIB, f->model, f->python);
	write_event(&f->w, MT_DEVICE_FAIL, 0, 99 * MIB, f->model, f->python);
	run(f);
	assert_true(d->counted_from_runtime);
	assert_int_equal(d->peak.allocated, 25 * MIB);
	assert_int_equal(d->reserved_peak, 69 * MIB);
	assert_int_equal(moment_device(&d->device_peak), 76 * MIB);
	assert_int_equal(d->device_peak.other, 7 * MIB);
	assert_int_equal(d->at_peak.blocks, 2);
	assert_int_equal(d->final.bytes, 5 * MIB);
	assert_int_equal(d->failures_seen, 1);
	assert_int_equal(device_events(d), 4);
}

static void allocations_of_other_callers_do_not_count_as_the_allocators(void **state)
{
	struct fixture *f = *state;

	write_event(&f->w, MT_POOL_ALLOC, 0x1000, 20 * MIB, f->nccl, f->python);
	write_event(&f->w, MT_HOST_ALLOC, 0x1000, 20 * MIB, f->nccl, f->python);
	run(f);
	assert_false(f->replay.device[0].counted_from_runtime);
	assert_int_equal(f->replay.device[0].peak.allocated, 0);
	assert_int_equal(f->replay.device[0].now.other, 20 * MIB);
	assert_int_equal(f->replay.host_events, 1);
	assert_int_equal(f->replay.frees_unknown + f->replay.allocs_twice, 0);
}

static void a_gap_is_bridged_by_the_keyframe(void **state)
{
	struct fixture *f = *state;
	const struct device *d = &f->replay.device[0];

	forward(f, 0x1000, 100);
	forward(f, 0x2000, 100);
	write_segment(&f->w, 1000);
	write_keyframe(&f->w, MT_RESERVED, 0, 4000, NONE);
	write_keyframe(&f->w, MT_TENSOR_ALLOC, 0x2000, 100, f->model);
	write_keyframe(&f->w, MT_TENSOR_ALLOC, 0x5000, 700, f->optimizer);
	write_keyframe(&f->w, MT_DEVICE_ALLOC, 0x9000, 30, f->nccl);
	release(f, 0x2000, 100);
	forward(f, 0x6000, 150); /* 850: the peak */
	run(f);
	assert_int_equal(f->replay.given_up, 1000);
	assert_int_equal(f->replay.open_gaps, 0);
	/* the steps in the gap are not counted */
	assert_int_equal(f->replay.device[0].now.step, 0);
	assert_int_equal(device_events(d), 4);
	assert_int_equal(d->peak.allocated, 850);
	assert_int_equal(d->peak.reserved, 4000);
	assert_int_equal(d->peak.other, 30);
	assert_int_equal(d->at_peak.bytes, 850);
	assert_int_equal(d->at_peak.groups[0].stack, f->optimizer);
	assert_int_equal(f->replay.frees_unknown, 0);
}

static void a_peak_may_lie_in_a_keyframe(void **state)
{
	struct fixture *f = *state;
	const struct device *d = &f->replay.device[0];

	forward(f, 0x1000, 100);
	write_segment(&f->w, 10);
	write_keyframe(&f->w, MT_TENSOR_ALLOC, 0x5000, 700, f->model);
	release(f, 0x5000, 700);
	run(f);
	assert_int_equal(d->peak.allocated, 700);
	assert_int_equal(d->at_peak.bytes, 700);
	assert_int_equal(d->final.bytes, 0);
}

static void a_gap_without_keyframe_is_counted(void **state)
{
	struct fixture *f = *state;

	forward(f, 0x1000, 100);
	write_segment(&f->w, 10);
	forward(f, 0x2000, 100);
	run(f);
	assert_int_equal(f->replay.open_gaps, 1);
	assert_int_equal(f->replay.device[0].peak.allocated, 200);
}

static void segments_follow_each_other_in_sequence(void **state)
{
	struct fixture *f = *state;
	struct mt_segment first;
	struct mt_header *h;
	size_t size;
	struct err e = { 0 };
	const struct replay_options options = { 0 };

	forward(f, 0x1000, 100);
	write_segment(&f->w, 0);
	release(f, 0x1000, 100);
	f->file = write_finish(&f->w, &size);
	h = (struct mt_header *)(void *)f->file;
	first = h->segment[0];
	h->segment[0] = h->segment[1];
	h->segment[1] = first;
	assert_int_equal(trace_open_memory(&f->trace, f->file, size, &e), 0);
	replay_trace(&f->replay, &f->trace, &options);
	assert_int_equal(f->replay.frees_unknown, 0);
	assert_int_equal(f->replay.given_up, 0);
	assert_int_equal(f->replay.device[0].final.blocks, 0);
}

static void devices_are_kept_apart(void **state)
{
	struct fixture *f = *state;

	write_event_on(&f->w, 0, MT_TENSOR_ALLOC, 0x1000, 100, f->model, f->python);
	write_event_on(&f->w, 3, MT_TENSOR_ALLOC, 0x2000, 900, f->model, f->python);
	run(f);
	assert_int_equal(f->replay.device[0].peak.allocated, 100);
	assert_int_equal(f->replay.device[3].peak.allocated, 900);
	assert_int_equal(f->replay.device[3].at_peak.bytes, 900);
	assert_false(f->replay.device[1].seen);
}

static void the_live_set_grows(void **state)
{
	struct fixture *f = *state;
	struct live_set l;
	struct mt_record r = { .kind = MT_TENSOR_ALLOC };

	run(f);
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
		most = timeline_peak(t, i, 0) > most ? timeline_peak(t, i, 0) : most;
		assert_int_equal(timeline_peak(t, i, 1), 7);
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
	assert_int_equal(timeline_peak(t, 9, 0), 5);
	assert_int_equal(timeline_peak(t, 10, 0), 9);
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
