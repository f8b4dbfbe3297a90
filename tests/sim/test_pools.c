/* Memory pools and physical memory of the simulated device. Every expected number is worked out by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "beside_context.h"

/* ---- stream-ordered pools */

static uint64_t pool_value(cudaMemPool_t pool, enum cudaMemPoolAttr attribute)
{
	uint64_t value = 0;
	assert_int_equal(cudaMemPoolGetAttribute(pool, attribute, &value), cudaSuccess);
	return value;
}

static void pools_reserve_and_return(void **state)
{
	(void)state;
	cudaMemPool_t pool;
	void *a, *b;
	assert_int_equal(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
	assert_int_equal(cudaMallocAsync(&a, 1000, NULL), cudaSuccess);
	assert_int_equal(pool_value(pool, cudaMemPoolAttrUsedMemCurrent), 1024);
	assert_int_equal(pool_value(pool, cudaMemPoolAttrReservedMemCurrent), 32 * MIB);
	assert_int_equal(free_bytes(), BESIDE - 32 * MIB);
	assert_int_equal(cudaMallocAsync(&b, 32 * MIB, NULL),
			 cudaSuccess); /* with the 1024 it needs a second step */
	assert_int_equal(free_bytes(), 0);
	assert_int_equal(pool_value(pool, cudaMemPoolAttrUsedMemHigh), 32 * MIB + 1024);
	void *c;
	assert_int_equal(cudaMallocAsync(&c, 32 * MIB, NULL), cudaErrorMemoryAllocation);
	assert_int_equal(cudaMalloc(&c, 1), cudaErrorMemoryAllocation);
	assert_int_equal(cudaFreeAsync(b, NULL), cudaSuccess);
	assert_int_equal(free_bytes(), 0); /* reserved still */
	assert_int_equal(pool_value(pool, cudaMemPoolAttrUsedMemCurrent), 1024);
	assert_int_equal(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
	assert_int_equal(free_bytes(), BESIDE - 32 * MIB);
	assert_int_equal(cudaFree(a), cudaSuccess); /* cudaFree may free pool memory too */
	uint64_t keep = UINT64_MAX;
	assert_int_equal(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
			 cudaSuccess);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(free_bytes(), BESIDE - 32 * MIB);
	keep = 0;
	assert_int_equal(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
			 cudaSuccess);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(free_bytes(), BESIDE);
	assert_int_equal(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &keep),
			 cudaSuccess);
	assert_int_equal(pool_value(pool, cudaMemPoolAttrReservedMemHigh), 0);
	assert_int_equal(cudaFreeAsync(a, NULL), cudaErrorInvalidValue);
	cudaGetLastError();
}

static void own_pools_are_separate(void **state)
{
	(void)state;
	cudaMemPool_t pool;
	void *p;
	struct cudaMemPoolProps props = { .allocType = cudaMemAllocationTypePinned,
					  .location = { .type = cudaMemLocationTypeDevice,
							.id = 0 } };
	assert_int_equal(cudaMemPoolCreate(&pool, &props), cudaSuccess);
	assert_int_equal(cudaMallocFromPoolAsync(&p, 40 * MIB, pool, NULL), cudaSuccess);
	assert_int_equal(pool_value(pool, cudaMemPoolAttrReservedMemCurrent), 64 * MIB);
	assert_int_equal(cudaFreeAsync(p, NULL), cudaSuccess);
	assert_int_equal(cudaMemPoolDestroy(pool), cudaSuccess);
	assert_int_equal(free_bytes(), BESIDE);
}

/* ---- virtual memory */

static CUmemGenericAllocationHandle create(size_t bytes)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemGenericAllocationHandle handle = 0;
	assert_int_equal(cuMemCreate(&handle, bytes, &prop, 0), CUDA_SUCCESS);
	return handle;
}

