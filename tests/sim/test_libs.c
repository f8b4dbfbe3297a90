/* cuBLAS, cuDNN, cuFFT, cuSPARSE, cuSOLVER and CUPTI of the simulated device: the answers that the
 * host reads. Types and structures are those of the libraries' headers, which are not needed to
 * build. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

#include "forks.h"

/* The function NAME, whose arguments are all words. */
typedef int (*function)(uintptr_t, ...);
static function find(const char *name)
{
	function f;
	*(void **)&f = dlsym(RTLD_DEFAULT, name);
	if (!f)
		fail_msg("%s is not exported", name);
	return f;
}
#define CALL(name, first, ...) find(name)((uintptr_t)(first), ##__VA_ARGS__)
#define OK(name, first, ...) assert_int_equal(CALL(name, first, ##__VA_ARGS__), 0)

static void handles_differ(void **state)
{
	static const char *const makers[] = {
		"cublasCreate_v2",
		"cublasLtCreate",
		"cublasLtMatmulDescCreate",
		"cublasLtMatmulPreferenceCreate",
		"cublasLtMatrixTransformDescCreate",
		"cusparseCreate",
		"cusolverDnCreate",
		"cusolverDnCreateParams",
		"cudnnCreate",
		"cudnnCreateFilterDescriptor",
		"cudnnCreateConvolutionDescriptor",
		"cudnnCreatePoolingDescriptor",
		"cudnnCreateActivationDescriptor",
		"cudnnCreateCTCLossDescriptor",
		"cudnnCreateSpatialTransformerDescriptor",
	};
	enum { MAKERS = sizeof makers / sizeof *makers };
	void *handles[MAKERS] = { NULL };
	int plans[2] = { 0 };

	(void)state;
	for (int i = 0; i < MAKERS; i++) {
		OK(makers[i], &handles[i]);
		assert_non_null(handles[i]);
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(handles[i], handles[j]);
	}
	OK("cufftCreate", &plans[0]);
	OK("cufftCreate", &plans[1]);
	assert_int_not_equal(plans[0], plans[1]);
}

/* A result has the bytes of its type, and nothing behind it is touched. */
static void results_have_the_width_of_their_type(void **state)
{
	static const struct {
		const char *name;
		size_t bytes;
	} dots[] = { { "cublasSdot_v2", 4 },  { "cublasDdot_v2", 8 },   { "cublasCdotu_v2", 8 },
		     { "cublasCdotc_v2", 8 }, { "cublasZdotu_v2", 16 }, { "cublasZdotc_v2", 16 } },
	  sums[] = { { "cublasSnrm2_v2", 4 },  { "cublasDnrm2_v2", 8 }, { "cublasScnrm2_v2", 4 },
		     { "cublasDznrm2_v2", 8 }, { "cublasSasum_v2", 4 }, { "cublasDasum_v2", 8 },
		     { "cublasScasum_v2", 4 }, { "cublasDzasum_v2", 8 } };
	static const struct {
		int type; /* cudaDataType */
		size_t bytes;
	} types[] = { { 0, 4 },  { 1, 8 }, { 2, 2 },  { 4, 8 },
		      { 5, 16 }, { 6, 4 }, { 14, 2 }, { 15, 4 } };
	unsigned char out[17];

	(void)state;
#define ZEROED(bytes)                                                     \
	do {                                                              \
		for (size_t k = 0; k < sizeof out; k++)                   \
			assert_int_equal(out[k], k < (bytes) ? 0 : 0xee); \
	} while (0)
	for (size_t i = 0; i < sizeof dots / sizeof *dots; i++) {
		memset(out, 0xee, sizeof out);
		OK(dots[i].name, NULL, 3, NULL, 1, NULL, 1, out);
		ZEROED(dots[i].bytes);
	}
	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
		memset(out, 0xee, sizeof out);
		OK(sums[i].name, NULL, 3, NULL, 1, out);
		ZEROED(sums[i].bytes);
	}
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		memset(out, 0xee, sizeof out);
		OK("cublasDotEx", NULL, 3, NULL, 0, 1, NULL, 0, 1, out, types[i].type, 0);
		ZEROED(types[i].bytes);
	}
}

