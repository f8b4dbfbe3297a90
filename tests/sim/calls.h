#ifndef CALLS_H
#define CALLS_H

#include <stddef.h>

/* The few declarations of nccl.h that are used: the header is not needed to build. */
typedef struct {
	char bytes[128];
} ncclUniqueId;
typedef struct comm *ncclComm_t;
enum {
	INT8,
	UINT8,
	INT32,
	UINT32,
	INT64,
	UINT64,
	HALF,
	FLOAT,
	DOUBLE,
	BFLOAT16,
	FLOAT8E4M3,
	FLOAT8E5M2
};
enum { SUM, PROD, MAX, MIN, AVG };
enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
int ncclGetUniqueId(ncclUniqueId *id);
int ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank);
int ncclCommDestroy(ncclComm_t comm);
int ncclCommAbort(ncclComm_t comm);
int ncclCommCount(ncclComm_t comm, int *count);
int ncclCommUserRank(ncclComm_t comm, int *rank);
int ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t *out, void *config);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
		  ncclComm_t comm, void *stream);
int ncclAllGather(const void *from, void *to, size_t count, int type, ncclComm_t comm,
		  void *stream);
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
		      ncclComm_t comm, void *stream);
int ncclAlltoAll(const void *from, void *to, size_t count, int type, ncclComm_t comm, void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
		  void *stream);
int ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root,
	       ncclComm_t comm, void *stream);
int ncclGather(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
	       void *stream);
int ncclScatter(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
		void *stream);
int ncclSend(const void *data, size_t count, int type, int peer, ncclComm_t comm, void *stream);
int ncclRecv(void *data, size_t count, int type, int peer, ncclComm_t comm, void *stream);
int ncclRedOpCreatePreMulSum(int *operation, void *scalar, int type, int residence,
			     ncclComm_t comm);
int ncclRedOpDestroy(int operation, ncclComm_t comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);

#endif
