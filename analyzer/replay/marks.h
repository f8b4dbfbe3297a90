/* The job's own marks (events of the layer MARK): the phases that it named, with the peak of
 * each device while they were open, its named moments, and where its steps begin. */
#ifndef MEMTRACE_MARKS_H
#define MEMTRACE_MARKS_H

#include <memtrace/trace.h>
#include <stddef.h>

#include "util/util.h"

struct replay;
struct tables;

/* Kept ones. Behind them, a phase counts as the one around it, and moments are left out. */
#define MAX_NAMED_PHASES 4096
#define MAX_OPEN_PHASES 256
#define MAX_NAMED_MOMENTS 1024

/* The phases of one name within one phase. */
struct named_phase {
	uint32_t parent; /* an index; 0: none, phase 0 stands for the whole job */
	uint32_t name;   /* of the strings */
	uint64_t times;
	uint64_t first_ns;
	bytes peak[MT_MAX_DEVICES]; /* most allocated bytes while it was open */
};

struct named_moment {
	uint32_t name;
	uint64_t time_ns;
	/* The level, and the most since the moment before. */
	bytes allocated[MT_MAX_DEVICES], peak[MT_MAX_DEVICES];
};

struct open_phase {
	uint64_t id;
	uint32_t phase; /* an index */
};

struct marks {
	struct named_phase *phases; /* NULL: none */
	size_t phase_count, phase_room;
	struct phase_index *index;
	struct open_phase open[MAX_OPEN_PHASES]; /* in the order of their begin */
	size_t open_count;
	/* The phases that were open before the last gap, and those of its keyframe, in no order. */
	uint64_t before_gap[MAX_OPEN_PHASES];
	size_t before_count;
	struct mt_record *restored;
	size_t restored_count, restored_room;
	struct named_moment *moments;
	size_t moment_count, moment_room;
	bytes since_moment[MT_MAX_DEVICES];
	uint64_t steps_seen, left_out;
	const char *wanted; /* replay_options.phase, if it was open at some time */
};

/* Applies an event of the layer MARK. `phase`: replay_options.phase. */
void marks_event(struct replay *r, const struct tables *t, const char *phase,
		 const struct mt_record *mark);
/* Records are lost: no phase is known to be open any more. */
void marks_gap(struct replay *r);
/* Part of a keyframe: the phases that are open behind the gap, and the last step. */
void marks_keyframe(struct replay *r, const struct mt_record *records, size_t count);
/* The keyframe is complete: its phases are open. */
void marks_keyframe_end(struct replay *r, const struct tables *t, const char *phase);
/* The end of the trace: phases that are still open have had their peak. */
void marks_end(struct replay *r);
void marks_release(struct marks *m);

#endif
