/*
 * A traced process at present: the running counters of its trace's header, and the time of its last
 * record. Reading takes two pread() of the file, which another process writes: the job is neither
 * locked nor signalled.
 */
#ifndef MEMTRACE_LIVE_PROCESS_H
#define MEMTRACE_LIVE_PROCESS_H

#include <memtrace/trace.h>

#include "attribution/category.h"
#include "attribution/owner.h"
#include "live/trend.h"
#include "util/util.h"

/* The state of a process: X(id, key). The key is that of the JSON and of the text. States from
 * KILLED on are failures; later ones are worse. */
#define LIVE_STATES(X)                                                                 \
	X(ENDED, "ended")     /* with status 0 */                                      \
	X(UNKNOWN, "unknown") /* on another host, and no event for long */             \
	X(RUNNING, "running")                                                          \
	X(FAILED, "failed")   /* ended with another status */                          \
	X(SILENT, "silent")   /* runs, and no event for long */                        \
	X(KILLED, "killed")   /* gone without a record of its end */                   \
	X(OOM, "oom")         /* ended after a failed allocation, not with status 0 */ \
	X(DAMAGED, "damaged") /* the trace cannot be read */
enum live_state {
#define X(id, key) LIVE_##id,
	LIVE_STATES(X)
#undef X
};
const char *live_state_key(enum live_state s);

/* The facts about a device that the tail of the trace shows. */
struct live_tail {
	int is_known;
	struct trend trend;
	uint32_t step;                 /* at present; 0: not known */
	bytes peak;                    /* the highest level of the tail */
	bytes by_category[CATEGORIES]; /* at that moment */
	bytes by_owner[OWNERS];        /* of the device, at the tail's end */
};

struct live_device {
	unsigned ordinal;
	bytes total; /* 0: not known */
	bytes allocated, allocated_peak, reserved, reserved_peak, other, untracked, device_peak;
	uint64_t allocs, frees, ooms, refused;
	struct live_tail tail;
};

struct live_process {
	char *path;
	char *why; /* the trace cannot be read; NULL: it can */
	char *host, *run;
	int rank, local_rank, world_size, restart; /* -1: none */
	uint32_t pid;
	int simulated;
	enum live_state state;
	int exit_status;   /* of a process that ended; -1: not known */
	uint64_t start_ns; /* since the Unix epoch */
	double duration_s; /* until its end, or until now */
	double age_s;      /* of the last event; -1: not known */
	double last_s;     /* its time, since the start; -1: not known */
	uint64_t records, lost_events;
	struct live_device devices[MT_MAX_DEVICES];
	size_t device_count; /* those in use */

	/* The file's size and time, which show whether a complete trace has changed. */
	uint64_t file_size;
	int64_t file_changed_ns;
	uint64_t tail_records; /* `records` when the tails were read */
	int is_listed;         /* for folder.c */
};

/* Is all memory of the device that this process uses, in bytes. */
static inline bytes live_device_bytes(const struct live_device *d)
{
	return d->reserved + d->other + d->untracked;
}

/* The steps until the device is full, if its trend goes on; -1: not known. */
int64_t live_steps_until_full(const struct live_device *d);

static inline int live_state_runs(enum live_state s)
{
	return s == LIVE_RUNNING || s == LIVE_SILENT || s == LIVE_UNKNOWN;
}

/* How long a process whose state is unknown may be without an event, in seconds, and is still
 * waited for: longer than compilations and checkpoints take. */
#define LIVE_PATIENCE_S 3600
/* Has the process ended, or has it been without an event for so long that it is not waited for? */
int live_process_is_over(const struct live_process *p);

/* Reads `path` of a zeroed or earlier read process. It is silent after `silent_s` seconds without
 * an event. Tails stay as they are. */
void live_process_read(struct live_process *p, double silent_s);
void live_process_release(struct live_process *p);

#endif
