/* The communicators that a rank uses, and the device memory of each. */
#include "distributed/nccl_memory.h"

#include <stdio.h>

#define TABLE "../../preload/sim/nccl/nccl.def"

enum nccl_use { COLLECTIVES = 1, MESSAGES = 2 };
enum { HOPPER = 90 };
/* PyTorch's wheels since 2.7 have NCCL 2.26, which connects ranks at their first use; PyTorch 2.6
 * has NCCL 2.21. */
enum { CONNECTS_LATE_SINCE = 207 };

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

/* Before NCCL 2.22 all connections are made with the communicator. */
static wide created(const struct nccl_communicator *c)
{
	wide taken = 0;

#define NCCL_CREATION(from, amount) taken = c->size >= (from) ? (amount) : taken;
#include TABLE
	return taken * c->count;
}

/* Since NCCL 2.22: the connections that are used, both ways to each peer, in any of the
 * communicators. */
static wide connected(const struct nccl_communicator *c, const struct constants *k, int64_t node)
{
	int near = c->span <= node;
	wide taken = 0;

	if (c->use & COLLECTIVES) {
		taken += buffers[RING_RECEIVE] + buffers[RING_SEND];
		if (near && c->size > 2 && k->sm >= HOPPER)
			taken += buffers[NVLS_RANK] * c->size;
	}
	if (c->use & MESSAGES && near)
		taken += (buffers[PEER_RECEIVE] + buffers[PEER_SEND]) * c->peers;
	else if (c->use & MESSAGES)
		taken += buffers[NET_RECEIVE] + buffers[NET_SEND];
	return taken;
}

void nccl_memory(const struct hparams *s, const struct constants *k, int64_t stage,
		 wide taken[NCCL_GROUPS])
{
	int64_t node = VALUE_OR(s->config, num_gpus_per_node, GPUS_OF_A_NODE);
#define NCCL_GROUP(name, id, when, count, size, span, use, peers, source) \
	{ (when) ? (count) : 0, size, span, use, peers },
	const struct nccl_communicator groups[NCCL_GROUPS] = {
#include "distributed/nccl_groups.def"
	};

	for (int i = 0; i < NCCL_GROUPS; i++) {
		const struct nccl_communicator *c = &groups[i];

		taken[i] = 0;
		if (c->count && c->size > 1)
			taken[i] =
				k->torch < CONNECTS_LATE_SINCE ? created(c) : connected(c, k, node);
	}
}
