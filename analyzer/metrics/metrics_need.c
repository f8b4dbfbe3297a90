#include "metrics/metrics_need.h"

#include "metrics/metrics_sizes.h"

/* Adam's exp_avg and exp_avg_sq (torch/optim/adam.py, _init_group), each like its parameter. */
#define STATES 2
#define KEPT_LEAST 50 /* a graph keeps at least one byte of so many, see keeps_a_graph() */
#define KEPT_SURELY 11
#define LINES_EACH 8 /* a graph has layers' blocks of at least one line of the model in so many */
/*
 * The tensors of the logits' size that the backward pass of a cross-entropy has at the same time:
 * the output of log_softmax, which was kept; the gradient that nll_loss passes on; and the one
 * that log_softmax computes from both (torch/csrc/autograd, derivatives.yaml: nll_loss_forward,
 * _log_softmax).
 */
#define LOSS_BLOCKS 3

/*
 * Has the forward pass kept a graph? A pass keeps the outputs of its layers until the loss only if
 * a backward pass follows. Without gradients, the output of the last layer alone stays, and a cache
 * of keys and values: 0.3 % of the bytes that a model of two layers allocated, with a cache 2 to 5
 * %, of two of the model's lines. With gradients, 9 % and more stay; fewer if most bytes are
 * logits; if all layers are checkpointed, the input of each layer of some 20 tensors, 5 %. If
 * the preload recorded whether the pass makes a graph, that decides.
 */
static int keeps_a_graph(const struct metrics *m)
{
	bytes live = m->run_live - m->logits, born = m->run_born - m->logits;

	if (metrics_in_graph(m) || metrics_no_graph(m))
		return metrics_in_graph(m);
	return live >= born / KEPT_LEAST &&
	       (m->tags & TAGGED(RECOMPUTE) || live >= born / KEPT_SURELY ||
		LINES_EACH * m->run_layer_stacks >= m->model_stacks);
}

/* Does the job train? */
static int trains(const struct device_pass *d)
{
	const struct metrics *m = d->m;

	if (m->run_evaluates || m->kv_cache)
		return 0;
	if (d->backward_seen || m->in_backward || m->in_optimizer)
		return 1;
	return d->run_is_open && !m->source_infers &&
	       (m->logits_blocks > 0 || m->tags & TAGGED(TRAINER)) && keeps_a_graph(m);
}

/* The parameters that get gradients: with adapters, these alone. Behind a backward pass, gradients
 * tell; before that, a part may be frozen. */
static bytes trained(struct metrics *m)
{
	m->trained_known = m->tags & TAGGED(ADAPTER) || m->in_optimizer;
	if (m->tags & TAGGED(ADAPTER))
		return m->adapters;
	return m->in_optimizer && m->gradients ? smaller_of(m->parameters, m->gradients)
					       : m->parameters;
}

/* The states of each of them: by the optimizer that steps, else by the source of the job. */
static int64_t states_each(const struct metrics_pass *p, struct metrics *m)
{
	stack_tags tags = m->tags | tags_at(p, m->request_stack);

	m->optimizer_known = 1;
	if (tags & TAGGED(ADAM))
		return STATES;
	if (tags & TAGGED(FACTORED))
		return 0;
	if (m->source_states >= 0)
		return m->source_states;
	m->optimizer_known = 0;
	return STATES;
}

/* The first step allocated the states: every later step has them, beside the bytes of the first
 * step. An evaluation behind the optimizer's step had them already. */
static void from_earlier_steps(struct device_pass *d)
{
	struct metrics *m = d->m;

	for (size_t i = 0; i < d->count; i++) {
		m->whole_pass = larger_of(m->whole_pass, d->list[i].pass_peak);
		m->whole_optimizer = larger_of(m->whole_optimizer, d->list[i].optimizer_peak);
	}
	if (d->count == 1) {
		d->later_states = larger_of(m->optimizer_states - m->loaded_states, 0);
		m->whole_pass += d->later_states;
	}
	for (size_t i = 0; i < d->count; i++)
		m->whole_pass = larger_of(m->whole_pass, d->list[i].evaluation_peak);
	m->whole_need = larger_of(m->whole_pass, m->whole_optimizer);
	m->whole_measured = 1;
}

/*
 * Does log_softmax read logits of half the size of its output? Autocast calls it so: it converts
 * while it computes, and its backward pass makes a gradient of 16 bits
 * (aten/src/ATen/native/cuda/SoftMax.cu, half_to_float). Otherwise, a block of the whole size was
 * allocated before it.
 */
static int converts_within(const struct metrics_pass *p, const struct device_pass *d)
{
	const struct metrics *m = d->m;

	/* A request of the backward pass has no Python frames. */
	if (same_size(m->requested, m->logits_block) &&
	    tables_stack_has_frames(p->tables, m->request_stack) &&
	    !(p->tags[m->request_stack] & TAGGED(SOFTMAX)))
		return 0;
	for (size_t i = 1; i < p->tables->stack_count; i++)
		if (d->stacks[i].last_step == d->step + 1 && !(p->tags[i] & TAGGED(SOFTMAX)) &&
		    same_size(d->stacks[i].now, m->logits_block))
			return 0;
	return 1;
}

