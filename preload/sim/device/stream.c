/* Streams, events, captures. stream_work() is the one place through which every kernel, copy and
 * fill passes; timeline.h says when they are complete.
 *
 * A capture is joined as on the device: the stream it began on, and every stream that waits for an
 * event recorded in it, until it ends. */
#include "device/stream.h"

#include "device/clock.h"
#include "device/common.h"
#include "device/device.h"
#include "device/handle.h"
#include "device/host.h"
#include "device/memory.h"
#include "device/pool.h"
#include "device/settings.h"
#include "device/timeline.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { STREAM = 0x5354524d, EVENT = 0x45564e54, GRAPH = 0x47525048, GONE = 0 };

struct held {
	struct user_object *object;
	unsigned count;
	struct held *next;
};
struct graph {
	unsigned magic;
	size_t nodes;
	uint64_t ns;
	struct held *held;
};
struct capture {
	unsigned long long id;
	struct stream *origin;
	struct graph *graph;
	struct capture *next;
};
/* Destroyed streams and events are kept for reuse, never freed: a late use finds GONE, not other
 * memory. */
struct stream {
	unsigned magic, flags;
	int device, priority;
	unsigned long long
		capture; /* the capture it last joined: current while that is in `captures` */
	struct stream *next;
	struct timeline timeline; /* continues when the stream is reused */
	struct poll poll;
};
struct event {
	unsigned magic;
	bool recorded;
	unsigned long long capture;
	struct timespec time;
	struct event *next;
	struct timeline
		*timeline; /* of the stream that it was last recorded in; NULL: in a capture */
	uint64_t until;
	struct poll poll;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *spare_streams;
static struct event *spare_events;
static struct capture *captures;
static unsigned long long last_capture;

/* Every device has a default stream of its own: the handle is that of the current device's. */
enum { OF_CURRENT_DEVICE = -1 };
static struct stream legacy = { .magic = STREAM, .device = OF_CURRENT_DEVICE };
static struct timeline legacy_timelines[MAX_DEVICES];

static struct stream *stream_of(void *handle)
{
	static _Thread_local struct stream per_thread = { .magic = STREAM,
							  .device = OF_CURRENT_DEVICE };
	if ((uintptr_t)handle < 2)
		return &legacy;
	struct stream *stream = (uintptr_t)handle == 2 ? &per_thread : handle;
	return stream->magic == STREAM ? stream : NULL;
}

static struct capture *capture_find(unsigned long long id)
{
	struct capture *capture = id ? captures : NULL;
	while (capture && capture->id != id)
		capture = capture->next;
	return capture;
}

/* Streams that wait for the legacy stream, and for which it waits, share its timeline. */
static struct timeline *timeline_of(struct stream *stream)
{
	if (stream->flags & 1 /* non-blocking */)
		return &stream->timeline;
	int device = stream->device == OF_CURRENT_DEVICE ? device_current() : stream->device;
	legacy_timelines[device].device = device;
	return &legacy_timelines[device];
}

/* `captures` is read unlocked first: nearly always there is none, and this is on the path of every
 * launch. */
void stream_work(void *handle, uint64_t ns)
{
	struct stream *stream = stream_of(handle);
	if (stream && !capture_of(handle, NULL, NULL))
		timeline_queue(timeline_of(stream), ns);
	clock_let_watch();
	if (!__atomic_load_n(&captures, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&lock);
	struct capture *capture = stream ? capture_find(stream->capture) : NULL;
	if (capture) {
		capture->graph->nodes++;
		capture->graph->ns += ns;
	}
	pthread_mutex_unlock(&lock);
}

void stream_library_work(void)
{
	if (!__atomic_load_n(&captures, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&lock);
	for (struct capture *capture = captures; capture; capture = capture->next)
		capture->graph->nodes++;
	pthread_mutex_unlock(&lock);
}

int stream_create(void *handle, unsigned flags, int priority)
{
	int error = device_use_current();
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	struct stream *stream = spare_streams;
	if (stream)
		spare_streams = stream->next;
	else
		stream = calloc(1, sizeof *stream);
	if (stream) { /* everything but its timeline, which other threads may be reading */
		stream->magic = STREAM;
		stream->flags = flags;
		stream->timeline.device = device_current();
		stream->device = device_current();
		stream->priority = priority;
		stream->capture = 0;
		stream->poll = (struct poll){ 0 };
	}
	pthread_mutex_unlock(&lock);
	*(struct stream **)handle = stream;
	return stream ? SIM_OK : SIM_OUT_OF_MEMORY;
}

int stream_destroy(void *handle)
{
	pthread_mutex_lock(&lock);
	struct stream *stream = (uintptr_t)handle > 2 ? stream_of(handle) : NULL;
	if (stream) {
		if (settings.streams != STREAMS_TIMED)
			timeline_finish(&stream->timeline, timeline_last(&stream->timeline));
		stream->magic = GONE;
		stream->next = spare_streams;
		spare_streams = stream;
	}
	pthread_mutex_unlock(&lock);
	return stream ? SIM_OK : SIM_INVALID_HANDLE;
}

int stream_priority(void *handle, int *priority)
{
	struct stream *stream = stream_of(handle);
	*priority = stream ? stream->priority : 0;
	return stream ? SIM_OK : SIM_INVALID_HANDLE;
}

int stream_flags(void *handle, unsigned *flags)
{
	struct stream *stream = stream_of(handle);
	*flags = stream ? stream->flags : 0;
	return stream ? SIM_OK : SIM_INVALID_HANDLE;
}

int stream_device(void *handle, int *device)
{
	struct stream *stream = stream_of(handle);
	*device = (uintptr_t)handle > 2 && stream ? stream->device : device_current();
	return stream ? SIM_OK : SIM_INVALID_HANDLE;
}

int stream_synchronize(void *handle)
{
	struct stream *stream = stream_of(handle);
	if (!stream)
		return SIM_INVALID_HANDLE;
	int error = device_use_current(), device;
	if (!error && !stream_device(handle, &device)) {
		struct timeline *t = timeline_of(stream);
		timeline_finish(t, timeline_last(t));
		pool_synchronized(device);
	}
	return error;
}

int stream_query(void *handle)
{
	struct stream *stream = stream_of(handle);
	if (!stream)
		return SIM_INVALID_HANDLE;
	struct timeline *t = timeline_of(stream);
	int error = device_use_current();
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	bool complete = timeline_asked(t, timeline_last(t), &stream->poll);
	pthread_mutex_unlock(&lock);
	return complete ? SIM_OK : SIM_NOT_READY;
}

/* A copy to the host is complete when the call returns, unless it is queued and the memory is
 * pinned. */
void stream_copied(void *handle, const void *to, bool blocking)
{
	struct stream *stream = stream_of(handle);
	if (settings.streams == STREAMS_EARLY || !stream || memory_is_device(to) ||
	    (!blocking && host_find(to)))
		return;
	struct timeline *t = timeline_of(stream);
	timeline_finish(t, timeline_last(t));
}

int device_synchronize(void)
{
	int error = device_use_current();
	if (error)
		return error;
	timeline_finish_all(device_current());
	pool_synchronized(device_current());
	return SIM_OK;
}

/* ---- events */

static struct event *event_of(void *handle)
{
	struct event *event = handle;
	return event && event->magic == EVENT ? event : NULL;
}

int event_create(void *handle, unsigned flags)
{
	int error = device_use_current();
	(void)flags;
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	struct event *event = spare_events;
	if (event)
		spare_events = event->next;
	else
		event = malloc(sizeof *event);
	if (event)
		*event = (struct event){ .magic = EVENT };
	pthread_mutex_unlock(&lock);
	*(struct event **)handle = event;
	return event ? SIM_OK : SIM_OUT_OF_MEMORY;
}

int event_destroy(void *handle)
{
	pthread_mutex_lock(&lock);
	struct event *event = event_of(handle);
	if (event) {
		event->magic = GONE;
		event->next = spare_events;
		spare_events = event;
	}
	pthread_mutex_unlock(&lock);
	return event ? SIM_OK : SIM_INVALID_HANDLE;
}

int event_record(void *handle, void *on)
{
	int error = device_use_current();
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	struct event *event = event_of(handle);
	struct stream *stream = stream_of(on);
	if (event && stream) {
		event->recorded = true;
		event->capture = capture_find(stream->capture) ? stream->capture : 0;
		clock_gettime(CLOCK_MONOTONIC, &event->time);
		event->timeline = event->capture ? NULL : timeline_of(stream);
		event->until = event->timeline ? timeline_mark(event->timeline) : 0;
		event->poll = (struct poll){ 0 };
	}
	pthread_mutex_unlock(&lock);
	return event && stream ? SIM_OK : SIM_INVALID_HANDLE;
}

int event_query(void *handle)
{
	pthread_mutex_lock(&lock); /* another thread may record it again */
	struct event *event = event_of(handle);
	int status =
		!event ? SIM_INVALID_HANDLE
		: !event->timeline || timeline_asked(event->timeline, event->until, &event->poll)
			? SIM_OK
			: SIM_NOT_READY;
	pthread_mutex_unlock(&lock);
	return status;
}

int event_synchronize(void *handle)
{
	pthread_mutex_lock(&lock);
	struct event *event = event_of(handle);
	if (event && event->timeline)
		timeline_finish(event->timeline, event->until);
	pthread_mutex_unlock(&lock);
	if (!event)
		return SIM_INVALID_HANDLE;
	pool_synchronized(device_current());
	return SIM_OK;
}

/* Host time between the records; at least CUDA's documented resolution, because callers divide
 * by it. */
int event_elapsed(void *start, void *end, float *ms)
{
	struct event *a = event_of(start), *b = event_of(end);
	if (!a || !b || !a->recorded || !b->recorded)
		return SIM_INVALID_HANDLE;
	double elapsed = (double)(b->time.tv_sec - a->time.tv_sec) * 1e3 +
			 (double)(b->time.tv_nsec - a->time.tv_nsec) / 1e6;
	*ms = elapsed < 5e-4 ? 5e-4f : (float)elapsed;
	return SIM_OK;
}

int stream_wait(void *on, void *handle)
{
	pthread_mutex_lock(&lock);
	struct event *event = event_of(handle);
	struct stream *stream = stream_of(on);
	if (event && stream && capture_find(event->capture))
		stream->capture = event->capture;
	else if (event && stream && event->timeline)
		timeline_wait(timeline_of(stream), event->timeline, event->until);
	pthread_mutex_unlock(&lock);
	return event && stream ? SIM_OK : SIM_INVALID_HANDLE;
}

/* ---- captures */

int capture_begin(void *handle)
{
	int error = device_use_current();
	if (error)
		return error;
	struct capture *capture = malloc(sizeof *capture);
	struct graph *graph = calloc(1, sizeof *graph);
	pthread_mutex_lock(&lock);
	struct stream *stream = stream_of(handle);
	if (!capture || !graph)
		error = SIM_OUT_OF_MEMORY;
	else if (!stream)
		error = SIM_INVALID_HANDLE;
	else if ((uintptr_t)handle < 2 || capture_find(stream->capture))
		error = 900; /* the legacy stream cannot be captured, nor one that already is */
	if (error) {
		free(capture);
		free(graph);
	} else {
		graph->magic = GRAPH;
		*capture = (struct capture){ ++last_capture, stream, graph, captures };
		stream->capture = capture->id;
		__atomic_store_n(&captures, capture, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int capture_end(void *handle, void *graph)
{
	int error = 901; /* the capture is not this stream's */
	pthread_mutex_lock(&lock);
	struct stream *stream = stream_of(handle);
	for (struct capture **at = &captures; stream && *at; at = &(*at)->next) {
		struct capture *capture = *at;
		if (capture->id != stream->capture || capture->origin != stream)
			continue;
		*(struct graph **)graph = capture->graph;
		*at = capture->next;
		free(capture);
		error = SIM_OK;
		break;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int capture_of(void *handle, unsigned long long *id, void **graph)
{
	int capturing = 0;
	if (!__atomic_load_n(&captures, __ATOMIC_RELAXED))
		return 0;
	pthread_mutex_lock(&lock);
	struct stream *stream = stream_of(handle);
	struct capture *capture = stream ? capture_find(stream->capture) : NULL;
	if (capture) {
		capturing = 1;
		if (id)
			*id = capture->id;
		if (graph)
			*graph = capture->graph;
	}
	pthread_mutex_unlock(&lock);
	return capturing;
}

/* ---- graphs and the objects that they keep alive */

static struct graph *graph_of(void *handle)
{
	struct graph *graph = handle;
	return graph && graph->magic == GRAPH ? graph : NULL;
}

int graph_create(void *handle)
{
	struct graph *graph = calloc(1, sizeof *graph);
	*(struct graph **)handle = graph;
	if (!graph)
		return SIM_OUT_OF_MEMORY;
	graph->magic = GRAPH;
	return sim_ready();
}

int graph_destroy(void *handle)
{
	struct graph *graph = graph_of(handle);
	if (!graph)
		return SIM_INVALID_VALUE;
	while (graph->held) {
		struct held *held = graph->held;
		graph->held = held->next;
		user_object_release(held->object, held->count);
		free(held);
	}
	graph->magic = GONE;
	free(graph);
	return SIM_OK;
}

uint64_t graph_time(void *handle)
{
	struct graph *graph = graph_of(handle);
	return graph ? graph->ns : 0;
}

int graph_nodes(void *handle, void **nodes, size_t *count)
{
	struct graph *graph = graph_of(handle);
	if (!graph)
		return SIM_INVALID_VALUE;
	for (size_t i = 0; nodes && i < *count && i < graph->nodes; i++)
		nodes[i] = (char *)graph + i + 1; /* opaque, and different */
	*count = graph->nodes;
	return SIM_OK;
}

int graph_retain(void *handle, void *object, unsigned count, unsigned flags)
{
	struct graph *graph = graph_of(handle);
	struct held *held = graph ? malloc(sizeof *held) : NULL;
	bool moved =
		flags & 1; /* cudaGraphUserObjectMove: the caller's references become the graph's */
	int error = held ? user_object_retain(object, moved ? 0 : count) : SIM_INVALID_VALUE;
	if (error) {
		free(held);
		return error;
	}
	*held = (struct held){ object, count, graph->held };
	graph->held = held;
	return SIM_OK;
}
