/*
 * make_page_trace FILE KIND EVENTS: traces for the tests and measurements of `memtrace html`.
 *   steps    training steps that are alike, and in the middle one block of 3 GiB that is freed at
 *            once
 *   random   20,000 live blocks, of which any one is replaced next, and the same block of 3 GiB
 *   noise    as random, and each block has a size, a stack and a time that nothing predicts
 *   hostile  names that would end a script, turn text around, or are empty; stacks of 4,096 and of
 *            5,000 frames
 *   gap      records are lost in the middle; the keyframe behind names what is live
 */
#include "write_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE 20000
#define STEP 1000 /* blocks of a training step */
#define STACKS 64

static uint32_t stacks[STACKS];

static uint64_t random_number(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	return *seed ^= *seed << 17;
}

static void alloc(struct writer *w, size_t i)
{
	write_event(w, MT_TENSOR_ALLOC, 0x700000000000 + i * 0x200000, (int64_t)(1 + i % 37) * 512,
		    stacks[i % STACKS], 1);
}

static void release(struct writer *w, size_t i)
{
	write_event(w, MT_TENSOR_FREE, 0x700000000000 + i * 0x200000, -(int64_t)(1 + i % 37) * 512,
		    stacks[i % STACKS], 1);
}

static void spike(struct writer *w)
{
	write_event(w, MT_TENSOR_ALLOC, 0x600000000000, INT64_C(3) << 30, stacks[0], 1);
	write_event(w, MT_TENSOR_FREE, 0x600000000000, -(INT64_C(3) << 30), stacks[0], 1);
}

static void write_steps(struct writer *w, size_t events)
{
	for (size_t n = 0; n < events; n += 2 * STEP) {
		for (size_t i = 0; i < STEP; i++)
			alloc(w, i);
		if (n <= events / 2 && events / 2 < n + 2 * STEP)
			spike(w);
		for (size_t i = STEP; i-- > 0;)
			release(w, i);
	}
}

static void write_random(struct writer *w, size_t events)
{
	uint64_t seed = 20;

	for (size_t i = 0; i < LIVE; i++)
		alloc(w, i);
	for (size_t n = LIVE; n < events; n += 2) {
		size_t i = random_number(&seed) % LIVE;

		release(w, i);
		alloc(w, i);
		if (n / 2 == events / 4)
			spike(w);
	}
}

static void write_noise(struct writer *w, size_t events)
{
	static uint64_t drawn[LIVE];
	uint64_t seed = 20;

	for (size_t n = 0; n < events; n++) {
		uint64_t r = random_number(&seed);
		size_t i = n < LIVE ? n : r % LIVE;
		int64_t bytes;

		w->time += random_number(&seed) % 30000;
		if (drawn[i])
			write_event(w, MT_TENSOR_FREE, 0x700000000000 + i * 0x200000,
				    -(int64_t)(drawn[i] >> 40) * 512, stacks[0], 1),
				n++;
		bytes = (int64_t)(r >> 40) % 4096 + 1;
		drawn[i] = (uint64_t)bytes << 40;
		write_event(w, MT_TENSOR_ALLOC, 0x700000000000 + i * 0x200000, bytes * 512,
			    stacks[r >> 32 & (STACKS - 1)], 1);
	}
}

static const char *const hostile[] = {
	"</script><script>window.evil = 1</script>",
	"<img src=x onerror='window.evil = 2'>",
	"\"quoted\" 'and' `ticked` ${evil}",
	"line\xe2\x80\xa8separator \xe2\x80\xa9",
	"\xe2\x80\xaeright to left\xe2\x81\xa6",
	"&lt;b&gt; -->",
	"",
	"\xff\xfe not UTF-8",
};

#define MOST_FRAMES 5000

/* A stack whose frames are of one function; a frame's line is its number, innermost first. */
static uint32_t write_deep(struct writer *w, uint32_t module, const char *function,
			   const char *file, uint32_t frames)
{
	uint32_t deep[1 + MOST_FRAMES] = { module };

	for (uint32_t i = 0; i < frames; i++)
		deep[1 + i] = write_frame(w, function, file, i);
	return write_entry(w, MT_ENTRY_STACK, deep, (1 + frames) * sizeof(*deep));
}

static void write_hostile(struct writer *w, uint32_t module)
{
	for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		uint32_t frame = write_frame(w, hostile[i], hostile[i], 1);

		write_event(w, MT_TENSOR_ALLOC, 0x100000 * (1 + i), 1024,
			    write_stack(w, module, frame, 0, 0, 0), 1);
	}
	write_event(w, MT_TENSOR_ALLOC, 0x10000000, 4096,
		    write_deep(w, module, "recursive", "/job/deep.py", 4096), 1);
	write_event(w, MT_TENSOR_ALLOC, 0x20000000, 1536,
		    write_deep(w, module, "endless", "/job/endless.py", MOST_FRAMES), 1);
	write_meta(w, "argv", "python\0</script><script>window.evil = 3</script>", 48);
}

/* Blocks 0 to 9; of them 5 to 9 live on behind the gap, where block 20 is new. */
static void write_gap(struct writer *w)
{
	for (size_t i = 0; i < 10; i++)
		alloc(w, i);
	write_segment(w, 1000);
	for (size_t i = 5; i < 10; i++)
		write_keyframe(w, MT_TENSOR_ALLOC, 0x700000000000 + i * 0x200000,
			       (int64_t)(1 + i % 37) * 512, stacks[i % STACKS]);
	write_keyframe(w, MT_TENSOR_ALLOC, 0x700000000000 + 20 * 0x200000, 21 * 512, stacks[20]);
	release(w, 5);
	alloc(w, 30);
}

int main(int argc, char **argv)
{
	struct writer w;
	uint32_t module;

	if (argc != 4) {
		fputs("usage: make_page_trace FILE steps|random|noise|hostile|gap EVENTS\n",
		      stderr);
		return 2;
	}
	write_start(&w);
	module = write_module(&w, "/p/site-packages/torch/lib/libc10_cuda.so");
	for (uint32_t i = 0; i < STACKS; i++)
		stacks[i] = write_stack(&w, module,
					write_frame(&w, "forward", "/job/model.py", 100 + i),
					write_frame(&w, "main", "/job/train.py", 10), 0, 0);
	if (!strcmp(argv[2], "random"))
		write_random(&w, strtoull(argv[3], NULL, 10));
	else if (!strcmp(argv[2], "noise"))
		write_noise(&w, strtoull(argv[3], NULL, 10));
	else if (!strcmp(argv[2], "hostile"))
		write_hostile(&w, module);
	else if (!strcmp(argv[2], "gap"))
		write_gap(&w);
	else
		write_steps(&w, strtoull(argv[3], NULL, 10));
	if (write_save(&w, argv[1]) < 0) {
		perror(argv[1]);
		return 1;
	}
	write_release(&w);
	return 0;
}
