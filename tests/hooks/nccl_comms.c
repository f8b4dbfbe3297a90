/*
 * Communicators made of others, suspended, registered with, and asked what they hold. Two things in
 * one file, by what is defined: LIBRARY is a libnccl.so.2 whose calls take MiB of the device as
 * `takes` says, on a thread of its own as NCCL does; with STATS it tells what each communicator
 * holds. The program prints what the report must say: MiB that each took, and the whole.
 *
 *   nccl_comms many   makes more communicators than are remembered
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct id {
	char internal[128];
};
typedef struct comm *comm_t;

int ncclCommInitRank(comm_t *comm, int size, struct id id, int rank);
int ncclCommShrink(comm_t comm, int *excluded, int count, comm_t *out, void *config, int flags);
int ncclCommGrow(comm_t comm, int size, const struct id *id, int rank, comm_t *out, void *config);
int ncclCommCount(const comm_t comm, int *size);
int ncclCommUserRank(const comm_t comm, int *rank);
int ncclCommMemStats(comm_t comm, int stat, uint64_t *value);
int ncclCommSuspend(comm_t comm, int flags);
int ncclCommResume(comm_t comm);
int ncclCommRegister(comm_t comm, void *buffer, size_t size, void **handle);
int ncclCommDeregister(comm_t comm, void *handle);
int ncclCommWindowRegister(comm_t comm, void *buffer, size_t size, void **window, int flags);
int ncclCommWindowDeregister(comm_t comm, void *window);
int ncclDevCommCreate(comm_t comm, const void *requirements, void *out);
int ncclDevCommDestroy(comm_t comm, const void *made);
int ncclPutSignal(const void *from, size_t count, int type, int peer, void *window, size_t offset,
		  int signal, int context, unsigned flags, comm_t comm, void *stream);
int ncclSignal(int peer, int signal, int context, unsigned flags, comm_t comm, void *stream);
int ncclWaitSignal(int count, void *signals, comm_t comm, void *stream);
int ncclCommDestroy(comm_t comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
extern int takes;  /* MiB that the next call takes for its communicator */
extern int beside; /* MiB that NCCL takes then for nobody */

#ifdef LIBRARY

struct comm {
	int size, rank;
	uint64_t held;
	void *taken[16];
	unsigned count;
};
static struct comm made[512];
static unsigned communicators;
int takes, beside;

struct wish {
	void *p;
	size_t bytes;
};

static void *grant(void *wish)
{
	struct wish *w = wish;

	return cudaMalloc(&w->p, w->bytes) ? NULL : wish;
}

static int take(comm_t comm)
{
	struct wish own = { NULL, (size_t)takes << 20 }, other = { NULL, (size_t)beside << 20 };
	void *done = comm;
	pthread_t thread;

	if (takes) {
		pthread_create(&thread, NULL, grant, &own);
		pthread_join(thread, &done);
		comm->taken[comm->count++] = own.p;
		comm->held += own.bytes;
	}
	if (beside)
		grant(&other);
	takes = beside = 0;
	return done ? 0 : 1;
}

static int give(comm_t comm, size_t mib)
{
	comm->held -= mib << 20;
	return (int)cudaFree(comm->taken[--comm->count]);
}

static int make(comm_t *out, int size, int rank)
{
	*out = &made[communicators++ % 512];
	**out = (struct comm){ .size = size, .rank = rank };
	return take(*out);
}

int ncclCommInitRank(comm_t *comm, int size, struct id id, int rank)
{
	(void)id;
	return make(comm, size, rank);
}

int ncclCommShrink(comm_t comm, int *excluded, int count, comm_t *out, void *config, int flags)
{
	(void)excluded, (void)config, (void)flags;
	return make(out, comm->size - count, comm->rank);
}

int ncclCommGrow(comm_t comm, int size, const struct id *id, int rank, comm_t *out, void *config)
{
	(void)id, (void)config;
	return make(out, size, comm ? comm->rank : rank);
}

int ncclCommCount(const comm_t comm, int *size)
{
	*size = comm->size;
	return 0;
}

int ncclCommUserRank(const comm_t comm, int *rank)
{
	*rank = comm->rank;
	return 0;
}

#ifdef STATS
int ncclCommMemStats(comm_t comm, int stat, uint64_t *value)
{
	*value = comm->held;
	return stat == 3 ? 0 : 4;
}
#endif

int ncclCommSuspend(comm_t comm, int flags)
{
	(void)flags;
	return give(comm, 8);
}

int ncclCommResume(comm_t comm)
{
	return take(comm);
}

int ncclCommRegister(comm_t comm, void *buffer, size_t size, void **handle)
{
	(void)buffer, (void)size;
	*handle = comm;
	return take(comm);
}

