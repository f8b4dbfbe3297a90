/* Every row of calls.def: the call is exported under its name, and its answer is the one that its
 * library's header has for "done", "not supported" and "not initialized". */
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

#include "forks.h"

/* The numbers of the headers; cuFFT and NCCL have an internal error and no "not initialized". */
static const struct status {
	const char *library;
	int not_supported, not_initialized;
} statuses[] = {
	{ "cudart", 801, 3 },    /* cudaErrorNotSupported, cudaErrorInitializationError */
	{ "cuda", 801, 3 },      /* CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_NOT_INITIALIZED */
	{ "cublas", 15, 1 },     /* CUBLAS_STATUS_... */
	{ "cublasLt", 15, 1 },   /* the same */
	{ "cudnn", 3000, 1001 }, /* CUDNN_STATUS_... since version 9 */
	{ "cufft", 16, 5 },      /* CUFFT_NOT_SUPPORTED, CUFFT_INTERNAL_ERROR */
	{ "cusolver", 9, 1 },    /* CUSOLVER_STATUS_... */
	{ "cusparse", 10, 1 },   /* CUSPARSE_STATUS_... */
	{ "cusparseLt", 10, 1 }, /* the same */
	{ "cufile", 5007, 0 },   /* CU_FILE_PLATFORM_NOT_SUPPORTED */
	{ "nccl", 5, 3 },        /* ncclInvalidUsage, ncclInternalError */
	{ "nvshmem", 3, 0 },     /* NVSHMEMX_ERROR_NOT_SUPPORTED */
	{ "cupti", 27, 15 },     /* CUPTI_ERROR_NOT_SUPPORTED, CUPTI_ERROR_NOT_INITIALIZED */
};

/* What has no status: pointers, a number of bytes, a number of ranks, a state. */
static const struct {
	const char *name;
	intptr_t answer;
	bool is_int;
} answers[] = {
	{ "nvshmem_malloc", 0, false },       { "nvshmem_ptr", 0, false },
	{ "nvshmemx_mc_ptr", 0, false },      { "nvshmem_team_n_pes", -1, true },
	{ "nvshmemid_init_status", 0, true }, /* NVSHMEM_STATUS_NOT_INITIALIZED */
	{ "cuFileRead", -5007, false },       { "cuFileWrite", -5007, false },
};

enum kind { IS_DONE, IS_REFUSED, HAS_NO_STATUS };
static const struct call {
	enum kind kind;
	const char *library, *name;
} calls[] = {
#define DONE(library, symbol) { IS_DONE, #library, #symbol },
#define REFUSE(library, symbol) { IS_REFUSED, #library, #symbol },
#define REFUSE_AS(library, symbol, type, value) { HAS_NO_STATUS, #library, #symbol },
#include "api/calls.def"
};
enum { CALLS = sizeof calls / sizeof *calls };

static const struct status *status_of(const struct call *call)
{
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		if (!strcmp(statuses[i].library, call->library))
			return &statuses[i];
	fail_msg("no status of %s", call->library);
	return NULL;
}

static bool has_status(const struct call *call)
{
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
		if (!strcmp(answers[i].name, call->name))
			return false;
	return true;
}

static intptr_t make(const char *name)
{
	intptr_t (*function)(void);

	*(void **)&function = dlsym(RTLD_DEFAULT, name);
	if (!function)
		fail_msg("%s is not exported", name);
	return function();
}

static void done_calls_succeed(void **state)
{
	(void)state;
	for (int i = 0; i < CALLS; i++)
		if (calls[i].kind == IS_DONE && (int)make(calls[i].name))
			fail_msg("%s", calls[i].name);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
}

/* The text that is written to stderr while WORK runs. */
static size_t said(void (*work)(void), char *text, size_t size)
{
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO);
	size_t length;

	dup2(fileno(file), STDERR_FILENO);
	work();
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(file);
	length = fread(text, 1, size - 1, file);
	text[length] = '\0';
	fclose(file);
	return length;
}

static const char *wrong; /* a call with another answer than expected */

static void make_all_refused(void)
{
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < CALLS; i++)
			if (calls[i].kind == IS_REFUSED && has_status(&calls[i]) &&
			    (int)make(calls[i].name) != status_of(&calls[i])->not_supported)
				wrong = calls[i].name;
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
		intptr_t answer = make(answers[i].name);
		if ((answers[i].is_int ? (int)answer : answer) != answers[i].answer)
			wrong = answers[i].name;
	}
}

static void refused_calls_say_so_once(void **state)
{
	static char text[1 << 17];
	char line[128];

	(void)state;
	said(make_all_refused, text, sizeof text);
	if (wrong)
		fail_msg("%s", wrong);
	for (int i = 0; i < CALLS; i++) {
		if (calls[i].kind == IS_DONE)
			continue;
		snprintf(line, sizeof line, "cudasim: %s is not simulated\n", calls[i].name);
		char *first = strstr(text, line);
		if (!first || strstr(first + 1, line))
			fail_msg("%s", calls[i].name);
	}
	/* as the real one, the runtime keeps its own last error, and no other library's */
	assert_int_equal(cudaGetLastError(), cudaErrorNotSupported);
	make("cusparseXcoo2csr");
	assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void without_a_device_nothing_is_done(void **state)
{
	pid_t pid = fork_job();
	int status;

	(void)state;
	if (!pid) {
		int others = 0;
		setenv("CUDASIM_GPU", "abacus", 1);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		for (int i = 0; i < CALLS; i++)
			others += calls[i].kind == IS_DONE &&
				  (int)make(calls[i].name) != status_of(&calls[i])->not_initialized;
		end_job(others != 0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_device_nothing_is_done),
		cmocka_unit_test(done_calls_succeed),
		cmocka_unit_test(refused_calls_say_so_once),
	};
	return cmocka_run_group_tests_name("calls without a definition of their own", tests, NULL,
					   NULL);
}
