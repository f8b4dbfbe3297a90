#include "render/plan_json.h"

#include "plan/plan_reasons.h"
#include "render/json_util.h"
#include "render/json_write.h"

/* A member for every size that the layout has. */
static void set_sizes(json_t *o, const struct plan_layout *l)
{
	for (size_t i = 0; i < DIMENSIONS; i++) {
		const char *key = config_name(dimensions[i].key);

		if (l->size[i] == UNSET)
			continue;
		set(o, key,
		    i == DIM_RECOMPUTE ? json_string(recompute_names[l->size[i]])
				       : json_integer(l->size[i]));
	}
	if (l->micro_batches != UNSET)
		set(o, "num_microbatches", json_integer(l->micro_batches));
}

static json_t *stages_json(const struct plan_layout *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->stage_count; i++) {
		json_t *o = json_object();

		set(o, "stage", json_integer((json_int_t)i));
		set(o, "total_bytes", json_integer((json_int_t)l->stages[i]));
		json_array_append_new(list, o);
	}
	return list;
}

static void set_time(json_t *o, const struct step_time *t)
{
	json_t *parts = json_object();

	set(o, "step_time_s", json_real(t->seconds));
	set(o, "tokens_per_gpu_s", json_real(t->tokens));
	set(o, "mfu", json_real(t->mfu));
#define X(member, key) set(parts, key, json_real(t->member));
	STEP_PARTS(X)
#undef X
	set(o, "step_time_parts_s", parts);
}

/* The layouts that fit, with the flags of a launcher. */
struct fitting {
	const struct plan *plan;
	enum plan_launcher launcher;
};

static json_t *layout_json(const void *list, size_t index)
{
	const struct fitting *fitting = list;
	const struct plan_layout *l = &fitting->plan->fitting.at[index];
	json_t *o = json_object();
	struct buf flags = { 0 };

	set_sizes(o, l);
	set(o, "sequence_parallel", json_boolean(l->sequence_parallel));
	set(o, "total_bytes", json_integer((json_int_t)l->total));
	set(o, "color", json_string(fit_word(l->fit)));
	set(o, "bubble", json_real(l->bubble));
	if (l->time.seconds > 0)
		set_time(o, &l->time);
	set(o, "per_stage", stages_json(l));
	plan_flags(fitting->plan, l, fitting->launcher, &flags);
	set(o, "flags", text(flags.text));
	buf_release(&flags);
	return o;
}

static json_t *discarded_json(const void *list, size_t index)
{
	const struct plan_layout *l = &((const struct plan_layouts *)list)->at[index];
	json_t *o = json_object(), *sizes = json_object();

	set_sizes(sizes, l);
	set(o, "layout", sizes);
	set(o, "reason", text(l->reason));
	set(o, "count", json_integer(l->count));
	return o;
}

static json_t *reasons_json(const struct plan *plan)
{
	struct plan_reason top[PLAN_REASONS];
	size_t count = plan_reasons(plan, top);
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *o = json_object();

		set(o, "count", json_integer(top[i].count));
		set(o, "example", text(top[i].text));
		json_array_append_new(list, o);
	}
	return list;
}

void plan_json(const struct plan *plan, enum plan_launcher launcher, json_t *simulated,
	       struct buf *out)
{
	static const struct json_reals decimals = { .digits = 6, .is_fixed = 1 };
	struct fitting fitting = { plan, launcher == LAUNCHER_NONE ? LAUNCHER_MEGATRON : launcher };
	struct json_members m = json_members_begin(decimals, out);

	json_members_add(&m, "system", json_string(plan->system->name));
	json_members_add(&m, "gpus", json_integer(plan->gpus));
	json_members_add(&m, "device_memory_bytes", json_integer((json_int_t)plan->memory));
	json_members_add(&m, "order", json_string(plan->order == ORDER_TIME ? "time" : "document"));
	json_members_add(&m, "assumes_attention_masks", json_boolean(plan->assumes_masks));
	json_members_add_list(&m, "layouts", layout_json, &fitting, plan->fitting.count);
	json_members_add(&m, "not_judged", json_integer(plan->not_judged));
	json_members_add_list(&m, "discarded", discarded_json, &plan->discarded,
			      plan->discarded.count);
	json_members_add(&m, "reasons", reasons_json(plan));
	if (simulated)
		json_members_add(&m, "simulated", json_incref(simulated));
	json_members_end(&m);
	buf_puts(out, "\n");
}
