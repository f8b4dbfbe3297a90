/* Megatron-core's schedules (pipeline_parallel/schedules.py) on one rank of one stage. */
#include "pipeline/megatron.h"

#include "torch/checkpoint.h"
#include "megatron/bert.h"
#include "megatron/gdn.h"
#include "megatron/graphs.h"
#include "megatron/mamba.h"
#include "megatron/chunk.h"
#include "megatron/parameters.h"
#include "megatron/options.h"
#include "pipeline/overlap.h"
#include "pipeline/passes.h"
#include "megatron/schedule.h"
#include "megatron/sharded.h"
#include "megatron/t5.h"
#include "megatron/tensor_parallel.h"
#include "torch/streams.h"

#include <stdlib.h>

#include "util/util.h"

/* min_offloaded_tensor_size, in elements */
#define LEAST_OFFLOADED (1024 * 1024)

/* main_grad.add_(grad); grad = None */
static void add_to_buffer(struct machine *m, struct param *p)
{
	tensor_unref(m, &p->grad);
}

/* ---- schedules ---- */

/* A group of an offloaded module belongs to a micro-batch by its number, so that every step runs
 * all of them. */
static int64_t rounds_left(const struct megatron_rank *r, struct batch_rounds *rounds,
			   const struct machine *m, int64_t left)
{
	return r->offload ? left : schedule_rounds_left(rounds, m, left);
}

static void no_pipelining(struct machine *m, struct megatron_rank *r)
{
	struct variables v = { .output = none };
	struct batch_rounds rounds = { .window = 2 };
	struct microbatch b;

	for (int64_t left = r->microbatches; left; left = rounds_left(r, &rounds, m, left - 1)) {
		b = (struct microbatch){ .output = none };
		schedule_begin_round(m);
		forward_step(m, &r->chunks[0], &b);
		backward_step(m, &r->chunks[0], &b, &v);
		release_variables(m, &v);
	}
	schedule_rounds_release(&rounds);
	m->in_flight = 1;
}

/* combined_1f1b_schedule_for_no_pipelining(): a forward pass alone, then each one beside the
 * backward pass of the micro-batch before it. */
static void no_pipelining_combined(struct machine *m, struct megatron_rank *r)
{
	struct variables v = { .output = none };
	struct batch_rounds rounds = { .window = 3 };
	struct microbatch b[2] = { { .output = none }, { .output = none } };
	struct combined_passes p = { .forward_chunk = &r->chunks[0], .forward = &b[0] };

	combined_step(m, &p, &v);
	p.backward_chunk = &r->chunks[0];
	for (int64_t left = r->microbatches - 1; left;
	     left = rounds_left(r, &rounds, m, left - 1)) {
		p.backward = p.forward;
		p.forward = p.backward == &b[0] ? &b[1] : &b[0];
		*p.forward = (struct microbatch){ .output = none };
		schedule_begin_round(m);
		combined_step(m, &p, &v);
	}
	p.backward = p.forward;
	p.forward_chunk = NULL;
	combined_step(m, &p, &v);
	release_variables(m, &v);
	schedule_rounds_release(&rounds);
	m->in_flight = r->microbatches > 1 ? 2 : 1;
}

/* One forward pass, one backward pass, after p - stage - 1 forward passes. */
static void one_forward_one_backward(struct machine *m, struct megatron_rank *r)
{
	int64_t total = r->microbatches, ahead = schedule_ahead(r), done = 0;
	struct microbatch *b = xcalloc((size_t)total, sizeof(*b));
	struct batch_rounds rounds = { .window = (size_t)ahead + 2 };
	struct variables v = { .output = none };

	for (int64_t i = 0; i < ahead; i++) {
		schedule_begin_round(m);
		forward_step(m, &r->chunks[0], &b[i]);
		host_wait_all(m); /* batch_p2p_sync: after each exchange between stages */
	}
	for (int64_t i = ahead; i < total; i++) {
		schedule_begin_round(m);
		forward_step(m, &r->chunks[0], &b[i]);
		if (!r->chunks[0].last)
			host_wait_all(m);
		tensor_assign(m, &v.output, tensor_ref(b[i].output));
		input_ref_clear(m, &v.graph);
		backward_step(m, &r->chunks[0], &b[done++], &v);
		if (!r->chunks[0].first)
			host_wait_all(m);
		total = i + 1 + rounds_left(r, &rounds, m, total - i - 1);
	}
	while (done < total)
		backward_step(m, &r->chunks[0], &b[done++], &v);
	release_variables(m, &v);
	m->in_flight = ahead + (ahead < total);
	schedule_rounds_release(&rounds);
	free(b);
}

