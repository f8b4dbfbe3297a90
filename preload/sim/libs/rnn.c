/* cuDNN's recurrent layers: descriptors with their contents, and the three sizes that PyTorch asks
 * for. The weights' is exact: it is the parameters, matrices first, then biases, by layer and
 * direction.
 *
 * The reserve space (kept from forward to backward) and the work space are not documented. Their
 * formulas give the sizes that cuDNN 7 reported on a P100 (PyTorch issue 2895; four layers of 320
 * units, 123 inputs): LSTM 736,000,000 and 17,730,560 bytes, GRU 864,000,000 and 13,169,920. Batch
 * 100 and 250 steps are inferred from them. A cell keeps its gates, its state and its output; the
 * last output is the caller's. ASSUMED: the same with cuDNN 8 and 9, other GPUs and types,
 * projections and directions; a plain cell, by the same rule; one more output between layers that
 * have dropout. */
#include "device/common.h"
#include "device/status.h"

#include <string.h>

enum { TENSOR_DIMENSIONS = 8 };

struct tensor_descriptor {
	int type, dimensions, sizes[TENSOR_DIMENSIONS], strides[TENSOR_DIMENSIONS];
};
struct dropout_descriptor {
	float probability;
};
struct rnn_descriptor {
	int mode, bias, type;
	uint64_t directions, inputs, units, outputs, layers; /* outputs: units, or projected */
	bool dropout, projected;
};
struct rnn_data_descriptor {
	uint64_t batch, steps; /* steps: of all sequences */
};

