#include "pipeline/passes.h"

#include "megatron/bert.h"
#include "megatron/chunk.h"
#include "megatron/llava.h"
#include "megatron/schedule.h"
#include "megatron/sharded.h"
#include "megatron/t5.h"
#include "torch/autograd.h"

/* get_batch() of Megatron-LM: the first and the last stage have the inputs that they need, other
 * stages none. The first rank of tensor parallelism also keeps the data loader's other tensors; the
 * model is that of the last rank (parameters.c: part()). */
static void load_batch(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	struct megatron_rank *r = c->rank;
	const struct hparams *s = r->s;
	int all = !s->training_loop, whole = all || (s->tp == 1 && (c->first || c->last));
	/* multi-token prediction embeds the tokens again */
	int first = c->first || c->mtp_count || whole, last = c->last || whole;

	if (s->encoder_layers) {
		t5_batch(m, c, b);
		return;
	}
	if (s->is_bert) {
		bert_batch(m, c, b);
		return;
	}
	if (s->vision.patch) {
		llava_batch(m, c, b);
		return;
	}
	if (first)
		b->tokens = tensor_new_as(m, TERM_INPUTS, r->rows, I64);
	if (last)
		b->labels = tensor_new_as(m, TERM_INPUTS, r->rows, I64);
	if (first)
		b->positions =
			tensor_new_as(m, TERM_INPUTS, all ? r->rows / s->batch : r->rows, I64);
	if (all)
		b->mask = tensor_new_as(m, TERM_INPUTS, r->rows / s->batch * s->tokens, BOOL);
	else if (s->masks && (first || last))
		b->mask = tensor_new_as(m, TERM_INPUTS, r->rows * s->tokens, BOOL);
	if (last && !all)
		b->weights = tensor_new_as(m, TERM_INPUTS, r->rows, F32);
}

/* Checkpointed layers keep the mask and the rotary positions until their backward pass. */
static void release_tables(struct machine *m, struct microbatch *b)
{
	tensor_unref(m, &b->mask);
	tensor_unref(m, &b->rotary);
}

/* deallocate_pipeline_outputs: a sent output is freed; only its node in the graph is still needed.
 */
static void deallocate(struct machine *m, tensor *output)
{
	tensor kept = *output;

	tensor_unref(m, output);
	*output = kept;
	output->storage = NULL;
}

void pass_keep(struct machine *m, struct input_ref *k, tensor input)
{
	tensor_assign(m, &k->value, tensor_ref(input));
	tensor_unref(m, &k->gradient);
}

static void keep_gradient(struct machine *m, struct input_ref *k, const struct param *input)
{
	if (input->value.storage && k->value.storage == input->value.storage)
		tensor_assign(m, &k->gradient, tensor_ref(input->grad));
}

void pass_receive(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	struct megatron_rank *r = c->rank;

	if (c->first || b->input.value.storage)
		return;
	param_make(m, &b->input, r->local_rows, r->s->hidden, r->s->weights, TERM_PIPELINE);
	b->input.in = 0;
}

void begin_forward(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	struct megatron_rank *r = c->rank;

	m->phase = FORWARD;
	pass_receive(m, c, b);
	m->tape = &b->tape;
	offload_begin(r->offload, (int)(c - r->chunks));
	if (!c->first)
		pass_keep(m, &c->input, b->input.value);
	load_batch(m, c, b);
	load_rotary(m, c, b);
}

void end_forward(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	if (c->last)
		return;
	tensor_set_term(m, b->output, TERM_PIPELINE);
	if (c->rank->s->training_loop)
		deallocate(m, &b->output);
}

static void release_inputs(struct machine *m, struct microbatch *b)
{
	tensor_unref(m, &b->tokens);
	tensor_unref(m, &b->labels);
	tensor_unref(m, &b->weights);
	tensor_unref(m, &b->positions);
	tensor_unref(m, &b->token_types);
	tensor_unref(m, &b->order);
	t5_batch_release(m, b);
	llava_batch_release(m, b);
}

void forward_step(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	begin_forward(m, c, b);
	b->output = chunk_forward(m, c, b);
	end_forward(m, c, b);
	release_inputs(m, b);
	if (c->rank->s->recompute != RECOMPUTE_FULL)
		release_tables(m, b);
}

void receive_gradient(struct machine *m, struct microbatch *b)
{
	m->current_term = TERM_PIPELINE;
	if (!b->gradient.storage)
		b->gradient = tensor_new(m, b->output.n, b->output.type);
}

void end_backward(struct machine *m, struct model_chunk *c, struct microbatch *b,
		  struct variables *v)
{
	release_inputs(m, b);
	release_tables(m, b);
	if (b->input.grad.storage)
		tensor_set_term(m, b->input.grad, TERM_PIPELINE);
	keep_gradient(m, &c->input, &b->input);
	keep_gradient(m, &v->input, &b->input);
	tensor_assign(m, &v->graph.value, b->input.value);
	tensor_assign(m, &v->graph.gradient, tensor_ref(b->input.grad));
	tensor_assign(m, &v->input_gradient, b->input.grad);
	b->input.value.storage = b->input.grad.storage = b->gradient.storage = NULL;
}

void backward_step(struct machine *m, struct model_chunk *c, struct microbatch *b,
		   struct variables *v)
{
	m->phase = BACKWARD;
	receive_gradient(m, b);
	tensor_assign(m, &v->output_gradient, b->gradient);
	tensor_assign(m, &v->output, b->output);
	backward(m, &b->tape, v->output, tensor_ref(v->output_gradient));
	sharded_finish(m, c->rank);
	end_backward(m, c, b, v);
}

void release_variables(struct machine *m, struct variables *v)
{
	tensor_unref(m, &v->output);
	tensor_unref(m, &v->output_gradient);
	tensor_unref(m, &v->input_gradient);
	input_ref_clear(m, &v->graph);
	input_ref_clear(m, &v->input);
}
