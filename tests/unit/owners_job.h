/* A job whose modules belong to several owners, on a device of 10000 MiB. */
#ifndef MEMTRACE_TEST_OWNERS_JOB_H
#define MEMTRACE_TEST_OWNERS_JOB_H

#include "fixture.h"

static inline int setup_owners(void **state)
{
	struct fixture *f;

	if (fixture_setup(state) < 0)
		return -1;
	f = *state;
	f->pytorch = fixture_stack(f, "/site-packages/torch/lib/libc10_cuda.so");
	f->libtorch = fixture_stack(f, "/site-packages/torch/lib/libtorch_cuda.so");
	f->nccl = fixture_stack(f, "/site-packages/nvidia/nccl/lib/libnccl.so.2");
	f->cublas = fixture_stack(f, "/usr/lib/libcublasLt.so.13 (deleted)");
	f->program = fixture_stack(f, "/usr/bin/job");
	return 0;
}

/* A sample of the device, of which `used` bytes are in use. */
static inline void sample(struct fixture *f, bytes used)
{
	fixture_event(f, MT_DEVICE_SAMPLE, (uint64_t)(10000 * MIB - used), 10000 * MIB, NONE);
}

/* MiB of an owner in the end. All owners add up, or the test fails. */
static inline bytes held(const struct device *d, enum owner o)
{
	bytes now[OWNERS], sum = 0;

	account_owners(d, now);
	for (unsigned i = 0; i < OWNERS; i++)
		sum += now[i];
	assert_int_equal(sum, moment_device(&d->now));
	return now[o] / MIB;
}

/* MiB of an owner at the device's peak. All owners add up, or the test fails. */
static inline bytes at_peak(const struct device *d, enum owner o)
{
	bytes sum = 0;

	for (unsigned i = 0; i < OWNERS; i++)
		sum += d->owners_at_device_peak[i];
	assert_int_equal(sum, moment_device(&d->device_peak));
	return d->owners_at_device_peak[o] / MIB;
}

#endif
