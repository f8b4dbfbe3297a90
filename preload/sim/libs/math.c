/* cuFFT, cuSPARSE, cuSOLVER and CUPTI: handles, and cuFFT's plans. Their other calls have
 * results for the host and are refused in calls.def. */
#include "device/common.h"
#include "device/device.h"
#include "device/handle.h"
#include "device/status.h"

#define NEW(symbol, library)                    \
	EXPORT int symbol(void **handle);       \
	EXPORT int symbol(void **handle)        \
	{                                       \
		*handle = handle_new();         \
		return sim_done(LIB_##library); \
	}
NEW(cusparseCreate, cusparse)
NEW(cusolverDnCreate, cusolver)
NEW(cusolverDnCreateParams, cusolver)

EXPORT const char *cusparseGetErrorString(int status);
EXPORT const char *cusparseGetErrorString(int status)
{
	return status ? "cuSPARSE: see the message of cudasim" : "success";
}

EXPORT int cufftCreate(int *plan);
EXPORT int cufftCreate(int *plan)
{
	static int last;
	*plan = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	return sim_done(LIB_cufft);
}
/* The work area is modelled as 0 bytes. */
EXPORT int cufftXtMakePlanMany(int plan, int rank, long long *n, long long *in, long long in_stride,
			       long long in_dist, int in_type, long long *out, long long out_stride,
			       long long out_dist, int out_type, long long batch, size_t *size,
			       int execution);
EXPORT int cufftXtMakePlanMany(int plan, int rank, long long *n, long long *in, long long in_stride,
			       long long in_dist, int in_type, long long *out, long long out_stride,
			       long long out_dist, int out_type, long long batch, size_t *size,
			       int execution)
{
	(void)plan, (void)rank, (void)n, (void)in, (void)in_stride, (void)in_dist, (void)in_type,
		(void)out;
	(void)out_stride, (void)out_dist, (void)out_type, (void)batch, (void)execution;
	*size = 0;
	return sim_done(LIB_cufft);
}

EXPORT int cuptiGetVersion(uint32_t *version);
EXPORT int cuptiGetVersion(uint32_t *version)
{
	*version = cuda_major() >= 13 ? 130000 : 24;
	return 0;
}
EXPORT int cuptiGetResultString(int result, const char **text);
EXPORT int cuptiGetResultString(int result, const char **text)
{
	*text = result ? "CUPTI is not simulated" : "CUPTI_SUCCESS";
	return 0;
}
