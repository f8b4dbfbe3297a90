/*
 * The first bytes of a recording's memory: the state that the job and the process that writes the
 * file share. The image of the trace file follows. Both run the same build (WRITER_BUILD).
 */
#ifndef PRELOAD_CONTROL_H
#define PRELOAD_CONTROL_H

#include <memtrace/trace.h>
#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "record/clock.h"

#define WRITER_CONTROL_BYTES 16384u

enum writer_owner { WRITER_NOBODY, WRITER_PROCESS, WRITER_THREAD };
enum writer_state {
	WRITER_WAITING, /* the file does not exist yet */
	WRITER_WRITING,
	WRITER_REFUSED, /* the file could not be created: `error` */
	WRITER_FULL,    /* no more records can be written: `error`; the header still is */
	WRITER_DONE,    /* everything is written and the file is closed */
};

enum writer_marker { WRITER_NO_MARKER, WRITER_MARKER_WANTED, WRITER_MARKER_DECIDED };

struct writer_control {
	uint64_t build;             /* WRITER_BUILD of the library that made this memory */
	_Atomic uint32_t go;        /* 1: everything up to `name` is filled in */
	_Atomic uint32_t owner;     /* enum writer_owner, taken once */
	uint32_t pid;               /* the job's process */
	uint64_t image_bytes;       /* largest size of the image */
	int uses_counter;           /* records contain the processor's counter, not ns */
	struct clock_reading begin; /* time 0 of the trace */
	char directory[4096];       /* absolute */
	char name[256];

	/* The helper thread's id and FUTEX_WAITERS. When that thread dies for any reason, the
	 * kernel marks this word (set_robust_list(2)) and wakes the writer. 0: no helper thread. */
	_Atomic uint32_t helper_thread;
	_Atomic uint32_t helper_wakeups; /* futex of the helper thread */
	_Atomic uint32_t writer;         /* the same for the writer process, 0: none yet */
	_Atomic uint32_t ended;          /* 1: the job has closed the recording */
	_Atomic uint32_t state;          /* enum writer_state; futex */
	_Atomic int32_t error;           /* errno */
	_Atomic uint32_t passes;         /* number of times that all new data was written */
	/* A file that the job asks for, empty, in `directory` (writer_make_marker()). */
	char marker_name[256];
	_Atomic uint32_t marker;       /* enum writer_marker; futex */
	_Atomic int32_t marker_result; /* of file_make_empty() */
	/* For each segment: the records before sequence number `written` are in the file, and so is
	 * the keyframe of the run that begins at `keyframe_written` - 1. */
	_Atomic uint64_t written[MT_MAX_SEGMENTS];
	_Atomic uint64_t keyframe_written[MT_MAX_SEGMENTS];
};
static_assert(sizeof(struct writer_control) <= WRITER_CONTROL_BYTES, "the image has a fixed place");

#define WRITER_BUILD \
	(0x6d656d7472616365u ^ sizeof(struct writer_control) ^ (uint64_t)MT_VERSION << 32)

static inline void *writer_image(struct writer_control *c)
{
	return (char *)c + WRITER_CONTROL_BYTES;
}

#endif
