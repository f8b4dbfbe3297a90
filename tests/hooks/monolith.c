/*
 * A PyTorch in one library, by what is defined: LIBRARY is that, with a function of libc10_cuda.so
 * in it, and allocates a segment of 20 MiB. With REPORTS it tells of two blocks through the PLT, as
 * libc10_cuda.so does; without, its calls do not leave it.
 */
#include <cuda_runtime_api.h>
#include <stdint.h>

int allocate(void);

#ifdef LIBRARY

struct device {
	int8_t type, index;
};
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, int64_t bytes, size_t allocated,
							   size_t reserved, struct device device);
int _ZN3c104cuda14GetDeviceCountEPi(int *count);

int _ZN3c104cuda14GetDeviceCountEPi(int *count)
{
	return *count = 1, 0;
}

#ifndef REPORTS
__attribute__((visibility("hidden")))
#endif
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, int64_t bytes, size_t allocated,
							   size_t reserved, struct device device)
{
	(void)p, (void)bytes, (void)allocated, (void)reserved, (void)device;
	__asm__ volatile("");
}

int allocate(void)
{
	struct device gpu = { 1, 0 };
	char *segment;
	int failed = (int)cudaMalloc((void **)&segment, 20 << 20);

	_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(segment, 8 << 20, 8 << 20, 20 << 20,
							      gpu);
	_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(segment + (8 << 20), 4 << 20,
							      12 << 20, 20 << 20, gpu);
	return failed;
}

#else

int main(void)
{
	return allocate();
}

#endif
