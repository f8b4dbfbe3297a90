/* memtrace simulate: a command under the interceptor and on a simulated device. */
#include "command.h"
#include "buf.h"
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_GPUS 8
#define MOST_MEMORY (INT64_C(1) << 43) /* the simulated device's own limit */

/* Every name that the simulated device answers to: its own, its device's, aliases. */
static const struct gpu_name {
	const char *name, *device, *alias_of;
} gpus[] = {
#if __has_include("../../preload/sim/gpus.def")
#define GPU(name, nominal, usable, major, minor, processors, device, ...) { name, device, NULL },
#define GPU_ALIAS(alias, name) { alias, alias, name },
#include "../../preload/sim/gpus.def"
#undef GPU
#undef GPU_ALIAS
#endif
	{ NULL, NULL, NULL },
};

static int check_gpu(const char *name, struct err *e)
{
	struct buf list = { 0 };

	if (!gpus[0].name)
		return 0;
	for (const struct gpu_name *g = gpus; g->name; g++) {
		if (!strcasecmp(name, g->name) || !strcasecmp(name, g->device))
			return 0;
		if (!g->alias_of)
			buf_addf(&list, "%s%s", list.length ? ", " : "", g->name);
	}
	err_set(e, "--gpu is \"%s\", expected one of %s", name, list.text);
	buf_release(&list);
	return -1;
}

static int set_number(const char *variable, long long value, struct err *e)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", value);
	if (setenv(variable, text, 1) < 0)
		return err_set(e, "cannot set %s", variable);
	return 0;
}

static int set_device(const char *gpu, bytes memory, int count, struct err *e)
{
	if (gpu && setenv("CUDASIM_GPU", gpu, 1) < 0)
		return err_set(e, "cannot set CUDASIM_GPU");
	if (memory && set_number("CUDASIM_MEMORY", memory, e) < 0)
		return -1;
	return count ? set_number("CUDASIM_GPUS", count, e) : 0;
}

int cmd_simulate(int argc, char **argv)
{
	const char *directory = NULL, *gpu = NULL;
	bytes memory = -1;
	int count = 0, n;
	const struct opt rows[] = {
		{ "output", 'o', OPT_TEXT, &directory, "DIR",
		  "directory for the traces (MEMTRACE_DIR)", 0, 0 },
		{ "gpu", 0, OPT_TEXT, &gpu, "NAME", "the GPU to simulate (CUDASIM_GPU)", 0, 0 },
		{ "memory", 0, OPT_SIZE, &memory, "SIZE",
		  "the card's total memory, context included (CUDASIM_MEMORY)", 0, 0 },
		{ "gpus", 0, OPT_COUNT, &count, "N", "how many GPUs, 1 to 8 (CUDASIM_GPUS)", 1,
		  MOST_GPUS },
	};
	struct opt_set set = { .rows = rows, .count = ARRAY_SIZE(rows), .stop_at_first = 1 };
	struct err e = { 0 };

	n = opt_parse(&set, argc, argv, &e);
	if (set.wants_help) {
		command_help(
			"simulate [-o DIR] [--gpu NAME | --memory SIZE] [--gpus N] -- COMMAND [ARGUMENT...]",
			"Runs COMMAND on a simulated GPU: kernels do nothing, every allocation is real PyTorch.\n"
			"SIZE is bytes, or a number with KiB, MiB, GiB, TiB (2^n) or KB, MB, GB, TB (10^n).",
			&set);
		fputs("\nGPUs:", stdout);
		for (const struct gpu_name *g = gpus; g->name; g++)
			if (!g->alias_of)
				printf(" %s", g->name);
		puts("");
		return STATUS_FINE;
	}
	if (n >= 0 && memory != -1 && (memory <= 0 || memory > MOST_MEMORY))
		err_set(&e, "--memory is out of range: expected more than 0 and at most 8 TiB");
	if (gpu && !e.text[0])
		check_gpu(gpu, &e);
	if (!n)
		err_set(&e, "simulate needs a command: memtrace simulate -- COMMAND");
	if (e.text[0])
		return command_fail(STATUS_USAGE, &e);
	/* libmemtrace.so first: it must see the calls before the device answers them. */
	if (launch_set_directory(directory, &e) < 0 || launch_preload("libcudasim.so", &e) < 0 ||
	    launch_preload("libmemtrace.so", &e) < 0 || launch_set_triton(&e) < 0 ||
	    set_device(gpu, memory > 0 ? memory : 0, count, &e) < 0)
		return command_fail(LAUNCH_FAILED, &e);
	return launch_exec(argv + 1);
}
