/* The runtime API beside memory: devices, peers, streams, events, captures, graphs, symbols and
 * launches. Numbers are those of CUDA's headers and of an H100. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

#define OK(call) assert_int_equal(call, cudaSuccess)
/* The call fails with ERROR, which is the last error until it is asked for. */
#define FAILS(call, error)                                      \
	do {                                                    \
		assert_int_equal(call, error);                  \
		assert_int_equal(cudaPeekAtLastError(), error); \
		assert_int_equal(cudaGetLastError(), error);    \
		OK(cudaGetLastError());                         \
	} while (0)

/* What nvcc's code calls, and a name of CUDA 12; today's headers do not declare them. */
cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t begin, cudaEvent_t end);
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int external,
		       size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name,
			      int external, size_t size, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
			       size_t shared, cudaStream_t stream);

static void devices_are_chosen(void **state)
{
	char id[32];
	int device = 9, least = 9, greatest = 9, value = 9;
	unsigned flags = 9;
	size_t limit = 0;

	(void)state;
	OK(cudaGetDeviceCount(&device));
	assert_int_equal(device, 2);
	OK(cudaInitDevice(1, 0, 0));
	OK(cudaSetDevice(1));
	OK(cudaGetDevice(&device));
	assert_int_equal(device, 1);
	OK(cudaSetDevice(0));
	FAILS(cudaSetDevice(2), cudaErrorInvalidDevice);
	FAILS(cudaInitDevice(-1, 0, 0), cudaErrorInvalidDevice);
	OK(cudaGetDeviceFlags(&flags));
	assert_int_equal(flags, cudaDeviceScheduleAuto);
	OK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
	assert_string_equal(id, "0000:02:00.0");
	FAILS(cudaDeviceGetPCIBusId(id, sizeof id, 2), cudaErrorInvalidDevice);
	OK(cudaDeviceGetByPCIBusId(&device, "0000:02:00.0"));
	assert_int_equal(device, 1);
	FAILS(cudaDeviceGetByPCIBusId(&device, "0000:09:00.0"), cudaErrorInvalidValue);
	FAILS(cudaDeviceGetByPCIBusId(&device, "two"), cudaErrorInvalidValue);
	OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	assert_true(least == 0 && greatest == -5);
	OK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
	assert_int_equal(limit, 8 << 20);
	OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
	assert_int_equal(value, 132);
	FAILS(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 3), cudaErrorInvalidDevice);
}

static void peers_are_enabled_once(void **state)
{
	int can = 9;

	(void)state;
	OK(cudaDeviceCanAccessPeer(&can, 0, 1));
	assert_int_equal(can, 1);
	OK(cudaDeviceCanAccessPeer(&can, 0, 0));
	assert_int_equal(can, 0);
	FAILS(cudaDeviceCanAccessPeer(&can, 0, 2), cudaErrorInvalidDevice);
	FAILS(cudaDeviceCanAccessPeer(&can, 2, 0), cudaErrorInvalidDevice);
	FAILS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
	OK(cudaDeviceEnablePeerAccess(1, 0));
	FAILS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
	OK(cudaDeviceDisablePeerAccess(1));
	FAILS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
	FAILS(cudaDeviceDisablePeerAccess(2), cudaErrorInvalidDevice);
	FAILS(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
	OK(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, 1));
	assert_int_equal(can, 1);
	OK(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrPerformanceRank, 0, 1));
	assert_int_equal(can, 0);
}

static void count(void *number)
{
	++*(int *)number;
}

static void called(cudaStream_t stream, cudaError_t status, void *number)
{
	*(int *)number += stream && status == cudaSuccess ? 10 : 1000;
}

