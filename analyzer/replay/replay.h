/*
 * From the records of a trace to levels, peaks, steps, failures and live blocks.
 *
 * Two passes over the file. The first (levels.h) adds up signed bytes, notes what the job was
 * doing, and finds the peaks and the failures. It is repeated in the rare case that struct
 * assumptions was wrong. The second (live_blocks.h) keeps the live set and takes snapshots of it at
 * those points and at the end. Memory in use: the live set and what is reported.
 */
#ifndef MEMTRACE_REPLAY_H
#define MEMTRACE_REPLAY_H

#include "replay/device.h"
#include "replay/marks.h"
#include "trace/trace.h"

/* Host memory of the process: the pinned and the registered bytes at present, and their peaks. */
struct host {
	bytes pinned, pinned_peak, registered, registered_peak;
};

struct replay {
	struct device device[MT_MAX_DEVICES];
	struct host host;
	struct marks marks;
	uint64_t host_events;
	uint64_t last_time_ns;
	uint64_t given_up;  /* records in gaps: the recorder reused their space */
	unsigned open_gaps; /* gaps without a keyframe behind them */
	uint64_t unknown_kinds, damaged, unwritten;
	uint64_t without_device; /* the recorder did not know the device */
	uint64_t frees_unknown, allocs_twice;
	int truncated; /* the file ended early while it was read */
};

/*
 * Sees the events of the devices as the first pass meets them, in order. That pass may begin again:
 * `begin` is called first each time. Every function must be set.
 */
struct replay_observer {
	void *context;
	void (*begin)(void *context);
	/* The levels of `d` are those after the event. */
	void (*event)(void *context, const struct device *d, const struct mt_record *r);
	/* Records are lost here; `restored` names what is live behind the gap, `gap_end` its levels
	 * device by device. */
	void (*gap)(void *context);
	void (*restored)(void *context, const struct mt_record *r);
	void (*gap_end)(void *context, const struct device *d, int device, uint64_t time_ns);
};

struct replay_options {
	/* The peaks and the failures are those of a phase that the job named; NULL: of the job. */
	const char *phase;
	int keep_live;        /* fill in device.live */
	int keep_peak_blocks; /* fill in device.peak_blocks */
	int measures_need;    /* see metrics_compute() */
	int name_all_blocks;  /* device.backward has names of all blocks, not only of those in a
			       * snapshot */
	void (*progress)(void *context, double part); /* 0 to 1; NULL: none */
	void *context;
	const struct replay_observer *observer; /* NULL: none */
};

/* Attributes the trace first, see attribution.h. */
void replay_trace(struct replay *r, struct trace *t, const struct replay_options *options);
void replay_release(struct replay *r);

#endif
