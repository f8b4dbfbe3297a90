#include "timing/step.h"

#include "timing/expert_groups.h"
#include "timing/kernels.h"
#include "timing/layer.h"

#include <math.h>

/* Bytes of an optimizer's step for a parameter beside its 16-bit weight: gradient read; master
 * weight and two moments read and written (Adam in single precision). */
#define OPTIMIZER_BYTES (7 * 4 + 2)
#define PARAMETER_BYTES 2 /* of a weight that is gathered */

/* The host, fitted to document 003's columns that tests/accuracy/planner.py calls development: the
 * bytes that a worker of a data loader moves in a second if it is alone, those that a node's
 * workers move together, and the part of a sample's time that is random. PyTorch's data loader has
 * two workers in Megatron-LM (--num-workers 2), each two batches ahead (prefetch_factor). */
#define WORKER 9e9
#define NODE_HOST 300e9
#define SPREAD 0.2
#define WORKERS 2
#define BATCHES_AHEAD 8

int step_job_read(struct step_job *job, const struct config *c)
{
	return gpu_speed_read(&job->gpu, c) && model_sizes_read(&job->model, c, &job->gpu);
}

/* ---- a stage ---- */

struct stage_times {
	double longest, shortest; /* forward and backward pass of a micro-batch */
	double all;               /* of all stages */
	double forward, backward; /* of the longest */
	struct passes layer;      /* of one of its layers */
};

static struct passes average_layer(const struct step_job *job, const struct step_layout *l)
{
	double with = job->model.layers > 0 ? job->model.expert_layers / job->model.layers : 0;
	struct passes dense = { 0 }, sparse = { 0 };

	if (with < 1)
		dense = layer_passes(job, l, 0);
	if (with > 0)
		sparse = layer_passes(job, l, 1);
#define MIX(member) .member = (1 - with) * dense.member + with * sparse.member
	return (struct passes){ MIX(forward), MIX(backward), MIX(recomputed),
				MIX(tensor),  MIX(context),  MIX(experts) };
#undef MIX
}

/* The last stage has the head, which no other stage can take over. */
static struct stage_times make_stages(const struct step_job *job, const struct step_layout *l)
{
	struct passes layer = average_layer(job, l), head = head_passes(job, l);
	double p = l->size[DIM_PP], layers = job->model.layers / p;
	double shortest = layers * (layer.forward + layer.backward);

	return (struct stage_times){
		.longest = shortest + head.forward + head.backward,
		.shortest = shortest,
		.all = p * shortest + head.forward + head.backward,
		.forward = layers * layer.forward + head.forward,
		.backward = layers * layer.backward + head.backward,
		.layer = layer,
	};
}

/* ---- between ranks ---- */

/* A micro-batch's activations go to the next stage, its gradients come back: exposed in 1F1B.
 * Interleaved stages do that for every chunk, beside the computation (overlap_p2p_comm is
 * Megatron-core's default there): the start of each message is left, and what takes longer than the
 * computation. */
static double messages(const struct step_job *job, const struct step_layout *l, double work)
{
	const struct model_sizes *m = &job->model;
	double tp = l->size[DIM_TP], stride = tp * l->size[DIM_CP] * l->size[DIM_DP];
	double bytes = m->tokens * l->size[DIM_MBS] / l->size[DIM_CP] * m->hidden *
		       PARAMETER_BYTES / (l->sequence_parallel ? tp : 1);

	double one = 2 * ring_time(&job->gpu, bytes, (struct group){ 2, stride });
	double start = 2 * ring_time(&job->gpu, 0, (struct group){ 2, stride });
	double chunks = l->size[DIM_VPP];

	if (l->size[DIM_PP] <= 1)
		return 0;
	return chunks > 1 ? fmax(chunks * start, chunks * one - work) : one;
}

static struct expert_groups groups_of(const struct step_job *job, const struct step_layout *l)
{
	return expert_groups(&job->model, l->size[DIM_TP], l->size[DIM_CP] * l->size[DIM_DP],
			     l->size[DIM_EP]);
}

/* Weights of the largest stage on one rank: those that all data-parallel ranks share, and experts.
 */
struct rank_weights {
	double dense, experts;
};

static struct rank_weights rank_weights(const struct step_job *job, const struct step_layout *l)
{
	const struct model_sizes *m = &job->model;
	double with = m->expert_layers, tp = l->size[DIM_TP], p = l->size[DIM_PP];
	double attention = dense_weights(m) - (m->gates + 1) * m->hidden * m->ffn;
	double shared = (m->gates + 1) * m->hidden * m->shared_ffn;
	double tables = (p > 1 ? 1 : 2) * m->hidden * m->vocab;

	return (struct rank_weights){
		((m->layers - with) * dense_weights(m) + with * (attention + shared)) / p / tp +
			tables / tp,
		with * expert_weights(m) / p / groups_of(job, l).tensor / l->size[DIM_EP],
	};
}

struct exchange {
	double reduction, gather; /* once a step */
	/* With every micro-batch. */
	double forward, backward;
};

/* ZeRO-0 and DDP reduce all gradients everywhere; ZeRO-1 and 2 scatter them and gather the weights;
 * ZeRO-3 gathers weights for both passes of every micro-batch and scatters its gradients.
 * DeepSpeed's ZeRO-2 scatters with every micro-batch too. */
