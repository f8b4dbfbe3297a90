/* The simulated device's accounting. Every expected number is worked out by hand from the sizes
 * written here: an H100 whose context takes 545,259,520 bytes and which has exactly 64 MiB (32
 * granules of 2 MiB) beside it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <library_types.h>

#include "beside_context.h"

/* Runs first: the context is charged at the first use, and the first question about memory is one.
 */
static void context_is_charged_once_per_device(void **state)
{
	(void)state;
	int count;
	assert_int_equal(cudaGetDeviceCount(&count), cudaSuccess);
	assert_int_equal(count, 2);
	assert_int_equal(free_bytes(), BESIDE);
	assert_int_equal(cudaFree(NULL), cudaSuccess);
	assert_int_equal(free_bytes(), BESIDE);
	void *p = take(10 * MIB);
	assert_int_equal(cudaSetDevice(1), cudaSuccess);
	assert_int_equal(free_bytes(), BESIDE); /* the other device's memory is its own */
	assert_int_equal(cudaSetDevice(0), cudaSuccess);
	assert_int_equal(free_bytes(), BESIDE - 10 * MIB);
	give(p);
	assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void large_allocations_round_to_granules(void **state)
{
	(void)state;
	void *a = take(MIB); /* the smallest that has granules of its own */
	assert_int_equal(free_bytes(), BESIDE - GRANULE);
	void *b = take(GRANULE);
	assert_int_equal(free_bytes(), BESIDE - 2 * GRANULE);
	void *c = take(GRANULE + 1);
	assert_int_equal(free_bytes(), BESIDE - 4 * GRANULE);
	assert_int_equal((uintptr_t)a % GRANULE, 0);
	assert_int_equal((uintptr_t)b % GRANULE, 0);
	assert_int_equal((uintptr_t)c % GRANULE, 0);
	give(c);
	assert_int_equal(free_bytes(), BESIDE - 2 * GRANULE);
	give(a);
	give(b);
	assert_int_equal(free_bytes(), BESIDE);
}

static void small_allocations_share_granules(void **state)
{
	(void)state;
	void *p[4097];
	for (int i = 0; i < 4096; i++)
		p[i] = take(1); /* 512 bytes each: 4096 fill a granule */
	assert_int_equal(free_bytes(), BESIDE - GRANULE);
	assert_int_equal((uintptr_t)p[1] - (uintptr_t)p[0], 512);
	p[4096] = take(512);
	assert_int_equal(free_bytes(), BESIDE - 2 * GRANULE);
	for (int i = 1; i < 4097; i++)
		give(p[i]);
	assert_int_equal(free_bytes(), BESIDE - GRANULE);
	give(p[0]);
	assert_int_equal(free_bytes(), BESIDE);
}

/* 2048 KiB hold three blocks of 600 KiB, and a block never lies across two granules. */
static void small_allocations_do_not_straddle(void **state)
{
	(void)state;
	void *p[7];
	for (int i = 0; i < 7; i++)
		p[i] = take(600 << 10);
	assert_int_equal(free_bytes(), BESIDE - 3 * GRANULE);
	for (int i = 0; i < 7; i++) {
		assert_int_equal((uintptr_t)p[i] / GRANULE,
				 ((uintptr_t)p[i] + (600 << 10) - 1) / GRANULE);
		give(p[i]);
	}
	assert_int_equal(free_bytes(), BESIDE);
}

static void out_of_memory_comes_at_the_byte(void **state)
{
	(void)state;
	void *p = take(BESIDE), *q = &q;
	assert_int_equal(free_bytes(), 0);
	assert_int_equal(cudaMalloc(&q, 1), cudaErrorMemoryAllocation);
	assert_null(q);
	assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
	give(p);
	assert_int_equal(cudaMalloc(&q, BESIDE + 1), cudaErrorMemoryAllocation);
	p = take(BESIDE - GRANULE);
	q = take(1);
	assert_int_equal(free_bytes(), 0);
	void *shared = take(GRANULE - 512 - MIB - 512); /* still fits beside the single byte */
	give(shared);
	give(p);
	give(q);
	assert_int_equal(cudaMalloc(&q, SIZE_MAX), cudaErrorMemoryAllocation);
	cudaGetLastError();
	assert_int_equal(free_bytes(), BESIDE);
}

static void wrong_frees_are_refused(void **state)
{
	(void)state;
	char host;
	char *p = take(4 * MIB), *s = take(100);
	assert_int_equal(cudaFree(p + 512), cudaErrorInvalidValue);
	assert_int_equal(cudaFree(s + 1), cudaErrorInvalidValue);
	assert_int_equal(cudaFree(&host), cudaErrorInvalidValue);
	give(p);
	give(s);
	assert_int_equal(cudaFree(p), cudaErrorInvalidValue);
	assert_int_equal(cudaFree(s), cudaErrorInvalidValue);
	assert_int_equal(cuMemFree((CUdeviceptr)p), CUDA_ERROR_INVALID_VALUE);
	cudaGetLastError();
	assert_int_equal(free_bytes(), BESIDE);
}

static void nothing_is_a_success(void **state)
{
	(void)state;
	void *p = &p;
	assert_int_equal(cudaMalloc(&p, 0), cudaSuccess);
	assert_null(p);
	CUdeviceptr d;
	assert_int_equal(cuMemAlloc(&d, 0), CUDA_ERROR_INVALID_VALUE);
}

static void pitched_memory_counts_its_padding(void **state)
{
	(void)state;
	void *p;
	size_t pitch;
	assert_int_equal(cudaMallocPitch(&p, &pitch, 1000, 4096),
			 cudaSuccess); /* 1024 * 4096 = 4 MiB */
	assert_int_equal(pitch, 1024);
	assert_int_equal(free_bytes(), BESIDE - 4 * MIB);
	give(p);
	struct cudaPitchedPtr cube;
	assert_int_equal(cudaMalloc3D(&cube, (struct cudaExtent){ 513, 1024, 3 }),
			 cudaSuccess); /* 1024 * 1024 * 3 */
	assert_int_equal(free_bytes(), BESIDE - 4 * MIB);
	give(cube.ptr);
}

static void copies_move_small_data_and_fresh_memory_is_zero(void **state)
{
	(void)state;
	int in[256], out[256];
	for (int i = 0; i < 256; i++)
		in[i] = i * 3;
	int *p = take(sizeof in);
	memset(out, 1, sizeof out);
	assert_int_equal(cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost), cudaSuccess);
	for (int i = 0; i < 256; i++)
		assert_int_equal(out[i], 0);
	assert_int_equal(cudaMemcpy(p, in, sizeof in, cudaMemcpyHostToDevice), cudaSuccess);
	assert_int_equal(cudaMemcpy(out, p, sizeof out, cudaMemcpyDefault), cudaSuccess);
	assert_memory_equal(in, out, sizeof in);
	give(p);
	p = take(sizeof in); /* the same place again */
	assert_int_equal(cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost), cudaSuccess);
	assert_int_equal(out[100], 0);
	assert_int_equal(cudaMemset(p, 0x5a, 8), cudaSuccess);
	assert_int_equal(cudaMemcpy(out, p, 8, cudaMemcpyDeviceToHost), cudaSuccess);
	assert_int_equal(out[0], 0x5a5a5a5a);
	give(p);
}

