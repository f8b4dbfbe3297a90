#include "metrics/metrics.h"

#include "metrics/metrics_pass.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct metric_row metric_rows[] = {
#define METRIC(id, unit, meaning) { #id, UNIT_##unit, meaning, offsetof(struct metrics, id) },
#include "metrics/metrics.def"
#undef METRIC
};
const size_t metric_count = ARRAY_SIZE(metric_rows);

const struct metric_row *metric_find(const char *name, size_t length)
{
	for (size_t i = 0; i < metric_count; i++)
		if (strlen(metric_rows[i].name) == length &&
		    !memcmp(metric_rows[i].name, name, length))
			return &metric_rows[i];
	return NULL;
}

int64_t metric_value(const struct metrics *m, const struct metric_row *row)
{
	int64_t value;

	memcpy(&value, (const char *)m + row->offset, sizeof(value));
	return value;
}

/* The value of an option of the command line: "--name value", "--name=value"; "" for a flag alone.
 */
static int option(const struct trace *t, const char *name, char *value, size_t room)
{
	const struct meta *argv = tables_meta(&t->tables, MT_META_ARGV);
	size_t i = 0, length = strlen(name);
	int found = 0;

	if (!argv)
		return 0;
	*value = 0;
	while (i < argv->value.length) {
		const char *word = argv->value.at + i;
		size_t n = strnlen(word, argv->value.length - i), skip = 0;

		i += n + 1;
		if (n < length || memcmp(word, name, length) != 0 ||
		    (n > length && word[length] != '='))
			continue;
		found = 1;
		*value = 0;
		if (n > length) {
			skip = length + 1;
		} else if (i < argv->value.length && argv->value.at[i] != '-') {
			word = argv->value.at + i;
			n = strnlen(word, argv->value.length - i);
		} else {
			continue;
		}
		n -= skip;
		n = n < room ? n : room - 1;
		memcpy(value, word + skip, n);
		value[n] = 0;
	}
	return found;
}

static int has_option(const struct trace *t, const char *name)
{
	char value[64];

	return option(t, name, value, sizeof(value)) && strcasecmp(value, "false") != 0 &&
	       strcmp(value, "0") != 0;
}

static int64_t number_option(const struct trace *t, const char *name)
{
	char value[64];
	long n = option(t, name, value, sizeof(value)) ? strtol(value, NULL, 10) : 0;

	return n > 0 && n < 1 << 20 ? n : 0;
}

static int is_in(struct str text, const char *part)
{
	size_t n = strlen(part);

	for (size_t i = 0; i + n <= text.length; i++)
		if (!memcmp(text.at + i, part, n))
			return 1;
	return 0;
}

static void allocator_settings(struct metrics *m, const struct trace *t)
{
	static const char *const names[] = { MT_META_ENV "PYTORCH_CUDA_ALLOC_CONF",
					     MT_META_ENV "PYTORCH_ALLOC_CONF" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct meta *conf = tables_meta(&t->tables, names[i]);

		if (!conf)
			continue;
		m->expandable |= is_in(conf->value, "expandable_segments:True");
		m->max_split |= is_in(conf->value, "max_split_size_mb");
		m->capped |= is_in(conf->value, "per_process_memory_fraction");
	}
}

/* What a step's forward pass takes at a time, in the frameworks' spellings. */
static const char *const batch_options[] = {
	"--micro-batch-size",
	"--per_device_train_batch_size",
	"--per-device-train-batch-size",
	"--train_micro_batch_size_per_gpu",
};

void metrics_from_config(struct metrics *m, const struct trace *t)
{
	const struct meta *torch = tables_meta(&t->tables, MT_META_VERSION "torch");
	int major = 0, minor = 0;
	char text[32] = "";
	char value[64];

	allocator_settings(m, t);
	if (torch && torch->value.length < sizeof(text)) {
		memcpy(text, torch->value.at, torch->value.length);
		if (sscanf(text, "%d.%d", &major, &minor) == 2 && major < 100 && minor < 1000)
			m->torch_version = 1000 * major + minor;
	}
	m->world_size = t->header.world_size > 0 ? t->header.world_size : 1;
	m->pipeline_size = number_option(t, "--pipeline-model-parallel-size");
	m->tensor_size = number_option(t, "--tensor-model-parallel-size");
	m->pipeline_size += !m->pipeline_size;
	m->tensor_size += !m->tensor_size;
	for (size_t i = 0; i < ARRAY_SIZE(batch_options) && !m->micro_batch; i++)
		m->micro_batch = number_option(t, batch_options[i]);
	m->half_batch = m->micro_batch / 2;
	m->experts = number_option(t, "--num-experts");
	m->experts += !m->experts && m->tags & TAGGED(EXPERT);
	if (m->pipeline_size > 1 && m->world_size % m->pipeline_size == 0 && t->header.rank >= 0)
		m->pipeline_rank = t->header.rank / (m->world_size / m->pipeline_size);
	m->asks_selective = has_option(t, "--recompute-activations") ||
			    (option(t, "--recompute-granularity", value, sizeof(value)) &&
			     !strcmp(value, "selective"));
	m->asks_recompute = has_option(t, "--gradient_checkpointing") ||
			    has_option(t, "--gradient-checkpointing") ||
			    has_option(t, "--checkpoint-activations") ||
			    (option(t, "--recompute-granularity", value, sizeof(value)) &&
			     !strcmp(value, "full"));
	m->asks_fp8 = has_option(t, "--fp8-format") || has_option(t, "--fp8-hybrid") ||
		      has_option(t, "--fp8-e4m3");
	m->asks_distributed_optimizer = has_option(t, "--use-distributed-optimizer");
	m->asks_double_buffer =
		has_option(t, "--fsdp-double-buffer") || has_option(t, "--use-nccl-ub");
	m->saw_recompute = (m->tags & TAGGED(RECOMPUTE)) != 0;
	m->data_parallel = m->world_size / m->pipeline_size / m->tensor_size > 1 &&
			   m->tags & (TAGGED(DDP) | TAGGED(MEGATRON) | TAGGED(ZERO));
}
