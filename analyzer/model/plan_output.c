/* A plan for people, for machines, and to paste. */
#include "model/plan.h"

#include <stdio.h>
#include <string.h>

#include "render/page.h"

#define GIB ((double)(INT64_C(1) << 30))

static void megatron(const struct plan *plan, const struct layout *l, struct buf *out)
{
	buf_addf(out,
		 "--tensor-model-parallel-size %lld --pipeline-model-parallel-size %lld "
		 "--context-parallel-size %lld --micro-batch-size %lld --global-batch-size %lld "
		 "--use-distributed-optimizer%s",
		 (long long)l->t, (long long)l->p, (long long)l->c, (long long)l->micro_batch,
		 (long long)plan->config->global_batch_size,
		 l->t > 1 ? " --sequence-parallel" : "");
}

static void deepspeed(const struct plan *plan, const struct layout *l, struct buf *out)
{
	if (l->t * l->p * l->c > 1) {
		buf_puts(out,
			 "none: a ds_config.json has no tensor, pipeline or context parallelism");
		return;
	}
	buf_addf(out,
		 "{\"train_batch_size\": %lld, \"train_micro_batch_size_per_gpu\": %lld, "
		 "\"gradient_accumulation_steps\": %lld, \"zero_optimization\": {\"stage\": 1}}",
		 (long long)plan->config->global_batch_size, (long long)l->micro_batch,
		 (long long)l->micro_batches);
}

static void torchtitan(const struct plan *plan, const struct layout *l, struct buf *out)
{
	buf_addf(
		out,
		"--parallelism.tensor_parallel_degree=%lld --parallelism.pipeline_parallel_degree=%lld "
		"--parallelism.context_parallel_degree=%lld --parallelism.data_parallel_shard_degree=%lld "
		"--training.local_batch_size=%lld --training.global_batch_size=%lld",
		(long long)l->t, (long long)l->p, (long long)l->c, (long long)l->d,
		(long long)(l->micro_batch * (l->p > 1 ? l->micro_batches : 1)),
		(long long)plan->config->global_batch_size);
	if (l->p > 1)
		buf_addf(out, " --parallelism.pipeline_parallel_microbatch_size=%lld",
			 (long long)l->micro_batch);
}

static void accelerate(const struct layout *l, struct buf *out)
{
	if (l->c > 1) {
		buf_puts(out, "none: accelerate's Megatron-LM plugin has no context parallelism");
		return;
	}
	buf_addf(
		out,
		"--num_processes %lld --use_megatron_lm --megatron_lm_tp_degree %lld "
		"--megatron_lm_pp_degree %lld --megatron_lm_num_micro_batches %lld "
		"--megatron_lm_use_distributed_optimizer true --megatron_lm_sequence_parallelism %s",
		(long long)(l->t * l->p * l->d), (long long)l->t, (long long)l->p,
		(long long)l->micro_batches, l->t > 1 ? "true" : "false");
}

void plan_flags(const struct plan *plan, const struct layout *l, enum flags flags, struct buf *out)
{
	switch (flags) {
	case FLAGS_NONE:
		break;
	case FLAGS_MEGATRON:
		megatron(plan, l, out);
		break;
	case FLAGS_DEEPSPEED:
		deepspeed(plan, l, out);
		break;
	case FLAGS_TORCHTITAN:
		torchtitan(plan, l, out);
		break;
	case FLAGS_ACCELERATE:
		accelerate(l, out);
		break;
	}
}

/* `"key":n` of every size that the layout has. */
static void put_sizes(const struct layout *l, struct buf *out)
{
	const struct {
		const char *key;
		int64_t size;
	} sizes[] = {
		{ "tensor_model_parallel_size", l->t }, { "pipeline_model_parallel_size", l->p },
		{ "context_parallel_size", l->c },      { "data_parallel_size", l->d },
		{ "micro_batch_size", l->micro_batch }, { "num_microbatches", l->micro_batches },
	};
	int any = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (sizes[i].size)
			buf_addf(out, "%s\"%s\":%lld", any++ ? "," : "", sizes[i].key,
				 (long long)sizes[i].size);
}

static void put_layout(const struct plan *plan, const struct layout *l, enum flags flags,
		       struct buf *out)
{
	struct buf paste = { 0 };
	char text[48];

