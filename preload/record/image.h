/* Copies the new parts of a recording's memory into the trace file. The file is a valid trace after
 * each write. */
#ifndef PRELOAD_IMAGE_H
#define PRELOAD_IMAGE_H

#include <memtrace/trace.h>

#include "record/control.h"

/* The present state of the file. One such struct exists in a process. */
struct image {
	struct writer_control *control;
	int fd;
	struct clock_history clock;
	uint64_t end;  /* end of the data in the file */
	uint64_t lost; /* recorded events for which the file had no room */
	struct mt_header in_file, next;
	uint64_t table_done[MT_MAX_TABLES];
	struct image_segment {
		uint64_t first; /* first sequence number of the run that `done` counts; MT_UNKNOWN:
				   none */
		uint64_t done;  /* number of records from the start that are written and complete */
		uint64_t keyframe; /* first + 1 when the run's keyframe is written */
		unsigned waits;    /* passes in which the record at `done` was reserved and not yet
				      written */
	} segment[MT_MAX_SEGMENTS];
};

void image_begin(struct image *m, struct writer_control *c);

/* The same after another writer has ended: data that it marked as written is not written again. */
void image_resume(struct image *m, struct writer_control *c);

/* Writes all new data to m->fd. Returns 0 or -errno; after an error, only image_header_when_full()
 * may follow. */
int image_pass(struct image *m);

/* No more can be written: writes a header that describes the real content of the file, with ERROR.
 */
void image_header_when_full(struct image *m, int error);

/* Truncates the file after its last byte in use. */
void image_trim(struct image *m);

#endif
