/* The end of a recording while another thread holds the lock under which segments change. The
 * preload's syscall() is this program's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"
#include "record/event.h"
#include "record/recorder.h"
#include "record/segments.h"
#include "record/writer.h"

static char directory[] = "/tmp/memtrace-test-XXXXXX";
static _Thread_local int stalls; /* this thread's next futex call waits for `may_go_on` */
static atomic_int is_stalled, may_go_on;

long syscall(long number, ...)
{
	static long (*_Atomic real)(long, ...);
	long (*call)(long, ...) = real;
	long a[6];
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	if (!call) {
		*(void **)&call = dlsym(RTLD_NEXT, "syscall");
		real = call;
	}
	if (number == SYS_futex && stalls) {
		atomic_store(&is_stalled, 1);
		while (!atomic_load(&may_go_on))
			usleep(1000);
		stalls = 0;
	}
	return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void write_one(uint64_t address)
{
	recorder_write(now_ns(), address, 512, recorder_last(0, 0, MT_TENSOR_ALLOC, 0));
}

/* Fills the segment; at the first record beyond it, this thread takes the lock for the next
 * segment, and stalls when it wakes the helper. */
static void *fill(void *unused)
{
	const uint64_t capacity = atomic_load(&segments.current)->capacity;

	for (uint64_t i = 0; i < capacity; i++)
		write_one(i << 9);
	stalls = 1;
	write_one(capacity << 9);
	return unused;
}

static void test_close_beside_a_stalled_thread(void **state)
{
	struct recorder_setup setup = { .directory = directory,
					.name = "a.mtr",
					.budget = 1 << 20 };
	const struct mt_header *h;
	pthread_t thread;
	uint64_t began;

	(void)state;
	assert_int_equal(recorder_open(&setup), 0);
	recorder_control()->begin = clock_read(0);
	recorder_begin();
	h = recorder_header();
	assert_int_equal(h->state, MT_STATE_RECORDING);
	assert_int_equal(pthread_create(&thread, NULL, fill, NULL), 0);
	while (!atomic_load(&is_stalled))
		usleep(1000);
	began = now_ns();
	recorder_close(7);
	assert_true(now_ns() - began >= LOCK_MS(40)); /* the lock was held */
	assert_int_equal(h->state, MT_STATE_ENDED);
	assert_int_equal(h->exit_status, 7);
	assert_true(h->end_ns > 0);
	assert_int_equal(h->lost_events, 0);
	atomic_store(&may_go_on, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(h->state, MT_STATE_ENDED);
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close_beside_a_stalled_thread),
	};

	return cmocka_run_group_tests_name("close", tests, make_directory, remove_directory);
}
