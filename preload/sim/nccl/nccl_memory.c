/* The memory that NCCL's communicators take of their device, and the moment: the table is
 * nccl.def. The driver is asked by its exported entry points, as NCCL does, so that a tracer
 * sees the calls. */
#include "nccl/nccl_memory.h"

#include "device/common.h"
#include "device/device.h"
#include "device/gpu.h"
#include "device/settings.h"
#include "nccl/comm.h"
#include "nccl/version.h"

#include <stdlib.h>

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes);
EXPORT int cuMemFree_v2(uint64_t address);

enum { SENDS = 1, RECEIVES = 2 };
enum {
#define NCCL_BUFFERS(use, channels, bytes) use,
#include "nccl/nccl.def"
};

static uint64_t buffers(int use)
{
	static const uint64_t table[] = {
#define NCCL_BUFFERS(use, channels, bytes) [use] = (uint64_t)(channels) * (bytes),
#include "nccl/nccl.def"
	};
	return table[use];
}

static int nccl_version(void)
{
	int version = 0;
	return ncclGetVersion(&version) ? NCCL_LAZY : version;
}

/* The job's ranks that belong to it are not known: if they fit into one node, they are taken to
 * be in one. */
static bool in_a_node(const struct comm *comm)
{
	return (uint64_t)comm->ranks <= settings.gpus;
}

static int allocate(struct comm *comm, uint64_t bytes)
{
	int current = device_current(), error;
	unsigned at = atomic_fetch_add(&comm->buffers, 1);
	device_select(comm->device);
	error = cuMemAlloc_v2(&comm->buffer[at], bytes);
	if (!error)
		atomic_fetch_add(&comm->taken, bytes);
	device_select(current);
	return error;
}

static int take(struct comm *comm, const char *call, uint64_t bytes)
{
	if (allocate(comm, bytes)) {
		sim_say("%s: no %llu bytes left on device %d for NCCL's buffers in a communicator of %d ranks",
			call, (unsigned long long)bytes, comm->device, comm->ranks);
		return NCCL_CUDA_ERROR;
	}
	sim_log("%s: %llu bytes for NCCL's buffers", call, (unsigned long long)bytes);
	return NCCL_OK;
}

void nccl_memory_released(struct comm *comm)
{
	for (unsigned i = 0; i < comm->buffers; i++)
		if (comm->buffer[i])
			cuMemFree_v2(comm->buffer[i]);
}

static int capability(void)
{
	return 10 * settings.card->major + settings.card->minor;
}

/* The memory that the driver takes for NCCL's kernels, once in a process and device, and never
 * frees. LAUNCHES: the stack of the kernels too. */
static uint64_t of_kernels(int device, int v, bool launches)
{
	static atomic_bool loaded[MAX_DEVICES], launched[MAX_DEVICES];
	int sm = capability(), best = 0;
	uint64_t image = 0, beside = 0, stack = 0, bytes = 0;
#define NCCL_IMAGE(since, from, code, needs)                           \
	if (v >= (since) && sm >= (from) && (from) >= best) {          \
		best = (from), image = (code);                         \
		stack = (needs) > NCCL_STACK ? (needs)-NCCL_STACK : 0; \
	}
#define NCCL_LOADED(from, size) beside = sm >= (from) ? (size) : beside;
#include "nccl/nccl.def"
	if (!atomic_exchange(&loaded[device], true))
		bytes += image + beside;
	if (launches && !atomic_exchange(&launched[device], true))
		bytes += stack * gpu_threads(settings.card);
	return bytes;
}

int nccl_memory_created(struct comm *comm)
{
	const char *call = "ncclCommInitRank";
	int v = nccl_version(), n = comm->ranks, rank = comm->rank, sm = capability();
	bool near = in_a_node(comm);
	uint64_t bytes = 0, kernels = of_kernels(comm->device, v, n > 1);
#define NCCL_CREATED(id, when, size) bytes += (when) ? (uint64_t)(size) : 0;
#include "nccl/nccl.def"
	if (device_use(comm->device) || device_charge(comm->device, kernels)) {
		sim_say("%s: no %llu bytes left on device %d for NCCL's kernels", call,
			(unsigned long long)kernels, comm->device);
		return NCCL_CUDA_ERROR;
	}
	sim_log("%s: %llu bytes for NCCL's kernels", call, (unsigned long long)kernels);
	comm->late = n > 1 && v >= NCCL_LAZY;
	if (comm->late && !(comm->connected = calloc((size_t)n, 1)))
		return NCCL_SYSTEM_ERROR;
	return bytes ? take(comm, call, bytes) : NCCL_OK;
}

int nccl_memory_collective(struct comm *comm, const char *call, uint64_t nvls)
{
	uint64_t bytes = 0;
	if (!comm || !comm->late)
		return NCCL_OK;
	int n = comm->ranks, sm = capability();
	bool near = in_a_node(comm);
	if (!atomic_exchange(&comm->ring, true))
		bytes += buffers(RING_RECEIVE) + buffers(RING_SEND);
	if (nvls >= NCCL_NVLS_FROM && NCCL_HAS_NVLS && !atomic_exchange(&comm->nvls, true))
		bytes += buffers(NVLS_RANK) * (uint64_t)n;
	return bytes ? take(comm, call, bytes) : NCCL_OK;
}

int nccl_memory_message(struct comm *comm, const char *call, int peer, bool receive)
{
	int way = receive ? RECEIVES : SENDS;
	bool near = in_a_node(comm);
	if (!comm->late || peer == comm->rank ||
	    (atomic_fetch_or(&comm->connected[near ? peer : 0], (unsigned char)way) & way))
		return NCCL_OK;
	if (near)
		return take(comm, call, buffers(receive ? PEER_RECEIVE : PEER_SEND));
	return take(comm, call, buffers(receive ? NET_RECEIVE : NET_SEND));
}

/* NCCL makes these of a send to and a receive from every rank. */
int nccl_memory_all_to_all(struct comm *comm, const char *call, bool send, bool receive)
{
	int error = NCCL_OK;
	for (int i = 0; comm && !error && i < comm->ranks; i++) {
		if (send)
			error = nccl_memory_message(comm, call, i, false);
		if (receive && !error)
			error = nccl_memory_message(comm, call, i, true);
	}
	return error;
}
