/* Where a rank is in the parallel layout: Megatron's order of axes, which torchtitan's meshes and
 * DeepSpeed's pipelines share. */
#include "report/rank_groups.h"

#include "config/config.h"

#include <string.h>

const char *axis_key(enum axis a)
{
	static const char *const keys[] = {
#define X(id, key, field) key,
		RANK_AXES(X)
#undef X
	};

	return keys[a];
}

void layout_place(const struct layout *l, int rank, int at[AXES])
{
	static const enum axis usual[] = { AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP },
			       other[] = { AXIS_TP, AXIS_CP, AXIS_PP, AXIS_DP };
	int64_t rest = rank, within;

	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
		enum axis a = l->stages_before_data ? other[i] : usual[i];

		at[a] = (int)(rest % l->size[a]);
		rest /= l->size[a];
	}
	/* Within the stage, experts count on their own: tensor, expert, data. */
	within = at[AXIS_TP] +
		 l->size[AXIS_TP] * (at[AXIS_CP] + l->size[AXIS_CP] * (int64_t)at[AXIS_DP]);
	at[AXIS_EP] = (int)(within / l->expert_tensor % l->size[AXIS_EP]);
}

int layout_read(struct layout *l, const struct config *c, const char *command, int world)
{
	int64_t model = 1, experts;
	int known = c->from_framework;

	*l = (struct layout){ .stages_before_data =
				      command && strstr(command, "--use-tp-pp-dp-mapping") };
#define X(id, key, field) \
	l->size[AXIS_##id] = config_has(c, CONFIG_##field) ? c->field : 1; \
	known |= AXIS_##id != AXIS_DP && config_has(c, CONFIG_##field);
	RANK_AXES(X)
#undef X
	l->expert_tensor = config_has(c, CONFIG_expert_tensor_parallel_size)
				   ? c->expert_tensor_parallel_size
				   : l->size[AXIS_TP];
	/* Each factor and each product is at most `world`, so nothing overflows. */
	for (int a = 0; a < AXES; a++)
		if (l->size[a] < 1 || (a != AXIS_DP && l->size[a] > world))
			return 0;
	if (!known || l->expert_tensor < 1 || l->expert_tensor > world)
		return 0;
	for (int a = 0; a < AXES; a++) {
		if (a == AXIS_DP || a == AXIS_EP)
			continue;
		model *= l->size[a];
		if (model > world)
			return 0;
	}
	experts = l->expert_tensor * l->size[AXIS_EP];
	if (world % model || (l->size[AXIS_EP] > 1 && world / l->size[AXIS_PP] % experts))
		return 0;
	l->size[AXIS_DP] = world / model;
	return 1;
}