static void pointers_are_known(void **state)
{
	(void)state;
	struct cudaPointerAttributes a;
	char local, *device = take(3 * MIB), *pinned, *managed;
	assert_int_equal(cudaHostAlloc((void **)&pinned, 100, 0), cudaSuccess);
	assert_int_equal(cudaMallocManaged((void **)&managed, 100, cudaMemAttachGlobal),
			 cudaSuccess);
	assert_int_equal(cudaPointerGetAttributes(&a, device + 2 * MIB), cudaSuccess);
	assert_int_equal(a.type, cudaMemoryTypeDevice);
	assert_int_equal(a.device, 0);
	assert_int_equal(cudaPointerGetAttributes(&a, pinned + 50), cudaSuccess);
	assert_int_equal(a.type, cudaMemoryTypeHost);
	assert_int_equal(cudaPointerGetAttributes(&a, managed), cudaSuccess);
	assert_int_equal(a.type, cudaMemoryTypeManaged);
	assert_int_equal(cudaPointerGetAttributes(&a, &local), cudaSuccess);
	assert_int_equal(a.type, cudaMemoryTypeUnregistered);
	assert_int_equal(free_bytes(),
			 BESIDE - 4 * MIB); /* pinned and managed memory is the host's */
	CUdeviceptr base;
	size_t size;
	assert_int_equal(cuMemGetAddressRange(&base, &size, (CUdeviceptr)(device + MIB)),
			 CUDA_SUCCESS);
	assert_int_equal(base, (CUdeviceptr)device);
	assert_int_equal(size, 3 * MIB);
	assert_int_equal(cudaFreeHost(pinned), cudaSuccess);
	assert_int_equal(cudaFreeHost(pinned), cudaErrorInvalidValue);
	assert_int_equal(cudaHostRegister(&local, 1, 0), cudaSuccess);
	assert_int_equal(cudaHostRegister(&local, 1, 0), cudaErrorHostMemoryAlreadyRegistered);
	assert_int_equal(cudaHostUnregister(&local), cudaSuccess);
	give(managed);
	give(device);
	cudaGetLastError();
}

/* ---- entry points, properties, captures */

