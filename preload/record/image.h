/* Copies what is new of a recording's memory into the trace file, so that the file is a valid trace
 * after each write. */
#ifndef PRELOAD_IMAGE_H
#define PRELOAD_IMAGE_H

#include <memtrace/trace.h>

#include "record/control.h"

/* The file as it stands. One a process. */
struct image {
	struct writer_control *control;
	int fd;
	struct clock_history clock;
	uint64_t end;  /* of what is in the file */
	uint64_t lost; /* events that were recorded and found no room in the file */
	struct mt_header in_file, next;
	uint64_t table_done[MT_MAX_TABLES];
	struct image_segment {
		uint64_t first; /* first sequence number of the run that `done` counts; MT_UNKNOWN:
				   none */
		uint64_t done;  /* records from the start that are written and complete */
		uint64_t keyframe; /* first + 1 when the run's keyframe is written */
		unsigned waits;    /* passes for which the record at `done` was reserved and not
				      written */
	} segment[MT_MAX_SEGMENTS];
};

void image_begin(struct image *m, struct writer_control *c);

/* The same after a writer that is gone: what it has told to be in the file is taken as written. */
void image_resume(struct image *m, struct writer_control *c);

/* Writes what is new to m->fd. 0 or -errno; after an error only image_header_when_full() makes
 * sense. */
int image_pass(struct image *m);

/* The file takes no more: writes the header with what the file really holds, and ERROR. */
void image_header_when_full(struct image *m, int error);

/* Cuts off the room that was made ahead. */
void image_trim(struct image *m);

#endif
