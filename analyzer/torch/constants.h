/* Sizes that the device, the libraries' versions and the environment decide. */
#ifndef MEMTRACE_TORCH_CONSTANTS_H
#define MEMTRACE_TORCH_CONSTANTS_H

#include <stdint.h>

struct allocator_settings;
struct estimate;
struct inputs;
struct hparams;

struct constants {
	int64_t gemm_workspace;   /* bytes of cuBLAS's workspace */
	int64_t lt_workspace;     /* bytes of cuBLASLt's workspace for one call */
	int gemm_workspace_lasts; /* 1: each thread and stream keeps a workspace; 0: each call frees
				     its own */
	int torch;                /* PyTorch's version: 215 is 2.15 */
	int sm;                   /* compute capability: 90 is 9.0 */
	/* Transformer Engine may choose nondeterministic kernels */
	int nondeterministic;
	int64_t multiprocessors, threads; /* that the GPU holds at a time */
	int64_t te_workspace; /* bytes of the workspace of Transformer Engine's products */
	int te_full_masks;    /* its unfused attention has a mask for each call */
	int64_t flush_buffer; /* bytes of the buffer of torch.compile's measurements */
	int gpu_given, torch_given, workspace_given;
	int64_t context; /* bytes of the CUDA context */
};

/* Reads the version of PyTorch, the GPU and the environment. -1: in->e says why. */
int constants_read(struct constants *k, struct allocator_settings *a, struct inputs *in);
/* Adds the constants to the estimate, each with its kind and source. */
void constants_list(const struct constants *k, const struct hparams *s, struct estimate *out);

#endif
