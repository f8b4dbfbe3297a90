/* What steps do to PyTorch's allocator. */
#include "../attribution/steps_job.h"
#include "metrics/metrics.h"

/* Five steps, behind each of which, or behind the last one alone, empty_cache() frees a segment. */
static const struct metrics *emptied(struct fixture *f, int in_each_step)
{
	uint32_t empty =
		write_stack(&f->w, f->c10,
			    write_frame(&f->w, "empty_cache", TORCH "cuda/memory.py", 10), 0, 0, 0);

	for (int step = 1; step <= 5; step++) {
		drop_in_backward(f, micro_batch(f), 5 * MIB);
		if (step == 1 || in_each_step)
			fixture_event(f, MT_DEVICE_ALLOC, 0x7000000, 64 * MIB, f->model);
		make(f, f->optimizer, 8 * MIB);
		if (step == 5 || in_each_step)
			fixture_event(f, MT_DEVICE_FREE, 0x7000000, -64 * MIB, empty);
	}
	return fixture_report(f)->metrics;
}

static void segments_that_are_bought_again_were_emptied_in_vain(void **state)
{
	const struct metrics *m = emptied(*state, 1);

	assert_int_equal(m->emptied_steps, 100);
	assert_int_equal(m->emptied_bytes, 64 * MIB);
}

/* As a trainer does it at its end. */
static void what_the_end_of_a_job_gives_back_is_no_waste(void **state)
{
	assert_int_equal(emptied(*state, 0)->emptied_steps, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(segments_that_are_bought_again_were_emptied_in_vain),
		CASE(what_the_end_of_a_job_gives_back_is_no_waste),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
