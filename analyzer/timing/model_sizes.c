#include "timing/model_sizes.h"

#include "patterns/layer_pattern.h"
#include "estimate/inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that are moved in host memory for an s x s attention mask, divided by s^2, in
 * gpt_dataset.py and PyTorch's data loader. A mask that the dataset keeps is copied into shared
 * memory and then into pinned memory: a read, a write and a cleared page, a read and a write. Built
 * anew (reset_position_ids, reset_attention_mask, eod_mask_loss) it is ones, a lower triangle and a
 * comparison before that: 4-byte elements written, read, written, read, and a byte written, with
 * each new page cleared before. */
#define MASK_COPIED 5
#define MASK_BUILT 31

static int is_framework(const struct config *c, const char *name)
{
	return GIVEN(c, framework) && !strcmp(c->framework, name);
}

/* The number of layers with experts: every n-th, or those of a list of 0 and 1. */
static double expert_layers(const struct config *c)
{
	char *list = layer_pattern(GIVEN(c, moe_layer_freq) ? c->moe_layer_freq : "1");
	double with = 0, all = 0, part = 1;

	if (list && *list == '[') {
		for (const char *at = list; *at; at++) {
			with += *at == '1';
			all += *at == '1' || *at == '0';
		}
		part = all > 0 ? with / all : 1;
	} else if (list && strtod(list, NULL) >= 1) {
		part = 1 / strtod(list, NULL);
	}
	free(list);
	return round((double)c->num_layers * part);
}

static void read_experts(struct model_sizes *m, const struct config *c)
{
	m->experts = (double)VALUE_OR(c, num_experts, 0);
	if (m->experts <= 1) {
		m->experts = 0;
		return;
	}
	m->expert_layers = expert_layers(c);
	m->chosen = (double)VALUE_OR(c, moe_router_topk, 2);
	m->expert_ffn = (double)VALUE_OR(c, moe_ffn_hidden_size, c->ffn_hidden_size);
	m->shared_ffn = (double)VALUE_OR(c, moe_shared_expert_intermediate_size, 0);
	m->expert_tp = (double)VALUE_OR(c, expert_tensor_parallel_size, 0);
}

/* 8-bit floats go twice as fast as halves from compute capability 8.9 on. */
static void read_precision(struct model_sizes *m, const struct config *c, const struct gpu_speed *g)
{
	const char *precision = GIVEN(c, precision) ? c->precision : "bf16-mixed";
	int is_single = !strcmp(precision, "fp32");
	int has_masters = strstr(precision, "mixed") != NULL;

	m->weight = is_single || strstr(precision, "autocast") ? 4 : 2;
	m->grad = (double)VALUE_OR(c, grad_bytes, 0);
	if (m->grad <= 0)
		m->grad = m->weight > 2 || (has_masters &&
					    VALUE_OR(c, accumulate_allreduce_grads_in_fp32, 1) &&
					    !is_framework(c, "deepspeed"))
				  ? 4
				  : 2;
	m->product_rate = is_single ? g->single : g->product;
	if (!strncmp(precision, "fp8", 3) && g->capability >= 89)
		m->product_rate *= 2;
}

static void read_software(struct model_sizes *m, const struct config *c)
{
	int is_megatron = is_framework(c, "megatron-core");

	m->is_deepspeed = is_framework(c, "deepspeed");
	m->stores_attention = GIVEN(c, attention) &&
			      (!strcmp(c->attention, "eager") || !strcmp(c->attention, "unfused"));
	/* By default PyTorch's and DeepSpeed's wrappers reduce during the backward pass, and
	 * Megatron-core does not. A job without a framework is assumed to overlap all it can. */
	m->overlaps_reduction =
		VALUE_OR(c, overlap_grad_reduce, !is_megatron) && VALUE_OR(c, overlap_comm, 1);
	m->overlaps_gather = VALUE_OR(c, overlap_param_gather, !GIVEN(c, framework));
	if ((is_megatron || VALUE_OR(c, eod_mask_loss, 0)) &&
	    VALUE_OR(c, create_attention_mask_in_dataloader, 1))
		m->loader = (VALUE_OR(c, eod_mask_loss, 0) ? MASK_BUILT : MASK_COPIED) * m->tokens *
			    m->tokens;
}

int model_sizes_read(struct model_sizes *m, const struct config *c, const struct gpu_speed *g)
{
	static const enum config_field needed[] = {
		CONFIG_num_layers, CONFIG_hidden_size, CONFIG_num_attention_heads,
		CONFIG_seq_length, CONFIG_vocab_size,  CONFIG_global_batch_size,
	};

	memset(m, 0, sizeof(*m));
	/* The layers of an encoder have other sequences than those of its decoder. */
	if (config_has(c, CONFIG_encoder_num_layers))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!config_has(c, needed[i]))
			return 0;
	m->layers = (double)c->num_layers;
	m->hidden = (double)c->hidden_size;
	m->ffn = (double)VALUE_OR(c, ffn_hidden_size, 4 * c->hidden_size);
	m->heads = (double)c->num_attention_heads;
	m->groups = (double)VALUE_OR(c, num_query_groups, c->num_attention_heads);
	m->head = GIVEN(c, kv_channels) ? (double)c->kv_channels : m->hidden / m->heads;
	m->vocab = (double)c->vocab_size;
	m->tokens = (double)c->seq_length;
	m->batch = (double)c->global_batch_size;
	m->gates = VALUE_OR(c, swiglu, !GIVEN(c, arch) || strcmp(c->arch, "gpt") != 0) ? 2 : 1;
	m->window = GIVEN(c, window_size) && c->window_size > 0
			    ? fmin((double)c->window_size, m->tokens)
			    : m->tokens;
	read_experts(m, c);
	read_precision(m, c, g);
	read_software(m, c);
	return 1;
}

static double attention_weights(const struct model_sizes *m)
{
	return 2 * m->hidden * m->head * (m->heads + m->groups);
}

double dense_weights(const struct model_sizes *m)
{
	return attention_weights(m) + (m->gates + 1) * m->hidden * m->ffn;
}

double expert_weights(const struct model_sizes *m)
{
	return (m->gates + 1) * m->hidden * m->expert_ffn * m->experts;
}

double step_operations(const struct model_sizes *m)
{
	double with = m->expert_layers, without = m->layers - with;
	double active = (m->gates + 1) * m->hidden * (m->chosen * m->expert_ffn + m->shared_ffn);
	double weights = without * dense_weights(m) +
			 with * (attention_weights(m) + active + m->hidden * m->experts) +
			 m->hidden * m->vocab;
	double attention = 2 * m->layers * m->heads * m->head * m->tokens;

	return 6 * m->batch * m->tokens * (weights + attention);
}
