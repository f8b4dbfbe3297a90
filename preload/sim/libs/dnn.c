/* cuDNN: versions, handles, and the queries of the older calls, whose workspaces are MODELLED AS 0.
 * dnn_graph.c has the graph API, with which PyTorch builds attention and convolutions, rnn.c the
 * recurrent layers. */
#include "device/common.h"
#include "device/device.h"
#include "device/handle.h"
#include "device/settings.h"
#include "device/status.h"

#include <string.h>

static const char *const dnn[] = { "libcudnn.so.9", "libcudnn.so.8", NULL };

EXPORT size_t cudnnGetVersion(void);
EXPORT size_t cudnnGetVersion(void)
{
	if (!sim_ready() && settings.cudnn_version)
		return settings.cudnn_version;
	size_t (*real)(void) = (size_t(*)(void))real_symbol(dnn, "cudnnGetVersion");
	return real ? real() : cuda_major() == 11 ? 8500 : 90100;
}
/* From version 9: major * 10000 + minor * 100 + patch; before: major * 1000 + minor * 100 + patch.
 */
EXPORT int cudnnGetProperty(int type, int *value);
EXPORT int cudnnGetProperty(int type, int *value)
{
	int version = (int)cudnnGetVersion(), major_unit = version >= 90000 ? 10000 : 1000;
	*value = type == 0   ? version / major_unit
		 : type == 1 ? version % major_unit / 100
			     : version % 100;
	return 0;
}
EXPORT size_t cudnnGetCudartVersion(void);
EXPORT size_t cudnnGetCudartVersion(void)
{
	return (size_t)cuda_version();
}
EXPORT const char *cudnnGetErrorString(int status);
EXPORT const char *cudnnGetErrorString(int status)
{
	return status ? "cuDNN: see the message of cudasim" : "CUDNN_STATUS_SUCCESS";
}
EXPORT void cudnnGetLastErrorString(char *text, size_t size);
EXPORT void cudnnGetLastErrorString(char *text, size_t size)
{
	if (size)
		*text = '\0';
}

#define NEW(symbol)                         \
	EXPORT int symbol(void **handle);   \
	EXPORT int symbol(void **handle)    \
	{                                   \
		*handle = handle_new();     \
		return sim_done(LIB_cudnn); \
	}
NEW(cudnnCreate)
NEW(cudnnCreateFilterDescriptor)
NEW(cudnnCreateConvolutionDescriptor)
NEW(cudnnCreatePoolingDescriptor)
NEW(cudnnCreateActivationDescriptor)
NEW(cudnnCreateCTCLossDescriptor)
NEW(cudnnCreateSpatialTransformerDescriptor)

EXPORT int cudnnGetStream(void *handle, void **stream);
EXPORT int cudnnGetStream(void *handle, void **stream)
{
	(void)handle;
	*stream = NULL;
	return sim_done(LIB_cudnn);
}

/* ---- older calls whose answers the host reads: no workspace, the first algorithm */

struct algorithm_result { /* cudnnConvolution*AlgoPerf_t */
	int algorithm, status;
	float time;
	size_t memory;
	int determinism, math, reserved[3];
};

static int one_algorithm(int asked, int *returned, struct algorithm_result *results)
{
	*returned = asked > 0;
	if (*returned)
		results[0] =
			(struct algorithm_result){ .algorithm = 1, .time = 1, .determinism = 1 };
	return sim_done(LIB_cudnn);
}

#define ALGORITHM(symbol)                                                              \
	EXPORT int symbol(void *, void *, void *, void *, void *, int, int *,          \
			  struct algorithm_result *);                                  \
	EXPORT int symbol(void *handle, void *a, void *b, void *c, void *d, int asked, \
			  int *returned, struct algorithm_result *results)             \
	{                                                                              \
		(void)handle, (void)a, (void)b, (void)c, (void)d;                      \
		return one_algorithm(asked, returned, results);                        \
	}
ALGORITHM(cudnnGetConvolutionForwardAlgorithm_v7)
ALGORITHM(cudnnGetConvolutionBackwardDataAlgorithm_v7)
ALGORITHM(cudnnGetConvolutionBackwardFilterAlgorithm_v7)

#define FIND(symbol)                                                                            \
	EXPORT int symbol(void *, void *, void *, void *, void *, void *, void *, void *, int,  \
			  int *, struct algorithm_result *, void *, size_t);                    \
	EXPORT int symbol(void *handle, void *a, void *pa, void *b, void *pb, void *c, void *d, \
			  void *pd, int asked, int *returned, struct algorithm_result *results, \
			  void *workspace, size_t size)                                         \
	{                                                                                       \
		(void)handle, (void)a, (void)pa, (void)b, (void)pb, (void)c, (void)d, (void)pd, \
			(void)workspace, (void)size;                                            \
		return one_algorithm(asked, returned, results);                                 \
	}
FIND(cudnnFindConvolutionForwardAlgorithmEx)
FIND(cudnnFindConvolutionBackwardDataAlgorithmEx)
FIND(cudnnFindConvolutionBackwardFilterAlgorithmEx)

#define WORKSPACE(symbol)                                                                  \
	EXPORT int symbol(void *, void *, void *, void *, void *, int, size_t *);          \
	EXPORT int symbol(void *handle, void *a, void *b, void *c, void *d, int algorithm, \
			  size_t *size)                                                    \
	{                                                                                  \
		(void)handle, (void)a, (void)b, (void)c, (void)d, (void)algorithm;         \
		*size = 0;                                                                 \
		return sim_done(LIB_cudnn);                                                \
	}
WORKSPACE(cudnnGetConvolutionForwardWorkspaceSize)
WORKSPACE(cudnnGetConvolutionBackwardDataWorkspaceSize)
WORKSPACE(cudnnGetConvolutionBackwardFilterWorkspaceSize)

EXPORT int cudnnDropoutGetStatesSize(void *handle, size_t *size);
EXPORT int cudnnDropoutGetStatesSize(void *handle, size_t *size)
{
	(void)handle;
	*size = (size_t)settings.card->multiprocessors * 2048 *
		48; /* a generator state for each resident thread */
	return sim_done(LIB_cudnn);
}
EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *, int, int, void *,
								    void *, void *, void *, void *,
								    size_t *size);
EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int ops,
								    void *x, void *z, void *y,
								    void *scale, void *activation,
								    size_t *size)
{
	(void)handle, (void)mode, (void)ops, (void)x, (void)z, (void)y, (void)scale,
		(void)activation;
	*size = 0;
	return sim_done(LIB_cudnn);
}
EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *, int, int, void *, void *,
							     void *, void *, void *, void *, void *,
							     size_t *size);
EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int ops,
							     void *x, void *y, void *dy, void *dz,
							     void *dx, void *scale,
							     void *activation, size_t *size)
{
	(void)handle, (void)mode, (void)ops, (void)x, (void)y, (void)dy, (void)dz, (void)dx,
		(void)scale, (void)activation;
	*size = 0;
	return sim_done(LIB_cudnn);
}
EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *, int, int, void *, void *,
								size_t *size);
EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int ops,
								void *activation, void *x,
								size_t *size)
{
	(void)handle, (void)mode, (void)ops, (void)activation, (void)x;
	*size = 0;
	return sim_done(LIB_cudnn);
}
