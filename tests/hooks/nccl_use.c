/*
 * Communicators that take memory when they are used. Two things in one file, by what is defined:
 * LIBRARY is a libnccl.so.2 that allocates what will_take() said, at the next call or at the end of
 * the next group, on a thread of its own as NCCL does; the program says what each communicator
 * took.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>

struct id {
	char internal[128];
};

int ncclCommInitRank(char **comm, int size, struct id id, int rank);
int ncclCommSplit(char *comm, int color, int key, char **out, void *config);
int ncclCommCount(const char *comm, int *size);
int ncclCommDestroy(char *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, char *comm,
		  void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, char *comm,
		  void *stream);
int ncclBcast(void *data, size_t count, int type, int root, char *comm, void *stream);
int ncclSend(const void *data, size_t count, int type, int peer, char *comm, void *stream);
void will_take(int mib_at_call, int mib_at_end);
int take_unasked(int mib);

#ifdef LIBRARY

static int at_call, at_end, depth;
static char made[3];
static int communicators;

static void *take(void *mib)
{
	void *p;

	return cudaMalloc(&p, (size_t) * (int *)mib << 20) ? NULL : mib;
}

static int taken(int *mib)
{
	pthread_t thread;
	void *done = mib;

	if (*mib) {
		pthread_create(&thread, NULL, take, mib);
		pthread_join(thread, &done);
		*mib = 0;
	}
	return done ? 0 : 1;
}

void will_take(int mib_at_call, int mib_at_end)
{
	at_call = mib_at_call;
	at_end = mib_at_end;
}

int ncclCommInitRank(char **comm, int size, struct id id, int rank)
{
	(void)size, (void)id, (void)rank;
	*comm = &made[communicators++];
	return 0;
}

int take_unasked(int mib)
{
	return taken(&mib);
}

int ncclCommSplit(char *comm, int color, int key, char **out, void *config)
{
	(void)comm, (void)color, (void)key, (void)config;
	*out = &made[communicators++];
	return taken(&at_call);
}

int ncclCommCount(const char *comm, int *size)
{
	(void)comm;
	*size = 5;
	return 0;
}

int ncclCommDestroy(char *comm)
{
	(void)comm;
	return 0;
}

int ncclGroupStart(void)
{
	depth++;
	return 0;
}

int ncclGroupEnd(void)
{
	depth -= depth > 0;
	return depth ? 0 : taken(&at_end);
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, char *comm,
		  void *stream)
{
	(void)from, (void)to, (void)count, (void)type, (void)operation, (void)comm, (void)stream;
	return taken(&at_call);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, char *comm,
		  void *stream)
{
	(void)from, (void)to, (void)count, (void)type, (void)root, (void)comm, (void)stream;
	return taken(&at_call);
}

int ncclBcast(void *data, size_t count, int type, int root, char *comm, void *stream)
{
	return ncclBroadcast(data, data, count, type, root, comm, stream);
}

int ncclSend(const void *data, size_t count, int type, int peer, char *comm, void *stream)
{
	(void)data, (void)count, (void)type, (void)peer, (void)comm, (void)stream;
	return taken(&at_call);
}

#else

int main(void)
{
	struct id id = { { 0 } };
	char *a, *b, *c;
	void *own;
	int failed = ncclCommInitRank(&a, 2, id, 0) | ncclCommInitRank(&b, 3, id, 1);

	failed |= (int)cudaMalloc(&own, 64 << 20);             /* nobody's but the program's */
	will_take(2, 0);                                       /* the device gives whole 2 MiB */
	failed |= ncclAllReduce(NULL, NULL, 1, 0, 0, a, NULL); /* a 2 */
	will_take(0, 2);
	failed |= ncclGroupStart() | ncclAllReduce(NULL, NULL, 1, 0, 0, a, NULL) |
		  ncclAllReduce(NULL, NULL, 1, 0, 0, a, NULL) | ncclGroupEnd(); /* a 4 */
	will_take(4, 8);
	failed |= ncclGroupStart() | ncclSend(NULL, 1, 0, 0, b, NULL) |
		  ncclAllReduce(NULL, NULL, 1, 0, 0, a, NULL) | ncclGroupEnd(); /* b 4; 8 of both */
	will_take(0, 16);
	failed |= ncclGroupStart() | ncclGroupStart() | ncclSend(NULL, 1, 0, 0, b, NULL) |
		  ncclGroupEnd() | ncclGroupEnd(); /* b 20 */
	will_take(32, 0);
	failed |= ncclBcast(NULL, 1, 0, 0, b, NULL); /* b 52 */
	failed |= ncclGroupStart() | ncclAllReduce(NULL, NULL, 1, 0, 0, a, NULL);
	will_take(64, 0); /* what c is made of is c's only */
	failed |= ncclCommSplit(a, 0, 0, &c, NULL) | ncclGroupEnd();
	failed |= take_unasked(128) | ncclGroupEnd(); /* the end of no group is nobody's use */
	failed |= ncclCommDestroy(a) | ncclCommDestroy(b) | ncclCommDestroy(c);
	printf("4 52 64 of 256\n");
	return failed;
}

#endif
