#define _GNU_SOURCE
#include "memory/cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "record/file.h"
#include "symbols/resolve.h"
#include "record/tables.h"
#include "base/text.h"

/*
 * The functions that are asked, typed by the vendor's headers: those of the driver, which every
 * user of CUDA has loaded, with any runtime. A function that is not loaded is NULL.
 */
#define QUESTIONS(X)                    \
	X(cuCtxGetDevice)               \
	X(cuCtxGetCurrent)              \
	X(cuMemGetInfo_v2)              \
	X(cuMemGetAddressRange_v2)      \
	X(cuDeviceGetMemPool)           \
	X(cuDeviceGetGraphMemAttribute) \
	X(cuDevicePrimaryCtxGetState)   \
	X(cuMemPoolGetAttribute)        \
	X(cuStreamIsCapturing)          \
	X(cuDeviceGetDefaultMemPool)    \
	X(cuThreadExchangeStreamCaptureMode)

/* For each library, a function of the copy that calls go to; NULL: none was called yet. */
enum library { RUNTIME, DRIVER, NCCL, LIBRARIES };
static const void *chosen[LIBRARIES];

static struct {
	int asked;
	unsigned long long loaded; /* resolve_loaded() at the last search for the functions */
#define X(name) __typeof__(name) *name;
	QUESTIONS(X)
#undef X
} real;

static void find(void)
{
	unsigned long long loaded;

	if (__atomic_load_n(&real.asked, __ATOMIC_ACQUIRE))
		return;
	/* Without a driver (ROCm, a runtime alone) each search is in vain until a library is
	 * loaded. */
	loaded = resolve_loaded();
	if (loaded == __atomic_load_n(&real.loaded, __ATOMIC_RELAXED))
		return;
#define X(name) *(void **)&real.name = resolve(#name);
	QUESTIONS(X)
#undef X
	__atomic_store_n(&real.loaded, loaded, __ATOMIC_RELAXED);
	__atomic_store_n(&real.asked, real.cuCtxGetDevice != NULL, __ATOMIC_RELEASE);
}

void cuda_forget(void)
{
	real.asked = 0;
	__atomic_store_n(&real.loaded, 0, __ATOMIC_RELAXED);
}

