/* Events that the recorder cannot keep: losses WHAT, each in numbers that the test knows. */
#define _GNU_SOURCE
#include "expect.h"

#include <setjmp.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

CUresult fake_take(size_t bytes);
extern int fake_device_number;
extern void (*fake_leave)(void);
extern int fake_nested;
struct device {
	signed char type, index;
};
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, long bytes, size_t allocated,
							   size_t reserved, struct device device);

#define DO(function, ...) check(#function, (int)function(__VA_ARGS__), 0)

/* 10,000 blocks of 2 MiB, which is what the device gives, 64 at a time. */
static void churn(void)
{
	void *block[64] = { 0 };

	for (int i = 0; i < 10000; i++) {
		void **p = &block[i % 64];
		DO(cudaFree, *p);
		DO(cudaMalloc, p, 2 << 20);
	}
}

/* 10,000 at once. */
static void many(void)
{
	void *p;

	for (int i = 0; i < 10000; i++)
		DO(cudaMalloc, &p, 1 << 20);
}

/* The same of the virtual memory API. */
static void handles(void)
{
	CUmemAllocationProp where = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle h;
	void *p;

	DO(cudaMalloc, &p, 1 << 20);
	for (int i = 0; i < 1000; i++) {
		DO(cuMemCreate, &h, 2 * MiB, &where, 0);
		DO(cuMemRelease, h);
	}
}

/* Memory that the driver takes inside a call is that call's. */
static void nested(void)
{
	CUmemAllocationProp where = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle h;

	fake_nested = 1;
	DO(cuMemCreate, &h, 2 * MiB, &where, 0);
}

/* 130 pools, of which 128 are remembered. */
static void pools(void)
{
	CUmemPoolProps of_device = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool;
	void *p;

	DO(cudaMalloc, &p, 1 << 20);
	for (int i = 0; i < 130; i++)
		DO(cuMemPoolCreate, &pool, &of_device);
}

/* A 17th device has no counters. */
static void devices(void)
{
	void *p;

	DO(cudaMalloc, &p, 1 << 20);
	fake_device_number = 16;
	DO(cudaMalloc, &p, 1 << 20);
	fake_device_number = 0;
	DO(cudaFree, p);
}

static jmp_buf out;

static void leave(void)
{
	fake_leave = NULL;
	longjmp(out, 1);
}

__attribute__((noinline)) static void deeper(int n)
{
	volatile char room[256] = { (char)n };
	void *p;

	if (room[0] > 0)
		deeper(room[0] - 1);
	else
		DO(cudaMalloc, &p, 1 << 20);
	room[0] = 1; /* no tail call */
}

/* A call is left by longjmp(); three more from deeper in the stack count as inside of it, until one
 * that cannot be. */
static void left(void)
{
	void *p;

	DO(cudaMalloc, &p, 1 << 20);
	fake_leave = leave;
	if (!setjmp(out))
		DO(cudaMalloc, &p, 1 << 20);
	for (int i = 0; i < 3; i++)
		deeper(50);
	DO(cudaMalloc, &p, 1 << 20);
}

/* A context's memory that no call shows, right after a sample: the next block that PyTorch reports
 * brings the sample that was not taken. */
static void sample(void)
{
	struct device gpu = { 1, 0 };
	static char block[2];
	void *p;

	DO(cudaMalloc, &p, 32 << 20);
	_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(block, 512, 512, 0, gpu);
	DO(fake_take, 64 << 20);
	DO(cuCtxSetLimit, CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20);
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(block + 1, 512, 1024, 0, gpu);
}

int main(int argc, char **argv)
{
	static const struct family families[] = { { "churn", churn },     { "many", many },
						  { "handles", handles }, { "pools", pools },
						  { "nested", nested },   { "devices", devices },
						  { "left", left },       { "sample", sample } };

	check("cuInit", (int)cuInit(0), 0);
	check("cudaFree", (int)cudaFree(NULL), 0);
	return argc == 2 ? RUN_FAMILY(families, argv[1]) : 2;
}
