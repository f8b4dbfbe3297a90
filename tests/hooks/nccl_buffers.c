/* Buffers of NCCL, which the simulated NCCL takes without a call of the driver: recorded as NCCL's
 * calls, once; a buffer that does not fit is a failure. */
#include "expect.h"

int ncclMemAlloc(void **pointer, size_t bytes);
int ncclMemFree(void *pointer);

enum { SUCCESS, CUDA_ERROR, INVALID_ARGUMENT = 4 };

int main(void)
{
	void *own, *a, *b, *none;

	check("cudaMalloc", (int)cudaMalloc(&own, 1 * MiB), SUCCESS);
	event("DEVICE_ALLOC", ADDR(own), 1 * MiB, 0);
	check("ncclMemAlloc", ncclMemAlloc(&a, 3 * MiB), SUCCESS);
	event("DEVICE_ALLOC", ADDR(a), 3 * MiB, 0);
	check("ncclMemAlloc", ncclMemAlloc(&b, 5 * MiB), SUCCESS);
	event("DEVICE_ALLOC", ADDR(b), 5 * MiB, 0);
	check("ncclMemAlloc", ncclMemAlloc(&none, (size_t)1 << 50), CUDA_ERROR);
	event("DEVICE_FAIL", ANY, 1ll << 50, 0);
	check("ncclMemFree", ncclMemFree(a), SUCCESS);
	event("DEVICE_FREE", ADDR(a), -3 * MiB, 0);
	check("ncclMemFree", ncclMemFree(NULL), SUCCESS);
	check("ncclMemFree", ncclMemFree(a), INVALID_ARGUMENT);
	check("ncclMemFree", ncclMemFree(b), SUCCESS);
	event("DEVICE_FREE", ADDR(b), -5 * MiB, 0);
	return failed;
}
