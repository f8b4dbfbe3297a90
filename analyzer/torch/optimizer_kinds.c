/* Optimizers other than Adam and SGD: torch.optim's RMSprop, Adagrad, Adafactor and Muon,
 * transformers' Adafactor, bitsandbytes' Lion and 8-bit Adam. Temporaries live as long as the
 * Python variables that they model. */
#include "torch/ops.h"
#include "torch/optimizer.h"
#include "torch/streams.h"

#include <stdlib.h>

#include "util/util.h"

/* bitsandbytes: parameters smaller than this keep fp32 states; elements of a block, which has one
 * scale */
#define MIN_8BIT 4096
#define BLOCK_8BIT 256
/* torch.optim.Muon's ns_steps */
#define NEWTON_SCHULZ_STEPS 5

static int64_t matrices(const struct param *p)
{
	return p->stack ? p->stack : 1;
}

static int64_t rows(const struct param *p)
{
	return p->value.n / p->in;
}

/* FSDP1's shards of matrices are flat. */
static int is_matrix(const struct param *p)
{
	return rows(p) > 1 && !p->shard;
}

/* Muon updates the matrices of layers; AdamW updates all other parameters. */
int muon_steps(const struct optimizer *o, size_t i)
{
	const struct param *p = o->module->params[i];

	return o->hparams->optimizer == MUON && is_matrix(p) && !p->stack &&
	       p->term != TERM_EMBEDDING && p->term != TERM_HEAD && p->term != TERM_POSITIONS;
}

/* ---- states ---- */

static void make_8bit(struct machine *m, struct optimizer *o, struct optimizer_state *t, int64_t n)
{
	int64_t blocks = divide_up(n, BLOCK_8BIT);
	enum dtype type = n < MIN_8BIT ? F32 : U8;

	for (int i = 0; i < 2 && type == U8; i++)
		if (!o->maps[i].storage)
			o->maps[i] = tensor_new_as(m, TERM_QUANTIZATION, 256, F32);
	t->first = tensor_new_as(m, TERM_MOMENT1, n, type);
	t->second = tensor_new_as(m, TERM_MOMENT2, n, type);
	for (int i = 0; i < 2 && type == U8; i++)
		t->scale[i] = tensor_new_as(m, TERM_QUANTIZATION, blocks, F32);
}

/* One element for each row and one for each column; n for a vector. */
static void make_factored(struct machine *m, struct optimizer_state *t, const struct param *p,
			  int64_t n, enum dtype type)
{
	if (!is_matrix(p)) {
		t->second = tensor_new_as(m, TERM_MOMENT2, n, type);
		return;
	}
	t->first = tensor_new_as(m, TERM_MOMENT2, rows(p), type);
	t->second = tensor_new_as(m, TERM_MOMENT2, matrices(p) * p->in, type);
}

void make_other_state(struct machine *m, struct optimizer *o, size_t i, int64_t n, enum dtype type)
{
	struct optimizer_state *t = &o->states[i];
	const struct param *p = o->module->params[i];

	switch (o->hparams->optimizer) {
	case ADAM_8BIT:
		make_8bit(m, o, t, n);
		break;
	case LION:
		t->first = tensor_new_as(m, TERM_MOMENT1, n, F32);
		break;
	case MUON:
		t->first = tensor_new_as(m, TERM_MOMENTUM, n, type);
		break;
	case ADAFACTOR:
		make_factored(m, t, p, n, type);
		break;
	case TRANSFORMERS_ADAFACTOR:
		make_factored(m, t, p, n, F32);
		break;
	default: /* RMSprop, Adagrad */
		t->second = tensor_new_as(m, TERM_MOMENT2, n, type);
		if (o->hparams->optimizer == RMSPROP && o->hparams->momentum > 0)
			t->first = tensor_new_as(m, TERM_MOMENTUM, n, type);
	}
}

/* ---- steps ---- */

/* std = sum.sqrt() of one parameter after the other */
static void loop_roots(struct machine *m, struct optimizer *o)
{
	tensor root = none;

	for (size_t i = 0; i < o->module->count; i++)
		if (o->states[i].second.storage)
			tensor_assign(
				m, &root,
				tensor_new(m, o->states[i].second.n, o->states[i].second.type));
	tensor_unref(m, &root);
}

/* `sets` lists of temporaries, each with a tensor like every second state, all live at once. */
static void foreach_like(struct machine *m, struct optimizer *o, size_t sets)
{
	size_t count = sets * o->module->count;
	tensor *made = xcalloc(count, sizeof(*made));

	for (size_t i = 0; i < count; i++) {
		const tensor *like = &o->states[i % o->module->count].second;

		if (like->storage)
			made[i] = tensor_new(m, like->n, like->type);
	}
	for (size_t i = 0; i < count; i++)
		tensor_unref(m, &made[i]);
	free(made);
}

/* A mean over rows. For one matrix it may need a buffer of partial sums. */
static tensor column_mean(struct machine *m, const struct param *p, enum dtype type)
{
	return p->stack ? tensor_new(m, p->stack * p->in, type) : sum_rows(m, p->in, rows(p), type);
}

