#include "config/rank_layout.h"

#include "util/util.h"

const char *axis_key(enum axis a)
{
	static const char *const keys[] = {
#define X(id, key, field) key,
		RANK_AXES(X)
#undef X
	};

	return keys[a];
}

struct rank_coordinates rank_coordinates(const struct rank_layout *l, int rank)
{
	static const enum axis usual[] = { AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP },
			       other[] = { AXIS_TP, AXIS_CP, AXIS_PP, AXIS_DP };
	struct rank_coordinates c = { { 0 } };
	int64_t rest = rank, within;

	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
		enum axis a = l->stages_before_data ? other[i] : usual[i];

		c.at[a] = (int)(rest % l->size[a]);
		rest /= l->size[a];
	}
	/* The experts of a stage have a layout of their own: tensor, expert, data. */
	within = c.at[AXIS_TP] +
		 l->size[AXIS_TP] * (c.at[AXIS_CP] + l->size[AXIS_CP] * (int64_t)c.at[AXIS_DP]);
	c.at[AXIS_EP] = (int)(within / l->expert_tensor % l->size[AXIS_EP]);
	return c;
}

int rank_layout_read(struct rank_layout *l, const struct config *c, int world)
{
	int64_t model = 1, experts;
	int known = c->from_framework;

	*l = (struct rank_layout){ .stages_before_data =
					   config_has(c, CONFIG_use_tp_pp_dp_mapping) &&
					   c->use_tp_pp_dp_mapping };
#define X(id, key, field)                                                  \
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
