/* The communicators that a rank uses, and the device memory of each. */
#include "distributed/nccl_memory.h"

#include <stdio.h>

#define TABLE "../../preload/sim/nccl/nccl.def"

enum nccl_use { COLLECTIVES = 1, MESSAGES = 2 };
enum nccl_buffers {
#define NCCL_BUFFERS(use, channels, size) use,
#include TABLE
	BUFFERS
};

static const wide buffers[BUFFERS] = {
#define NCCL_BUFFERS(use, channels, size) [use] = (wide)(channels) * (size),
#include TABLE
};

const struct nccl_group_row nccl_group_rows[NCCL_GROUPS] = {
#define NCCL_GROUP(name, id, when, count, size, span, use, peers, source) { id, source },
#include "distributed/nccl_groups.def"
	[NCCL_KERNELS] = { "nccl.kernels",
			   "the code of NCCL's kernels and their stacks, once in a process" },
};

struct nccl_communicator {
	int64_t count, size, span;
	int use;
	int64_t peers;
};

/* Is Megatron-core's version given and older than 0.`minor`? */
static int megatron_before(const struct hparams *s, int minor)
{
	int major = 0, given = 0;

	return GIVEN(s->config, megatron_core_version) &&
	       sscanf(s->config->megatron_core_version, "%d.%d", &major, &given) == 2 &&
	       major == 0 && given < minor;
}

/* The NCCL of PyPI's wheel. */
static int version_of(int torch)
{
	int v = 0;

#define NCCL_OF_TORCH(since, version) v = torch >= (since) ? (version) : v;
#include TABLE
	return v;
}

/* The bytes that NCCL allocates when it creates a communicator, on a rank in the middle. */
static wide created(const struct nccl_communicator *c, const struct constants *k, int64_t node)
{
	int v = version_of(k->torch), sm = k->sm, near = c->span <= node;
	int64_t n = c->size, rank = n > 2 ? 1 : 0;
	wide taken = 0;

#define NCCL_CREATED(id, when, amount) taken += (when) ? (amount) : 0;
#include TABLE
	return taken;
}

/* Since NCCL 2.22: the connections that are used, both ways to each peer, in any of the
 * communicators. */
static wide connected(const struct nccl_communicator *c, const struct constants *k, int64_t node)
{
	int near = c->span <= node, sm = k->sm;
	int64_t n = c->size;
	wide taken = 0;

	if (version_of(k->torch) < NCCL_LAZY)
		return 0;
	if (c->use & COLLECTIVES) {
		taken += buffers[RING_RECEIVE] + buffers[RING_SEND];
		if (NCCL_HAS_NVLS)
			taken += buffers[NVLS_RANK] * n;
	}
	if (c->use & MESSAGES && near)
		taken += (buffers[PEER_RECEIVE] + buffers[PEER_SEND]) * c->peers;
	else if (c->use & MESSAGES)
		taken += buffers[NET_RECEIVE] + buffers[NET_SEND];
	return taken;
}

/* NCCL's kernels, once in a process, and their stacks. */
static wide kernels(const struct constants *k)
{
	int v = version_of(k->torch), best = 0;
	wide image = 0, beside = 0, stack = 0;

#define NCCL_IMAGE(since, from, code, needs)                           \
	if (v >= (since) && k->sm >= (from) && (from) >= best) {       \
		best = (from), image = (code);                         \
		stack = (needs) > NCCL_STACK ? (needs)-NCCL_STACK : 0; \
	}
#define NCCL_LOADED(from, size) beside = k->sm >= (from) ? (size) : beside;
#include TABLE
	return image + beside + stack * k->threads;
}

void nccl_memory(const struct hparams *s, const struct constants *k, int64_t stage,
		 wide taken[NCCL_GROUPS])
{
	int64_t node = VALUE_OR(s->config, num_gpus_per_node, GPUS_OF_A_NODE);
#define NCCL_GROUP(name, id, when, count, size, span, use, peers, source) \
	{ (when) ? (count) : 0, size, span, use, peers },
	const struct nccl_communicator groups[NCCL_KERNELS] = {
#include "distributed/nccl_groups.def"
	};

	taken[NCCL_KERNELS] = 0;
	for (int i = 0; i < NCCL_KERNELS; i++) {
		const struct nccl_communicator *c = &groups[i];

		taken[i] = 0;
		if (!c->count || c->size < 2)
			continue;
		taken[i] = c->count * created(c, k, node) + connected(c, k, node);
		taken[NCCL_KERNELS] = kernels(k);
	}
}
