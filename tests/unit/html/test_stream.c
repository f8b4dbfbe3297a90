/* The events of a page. */
#include "html/stream.h"
#include "fixture.h"

/* The level of a series after the last event. */
static bytes last_level(const struct stream *s, uint32_t series)
{
	for (size_t i = s->level_count; i-- > 0;)
		if (s->levels[i].series == series)
			return s->levels[i].level;
	return 0;
}

/* What a sample shows waits for the next event; the last sample of a trace has none. */
static void the_last_sample_is_shown(void **state)
{
	struct fixture *f = *state;
	struct stream s;
	struct replay_observer observer = stream_observer(&s);
	struct replay_options options = { .name_all_blocks = 1, .observer = &observer };
	struct replay replay;
	bytes sum = 0;

	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 100, NONE);
	fixture_event(f, MT_DEVICE_SAMPLE, 70 * MIB, 100 * MIB, NONE);
	fixture_replay(f, 0);
	stream_init(&s, &f->trace.tables, 0);
	replay_trace(&replay, &f->trace, &options);
	stream_end(&s);
	for (uint32_t i = 1; i < STREAM_SERIES; i++)
		sum += last_level(&s, i);
	assert_int_equal(sum, 30 * MIB);
	replay_release(&replay);
	stream_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_last_sample_is_shown, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
