/* PyTorch's report functions, as a library of their own that is linked: the preload finds them
 * and forwards to them. */
#include <stddef.h>
#include <stdint.h>

struct device {
	int8_t type, index;
};
__attribute__((visibility("default"))) void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
	void *pointer, int64_t bytes, size_t allocated, size_t reserved, struct device device);

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *pointer, int64_t bytes,
							   size_t allocated, size_t reserved,
							   struct device device)
{
	(void)pointer, (void)bytes, (void)allocated, (void)reserved, (void)device;
}

__attribute__((visibility("default"))) void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(
	int64_t bytes, size_t allocated, size_t reserved, struct device device);

void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, size_t allocated,
							 size_t reserved, struct device device)
{
	(void)bytes, (void)allocated, (void)reserved, (void)device;
}
