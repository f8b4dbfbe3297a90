/* The switch from a full segment to the next, which one thread does while the others wait. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/recorder.c"

static uint64_t write_one(void)
{
	return recorder_write(now_ns(), 0x1000, 512, recorder_last(0, 0, MT_TENSOR_ALLOC, 0));
}

/* Another thread has begun to switch and was stopped: events are lost meanwhile, with the reason,
 * and only the first waits. Each event after it is recorded again. */
static void test_switch_by_a_stopped_thread(void **state)
{
	struct recorder_setup setup = { .directory = "/tmp",
					.name = "none.mtr",
					.budget = 1u << 20 };
	const struct mt_header *h;
	const struct segment *s;
	uint64_t start, waited;

	(void)state;
	keyframe_reset();
	assert_int_equal(recorder_open(&setup), 0);
	h = recorder_header();
	s = atomic_load(&segments.current);
	for (uint64_t i = 0; i < s->capacity; i++)
		assert_int_equal(write_one(), i);
	assert_true(lock_acquire(&recorder.switch_lock, 0));
	start = now_ns();
	assert_int_equal(write_one(), MT_UNKNOWN);
	waited = now_ns() - start;
	for (int i = 0; i < 999; i++)
		assert_int_equal(write_one(), MT_UNKNOWN);
	assert_true(waited >= WAIT);
	assert_true(now_ns() - start < 500 * WAIT);
	assert_int_equal(h->lost_events, 1000);
	assert_int_equal(h->lost_reason, MT_LOST_BUSY);
	lock_release(&recorder.switch_lock);
	assert_int_equal(write_one(), s->capacity);
	assert_int_equal(h->lost_events, 1000);
	recorder_close(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_switch_by_a_stopped_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
