/* The wrapped functions of NCCL, as nccl.h declares them: that header is not needed to build. */
#ifndef PRELOAD_NCCL_H
#define PRELOAD_NCCL_H

#include <stddef.h>
#include <stdint.h>

struct nccl_id {
	char internal[128];
};

/* ncclResult_t */
enum { NCCL_SUCCESS = 0, NCCL_CUDA_ERROR = 1, NCCL_SYSTEM_ERROR = 2, NCCL_IN_PROGRESS = 7 };

int ncclCommInitRank(void **comm, int size, struct nccl_id id, int rank);
int ncclCommInitRankConfig(void **comm, int size, struct nccl_id id, int rank, void *config);
int ncclCommInitRankScalable(void **comm, int size, int rank, int ids, struct nccl_id *id,
			     void *config);
int ncclCommInitAll(void **comms, int devices, const int *list);
int ncclCommSplit(void *comm, int color, int key, void **out, void *config);
int ncclCommShrink(void *comm, int *excluded, int count, void **out, void *config, int flags);
int ncclCommGrow(void *comm, int size, const struct nccl_id *id, int rank, void **out,
		 void *config);
int ncclCommSuspend(void *comm, int flags);
int ncclCommResume(void *comm);
int ncclCommRegister(void *comm, void *buffer, size_t size, void **handle);
int ncclCommDeregister(void *comm, void *handle);
int ncclCommWindowRegister(void *comm, void *buffer, size_t size, void **window, int flags);
int ncclCommWindowDeregister(void *comm, void *window);
int ncclDevCommCreate(void *comm, const void *requirements, void *out);
int ncclDevCommDestroy(void *comm, const void *made);
int ncclCommFinalize(void *comm);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *comm,
		  void *stream);
int ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root,
	       void *comm, void *stream);
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation, void *comm,
		      void *stream);
int ncclAllGather(const void *from, void *to, size_t count, int type, void *comm, void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *comm,
		  void *stream);
int ncclBcast(void *data, size_t count, int type, int root, void *comm, void *stream);
int ncclSend(const void *data, size_t count, int type, int peer, void *comm, void *stream);
int ncclRecv(void *data, size_t count, int type, int peer, void *comm, void *stream);
int ncclAlltoAll(const void *from, void *to, size_t count, int type, void *comm, void *stream);
int ncclGather(const void *from, void *to, size_t count, int type, int root, void *comm,
	       void *stream);
int ncclScatter(const void *from, void *to, size_t count, int type, int root, void *comm,
		void *stream);
int ncclPutSignal(const void *from, size_t count, int type, int peer, void *window, size_t offset,
		  int signal, int context, unsigned flags, void *comm, void *stream);
int ncclSignal(int peer, int signal, int context, unsigned flags, void *comm, void *stream);
int ncclWaitSignal(int count, void *signals, void *comm, void *stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclMemAlloc(void **pointer, size_t bytes);
int ncclMemFree(void *pointer);

#endif
