#include "write_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACKS 200
#define PHASE 1000 /* events */

struct block {
	uint64_t address;
	int64_t bytes;
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Every tenth stack is an optimizer's. */
static void write_stacks(struct writer *w, uint32_t stacks[STACKS])
{
	write_module(w, "/usr/lib/python3/site-packages/torch/lib/libc10_cuda.so");
	for (uint32_t i = 0; i < STACKS; i++) {
		char name[32];
		uint32_t inner, outer;

		snprintf(name, sizeof(name), "Layer%u.forward", i);
		inner = write_frame(w, "linear", "/x/site-packages/torch/nn/functional.py", i);
		outer = write_frame(
			w, name,
			i % 10 ? "/home/u/model.py" : "/x/site-packages/torch/optim/adamw.py", i);
		stacks[i] = write_stack(w, 1, inner, outer, 0, 0);
	}
}

void write_training(struct writer *w, size_t events, size_t live, uint64_t seed, int64_t scale)
{
	struct block *blocks = calloc(live, sizeof(*blocks));
	uint64_t random = 88172645463325252u + seed;
	uint32_t stacks[STACKS];
	uint16_t threads[2];
	size_t count = 0;

	if (!blocks)
		abort();
	threads[0] = write_thread(w, 100, "python");
	threads[1] = write_thread(w, 101, "pt_autograd_0");
	write_stacks(w, stacks);
	for (size_t i = 0; i < events; i++) {
		size_t phase = i / PHASE % 3;
		uint16_t thread = threads[phase == 1];

		if (!count || (count < live &&
			       next_random(&random) % 1000 < (count < live / 2 ? 600 : 500))) {
			struct block b = {
				0x7f0000000000u + (i << 21),
				(int64_t)(1 + next_random(&random) % 1000) * 512 * scale,
			};
			size_t stack = phase == 2 ? 0 : 1 + next_random(&random) % 9;

			blocks[count++] = b;
			write_event(w, MT_TENSOR_ALLOC, b.address, b.bytes,
				    stacks[stack + next_random(&random) % 20 * 10], thread);
		} else {
			size_t k = next_random(&random) % count;

			write_event(w, MT_TENSOR_FREE, blocks[k].address, -blocks[k].bytes, 0,
				    thread);
			blocks[k] = blocks[--count];
		}
	}
	free(blocks);
}

void write_megatron_rank(struct writer *w, int rank, int world, size_t events, int64_t scale)
{
	static const char argv[] = "python\0pretrain_gpt.py\0--num-layers\0"
				   "16\0--hidden-size\0"
				   "512\0--num-attention-heads\0"
				   "8\0--seq-length\0"
				   "512\0--max-position-embeddings\0"
				   "512\0--micro-batch-size\0"
				   "2\0--tensor-model-parallel-size\0"
				   "2\0--pipeline-model-parallel-size\0"
				   "4";
	char text[16];
	int stage = rank / (world / 4);

	write_start(w);
	w->header.rank = rank;
	w->header.local_rank = rank % 8;
	w->header.world_size = world;
	w->header.pid = 1000 + (uint32_t)rank;
	snprintf(w->header.host, sizeof(w->header.host), "node%03d", rank / 8);
	write_meta(w, MT_META_ARGV, argv, sizeof(argv) - 1);
	write_meta(w, MT_META_ENV "WORLD_SIZE", text,
		   (size_t)snprintf(text, sizeof(text), "%d", world));
	/* Another stage has other layers, another rank of it not. */
	write_training(w, events, 1000 - 100 * (size_t)stage, (uint64_t)stage, scale);
}
