/* Causes that a report rules out: only what was shown not to hold. */
#include "../attribution/steps_job.h"
#include "diagnose/diagnose.h"

/* Eight steps; the program keeps one block, which each step replaces by one that is `growth`
 * larger. Returns whether the report of the failure rules a leak out. */
static int rules_a_leak_out(struct fixture *f, bytes growth)
{
	struct diagnosis d = { 0 };
	bytes size = 64 * MIB;
	uint64_t kept;
	int found = 0;

	make(f, f->setup, 4 * MIB);
	kept = make(f, f->input, size);
	for (int step = 0; step < 8; step++) {
		uint64_t next = make(f, f->input, size + growth), g = micro_batch(f);

		drop(f, f->input, kept, size);
		kept = next;
		size += growth;
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
		drop(f, f->zero_grad, g, 5 * MIB);
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	fixture_report(f);
	diagnose(&d, &f->report);
	for (size_t i = 0; i < d.ruled_out_count; i++)
		found |= !strncmp(d.ruled_out[i], "a leak", 6);
	diagnosis_release(&d);
	return found;
}

static void a_floor_that_stays_rules_a_leak_out(void **state)
{
	assert_true(rules_a_leak_out(*state, 0));
}

static void a_tensor_that_grows_by_replacement_does_not(void **state)
{
	assert_false(rules_a_leak_out(*state, 16 * MIB));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_floor_that_stays_rules_a_leak_out),
		CASE(a_tensor_that_grows_by_replacement_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
