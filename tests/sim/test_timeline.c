/* The late model of time: work is complete when the program makes sure of it, and in no other order
 * than it was queued in. The early one is test_device.c's. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

/* The objects of a test, to be destroyed at its end. */
static cudaStream_t streams[8];
static cudaEvent_t events[8];
static int stream_count, event_count;
static void *memory;

static cudaStream_t stream_with(unsigned flags)
{
	cudaStream_t *s = &streams[stream_count++];
	assert_int_equal(cudaStreamCreateWithFlags(s, flags), 0);
	return *s;
}

static cudaStream_t stream(void)
{
	return stream_with(cudaStreamNonBlocking);
}

static cudaEvent_t event(void)
{
	cudaEvent_t *e = &events[event_count++];
	assert_int_equal(cudaEventCreateWithFlags(e, cudaEventDisableTiming), 0);
	return *e;
}

static cudaEvent_t recorded(cudaStream_t s)
{
	cudaEvent_t e = event();
	assert_int_equal(cudaEventRecord(e, s), 0);
	return e;
}

static int clean(void **state)
{
	(void)state;
	while (stream_count)
		cudaStreamDestroy(streams[--stream_count]);
	while (event_count)
		cudaEventDestroy(events[--event_count]);
	cudaFree(memory);
	memory = NULL;
	return 0;
}

static void work(cudaStream_t s)
{
	if (!memory)
		assert_int_equal(cudaMalloc(&memory, 512), 0);
	assert_int_equal(cudaMemsetAsync(memory, 0, 512, s), 0);
}

static void an_event_is_complete_when_somebody_waits(void **state)
{
	(void)state;
	assert_int_equal(cudaEventQuery(event()), cudaSuccess);
	cudaStream_t s = stream();
	work(s);
	cudaEvent_t first = recorded(s);
	work(s);
	cudaEvent_t second = recorded(s);
	assert_int_equal(cudaEventQuery(first), cudaErrorNotReady);
	assert_int_equal(cudaStreamQuery(s), cudaErrorNotReady);
	assert_int_equal(cudaEventSynchronize(first), 0);
	assert_int_equal(cudaEventQuery(first), cudaSuccess);
	assert_int_equal(cudaEventQuery(second), cudaErrorNotReady);
	assert_int_equal(cudaStreamSynchronize(s), 0);
	assert_int_equal(cudaEventQuery(second), cudaSuccess);
	assert_int_equal(cudaStreamQuery(s), cudaSuccess);
	assert_int_equal(cudaEventRecord(first, s), 0);
	assert_int_equal(cudaEventQuery(first), cudaErrorNotReady);
	assert_int_equal(cudaDeviceSynchronize(), 0);
	assert_int_equal(cudaEventQuery(first), cudaSuccess);
}

/* a waits for b, which waits for c: a wait for a completes all three, but not the later work in
 * c. */
static void what_was_waited_for_completes_too(void **state)
{
	(void)state;
	cudaStream_t a = stream(), b = stream(), c = stream();
	work(c);
	cudaEvent_t in_c = recorded(c);
	assert_int_equal(cudaStreamWaitEvent(b, in_c, 0), 0);
	work(b);
	cudaEvent_t in_b = recorded(b);
	work(a);
	cudaEvent_t before = recorded(a);
	assert_int_equal(cudaStreamWaitEvent(a, in_b, 0), 0);
	work(a);
	work(c);
	cudaEvent_t later = recorded(c);
	assert_int_equal(cudaEventSynchronize(before), 0); /* nothing was waited for yet */
	assert_int_equal(cudaEventQuery(in_b), cudaErrorNotReady);
	assert_int_equal(cudaStreamSynchronize(a), 0);
	assert_int_equal(cudaEventQuery(in_b), cudaSuccess);
	assert_int_equal(cudaEventQuery(in_c), cudaSuccess);
	assert_int_equal(cudaEventQuery(later), cudaErrorNotReady);
}

static void copies_and_frees_wait(void **state)
{
	(void)state;
	cudaStream_t s = stream();
	void *device, *pinned;
	char pageable[64];
	assert_int_equal(cudaMalloc(&device, 64), 0);
	assert_int_equal(cudaMallocHost(&pinned, 64), 0);
	cudaEvent_t e = recorded(s);
	assert_int_equal(cudaMemcpyAsync(pinned, device, 64, cudaMemcpyDeviceToHost, s), 0);
	assert_int_equal(cudaMemcpyAsync(device, pageable, 64, cudaMemcpyHostToDevice, s), 0);
	assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
	assert_int_equal(cudaMemcpyAsync(pageable, device, 64, cudaMemcpyDeviceToHost, s), 0);
	assert_int_equal(cudaEventQuery(e), cudaSuccess);
	work(NULL);
	cudaEvent_t blocked = recorded(NULL);
	assert_int_equal(cudaMemcpy2DAsync(pinned, 8, device, 8, 8, 8, cudaMemcpyDeviceToHost, 0),
			 0);
	assert_int_equal(cudaEventQuery(blocked), cudaErrorNotReady);
	assert_int_equal(cudaMemcpy2D(pinned, 8, device, 8, 8, 8, cudaMemcpyDeviceToHost), 0);
	assert_int_equal(cudaEventQuery(blocked), cudaSuccess);
	assert_int_equal(cudaEventRecord(e, s), 0);
	assert_int_equal(cudaFree(device), 0);
	assert_int_equal(cudaEventQuery(e), cudaSuccess);
	assert_int_equal(cudaEventRecord(e, s), 0);
	assert_int_equal(cudaFreeHost(pinned), 0);
	assert_int_equal(cudaEventQuery(e), cudaSuccess);
}

