#include "model/plan.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "model/read.h"

#define MOST_LAYOUTS 200000

static struct layout *append(struct layout **list, size_t *count, size_t *room,
			     const struct layout *l)
{
	*list = grow(*list, *count, room, sizeof(**list));
	(*list)[*count] = *l;
	return &(*list)[(*count)++];
}

__attribute__((format(printf, 3, 4))) static void discard(struct plan *plan, const struct layout *l,
							  const char *format, ...)
{
	struct layout *kept;
	va_list args;

	if (plan->discarded_count >= MOST_LAYOUTS)
		return;
	kept = append(&plan->discarded, &plan->discarded_count, &plan->discarded_room, l);
	va_start(args, format);
	kept->reason = xvasprintf(format, args);
	va_end(args);
}

/* 1 if the size may be used; else the layout is discarded with the reason. */
static int divides(struct plan *plan, const struct layout *l, const char *what, int64_t size,
		   enum config_field f, int64_t value, int64_t times)
{
	if (value % (size * times) == 0)
		return 1;
	discard(plan, l, "%s %lld does not divide %s %lld%s", what, (long long)size, config_name(f),
		(long long)value, times > 1 ? " into two equal parts a rank" : "");
	return 0;
}

static int64_t number(const struct config *c, enum config_field f, int64_t value, int64_t otherwise)
{
	return config_has(c, f) ? value : otherwise;
}

static int tensor_divides(struct plan *plan, const struct layout *l)
{
	const struct config *c = plan->config;
	int64_t heads = c->num_attention_heads;
	int64_t groups = number(c, CONFIG_num_query_groups, c->num_query_groups, heads);

	return divides(plan, l, "tensor size", l->t, CONFIG_num_attention_heads, heads, 1) &&
	       divides(plan, l, "tensor size", l->t, CONFIG_num_query_groups, groups, 1) &&
	       divides(plan, l, "tensor size", l->t, CONFIG_ffn_hidden_size, c->ffn_hidden_size,
		       1) &&
	       divides(plan, l, "tensor size", l->t, CONFIG_hidden_size, c->hidden_size, 1);
}

static void set_sizes(struct config *c, const struct layout *l)
{
	struct err e = { 0 };

	config_set_int(c, CONFIG_tensor_model_parallel_size, l->t, "plan", &e);
	config_set_int(c, CONFIG_pipeline_model_parallel_size, l->p, "plan", &e);
	config_set_int(c, CONFIG_context_parallel_size, l->c, "plan", &e);
	config_set_int(c, CONFIG_data_parallel_size, l->d, "plan", &e);
	config_set_int(c, CONFIG_micro_batch_size, l->micro_batch, "plan", &e);
	config_set_int(c, CONFIG_num_microbatches, l->micro_batches, "plan", &e);
}

/* The colour, with the margin that was asked for instead of 20 %. */
static enum fit fit(const struct plan *plan, wide total)
{
	if (100 * total <= (100 - plan->margin) * plan->memory)
		return FIT_GREEN;
	return total <= plan->memory ? FIT_YELLOW : FIT_RED;
}

static int judge(struct plan *plan, struct config *scratch, struct layout *l, struct err *e)
{
	struct estimate made;

	set_sizes(scratch, l);
	if (estimate_make(&made, &llama_4d, scratch, 1, e) < 0) {
		estimate_release(&made);
		return -1;
	}
	l->total = 0;
	for (size_t i = 0; i < made.stage_count; i++)
		l->total = largest(l->total, made.stages[i].total);
	l->fit = fit(plan, l->total);
	l->bubble = (double)(l->p - 1) / (double)(l->micro_batches + l->p - 1);
	if (l->fit == FIT_RED) {
		discard(plan, l, "needs %.2f GiB, the GPU has %.2f",
			(double)l->total / (double)(1 << 30),
			(double)plan->memory / (double)(1 << 30));
	} else {
		l->stages = made.stages;
		l->stage_count = made.stage_count;
		made.stages = NULL;
		append(&plan->layouts, &plan->count, &plan->room, l);
		l->stages = NULL;
		l->stage_count = 0;
	}
	estimate_release(&made);
	return 0;
}

static int each_micro_batch(struct plan *plan, struct config *scratch, struct layout l,
			    struct err *e)
{
	int64_t batch = plan->config->global_batch_size, each = batch / l.d;

	if (plan->fix_d && l.d != plan->fix_d)
		return 0;
	if (!divides(plan, &l, "data-parallel size", l.d, CONFIG_global_batch_size, batch, 1))
		return 0;
	for (int64_t b = 1; b <= each; b++) {
		if (each % b || (plan->fix_micro_batch && b != plan->fix_micro_batch))
			continue;
		l.micro_batch = b;
		l.micro_batches = each / b;
		if (judge(plan, scratch, &l, e) < 0)
			return -1;
	}
	return 0;
}

static int each_context(struct plan *plan, struct config *scratch, struct layout l, struct err *e)
{
	int64_t left = plan->gpus / l.t / l.p;

	for (int64_t c = 1; c <= left; c++) {
		if (left % c || (plan->fix_c && c != plan->fix_c))
			continue;
		l.c = c;
		/* Causal attention is balanced by giving each rank two parts. */
		if (!divides(plan, &l, "context size", c, CONFIG_seq_length,
			     plan->config->seq_length, c > 1 ? 2 : 1))
			continue;
		l.d = left / c;
		if (each_micro_batch(plan, scratch, l, e) < 0)
			return -1;
		l.d = 0;
	}
	return 0;
}

