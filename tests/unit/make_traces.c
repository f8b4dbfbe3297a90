/* make_traces DIR: the jobs over which tests/cli/same_json.py holds a build's JSON. Each is a
 * folder of traces in DIR; the same bytes each time. */
#include "write_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MIB (INT64_C(1) << 20)
#define TORCH "/p/site-packages/torch/"

static const char *directory;

static void save(struct writer *w, const char *job, int rank)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, job);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/%s/node-r%d.mtr", directory, job, rank);
	if (write_save(w, path) < 0) {
		perror(path);
		exit(1);
	}
	write_release(w);
}

/* Forward, backward and optimizer without end, of random blocks. */
static void training(const char *job, int64_t scale)
{
	struct writer w;

	write_start(&w);
	write_meta(&w, "argv", "python\0train.py", 15);
	write_training(&w, 30000, 800, 1, scale);
	save(&w, job, 0);
}

static void megatron(const char *job, int64_t scale_of_rank_5)
{
	for (int rank = 0; rank < 8; rank++) {
		struct writer w;

		write_megatron_rank(&w, rank, 8, 7000, rank == 5 ? scale_of_rank_5 : 1);
		save(&w, job, rank);
	}
}

struct stacks {
	uint32_t setup, model, input, backward, states, zero_grad, buckets, nccl, cublas;
};

static void write_stacks(struct writer *w, struct stacks *s)
{
	uint32_t c10 = write_module(w, TORCH "lib/libc10_cuda.so"),
		 nccl = write_module(w, "/p/site-packages/nvidia/nccl/lib/libnccl.so.2"),
		 cublas = write_module(w, "/p/site-packages/nvidia/cublas/lib/libcublasLt.so.13"),
		 line = write_frame(w, "main", "/job/train.py", 10),
		 call = write_frame(w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 forward = write_frame(w, "Net.forward", "/job/net.py", 2),
		 apply = write_frame(w, "Module._apply", TORCH "nn/modules/module.py", 900),
		 step = write_frame(w, "AdamW.step", TORCH "optim/adamw.py", 3),
		 init = write_frame(w, "AdamW._init_group", TORCH "optim/adamw.py", 4),
		 zero = write_frame(w, "Optimizer.zero_grad", TORCH "optim/optimizer.py", 6),
		 ddp = write_frame(w, "DistributedDataParallel._ddp_init_helper",
				   TORCH "nn/parallel/distributed.py", 11);

	s->setup = write_stack(w, c10, apply, line, 0, 0);
	s->model = write_stack(w, c10, forward, call, line, 0);
	s->input = write_stack(w, c10, line, 0, 0, 0);
	s->backward = write_stack(w, c10, 0, 0, 0, 0);
	s->states = write_stack(w, c10, init, step, line, 0);
	s->zero_grad = write_stack(w, c10, zero, line, 0, 0);
	s->buckets = write_stack(w, c10, ddp, line, 0, 0);
	s->nccl = write_stack(w, nccl, line, 0, 0, 0);
	s->cublas = write_stack(w, cublas, line, 0, 0, 0);
}

/* Eight layers of 24 MiB under DDP; each step keeps `kept` MiB more. It dies if the device is full.
 */
static void steps(const char *job, int rank, int count, int64_t kept)
{
	struct writer w;
	struct stacks s;
	uint16_t python, autograd;
	uint64_t address = UINT64_C(0x7f0000000000);
	int64_t used = 600;

	write_start(&w);
	w.header.rank = rank;
	w.header.world_size = 2;
	w.header.pid = 100 + (uint32_t)rank;
	write_meta(&w, "argv", "python\0/job/train.py", 20);
	write_meta(&w, "gpu:0", "NVIDIA H100 80GB HBM3", 21);
	write_meta(&w, "version:torch", "2.15", 4);
	python = write_thread(&w, 100, "python");
	autograd = write_thread(&w, 101, "pt_autograd_0");
	write_stacks(&w, &s);
	write_event(&w, MT_DEVICE_SAMPLE, 3400 * MIB, 4000 * MIB, 0, python);
	write_event(&w, MT_DEVICE_ALLOC, address += 1 << 30, 64 * MIB, s.nccl, python);
	write_event(&w, MT_DEVICE_ALLOC, address += 1 << 30, 32 * MIB, s.cublas, python);
	write_event(&w, MT_DEVICE_ALLOC, address += UINT64_C(4) << 30, 2800 * MIB, s.model, python);
	write_event(&w, MT_RESERVED, 0, 2800 * MIB, 0, python);
	for (int layer = 0; layer < 8; layer++)
		write_event(&w, MT_TENSOR_ALLOC, address += 1 << 30, 24 * MIB, s.setup, python);
	write_event(&w, MT_TENSOR_ALLOC, address += 1 << 30, 192 * MIB, s.buckets, python);
	for (int step = 0; step < count; step++) {
		uint64_t made[8];

		write_event(&w, MT_TENSOR_ALLOC, address += 1 << 30, (4 + kept) * MIB, s.input,
			    python);
		for (int layer = 0; layer < 8; layer++)
			write_event(&w, MT_TENSOR_ALLOC, made[layer] = address += 1 << 30, 40 * MIB,
				    s.model, python);
		for (int layer = 7; layer >= 0; layer--) {
			if (!step)
				write_event(&w, MT_TENSOR_ALLOC, address += 1 << 30, 24 * MIB,
					    s.backward, autograd);
			write_event(&w, MT_TENSOR_FREE, made[layer], -40 * MIB, s.backward,
				    autograd);
		}
		for (int layer = 0; layer < 16 && !step; layer++)
			write_event(&w, MT_TENSOR_ALLOC, address += 1 << 30, 24 * MIB, s.states,
				    python);
		used += kept;
		write_event(&w, MT_DEVICE_SAMPLE, (4000 - used) * MIB, 4000 * MIB, 0, python);
	}
	if (kept) {
		write_event(&w, MT_TENSOR_OOM, 4096 * MIB, 40 * MIB, s.model, python);
		w.header.exit_status = 1;
	}
	save(&w, job, rank);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: make_traces DIR\n", stderr);
		return 2;
	}
	directory = argv[1];
	training("training", 1);
	training("training-twice", 2);
	megatron("megatron", 1);
	megatron("megatron-unlike", 2);
	for (int rank = 0; rank < 2; rank++) {
		steps("steps", rank, 6, 0);
		steps("steps-out-of-memory", rank, 6, 16 + 8 * rank);
	}
	return 0;
}
