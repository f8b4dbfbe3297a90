#include "phase.h"

/* A frame is an optimizer's if both patterns match. */
static const struct {
	const char *file, *function;
} optimizers[] = {
	{ "*/torch/optim/*.py", "*" },
	{ "*/megatron/core/optimizer/*", "*" },
	{ "*/deepspeed/runtime/*", "*step" },
	{ "*/deepspeed/ops/adam/*", "*" },
	{ "*/apex/optimizers/*", "*" },
	{ "*/bitsandbytes/optim/*", "*" },
	{ "*/transformer_engine/pytorch/optimizers/*", "*" },
	{ "*", "*zero_grad" },
	{ "*", "*ptimizer.step" },
};

const char *phase_name(enum phase p)
{
	static const char *const names[] = {
#define PHASE(id, key) key,
#include "phase.def"
#undef PHASE
	};

	return names[p];
}

const char *part_name(enum part p)
{
	static const char *const names[] = {
#define PART(id, key) key,
#include "phase.def"
#undef PART
	};

	return names[p];
}

int phase_is_optimizer(struct str function, struct str file)
{
	for (size_t i = 0; i < ARRAY_SIZE(optimizers); i++)
		if (str_matches(file, optimizers[i].file) &&
		    str_matches(function, optimizers[i].function))
			return 1;
	return 0;
}