static void streams_and_events_answer(void **state)
{
	cudaStream_t stream;
	cudaEvent_t begin, end;
	unsigned long long id = 0, other = 0;
	unsigned flags = 9;
	int number = 0, device = 9, priority = 9;
	float ms = -1;

	(void)state;
	OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -2));
	OK(cudaStreamGetPriority(stream, &priority));
	assert_int_equal(priority, -2);
	OK(cudaStreamGetFlags(stream, &flags));
	assert_int_equal(flags, cudaStreamNonBlocking);
	OK(cudaStreamGetDevice(stream, &device));
	assert_int_equal(device, 0);
	OK(cudaStreamGetId(stream, &id));
	OK(cudaStreamGetId(NULL, &other));
	assert_true(id != other);
	OK(cudaLaunchHostFunc(stream, count, &number));
	OK(cudaStreamAddCallback(stream, called, &number, 0));
	OK(cudaStreamSynchronize(stream));
	assert_int_equal(number, 11);
	OK(cudaEventCreate(&begin));
	OK(cudaEventCreateWithFlags(&end, cudaEventDefault));
	FAILS(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle);
	OK(cudaEventRecord(begin, stream));
	OK(cudaEventRecordWithFlags(end, stream, cudaEventRecordDefault));
	OK(cudaStreamWaitEvent(NULL, end, 0));
	OK(cudaEventSynchronize(end));
	OK(cudaEventQuery(end));
	OK(cudaEventElapsedTime(&ms, begin, end));
	assert_true(ms >= 0);
	OK(cudaEventElapsedTime_v2(&ms, begin, end));
	OK(cudaStreamQuery(stream));
	OK(cudaEventDestroy(begin));
	OK(cudaEventDestroy(end));
	OK(cudaStreamDestroy(stream));
	FAILS(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
}

static void captures_become_graphs(void **state)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	enum cudaStreamCaptureStatus status;
	enum cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
	cudaGraphNode_t nodes[4];
	cudaGraphExec_t exec;
	cudaGraph_t graph, empty;
	cudaStream_t stream;
	size_t nodes_count = 0;
	int called_now = 0;

	(void)state;
	OK(cudaThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, cudaStreamCaptureModeGlobal);
	OK(cudaThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, cudaStreamCaptureModeRelaxed);
	OK(cudaStreamCreate(&stream));
	OK(cudaStreamIsCapturing(stream, &status));
	assert_int_equal(status, cudaStreamCaptureStatusNone);
	FAILS(cudaStreamEndCapture(stream, &graph), (cudaError_t)901);
	FAILS(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal),
	      cudaErrorStreamCaptureUnsupported);
	OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	OK(cudaStreamIsCapturing(stream, &status));
	assert_int_equal(status, cudaStreamCaptureStatusActive);
	OK(cudaLaunchKernel((void *)count, (dim3){ 1, 1, 1 }, (dim3){ 32, 1, 1 }, NULL, 0, stream));
	OK(cudaLaunchHostFunc(stream, count, &called_now));
	OK(cudaStreamEndCapture(stream, &graph));
	assert_int_equal(called_now, 0); /* a captured function runs with the graph */
	OK(cudaGraphGetNodes(graph, NULL, &nodes_count));
	assert_int_equal(nodes_count, 2);
	OK(cudaGraphGetNodes(graph, nodes, &nodes_count));
	assert_ptr_not_equal(nodes[0], nodes[1]);
	OK(cudaGraphNodeGetType(nodes[0], &type));
	assert_int_equal(type, cudaGraphNodeTypeKernel);
	OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cudaGraphLaunch(exec, stream));
	OK(cudaStreamSynchronize(stream));
	OK(cudaGraphExecDestroy(exec));
	FAILS(cudaGraphExecDestroy(NULL), cudaErrorInvalidValue);
	FAILS(cudaGraphLaunch(NULL, stream), cudaErrorInvalidValue);
	OK(cudaGraphDestroy(graph));
	OK(cudaGraphCreate(&empty, 0));
	OK(cudaGraphGetRootNodes(empty, NULL, &nodes_count));
	assert_int_equal(nodes_count, 0);
	OK(cudaGraphDestroy(empty));
	FAILS(cudaGraphDestroy(NULL), cudaErrorInvalidValue);
	OK(cudaStreamDestroy(stream));
}

/* The last reference destroys the object: the graph's own if it was given, also the maker's if it
 * was shared. */
