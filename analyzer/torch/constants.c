/* Constants of the GPU, PyTorch's version and the environment. */
#include "torch/constants.h"

#include "estimate/device.h"
#include "allocator/allocator.h"
#include "torch/hparams.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/cublas.h"
#include "util/util.h"

/* Assumed for the containers of Megatron-LM's golden values, whose PyTorch version is not recorded.
 */
#define TORCH_OF_CONTAINERS 211
/* The workspace of a product with bias, which goes through cuBLASLt (CUDABlas.cpp); freed after the
 * call. */
#define LT_WORKSPACE (INT64_C(1) << 20)
/* transformer_engine/pytorch/module/base.py, get_workspace(): one for each device, kept until the
 * process ends */
#define TE_WORKSPACE_HOPPER ((INT64_C(32) << 20) + 1024)
#define TE_WORKSPACE_BEFORE (INT64_C(4) << 20)
/* The CUDA context and PyTorch's modules, measured on one A100 (document 001). */
#define CONTEXT (INT64_C(863) << 20)
#define L2_OF_H100 (INT64_C(50) << 20)
/* triton/testing.py, do_bench() */
#define FLUSH_OF_TRITON 256000000

/* "2.15.0+cu132" gives 215. */
static int version(struct inputs *in)
{
	const char *text = VALUE_OR(in->c, torch_version, "2.15");
	int major, minor;

	if (sscanf(text, "%d.%d", &major, &minor) == 2 && major >= 1 && minor >= 0 && minor < 100)
		return 100 * major + minor;
	input_reject(in, CONFIG_torch_version, "a version such as 2.7.1");
	return 0;
}

static const char *variable(const json_t *environment, const char *name)
{
	return json_string_value(json_object_get(environment, name));
}

static int read_environment(struct constants *k, struct allocator_settings *a, struct inputs *in)
{
	json_t *environment =
		GIVEN(in->c, environment) ? json_loads(in->c->environment, 0, NULL) : NULL;
	const char *conf = variable(environment, "PYTORCH_CUDA_ALLOC_CONF"),
		   *workspace = variable(environment, "CUBLAS_WORKSPACE_CONFIG");
	int status = 0;
	const char *choice = variable(environment, "NVTE_ALLOW_NONDETERMINISTIC_ALGO");

	k->nondeterministic = !choice || strcmp(choice, "0") != 0;

	if (!conf && k->torch >= 210)
		conf = variable(environment, "PYTORCH_ALLOC_CONF");
	if (allocator_configure(a, conf ? conf : "", k->torch, in->e) < 0)
		status = -1;
	if (!status && workspace) {
		k->workspace_given = 1;
		k->gemm_workspace =
			cublas_workspace_parse((struct str){ workspace, strlen(workspace) });
		if (k->gemm_workspace < 0)
			status = err_set(
				in->e,
				"CUBLAS_WORKSPACE_CONFIG is \"%s\", expected :KIB:COUNT pairs",
				workspace);
	}
	json_decref(environment);
	return status;
}

/* torch/_inductor/runtime/benchmarking.py: while torch.compile looks for the fastest configuration
 * of a kernel, it writes this buffer between the runs to empty the L2 cache. */
static int64_t flush_buffer(int torch, int64_t l2_cache)
{
	return torch >= 207 ? l2_cache : torch >= 202 ? FLUSH_OF_TRITON : 0;
}

int constants_read(struct constants *k, struct allocator_settings *a, struct inputs *in)
{
	const struct gpu *gpu,
		h100 = { .capability = 90, .processors = 132, .l2_cache = L2_OF_H100 };

	memset(k, 0, sizeof(*k));
	memset(a, 0, sizeof(*a));
	k->torch = version(in);
	if (GIVEN(in->c, gpu)) {
		gpu = gpu_find(in->c->gpu);
		if (!gpu) {
			input_reject(in, CONFIG_gpu, "a GPU of memtrace simulate --help");
			return -1;
		}
	} else {
		gpu = &h100;
		estimate_note(in->out, "gpu is not given: the libraries' workspaces are an H100's");
	}
	k->sm = gpu->capability;
	k->multiprocessors = gpu->processors;
	k->threads = gpu_threads(gpu);
	/* the containers of Megatron-LM's golden values */
	if (!GIVEN(in->c, torch_version) && in->c->from_framework && GIVEN(in->c, container)) {
		k->torch = TORCH_OF_CONTAINERS;
		estimate_note(in->out, "torch_version is not given: cuBLAS's workspaces are as "
				       "before PyTorch 2.12, and last");
	}
	k->gemm_workspace = gpu->capability == 90 || (gpu->capability > 90 && k->torch >= 212)
				    ? CUBLAS_WORKSPACE_HOPPER
				    : CUBLAS_WORKSPACE_OTHERS;
	k->flush_buffer = flush_buffer(k->torch, gpu->l2_cache);
	k->gemm_workspace_lasts = k->torch < 215;
	k->gpu_given = GIVEN(in->c, gpu);
	k->torch_given = GIVEN(in->c, torch_version);
	k->lt_workspace = LT_WORKSPACE;
	k->te_workspace = gpu->capability >= 90 ? TE_WORKSPACE_HOPPER : TE_WORKSPACE_BEFORE;
	/* Transformer Engine before 2.0, that of the old container, had one for sliding windows */
	k->te_full_masks = strcmp(VALUE_OR(in->c, container, "dev"), "lts") != 0;
	k->context = CONTEXT;
	return in->failed ? -1 : read_environment(k, a, in);
}

void constants_list(const struct constants *k, const struct hparams *s, struct estimate *out)
{
	const char *by_gpu = k->gpu_given ? "exact" : "assumed";
	const struct constant list[] = {
		{ "workspaces.cublas",
		  k->workspace_given                                ? "exact"
		  : k->gpu_given && (k->torch_given || k->sm <= 90) ? "exact"
								    : "assumed",
		  k->workspace_given ? "CUBLAS_WORKSPACE_CONFIG"
				     : "CublasHandlePool.cpp, by GPU and PyTorch's version",
		  k->gemm_workspace },
		{ "workspaces.cublaslt", "exact", "CUDABlas.cpp: freed after the call",
		  k->lt_workspace },
		{ "context", "measured", "document 001: context and modules on an A100",
		  k->context },
		{ "workspaces.transformer_engine", by_gpu,
		  "transformer_engine/pytorch/module/base.py, by GPU", k->te_workspace },
	};

	for (size_t i = 0; i < ARRAY_SIZE(list) - !s->transformer_engine; i++)
		estimate_add_constant(out, &list[i]);
}
