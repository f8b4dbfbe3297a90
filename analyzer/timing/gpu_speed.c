#include "timing/gpu_speed.h"

#include "estimate/device.h"
#include "estimate/inputs.h"

#include <string.h>

/* Fitted to document 003's columns that tests/accuracy/planner.py calls development: kernels of a
 * training step reach less of the best rate than mamf-finder.py, which measures its best shape
 * alone on a cool GPU. */
#define IN_TRAINING 0.90
/* Kernels that stream through memory reach nine tenths of the data sheet on large arrays
 * (BabelStream on A100 and H100: 0.85 to 0.93). */
#define STREAMING 0.85
/* NCCL's bus bandwidth for large messages: 230 to 240 of 300 GB/s on A100, 360 of 450 on H100
 * (nccl-tests, as its issues quote it). */
#define NVLINK 0.75
#define NETWORK 0.85

#define GIGA 1e9
#define TERA 1e12

static const struct sheet {
	const char *name;
	double memory, half, single, peers, host, network;
} sheets[] = {
#define SPEED(...) { __VA_ARGS__ },
#if __has_include("../../preload/sim/time/speeds.def")
#include "../../preload/sim/time/speeds.def"
#endif
#undef SPEED
	{ NULL, 0, 0, 0, 0, 0, 0 },
};

static const struct efficiency {
	int capability;
	double product, forward, backward;
} efficiencies[] = {
#define EFFICIENCY(...) { __VA_ARGS__ },
#include "timing/efficiency.def"
};

/* The row of the newest GPU that is not newer than this one. */
static const struct efficiency *efficiency_of(int capability)
{
	const struct efficiency *found = efficiencies;

	for (size_t i = 0; i < ARRAY_SIZE(efficiencies); i++)
		if (efficiencies[i].capability <= capability)
			found = &efficiencies[i];
	return found;
}

int gpu_speed_read(struct gpu_speed *speed, const struct config *c)
{
	const struct gpu *gpu = GIVEN(c, gpu) ? gpu_find(c->gpu) : NULL;
	const struct sheet *sheet = sheets;
	const struct efficiency *part;

	while (gpu && sheet->name && strcmp(sheet->name, gpu->name) != 0)
		sheet++;
	if (!gpu || !sheet->name)
		return 0;
	part = efficiency_of(gpu->capability);
	*speed = (struct gpu_speed){
		.peak = sheet->half * TERA,
		.product = sheet->half * TERA * part->product * IN_TRAINING,
		.single = sheet->single * TERA * part->product * IN_TRAINING,
		.attention_forward = sheet->half * TERA * part->forward,
		.attention_backward = sheet->half * TERA * part->backward,
		.memory = sheet->memory * GIGA * STREAMING,
		.peers = sheet->peers * GIGA * NVLINK,
		.network = VALUE_OR(c, network_bandwidth, sheet->network) * GIGA * NETWORK,
		.processors = gpu->processors,
		.capability = gpu->capability,
		.node = VALUE_OR(c, num_gpus_per_node, GPUS_OF_A_NODE),
	};
	return 1;
}