static void graphs_keep_objects(void **state)
{
	cudaGraph_t graph;
	cudaUserObject_t given, shared;
	int destroyed = 0;

	(void)state;
	OK(cudaGraphCreate(&graph, 0));
	OK(cudaUserObjectCreate(&given, &destroyed, count, 1, cudaUserObjectNoDestructorSync));
	OK(cudaGraphRetainUserObject(graph, given, 1, cudaGraphUserObjectMove));
	OK(cudaUserObjectCreate(&shared, &destroyed, count, 2, cudaUserObjectNoDestructorSync));
	OK(cudaGraphRetainUserObject(graph, shared, 1, 0));
	OK(cudaUserObjectRelease(shared, 1));
	assert_int_equal(destroyed, 0);
	OK(cudaGraphDestroy(graph));
	assert_int_equal(destroyed, 1);
	OK(cudaUserObjectRelease(shared, 1));
	assert_int_equal(destroyed, 2);
	OK(cudaGraphCreate(&graph, 0));
	FAILS(cudaGraphRetainUserObject(graph, NULL, 1, 0), cudaErrorInvalidValue);
	FAILS(cudaGraphRetainUserObject(NULL, NULL, 1, 0), cudaErrorInvalidValue);
	FAILS(cudaUserObjectRelease(NULL, 1), cudaErrorInvalidValue);
	OK(cudaGraphDestroy(graph));
}

static void symbols_have_one_address_for_each_device(void **state)
{
	static char variable, managed, unknown;
	const int in = 4711;
	void *address, *again, *other, **binary = __cudaRegisterFatBinary(NULL);
	struct cudaPointerAttributes attributes;
	size_t size = 0;
	int out = 0;

	(void)state;
	assert_int_equal(__cudaInitModule(binary), 1);
	__cudaRegisterVar(binary, &variable, NULL, "variable", 0, 100, 0, 0);
	__cudaRegisterManagedVar(binary, (void **)&managed, NULL, "managed", 0, 0, 0, 0);
	__cudaRegisterFatBinaryEnd(binary);
	OK(cudaGetSymbolSize(&size, &variable));
	assert_int_equal(size, 100);
	OK(cudaGetSymbolAddress(&address, &variable));
	OK(cudaGetSymbolAddress(&again, &variable));
	assert_ptr_equal(address, again);
	OK(cudaSetDevice(1));
	OK(cudaGetSymbolAddress(&other, &variable));
	assert_ptr_not_equal(address, other);
	OK(cudaSetDevice(0));
	OK(cudaMemcpyToSymbol(&variable, &in, sizeof in, 96, cudaMemcpyHostToDevice));
	OK(cudaMemcpyFromSymbol(&out, &variable, sizeof out, 96, cudaMemcpyDeviceToHost));
	assert_int_equal(out, 4711);
	FAILS(cudaGetSymbolAddress(&address, &unknown), cudaErrorInvalidSymbol);
	FAILS(cudaGetSymbolSize(&size, &unknown), cudaErrorInvalidSymbol);
	FAILS(cudaMemcpyToSymbol(&unknown, &in, 4, 0, cudaMemcpyHostToDevice),
	      cudaErrorInvalidSymbol);
	FAILS(cudaMemcpyFromSymbol(&out, &unknown, 4, 0, cudaMemcpyDeviceToHost),
	      cudaErrorInvalidSymbol);
	OK(cudaDeviceReset()); /* variables are there again after a reset */
	OK(cudaGetSymbolAddress(&address, &variable));
	OK(cudaPointerGetAttributes(&attributes, address));
	assert_int_equal(attributes.type, cudaMemoryTypeDevice);
	OK(cudaMemcpyToSymbol(&variable, &in, sizeof in, 0, cudaMemcpyHostToDevice));
	__cudaUnregisterFatBinary(binary);
}

