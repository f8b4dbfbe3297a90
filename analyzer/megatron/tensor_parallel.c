/* megatron/core/tensor_parallel: linear layers with weights that are split over ranks, and the
 * exchanges of activations between the regions. */
#include "megatron/tensor_parallel.h"

#include "torch/checkpoint.h"

#include "megatron/transformer_engine.h"
#include "util/util.h"

void global_buffer(struct machine *m, struct megatron_rank *r, int64_t n, enum dtype type)
{
	if (!r->global.storage || r->global.n < n)
		tensor_assign(m, &r->global, tensor_new_as(m, TERM_ATTN_SCORES, n, type));
}

/* defer_embedding_wgrad_compute: keeps the input and the gradient of the first micro-batches.
 * Returns 1 if the weight's gradient is deferred. */
static int waits(struct machine *m, struct megatron_rank *r, struct grad_node *n)
{
	size_t most = r->s->deferred ? (size_t)r->s->deferred * 2 : SIZE_MAX;

	(void)m;
	if (!n->sizes[5] || r->waiting_count + 2 > most)
		return 0;
	r->waiting = grow(r->waiting, r->waiting_count + 1, &r->waiting_room, sizeof(*r->waiting));
	r->waiting[r->waiting_count++] = tensor_ref(n->saved[0]);
	r->waiting[r->waiting_count++] = tensor_ref(n->in[0]);
	return 1;
}

void finish_deferred_gradients(struct machine *m, struct megatron_rank *r)
{
	while (r->waiting_count)
		tensor_unref(m, &r->waiting[--r->waiting_count]);
}

/* LinearWithGradAccumulationAndAsyncCommunication. `sizes`: elements of x, weight, bias; ranks that
 * the input is gathered from; columns; deferred (0 or 1). */
static void parallel_linear_backward(struct machine *m, struct grad_node *n)
{
	enum dtype type = n->in[0].type;
	struct megatron_rank *r = m->family;
	int64_t t = n->sizes[3];
	tensor whole, copy = none;

	if (n->ordered) /* one copy for each product; the first one is freed before the second */
		copy = tensor_new(m, n->in[0].n, type);
	if (t > 1)
		global_buffer(m, r, n->sizes[0] * t, type);
	if (n->edge[0]) {
		n->out[0] = gemm(m, n->sizes[0] * t, type);
		n->out[0].view = 1;
	}
	if (t > 1) {
		whole = n->out[0];
		n->out[0] = tensor_new_as(m, TERM_COLLECTIVE, n->sizes[0], type);
	}
	tensor_unref(m, &copy);
	if (waits(m, r, n)) {
		if (t > 1)
			tensor_unref(m, &whole);
		return;
	}
	if (!n->edge[1]) { /* LinearWithFrozenWeight */
		if (t > 1)
			tensor_unref(m, &whole);
		return;
	}
	if (n->ordered)
		copy = tensor_new(m, n->in[0].n, type);
	n->out[1] = r->s->fused_gradient ? weight_gradient(m, r, n->sizes[1], n->sizes[4], type)
					 : gemm(m, n->sizes[1], type);
	if (n->edge[2])
		n->out[2] = sum_rows(m, n->sizes[2], n->in[0].n / n->sizes[2], type);
	tensor_unref(m, &copy);
	if (t > 1)
		tensor_unref(m, &whole);
}

tensor mcore_linear(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight,
		    struct param *bias, int gathers, int defers)
{
	tensor in[3] = { x, weight->value, bias ? bias->value : none }, out, sum;
	int64_t t = gathers && r->s->sequence_parallel ? r->s->tp : 1;
	struct grad_node *n;

	if (t > 1)
		global_buffer(m, r, x.n * t, x.type);
	n = grad_node_new(m, parallel_linear_backward, in, 3);
	if (n) {
		n->sizes[0] = x.n;
		n->sizes[1] = weight->value.n;
		n->sizes[2] = bias ? bias->value.n : 0;
		n->sizes[3] = t;
		n->sizes[4] = weight->in;
		n->sizes[5] = defers;
	}
	if (!weight->frozen)
		save_for_backward(m, n, x);
	save_for_backward(m, n, weight->value);
	out = gemm(m, x.n * t / weight->in * (weight->value.n / weight->in), x.type);
	if (bias) {
		sum = tensor_new(m, out.n, out.type);
		tensor_unref(m, &out);
		out = sum;
	}
	return with_grad_fn(out, n, 0);
}

tensor parallel_linear(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight,
		       struct param *bias, int gathers)
{
	if (r->s->transformer_engine)
		return te_linear(m, r, x, weight, bias, gathers);
	return mcore_linear(m, r, x, weight, bias, gathers, 0);
}

/* The sum of a row-parallel product is in place, or scattered over sequence parallelism; its
 * gradient is gathered. */
static void gather_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new_as(m, TERM_COLLECTIVE, n->in[0].n * n->sizes[0], n->in[0].type);
}

tensor tp_reduce(struct machine *m, struct megatron_rank *r, tensor x)
{
	struct grad_node *n;

	if (!r->s->sequence_parallel)
		return tensor_ref(x);
	n = grad_node_new(m, gather_backward, &x, 1);
	if (n)
		n->sizes[0] = r->s->tp;
	return with_grad_fn(tensor_new(m, x.n / r->s->tp, x.type), n, 0);
}

/* scatter_to_sequence_parallel_region, and a clone of this rank's part */
tensor tp_scatter(struct machine *m, tensor x, int64_t t)
{
	struct grad_node *n = grad_node_new(m, gather_backward, &x, 1);

	if (n)
		n->sizes[0] = t;
	return with_grad_fn(tensor_new(m, x.n / t, x.type), n, 0);
}

tensor hidden_norm(struct machine *m, struct megatron_rank *r, struct norm_weights *w, tensor x)
{
	if (r->s->rms_norm)
		return fused_rms_norm(m, x, w->weight, r->s->hidden);
	return layer_norm(m, x, w->weight, w->bias, r->s->hidden);
}

tensor maybe_recomputed(struct machine *m, int again, const struct layer_run *part,
			const tensor *in, int count)
{
	tensor out;

	if (!again)
		return part->run(m, part->context, in);
	out = checkpoint_reentrant(m, part->run, part->context, part->size, in, count);
	if (part->first->router && out.grad_fn)
		checkpoint_input_refs(out, part->first->graph);
	return out;
}
