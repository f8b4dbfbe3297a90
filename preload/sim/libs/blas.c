/* cuBLAS and cuBLASLt: handles, modes, versions, the heuristic. Products are in calls.def: they do
 * nothing. */
#include "device/common.h"
#include "device/device.h"
#include "device/handle.h"
#include "device/status.h"

#include <string.h>

#define NEW(symbol, library)                    \
	EXPORT int symbol(void **handle);       \
	EXPORT int symbol(void **handle)        \
	{                                       \
		*handle = handle_new();         \
		return sim_done(LIB_##library); \
	}
NEW(cublasCreate_v2, cublas)
NEW(cublasLtCreate, cublasLt)
/* The Lt descriptors take their parameters by value after the handle; none is needed. */
NEW(cublasLtMatmulDescCreate, cublasLt)
NEW(cublasLtMatmulPreferenceCreate, cublasLt)
NEW(cublasLtMatrixTransformDescCreate, cublasLt)

#define GET(symbol, library, value)                \
	EXPORT int symbol(void *handle, int *out); \
	EXPORT int symbol(void *handle, int *out)  \
	{                                          \
		(void)handle;                      \
		*out = (value);                    \
		return sim_done(LIB_##library);    \
	}
GET(cublasGetMathMode, cublas, 0)
GET(cublasGetPointerMode_v2, cublas, 0)
GET(cublasGetAtomicsMode, cublas, 0)
GET(cublasGetSmCountTarget, cublas, 0)

/* Reductions whose result goes to a pointer: 0, wherever that is. */
#define DOT(symbol, bytes)                                                                  \
	EXPORT int symbol(void *, int, const void *, int, const void *, int, void *result); \
	EXPORT int symbol(void *h, int n, const void *x, int dx, const void *y, int dy,     \
			  void *result)                                                     \
	{                                                                                   \
		(void)h, (void)n, (void)x, (void)dx, (void)y, (void)dy;                     \
		memset(result, 0, bytes);                                                   \
		return sim_done(LIB_cublas);                                                \
	}
#define REDUCE(symbol, bytes)                                                  \
	EXPORT int symbol(void *, int, const void *, int, void *result);       \
	EXPORT int symbol(void *h, int n, const void *x, int dx, void *result) \
	{                                                                      \
		(void)h, (void)n, (void)x, (void)dx;                           \
		memset(result, 0, bytes);                                      \
		return sim_done(LIB_cublas);                                   \
	}
DOT(cublasSdot_v2, 4)
DOT(cublasDdot_v2, 8)
DOT(cublasCdotu_v2, 8)
DOT(cublasCdotc_v2, 8)
DOT(cublasZdotu_v2, 16)
DOT(cublasZdotc_v2, 16)
REDUCE(cublasSnrm2_v2, 4)
REDUCE(cublasDnrm2_v2, 8)
REDUCE(cublasScnrm2_v2, 4)
REDUCE(cublasDznrm2_v2, 8)
REDUCE(cublasSasum_v2, 4)
REDUCE(cublasDasum_v2, 8)
REDUCE(cublasScasum_v2, 4)
REDUCE(cublasDzasum_v2, 8)

/* The bytes of a cudaDataType, if a product can have it. */
static size_t data_size(int type)
{
	switch (type) {
	case 5: /* CUDA_C_64F */
		return 16;
	case 1: /* CUDA_R_64F */
	case 4: /* CUDA_C_32F */
		return 8;
	case 0:  /* CUDA_R_32F */
	case 6:  /* CUDA_C_16F */
	case 15: /* CUDA_C_16BF */
		return 4;
	default: /* CUDA_R_16F, CUDA_R_16BF */
		return 2;
	}
}

EXPORT int cublasDotEx(void *h, int n, const void *x, int xt, int dx, const void *y, int yt, int dy,
		       void *result, int type, int execution);
EXPORT int cublasDotEx(void *h, int n, const void *x, int xt, int dx, const void *y, int yt, int dy,
		       void *result, int type, int execution)
{
	(void)h, (void)n, (void)x, (void)xt, (void)dx, (void)y, (void)yt, (void)dy, (void)execution;
	memset(result, 0, data_size(type));
	return sim_done(LIB_cublas);
}

/* ---- versions: asked from the wheel's own library */

static const char *const blas[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so.11", NULL };
static const char *const blas_lt[] = { "libcublasLt.so.13", "libcublasLt.so.12",
				       "libcublasLt.so.11", NULL };

EXPORT size_t cublasLtGetVersion(void);
EXPORT size_t cublasLtGetVersion(void)
{
	size_t (*real)(void) = (size_t(*)(void))real_symbol(blas_lt, "cublasLtGetVersion");
	return real ? real() : (size_t)cuda_major() * 10000;
}
EXPORT int cublasGetProperty(int type, int *value);
EXPORT int cublasGetProperty(int type, int *value)
{
	int (*real)(int, int *) = (int (*)(int, int *))real_symbol(blas, "cublasGetProperty");
	if (real)
		return real(type, value);
	*value = type == 0 ? cuda_major() : 0;
	return 0;
}
EXPORT int cublasGetVersion_v2(void *handle, int *version);
EXPORT int cublasGetVersion_v2(void *handle, int *version)
{
	int part[3] = { 0 };
	(void)handle;
	for (int i = 0; i < 3; i++)
		cublasGetProperty(i, &part[i]);
	*version = part[0] * 10000 + part[1] * 100 + part[2];
	return sim_done(LIB_cublas);
}
EXPORT const char *cublasGetStatusString(int status);
EXPORT const char *cublasGetStatusString(int status)
{
	return status ? "cuBLAS: see the message of cudasim" : "success";
}
EXPORT const char *cublasGetStatusName(int status);
EXPORT const char *cublasGetStatusName(int status)
{
	return status ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_SUCCESS";
}

/* ---- Lt algorithms */

struct heuristic_result { /* cublasLtMatmulHeuristicResult_t */
	uint64_t algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

/* One algorithm, which needs no workspace: PyTorch allocates the workspace that it offers for
 * any choice. */
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
					  void *d, void *preference, int asked,
					  struct heuristic_result *results, int *returned);
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
					  void *d, void *preference, int asked,
					  struct heuristic_result *results, int *returned)
{
	(void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
	*returned = asked > 0;
	if (*returned)
		results[0] = (struct heuristic_result){ .waves = 1 };
	return sim_done(LIB_cublasLt);
}
EXPORT int cublasLtMatmulAlgoCheck(void *handle, void *operation, void *a, void *b, void *c,
				   void *d, const void *algorithm, struct heuristic_result *result);
EXPORT int cublasLtMatmulAlgoCheck(void *handle, void *operation, void *a, void *b, void *c,
				   void *d, const void *algorithm, struct heuristic_result *result)
{
	(void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d;
	*result = (struct heuristic_result){ .waves = 1 };
	memcpy(result->algorithm, algorithm, sizeof result->algorithm);
	return sim_done(LIB_cublasLt);
}
