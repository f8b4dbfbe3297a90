/* The runtime's stream, event and graph calls: stream.c's functions under the runtime's names. */
#include "api/runtime.h"
#include "device/common.h"
#include "device/device.h"
#include "device/handle.h"
#include "device/stream.h"

#include <string.h>

/* Entry points of older CUDA majors, which today's headers do not declare. */
EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
					       enum cudaStreamCaptureStatus *status,
					       unsigned long long *id, cudaGraph_t *graph,
					       const cudaGraphNode_t **dependencies, size_t *count);
EXPORT cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
					       enum cudaStreamCaptureStatus *status,
					       unsigned long long *id, cudaGraph_t *graph,
					       const cudaGraphNode_t **dependencies,
					       const cudaGraphEdgeData **edges, size_t *count);
EXPORT cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
							  cudaGraphNode_t *dependencies,
							  const cudaGraphEdgeData *edges,
							  size_t count, unsigned flags);
EXPORT cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end);

EXPORT cudaError_t cudaStreamCreate(cudaStream_t *s)
{
	return rt(stream_create(s, 0, 0));
}
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned f)
{
	return rt(stream_create(s, f, 0));
}
EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned f, int p)
{
	return rt(stream_create(s, f, p));
}
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	return rt(stream_destroy(s));
}
EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t s, int *p)
{
	return rt(stream_priority(s, p));
}
PTSZ(cudaStreamGetPriority);
EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned *f)
{
	return rt(stream_flags(s, f));
}
PTSZ(cudaStreamGetFlags);
EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t s, int *d)
{
	return rt(stream_device(s, d));
}
PTSZ(cudaStreamGetDevice);
EXPORT cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long *id)
{
	*id = (unsigned long long)(uintptr_t)s;
	return rt(sim_ready());
}
PTSZ(cudaStreamGetId);
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	return rt(stream_synchronize(s));
}
PTSZ(cudaStreamSynchronize);
EXPORT cudaError_t cudaStreamQuery(cudaStream_t s)
{
	return rt(stream_query(s));
}
PTSZ(cudaStreamQuery);
EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned f)
{
	(void)f;
	return rt(stream_wait(s, e));
}
PTSZ(cudaStreamWaitEvent);

/* Host functions run at once, in the caller: all work before them is complete. */
EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t function, void *data)
{
	stream_work(s, 0);
	if (!capture_of(s, NULL, NULL))
		function(data);
	return rt(sim_ready());
}
PTSZ(cudaLaunchHostFunc);
EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t callback, void *data,
					 unsigned flags)
{
	(void)flags;
	callback(s, cudaSuccess, data);
	return rt(sim_ready());
}
PTSZ(cudaStreamAddCallback);

EXPORT cudaError_t cudaEventCreate(cudaEvent_t *e)
{
	return rt(event_create(e, 0));
}
EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned f)
{
	return rt(event_create(e, f));
}
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	return rt(event_destroy(e));
}
EXPORT cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	return rt(event_record(e, s));
}
PTSZ(cudaEventRecord);
EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned f)
{
	(void)f;
	return rt(event_record(e, s));
}
PTSZ(cudaEventRecordWithFlags);
EXPORT cudaError_t cudaEventQuery(cudaEvent_t e)
{
	return rt(event_query(e));
}
EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
	return rt(event_synchronize(e));
}
EXPORT cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
	return rt(event_elapsed(a, b, ms));
}
EXPORT cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t a, cudaEvent_t b)
{
	return rt(event_elapsed(a, b, ms));
}

/* ---- captures */

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
	(void)mode;
	return rt(capture_begin(s));
}
PTSZ(cudaStreamBeginCapture);
EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
	return rt(capture_end(s, graph));
}
PTSZ(cudaStreamEndCapture);
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
	*status = capture_of(s, NULL, NULL) ? cudaStreamCaptureStatusActive
					    : cudaStreamCaptureStatusNone;
	return rt(sim_ready());
}
PTSZ(cudaStreamIsCapturing);
EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	static _Thread_local enum cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
	enum cudaStreamCaptureMode previous = current;
	current = *mode;
	*mode = previous;
	return rt(sim_ready());
}

