/* The moment of the metrics. */
#include "../attribution/steps_job.h"
#include "metrics/metrics.h"

/* The most is allocated when the phase begins, before any event in it. */
static void the_peak_of_a_phase_may_be_its_begin(void **state)
{
	struct fixture *f = *state;
	uint32_t name = write_stack(&f->w, 0, write_frame(&f->w, "eval", "", 0), 0, 0, 0);
	uint64_t kept = make(f, f->setup, 2 * GIB), dropped = make(f, f->setup, 4 * GIB);
	const struct metrics *m;

	drop(f, f->setup, dropped, 4 * GIB);
	write_event_on(&f->w, MT_NO_DEVICE, MT_PHASE_BEGIN, 1, 0, name, f->python);
	drop(f, f->setup, kept, 2 * GIB);
	write_event_on(&f->w, MT_NO_DEVICE, MT_PHASE_END, 1, 0, NONE, f->python);
	f->phase = "eval";
	m = fixture_report(f)->metrics;
	assert_int_equal(m->allocated, 2 * GIB);
	assert_int_equal(m->allocated_peak, 2 * GIB);
}

/* A library takes 100 MiB behind each of three steps, and is refused as much behind the fourth. */
static void what_a_library_takes_grows_until_it_is_refused(void **state)
{
	struct fixture *f = *state;
	uint32_t library = write_stack(&f->w, write_module(&f->w, "/lib/libext.so"), 0, 0, 0, 0);
	const struct metrics *m;

	for (uint64_t step = 0; step < 4; step++) {
		uint64_t g = micro_batch(f), states = make(f, f->temporary, MIB);

		drop(f, f->temporary, states, MIB);
		drop(f, f->zero_grad, g, 5 * MIB);
		if (step < 3)
			fixture_event(f, MT_DEVICE_ALLOC, (step + 1) * GIB, 100 * MIB, library);
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_DEVICE_FAIL, 10 * MIB, 100 * MIB, library);
	m = fixture_report(f)->metrics;
	assert_true(m->by_library);
	assert_int_equal(m->step, 4);
	assert_int_equal(m->outside_growth, 200 * MIB);
	assert_int_equal(m->outside_per_step, 100 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_a_library_takes_grows_until_it_is_refused),
		CASE(the_peak_of_a_phase_may_be_its_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