static void physical_memory_goes_with_its_last_reference(void **state)
{
	(void)state;
	CUdeviceptr at;
	CUmemGenericAllocationHandle handle = create(4 * MIB), again;
	assert_int_equal(free_bytes(), BESIDE - 4 * MIB);
	assert_int_equal(cuMemAddressReserve(&at, 1024 * MIB, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), BESIDE - 4 * MIB); /* addresses are not memory */
	assert_int_equal(cuMemMap(at, 4 * MIB, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemMap(at + 8 * MIB, 4 * MIB, 0, handle, 0),
			 CUDA_SUCCESS); /* twice: counted once */
	assert_int_equal(cuMemMap(at, 2 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAddressFree(at, 1024 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemUnmap(at, 2 * MIB), CUDA_ERROR_INVALID_VALUE); /* half a mapping */
	assert_int_equal(cuMemUnmap(at, 4 * MIB), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), BESIDE - 4 * MIB);
	assert_int_equal(cuMemRetainAllocationHandle(&again, (void *)(at + 8 * MIB)), CUDA_SUCCESS);
	assert_int_equal(again, handle);
	assert_int_equal(cuMemUnmap(at + 8 * MIB, 4 * MIB), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), BESIDE - 4 * MIB); /* the retained handle holds it */
	assert_int_equal(cuMemRelease(again), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), BESIDE);
	assert_int_equal(cuMemAddressFree(at, 1024 * MIB), CUDA_SUCCESS);
}

static void physical_memory_on_the_host_is_not_the_devices(void **state)
{
	(void)state;
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA,
						   .id = 7 } };
	CUmemGenericAllocationHandle handle;
	assert_int_equal(cuMemCreate(&handle, 64 * GRANULE, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), BESIDE);
	assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
	prop.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	assert_int_equal(cuMemCreate(&handle, BESIDE + GRANULE, &prop, 0),
			 CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemCreate(&handle, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
}

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

/* From a pool, whose memory every other call knows. */
static void pools_serve_the_driver(void **state)
{
	const CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	static const CUmemPool_attribute reuse[] = {
		CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
		CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
		CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
	};
	CUmemoryPool pool, usual, current;
	int is_on = 9;
	CUdeviceptr p, q, base;
	cuuint64_t used = 9;
	size_t size;

	(void)state;
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuDeviceGetDefaultMemPool(&usual, 0));
	OK(cuDeviceGetMemPool(&current, 0));
	assert_ptr_equal(current, usual);
	OK(cuDeviceSetMemPool(0, pool));
	OK(cuDeviceGetMemPool(&current, 0));
	assert_ptr_equal(current, pool);
	OK(cuMemPoolSetAccess(pool, NULL, 0));
	OK(cuMemAllocAsync(&p, 1000, NULL));
	OK(cuMemAllocFromPoolAsync(&q, 512, pool, NULL));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	assert_int_equal(used, 1536); /* 1000 is 1024 in units of 512 */
	OK(cuMemGetAddressRange(&base, &size, p + 999));
	assert_int_equal(base, p);
	assert_int_equal(cuMemAllocAsync(&base, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAllocFromPoolAsync(&base, 512, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuMemFreeAsync(q, NULL));
	OK(cuMemPoolTrimTo(pool, 0));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &used));
	assert_int_equal(used, 0);
	for (int i = 0; i < 3; i++) { /* "default enabled" */
		OK(cuMemPoolGetAttribute(pool, reuse[i], &is_on));
		assert_int_equal(is_on, 1);
		is_on = 0;
		OK(cuMemPoolSetAttribute(pool, reuse[i], &is_on));
		is_on = 9;
		OK(cuMemPoolGetAttribute(pool, reuse[i], &is_on));
		assert_int_equal(is_on, 0);
	}
	/* "only zero allowed": the value of now is the highest then */
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
	assert_int_equal(used, 1536);
	used = 7;
	assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used),
			 CUDA_ERROR_INVALID_VALUE);
	used = 0;
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
	assert_int_equal(used, 0);
	assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &used),
			 CUDA_ERROR_INVALID_VALUE);
	OK(cuDeviceSetMemPool(0, usual));
	OK(cuMemPoolDestroy(pool));
}

int main(void)
{
	setenv("CUDASIM_GPU", "h100", 1);
	setenv("CUDASIM_MEMORY", TOTAL, 1);
	setenv("CUDASIM_GPUS", "2", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pools_reserve_and_return),
		cmocka_unit_test(own_pools_are_separate),
		cmocka_unit_test(physical_memory_goes_with_its_last_reference),
		cmocka_unit_test(physical_memory_on_the_host_is_not_the_devices),
		cmocka_unit_test(pools_serve_the_driver),
	};
	return cmocka_run_group_tests_name("pools and physical memory", tests, NULL, NULL);
}