static void blas_answers(void **state)
{
	struct { /* cublasLtMatmulHeuristicResult_t */
		uint64_t algorithm[8];
		size_t workspace;
		int state;
		float waves;
		int reserved[4];
	} result;
	const uint64_t algorithm[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	int returned = 9, part[3] = { -1, -1, -1 }, version = 0, mode = 9;
	size_t (*lt_version)(void);
	const char *(*text)(int);

	(void)state;
	for (int i = 0; i < 3; i++)
		OK("cublasGetProperty", i, &part[i]);
	OK("cublasGetVersion_v2", NULL, &version); /* as CUBLAS_VERSION */
	assert_int_equal(version, part[0] * 10000 + part[1] * 100 + part[2]);
	*(void **)&lt_version = (void *)find("cublasLtGetVersion");
	assert_int_equal(lt_version() / 10000, part[0]);
	for (int i = 0; i < 4; i++) {
		static const char *const modes[] = { "cublasGetMathMode", "cublasGetPointerMode_v2",
						     "cublasGetAtomicsMode",
						     "cublasGetSmCountTarget" };
		OK(modes[i], NULL, &mode);
		assert_int_equal(mode, 0);
	}
	memset(&result, 0xee, sizeof result);
	OK("cublasLtMatmulAlgoGetHeuristic", NULL, NULL, NULL, NULL, NULL, NULL, NULL, 5, &result,
	   &returned);
	assert_true(returned == 1 && result.workspace == 0 && result.state == 0);
	OK("cublasLtMatmulAlgoGetHeuristic", NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL,
	   &returned);
	assert_int_equal(returned, 0);
	OK("cublasLtMatmulAlgoCheck", NULL, NULL, NULL, NULL, NULL, NULL, algorithm, &result);
	assert_memory_equal(result.algorithm, algorithm, sizeof algorithm);
	*(void **)&text = (void *)find("cublasGetStatusName");
	assert_string_equal(text(0), "CUBLAS_STATUS_SUCCESS");
	assert_string_equal(text(15), "CUBLAS_STATUS_NOT_SUPPORTED");
	*(void **)&text = (void *)find("cublasGetStatusString");
	assert_string_equal(text(0), "success");
	*(void **)&text = (void *)find("cusparseGetErrorString");
	assert_string_equal(text(0), "success");
}

static int check_dnn_version(size_t version, int major, int minor, int patch)
{
	size_t (*whole)(void);
	int part[3] = { -1, -1, -1 };

	*(void **)&whole = (void *)find("cudnnGetVersion");
	for (int i = 0; i < 3; i++)
		CALL("cudnnGetProperty", i, &part[i]);
	return whole() == version && part[0] == major && part[1] == minor && part[2] == patch;
}

/* major * 10000 from version 9 on, major * 1000 before: cudnn_version.h. */
static void dnn_versions_have_three_parts(void **state)
{
	pid_t pid = fork_job();
	int status;

	(void)state;
	if (!pid) {
		setenv("CUDASIM_CUDNN_VERSION", "8907", 1);
		end_job(!check_dnn_version(8907, 8, 9, 7));
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_true(check_dnn_version(91002, 9, 10, 2));
}

static void dnn_answers(void **state)
{
	static const char *const kinds[] = { "Forward", "BackwardData", "BackwardFilter" };
	struct { /* cudnnConvolutionFwdAlgoPerf_t */
		int algorithm, status;
		float time;
		size_t memory;
		int determinism, math, reserved[3];
	} result;
	char name[80], text[8] = "x";
	size_t size, (*cudart)(void);
	void *stream = &size;
	int returned, version = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		memset(&result, 0xee, sizeof result);
		snprintf(name, sizeof name, "cudnnGetConvolution%sAlgorithm_v7", kinds[i]);
		OK(name, NULL, NULL, NULL, NULL, NULL, 4, &returned, &result);
		assert_true(returned == 1 && result.status == 0 && result.memory == 0);
		memset(&result, 0xee, sizeof result);
		snprintf(name, sizeof name, "cudnnFindConvolution%sAlgorithmEx", kinds[i]);
		OK(name, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 4, &returned, &result,
		   NULL, 0);
		assert_true(returned == 1 && result.status == 0 && result.memory == 0);
		OK(name, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, &returned, NULL, NULL,
		   0);
		assert_int_equal(returned, 0);
		size = 9;
		snprintf(name, sizeof name, "cudnnGetConvolution%sWorkspaceSize", kinds[i]);
		OK(name, NULL, NULL, NULL, NULL, NULL, 1, &size);
		assert_int_equal(size, 0);
	}
	OK("cudnnDropoutGetStatesSize", NULL, &size);
	assert_int_equal(size, 12976128); /* 48 bytes for 2048 threads on each of 132 SMs */
	size = 9;
	OK("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", NULL, 0, 0, NULL, NULL, NULL,
	   NULL, NULL, &size);
	assert_int_equal(size, 0);
	size = 9;
	OK("cudnnGetBatchNormalizationBackwardExWorkspaceSize", NULL, 0, 0, NULL, NULL, NULL, NULL,
	   NULL, NULL, NULL, &size);
	assert_int_equal(size, 0);
	size = 9;
	OK("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", NULL, 0, 0, NULL, NULL, &size);
	assert_int_equal(size, 0);
	OK("cudnnGetStream", NULL, &stream);
	assert_null(stream);
	*(void **)&cudart = (void *)find("cudnnGetCudartVersion");
	assert_int_equal(cudaRuntimeGetVersion(&version), cudaSuccess);
	assert_int_equal(cudart(), version);
	CALL("cudnnGetLastErrorString", text, sizeof text);
	assert_string_equal(text, "");
}

static void others_answer(void **state)
{
	const char *text = NULL;
	uint32_t version = 0;
	size_t size = 9;

	(void)state;
	OK("cufftXtMakePlanMany", 1, 1, NULL, NULL, 1, 1, 0, NULL, 1, 1, 0, 1, &size, 0);
	assert_int_equal(size, 0);
	OK("cuptiGetVersion", &version);
	assert_true(version > 0);
	OK("cuptiGetResultString", 0, &text);
	assert_string_equal(text, "CUPTI_SUCCESS");
	OK("cuptiGetResultString", 27, &text);
	assert_string_equal(text, "CUPTI is not simulated");
}

int main(void)
{
	setenv("CUDASIM_GPU", "H100-80GB", 1);
	setenv("CUDASIM_CUDNN_VERSION", "91002", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dnn_versions_have_three_parts),
		cmocka_unit_test(handles_differ),
		cmocka_unit_test(results_have_the_width_of_their_type),
		cmocka_unit_test(blas_answers),
		cmocka_unit_test(dnn_answers),
		cmocka_unit_test(others_answer),
	};
	return cmocka_run_group_tests_name("simulated libraries", tests, NULL, NULL);
}
