/* Completion of work. A timeline is the work queued on one stream, numbered from 1 on; work
 * completes in order, and not before what it waits for in other timelines.
 *
 * Kernels do nothing here, so completion is a matter of what a program may observe. Two models
 * bound what a GPU does, and a third estimates it (CUDASIM_STREAMS):
 *
 *   early  Work is complete when it is queued.
 *   late   Work is complete when the program makes sure of it, and not before:
 *          - it synchronises with the stream, an event behind the work, or the device;
 *          - it copies to pageable memory of the host, or with a blocking call, on that stream;
 *          - it frees memory with cudaFree or cudaFreeHost, which wait for the device;
 *          - more than QUEUE pieces of work follow it in its stream: a launch waits for space in
 * the stream's queue, which on a GPU holds about as many;
 *          - it asks for it POLLS times and queues no work meanwhile: loops of queries end. A
 * thread that never queues any (a watchdog) is told so without anything being completed, so that
 *            its speed does not change what others see.
 *          What completes takes all it waited for with it.
 *
 *   timed  Work takes the time that the GPU needs for it at best (speed.h), after the work before
 * it in its stream and what it waits for. It is complete when the host's clock (clock.h) says so. A
 * launch waits for space in the queue here too, and POLLS queries without work wait.
 *
 * With the late model PyTorch's allocator sees a GPU far behind the host: blocks that another
 * stream uses (record_stream) and pinned memory come back only when the host waits. The data is
 * there at once in all: nothing may look at it before completion. Host functions in a stream run
 * at once as well.
 */
#ifndef CUDASIM_TIMELINE_H
#define CUDASIM_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIMELINE_QUEUE = 1024, TIMELINE_POLLS = 1024 };

struct dependency;
struct timeline {
	_Atomic uint64_t queued, done; /* timed: `done` is the time at which the last work ends */
	uint64_t *ends;                /* timed: of the last QUEUE pieces of work */
	struct dependency *waits;      /* oldest first */
	size_t first, count, capacity;
	struct timeline *next;
	atomic_bool known; /* in the list of all */
	atomic_int device;
};

/* The number of queries: by threads that queue no work, and by the others, with the last of
 * these threads and the work that it had queued by then. */
struct poll {
	unsigned watched, turns;
	unsigned long thread;
	uint64_t work;
};

/* Work has a mark: its number, or with the timed model the time at which it is complete. */
uint64_t timeline_queue(struct timeline *t, uint64_t ns); /* a new piece of work of this length */
uint64_t timeline_mark(struct timeline *t);               /* an event behind all work */
uint64_t timeline_last(struct timeline *t);               /* all work that was queued */
void timeline_wait(struct timeline *t, struct timeline *on, uint64_t until);
void timeline_finish(struct timeline *t, uint64_t until);
enum { ALL_DEVICES = -1 };
void timeline_finish_all(int device);
bool timeline_asked(struct timeline *t, uint64_t until, struct poll *poll);

#endif
