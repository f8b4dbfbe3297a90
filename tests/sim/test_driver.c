/* The driver API beside memory that other tests cover: errors, devices, contexts, code, pointers,
 * fills, streams and events. Codes and names are those of cuda.h, texts those of the driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#define MIB ((size_t)1 << 20)

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

/* 1 if a GPU would have the same bytes; they are copied to TO. */
int cudasim_copy(void *to, const void *from, size_t bytes);
void cudasim_forget(const void *at, size_t bytes, const char *cause);

static CUdeviceptr take(size_t bytes)
{
	CUdeviceptr p = 0;
	OK(cuMemAlloc(&p, bytes));
	return p;
}

static void errors_have_names(void **state)
{
#define ROW(driver, runtime, number, text)                       \
	{                                                        \
		driver, runtime, number, #driver, #runtime, text \
	}
	static const struct {
		CUresult driver;
		cudaError_t runtime;
		int number;
		const char *driver_name, *runtime_name, *text;
	} rows[] = {
		ROW(CUDA_SUCCESS, cudaSuccess, 0, "no error"),
		ROW(CUDA_ERROR_INVALID_VALUE, cudaErrorInvalidValue, 1, "invalid argument"),
		ROW(CUDA_ERROR_OUT_OF_MEMORY, cudaErrorMemoryAllocation, 2, "out of memory"),
		ROW(CUDA_ERROR_NOT_INITIALIZED, cudaErrorInitializationError, 3,
		    "initialization error"),
		ROW(CUDA_ERROR_NO_DEVICE, cudaErrorNoDevice, 100,
		    "no CUDA-capable device is detected"),
		ROW(CUDA_ERROR_INVALID_DEVICE, cudaErrorInvalidDevice, 101,
		    "invalid device ordinal"),
		ROW(CUDA_ERROR_INVALID_CONTEXT, cudaErrorDeviceUninitialized, 201,
		    "invalid device context"),
		ROW(CUDA_ERROR_INVALID_HANDLE, cudaErrorInvalidResourceHandle, 400,
		    "invalid resource handle"),
		ROW(CUDA_ERROR_NOT_READY, cudaErrorNotReady, 600, "device not ready"),
		ROW(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cudaErrorHostMemoryAlreadyRegistered,
		    712, "part or all of the requested memory range is already mapped"),
		ROW(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cudaErrorHostMemoryNotRegistered, 713,
		    "pointer does not correspond to a registered memory region"),
		ROW(CUDA_ERROR_NOT_SUPPORTED, cudaErrorNotSupported, 801,
		    "operation not supported"),
		ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cudaErrorStreamCaptureUnsupported, 900,
		    "operation not permitted when stream is capturing"),
	};
	const char *text;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(rows[i].driver, rows[i].number);
		assert_int_equal(rows[i].runtime, rows[i].number);
		OK(cuGetErrorName(rows[i].driver, &text));
		assert_string_equal(text, rows[i].driver_name);
		OK(cuGetErrorString(rows[i].driver, &text));
		assert_string_equal(text, rows[i].text);
		assert_string_equal(cudaGetErrorName(rows[i].runtime), rows[i].runtime_name);
		assert_string_equal(cudaGetErrorString(rows[i].runtime), rows[i].text);
	}
	assert_string_equal(cudaGetErrorName(cudaErrorInvalidSymbol), "cudaErrorInvalidSymbol");
	assert_string_equal(cudaGetErrorString(cudaErrorInvalidSymbol), "invalid device symbol");
	assert_int_equal(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
	assert_int_equal(cuGetErrorString((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
	assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
	assert_string_equal(cudaGetErrorString((cudaError_t)12345), "unrecognized error code");
}

static void devices_are_described(void **state)
{
	char text[64];
	CUuuid uuid;
	CUdevice device = 9;
	int count = 0, value = 0;
	size_t bytes = 0;

	(void)state;
	OK(cuDeviceGetCount(&count));
	assert_int_equal(count, 2);
	OK(cuDeviceGet(&device, 1));
	assert_int_equal(device, 1);
	assert_int_equal(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
	OK(cuDeviceGetName(text, sizeof text, 0));
	assert_string_equal(text, "NVIDIA H100 80GB HBM3");
	OK(cuDeviceTotalMem(&bytes, 0));
	assert_int_equal(bytes, 4096 * MIB);
	assert_int_equal(cuDeviceTotalMem(&bytes, 2), CUDA_ERROR_INVALID_DEVICE);
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	assert_int_equal(value, 9);
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	assert_int_equal(value, 32);
	OK(cuDeviceGetPCIBusId(text, sizeof text, 1));
	assert_string_equal(text, "0000:02:00.0");
	OK(cuDeviceGetUuid(&uuid, 1));
	assert_memory_equal(uuid.bytes, "cudasim\0\0\0\0\0\0\0\0\1", 16);
	OK(cuDeviceCanAccessPeer(&value, 0, 1));
	assert_int_equal(value, 1);
	OK(cuDeviceCanAccessPeer(&value, 1, 1));
	assert_int_equal(value, 0);
	assert_int_equal(cuDeviceCanAccessPeer(&value, 0, 5), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceCanAccessPeer(&value, 5, 0), CUDA_ERROR_INVALID_DEVICE);
}

static void contexts_are_a_stack(void **state)
{
	CUcontext first, second, now;
	CUdevice device = 9;
	unsigned flags = 9, version = 0;
	int active = 9, least = 9, greatest = 9;
	size_t limit = 9;

	(void)state;
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	assert_true(flags == 0 && active == 0);
	OK(cuDevicePrimaryCtxRetain(&first, 0));
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	assert_true(active == 1);
	assert_ptr_not_equal(first, second);
	assert_int_equal(cuDevicePrimaryCtxRetain(&now, 2), CUDA_ERROR_INVALID_DEVICE);
	assert_null(now);
	OK(cuCtxSetCurrent(first));
	OK(cuCtxPushCurrent(second));
	OK(cuCtxGetDevice(&device));
	assert_int_equal(device, 1);
	OK(cuCtxGetCurrent(&now));
	assert_ptr_equal(now, second);
	OK(cuCtxPopCurrent(&now));
	assert_ptr_equal(now, second);
	OK(cuCtxGetDevice(&device));
	assert_int_equal(device, 0);
	assert_int_equal(cuCtxPopCurrent(NULL), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxPushCurrent((CUcontext)&now), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxSetCurrent((CUcontext)&now), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSynchronize());
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	assert_true(least == 0 && greatest == -5); /* as on every GPU since Volta */
	OK(cuCtxGetStreamPriorityRange(NULL, NULL));
	OK(cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
	assert_int_equal(limit, 8 * MIB); /* CUDA C++ Programming Guide */
	OK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
	assert_int_equal(limit, 1024);
	OK(cuCtxGetLimit(&limit, CU_LIMIT_PRINTF_FIFO_SIZE));
	assert_int_equal(limit, MIB);
	OK(cuCtxGetApiVersion(first, &version));
	assert_int_equal(version, 3020);
}

static void *attribute(CUpointer_attribute what, CUdeviceptr address)
{
	static union {
		void *pointer;
		uint64_t word;
		unsigned number;
	} out;
	out.word = 0;
	OK(cuPointerGetAttribute(&out, what, address));
	return out.pointer;
}

static void pointers_have_attributes(void **state)
{
	CUdeviceptr managed, device = take(3 * MIB), base, inside = device + MIB;
	CUcontext context;
	void *host;
	size_t size;

	(void)state;
	OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAllocHost(&host, 4096));
	OK(cuCtxGetCurrent(&context));
#define IS(what, address, value) \
	assert_int_equal((uintptr_t)attribute(CU_POINTER_ATTRIBUTE_##what, address), value)
	IS(CONTEXT, inside, (uintptr_t)context);
	IS(MEMORY_TYPE, inside, CU_MEMORYTYPE_DEVICE);
	IS(MEMORY_TYPE, (CUdeviceptr)host, CU_MEMORYTYPE_HOST);
	IS(DEVICE_POINTER, inside, inside);
	IS(HOST_POINTER, (CUdeviceptr)host, (uintptr_t)host);
	IS(RANGE_START_ADDR, inside, device);
	IS(RANGE_SIZE, inside, 3 * MIB);
	IS(DEVICE_ORDINAL, inside, 0);
	IS(IS_MANAGED, inside, 0);
	IS(IS_MANAGED, managed, 1);
	IS(MAPPED, inside, 1);
	IS(SYNC_MEMOPS, inside, 0);
	assert_true(attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, device) ==
		    attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, inside));
	assert_int_equal(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_CONTEXT, 4096),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, inside),
			 CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemGetAddressRange(&base, &size, inside));
	assert_true(base == device && size == 3 * MIB);
	OK(cuMemHostGetDevicePointer(&base, host, 0));
	assert_int_equal(base, (uintptr_t)host);
	assert_int_equal(cuMemHostGetDevicePointer(&base, &size, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeHost(host));
	assert_int_equal(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(managed));
	OK(cuMemFree(device));
}

static void host_memory_is_registered_once(void **state)
{
	static char page[4096];
	CUdeviceptr address;

	(void)state;
	OK(cuMemHostRegister(page, sizeof page, 0));
	assert_int_equal(cuMemHostRegister(page, sizeof page, 0),
			 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	OK(cuMemHostGetDevicePointer(&address, page + 100, 0));
	OK(cuMemHostUnregister(page));
	assert_int_equal(cuMemHostUnregister(page), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/* 512 is the pitch's unit; 3 rows of 700 bytes take 3 * 1024. */
static void pitches_are_rounded(void **state)
{
	CUdeviceptr p, base;
	size_t pitch, size;

	(void)state;
	OK(cuMemAllocPitch(&p, &pitch, 700, 3, 4));
	assert_int_equal(pitch, 1024);
	OK(cuMemGetAddressRange(&base, &size, p));
	assert_int_equal(size, 3072);
	OK(cuMemFree(p));
	assert_int_equal(cuMemAllocPitch(&p, &pitch, SIZE_MAX / 2, 3, 4), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
}

static void copies_move_bytes(void **state)
{
	static const char text[16] = "from the host";
	char back[16] = { 0 };
	CUdeviceptr a = take(256), b = take(256);

	(void)state;
	OK(cuMemcpyHtoD(a, text, 16));
	OK(cuMemcpyDtoD(b, a, 16));
	OK(cuMemcpyDtoH(back, b, 16));
	assert_memory_equal(back, text, 16);
	OK(cuMemcpyHtoDAsync(a + 16, text, 16, NULL));
	OK(cuMemcpyDtoDAsync(b + 16, a + 16, 16, NULL));
	OK(cuMemcpy(a + 32, b + 16, 16));
	OK(cuMemcpyAsync(b + 32, a + 32, 16, NULL));
	memset(back, 0, sizeof back);
	OK(cuMemcpyDtoHAsync(back, b + 32, 16, NULL));
	OK(cuCtxSynchronize());
	assert_memory_equal(back, text, 16);
	OK(cuMemFree(a));
	OK(cuMemFree(b));
}

/* What a fill writes is known, whatever was there; large patterns of several bytes too. */
static void fills_are_known(void **state)
{
	static unsigned char back[2 * MIB];
	CUdeviceptr p = take(sizeof back);
	const unsigned word = 0x01020304;

	(void)state;
	cudasim_forget((void *)p, sizeof back, "a kernel");
	assert_int_equal(cudasim_copy(back, (void *)p, 4), 0);
	OK(cuMemsetD32(p, word, sizeof back / 4));
	assert_int_equal(cudasim_copy(back, (void *)p, sizeof back), 1);
	for (size_t i = 0; i < sizeof back; i += 4)
		assert_memory_equal(back + i, &word, 4);
	cudasim_forget((void *)p, 64, "a kernel");
	OK(cuMemsetD16(p, 0xabcd, 32));
	assert_int_equal(cudasim_copy(back, (void *)p, 64), 1);
	assert_true(back[0] == 0xcd && back[1] == 0xab && back[62] == 0xcd && back[63] == 0xab);
	OK(cuMemsetD8(p, 0x7f, 3));
	OK(cuMemsetD8Async(p + 4, 0, 2, NULL));
	OK(cuMemsetD16Async(p + 8, 0x1234, 1, NULL));
	OK(cuMemsetD32Async(p + 12, 0, 1, NULL));
	OK(cuMemcpyDtoH(back, p, 17));
	assert_memory_equal(back, "\x7f\x7f\x7f\xab\0\0\xcd\xab\x34\x12\xcd\xab\0\0\0\0\xcd", 17);
	OK(cuMemFree(p));
}

/* Larger than 64 MiB, a pattern is not kept, and who reads it is told. */
static void large_fills_are_unknown(void **state)
{
	char back[4];
	CUdeviceptr p = take(65 * MIB);

	(void)state;
	assert_int_equal(cudasim_copy(back, (void *)p, 4), 1);
	OK(cuMemsetD32(p, 0x01020304, 65 * MIB / 4));
	assert_int_equal(cudasim_copy(back, (void *)p, 4), 0);
	OK(cuMemsetD32(p, 0, 65 * MIB / 4));
	assert_int_equal(cudasim_copy(back, (void *)p, 4), 1);
	OK(cuMemFree(p));
}

static void count(void *number)
{
	++*(int *)number;
}

static void code_is_loaded_and_launched(void **state)
{
	CUmodule modules[4];
	CUfunction function, other;
	CUlibrary library;
	CUkernel kernel;
	CUlogsCallbackHandle log;
	CUlaunchConfig config = { .gridDimX = 2,
				  .gridDimY = 1,
				  .gridDimZ = 1,
				  .blockDimX = 32,
				  .blockDimY = 1,
				  .blockDimZ = 1 };
	int value = 0, called = 0;

	(void)state;
	OK(cuModuleLoad(&modules[0], "a.cubin"));
	OK(cuModuleLoadData(&modules[1], ""));
	OK(cuModuleLoadDataEx(&modules[2], "", 0, NULL, NULL));
	OK(cuModuleLoadFatBinary(&modules[3], ""));
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(modules[i], modules[j]);
	OK(cuModuleGetFunction(&function, modules[0], "f"));
	OK(cuLibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "k"));
	OK(cuKernelGetFunction(&other, kernel));
	assert_ptr_not_equal(function, other);
	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
	assert_int_equal(value, 1024); /* of every compute capability since 2.0 */
	OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel, 0));
	assert_int_equal(value, 0);
	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
	assert_in_range(value, 1, 255);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 1024, 0));
	assert_int_equal(value, 2); /* 2048 threads */
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, function, 1024, 0, 0));
	assert_int_equal(value, 2);
	OK(cuOccupancyMaxActiveClusters(&value, function, &config));
	assert_true(value > 0);
	OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	OK(cuLaunchKernelEx(&config, function, NULL, NULL));
	OK(cuLaunchCooperativeKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL));
	OK(cuLaunchHostFunc(NULL, count, &called));
	OK(cuCtxSynchronize());
	assert_int_equal(called, 1);
	OK(cuLogsRegisterCallback(NULL, NULL, &log));
	assert_non_null(log);
}