/* row_var @ col_var, which becomes the update; for a vector the variance is copied. */
static tensor adafactor_update(struct machine *m, const struct param *p, tensor variance)
{
	return is_matrix(p) ? gemm(m, p->value.n, variance.type)
			    : tensor_new(m, variance.n, variance.type);
}

static void loop_adafactor(struct machine *m, struct optimizer *o)
{
	tensor update = none, means[2] = { none, none };

	for (size_t i = 0; i < o->module->count; i++) {
		const struct param *p = o->module->params[i];
		tensor variance = o->states[i].second;

		if (!variance.storage)
			continue;
		tensor_assign(m, &means[0],
			      tensor_new(m, is_matrix(p) ? rows(p) : variance.n, variance.type));
		if (is_matrix(p))
			tensor_assign(m, &means[1], column_mean(m, p, variance.type));
		tensor_assign(m, &update, adafactor_update(m, p, variance));
	}
	tensor_unref(m, &means[0]);
	tensor_unref(m, &means[1]);
	tensor_unref(m, &update);
}

/* All matrices, then all vectors. */
static void foreach_adafactor(struct machine *m, struct optimizer *o)
{
	size_t count = o->module->count;
	tensor *updates = xcalloc(count, sizeof(*updates));

	for (size_t i = 0; i < count; i++)
		if (o->states[i].second.storage && is_matrix(o->module->params[i]))
			updates[i] = column_mean(m, o->module->params[i], o->states[i].second.type);
	for (size_t i = 0; i < count; i++)
		tensor_unref(m, &updates[i]);
	for (int matrix = 1; matrix >= 0; matrix--)
		for (size_t i = 0; i < count; i++) {
			const struct param *p = o->module->params[i];

			if (o->states[i].second.storage && is_matrix(p) == matrix)
				updates[i] = adafactor_update(m, p, o->states[i].second);
		}
	for (size_t i = 0; i < count; i++)
		tensor_unref(m, &updates[i]);
	free(updates);
}

/* The variables of transformers.optimization.Adafactor.step. */
static void transformers_adafactor(struct machine *m, struct optimizer *o)
{
	tensor gradient = none, precise = none, update = none, now, part;

	for (size_t i = 0; i < o->module->count; i++) {
		const struct param *p = o->module->params[i];
		int half = p->value.type != F32;

		if (!o->states[i].second.storage)
			continue;
		tensor_assign(m, &gradient, half ? none : tensor_ref(p->grad));
		if (half)
			gradient = tensor_new(m, p->value.n, F32);
		tensor_assign(m, &precise, none);
		if (half)
			precise = tensor_new(m, p->value.n, F32);
		part = tensor_new(m, p->value.n, F32);
		now = tensor_new(m, p->value.n, F32);
		tensor_unref(m, &part);
		tensor_assign(m, &update, now);
		part = is_matrix(p) ? column_mean(m, p, F32) : none;
		tensor_unref(m, &part);
		tensor_assign(m, &update, tensor_new(m, p->value.n, F32));
		scratch(m, p->value.n * 4);
	}
	tensor_unref(m, &gradient);
	tensor_unref(m, &precise);
	tensor_unref(m, &update);
}

/* _zeropower_via_newtonschulz: replaces *update by its result. */
static void orthogonalize(struct machine *m, tensor *update, int64_t n, int64_t least)
{
	tensor result = tensor_new(m, n, BF16), gram = none, change = none;

	for (int i = 0; i < NEWTON_SCHULZ_STEPS; i++) {
		tensor_assign(m, &gram, gemm(m, least * least, BF16));
		tensor_assign(m, &change, gemm(m, least * least, BF16));
		tensor_assign(m, &result, gemm(m, n, BF16));
	}
	tensor_unref(m, &gram);
	tensor_unref(m, &change);
	tensor_assign(m, update, result);
}

static void muon(struct machine *m, struct optimizer *o)
{
	tensor update = none;

	for (size_t i = 0; i < o->module->count; i++) {
		const struct param *p = o->module->params[i];

		if (!muon_steps(o, i) || !o->states[i].first.storage)
			continue;
		tensor_assign(m, &update, tensor_new(m, p->value.n, o->states[i].first.type));
		orthogonalize(m, &update, p->value.n, rows(p) < p->in ? rows(p) : p->in);
	}
	tensor_unref(m, &update);
}

void other_step(struct machine *m, struct optimizer *o)
{
	int each = o->hparams->implementation == LOOP;

	m->current_term = TERM_STEP;
	switch (o->hparams->optimizer) {
	case RMSPROP:
		each ? loop_roots(m, o) : foreach_like(m, o, 1);
		break;
	case ADAGRAD: /* foreach: the scaled gradients beside the roots */
		each ? loop_roots(m, o) : foreach_like(m, o, 2);
		break;
	case ADAFACTOR:
		(each ? loop_adafactor : foreach_adafactor)(m, o);
		break;
	case TRANSFORMERS_ADAFACTOR:
		transformers_adafactor(m, o);
		break;
	case MUON:
		muon(m, o);
		break;
	default: /* Lion and 8-bit Adam: one kernel for each parameter, and sync_gpu */
		host_wait_all(m);
	}
}
