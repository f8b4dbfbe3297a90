#define _GNU_SOURCE
#include "cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "file.h"
#include "resolve.h"
#include "tables.h"
#include "text.h"

/* What is asked, typed by the vendor's headers. A function that is not loaded is NULL. */
#define QUESTIONS(X)                           \
	X(cudaGetDevice)                       \
	X(cudaMemGetInfo)                      \
	X(cudaDeviceGetMemPool)                \
	X(cudaMemPoolGetAttribute)             \
	X(cudaGetLastError)                    \
	X(cudaStreamIsCapturing)               \
	X(cudaThreadExchangeStreamCaptureMode) \
	X(cudaRuntimeGetVersion)               \
	X(cudaDriverGetVersion)

static struct {
	int asked;
#define X(name) __typeof__(name) *name;
	QUESTIONS(X)
#undef X
} real;

static void find(void)
{
	if (__atomic_load_n(&real.asked, __ATOMIC_ACQUIRE))
		return;
#define X(name) *(void **)&real.name = resolve(#name);
	QUESTIONS(X)
#undef X
	__atomic_store_n(&real.asked, 1, __ATOMIC_RELEASE);
}

void cuda_forget(void)
{
	real.asked = 0;
}

/* Did the question get an answer? The runtime remembers a failing call; the job must not find ours
 * in its last error. */
static int answered(cudaError_t e)
{
	if (e != cudaSuccess && real.cudaGetLastError)
		(void)real.cudaGetLastError();
	return e == cudaSuccess;
}

int cuda_current_device(void)
{
	int device;

	find();
	return real.cudaGetDevice && answered(real.cudaGetDevice(&device)) ? device : -1;
}

int cuda_memory(uint64_t *free_bytes, uint64_t *total_bytes)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	cudaError_t e;
	size_t f, t;

	find();
	if (!real.cudaMemGetInfo)
		return -1;
	/* In relaxed mode a question cannot spoil a capture that is under way. */
	if (real.cudaThreadExchangeStreamCaptureMode)
		real.cudaThreadExchangeStreamCaptureMode(&mode);
	e = real.cudaMemGetInfo(&f, &t);
	if (real.cudaThreadExchangeStreamCaptureMode)
		real.cudaThreadExchangeStreamCaptureMode(&mode);
	if (!answered(e))
		return -1;
	*free_bytes = f;
	*total_bytes = t;
	return 0;
}

int cuda_is_capturing(void *stream)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

	find();
	return real.cudaStreamIsCapturing &&
	       answered(real.cudaStreamIsCapturing(stream, &status)) &&
	       status != cudaStreamCaptureStatusNone;
}

int cuda_pool(int device, void *pool, uint64_t *used, uint64_t *reserved)
{
	cudaMemPool_t p = pool;

	find();
	if (!real.cudaDeviceGetMemPool || !real.cudaMemPoolGetAttribute ||
	    (!p && !answered(real.cudaDeviceGetMemPool(&p, device))) ||
	    !answered(real.cudaMemPoolGetAttribute(p, cudaMemPoolAttrUsedMemCurrent, used)) ||
	    !answered(real.cudaMemPoolGetAttribute(p, cudaMemPoolAttrReservedMemCurrent, reserved)))
		return -1;
	return 0;
}

int cuda_is_simulated(void)
{
	return resolve("cudasim_version") != NULL;
}

static void describe_devices(void)
{
	__typeof__(cuDeviceGetCount) *count;
	__typeof__(cuDeviceGet) *get;
	__typeof__(cuDeviceGetName) *name;
	int n = 0;

	*(void **)&count = resolve("cuDeviceGetCount");
	*(void **)&get = resolve("cuDeviceGet");
	*(void **)&name = resolve("cuDeviceGetName");
	if (!count || !get || !name || count(&n) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < n && i < MT_MAX_DEVICES; i++) {
		struct text ordinal = { 0 };
		char s[256] = "";
		CUdevice d;
		text_number(&ordinal, (uint64_t)i);
		if (get(&d, i) == CUDA_SUCCESS && name(s, sizeof(s) - 1, d) == CUDA_SUCCESS)
			tables_meta(MT_META_GPU_NAME, ordinal.s, s, strlen(s));
	}
}

/* 13020 -> "13.2"; NCCL counts 2.27.3 as 22703 */
static void describe_version(const char *name, int version, int major, int minor)
{
	struct text t = { 0 };

	text_number(&t, (uint64_t)(version / major));
	text_str(&t, ".");
	text_number(&t, (uint64_t)(version % major / minor));
	if (minor == 100) {
		text_str(&t, ".");
		text_number(&t, (uint64_t)(version % minor));
	}
	tables_meta(MT_META_VERSION, name, t.s, t.n);
}

/* torch/version.py beside torch/lib/libc10.so says which PyTorch this is. */
static void describe_torch(void)
{
	struct text path = { 0 };
	char file[4096], source[4096];
	const char *p, *end;
	long n;

	if (!resolve_module(resolve("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"), file,
			    sizeof(file)))
		return;
	p = strstr(file, "/lib/libc10");
	if (!p)
		return;
	text_bytes(&path, file, (size_t)(p - file));
	text_str(&path, "/version.py");
	n = file_read(path.s, source, sizeof(source) - 1);
	source[n > 0 ? n : 0] = 0;
	p = strstr(source, "__version__ = '");
	if (p && (end = strchr(p += strlen("__version__ = '"), '\'')))
		tables_meta(MT_META_VERSION, "torch", p, (size_t)(end - p));
}

void cuda_describe(void)
{
	int (*nccl)(int *);
	int v;

	find();
	describe_devices();
	if (real.cudaRuntimeGetVersion && real.cudaRuntimeGetVersion(&v) == cudaSuccess)
		describe_version("cuda_runtime", v, 1000, 10);
	if (real.cudaDriverGetVersion && real.cudaDriverGetVersion(&v) == cudaSuccess)
		describe_version("cuda_driver", v, 1000, 10);
	*(void **)&nccl = resolve("ncclGetVersion");
	if (nccl && nccl(&v) == 0)
		describe_version("nccl", v, 10000, 100);
	describe_torch();
}
