/* The simulated NVML, called as programs call it: opened by name, functions looked up. Statuses,
 * texts and structures are those of NVML's documentation. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "beside_context.h"
#include "forks.h"

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	UNKNOWN = 999
};

/* Two devices like this; the UUID is "cudasim" and the device's number. */
#define SECOND_UUID "GPU-63756461-7369-6d00-0000-000000000001"

static void *library;

/* The function NAME with one type for all arguments: a word. */
typedef int (*function)(uintptr_t, ...);
static function find(const char *name)
{
	function f;
	*(void **)&f = dlsym(library, name);
	assert_non_null(f);
	return f;
}
#define CALL(name, first, ...) find(#name)((uintptr_t)(first), ##__VA_ARGS__)

static void *handle_of(unsigned index)
{
	void *handle = NULL;
	assert_int_equal(CALL(nvmlDeviceGetHandleByIndex_v2, index, &handle), SUCCESS);
	assert_non_null(handle);
	return handle;
}

static void starts_and_names_its_errors(void **state)
{
	static const struct {
		int error;
		const char *text;
	} errors[] = { { SUCCESS, "Success" },
		       { UNINITIALIZED, "Uninitialized" },
		       { INVALID_ARGUMENT, "Invalid Argument" },
		       { NOT_SUPPORTED, "Not Supported" },
		       { NOT_FOUND, "Not Found" },
		       { INSUFFICIENT_SIZE, "Insufficient Size" },
		       { UNKNOWN, "Unknown Error" },
		       { -1, "Unknown Error" } };
	const char *(*text)(int);

	(void)state;
	*(void **)&text = dlsym(library, "nvmlErrorString");
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		assert_string_equal(text(errors[i].error), errors[i].text);
	assert_int_equal(CALL(nvmlInit, 0), SUCCESS);
	assert_int_equal(CALL(nvmlInit_v2, 0), SUCCESS);
	assert_int_equal(CALL(nvmlInitWithFlags, 0), SUCCESS);
	assert_int_equal(CALL(nvmlShutdown, 0), SUCCESS);
}

static void finds_devices(void **state)
{
	unsigned count = 0, number = 9;
	void *first = handle_of(0), *second = handle_of(1), *found;

	(void)state;
	assert_int_equal(CALL(nvmlDeviceGetCount, &count), SUCCESS);
	assert_int_equal(count, 2);
	assert_ptr_not_equal(first, second);
	assert_int_equal(CALL(nvmlDeviceGetHandleByIndex, 2, &found), INVALID_ARGUMENT);
	assert_int_equal(CALL(nvmlDeviceGetIndex, second, &number), SUCCESS);
	assert_int_equal(number, 1);
	assert_int_equal(CALL(nvmlDeviceGetMinorNumber, first, &number), SUCCESS);
	assert_int_equal(number, 0);
	assert_int_equal(CALL(nvmlDeviceGetIndex, NULL, &number), INVALID_ARGUMENT);
	assert_int_equal(CALL(nvmlDeviceGetHandleByPciBusId_v2, "00000000:02:00.0", &found),
			 SUCCESS);
	assert_ptr_equal(found, second);
	assert_int_equal(CALL(nvmlDeviceGetHandleByPciBusId, "0000:01:00.0", &found), SUCCESS);
	assert_ptr_equal(found, first);
	assert_int_equal(CALL(nvmlDeviceGetHandleByPciBusId, "0000:03:00.0", &found), NOT_FOUND);
	assert_int_equal(CALL(nvmlDeviceGetHandleByPciBusId, "0000:00:00.0", &found), NOT_FOUND);
	assert_int_equal(CALL(nvmlDeviceGetHandleByPciBusId, "first", &found), INVALID_ARGUMENT);
	assert_int_equal(CALL(nvmlDeviceGetHandleByUUID, SECOND_UUID, &found), SUCCESS);
	assert_ptr_equal(found, second);
	assert_int_equal(CALL(nvmlDeviceGetHandleByUUID, "GPU-0", &found), NOT_FOUND);
}

