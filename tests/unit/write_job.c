#include "write_job.h"

#include "report/report_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint32_t stack_of(struct job *j, const char *module)
{
	return write_stack(&j->w, write_module(&j->w, module), 0, 0, 0, 0);
}

int job_setup(void **state)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return -1;
	write_start(&j->w);
	j->python = write_thread(&j->w, 100, "python");
	j->pytorch = stack_of(j, "/site-packages/torch/lib/libc10_cuda.so");
	j->libtorch = stack_of(j, "/site-packages/torch/lib/libtorch_cuda.so");
	j->nccl = stack_of(j, "/site-packages/nvidia/nccl/lib/libnccl.so.2");
	j->cublas = stack_of(j, "/usr/lib/libcublasLt.so.13 (deleted)");
	j->program = stack_of(j, "/usr/bin/job");
	*state = j;
	return 0;
}

int job_teardown(void **state)
{
	struct job *j = *state;

	replay_release(&j->replay);
	report_release(&j->report);
	trace_release(&j->trace);
	write_release(&j->w);
	buf_release(&j->out);
	free(j->file);
	free(j);
	return 0;
}

static void open_trace(struct job *j)
{
	struct err e = { 0 };
	size_t size;

	j->file = write_finish(&j->w, &size);
	assert_int_equal(trace_open_memory(&j->trace, j->file, size, &e), 0);
}

const struct device *job_replay(struct job *j)
{
	const struct replay_options options = { 0 };

	open_trace(j);
	replay_trace(&j->replay, &j->trace, &options);
	return &j->replay.device[0];
}

const struct rank *job_report(struct job *j)
{
	const struct replay_options options = { 0 };

	open_trace(j);
	report_add(&j->report, &j->trace, NULL, &options);
	return &j->report.ranks[0];
}

void job_event(struct job *j, int kind, uint64_t address, bytes n, uint32_t stack)
{
	write_event(&j->w, kind, address, n, stack, j->python);
}

void job_sample(struct job *j, bytes used)
{
	job_event(j, MT_DEVICE_SAMPLE, (uint64_t)(10000 * MIB - used), 10000 * MIB, NONE);
}

bytes held(const struct device *d, enum owner o)
{
	bytes now[OWNERS], sum = 0;

	account_owners(d, now);
	for (unsigned i = 0; i < OWNERS; i++)
		sum += now[i];
	assert_int_equal(sum, moment_device(&d->now));
	return now[o] / MIB;
}

bytes at_peak(const struct device *d, enum owner o)
{
	bytes sum = 0;

	for (unsigned i = 0; i < OWNERS; i++)
		sum += d->owners_at_device_peak[i];
	assert_int_equal(sum, moment_device(&d->device_peak));
	return d->owners_at_device_peak[o] / MIB;
}
