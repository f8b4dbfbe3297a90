/* The copies that really move bytes. A simulation must not pay host memory for tensors that only
 * kernels would touch, yet what the host reads back (a loss, a found-inf flag, token counts) should
 * be what it wrote:
 * - host to host: always;
 * - between host and device: up to CUDASIM_COPY_MAX;
 * - on the device, and fills with a value: up to 64 KiB;
 * - fills with zero: always. Large ones give the pages back, which then read as zero. */
#include "device/copy.h"

#include "device/common.h"
#include "device/memory.h"
#include "device/settings.h"

#include <string.h>

#define ON_DEVICE_MAX KIB(64)

static bool kept(const void *to, const void *from, uint64_t bytes)
{
	bool to_device = memory_is_device(to), from_device = memory_is_device(from);
	if (!to_device && !from_device)
		return true;
	return bytes <= (to_device && from_device ? ON_DEVICE_MAX : settings.copy_max);
}

void copy_bytes(void *to, const void *from, size_t bytes)
{
	if (bytes && to != from && kept(to, from, bytes))
		memmove(to, from, bytes);
}

void copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
	       size_t rows)
{
	if (!kept(to, from, product(width, rows)))
		return;
	for (size_t row = 0; row < rows; row++)
		memmove((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
}

void fill_bytes(void *to, int value, size_t bytes)
{
	if (bytes <= ON_DEVICE_MAX || !memory_is_device(to))
		memset(to, value, bytes);
	else if (!value)
		memory_forget((uint64_t)to, bytes);
}