/* An interleaved schedule: all micro-batches of each chunk. */
struct interleaving {
	struct megatron_rank *rank;
	struct microbatch *batches;
	struct variables v;
	int64_t total;
	int overlapped; /* as in Megatron-LM: sends and receives overlap with the passes */
	int combined;   /* overlap.h */
	int waits;      /* batch_p2p_sync: for the device, after each exchange between stages */
};

struct schedule_turn {
	struct model_chunk *chunk;
	struct microbatch *batch;
};

static struct schedule_turn turn_of(const struct interleaving *s, int64_t i, int forward)
{
	struct megatron_rank *r = s->rank;
	struct pipeline_step at = schedule_step(r, i, forward);

	return (struct schedule_turn){ &r->chunks[at.chunk],
				       &s->batches[at.chunk * r->microbatches + at.batch] };
}

static void receive_turn(struct machine *m, struct interleaving *s, int64_t i)
{
	struct schedule_turn t;

	if (i >= s->total)
		return;
	t = turn_of(s, i, 1);
	m->phase = FORWARD;
	pass_receive(m, t.chunk, t.batch);
	/* if receives overlap, the variable keeps the tensor that was received last before them */
	if (!s->overlapped)
		pass_keep(m, &s->v.input, t.batch->input.value);
}

static void keep_output(struct machine *m, struct interleaving *s, struct schedule_turn t)
{
	if (!s->overlapped && !t.chunk->last)
		tensor_assign(m, &s->v.output, tensor_ref(t.batch->output));
}

/* The backward pass is done; the schedule has only the gradient of its input. */
static void forget_pass(struct machine *m, struct variables *v)
{
	tensor_unref(m, &v->output);
	tensor_unref(m, &v->output_gradient);
	input_ref_clear(m, &v->graph);
}

static void forward_turn(struct machine *m, struct interleaving *s, int64_t i)
{
	struct schedule_turn t = turn_of(s, i, 1);

	forward_step(m, t.chunk, t.batch);
	keep_output(m, s, t);
}

static void backward_turn(struct machine *m, struct interleaving *s, int64_t i)
{
	struct schedule_turn t = turn_of(s, i, 0);

	backward_step(m, t.chunk, t.batch, &s->v);
	forget_pass(m, &s->v);
}

static void exchanged(struct machine *m, const struct interleaving *s)
{
	if (s->waits)
		host_wait_all(m);
}

static void receive_gradient_turn(struct machine *m, struct interleaving *s, int64_t i)
{
	struct schedule_turn t;

	if (i >= s->total)
		return;
	t = turn_of(s, i, 0);
	if (!t.chunk->last)
		receive_gradient(m, t.batch);
}

/* Passes i (forward) and k (backward); -1: none. */
struct pair_of_turns {
	struct interleaving *schedule;
	int64_t i, k;
};

static void exchange_turn(struct machine *m, void *context)
{
	struct pair_of_turns *pair = context;

	receive_turn(m, pair->schedule, pair->i + 1);
	receive_gradient_turn(m, pair->schedule, pair->k + 1);
}

static void combined_turn(struct machine *m, struct interleaving *s, int64_t i, int64_t k)
{
	struct pair_of_turns pair = { s, i, k };
	struct combined_passes p = { .context = &pair };
	struct schedule_turn f = { NULL, NULL }, b = { NULL, NULL };

	if (i >= 0)
		f = turn_of(s, i, 1);
	if (k >= 0)
		b = turn_of(s, k, 0);
	if (f.chunk && b.chunk && s->overlapped)
		p.exchange = exchange_turn;
	p.forward_chunk = f.chunk;
	p.forward = f.batch;
	p.backward_chunk = b.chunk;
	p.backward = b.batch;
	combined_step(m, &p, &s->v);
	if (b.chunk)
		forget_pass(m, &s->v);
	if (f.chunk)
		keep_output(m, s, f);
}

