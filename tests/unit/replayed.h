/* Reads and replays a trace that a test has written, and releases both. */
#ifndef MEMTRACE_TEST_REPLAYED_H
#define MEMTRACE_TEST_REPLAYED_H

#include "replay/replay.h"
#include "write_trace.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static inline void replay_written(struct writer *w, unsigned char **file, struct trace *t,
				  struct replay *r, const struct replay_options *options)
{
	struct err e = { 0 };
	size_t size;

	*file = write_finish(w, &size);
	assert_int_equal(trace_open_memory(t, *file, size, &e), 0);
	replay_trace(r, t, options);
}

static inline void release_written(struct writer *w, unsigned char *file, struct trace *t,
				   struct replay *r)
{
	replay_release(r);
	trace_release(t);
	write_release(w);
	free(file);
}

#endif