/* The level of the loss's backward pass; 0: it is unknown, or there is no such loss. */
static bytes loss_level(const struct metrics_pass *p, const struct device_pass *d)
{
	const struct metrics *m = d->m;
	int asked = m->request_is_logits;

	if (!m->logits_blocks)
		return 0;
	return m->allocated - (m->logits - (asked ? m->requested : 0)) +
	       LOSS_BLOCKS * m->logits_block - (converts_within(p, d) ? m->logits_block / 2 : 0);
}

/* It failed in the first optimizer's step: the passes of the next step have the states too. */
static void predict_in_optimizer(const struct metrics_pass *p, struct device_pass *d)
{
	struct metrics *m = d->m;
	bytes made = m->optimizer_states + (m->request_is_state ? m->requested : 0);

	m->states_to_come = larger_of(states_each(p, m) * trained(m) - made, 0);
	m->passes_to_come = larger_of(d->now.pass_peak + made - m->moment_need, 0);
	m->whole_need = m->moment_need + m->passes_to_come + m->states_to_come;
	/* What the optimizer computes with the states is unknown. */
	m->whole_is_least = 1;
}

/* Does the job's own code compute something beside the logits? */
static int loss_is_own(const struct metrics_pass *p, const struct metrics *m)
{
	return m->in_forward && !m->by_library && m->request_stack < p->tables->stack_count &&
	       !(p->tags[m->request_stack] &
		 (TAGGED(LOSS) | TAGGED(MODEL) | TAGGED(LINEAR) | TAGGED(LAYER))) &&
	       tables_stack_is_own_code(p->tables, m->request_stack);
}

/* States that exist, or master weights with them, are not made again. */
static bytes states_left(const struct metrics_pass *p, struct metrics *m)
{
	bytes each = states_each(p, m), all = trained(m);

	return m->optimizer_states >= all ? 0 : each * all;
}

static void predict(const struct metrics_pass *p, struct device_pass *d)
{
	struct metrics *m = d->m;
	bytes backward = loss_level(p, d), step = m->parameters + trained(m) + m->optimizer_states;

	m->states_to_come = states_left(p, m);
	m->loss_to_come = larger_of(backward - m->moment_need, 0);
	m->gradients_to_come = larger_of(step - m->moment_need - m->loss_to_come, 0);
	m->whole_need = m->moment_need + m->loss_to_come + m->gradients_to_come + m->states_to_come;
	/* The rest of the forward pass, and the temporaries of the backward pass, are unknown; with
	 * the logits they are small beside what the loss needs. */
	m->whole_is_least = !backward;
	m->loss_is_own = backward && loss_is_own(p, m);
}

/* In the first forward pass, before a loss, a training looks as any other call of a model does that
 * keeps something. A part of the model may be frozen, and keep little. */
static int may_train(const struct metrics_pass *p, const struct device_pass *d)
{
	const struct metrics *m = d->m;
	uint32_t stack = m->request_stack < p->tables->stack_count ? m->request_stack : MT_NO_STACK;

	return d->called && d->run_is_open && m->in_forward && !m->in_setup && !m->in_evaluation &&
	       !m->inference && !m->source_infers && !m->run_evaluates && !m->kv_cache &&
	       !(tables_stack_flags(p->tables, stack) & (STACK_NO_GRAD | STACK_EVALUATION)) &&
	       keeps_a_graph(m);
}

/* Does a layer of the model ask, before the loss? The forward pass is not over then, whatever has
 * the size of logits. */
static int asks_in_a_layer(const struct metrics_pass *p, const struct metrics *m)
{
	stack_tags tags = tags_at(p, m->request_stack);

	return m->in_forward && tags & TAGGED(MODEL) && !(tags & TAGGED(LOSS)) &&
	       !m->request_is_logits;
}

/* What is there is needed; states of adapters, whose size is known, come in any case. */
static void find_least(const struct metrics_pass *p, struct device_pass *d)
{
	struct metrics *m = d->m;

	m->pass_unfinished = m->whole_is_least = 1;
	m->gradients_to_come = trained(m);
	m->states_to_come = states_left(p, m);
	m->least_need = m->moment_need;
	if (m->trained_known && m->optimizer_known)
		m->least_need += m->states_to_come;
}

void metrics_find_need(const struct metrics_pass *p, struct device_pass *d)
{
	struct metrics *m = d->m;

	if (!m->failed || (!trains(d) && !may_train(p, d)))
		return;
	m->moment_need = m->allocated + (m->by_library ? 0 : m->requested);
	if (!trains(d) || (!d->count && asks_in_a_layer(p, m))) {
		find_least(p, d);
		return;
	}
	if (d->count)
		from_earlier_steps(d);
	else if (m->in_optimizer)
		predict_in_optimizer(p, d);
	else
		predict(p, d);
	if (m->whole_need <= m->moment_need) {
		m->whole_need = m->moment_need;
		m->whole_is_least = 1;
	}
}