static void entry_points_are_the_librarys_own(void **state)
{
	(void)state;
	void *by_name = NULL;
	CUdriverProcAddressQueryResult found;
	assert_int_equal(cuGetProcAddress("cuMemAlloc", &by_name, 13000, 0, &found), CUDA_SUCCESS);
	assert_ptr_equal(by_name, (void *)cuMemAlloc_v2);
	assert_int_equal(cuGetProcAddress("cuGetProcAddress", &by_name, 12000, 0, &found),
			 CUDA_SUCCESS);
	assert_ptr_equal(by_name, (void *)cuGetProcAddress_v2);
	assert_int_equal(cuGetProcAddress("cuNoSuchThing", &by_name, 13000, 0, &found),
			 CUDA_ERROR_NOT_FOUND);
	assert_null(by_name);
}

static void properties_agree(void **state)
{
	(void)state;
	struct cudaDeviceProp prop;
	int value;
	assert_int_equal(cudaGetDeviceProperties(&prop, 1), cudaSuccess);
	assert_string_equal(prop.name, "NVIDIA H100 80GB HBM3");
	assert_int_equal(prop.totalGlobalMem, CONTEXT + BESIDE);
	assert_int_equal(prop.major * 10 + prop.minor, 90);
	assert_int_equal(prop.multiProcessorCount, 132);
	assert_int_equal(prop.pciBusID, 2);
	assert_int_equal(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1),
			 cudaSuccess);
	assert_int_equal(value, 132);
	assert_int_equal(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
			 cudaSuccess);
	assert_int_equal(value, 232448);
}

/* The driver's status 3 is CUDA_ERROR_NOT_INITIALIZED. */
static void the_driver_answers_after_its_start(void **state)
{
	(void)state;
	int devices = -1;
	CUdevice device;
	assert_int_equal(cuDeviceGetCount(&devices), 3);
	assert_int_equal(cuDeviceGet(&device, 0), 3);
	assert_int_equal(cuInit(0), 0);
	assert_int_equal(cuDeviceGetCount(&devices), 0);
	assert_int_equal(devices, 2);
}

/* What PyTorch calls empty: a capture of nothing, not one of a library's work alone. */
static void an_empty_capture_has_no_nodes(void **state)
{
	(void)state;
	cudaStream_t s;
	cudaGraph_t graph;
	size_t nodes = 9;
	int (*library)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "cublasSgemm_v2");
	assert_non_null(library);
	assert_int_equal(cudaStreamCreate(&s), cudaSuccess);
	for (int work = 0; work < 2; work++) {
		assert_int_equal(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal),
				 cudaSuccess);
		if (work)
			assert_int_equal(library(), 0);
		assert_int_equal(cudaStreamEndCapture(s, &graph), cudaSuccess);
		assert_int_equal(cudaGraphGetNodes(graph, NULL, &nodes), cudaSuccess);
		assert_int_equal(nodes, work);
		assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
	}
	assert_int_equal(cudaStreamDestroy(s), cudaSuccess);
}

static void captures_spread_through_events(void **state)
{
	(void)state;
	cudaStream_t a, b;
	cudaEvent_t event;
	enum cudaStreamCaptureStatus status;
	cudaGraph_t graph;
	size_t nodes = 0;
	assert_int_equal(cudaStreamCreate(&a), cudaSuccess);
	assert_int_equal(cudaStreamCreate(&b), cudaSuccess);
	assert_int_equal(cudaEventCreate(&event), cudaSuccess);
	assert_int_equal(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
	assert_int_equal(cudaStreamIsCapturing(b, &status), cudaSuccess);
	assert_int_equal(status, cudaStreamCaptureStatusNone);
	assert_int_equal(cudaEventRecord(event, a), cudaSuccess);
	assert_int_equal(cudaStreamWaitEvent(b, event, 0), cudaSuccess);
	assert_int_equal(cudaStreamIsCapturing(b, &status), cudaSuccess);
	assert_int_equal(status, cudaStreamCaptureStatusActive);
	assert_int_equal(cudaLaunchKernel(&a, (dim3){ 1, 1, 1 }, (dim3){ 1, 1, 1 }, NULL, 0, a),
			 cudaSuccess);
	assert_int_equal(cudaLaunchKernel(&a, (dim3){ 1, 1, 1 }, (dim3){ 1, 1, 1 }, NULL, 0, b),
			 cudaSuccess);
	assert_int_not_equal(cudaStreamEndCapture(b, &graph),
			     cudaSuccess); /* only its origin may end it */
	assert_int_equal(cudaStreamEndCapture(a, &graph), cudaSuccess);
	assert_int_equal(cudaGraphGetNodes(graph, NULL, &nodes), cudaSuccess);
	assert_int_equal(nodes, 2);
	assert_int_equal(cudaStreamIsCapturing(b, &status), cudaSuccess);
	assert_int_equal(status, cudaStreamCaptureStatusNone);
	assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
	assert_int_equal(cudaEventDestroy(event), cudaSuccess);
	assert_int_equal(cudaStreamDestroy(a), cudaSuccess);
	assert_int_equal(cudaStreamDestroy(a), cudaErrorInvalidResourceHandle);
	assert_int_equal(cudaStreamDestroy(b), cudaSuccess);
	cudaGetLastError();
}

/* ---- threads: in any interleaving, nothing is lost and nothing is given out twice */

static void *churn(void *seed) /* NULL, or the failure */
{
	unsigned random = (unsigned)(uintptr_t)seed;
	char *p[16] = { 0 };
	for (int i = 0; i < 4000; i++) {
		int slot = rand_r(&random) % 16;
		if (p[slot] && (*p[slot] != (char)(uintptr_t)seed || cudaFree(p[slot])))
			return (void *)"a block was shared";
		p[slot] = NULL;
		size_t bytes = rand_r(&random) % 2 ? (size_t)(rand_r(&random) % 100000) + 1 : MIB;
		int error = rand_r(&random) % 3 ? cudaMalloc((void **)&p[slot], bytes)
						: cudaMallocAsync((void **)&p[slot], bytes, NULL);
		if (!error)
			*p[slot] = (char)(uintptr_t)seed;
		else
			p[slot] = NULL;
	}
	for (int i = 0; i < 16; i++)
		if (p[i] && cudaFree(p[i]))
			return (void *)"a block was lost";
	return NULL;
}

static void threads_share_the_device(void **state)
{
	(void)state;
	pthread_t threads[4];
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 0; i < 4; i++) {
		void *complaint;
		assert_int_equal(pthread_join(threads[i], &complaint), 0);
		if (complaint)
			fail_msg("%s", (char *)complaint);
	}
	assert_int_equal(cudaDeviceSynchronize(),
			 cudaSuccess); /* the pool gives back what it reserved */
	assert_int_equal(free_bytes(), BESIDE);
}

