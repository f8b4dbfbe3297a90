/* Sizes that the device, the libraries' versions and the environment decide. */
#ifndef MEMTRACE_CONSTANTS_H
#define MEMTRACE_CONSTANTS_H

#include <stdint.h>

struct allocator_settings;
struct estimate;
struct inputs;
struct hparams;

/* What the device, the libraries' versions and the environment make constant */
struct constants {
	int64_t gemm_workspace;   /* bytes of cuBLAS's workspace */
	int64_t lt_workspace;     /* of cuBLASLt, for one call */
	int gemm_workspace_lasts; /* one for each (thread, stream), kept; otherwise one a call,
				     freed after it */
	int torch;                /* 2.15 is 215 */
	int sm;                   /* compute capability: 90 */
	/* Transformer Engine may choose kernels whose results differ from run to run */
	int nondeterministic;
	int64_t multiprocessors;
	int64_t te_workspace; /* of Transformer Engine's products */
	int64_t flush_buffer; /* of torch.compile's measurements */
	int gpu_given, torch_given, workspace_given;
	int64_t context; /* CUDA context, outside the allocator */
};

/* By version of PyTorch, GPU and environment. */
int constants_read(struct constants *k, struct allocator_settings *a, struct inputs *in);
/* Each with its kind and source. */
void constants_list(const struct constants *k, const struct hparams *s, struct estimate *out);

#endif
