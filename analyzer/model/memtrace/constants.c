/* What the GPU, PyTorch's version and the environment make constant. */
#include "model/memtrace/shape.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CublasHandlePool.cpp, parseChosenWorkspaceSize(): compute capability 9.0, from PyTorch 2.12 later ones too; all others
 * have ":4096:2:16:8". */
#define WORKSPACE_HOPPER (INT64_C(32) << 20)
#define WORKSPACE_BEFORE 8519680
/* Assumed of the containers of Megatron-LM's golden values, whose version nothing says. */
#define TORCH_OF_CONTAINERS 211
/* Products with a bias go through cuBLASLt (CUDABlas.cpp): freed after the call. */
#define LT_WORKSPACE (INT64_C(1) << 20)
/* Measured: context and modules of PyTorch on one A100 (document 001). */
#define CONTEXT (INT64_C(863) << 20)

/* "2.15.0+cu132" is 215. */
static int version(struct reader *r)
{
	const char *text = VALUE_OR(r->c, torch_version, "2.15");
	int major, minor;

	if (sscanf(text, "%d.%d", &major, &minor) == 2 && major >= 1 && minor >= 0 && minor < 100)
		return 100 * major + minor;
	refuse(r, CONFIG_torch_version, "a version such as 2.7.1");
	return 0;
}

/* ":4096:8" or ":4096:2:16:8": pairs of KiB and count. -1: neither. */
static int64_t parse_workspace(const char *text)
{
	int64_t sum = 0;

	while (*text) {
		unsigned kib, count;
		int used = 0;

		if (sscanf(text, ":%9u:%9u%n", &kib, &count, &used) != 2 || !used)
			return -1;
		sum += (int64_t)kib * count * 1024;
		text += used;
	}
	return sum;
}

static const char *variable(const json_t *environment, const char *name)
{
	return json_string_value(json_object_get(environment, name));
}

static int read_environment(struct constants *k, struct allocator_settings *a, struct reader *r)
{
	json_t *environment =
		GIVEN(r->c, environment) ? json_loads(r->c->environment, 0, NULL) : NULL;
	const char *conf = variable(environment, "PYTORCH_CUDA_ALLOC_CONF"),
		   *workspace = variable(environment, "CUBLAS_WORKSPACE_CONFIG");
	int status = 0;
	const char *choice = variable(environment, "NVTE_ALLOW_NONDETERMINISTIC_ALGO");

	k->nondeterministic = !choice || strcmp(choice, "0") != 0;

	if (!conf && k->torch >= 210)
		conf = variable(environment, "PYTORCH_ALLOC_CONF");
	if (allocator_configure(a, conf ? conf : "", k->torch, r->e) < 0)
		status = -1;
	if (!status && workspace) {
		k->gemm_workspace = parse_workspace(workspace);
		if (k->gemm_workspace < 0)
			status = err_set(
				r->e,
				"CUBLAS_WORKSPACE_CONFIG is \"%s\", expected :KIB:COUNT pairs",
				workspace);
	}
	json_decref(environment);
	return status;
}

int constants_read(struct constants *k, struct allocator_settings *a, struct reader *r)
{
	int processors = 132, capability = 90;

	memset(k, 0, sizeof(*k));
	memset(a, 0, sizeof(*a));
	k->torch = version(r);
	if (GIVEN(r->c, gpu)) {
		if (device_compute(r->c->gpu, &capability, &processors) < 0) {
			refuse(r, CONFIG_gpu, "a GPU of memtrace simulate --help");
			return -1;
		}
	} else {
		estimate_note(r->out, "gpu is not given: the libraries' workspaces are an H100's");
	}
	k->sm = capability;
	k->multiprocessors = processors;
	/* the software of Megatron-LM's golden values */
	if (!GIVEN(r->c, torch_version) && r->c->from_framework && GIVEN(r->c, container)) {
		k->torch = TORCH_OF_CONTAINERS;
		estimate_note(r->out, "torch_version is not given: cuBLAS's workspaces are as "
				      "before PyTorch 2.12, and last");
	}
	k->gemm_workspace = capability == 90 || (capability > 90 && k->torch >= 212)
				    ? WORKSPACE_HOPPER
				    : WORKSPACE_BEFORE;
	k->gemm_workspace_lasts = k->torch < 215;
	k->lt_workspace = LT_WORKSPACE;
	k->context = CONTEXT;
	return r->failed ? -1 : read_environment(k, a, r);
}
