/* Streams, events and captures, for the runtime and the driver alike (their handles are the same).
 */
#ifndef CUDASIM_STREAM_H
#define CUDASIM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel, copy or fill was queued, which takes `ns` with the timed model. */
void stream_work(void *stream, uint64_t ns);
/* Work of a library on a stream that is not known: of a capture, if there is one. */
void stream_library_work(void);
/* A copy to `to` was queued; `blocking`: its caller waits for it. */
void stream_copied(void *stream, const void *to, bool blocking);
int device_synchronize(void);

int stream_create(void *handle, unsigned flags, int priority);
int stream_destroy(void *handle);
int stream_priority(void *handle, int *priority);
int stream_flags(void *handle, unsigned *flags);
int stream_device(void *handle, int *device);
int stream_synchronize(void *handle);
int stream_query(void *handle); /* SIM_OK: complete; SIM_NOT_READY */
int stream_wait(void *stream, void *event);
int event_create(void *handle, unsigned flags);
int event_destroy(void *handle);
int event_record(void *event, void *stream);
int event_query(void *event); /* SIM_OK: complete; SIM_NOT_READY */
int event_synchronize(void *event);
int event_elapsed(void *start, void *end, float *ms);
int capture_begin(void *stream);
int capture_end(void *stream, void *graph);
int capture_of(void *stream, unsigned long long *id, void **graph); /* 1 while capturing, else 0 */
int graph_create(void *graph);
int graph_destroy(void *graph);
uint64_t graph_time(void *graph); /* ns of the work that was captured */
int graph_nodes(void *graph, void **nodes, size_t *count);
int graph_retain(void *graph, void *object, unsigned count, unsigned flags);

#endif