static cudaError_t capture_info(cudaStream_t s, enum cudaStreamCaptureStatus *status,
				unsigned long long *id, cudaGraph_t *graph)
{
	*status = capture_of(s, id, (void **)graph) ? cudaStreamCaptureStatusActive
						    : cudaStreamCaptureStatusNone;
	return rt(sim_ready());
}

/* Order inside a capture is not kept, so no node depends on another: an empty list, not a NULL
 * one. */
static void no_dependencies(const cudaGraphNode_t **list, const cudaGraphEdgeData **edges,
			    size_t *count)
{
	static const cudaGraphNode_t none[1];
	if (list)
		*list = none;
	if (edges)
		*edges = NULL;
	if (count)
		*count = 0;
}

/* The plain name takes three arguments until CUDA 12 and seven since 13: an older caller does
 * not pass the other four. */
EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus *status,
					    unsigned long long *id, cudaGraph_t *graph,
					    const cudaGraphNode_t **list,
					    const cudaGraphEdgeData **edges, size_t *count)
{
	if (cuda_major() < 13)
		return capture_info(s, status, id, NULL);
	no_dependencies(list, edges, count);
	return capture_info(s, status, id, graph);
}
PTSZ(cudaStreamGetCaptureInfo);
EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t s, enum cudaStreamCaptureStatus *status,
					       unsigned long long *id, cudaGraph_t *graph,
					       const cudaGraphNode_t **list, size_t *count)
{
	no_dependencies(list, NULL, count);
	return capture_info(s, status, id, graph);
}
PTSZ(cudaStreamGetCaptureInfo_v2);
EXPORT cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t s, enum cudaStreamCaptureStatus *status,
					       unsigned long long *id, cudaGraph_t *graph,
					       const cudaGraphNode_t **list,
					       const cudaGraphEdgeData **edges, size_t *count)
{
	no_dependencies(list, edges, count);
	return capture_info(s, status, id, graph);
}
PTSZ(cudaStreamGetCaptureInfo_v3);

/* ---- graphs: a launch is a piece of work, as long as what was captured */

enum { EXECUTABLE = 0x45584543 };
struct executable {
	unsigned magic;
	uint64_t ns;
};

static struct executable *executable_of(cudaGraphExec_t handle)
{
	struct executable *e = (struct executable *)handle;
	return e && e->magic == EXECUTABLE ? e : NULL;
}

EXPORT cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags)
{
	(void)flags;
	return rt(graph_create(graph));
}
EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	return rt(graph_destroy(graph));
}
EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
	return rt(graph_nodes(graph, (void **)nodes, count));
}
EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
	return rt(graph_nodes(graph, (void **)nodes, count));
}
EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
	(void)node;
	*type = cudaGraphNodeTypeKernel;
	return rt(sim_ready());
}
/* CUDA 13 inserted the edges between the nodes and their number. */
EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *list,
						cudaGraphEdgeData *edges, size_t *count)
{
	(void)node, (void)list;
	*(cuda_major() >= 13 ? count : (size_t *)edges) = 0;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
					unsigned long long flags)
{
	(void)flags;
	struct executable *made = malloc(sizeof *made);
	if (!made)
		return rt(SIM_OUT_OF_MEMORY);
	*made = (struct executable){ EXECUTABLE, graph_time(graph) };
	*exec = (cudaGraphExec_t)made;
	return rt(sim_ready());
}
EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
						 unsigned long long flags)
{
	return cudaGraphInstantiate(exec, graph, flags);
}
EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	struct executable *e = executable_of(exec);
	if (!e)
		return rt(SIM_INVALID_VALUE);
	e->magic = 0;
	free(e);
	return rt(sim_ready());
}
EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
	struct executable *e = executable_of(exec);
	if (!e)
		return rt(SIM_INVALID_VALUE);
	stream_work(s, e->ns);
	return rt(sim_ready());
}
PTSZ(cudaGraphLaunch);
EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *data, cudaHostFn_t destroy,
					unsigned count, unsigned flags)
{
	(void)flags;
	return rt(user_object_create(object, data, destroy, count));
}
EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count)
{
	return rt(user_object_release(object, count));
}
EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
					     unsigned count, unsigned flags)
{
	return rt(graph_retain(graph, object, count, flags));
}
