/* Statistics of the stored runs of a job: the spread, the outliers, this week against the last,
 * and against the estimate. */
#ifndef MEMTRACE_TREND_H
#define MEMTRACE_TREND_H

#include "history/history.h"

/* An estimate within this share of what was observed is like it, as for `memtrace match`. */
#define TREND_TOLERANCE 0.05
/* Fewer runs have no outliers. */
#define TREND_FEWEST 3

/* The middle of some values, and the median of their distances from it. */
struct peak_spread {
	size_t count;
	bytes median, deviation;
};

/* The middle of ratios, observed over estimated, and the median of their distances from it. */
struct ratio_spread {
	size_t count;
	double median, deviation;
};

/* The runs of one job, observed or simulated. */
struct job_trend {
	const struct history_run **runs; /* the oldest first */
	size_t count;
	int of_device; /* no run has an allocation of PyTorch's: the bytes are of the device */
	struct peak_spread all, now, before; /* of the last `days`, and of as many before them */
	struct ratio_spread prediction;      /* of the runs that exited in order */
	const struct history_run **out;
	size_t out_count;
};

/* The bytes that a trend compares. */
bytes trend_bytes(const struct job_trend *t, const struct history_run *r);
/* 1: more than before, -1: less, 0: alike or not known. */
int trend_direction(const struct job_trend *t);

/* The trends of all jobs. A run that was not over when it was added does not count. `days`: of what
 * counts as now, up to the newest run of a job. */
void trends_make(struct job_trend **trends, size_t *count, const struct history_run *runs, size_t n,
		 int days);
void trends_release(struct job_trend *trends, size_t count);

/* How far the estimate was from what runs of a configuration used. */
struct correction {
	struct ratio_spread ratio;
	int is_same_model; /* else of the same configuration */
	int is_simulated;  /* no such run was on a GPU */
};
/* Looks for runs that exited in order: of the same configuration, else of the same model. */
struct correction correction_make(const struct history_run *runs, size_t n, const char *fingerprint,
				  const char *model);

#endif
