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

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_peak_of_a_phase_may_be_its_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
