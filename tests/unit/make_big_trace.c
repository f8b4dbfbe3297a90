/* make_big_trace FILE EVENTS LIVE: a training-like trace of any size, to measure the analyzer with.
 */
#include "write_trace.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

struct block {
	uint64_t address;
	int64_t bytes;
};

int main(int argc, char **argv)
{
	size_t events, most, live = 0;
	uint32_t places[200];
	uint16_t threads[2];
	struct block *blocks;
	struct writer w;

	if (argc != 4) {
		fputs("usage: make_big_trace FILE EVENTS LIVE\n", stderr);
		return 2;
	}
	events = strtoull(argv[2], NULL, 10);
	most = strtoull(argv[3], NULL, 10);
	blocks = calloc(most, sizeof(*blocks));
	if (!blocks)
		return 1;
	write_start(&w);
	write_meta(&w, "argv", "python\0train.py", 15);
	threads[0] = write_thread(&w, 100, "python");
	threads[1] = write_thread(&w, 101, "pt_autograd_0");
	write_module(&w, "/usr/lib/python3/site-packages/torch/lib/libc10_cuda.so");
	for (uint32_t i = 0; i < 200; i++) {
		char name[32];
		uint32_t inner, outer;

		snprintf(name, sizeof(name), "Layer%u.forward", i);
		inner = write_frame(&w, "linear", "/x/site-packages/torch/nn/functional.py", i);
		outer = write_frame(
			&w, name,
			i % 10 ? "/home/u/model.py" : "/x/site-packages/torch/optim/adamw.py", i);
		places[i] = write_place(&w, 1, inner, outer, 0, 0);
	}
	for (size_t i = 0; i < events; i++) {
		size_t phase = i / 1000 % 3;
		uint16_t thread = threads[phase == 1];
		int is_alloc = !live || (live < most &&
					 next_random() % 1000 < (live < most / 2 ? 600 : 500));

		if (is_alloc) {
			struct block b = { 0x7f0000000000u + (i << 21),
					   (int64_t)(1 + next_random() % 1000) * 512 };

			blocks[live++] = b;
			write_event(&w, MT_TENSOR_ALLOC, b.address, b.bytes,
				    places[(phase == 2 ? 0 : 1 + next_random() % 9) +
					   next_random() % 20 * 10],
				    thread);
		} else {
			size_t k = next_random() % live;

			write_event(&w, MT_TENSOR_FREE, blocks[k].address, -blocks[k].bytes, 0,
				    thread);
			blocks[k] = blocks[--live];
		}
	}
	if (write_save(&w, argv[1]) < 0) {
		perror(argv[1]);
		return 1;
	}
	write_release(&w);
	free(blocks);
	return 0;
}