static void streams_and_events_have_their_life(void **state)
{
	CUstream plain, urgent;
	CUevent event;
	CUcontext context, own;
	CUstreamCaptureStatus capture;
	unsigned flags = 9;
	int priority = 9;

	(void)state;
	OK(cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreateWithPriority(&urgent, CU_STREAM_DEFAULT, -3));
	OK(cuStreamGetFlags(plain, &flags));
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	OK(cuStreamGetPriority(urgent, &priority));
	assert_int_equal(priority, -3);
	OK(cuCtxGetCurrent(&context));
	OK(cuStreamGetCtx(urgent, &own));
	assert_ptr_equal(own, context);
	OK(cuStreamIsCapturing(plain, &capture));
	assert_int_equal(capture, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_int_equal(cudaStreamBeginCapture((cudaStream_t)plain, cudaStreamCaptureModeRelaxed),
			 cudaSuccess);
	OK(cuStreamIsCapturing(plain, &capture));
	assert_int_equal(capture, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	cudaGraph_t graph;
	assert_int_equal(cudaStreamEndCapture((cudaStream_t)plain, &graph), cudaSuccess);
	assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuEventQuery(event)); /* not recorded: complete */
	OK(cuEventRecord(event, urgent));
	OK(cuStreamWaitEvent(plain, event, 0));
	OK(cuEventSynchronize(event));
	OK(cuEventQuery(event));
	OK(cuStreamSynchronize(plain));
	OK(cuStreamQuery(plain));
	OK(cuEventDestroy(event));
	OK(cuStreamDestroy(plain));
	OK(cuStreamDestroy(urgent));
	assert_int_equal(cuStreamDestroy(urgent), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuStreamGetCtx(urgent, &own), CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
	setenv("CUDASIM_GPU", "H100-80GB", 1);
	setenv("CUDASIM_GPUS", "2", 1);
	setenv("CUDASIM_MEMORY", "4GiB", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_have_names),
		cmocka_unit_test(devices_are_described),
		cmocka_unit_test(contexts_are_a_stack),
		cmocka_unit_test(pointers_have_attributes),
		cmocka_unit_test(host_memory_is_registered_once),
		cmocka_unit_test(pitches_are_rounded),
		cmocka_unit_test(copies_move_bytes),
		cmocka_unit_test(fills_are_known),
		cmocka_unit_test(large_fills_are_unknown),
		cmocka_unit_test(code_is_loaded_and_launched),
		cmocka_unit_test(streams_and_events_have_their_life),
	};
	cuInit(0);
	return cmocka_run_group_tests_name("simulated driver API", tests, NULL, NULL);
}