static void pair_of_turns(struct machine *m, struct interleaving *s, int64_t i, int64_t k)
{
	if (s->combined) {
		combined_turn(m, s, i, k);
		return;
	}
	if (i >= 0)
		forward_turn(m, s, i);
	if (i >= 0 && k >= 0 && s->overlapped)
		receive_turn(m, s, i + 1);
	if (k >= 0)
		backward_turn(m, s, k);
}

static void interleaved(struct machine *m, struct megatron_rank *r)
{
	const struct hparams *shape = r->s;
	struct interleaving s = { .rank = r,
				  .total = r->microbatches * shape->vpp,
				  .combined = has_combined_passes(shape),
				  .waits = !shape->training_loop };
	int64_t ahead = schedule_ahead(r);

	s.batches = xcalloc((size_t)s.total, sizeof(*s.batches));
	s.overlapped = shape->overlap_warmup;
	for (int64_t i = 0; i < ahead; i++) {
		if (shape->overlap_warmup && r->stage)
			receive_turn(m, &s, i + 1);
		pair_of_turns(m, &s, i, -1);
		receive_turn(m, &s, i + 1);
		exchanged(m, &s);
	}
	s.overlapped = shape->training_loop;
	receive_gradient_turn(m, &s, 0);
	for (int64_t i = ahead; i < s.total; i++) {
		pair_of_turns(m, &s, i, i - ahead);
		receive_turn(m, &s, i + 1);
		receive_gradient_turn(m, &s, i - ahead + 1);
		exchanged(m, &s);
	}
	for (int64_t i = s.total - ahead; i < s.total; i++) {
		pair_of_turns(m, &s, -1, i);
		receive_gradient_turn(m, &s, i + 1);
		exchanged(m, &s);
	}
	release_variables(m, &s.v);
	m->in_flight = ahead + (ahead < s.total);
	free(s.batches);
}

/* ---- the rank ---- */

static void place(struct megatron_rank *r, const struct hparams *s, int64_t stage)
{
	*r = (struct megatron_rank){ .s = s, .stage = stage };
	r->heads = s->heads / s->tp;
	r->groups = s->groups > s->tp ? s->groups / s->tp : 1;
	r->ffn = s->ffn / s->tp;
	r->vocab = s->vocab / s->tp;
	r->rows = s->tokens / s->cp * s->batch;
	r->local_rows = s->sequence_parallel ? r->rows / s->tp : r->rows;
	r->group = schedule_group(s);
	r->microbatches = batches_run(s, stage);
	r->chunks = xcalloc((size_t)s->vpp, sizeof(*r->chunks));
	for (int64_t i = 0; i < s->vpp; i++)
		r->chunks[i] = (struct model_chunk){ .rank = r,
						     .first = stage == 0 && i == 0,
						     .last = stage == s->pp - 1 && i == s->vpp - 1,
						     .first_layer = chunk_first_layer(s, stage, i),
						     .layer_count = chunk_layers(s, stage, i),
						     .mtp_count = chunk_mtp(s, stage, i) };
}

static void run(struct machine *m, const struct hparams *s, int64_t stage)
{
	struct megatron_rank r;

	place(&r, s, stage);
	m->family = &r;
	m->on_gradient = add_to_buffer;
	m->phase = INIT;
	r.offload = s->offload ? offload_new((int)s->vpp, LEAST_OFFLOADED) : NULL;
	rank_make(m, &r);
	for (m->step = 0; machine_continues(m); m->step++) {
		rank_zero_grad(m, &r);
		graphs_capture(m, &r);
		if (s->vpp > 1)
			interleaved(m, &r);
		else if (s->pp > 1)
			one_forward_one_backward(m, &r);
		else if (has_combined_passes(s))
			no_pipelining_combined(m, &r);
		else
			no_pipelining(m, &r);
		offload_end_step(r.offload);
		finish_deferred_gradients(m, &r);
		rank_step(m, &r);
		machine_steady(m);
	}
	rank_release(&r);
	offload_free(r.offload);
}