static void reset_frees_all_but_pools(void **state)
{
	(void)state;
	void *pooled;
	take(10 * MIB);
	take(100);
	assert_int_equal(cudaMallocAsync(&pooled, 100, NULL), cudaSuccess);
	assert_int_equal(cudaDeviceReset(), cudaSuccess);
	assert_int_equal(free_bytes(), BESIDE - 32 * MIB);
	give(pooled);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(free_bytes(), BESIDE);
}

int cublasDotEx(void *handle, int n, const void *x, int xt, int dx, const void *y, int yt, int dy,
		void *result, int type, int execution);

/* The types' numbers are library_types.h's: a product is cleared, and nothing behind it. */
static void a_product_is_as_long_as_its_type(void **state)
{
	(void)state;
	static const struct {
		cudaDataType type;
		size_t bytes;
	} of[] = { { CUDA_R_16BF, 2 }, { CUDA_R_16F, 2 }, { CUDA_R_32F, 4 },
		   { CUDA_R_64F, 8 },  { CUDA_C_32F, 8 }, { CUDA_C_64F, 16 } };
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		unsigned char result[24];
		memset(result, 0xff, sizeof result);
		assert_int_equal(
			cublasDotEx(NULL, 1, NULL, 0, 1, NULL, 0, 1, result, (int)of[i].type, 0),
			0);
		for (size_t at = 0; at < sizeof result; at++)
			assert_int_equal(result[at], at < of[i].bytes ? 0 : 0xff);
	}
}

int main(void)
{
	setenv("CUDASIM_GPU", "h100", 1);
	setenv("CUDASIM_MEMORY", TOTAL, 1);
	setenv("CUDASIM_GPUS", "2", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_driver_answers_after_its_start), /* first: no call came before */
		cmocka_unit_test(a_product_is_as_long_as_its_type),
		cmocka_unit_test(context_is_charged_once_per_device),
		cmocka_unit_test(large_allocations_round_to_granules),
		cmocka_unit_test(small_allocations_share_granules),
		cmocka_unit_test(small_allocations_do_not_straddle),
		cmocka_unit_test(out_of_memory_comes_at_the_byte),
		cmocka_unit_test(wrong_frees_are_refused),
		cmocka_unit_test(nothing_is_a_success),
		cmocka_unit_test(pitched_memory_counts_its_padding),
		cmocka_unit_test(copies_move_small_data_and_fresh_memory_is_zero),
		cmocka_unit_test(pointers_are_known),
		cmocka_unit_test(entry_points_are_the_librarys_own),
		cmocka_unit_test(properties_agree),
		cmocka_unit_test(captures_spread_through_events),
		cmocka_unit_test(an_empty_capture_has_no_nodes),
		cmocka_unit_test(threads_share_the_device),
		cmocka_unit_test(reset_frees_all_but_pools),
	};
	return cmocka_run_group_tests_name("simulated device", tests, NULL, NULL);
}