#define DESCRIPTOR(name, kind)                                             \
	EXPORT int cudnnCreate##name##Descriptor(void **descriptor);       \
	EXPORT int cudnnCreate##name##Descriptor(void **descriptor)        \
	{                                                                  \
		*descriptor = calloc(1, sizeof(struct kind##_descriptor)); \
		return sim_done(LIB_cudnn);                                \
	}                                                                  \
	EXPORT int cudnnDestroy##name##Descriptor(void *descriptor);       \
	EXPORT int cudnnDestroy##name##Descriptor(void *descriptor)        \
	{                                                                  \
		free(descriptor);                                          \
		return 0;                                                  \
	}
DESCRIPTOR(Tensor, tensor)
DESCRIPTOR(Dropout, dropout)
DESCRIPTOR(RNN, rnn)
DESCRIPTOR(RNNData, rnn_data)

EXPORT int cudnnSetTensorNdDescriptor(struct tensor_descriptor *t, int type, int dimensions,
				      const int *sizes, const int *strides);
EXPORT int cudnnSetTensorNdDescriptor(struct tensor_descriptor *t, int type, int dimensions,
				      const int *sizes, const int *strides)
{
	int kept = dimensions < TENSOR_DIMENSIONS ? dimensions : TENSOR_DIMENSIONS;
	t->type = type;
	t->dimensions = kept > 0 ? kept : 0;
	memcpy(t->sizes, sizes, (size_t)t->dimensions * sizeof *sizes);
	memcpy(t->strides, strides, (size_t)t->dimensions * sizeof *strides);
	return sim_done(LIB_cudnn);
}

EXPORT int cudnnGetTensorNdDescriptor(const struct tensor_descriptor *t, int asked, int *type,
				      int *dimensions, int *sizes, int *strides);
EXPORT int cudnnGetTensorNdDescriptor(const struct tensor_descriptor *t, int asked, int *type,
				      int *dimensions, int *sizes, int *strides)
{
	size_t count = (size_t)(asked < t->dimensions ? asked : t->dimensions);
	*type = t->type;
	*dimensions = t->dimensions;
	memcpy(sizes, t->sizes, asked > 0 ? count * sizeof *sizes : 0);
	memcpy(strides, t->strides, asked > 0 ? count * sizeof *strides : 0);
	return sim_done(LIB_cudnn);
}

#define SET_DROPOUT(symbol)                                                              \
	EXPORT int symbol(struct dropout_descriptor *d, void *handle, float probability, \
			  void *states, size_t size, unsigned long long seed);           \
	EXPORT int symbol(struct dropout_descriptor *d, void *handle, float probability, \
			  void *states, size_t size, unsigned long long seed)            \
	{                                                                                \
		(void)handle, (void)states, (void)size, (void)seed;                      \
		d->probability = probability;                                            \
		return sim_done(LIB_cudnn);                                              \
	}
SET_DROPOUT(cudnnSetDropoutDescriptor)
SET_DROPOUT(cudnnRestoreDropoutDescriptor)

EXPORT int cudnnSetRNNDescriptor_v8(struct rnn_descriptor *r, int algorithm, int mode, int bias,
				    int direction, int input_mode, int type, int math_type,
				    int tensor_cores, int inputs, int units, int projected,
				    int layers, const struct dropout_descriptor *dropout,
				    unsigned flags);
EXPORT int cudnnSetRNNDescriptor_v8(struct rnn_descriptor *r, int algorithm, int mode, int bias,
				    int direction, int input_mode, int type, int math_type,
				    int tensor_cores, int inputs, int units, int projected,
				    int layers, const struct dropout_descriptor *dropout,
				    unsigned flags)
{
	(void)algorithm, (void)input_mode, (void)math_type, (void)tensor_cores, (void)flags;
	*r = (struct rnn_descriptor){
		.mode = mode,
		.bias = bias,
		.type = type,
		.directions = direction ? 2 : 1,
		.inputs = (uint64_t)inputs,
		.units = (uint64_t)units,
		.outputs = (uint64_t)(projected > 0 ? projected : units),
		.layers = (uint64_t)layers,
		.dropout = dropout && dropout->probability > 0,
		.projected = projected > 0 && projected != units,
	};
	return sim_done(LIB_cudnn);
}

EXPORT int cudnnSetRNNDataDescriptor(struct rnn_data_descriptor *d, int type, int layout, int most,
				     int batch, int size, const int *lengths, void *padding);
EXPORT int cudnnSetRNNDataDescriptor(struct rnn_data_descriptor *d, int type, int layout, int most,
				     int batch, int size, const int *lengths, void *padding)
{
	(void)type, (void)layout, (void)most, (void)size, (void)padding;
	d->batch = (uint64_t)batch;
	d->steps = 0;
	for (int i = 0; i < batch; i++)
		d->steps += (uint64_t)lengths[i];
	return sim_done(LIB_cudnn);
}

/* ---- sizes, in elements */

/* Gates, elements a step and unit that the backward pass needs beside the output, states that
 * the work space has for each unit): by cudnnRNNMode_t */
static const struct {
	uint64_t gates, kept, states;
} cells[] = {
	{ 1, 1, 2 }, /* RELU */
	{ 1, 1, 2 }, /* TANH */
	{ 4, 5, 3 }, /* LSTM: four gates and the cell */
	{ 3, 6, 2 }, /* GRU */
};

static uint64_t gates(const struct rnn_descriptor *r)
{
	return cells[r->mode].gates;
}

static uint64_t element_bytes(int type)
{
	return type == 1 ? 8 : type == 2 || type == 9 ? 2 : 4; /* double; half, bfloat16 */
}

static uint64_t inputs_of(const struct rnn_descriptor *r, uint64_t layer)
{
	return layer < r->directions ? r->inputs : r->outputs * r->directions;
}

/* The matrices of one layer and direction. */
static uint64_t matrices(const struct rnn_descriptor *r, uint64_t layer)
{
	uint64_t projection = r->projected ? r->outputs * r->units : 0;
	return gates(r) * r->units * (inputs_of(r, layer) + r->outputs) + projection;
}

static uint64_t biases(const struct rnn_descriptor *r)
{
	return (r->bias == 2 ? 2u : r->bias ? 1u : 0u) * gates(r) * r->units;
}

static uint64_t all_matrices(const struct rnn_descriptor *r)
{
	uint64_t sum = 0;
	for (uint64_t layer = 0; layer < r->layers * r->directions; layer++)
		sum += matrices(r, layer);
	return sum;
}

static bool known(const struct rnn_descriptor *r)
{
	return r->mode >= 0 && (size_t)r->mode < LENGTH(cells) && r->layers && r->units;
}

EXPORT int cudnnGetRNNWeightSpaceSize(void *handle, const struct rnn_descriptor *r, size_t *size);
EXPORT int cudnnGetRNNWeightSpaceSize(void *handle, const struct rnn_descriptor *r, size_t *size)
{
	(void)handle;
	if (!known(r))
		return sim_refused(LIB_cudnn);
	*size = (all_matrices(r) + r->layers * r->directions * biases(r)) * element_bytes(r->type);
	return sim_done(LIB_cudnn);
}

EXPORT int cudnnGetRNNTempSpaceSizes(void *handle, const struct rnn_descriptor *r, int training,
				     const struct rnn_data_descriptor *x, size_t *work,
				     size_t *reserve);
EXPORT int cudnnGetRNNTempSpaceSizes(void *handle, const struct rnn_descriptor *r, int training,
				     const struct rnn_data_descriptor *x, size_t *work,
				     size_t *reserve)
{
	(void)handle;
	if (!known(r))
		return sim_refused(LIB_cudnn);
	uint64_t columns = r->layers * r->directions, between = r->layers - 1;
	uint64_t step = columns * cells[r->mode].kept * r->units +
			between * r->directions * r->outputs * (r->dropout ? 2 : 1);
	uint64_t states = 2 * gates(r) + cells[r->mode].states;
	if (work)
		*work = (all_matrices(r) + columns * x->batch * states * r->units) *
			element_bytes(r->type);
	if (reserve)
		*reserve = training ? x->steps * step * element_bytes(r->type) : 0;
	return sim_done(LIB_cudnn);
}

/* ---- where each matrix and bias is */

static void describe(struct tensor_descriptor *t, const struct rnn_descriptor *r, uint64_t rows,
		     uint64_t columns)
{
	if (!t)
		return;
	*t = (struct tensor_descriptor){
		.type = r->type,
		.dimensions = 3,
		.sizes = { 1, (int)rows, (int)columns },
		.strides = { (int)(rows * columns), (int)columns, 1 },
	};
}

/* The matrix `which` of a layer: of the inputs by gate, of the outputs by gate, the projection. */
static uint64_t matrix_at(const struct rnn_descriptor *r, uint64_t layer, uint64_t which)
{
	uint64_t at = 0, in = which < gates(r) ? which : gates(r);
	for (uint64_t i = 0; i < layer; i++)
		at += matrices(r, i);
	return at + in * r->units * inputs_of(r, layer) + (which - in) * r->units * r->outputs;
}

EXPORT int cudnnGetRNNWeightParams(void *handle, const struct rnn_descriptor *r, int layer,
				   size_t size, char *space, int which,
				   struct tensor_descriptor *matrix, void **matrix_start,
				   struct tensor_descriptor *bias, void **bias_start);
EXPORT int cudnnGetRNNWeightParams(void *handle, const struct rnn_descriptor *r, int layer,
				   size_t size, char *space, int which,
				   struct tensor_descriptor *matrix, void **matrix_start,
				   struct tensor_descriptor *bias, void **bias_start)
{
	(void)handle, (void)size;
	uint64_t w = (uint64_t)which, l = (uint64_t)layer, bytes = element_bytes(r->type);
	bool projection = w == 2 * gates(r) && r->projected;
	if (!known(r) || l >= r->layers * r->directions || (w >= 2 * gates(r) && !projection))
		return sim_refused(LIB_cudnn);
	describe(matrix, r, projection ? r->outputs : r->units,
		 projection     ? r->units
		 : w < gates(r) ? inputs_of(r, l)
				: r->outputs);
	if (matrix_start)
		*matrix_start = space ? space + matrix_at(r, l, w) * bytes : NULL;
	describe(bias, r, r->units, projection ? 0 : 1);
	if (bias_start)
		*bias_start =
			space && r->bias && !projection
				? space + (all_matrices(r) + l * biases(r) + w * r->units) * bytes
				: NULL;
	return sim_done(LIB_cudnn);
}
