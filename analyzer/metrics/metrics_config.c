/* The metrics that follow from what a job declares: its configuration, its environment, the size of
 * its world. */
#include "metrics/metrics_config.h"

#include "config/allocator_conf.h"
#include "config/config.h"
#include "config/rank_layout.h"
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

static void read_allocator_conf(struct metrics *m, const struct trace *t)
{
	struct str conf = tables_allocator_conf(&t->tables);
	struct allocator_option o;

	m->settings_unknown = trace_is_imported(t) && !tables_meta(&t->tables, MT_META_SETTINGS);
	while (allocator_conf_next(&conf, &o)) {
		m->expandable |= allocator_option_is(&o, "expandable_segments", "True");
		m->max_split |= allocator_option_is(&o, "max_split_size_mb", NULL);
		m->capped |= allocator_option_is(&o, "per_process_memory_fraction", NULL);
	}
}

static int is_text(const char *value, const char *text)
{
	return value && !strcmp(value, text);
}

/* Returns `otherwise` if the field is not given. */
static int64_t number_or(const struct config *c, enum config_field f, int64_t value,
			 int64_t otherwise)
{
	return config_has(c, f) && value > 0 && value < 1 << 20 ? value : otherwise;
}
#define NUMBER_OR(c, field, otherwise) number_or(c, CONFIG_##field, (c)->field, otherwise)
#define IS_ON(c, field) (config_has(c, CONFIG_##field) && (c)->field)

/* torchtitan accumulates gradients by itself: its option is no size that a remedy can name. */
static int64_t micro_batch_of(const struct config *c)
{
	return config_has(c, CONFIG_micro_batch_size) &&
			       !strncmp(c->origin[CONFIG_micro_batch_size], "--", 2) &&
			       !is_text(c->framework, "torchtitan")
		       ? NUMBER_OR(c, micro_batch_size, 0)
		       : 0;
}

static void read_software(struct metrics *m, const struct config *c)
{
	int major = 0, minor = 0;

	if (config_has(c, CONFIG_torch_version) &&
	    sscanf(c->torch_version, "%d.%d", &major, &minor) == 2 && major < 100 && minor < 1000)
		m->torch_version = 1000 * major + minor;
}

static void read_layout(struct metrics *m, const struct config *c, const struct mt_header *h)
{
	struct rank_layout l;

	m->world_size = h->world_size > 0 ? h->world_size : 1;
	m->pipeline_size = NUMBER_OR(c, pipeline_model_parallel_size, 1);
	m->tensor_size = NUMBER_OR(c, tensor_model_parallel_size, 1);
	if (h->rank >= 0 && rank_layout_read(&l, c, (int)m->world_size))
		m->pipeline_rank = rank_coordinates(&l, h->rank).at[AXIS_PP];
	/* Ranks of one context-parallel group reduce their gradients together as well. */
	m->data_parallel = m->world_size / m->pipeline_size / m->tensor_size > 1 &&
			   m->tags & (TAGGED(DDP) | TAGGED(MEGATRON) | TAGGED(ZERO));
}

static void read_options(struct metrics *m, const struct config *c)
{
	const char *recompute =
		config_has(c, CONFIG_recompute_granularity) ? c->recompute_granularity : NULL;

	m->micro_batch = micro_batch_of(c);
	m->half_batch = m->micro_batch / 2;
	m->experts = NUMBER_OR(c, num_experts, 0);
	m->experts += !m->experts && m->tags & TAGGED(EXPERT);
	m->asks_selective =
		is_text(recompute, "selective") && is_text(c->framework, "megatron-core");
	m->asks_recompute = is_text(recompute, "full");
	m->asks_fp8 = config_has(c, CONFIG_fp8_format);
	m->asks_distributed_optimizer = IS_ON(c, use_distributed_optimizer);
	m->asks_double_buffer = IS_ON(c, fsdp_double_buffer) || IS_ON(c, use_nccl_ub);
	m->saw_recompute = (m->tags & TAGGED(RECOMPUTE)) != 0;
}

void metrics_from_config(struct metrics *m, const struct trace *t, const struct config *c)
{
	struct config nothing;

	config_init(&nothing);
	c = c ? c : &nothing;
	read_allocator_conf(m, t);
	read_software(m, c);
	read_layout(m, c, &t->header);
	read_options(m, c);
	config_release(&nothing);
}