int ncclCommDeregister(comm_t comm, void *handle)
{
	(void)handle;
	return give(comm, 16);
}

int ncclCommWindowRegister(comm_t comm, void *buffer, size_t size, void **window, int flags)
{
	(void)flags;
	return ncclCommRegister(comm, buffer, size, window);
}

int ncclCommWindowDeregister(comm_t comm, void *window)
{
	(void)window;
	return give(comm, 32);
}

int ncclDevCommCreate(comm_t comm, const void *requirements, void *out)
{
	(void)requirements, (void)out;
	return take(comm);
}

int ncclDevCommDestroy(comm_t comm, const void *of)
{
	(void)of;
	return give(comm, 64);
}

int ncclPutSignal(const void *from, size_t count, int type, int peer, void *window, size_t offset,
		  int signal, int context, unsigned flags, comm_t comm, void *stream)
{
	(void)from, (void)count, (void)type, (void)peer, (void)window, (void)offset;
	(void)signal, (void)context, (void)flags, (void)stream;
	return take(comm);
}

int ncclSignal(int peer, int signal, int context, unsigned flags, comm_t comm, void *stream)
{
	(void)peer, (void)signal, (void)context, (void)flags, (void)stream;
	return take(comm);
}

int ncclWaitSignal(int count, void *signals, comm_t comm, void *stream)
{
	(void)count, (void)signals, (void)stream;
	return take(comm);
}

int ncclCommDestroy(comm_t comm)
{
	while (comm->count)
		cudaFree(comm->taken[--comm->count]);
	return 0;
}

int ncclGroupStart(void)
{
	return 0;
}

int ncclGroupEnd(void)
{
	return 0;
}

#else

static int taking(int mib)
{
	takes = mib;
	return 0;
}

/* 300 at once, of which 256 are remembered; the ends of the others are not. */
static int many(void)
{
	static comm_t all[300];
	struct id id = { { 0 } };
	int failed = 0;

	for (int i = 0; i < 300; i++)
		failed |= ncclCommInitRank(&all[i], 2, id, 0);
	for (int i = 0; i < 300; i++)
		failed |= ncclCommDestroy(all[i]);
	return failed;
}

int main(int argc, char **argv)
{
	struct id id = { { 0 } };
	comm_t a, shrunk, grown, joined;
	int out[] = { 3 }, failed;
	void *own, *handle;

	failed = (int)cudaMalloc(&own, 1 << 20);
	if (argc > 1 && strcmp(argv[1], "many") == 0)
		return failed | many();
	failed |= taking(2) | ncclCommInitRank(&a, 4, id, 1);              /* a 2 */
	failed |= taking(2) | ncclCommShrink(a, out, 1, &shrunk, NULL, 0); /* shrunk 2, size 3 */
	failed |= taking(4) | ncclCommGrow(shrunk, 5, NULL, -1, &grown, NULL); /* grown 4, size 5 */
	failed |= ncclCommGrow(NULL, 6, &id, 5, &joined, NULL);                /* joined 0 */
	failed |= taking(8) | ncclSignal(0, 0, 0, 0, grown, NULL);             /* grown 12 */
	failed |= ncclCommSuspend(grown, 1);                                   /* 4 */
	failed |= taking(8) | ncclCommResume(grown);                           /* 12 */
	failed |= taking(16) | ncclCommRegister(a, own, 1 << 20, &handle);     /* a 18 */
	failed |= ncclCommDeregister(a, handle);                               /* a 2 */
	failed |= taking(32) | ncclCommWindowRegister(a, own, 1 << 20, &handle, 0); /* a 34 */
	failed |= ncclCommWindowDeregister(a, handle);                              /* a 2 */
	failed |= taking(64) | ncclDevCommCreate(shrunk, NULL, NULL);               /* shrunk 66 */
	failed |= ncclDevCommDestroy(shrunk, NULL);                                 /* shrunk 2 */
	failed |= taking(128) |
		  ncclPutSignal(NULL, 1, 0, 0, NULL, 0, 0, 0, 0, shrunk, NULL); /* 130 */
	failed |= ncclGroupStart() | taking(4) | ncclWaitSignal(1, NULL, joined, NULL);
	failed |= taking(5) | ncclWaitSignal(1, NULL, a, NULL) | ncclGroupEnd(); /* joined 4, a 7 */
	beside = 7; /* for no communicator: told apart only if NCCL can be asked */
	failed |= taking(9) | ncclSignal(0, 0, 0, 0, joined, NULL); /* joined 13, or 20 */
	printf("7 130 12 13\n");
	return failed;
}

#endif
