#include "json/plan_json.h"

#include "plan/plan_reasons.h"
#include "json/json_util.h"
#include "json/json_write.h"

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

static json_t *stage_json(const struct plan_layout *x, size_t i)
{
	json_t *j = json_object();

#define PLAN_STAGE PUT_MEMBER
#include "plan/members.def"
	return j;
}

static json_t *stages_json(const struct plan_layout *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->stage_count; i++)
		json_array_append_new(list, stage_json(l, i));
	return list;
}

static json_t *step_parts_json(const struct step_time *t)
{
	json_t *parts = json_object();

#define X(member, key) set(parts, key, json_real(t->member));
	STEP_PARTS(X)
#undef X
	return parts;
}

static void set_time(json_t *j, const struct step_time *x)
{
#define PLAN_TIME PUT_MEMBER
#include "plan/members.def"
}

/* The layouts that fit, with the flags of a launcher. */
struct fitting {
	const struct plan *plan;
	enum plan_launcher launcher;
};

static json_t *layout_json(const void *list, size_t index)
{
	const struct fitting *fitting = list;
	const struct plan_layout *x = &fitting->plan->fitting.at[index];
	json_t *j = json_object();
	struct buf flags = { 0 };

	set_sizes(j, x);
#define PLAN_LAYOUT PUT_MEMBER
#include "plan/members.def"
	if (x->time.seconds > 0)
		set_time(j, &x->time);
	set(j, "per_stage", stages_json(x));
	plan_flags(fitting->plan, x, fitting->launcher, &flags);
	set(j, "flags", text(flags.text));
	buf_release(&flags);
	return j;
}

static json_t *sizes_json(const struct plan_layout *l)
{
	json_t *sizes = json_object();

	set_sizes(sizes, l);
	return sizes;
}

static json_t *discarded_json(const void *list, size_t index)
{
	const struct plan_layout *x = &((const struct plan_layouts *)list)->at[index];
	json_t *j = json_object();

#define DISCARDED PUT_MEMBER
#include "plan/members.def"
	return j;
}

static json_t *reason_json(const struct plan_reason *x)
{
	json_t *j = json_object();

#define REASON PUT_MEMBER
#include "plan/members.def"
	return j;
}

static json_t *reasons_json(const struct plan *plan)
{
	struct plan_reason top[PLAN_REASONS];
	size_t count = plan_reasons(plan, top);
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, reason_json(&top[i]));
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
	if (plan->assumed)
		json_members_add(&m, "assumed", json_string(plan->assumed));
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
