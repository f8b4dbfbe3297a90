/* Completion of work. A timeline is the work queued on one stream, numbered from 1 on; work
 * completes in order, and not before what it waits for in other timelines.
 *
 * Kernels take no time here, so completion is a matter of what a program may observe. Two models
 * bound what a GPU does (CUDASIM_STREAMS):
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
 * With the late model PyTorch's allocator sees a GPU far behind the host: blocks that another
 * stream uses (record_stream) and pinned memory come back only when the host waits. The data is
 * there at once in both: nothing may look at it before completion. Host functions in a stream run
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
	_Atomic uint64_t queued, done;
	struct dependency *waits; /* oldest first */
	size_t first, count, capacity;
	struct timeline *next;
	atomic_bool known; /* in the list of all */
};

/* The number of queries: by threads that queue no work, and by the others, with the last of
 * these threads and the work that it had queued by then. */
struct poll {
	unsigned watched, turns;
	unsigned long thread;
	uint64_t work;
};

uint64_t timeline_queue(struct timeline *t); /* the number of the new piece of work */
void timeline_wait(struct timeline *t, struct timeline *on, uint64_t until);
void timeline_finish(struct timeline *t, uint64_t until);
void timeline_finish_all(void);
bool timeline_asked(struct timeline *t, uint64_t until, struct poll *poll);

#endif
