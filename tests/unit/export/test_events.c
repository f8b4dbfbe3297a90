/* Events in order, also where records are missing: what a reader adds up is what is live. */
#include "export/events.h"
#include "fixture.h"

struct seen {
	bytes level, live;
	size_t events, frees_known;
	uint64_t unseen_ns; /* time of the last free without a thread */
};

static void on_event(void *context, uint64_t sequence, const struct mt_record *r,
		     const struct mt_record *allocated)
{
	struct seen *s = context;

	(void)sequence;
	s->events++;
	s->level += r->bytes;
	if (allocated) {
		s->frees_known++;
		assert_int_equal(allocated->bytes, -r->bytes);
		assert_int_equal(allocated->address, r->address);
		if (r->thread == MT_NO_THREAD)
			s->unseen_ns = r->time_ns;
	}
}

static void on_live(void *context, const struct mt_record *allocated)
{
	struct seen *s = context;

	s->live += allocated->bytes;
}

static struct seen visit(struct fixture *f, uint64_t until)
{
	struct seen s = { 0 };
	const struct event_sink sink = {
		.context = &s, .until = until, .event = on_event, .live = on_live
	};

	assert_int_equal(events_visit(&f->trace, &sink), 0);
	return s;
}

/* 100 stays, 50 is freed. */
static void frees_have_their_allocations(void **state)
{
	struct fixture *f = *state;
	struct seen s;

	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 100, NONE);
	fixture_event(f, MT_TENSOR_ALLOC, 0x2000, 50, NONE);
	fixture_event(f, MT_TENSOR_FREE, 0x2000, -50, NONE);
	fixture_replay(f, 0);
	s = visit(f, UINT64_MAX);
	assert_int_equal(s.events, 3);
	assert_int_equal(s.frees_known, 1);
	assert_int_equal(s.level, 100);
	assert_int_equal(s.live, 100);
	s = visit(f, 2);
	assert_int_equal(s.events, 2);
	assert_int_equal(s.live, 150);
}

/* Behind the gap 100 is gone, 50 is there and 700 came: the differences are told as events. */
static void a_gap_is_told_as_events(void **state)
{
	struct fixture *f = *state;
	struct mt_record kept;
	struct seen s;

	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 100, NONE);
	fixture_event(f, MT_TENSOR_ALLOC, 0x2000, 50, NONE);
	kept = f->w.segments[0].events[1];
	write_segment(&f->w, 10);
	write_keyframe(&f->w, MT_TENSOR_ALLOC, 0x2000, 50, NONE);
	f->w.segments[1].keyframe[0] = kept;
	write_keyframe(&f->w, MT_TENSOR_ALLOC, 0x5000, 700, NONE);
	fixture_event(f, MT_TENSOR_FREE, 0x2000, -50, NONE);
	fixture_replay(f, 0);
	s = visit(f, UINT64_MAX);
	assert_int_equal(s.events, 2 + 2 + 1);
	assert_int_equal(s.frees_known, 2);
	assert_int_equal(s.level, 700);
	assert_int_equal(s.live, 700);
	/* The moment behind the gap, which is the peak: 50 and 700 are live. */
	assert_int_equal(f->replay.device[0].peak.allocated, 750);
	assert_int_equal(f->replay.device[0].peak.at.record, 0);
	s = visit(f, f->trace.segments[1].first_sequence);
	assert_int_equal(s.live, 750);
}

/* 100 is freed unseen, and 70 takes its address: what is told is the free and the allocation. */
static void a_missing_free_is_told(void **state)
{
	struct fixture *f = *state;
	struct seen s;

	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 100, NONE);
	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 2 * MIB, NONE); /* another layer */
	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 70, NONE);
	fixture_event(f, MT_TENSOR_FREE, 0x1000, -70, NONE);
	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 30, NONE);
	fixture_replay(f, 0);
	s = visit(f, UINT64_MAX);
	assert_int_equal(s.events, 5 + 1);
	assert_int_equal(s.frees_known, 2);
	assert_int_equal(s.level, 30 + 2 * MIB);
	assert_int_equal(s.live, 30 + 2 * MIB);
	assert_int_equal(s.unseen_ns, 3000000); /* when 70 came */
	s = visit(f, 2);                        /* before that */
	assert_int_equal(s.events, 2);
	assert_int_equal(s.live, 100 + 2 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(frees_have_their_allocations, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_missing_free_is_told, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_gap_is_told_as_events, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
