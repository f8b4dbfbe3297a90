/*
 * PyTorch on ROCm, as far as a tracer of CUDA sees it, by what is defined: C10 is a libc10.so, HIP
 * a libc10_hip.so, which tells it of 1,000 blocks of 1 MiB, 100 at a time, in segments of 20 MiB;
 * no library of CUDA is loaded.
 */
#include <stdint.h>
#include <stdlib.h>

struct device {
	int8_t type, index; /* ROCm's devices call themselves CUDA's */
};
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, int64_t bytes, size_t allocated,
							   size_t reserved, struct device device);
void train(void);

#if defined(C10)

int forwarded;

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, int64_t bytes, size_t allocated,
							   size_t reserved, struct device device)
{
	(void)p, (void)bytes, (void)allocated, (void)reserved, (void)device;
	forwarded++;
}

#elif defined(HIP)

#define MiB (1l << 20)

void train(void)
{
	struct device gpu = { 1, 0 };
	char *base = (char *)0x7f0000000000;
	size_t allocated = 0, reserved = 0;

	for (int i = 0; i < 1100; i++) {
		if (i >= 100) {
			allocated -= MiB;
			_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
				base + (i - 100) * MiB, -MiB, allocated, reserved, gpu);
		}
		if (i < 1000) {
			allocated += MiB;
			reserved = allocated > reserved ? reserved + 20 * MiB : reserved;
			_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
				base + i * MiB, MiB, allocated, reserved, gpu);
		}
	}
}

#else

extern int forwarded;

int main(void)
{
	train();
	return forwarded == 2000 ? 0 : 1;
}

#endif
