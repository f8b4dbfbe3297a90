#include "families/norms.h"

#include "torch/module.h"
#include "torch/ops.h"

/* hidden_states * torch.rsqrt(hidden_states.pow(2).mean(-1) + eps), in fp32. *precise is replaced
 * by it. The mean lives as long as the function of Llama's. */
static void divide_by_norm(struct machine *m, tensor *precise, int64_t rows, tensor *variance)
{
	tensor h = square(m, *precise);

	*variance = mean(m, h, rows);
	tensor_unref(m, &h);
	h = shift(m, *variance);
	tensor_assign(m, &h, rsqrt(m, h));
	tensor_assign(m, precise, mul(m, *precise, h));
	tensor_unref(m, &h);
}

/* x * (1.0 + weight.float()) */
static tensor times_weight_plus_one(struct machine *m, tensor x, struct param *weight)
{
	tensor precise = to(m, weight->value, F32), row = shift(m, precise), out;

	out = mul_row(m, x, row);
	tensor_unref(m, &row);
	tensor_unref(m, &precise);
	return out;
}

static tensor rms_norm(struct machine *m, const struct decoder *row, struct param *weight, tensor x,
		       int64_t width)
{
	tensor precise = to(m, x, F32), variance, h, out;

	divide_by_norm(m, &precise, x.n / width, &variance);
	switch (row->norm) {
	case NORM_PLUS_ONE:
		tensor_unref(m, &variance);
		h = times_weight_plus_one(m, precise, weight);
		out = to(m, h, x.type);
		break;
	case NORM_IN_FP32:
		h = mul(m, weight->value, precise);
		out = to(m, h, x.type);
		break;
	default:
		h = to(m, precise, x.type);
		out = mul(m, weight->value, h);
	}
	tensor_unref(m, &h);
	tensor_unref(m, &precise);
	tensor_unref(m, &variance);
	return out;
}

static tensor norm_without_weight(struct machine *m, tensor x, int64_t width)
{
	tensor precise = to(m, x, F32), h = layer_norm(m, precise, NULL, NULL, width),
	       out = to(m, h, x.type);

	tensor_unref(m, &h);
	tensor_unref(m, &precise);
	return out;
}

tensor normed(struct machine *m, const struct decoder *row, struct param *weight, tensor x,
	      int64_t width)
{
	tensor in, out;

	if (row->norm == NORM_WITHOUT_WEIGHT)
		return norm_without_weight(m, x, width);
	in = module_enter(m, weight, NULL, x);
	out = rms_norm(m, row, weight, in, width);
	tensor_unref(m, &in);
	module_leave(m, weight, &out);
	return out;
}