static void note_assumptions(const struct hparams *s, struct inputs *in)
{
	if (s->attention == FUSED_ATTENTION)
		estimate_note(in->out,
			      "attention is what a current Transformer Engine chooses for the GPU; "
			      "with FlashAttention before 2.4.1 and "
			      "NVTE_ALLOW_NONDETERMINISTIC_ALGO=0 it is unfused: give "
			      "--attention-backend");
	if (s->transformer_engine && s->cp > 1)
		estimate_note(in->out, "context parallelism's exchanges of keys and values are not "
				       "counted");
	if (s->experts)
		estimate_note(in->out, "tokens are spread evenly over experts");
	if (s->overlaps_experts && !has_combined_passes(s))
		estimate_note(in->out, "of overlapped micro-batches, the activations of one more "
				       "layer are not counted");
	if (s->offload && s->overlaps_experts && !has_combined_passes(s))
		estimate_note(in->out, "modules are offloaded as without overlapped micro-batches");
}

/* Rejects tensors of more than 2^48 elements in the experts, too. */
static void check_dispatched(const struct hparams *s, struct inputs *in)
{
	wide rows = (wide)s->batch * s->tokens * s->topk * s->etp;
	wide width = largest(largest(s->hidden, s->expert_width), (wide)2 * s->expert_ffn);

	if (s->capacity > 64)
		input_reject(in, CONFIG_moe_expert_capacity_factor, "64 at most");
	if (rows * width * (s->capacity > 1 ? 64 : 1) > (wide)1 << 48)
		input_reject(in, CONFIG_moe_router_topk, "fewer tokens that are sent to experts");
}

/* BERT's and T5's sequences are padded. */
static void check_padded(const struct hparams *s, struct inputs *in)
{
	if (!s->encoder_layers && !s->is_bert)
		return;
	if (s->attention != EAGER)
		estimate_note(in->out,
			      "fused attention of padded sequences is taken to need what it "
			      "needs without padding; no measurement of BERT or T5 with it "
			      "is known");
	if (s->cp > 1)
		input_reject(in, CONFIG_context_parallel_size, "1 for BERT and T5");
	if (!s->learned_positions)
		input_reject(in, CONFIG_position_embedding_type,
			     "learned_absolute for BERT and T5");
}

static int check(const struct hparams *s, struct inputs *in)
{
	note_assumptions(s, in);
	if (s->cp > 1 && s->attention == EAGER)
		input_reject(in, CONFIG_context_parallel_size,
			     "1: Megatron-core's DotProductAttention refuses more; "
			     "transformer_impl transformer_engine splits tokens");
	if (s->experts && (s->experts % s->ep || s->expert_ffn % s->etp ||
			   s->dp * s->cp * s->tp % (s->etp * s->ep)))
		input_reject(in, CONFIG_num_experts, "a multiple of the expert-parallel size");
	if (s->experts)
		check_dispatched(s, in);
	if (s->autocast || (s->weights != F32 && !s->mixed))
		input_reject(
			in, CONFIG_precision,
			"fp32, fp16-mixed or bf16-mixed: Megatron-core has fp32 weights beside "
			"16-bit ones");
	if (s->optimizer > SGD && (s->optimizer != MUON || !s->training_loop))
		input_reject(
			in, CONFIG_optimizer,
			"adam or sgd: Megatron-core has no other; Megatron-LM's command line muon too");
	if (s->optimizer == SGD && s->zero)
		input_reject(in, CONFIG_optimizer,
			     "adam with the distributed optimizer: Megatron-core refuses another");
	check_sharded_model(s, in);
	check_padded(s, in);
	check_t5(s, in);
	check_llava(s, in);
	check_hybrid(s, in);
	check_gdn(s, in);
	check_stages(s, in);
	check_interleaving(s, in);
	check_combined_passes(s, in);
	check_recompute(s, in);
	check_graphs(s, in);
	if (s->sequence_parallel && s->tokens / s->cp % s->tp)
		input_reject(in, CONFIG_seq_length,
			     "a multiple of the ranks that share its tokens");
	if (s->heads % s->tp || s->ffn % s->tp || s->vocab % s->tp || s->tokens % s->cp)
		input_reject(in, CONFIG_tensor_model_parallel_size,
			     "sizes that divide layers, heads, widths and tokens");
	return in->failed ? -1 : 0;
}

const struct family_model megatron_model = { check, run };
