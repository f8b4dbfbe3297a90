/* The counters of a device under several threads: no thread lowers a value that another raised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "memory/counters.h"
#include "record/recorder.h"

#define ROUNDS 20000000
#define MiB (1ull << 20)

static atomic_int ended;

/* CUDA calls of others: each raises the peak by 512 bytes. */
static void *allocate(void *unused)
{
	struct module by = { 0 };

	(void)unused;
	while (!atomic_load(&ended))
		counters_device(0, 512, 512, &by);
	return NULL;
}

/* PyTorch's allocator, under its own lock: the device has held at least what it reports. */
static void test_peak_of_two_threads(void **state)
{
	char directory[] = "/tmp/memtrace-test-XXXXXX";
	struct recorder_setup setup = { .name = "a.mtr", .budget = 64 * MiB };
	const struct mt_device *device;
	int new_peak, low = 0;
	pthread_t other;

	(void)state;
	setup.directory = mkdtemp(directory);
	assert_non_null(setup.directory);
	assert_int_equal(recorder_open(&setup), 0);
	pthread_create(&other, NULL, allocate, NULL);
	device = &recorder_header()->device[0];
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		uint64_t others = __atomic_load_n(&device->other, __ATOMIC_RELAXED);
		counters_block(0, 512, i * 512, i * MiB, &new_peak);
		for (volatile int pause = 0; pause < 20; pause++)
			; /* the other thread may be about to store an older value */
		low += __atomic_load_n(&device->device_peak, __ATOMIC_RELAXED) < i * MiB + others;
	}
	atomic_store(&ended, 1);
	pthread_join(other, NULL);
	assert_int_equal(low, 0);
	recorder_close(0);
	rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peak_of_two_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
