/*
 * PyTorch's caching allocator reports every block to c10::reportMemoryUsageToProfiler, through the
 * PLT and under its own lock, whether a profiler is active or not. These definitions come first,
 * record, and always forward.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/export.h"
#include "memory/counters.h"
#include "memory/cuda.h"
#include "memory/memory.h"
#include "memory/modules.h"
#include "python/pystack.h"
#include "record/losses.h"
#include "record/event.h"
#include "record/last_event.h"
#include "record/state.h"
#include "symbols/resolve.h"
#include "hooks/autograd.h"
#include "hooks/torch.h"

#define DEVICE_TYPE_CUDA 1 /* c10::DeviceType; 0 is the CPU's allocator, which reports here too */

struct c10_device {
	int8_t type;
	int8_t index;
};

typedef void report_usage(void *pointer, int64_t bytes, size_t allocated, size_t reserved,
			  struct c10_device device);
typedef void report_oom(int64_t bytes, size_t allocated, size_t reserved, struct c10_device device);

/* 1.13 counted its totals in int64_t ("ll"), 2.0 and later in size_t ("mm"): same registers,
 * another name. */
#define USAGE_NAMES(X)                                           \
	X(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE) \
	X(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE)
#define OOM_NAMES(X)                                           \
	X(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE) \
	X(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE)

static struct {
	report_usage *usage;
	report_oom *oom;
} real;

void torch_forget(void)
{
	real.usage = NULL;
	real.oom = NULL;
}

static void record_block(const void *caller, void *pointer, int64_t bytes, uint64_t allocated,
			 uint64_t reserved, unsigned device)
{
	uint64_t size = (uint64_t)(bytes < 0 ? -bytes : bytes), sequence;
	int new_peak;
	struct module by = module_of(caller);
	uint32_t stack = bytes > 0 ? memory_stack(&by, size) : memory_free_stack(&by, size);

	if (__builtin_expect(counters_block(device, bytes, allocated, reserved, &new_peak), 0)) {
		event_write(MT_RESERVED, device, 0, (int64_t)reserved, MT_NO_STACK);
		counters_sample(device);
	}
	if (bytes > 0 && size >= settings.STACK_MIN)
		autograd_note(device, stack);
	sequence = event_write(bytes < 0 ? MT_TENSOR_FREE : MT_TENSOR_ALLOC, device,
			       (uintptr_t)pointer, bytes, stack);
	if (new_peak)
		counters_peak_at(device, sequence);
}

static void usage(const void *caller, void *pointer, int64_t bytes, uint64_t allocated,
		  uint64_t reserved, struct c10_device device)
{
	int e = errno;

	last_event_prefetch();
	modules_prefetch(caller);
	if (device.type == DEVICE_TYPE_CUDA && device.index >= 0 && device.index < MT_MAX_DEVICES &&
	    bytes &&
	    (bytes > 0 ? recording_on() : recording_already())) /* a free starts no trace */
		record_block(caller, pointer, bytes, allocated, reserved, (unsigned)device.index);
	else if (device.type == DEVICE_TYPE_CUDA && device.index >= MT_MAX_DEVICES &&
		 recording_already())
		losses_count(MT_LOST_LIMIT);
	errno = e;
}

static void out_of_memory(const void *caller, int64_t bytes, uint64_t reserved,
			  struct c10_device device)
{
	uint64_t free_bytes = MT_UNKNOWN, total, sequence;
	unsigned d = (unsigned)device.index;

	if (device.type != DEVICE_TYPE_CUDA || device.index < 0 || d >= MT_MAX_DEVICES ||
	    !recording_on())
		return;
	if (cuda_current_device() != (int)d || cuda_memory(&free_bytes, &total) != 0)
		free_bytes = MT_UNKNOWN;
	event_write(MT_RESERVED, d, 0, (int64_t)reserved, MT_NO_STACK);
	autograd_failed(d);
	sequence = event_write(MT_TENSOR_OOM, d, free_bytes, bytes,
			       pystack_current(module_of(caller).id));
	counters_oom(d);
	event_out_of_memory(sequence, (uint64_t)bytes, free_bytes);
}

/* Looked up once; libc10.so is loaded RTLD_LOCAL, where RTLD_NEXT does not look. NULL when PyTorch
 * has no such function. */
#define FORWARD(slot, name, ...)                            \
	do {                                                \
		__typeof__(real.slot) forward = real.slot;  \
		if (__builtin_expect(!forward, 0)) {        \
			*(void **)&forward = resolve(name); \
			real.slot = forward;                \
		}                                           \
		if (forward)                                \
			forward(__VA_ARGS__);               \
	} while (0)

#define X(name)                                                                \
	EXPORT report_usage name;                                              \
	void name(void *p, int64_t n, size_t a, size_t r, struct c10_device d) \
	{                                                                      \
		usage(__builtin_return_address(0), p, n, a, r, d);             \
		FORWARD(usage, #name, p, n, a, r, d);                          \
	}
USAGE_NAMES(X)
#undef X

#define X(name)                                                       \
	EXPORT report_oom name;                                       \
	void name(int64_t n, size_t a, size_t r, struct c10_device d) \
	{                                                             \
		out_of_memory(__builtin_return_address(0), n, r, d);  \
		FORWARD(oom, #name, n, a, r, d);                      \
	}
OOM_NAMES(X)
#undef X