static void launches_pass_their_configuration(void **state)
{
	const cudaLaunchConfig_t config = { .gridDim = { 2, 1, 1 }, .blockDim = { 64, 1, 1 } };
	struct cudaFuncAttributes attributes;
	cudaLibrary_t library, file;
	cudaFunction_t function;
	cudaKernel_t kernel;
	cudaStream_t stream, back;
	dim3 grid, block;
	size_t shared;
	int value = 0;

	(void)state;
	OK(cudaStreamCreate(&stream));
	assert_int_equal(
		__cudaPushCallConfiguration((dim3){ 3, 2, 1 }, (dim3){ 64, 1, 1 }, 77, stream), 0);
	OK(__cudaPopCallConfiguration(&grid, &block, &shared, &back));
	assert_true(grid.x == 3 && grid.y == 2 && grid.z == 1 && block.x == 64 && shared == 77 &&
		    back == stream);
	OK(__cudaGetKernel(&kernel, (void *)count));
	OK(__cudaLaunchKernel(kernel, grid, block, NULL, 0, stream));
	OK(cudaLaunchCooperativeKernel((void *)count, grid, block, NULL, 0, stream));
	OK(cudaLaunchKernelExC(&config, (void *)count, NULL));
	OK(cudaFuncGetAttributes(&attributes, (void *)count));
	assert_true(attributes.maxThreadsPerBlock == 1024 && attributes.binaryVersion == 90);
	OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, (void *)count, 1024, 0));
	assert_int_equal(value, 2);
	OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, (void *)count, 1024, 0,
								  0));
	assert_int_equal(value, 2);
	OK(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, (void *)count, 2, 128));
	assert_int_equal(shared,
			 227 * 1024 / 2); /* of the 227 KiB that blocks of an H100 may have */
	OK(cudaOccupancyMaxPotentialClusterSize(&value, (void *)count, &config));
	assert_int_equal(value, 8); /* the largest portable size */
	OK(cudaOccupancyMaxActiveClusters(&value, (void *)count, &config));
	assert_true(value > 0);
	OK(cudaGetFuncBySymbol(&function, (void *)count));
	OK(cudaGetKernel(&kernel, (void *)count));
	OK(cudaLibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0));
	OK(cudaLibraryLoadFromFile(&file, "a.cubin", NULL, NULL, 0, NULL, NULL, 0));
	assert_ptr_not_equal(library, file);
	OK(cudaLibraryGetKernel(&kernel, library, "f"));
	OK(cudaStreamDestroy(stream));
}

static void rows_are_copied_apart(void **state)
{
	const char from[2][8] = { "first--", "second-" };
	char to[2][4] = { "...", "..." };
	void *device, *pinned, *mapped;
	unsigned flags = 0;

	(void)state;
	OK(cudaMalloc(&device, 4096));
	OK(cudaMemset(device, 0, 4096));
	OK(cudaMemcpy2D(device, 512, from, 8, 8, 2, cudaMemcpyHostToDevice));
	OK(cudaMemcpy2DAsync(to, 4, device, 512, 3, 2, cudaMemcpyDeviceToHost, NULL));
	assert_string_equal(to[0], "fir");
	assert_string_equal(to[1], "sec");
	OK(cudaMemset2DAsync(device, 512, 'x', 2, 2, NULL));
	OK(cudaMemcpyPeer((char *)device + 1024, 0, device, 0, 1024));
	OK(cudaMemcpyPeerAsync((char *)device + 2048, 0, (char *)device + 1024, 0, 1024, NULL));
	OK(cudaMemcpy2D(to, 4, (char *)device + 2048, 512, 3, 2, cudaMemcpyDeviceToHost));
	assert_string_equal(to[0], "xxr");
	assert_string_equal(to[1], "xxc");
	OK(cudaHostAlloc(&pinned, 64, cudaHostAllocDefault));
	OK(cudaHostGetDevicePointer(&mapped, pinned, 0));
	assert_ptr_equal(mapped, pinned); /* unified addressing */
	OK(cudaHostGetFlags(&flags, pinned));
	assert_true(flags & cudaHostAllocMapped);
	OK(cudaFreeHost(pinned));
	FAILS(cudaHostGetDevicePointer(&mapped, to, 0), cudaErrorInvalidValue);
	OK(cudaFree(device));
}

/* The variables of modules live as long as the process. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

int main(void)
{
	setenv("CUDASIM_GPU", "H100-80GB", 1);
	setenv("CUDASIM_GPUS", "2", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_are_chosen),
		cmocka_unit_test(peers_are_enabled_once),
		cmocka_unit_test(streams_and_events_answer),
		cmocka_unit_test(captures_become_graphs),
		cmocka_unit_test(graphs_keep_objects),
		cmocka_unit_test(symbols_have_one_address_for_each_device),
		cmocka_unit_test(launches_pass_their_configuration),
		cmocka_unit_test(rows_are_copied_apart),
	};
	return cmocka_run_group_tests_name("simulated runtime API", tests, NULL, NULL);
}
