/* The timed model: work takes the time that an H100 needs for it at best, by its data sheet: 3350
 * GB/s of memory, 64 GB/s to the host.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#define MILLISECOND 3350000000ul /* bytes that are filled in one */
#define LONGEST 20               /* milliseconds that a fill can take */
#define BETWEEN 3.8              /* microseconds from a launch to the next */

/* What a test has made; release() returns it. */
static struct {
	cudaStream_t streams[8];
	cudaEvent_t events[8];
	int stream_count, event_count;
	void *device, *pinned;
} made;

static int release(void **state)
{
	(void)state;
	while (made.event_count)
		cudaEventDestroy(made.events[--made.event_count]);
	while (made.stream_count)
		cudaStreamDestroy(made.streams[--made.stream_count]);
	cudaFree(made.device);
	cudaFreeHost(made.pinned);
	made.device = made.pinned = NULL;
	return 0;
}

static cudaStream_t stream(void)
{
	cudaStream_t s;
	assert_int_equal(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), 0);
	made.streams[made.stream_count++] = s;
	return s;
}

static cudaEvent_t recorded(cudaStream_t s)
{
	cudaEvent_t e;
	assert_int_equal(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), 0);
	assert_int_equal(cudaEventRecord(e, s), 0);
	made.events[made.event_count++] = e;
	return e;
}

static void *memory(void)
{
	if (!made.device)
		assert_int_equal(cudaMalloc(&made.device, LONGEST * MILLISECOND), 0);
	return made.device;
}

static void work(cudaStream_t s, unsigned milliseconds)
{
	for (; milliseconds > LONGEST; milliseconds -= LONGEST)
		work(s, LONGEST);
	size_t bytes = milliseconds ? milliseconds * MILLISECOND : 512;
	assert_int_equal(cudaMemsetAsync(memory(), 0, bytes, s), 0);
}

/* Launches elsewhere until the event is complete. */
static double launches_until(cudaEvent_t e)
{
	cudaStream_t other = stream();
	int count = 0;
	for (; cudaEventQuery(e) == cudaErrorNotReady; count++)
		work(other, 0);
	return count;
}

static void a_fill_takes_its_bytes_over_the_bandwidth(void **state)
{
	(void)state;
	cudaStream_t s = stream();
	cudaEvent_t before = recorded(s);
	assert_int_equal(cudaEventQuery(before), cudaSuccess); /* nothing is queued */
	work(s, 2);
	assert_in_range(launches_until(recorded(s)), 2000 / BETWEEN - 5, 2000 / BETWEEN + 5);
}

static void a_copy_from_the_host_takes_the_bus(void **state)
{
	(void)state;
	cudaStream_t s = stream();
	size_t bytes = 64000000; /* 1 ms */
	assert_int_equal(cudaMallocHost(&made.pinned, bytes), 0);
	assert_int_equal(cudaMemcpyAsync(memory(), made.pinned, bytes, cudaMemcpyHostToDevice, s),
			 0);
	assert_in_range(launches_until(recorded(s)), 1000 / BETWEEN - 5, 1000 / BETWEEN + 5);
}

static void a_stream_waits_for_an_event(void **state)
{
	(void)state;
	cudaStream_t a = stream(), b = stream();
	work(a, 2);
	assert_int_equal(cudaStreamWaitEvent(b, recorded(a), 0), 0);
	work(b, 1);
	cudaEvent_t e = recorded(b);
	assert_in_range(launches_until(e), 3000 / BETWEEN - 10, 3000 / BETWEEN + 10);
	work(b, 1);
	assert_int_equal(cudaStreamSynchronize(b), 0);
	assert_int_equal(cudaStreamQuery(b), cudaSuccess);
}

/* The host is at most 1024 launches ahead. */
static void a_full_queue_holds_the_host(void **state)
{
	(void)state;
	cudaStream_t s = stream();
	work(s, 1);
	cudaEvent_t e = recorded(s);
	for (int i = 0; i < 1023; i++)
		work(s, 1);
	assert_int_equal(cudaDeviceSynchronize(), 0);
	work(s, 10);
	e = recorded(s);
	for (int i = 0; i < 1023; i++)
		work(s, 0);
	assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
	work(s, 0);
	work(s, 0);
	assert_int_equal(cudaEventQuery(e), cudaSuccess);
}

/* A pause of the host is as long as it is. */
static void a_pause_of_the_host_counts(void **state)
{
	(void)state;
	cudaStream_t s = stream();
	work(s, 50);
	cudaEvent_t e = recorded(s);
	assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
	usleep(130000);
	assert_int_equal(cudaEventQuery(e), cudaSuccess);
}

/* ---- a watchdog: polls, and sleeps 100 ms on a condition variable, as std::condition_variable
 * does: it compares the clock with the end of its sleep */

enum { PERIOD = 100 };
struct watchdog {
	pthread_mutex_t lock;
	pthread_cond_t condition;
	cudaEvent_t event;
	atomic_bool stop;
	atomic_int polls, complete_at;
};

static void sleep_a_period(struct watchdog *w)
{
	struct timespec end, now;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += PERIOD * 1000000;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	do {
		pthread_cond_timedwait(&w->condition, &w->lock, &end);
		clock_gettime(CLOCK_REALTIME, &now);
	} while (!w->stop && (now.tv_sec < end.tv_sec ||
			      (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec)));
}

static void *watch(void *data)
{
	struct watchdog *w = data;
	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		if (cudaEventQuery(w->event) == cudaSuccess && !w->complete_at)
			w->complete_at = w->polls;
		w->polls++;
		sleep_a_period(w);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* A second and a half of the GPU's time passes in much less. The host waits 450 ms at first, in
 * which the watchdog polls once, with what it sees at the last whole 100 ms, then 1 ms a time: ten
 * or eleven more polls, of which the first sees the work complete. */
static void a_watchdog_polls_by_the_clock_of_the_device(void **state)
{
	(void)state;
	struct watchdog w = { .lock = PTHREAD_MUTEX_INITIALIZER,
			      .condition = PTHREAD_COND_INITIALIZER };
	cudaStream_t s = stream();
	pthread_t thread;
	assert_int_equal(cudaDeviceSynchronize(), 0);
	work(s, 450);
	w.event = recorded(s);
	pthread_create(&thread, NULL, watch, &w);
	while (!w.polls)
		usleep(100);
	usleep(2000); /* asleep now */
	for (int i = 0; i < 1050; i++) {
		work(s, 1);
		assert_int_equal(cudaStreamSynchronize(s), 0);
	}
	work(s, 0);
	int polls = w.polls;
	w.stop = true;
	pthread_cond_signal(&w.condition);
	pthread_join(thread, NULL);
	assert_int_equal(w.complete_at, 2);
	assert_in_range(polls, 12, 13);
}

int main(void)
{
	setenv("CUDASIM_STREAMS", "timed", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_fill_takes_its_bytes_over_the_bandwidth, release),
		cmocka_unit_test_teardown(a_copy_from_the_host_takes_the_bus, release),
		cmocka_unit_test_teardown(a_stream_waits_for_an_event, release),
		cmocka_unit_test_teardown(a_full_queue_holds_the_host, release),
		cmocka_unit_test_teardown(a_pause_of_the_host_counts, release),
		cmocka_unit_test_teardown(a_watchdog_polls_by_the_clock_of_the_device, release),
	};
	return cmocka_run_group_tests_name("timed streams", tests, NULL, NULL);
}