void cuda_uses(const char *symbol, const void *function)
{
	enum library library = strncmp(symbol, "cuda", 4) == 0 ? RUNTIME
			       : strncmp(symbol, "cu", 2) == 0 ? DRIVER
							       : NCCL;
	const void *none = NULL;

	__atomic_compare_exchange_n(&chosen[library], &none, function, 0, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

void cuda_uses_none(void)
{
	for (unsigned i = 0; i < LIBRARIES; i++)
		__atomic_store_n(&chosen[i], NULL, __ATOMIC_RELAXED);
}

static const void *in_use(enum library library)
{
	return __atomic_load_n(&chosen[library], __ATOMIC_RELAXED);
}

int cuda_runtime_device(const void *function)
{
	__typeof__(cudaGetDevice) *get;
	int device;

	*(void **)&get = resolve_beside(function, "cudaGetDevice");
	return get && get(&device) == cudaSuccess ? device : -1;
}

int cuda_current_device(void)
{
	int device;

	find();
	if (!real.cuCtxGetDevice)
		return cuda_runtime_device(in_use(RUNTIME));
	return real.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

void *cuda_current_context(void)
{
	CUcontext context;

	find();
	return real.cuCtxGetCurrent && real.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context
										      : NULL;
}

int cuda_primary_is_gone(int device)
{
	unsigned flags;
	int active;

	find();
	return real.cuDevicePrimaryCtxGetState &&
	       real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && !active;
}

int cuda_memory(uint64_t *free_bytes, uint64_t *total_bytes)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult e;
	size_t f, t;

	find();
	if (!real.cuMemGetInfo_v2)
		return -1;
	/* In relaxed mode a question cannot invalidate a capture that is under way. */
	if (real.cuThreadExchangeStreamCaptureMode)
		real.cuThreadExchangeStreamCaptureMode(&mode);
	e = real.cuMemGetInfo_v2(&f, &t);
	if (real.cuThreadExchangeStreamCaptureMode)
		real.cuThreadExchangeStreamCaptureMode(&mode);
	if (e != CUDA_SUCCESS)
		return -1;
	*free_bytes = f;
	*total_bytes = t;
	return 0;
}

uint64_t cuda_range(uint64_t address)
{
	CUdeviceptr base;
	size_t bytes;

	find();
	return real.cuMemGetAddressRange_v2 &&
			       real.cuMemGetAddressRange_v2(&base, &bytes, address) == CUDA_SUCCESS
		       ? bytes
		       : 0;
}

int cuda_is_capturing(void *stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	find();
	return real.cuStreamIsCapturing &&
	       real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

int cuda_pool(int device, void **pool, uint64_t *used, uint64_t *reserved)
{
	CUmemoryPool p = *pool;

	find();
	if (!real.cuDeviceGetMemPool || !real.cuMemPoolGetAttribute ||
	    (!p && real.cuDeviceGetMemPool(&p, device) != CUDA_SUCCESS) ||
	    real.cuMemPoolGetAttribute(p, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used) != CUDA_SUCCESS ||
	    real.cuMemPoolGetAttribute(p, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, reserved) !=
		    CUDA_SUCCESS)
		return -1;
	*pool = p;
	return 0;
}

unsigned cuda_device_of_pool(void *pool, unsigned otherwise)
{
	CUmemoryPool p;

	find();
	if (!real.cuDeviceGetDefaultMemPool || !real.cuDeviceGetMemPool)
		return otherwise;
	for (int d = 0; d < MT_MAX_DEVICES; d++) {
		if (real.cuDeviceGetDefaultMemPool(&p, d) != CUDA_SUCCESS)
			break;
		if (p == pool || (real.cuDeviceGetMemPool(&p, d) == CUDA_SUCCESS && p == pool))
			return (unsigned)d;
	}
	return otherwise;
}

int cuda_graph_memory(int device, uint64_t *reserved)
{
	find();
	return real.cuDeviceGetGraphMemAttribute &&
			       real.cuDeviceGetGraphMemAttribute(
				       device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, reserved) ==
				       CUDA_SUCCESS
		       ? 0
		       : -1;
}

int cuda_is_simulated(void)
{
	return resolve_anywhere("cudasim_version") != NULL;
}

int cuda_is_simulated_unseen(void)
{
	__typeof__(cuDevicePrimaryCtxGetState) *state;
	int active = 0;
	unsigned flags;

	if (!resolve_before_us("cudasim_version"))
		return 0;
	*(void **)&state = resolve_before_us("cuDevicePrimaryCtxGetState");
	for (int d = 0; state && d < MT_MAX_DEVICES && !active; d++)
		if (state(d, &flags, &active) != CUDA_SUCCESS)
			break;
	return active;
}

/* A UUID as nvidia-smi prints it. */
static void text_uuid(struct short_text *t, const char *prefix, const CUuuid *uuid)
{
	static const char digits[] = "0123456789abcdef";

	text_str(t, prefix);
	for (unsigned i = 0; i < sizeof(uuid->bytes); i++) {
		unsigned char byte = (unsigned char)uuid->bytes[i];
		char hex[2] = { digits[byte >> 4], digits[byte & 15] };
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text_str(t, "-");
		text_bytes(t, hex, 2);
	}
}

/* The older function names the whole GPU, the newer one the instance (MIG) of the GPU that is
 * used. */
__attribute__((noinline)) static void describe_identity(const char *ordinal, CUdevice d)
{
	CUresult (*of_gpu)(CUuuid *, CUdevice), (*of_instance)(CUuuid *, CUdevice);
	__typeof__(cuDeviceGetPCIBusId) *get_pci;
	struct short_text text = { 0 };
	CUuuid gpu, instance;
	char pci[64] = "";
	int knows_gpu;

	*(void **)&of_gpu = resolve("cuDeviceGetUuid");
	*(void **)&of_instance = resolve("cuDeviceGetUuid_v2");
	*(void **)&get_pci = resolve("cuDeviceGetPCIBusId");
	knows_gpu = of_gpu && of_gpu(&gpu, d) == CUDA_SUCCESS;
	if (of_instance && of_instance(&instance, d) == CUDA_SUCCESS)
		text_uuid(&text,
			  knows_gpu && memcmp(&gpu, &instance, sizeof(gpu)) != 0 ? "MIG-" : "GPU-",
			  &instance);
	else if (knows_gpu)
		text_uuid(&text, "GPU-", &gpu);
	if (text.n)
		tables_meta(MT_META_GPU_UUID, ordinal, text.s, text.n);
	if (get_pci && get_pci(pci, sizeof(pci) - 1, d) == CUDA_SUCCESS)
		tables_meta(MT_META_GPU_PCI, ordinal, pci, strlen(pci));
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
		struct short_text ordinal = { 0 };
		static char s[256]; /* on the helper thread alone */
		CUdevice d;
		text_number(&ordinal, (uint64_t)i);
		if (get(&d, i) != CUDA_SUCCESS)
			continue;
		memset(s, 0, sizeof(s));
		if (name(s, sizeof(s) - 1, d) == CUDA_SUCCESS)
			tables_meta(MT_META_GPU_NAME, ordinal.s, s, strlen(s));
		describe_identity(ordinal.s, d);
	}
}

/* 13020 -> "13.2"; NCCL counts 2.27.3 as 22703 */
static void describe_version(const char *name, int version, int major, int minor)
{
	struct short_text t = { 0 };

	text_number(&t, (uint64_t)(version / major));
	text_str(&t, ".");
	text_number(&t, (uint64_t)(version % major / minor));
	if (minor == 100) {
		text_str(&t, ".");
		text_number(&t, (uint64_t)(version % minor));
	}
	tables_meta(MT_META_VERSION, name, t.s, t.n);
}

/* torch/version.py beside torch/lib/libc10.so holds PyTorch's version. On the helper thread
 * alone. */
static void describe_torch(void)
{
	static struct text path;
	static char file[4096], source[4096];
	const char *p, *end;
	long n;

	if (!resolve_module(resolve("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"), file,
			    sizeof(file)))
		return;
	p = strstr(file, "/lib/libc10");
	if (!p)
		return;
	path.n = 0;
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
	static const struct {
		enum library library;
		const char *function, *name;
		int major, minor;
	} versions[] = {
		{ RUNTIME, "cudaRuntimeGetVersion", "cuda_runtime", 1000, 10 },
		{ DRIVER, "cuDriverGetVersion", "cuda_driver", 1000, 10 },
		{ NCCL, "ncclGetVersion", "nccl", 10000, 100 },
	};
	int (*get)(int *);
	void *held;
	int v;

	held = resolve_hold(resolve("cuDeviceGetCount"));
	if (held)
		describe_devices();
	resolve_release(held);
	for (unsigned i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		*(void **)&get = resolve_beside(in_use(versions[i].library), versions[i].function);
		held = resolve_hold((const void *)get);
		if (held && get(&v) == 0)
			describe_version(versions[i].name, v, versions[i].major, versions[i].minor);
		resolve_release(held);
	}
	describe_torch();
}