static void names_devices(void **state)
{
	void *second = handle_of(1);
	char text[96];
	int major = 0, minor = 9;

	(void)state;
	assert_int_equal(CALL(nvmlDeviceGetName, second, text, sizeof text), SUCCESS);
	assert_string_equal(text, "NVIDIA H100 80GB HBM3");
	assert_int_equal(CALL(nvmlDeviceGetName, second, text, 21), INSUFFICIENT_SIZE);
	assert_int_equal(CALL(nvmlDeviceGetName, NULL, text, sizeof text), INVALID_ARGUMENT);
	assert_int_equal(CALL(nvmlDeviceGetUUID, second, text, 41), SUCCESS);
	assert_string_equal(text, SECOND_UUID);
	assert_int_equal(CALL(nvmlDeviceGetUUID, second, text, 40), INSUFFICIENT_SIZE);
	assert_int_equal(CALL(nvmlDeviceGetUUID, NULL, text, sizeof text), INVALID_ARGUMENT);
	assert_int_equal(CALL(nvmlDeviceGetCudaComputeCapability, second, &major, &minor), SUCCESS);
	assert_true(major == 9 && minor == 0);
	assert_int_equal(CALL(nvmlDeviceGetCudaComputeCapability, NULL, &major, &minor),
			 INVALID_ARGUMENT);
}

static void has_a_place_on_the_bus(void **state)
{
	struct { /* nvmlPciInfo_t */
		char legacy[16];
		unsigned domain, bus, device, pci_device, subsystem;
		char id[32];
	} pci;

	(void)state;
	assert_int_equal(CALL(nvmlDeviceGetPciInfo_v3, handle_of(1), &pci), SUCCESS);
	assert_string_equal(pci.legacy, "0000:02:00.0");
	assert_string_equal(pci.id, "00000000:02:00.0");
	assert_true(pci.domain == 0 && pci.bus == 2 && pci.device == 0);
	assert_int_equal(CALL(nvmlDeviceGetPciInfo, NULL, &pci), INVALID_ARGUMENT);
}

struct process { /* nvmlProcessInfo_t: the first version ends before the instances */
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

static void counts_no_memory_before_a_context(void **state)
{
	unsigned long long info[3] = { 0 };
	unsigned count = 0;

	(void)state;
	assert_int_equal(CALL(nvmlDeviceGetMemoryInfo, handle_of(0), info), SUCCESS);
	assert_true(info[0] == CONTEXT + BESIDE && info[1] == info[0] && info[2] == 0);
	assert_int_equal(CALL(nvmlDeviceGetComputeRunningProcesses_v3, handle_of(0), &count, NULL),
			 SUCCESS);
	assert_int_equal(count, 0);
}

static void counts_the_memory_of_the_device(void **state)
{
	struct process own = { 0 };
	unsigned long long info[3] = { 0 }, info2[5] = { 0 };
	unsigned count = 0, rates[2] = { 9, 9 };
	void *p = take(GRANULE), *first = handle_of(0);

	(void)state;
	assert_int_equal(CALL(nvmlDeviceGetMemoryInfo, first, info), SUCCESS);
	assert_true(info[0] == 715128832 && info[1] == 65011712 && info[2] == 650117120);
	assert_int_equal(CALL(nvmlDeviceGetMemoryInfo_v2, first, info2), SUCCESS);
	assert_true(info2[1] == 715128832 && info2[2] == 0 && info2[3] == 65011712 &&
		    info2[4] == 650117120);
	assert_int_equal(CALL(nvmlDeviceGetMemoryInfo, handle_of(1), info), SUCCESS);
	assert_true(info[2] == 0);
	assert_int_equal(CALL(nvmlDeviceGetComputeRunningProcesses_v2, first, &count, NULL),
			 INSUFFICIENT_SIZE);
	assert_int_equal(count, 1);
	own.gpu_instance = 77;
	assert_int_equal(CALL(nvmlDeviceGetComputeRunningProcesses, first, &count, &own), SUCCESS);
	assert_true(own.pid == (unsigned)getpid() && own.used == 650117120);
	assert_int_equal(own.gpu_instance, 77);
	count = 4;
	assert_int_equal(CALL(nvmlDeviceGetComputeRunningProcesses_v3, first, &count, &own),
			 SUCCESS);
	assert_true(count == 1 && own.gpu_instance == UINT32_MAX &&
		    own.compute_instance == UINT32_MAX);
	assert_int_equal(CALL(nvmlDeviceGetUtilizationRates, first, rates), SUCCESS);
	assert_true(rates[0] == 0 && rates[1] == 0);
	assert_int_equal(CALL(nvmlDeviceGetMemoryInfo, NULL, info), INVALID_ARGUMENT);
	assert_int_equal(CALL(nvmlDeviceGetMemoryInfo_v2, NULL, info2), INVALID_ARGUMENT);
	assert_int_equal(CALL(nvmlDeviceGetComputeRunningProcesses, NULL, &count, &own),
			 INVALID_ARGUMENT);
	give(p);
}

static void has_versions_and_no_links(void **state)
{
	char text[80];
	int version = 0, driver = 0, type = 0, status = 9;
	unsigned char fabric[36];
	void *first = handle_of(0), *second = handle_of(1);

	(void)state;
	assert_int_equal(CALL(nvmlSystemGetDriverVersion, text, sizeof text), SUCCESS);
	assert_memory_equal(text, "580.", 4);
	assert_int_equal(CALL(nvmlSystemGetDriverVersion, text, 4), INSUFFICIENT_SIZE);
	assert_int_equal(CALL(nvmlSystemGetNVMLVersion, text, sizeof text), SUCCESS);
	assert_memory_equal(text, "13.580.", 7); /* 580 is the branch of CUDA 13.0 */
	assert_int_equal(CALL(nvmlSystemGetCudaDriverVersion_v2, &version), SUCCESS);
	assert_int_equal(cuDriverGetVersion(&driver), CUDA_SUCCESS);
	assert_int_equal(version, driver);
	assert_int_equal(CALL(nvmlDeviceGetNvLinkRemoteDeviceType, first, 0, &type), NOT_SUPPORTED);
	assert_int_equal(type, 255); /* NVML_NVLINK_DEVICE_TYPE_UNKNOWN */
	assert_int_equal(CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, first, 0, NULL), NOT_SUPPORTED);
	assert_int_equal(CALL(nvmlDeviceGetP2PStatus, first, second, 0, &status), SUCCESS);
	assert_int_equal(status, 0); /* NVML_P2P_STATUS_OK */
	assert_int_equal(CALL(nvmlDeviceGetP2PStatus, first, NULL, 0, &status), INVALID_ARGUMENT);
	memset(fabric, 0xff, sizeof fabric);
	assert_int_equal(CALL(nvmlDeviceGetGpuFabricInfoV, first, fabric), SUCCESS);
	assert_int_equal(fabric[0], 0xff); /* the version */
	assert_int_equal(fabric[28], 0);   /* NVML_GPU_FABRIC_STATE_NOT_SUPPORTED */
	assert_int_equal(CALL(nvmlDeviceGetGpuFabricInfo, first, fabric), NOT_SUPPORTED);
}