static int each_pipeline(struct plan *plan, struct config *scratch, struct layout l, struct err *e)
{
	int64_t left = plan->gpus / l.t;

	for (int64_t p = 1; p <= left; p++) {
		if (left % p || (plan->fix_p && p != plan->fix_p))
			continue;
		l.p = p;
		if (p > plan->config->num_layers) {
			discard(plan, &l, "pipeline size %lld: there are %lld layers", (long long)p,
				(long long)plan->config->num_layers);
			break;
		}
		if (divides(plan, &l, "pipeline size", p, CONFIG_num_layers,
			    plan->config->num_layers, 1) &&
		    each_context(plan, scratch, l, e) < 0)
			return -1;
	}
	return 0;
}

static int each_tensor(struct plan *plan, struct config *scratch, struct err *e)
{
	for (int64_t t = 1; t <= plan->gpus && t <= plan->config->num_attention_heads; t++) {
		struct layout l = { .t = t };

		if (plan->gpus % t || (plan->fix_t && t != plan->fix_t))
			continue;
		if (t > plan->most_t && !plan->fix_t)
			discard(plan, &l, "tensor size %lld is more than %lld (see --max-tp)",
				(long long)t, (long long)plan->most_t);
		else if (tensor_divides(plan, &l) && each_pipeline(plan, scratch, l, e) < 0)
			return -1;
	}
	return 0;
}

static int order(wide a, wide b)
{
	return (a > b) - (a < b);
}

/* As document 003 found best: it fits, few GPUs hold one model, large micro-batches, small bubbles.
 */
static int better_first(const void *a, const void *b)
{
	const struct layout *x = a, *y = b;
	int by;

	if ((by = order((wide)x->fit, (wide)y->fit)) ||
	    (by = order((wide)x->t * x->p * x->c, (wide)y->t * y->p * y->c)) ||
	    (by = order(y->micro_batch, x->micro_batch)) ||
	    (by = (x->bubble > y->bubble) - (x->bubble < y->bubble)) ||
	    (by = order(x->total, y->total)) || (by = order(x->t, y->t)))
		return by;
	return order(x->p, y->p);
}

static int check(const struct plan *plan, struct err *e)
{
	static const enum config_field needed[] = {
		CONFIG_num_layers,          CONFIG_hidden_size, CONFIG_ffn_hidden_size,
		CONFIG_num_attention_heads, CONFIG_seq_length,  CONFIG_global_batch_size,
		CONFIG_vocab_size
	};

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!config_has(plan->config, needed[i]))
			return err_set(
				e,
				"%s is missing: plan needs it (in a configuration file, or --set %s=N)",
				config_name(needed[i]), config_name(needed[i]));
	return 0;
}

int plan_make(struct plan *plan, struct err *e)
{
	static const enum config_field layout_fields[] = { CONFIG_world_size,
							   CONFIG_data_parallel_size,
							   CONFIG_num_microbatches,
							   CONFIG_gradient_accumulation_steps };
	struct config scratch;
	int status;

	if (check(plan, e) < 0)
		return -1;
	config_init(&scratch);
	config_copy(&scratch, plan->config);
	for (size_t i = 0; i < ARRAY_SIZE(layout_fields); i++)
		config_unset(&scratch, layout_fields[i]);
	/* Padded for another tensor size. */
	if (config_is_derived(&scratch, CONFIG_padded_vocab_size))
		config_unset(&scratch, CONFIG_padded_vocab_size);
	config_set(&scratch, "sequence_parallel", "true", "plan", e);
	status = each_tensor(plan, &scratch, e);
	config_release(&scratch);
	if (plan->count)
		qsort(plan->layouts, plan->count, sizeof(*plan->layouts), better_first);
	return status;
}

static void release(struct layout *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(list[i].stages);
		free(list[i].reason);
	}
	free(list);
}

void plan_release(struct plan *plan)
{
	release(plan->layouts, plan->count);
	release(plan->discarded, plan->discarded_count);
}

int plan_fix(struct plan *plan, const char *pair, struct err *e)
{
	const struct {
		const char *name, *key;
		int64_t *to;
	} sizes[] = {
		{ "tp", "tensor_model_parallel_size", &plan->fix_t },
		{ "pp", "pipeline_model_parallel_size", &plan->fix_p },
		{ "cp", "context_parallel_size", &plan->fix_c },
		{ "dp", "data_parallel_size", &plan->fix_d },
		{ "mbs", "micro_batch_size", &plan->fix_micro_batch },
	};
	const char *equals = strchr(pair, '=');
	size_t n = equals ? (size_t)(equals - pair) : 0;
	char *end;
	long long value;

	for (size_t i = 0; n && i < ARRAY_SIZE(sizes); i++) {
		if ((strlen(sizes[i].name) != n || strncmp(sizes[i].name, pair, n)) &&
		    (strlen(sizes[i].key) != n || strncmp(sizes[i].key, pair, n)))
			continue;
		value = strtoll(equals + 1, &end, 10);
		if (end == equals + 1 || *end || value < 1 || value > MOST_RANKS)
			break;
		*sizes[i].to = value;
		return 0;
	}
	return err_set(
		e, "--fix is \"%s\", expected tp, pp, cp, dp or mbs = a number from 1 to 1000000",
		pair);
}
