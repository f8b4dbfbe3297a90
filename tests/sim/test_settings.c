/* The settings of the simulated device, each in a process of its own: what a wrong one says, and
 * which devices CUDA_VISIBLE_DEVICES leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

#include "forks.h"

/* The number of devices, or -ERROR, and the buses of the first two. */
struct seen {
	int devices, bus[2];
};

static void look(struct seen *seen)
{
	char id[32];
	int error = (int)cudaGetDeviceCount(&seen->devices);

	if (error)
		seen->devices = -error;
	for (int i = 0; i < seen->devices && i < 2; i++)
		if (!cudaDeviceGetPCIBusId(id, sizeof id, i))
			seen->bus[i] = (int)strtol(id + 5, NULL, 16); /* 0000:BUS:00.0 */
}

/* What a process sees with VARIABLE, and its text on stderr. */
static struct seen with(const char *variable, const char *value, char *text, size_t size)
{
	struct seen seen = { 0, { 0 } };
	FILE *file = tmpfile();
	int pipes[2];
	size_t length;

	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork_job();
	if (!pid) {
		dup2(fileno(file), STDERR_FILENO);
		setenv(variable, value, 1);
		look(&seen);
		end_job(write(pipes[1], &seen, sizeof seen) != sizeof seen);
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &seen, sizeof seen), sizeof seen);
	close(pipes[0]);
	waitpid(pid, NULL, 0);
	rewind(file);
	length = fread(text, 1, size - 1, file);
	text[length] = '\0';
	fclose(file);
	return seen;
}

static void wrong_values_are_named(void **state)
{
	static const struct {
		const char *variable, *value, *text;
	} rows[] = {
		{ "CUDASIM_GPUS", "9", "CUDASIM_GPUS=9: expected a whole number from 1 to 8\n" },
		{ "CUDASIM_GPUS", "2x", "CUDASIM_GPUS=2x: expected a whole number from 1 to 8\n" },
		{ "CUDASIM_GPUS", "-1", "CUDASIM_GPUS=-1: expected a whole number from 1 to 8\n" },
		{ "CUDASIM_GPUS", "99999999999999999999",
		  "CUDASIM_GPUS=99999999999999999999: expected a whole number from 1 to 8\n" },
		{ "CUDASIM_STREAMS", "never",
		  "CUDASIM_STREAMS=never: expected one of late|early|timed\n" },
		{ "CUDASIM_STREAMS", "lat",
		  "CUDASIM_STREAMS=lat: expected one of late|early|timed\n" },
		{ "CUDASIM_COPY_MAX", "much",
		  "CUDASIM_COPY_MAX=much: expected bytes or a size such as 80GiB from 0 to 8796093022208\n" },
		{ "CUDASIM_COPY_MAX", "9TiB",
		  "CUDASIM_COPY_MAX=9TiB: expected bytes or a size such as 80GiB from 0 to 8796093022208\n" },
		{ "CUDASIM_MEMORY", "648019968",
		  "CUDASIM_MEMORY=648019968: expected more than the 648019968 bytes that the CUDA context of a H100-80GB takes\n" },
		{ "CUDASIM_GPU", "abacus", "CUDASIM_GPU=abacus: expected one of " },
	};
	char text[2048];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct seen seen = with(rows[i].variable, rows[i].value, text, sizeof text);

		assert_int_equal(seen.devices, -cudaErrorInitializationError);
		assert_memory_equal(text, "cudasim: ", 9);
		assert_memory_equal(text + 9, rows[i].text, strlen(rows[i].text));
	}
	assert_non_null(strstr(text, "H100-80GB"));
	char long_name[300];
	memset(long_name, 'x', sizeof long_name - 1);
	long_name[sizeof long_name - 1] = '\0';
	assert_int_equal(with("CUDASIM_GPU", long_name, text, sizeof text).devices,
			 -cudaErrorInitializationError);
	assert_non_null(strstr(text, ": expected a short name\n"));
}

static void right_values_are_taken(void **state)
{
	static const char *const rows[][2] = { { "CUDASIM_GPU", "a100-80gb" }, /* any case */
					       { "CUDASIM_GPU", "NVIDIA H100 80GB HBM3" },
					       { "CUDASIM_STREAMS", "early" },
					       { "CUDASIM_COPY_MAX", "0" },
					       { "CUDASIM_MEMORY", "648019969" } };
	char text[2048];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(with(rows[i][0], rows[i][1], text, sizeof text).devices, 4);
		assert_string_equal(text, "");
	}
}

/* As CUDA documents it: the devices before the first that does not exist, in the order of the list.
 * The buses begin at 1. */
static void visible_devices_are_a_list(void **state)
{
	static const struct {
		const char *list;
		int devices, bus[2];
	} rows[] = {
		{ "2,0", 2, { 3, 1 } },
		{ "3", 1, { 4, 0 } },
		{ "", -cudaErrorNoDevice, { 0, 0 } },
		{ "-1", -cudaErrorNoDevice, { 0, 0 } },
		{ "1,x,2", 1, { 2, 0 } },
		{ "1,4,2", 1, { 2, 0 } },
		{ "GPU-63756461-7369-6d00-0000-000000000002", 1, { 3, 0 } },
		{ "GPU-63756461-7369-6d00-0000-000000000003,1", 2, { 4, 2 } },
		{ "GPU-63,GPU-64", 2, { 1, 2 } }, /* abbreviations: equal devices */
	};
	char text[2048];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct seen seen = with("CUDA_VISIBLE_DEVICES", rows[i].list, text, sizeof text);

		if (seen.devices != rows[i].devices || seen.bus[0] != rows[i].bus[0] ||
		    seen.bus[1] != rows[i].bus[1])
			fail_msg("%s: %d devices, buses %d and %d", rows[i].list, seen.devices,
				 seen.bus[0], seen.bus[1]);
	}
}

int main(void)
{
	setenv("CUDASIM_GPUS", "4", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_values_are_named),
		cmocka_unit_test(right_values_are_taken),
		cmocka_unit_test(visible_devices_are_a_list),
	};
	return cmocka_run_group_tests_name("settings of the simulated device", tests, NULL, NULL);
}
