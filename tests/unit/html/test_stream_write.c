/* The clock of a page: exact if that is cheap, else coarse. */
#include "html/stream_write.h"
#include "fixture.h"

#define MANY 2100000

/* The nanoseconds of a unit in which a page gives the times of so many events. */
static json_int_t unit_of(struct fixture *f, size_t events, uint64_t most_apart)
{
	struct stream s;
	struct device d = { 0 };
	struct buf blobs = { 0 };
	unsigned next = 0;
	uint64_t seed = 1;
	json_int_t unit;
	json_t *j;

	stream_init(&s, &f->trace.tables, 0);
	s.events = events;
	s.kinds = xcalloc(events, 1);
	s.times = xcalloc(events, sizeof(*s.times));
	for (size_t i = 1; i < events; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		s.kinds[i] = STREAM_LEVELS;
		s.times[i] = s.times[i - 1] + (most_apart ? (seed >> 33) % most_apart : 5000);
	}
	j = stream_write(&s, &d, NULL, &blobs, &next);
	unit = json_integer_value(json_object_get(j, "unit_ns"));
	json_decref(j);
	buf_release(&blobs);
	stream_release(&s);
	return unit;
}

static void a_clock_is_as_fine_as_a_page_can_have(void **state)
{
	struct fixture *f = *state;

	fixture_replay(f, 0);
	assert_int_equal(unit_of(f, 1000, 1000000), 1);
	assert_int_equal(unit_of(f, MANY, 0), 1000);
	/* 2.1 million numbers of 20 bits are 5 MB; of 13 bits, 3.4 MB; of 10 bits, 2.6 MB. */
	assert_int_equal(unit_of(f, MANY, 1000000000), 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_clock_is_as_fine_as_a_page_can_have,
						fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
