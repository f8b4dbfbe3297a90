/* NCCL's functions that are wrapped, as nccl.h declares them: it is not needed to build. */
#ifndef PRELOAD_NCCL_H
#define PRELOAD_NCCL_H

#include <stddef.h>

struct nccl_id {
	char internal[128];
};

/* ncclResult_t */
enum { NCCL_SUCCESS = 0, NCCL_SYSTEM_ERROR = 2, NCCL_IN_PROGRESS = 7 };

/* In a forked child. */
void nccl_forget(void);

int ncclCommInitRank(void **comm, int size, struct nccl_id id, int rank);
int ncclCommInitRankConfig(void **comm, int size, struct nccl_id id, int rank, void *config);
int ncclCommInitRankScalable(void **comm, int size, int rank, int ids, struct nccl_id *id,
			     void *config);
int ncclCommInitAll(void **comms, int devices, const int *list);
int ncclCommSplit(void *comm, int color, int key, void **out, void *config);
int ncclCommFinalize(void *comm);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclMemAlloc(void **pointer, size_t bytes);
int ncclMemFree(void *pointer);

#endif
