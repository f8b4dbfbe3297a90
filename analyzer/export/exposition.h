/* The text format of Prometheus: the samples of a metric stand together, so they are collected
 * first. */
#ifndef MEMTRACE_EXPORT_EXPOSITION_H
#define MEMTRACE_EXPORT_EXPOSITION_H

#include "export/output.h"
#include "util/buf.h"

enum metric_id {
#define METRIC(id, name, type, help) METRIC_##id,
#include "export/prometheus.def"
#undef METRIC
	METRIC_COUNT
};

struct process_samples;

/* Zeroed at first. */
struct exposition {
	struct process_samples *processes; /* by their labels */
	struct process_samples *process;   /* the current one; NULL: its samples are left out */
	unsigned device;                   /* MT_NO_DEVICE: of the process */
	size_t left_out;                   /* processes */
};

/* The samples that follow are of this process; `rank` below 0: it has none, and is called 0. The
 * labels of a sample must be its own: of processes with one run and rank, the samples of the one
 * that began last are written. */
void exposition_process(struct exposition *x, const char *run, int rank, uint64_t start_ns);
/* The samples that follow are of this device. */
void exposition_device(struct exposition *x, unsigned device);
/* `label` NULL: the sample has no label but those of the process and the device. */
void exposition_sample(struct exposition *x, enum metric_id id, const char *label, const char *of,
		       double value);

/* The levels of a device. */
struct device_levels {
	bytes allocated, allocated_peak, reserved, reserved_peak;
	bytes total; /* 0: not known */
	uint64_t ooms;
};
void exposition_levels(struct exposition *x, const struct device_levels *l);
/* All memory of the device that is in use. */
void exposition_use(struct exposition *x, bytes now, bytes peak);
/* A sample for each category or owner that has bytes. */
void exposition_categories(struct exposition *x, enum metric_id id, const bytes values[]);
void exposition_owners(struct exposition *x, enum metric_id id, const bytes values[]);
void exposition_write(struct exposition *x, struct output *o);
void exposition_release(struct exposition *x);

#endif