/* The queue of a stream holds about a thousand launches. */
static void a_full_queue_moves_on(void **state)
{
	(void)state;
	cudaStream_t s = stream();
	cudaEvent_t e = recorded(s);
	for (int i = 0; i < 1000; i++)
		work(s);
	assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
	for (int i = 0; i < 200; i++)
		work(s);
	assert_int_equal(cudaEventQuery(e), cudaSuccess);
}

static int polls(cudaEvent_t e)
{
	int count = 1;
	while (cudaEventQuery(e) == cudaErrorNotReady)
		count++;
	return count;
}

static void *watch(void *event)
{
	return polls(event) > 1000 ? event : NULL;
}

/* A loop of queries ends; queries between pieces of work, as an allocator makes them, do not count;
 * and a thread that only watches changes nothing for the others. */
static void loops_of_queries_end(void **state)
{
	(void)state;
	cudaStream_t s = stream(), other = stream();
	cudaEvent_t e = recorded(s);
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
		work(other);
	}
	pthread_t watcher;
	void *ended;
	assert_int_equal(pthread_create(&watcher, NULL, watch, e), 0);
	assert_int_equal(pthread_join(watcher, &ended), 0);
	assert_non_null(ended);
	work(other);
	assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
	assert_in_range(polls(e), 500, 1100);
	assert_int_equal(cudaEventQuery(e), cudaSuccess);
}

/* Streams that are not "non-blocking" wait for the default stream, and it for them. */
static void the_default_stream_waits_for_blocking_ones(void **state)
{
	(void)state;
	cudaStream_t s = stream_with(cudaStreamDefault);
	cudaEvent_t e = recorded(s);
	assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
	assert_int_equal(cudaStreamSynchronize(NULL), 0);
	assert_int_equal(cudaEventQuery(e), cudaSuccess);
}

/* Each device has a default stream: work in one device's leaves the other's complete, and each is
 * waited for alone. */
static void devices_have_default_streams_of_their_own(void **state)
{
	(void)state;
	assert_int_equal(cudaDeviceSynchronize(), 0);
	assert_int_equal(cudaSetDevice(1), 0);
	cudaStream_t s = stream_with(cudaStreamDefault);
	cudaEvent_t on_1 = recorded(NULL), behind = recorded(s);
	assert_int_equal(cudaStreamQuery(NULL), cudaErrorNotReady);
	assert_int_equal(cudaSetDevice(0), 0);
	assert_int_equal(cudaStreamQuery(NULL), cudaSuccess);
	assert_int_equal(cudaDeviceSynchronize(), 0);
	assert_int_equal(cudaStreamSynchronize(NULL), 0);
	assert_int_equal(cudaEventQuery(on_1), cudaErrorNotReady);
	assert_int_equal(cudaEventQuery(behind), cudaErrorNotReady);
	assert_int_equal(cudaSetDevice(1), 0);
	assert_int_equal(cudaStreamSynchronize(NULL), 0);
	assert_int_equal(cudaSetDevice(0), 0);
	assert_int_equal(cudaEventQuery(on_1), cudaSuccess);
	assert_int_equal(cudaEventQuery(behind), cudaSuccess);
}

int main(void)
{
	setenv("CUDASIM_STREAMS", "late", 1);
	setenv("CUDASIM_GPUS", "2", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(an_event_is_complete_when_somebody_waits, clean),
		cmocka_unit_test_teardown(what_was_waited_for_completes_too, clean),
		cmocka_unit_test_teardown(copies_and_frees_wait, clean),
		cmocka_unit_test_teardown(a_full_queue_moves_on, clean),
		cmocka_unit_test_teardown(loops_of_queries_end, clean),
		cmocka_unit_test_teardown(the_default_stream_waits_for_blocking_ones, clean),
		cmocka_unit_test_teardown(devices_have_default_streams_of_their_own, clean),
	};
	return cmocka_run_group_tests_name("late streams", tests, NULL, NULL);
}