/* What a process answers whose settings are wrong: nothing works. */
static void wrong_settings_leave_it_uninitialized(void **state)
{
	pid_t pid = fork_job();
	int status;

	(void)state;
	if (!pid) {
		unsigned count = 7;
		void *handle;
		setenv("CUDASIM_GPU", "abacus", 1);
		(void)!freopen("/dev/null", "w", stderr);
		end_job(CALL(nvmlInit_v2, 0) != UNINITIALIZED ||
			CALL(nvmlDeviceGetCount_v2, &count) != UNINITIALIZED || count != 0 ||
			CALL(nvmlDeviceGetHandleByIndex, 0, &handle) != UNINITIALIZED);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	char path[4096];

	(void)argc;
	setenv("CUDASIM_GPU", "H100-80GB", 1);
	setenv("CUDASIM_GPUS", "2", 1);
	setenv("CUDASIM_MEMORY", TOTAL, 1);
	setenv("CUDASIM_DRIVER", "580", 1);
	snprintf(path, sizeof path, "%.*s../../libcudasim-nvml.so",
		 (int)(strrchr(argv[0], '/') + 1 - argv[0]), argv[0]);
	library = dlopen(path, RTLD_NOW);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_settings_leave_it_uninitialized),
		cmocka_unit_test(starts_and_names_its_errors),
		cmocka_unit_test(finds_devices),
		cmocka_unit_test(names_devices),
		cmocka_unit_test(has_a_place_on_the_bus),
		cmocka_unit_test(counts_no_memory_before_a_context),
		cmocka_unit_test(counts_the_memory_of_the_device),
		cmocka_unit_test(has_versions_and_no_links),
	};
	return cmocka_run_group_tests_name("simulated NVML", tests, NULL, NULL);
}