	buf_puts(out, "{");
	put_sizes(l, out);
	buf_addf(out, ",\"zero_stage\":1,\"total_bytes\":%s,\"color\":\"%s\",\"bubble\":%.6f",
		 wide_text(l->total, text), fit_word(l->fit), l->bubble);
	buf_puts(out, ",\"per_stage\":[");
	for (size_t i = 0; i < l->stage_count; i++)
		buf_addf(out, "%s{\"stage\":%zu,\"total_bytes\":%s}", i ? "," : "", i,
			 wide_text(l->stages[i].total, text));
	buf_puts(out, "]");
	plan_flags(plan, l, flags == FLAGS_NONE ? FLAGS_MEGATRON : flags, &paste);
	buf_puts(out, ",\"flags\":\"");
	for (size_t i = 0; i < paste.length; i++)
		buf_addf(out, "%s%c", paste.text[i] == '"' ? "\\" : "", paste.text[i]);
	buf_puts(out, "\"}");
	buf_release(&paste);
}

void plan_json(const struct plan *plan, enum flags flags, struct buf *out)
{
	char text[48];

	buf_addf(out,
		 "{\"system\":\"llama-4d\",\"gpus\":%lld,\"device_memory_bytes\":%s,\"layouts\":[",
		 (long long)plan->gpus, wide_text(plan->memory, text));
	for (size_t i = 0; i < plan->count; i++) {
		buf_puts(out, i ? "," : "");
		put_layout(plan, &plan->layouts[i], flags, out);
	}
	buf_puts(out, "],\"discarded\":[");
	for (size_t i = 0; i < plan->discarded_count; i++) {
		buf_puts(out, i ? ",{\"layout\":{" : "{\"layout\":{");
		put_sizes(&plan->discarded[i], out);
		buf_addf(out, "},\"reason\":\"%s\"}", plan->discarded[i].reason);
	}
	buf_puts(out, "]}\n");
}

static void put_rows(struct page *p, const struct plan *plan, enum flags flags, size_t top)
{
	buf_addf(p->out, "%4s %4s %4s %5s %11s %13s %7s %10s\n", "TP", "PP", "CP", "DP",
		 "micro-batch", "micro-batches", "bubble", "GiB");
	for (size_t i = 0; i < plan->count && i < top; i++) {
		const struct layout *l = &plan->layouts[i];

		buf_addf(p->out, "%4lld %4lld %4lld %5lld %11lld %13lld %6.1f%% %10.2f  ",
			 (long long)l->t, (long long)l->p, (long long)l->c, (long long)l->d,
			 (long long)l->micro_batch, (long long)l->micro_batches, 100 * l->bubble,
			 (double)l->total / GIB);
		page_paint(p, l->fit == FIT_GREEN ? PAINT_CACHED : PAINT_WARNING, fit_word(l->fit));
		buf_puts(p->out, "\n");
		if (flags != FLAGS_NONE) {
			buf_puts(p->out, "     ");
			plan_flags(plan, l, flags, p->out);
			buf_puts(p->out, "\n");
		}
	}
}

void plan_text(const struct plan *plan, enum flags flags, size_t top, const struct style *style,
	       struct buf *out)
{
	struct page p = { .out = out, .style = style };
	size_t shown = plan->discarded_count < top ? plan->discarded_count : top;

	buf_addf(out, "%zu layouts of %lld GPUs of %.0f GiB, by document 003 (llama-4d)\n\n",
		 plan->count, (long long)plan->gpus, (double)plan->memory / GIB);
	if (plan->count)
		put_rows(&p, plan, flags, top);
	if (plan->count > top)
		buf_addf(out, "and %zu more: --all\n", plan->count - top);
	buf_addf(out, "\n%zu discarded%s\n", plan->discarded_count, shown ? ", of them" : "");
	for (size_t i = 0; i < shown; i++) {
		const struct layout *l = &plan->discarded[i];

		buf_addf(out, "  TP %lld", (long long)l->t);
		if (l->p)
			buf_addf(out, " PP %lld", (long long)l->p);
		if (l->c)
			buf_addf(out, " CP %lld", (long long)l->c);
		if (l->micro_batch)
			buf_addf(out, " micro-batch %lld", (long long)l->micro_batch);
		buf_addf(out, ": %s\n", l->reason);
	}
	buf_puts(out, "\n");
	page_field(&p, "without", llama_4d.leaves_out, 0);
	page_field(
		&p, "note",
		"interleaved stages, experts, recomputation and ZeRO-2/3 are not in document 003: not planned",
		0);
}
