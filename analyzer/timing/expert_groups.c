#include "timing/expert_groups.h"

#include <math.h>

struct expert_groups expert_groups(const struct model_sizes *m, double tp, double data, double ep)
{
	double tensor = m->expert_tp > 0 ? m->expert_tp : tp;

	return (struct expert_groups){
		.tensor = tensor,
		.other = { ep, tensor },
		.same = { fmax(1, tp * data / tensor / ep), tensor * ep },
	};
}