static struct exchange weights_exchange(const struct step_job *job, const struct step_layout *l,
					double weights, struct group of)
{
	double scatter = gather_time(&job->gpu, weights * job->model.grad, of);
	double gather = gather_time(&job->gpu, weights * PARAMETER_BYTES, of);
	int zero = (int)l->size[DIM_ZERO];

	if (zero == 3)
		return (struct exchange){ 0, 0, gather, gather + scatter };
	if (zero == 2 && job->model.is_deepspeed)
		return (struct exchange){ 0, gather, 0, scatter };
	return zero ? (struct exchange){ scatter, gather, 0, 0 }
		    : (struct exchange){ 2 * scatter, 0, 0, 0 };
}

/* The time of data parallelism that nothing hides. The last micro-batch's backward pass can hide
 * the reduction, the first one's forward pass the gathering; ZeRO-3 fetches a layer ahead. */
static double data_parallel(const struct step_job *job, const struct step_layout *l,
			    const struct stage_times *s)
{
	const struct model_sizes *m = &job->model;
	struct rank_weights w = rank_weights(job, l);
	double tp = l->size[DIM_TP], ranks = l->size[DIM_CP] * l->size[DIM_DP];
	struct exchange a = weights_exchange(job, l, w.dense, (struct group){ ranks, tp });
	struct exchange b = weights_exchange(job, l, w.experts, groups_of(job, l).same);
	double reduction = a.reduction + b.reduction, gather = a.gather + b.gather;

	if (m->overlaps_reduction)
		reduction = fmax(0, reduction - s->backward);
	if (m->overlaps_gather)
		gather = fmax(0, gather - s->forward);
	return reduction + gather +
	       l->micro_batches * (fmax(0, a.forward + b.forward - s->forward) +
				   fmax(0, a.backward + b.backward - s->backward));
}

static double optimizer(const struct step_job *job, const struct step_layout *l)
{
	struct rank_weights w = rank_weights(job, l);
	double ranks = l->size[DIM_CP] * l->size[DIM_DP];
	int is_sharded = l->size[DIM_ZERO] > 0;
	double weights = w.dense / (is_sharded ? ranks : 1) +
			 w.experts / (is_sharded ? groups_of(job, l).same.ranks : 1);

	return stream_time(&job->gpu, weights * OPTIMIZER_BYTES, 1);
}

/* ---- the data loader ---- */

#define LN2 0.6931471805599453
/* The mean of the longest of n exponential times, divided by the mean of one: 1 + 1/2 + ... + 1/n,
 * which grows by ln 2 when a large n doubles. */
static double longest_of(double n)
{
	double sum = 0;

	while (n > 64) {
		sum += LN2;
		n /= 2;
	}
	for (int i = 1; i <= n; i++)
		sum += 1.0 / i;
	return sum;
}

/* Every rank with the first part of the tensors loads the samples of its pipeline. All pipelines
 * meet in every micro-batch, when the loss is averaged: the slowest loader counts. */
static double loader_time(const struct step_job *job, const struct step_layout *l)
{
	double b = l->size[DIM_MBS], of_node = (double)job->gpu.node / l->size[DIM_TP];
	double sample = job->model.loader * (1 / (WORKERS * WORKER) + of_node / NODE_HOST);
	double slowest = 1 + SPREAD * (longest_of(l->size[DIM_DP]) - 1) / sqrt(b);

	return sample * b * l->micro_batches * slowest;
}

/* Two stations with room for K batches between them, whose times are random: the line is slower
 * than the slower station by (1 - r^(K + 1)) / (1 - r^K), with r the quotient of their times (queue
 * M/M/1/K). */
static double joined(double a, double b)
{
	double slow = fmax(a, b), r = fmin(a, b) / slow, sum = 0, power = 1;

	/* Both are sums of powers of r. */
	for (int i = 0; i < BATCHES_AHEAD; i++) {
		sum += power;
		power *= r;
	}
	return slow * (sum + power) / sum;
}

/* ---- the step ---- */

struct step_time step_time(const struct step_job *job, const struct step_layout *l)
{
	const struct model_sizes *m = &job->model;
	struct stage_times s = make_stages(job, l);
	double n = l->micro_batches, p = l->size[DIM_PP], layers = m->layers / p;
	double gpus = p * l->size[DIM_TP] * l->size[DIM_CP] * l->size[DIM_DP];
	double work = n * s.longest, message = messages(job, l, s.longest), passed;
	struct step_time t = { 0 };

	t.recomputation = n * layers * s.layer.recomputed;
	t.tensor = n * layers * s.layer.tensor;
	t.context = n * layers * s.layer.context;
	t.experts = n * layers * s.layer.experts;
	t.arithmetic = work - t.recomputation - t.tensor - t.context - t.experts;
	t.pipeline = (n + p - 1) * message;
	/* The first micro-batch fills the other stages' time; chunks divide it. */
	t.bubble = (s.all - s.longest) / l->size[DIM_VPP];
	passed = work + t.pipeline + t.bubble;
	t.loader = m->loader > 0 ? joined(passed, loader_time(job, l)) - passed : 0;
	t.data = data_parallel(job, l, &s);
	t.optimizer = optimizer(job, l);
	t.seconds = passed + t.loader + t.data + t.optimizer;
	t.tokens = m->batch * m->tokens / t.seconds / gpus;
	t.mfu = step_operations(m) / t.seconds / gpus / job->gpu.peak;
	return t;
}
