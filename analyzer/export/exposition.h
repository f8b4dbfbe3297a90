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

/* Zeroed at first. */
struct exposition {
	struct buf samples[METRIC_COUNT];
	struct buf process; /* labels of the process: run="...",rank="..." */
	unsigned device;    /* MT_NO_DEVICE: of the process */
};

/* The samples that follow are of this process; `rank` below 0: it has none, and is called 0. */
void exposition_process(struct exposition *x, const char *run, int rank);
/* They are of this device. */
void exposition_device(struct exposition *x, unsigned device);
/* `label` NULL: the sample has no label but those of the process and the device. */
void exposition_sample(struct exposition *x, enum metric_id id, const char *label, const char *of,
		       double value);
void exposition_write(struct exposition *x, struct output *o);
void exposition_release(struct exposition *x);

#endif
