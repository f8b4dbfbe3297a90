/* A trace that is exported: loaded, and replayed for its steps, peaks and levels. */
#ifndef MEMTRACE_EXPORT_INPUT_H
#define MEMTRACE_EXPORT_INPUT_H

#include "replay/replay.h"
#include "report/report.h"
#include "trace/trace.h"
#include "util/err.h"

struct input {
	struct trace trace;
	struct replay replay;
	int64_t process; /* counts the traces of an export from 1 */
	/* Chosen by input_choose(): */
	unsigned device;
	uint64_t until;  /* number of the first event behind the moment */
	uint64_t end_ns; /* time of the moment */
};

/* The moment whose live blocks an export has: X(id, name). */
#define EXPORT_MOMENTS(X) \
	X(PEAK, "peak")   \
	X(FAILURE, "oom") \
	X(END, "end")
enum export_moment {
#define X(id, name) MOMENT_##id,
	EXPORT_MOMENTS(X)
#undef X
		MOMENT_OF_FORMAT /* not chosen: each format has its own */
};

/* input_close() must follow, also after a failure. */
int input_open(struct input *in, const char *path, struct err *e);
void input_close(struct input *in);

/* Chooses the device with the highest peak, or `device` if that is not -1, and a moment of it.
 * Fails if there is no such device or moment. */
int input_choose(struct input *in, int device, enum export_moment moment, struct err *e);

/* Is it an event of a block that PyTorch's allocator gave to a tensor, or of a call that counts as
 * one (`counted_from_runtime`)? Is it one of a segment? */
int input_is_block(const struct input *in, const struct mt_record *r);
int input_is_segment(const struct input *in, const struct mt_record *r);
/* Is it a failed allocation of the job, as account_is_failure() says? */
int input_is_failure(const struct input *in, const struct mt_record *r);

/* The span of a time on a device; NULL: none. */
const struct span *input_span(const struct input *in, unsigned device, uint64_t time_ns);

/* The part of the job that the device's peak covers. */
enum peak_scope input_scope(const struct input *in, unsigned device);
/* The number of its first records that stand for blocks from before the history. */
uint64_t input_before(const struct input *in, unsigned device);

/* ns since the Unix epoch. */
uint64_t input_real_ns(const struct input *in, uint64_t time_ns);

#endif
