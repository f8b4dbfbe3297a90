#include "timing/kernels.h"

#include <math.h>

/* A tile of the result that one multiprocessor computes at a time: 128 x 256 is the most efficient
 * of cuBLAS (NVIDIA, "Matrix Multiplication Background User's Guide", tile and wave quantization).
 */
#define TILE_M 128
#define TILE_N 256
/* Between two dependent kernels of a stream: microseconds of launch, drain and fill. */
#define LAUNCH 4e-6
/* A collective's start, a step of NCCL's ring for each further rank, a message: round values of the
 * order that nccl-tests prints on A100 and H100, neither measured here nor taken from one table. */
#define COLLECTIVE 40e-6
#define STEP_NVLINK 2e-6
#define STEP_NETWORK 5e-6
#define MESSAGE 20e-6
/* Boards of up to four GPUs with NVLink have no switch: the links of a GPU are divided among its
 * peers (NVIDIA HGX A100 and HGX H100, 4-GPU). */
#define NODE_WITHOUT_SWITCH 4

/* Waves of tiles, each as long as a whole one; the result is written when a wave ends. */
double product_time(const struct gpu_speed *g, const struct product *p)
{
	double tiles = ceil(p->m / TILE_M) * ceil(p->n / TILE_N) * p->batch;
	double waves = ceil(tiles / g->processors);
	double arithmetic = waves * g->processors * TILE_M * TILE_N * 2 * p->k / p->rate;
	double factors = p->width * p->batch * p->k * (p->m + p->n) / g->memory;
	double result = p->out_width * p->batch * p->m * p->n / g->memory;

	return fmax(arithmetic, factors) + result + LAUNCH;
}

double stream_time(const struct gpu_speed *g, double bytes, int kernels)
{
	return bytes / g->memory + kernels * LAUNCH;
}

static int is_in_node(const struct gpu_speed *g, struct group of)
{
	return of.ranks * of.stride <= (double)g->node;
}

/* The ranks of the group that are on one node. */
static double local_ranks(const struct gpu_speed *g, struct group of)
{
	return fmax(1, fmin(of.ranks, floor((double)g->node / of.stride)));
}

static double peer_rate(const struct gpu_speed *g, double ranks)
{
	if (g->node > NODE_WITHOUT_SWITCH || g->node <= 1)
		return g->peers;
	return g->peers * fmin(1, (ranks - 1) / (double)(g->node - 1));
}

/* Beyond a node the ring leaves through the ports of all of the node's ranks in the group. */
double gather_time(const struct gpu_speed *g, double bytes, struct group of)
{
	double moved = bytes * (of.ranks - 1) / of.ranks;

	if (of.ranks <= 1)
		return 0;
	if (is_in_node(g, of))
		return moved / peer_rate(g, of.ranks) + COLLECTIVE + (of.ranks - 1) * STEP_NVLINK;
	return moved / (g->network * local_ranks(g, of)) + COLLECTIVE +
	       (of.ranks - 1) * STEP_NETWORK;
}

double exchange_time(const struct gpu_speed *g, double bytes, struct group of)
{
	double inside = local_ranks(g, of), peers;

	if (of.ranks <= 1)
		return 0;
	peers = bytes * (inside - 1) / of.ranks / peer_rate(g, fmax(2, inside));
	return fmax(peers, bytes * (of.ranks - inside) / of.ranks / g->network) + COLLECTIVE;
}

double ring_time(const struct gpu_speed *g, double bytes, struct group of)
{
	if (of.ranks <= 1)
		return 0;
	return bytes / (is_in_node(g, of) ? peer_rate(g, of.ranks) : g->network) + MESSAGE;
}
