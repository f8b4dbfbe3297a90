/*
 * The reader, the replay, causes, ranks, the diff and all renderers over hostile files.
 *
 * Its seeds are in tests/unit/fuzz/corpus/trace; test_fuzz_trace.c runs them, and mutations of
 * traces that are made here, without libFuzzer.
 */
#include "infer/alloc_profile.h"
#include "diagnose/diagnose.h"
#include "diff/diff.h"
#include "config/config.h"
#include "infer/infer_layers.h"
#include "infer/infer_tokens.h"
#include "report/rank_groups.h"
#include "json/diff_json.h"
#include "render/diff_text.h"
#include "json/report_json.h"
#include "render/report_text.h"
#include "replay/replay.h"
#include "report/report_build.h"
#include "session/trace_config.h"
#include "trace/trace.h"
#include "write_trace.h"
#include "readers/derive.h"
#include "session/trace_config.h"

#include <stdlib.h>
#include <string.h>

#include "inputs.h"

/* What match infers from, and the hypotheses of the layers that it finds. */
static void take(const struct trace *t)
{
	struct layer_hypothesis hypotheses[MAX_HYPOTHESES];
	struct token_count tokens[MAX_TOKEN_COUNTS];
	const int64_t world = t->header.world_size > 0 ? t->header.world_size : 1;
	const struct job_assumptions job = { .shards = world, .world = world, .experts = 1 };
	struct alloc_profile c;

	alloc_profile_take(&c, t);
	for (enum parameter_source source = 0; source < SOURCES; source++) {
		struct layers l;

		layers_find(&l, &c, source);
		if (l.count && layers_interpret(&l, &c, &job, hypotheses))
			tokens_find(&c, &hypotheses[0], tokens);
	}
	alloc_profile_release(&c);
}

/* As session_load() does with a file. */
static void load(struct session *l, const uint8_t *data, size_t size)
{
	const struct replay_options options = { .keep_live = 1,
						.phase = size / 8 % 2 ? "step" : NULL };
	struct err e = { 0 };
	struct trace t;

	if (!trace_open_memory(&t, data, size, &e)) {
		report_add(&l->report, &t, NULL, &options);
		take(&t);
		if (!l->has_config)
			l->has_config = trace_config_read(&l->config, &t, &e) == 0 &&
					config_derive(&l->config, &e) == 0;
	}
	trace_release(&t);
}

static void show(struct session *l, const struct style *style, struct buf *out)
{
	struct diagnosis diagnosis;

	report_sort(&l->report);
	ranks_relate(&l->report, l->has_config ? &l->config : NULL);
	diagnose(&diagnosis, &l->report);
	l->report.diagnosis = &diagnosis;
	report_text(&l->report, style, out);
	report_json(&l->report, out);
	l->report.diagnosis = NULL;
	diagnosis_release(&diagnosis);
}

/* The file as a job of one rank, and with a piece of itself as one of two; and what changed between
 * them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct style style = { .width = 60, .top = 5, .color = 1 };
	struct session job[SIDES] = { 0 };
	struct diff c = { 0 };
	struct buf out = { 0 };
	struct err e = { 0 };

	for (int i = 0; i < SIDES; i++) {
		config_init(&job[i].config);
		load(&job[i], data, size);
		if (i == SIDE_B)
			load(&job[i], data, size - size / 4);
		show(&job[i], &style, &out);
		c.side[i] = (struct diff_side){ .runs = { &job[i] }, .count = 1 };
	}
	if (job[SIDE_A].report.count && job[SIDE_B].report.count && !diff_make(&c, NO_RANK, &e)) {
		diff_text(&c, "", NULL, &style, &out);
		diff_json(&c, 1, 0, &out);
	}
	diff_release(&c);
	for (int i = 0; i < SIDES; i++)
		session_release(&job[i]);
	buf_release(&out);
	return 0;
}

/* A small trace with something of everything. */
static unsigned char *make_trace(size_t *size)
{
	static const unsigned char kinds[] = {
		MT_TENSOR_ALLOC, MT_TENSOR_ALLOC,  MT_TENSOR_FREE,    MT_RESERVED,
		MT_DEVICE_ALLOC, MT_DEVICE_FREE,   MT_DEVICE_FAIL,    MT_POOL_ALLOC,
		MT_POOL_FREE,    MT_POOL_RESERVED, MT_HOST_ALLOC,     MT_DEVICE_SAMPLE,
		MT_TENSOR_OOM,   MT_MANAGED_ALLOC, MT_PHYSICAL_ALLOC, MT_PHYSICAL_FREE,
		MT_MAP,          MT_UNMAP,         MT_ARRAY_ALLOC,    MT_HOST_REGISTER,
		MT_ALIAS_OPEN,   MT_ALIAS_CLOSE,   MT_GRAPH_RESERVED, MT_COMM_INIT,
		MT_COMM_INIT,    MT_COMM_DESTROY,  MT_DEVICE_SAMPLE,  MT_PHASE_BEGIN,
		MT_PHASE_BEGIN,  MT_PHASE_END,     MT_STEP,           MT_MARK
	};
	unsigned char *file;
	struct writer w;
	uint16_t threads[2];
	uint32_t stacks[4];

	write_start(&w);
	threads[0] = write_thread(&w, 100, "python");
	threads[1] = write_thread(&w, 101, "pt_autograd_0");
	write_meta(&w, "argv", "python\0x.py", 11);
	write_meta(&w, "version:torch", "2.0", 3);
	write_meta(&w, "note:x", "a note", 6);
	write_meta(&w, "comm:7", "size=8 rank=3 parent=-", 22);
	write_meta(&w, "comm:9", "size=99999999999999999999 rank=x parent=7", 41);
	write_module(&w, "/lib/libc10_cuda.so");
	write_module(&w, "/lib/libother.so");
	stacks[0] = 0;
	stacks[1] = write_stack(&w, 1, 0, 0, 0, 0);
	stacks[2] = write_stack(&w, 1, write_frame(&w, "f", "/m.py", 1),
				write_frame(&w, "step", "/torch/optim/a.py", 2), 0, 0);
	stacks[3] = write_stack(&w, 2, 0, 0, 0, 0);
	for (int s = 0; s < 3; s++) {
		size_t first = random_number(sizeof(kinds)),
		       choice = random_number(2) ? sizeof(kinds) : 3;

		if (s)
			write_segment(&w, random_number(3));
		write_keyframe(&w, MT_TENSOR_ALLOC, 0x1000, 512, stacks[2]);
		write_keyframe(&w, MT_COMM_INIT, 0x2000, 512, stacks[3]);
		write_keyframe(&w, MT_PHASE_BEGIN, 0x3000, 0, stacks[2]);
		write_keyframe(&w, MT_STEP, 0, 7, 0);
		for (int i = 0; i < 40; i++) {
			int kind = kinds[(first + random_number(choice)) % sizeof(kinds)];
			int64_t n = (int64_t)random_number(1 << 20);

			if (kind == MT_TENSOR_FREE || kind == MT_DEVICE_FREE ||
			    kind == MT_POOL_FREE || kind == MT_PHYSICAL_FREE || kind == MT_UNMAP ||
			    kind == MT_ALIAS_CLOSE || kind == MT_COMM_DESTROY)
				n = -n;
			write_event_on(&w, (int)random_number(2), kind, random_number(20) * 0x1000,
				       n, stacks[random_number(4)], threads[random_number(2)]);
		}
	}
	file = write_finish(&w, size);
	write_release(&w);
	return file;
}

static uint64_t interesting(void)
{
	static const uint64_t numbers[] = { 0,
					    1,
					    7,
					    8,
					    31,
					    32,
					    255,
					    65535,
					    65536,
					    MT_HEADER_BYTES,
					    INT32_MAX,
					    UINT32_MAX,
					    INT64_MAX,
					    UINT64_MAX,
					    UINT64_MAX / 32,
					    (uint64_t)1 << 50,
					    (uint64_t)1 << 60 };

	return numbers[random_number(sizeof(numbers) / sizeof(*numbers))] +
	       (random_number(2) ? random_number(64) - 32 : 0);
}

static void mutate(unsigned char *file, size_t *size)
{
	/* Most of the header is empty; what follows it, and its used parts, are where things break.
	 */
	static const size_t used_header[] = { 0,
					      16,
					      64,
					      offsetof(struct mt_header, segments),
					      offsetof(struct mt_header, table),
					      offsetof(struct mt_header, segment),
					      offsetof(struct mt_header, device) };
	size_t changes = 1 + random_number(6);

	for (size_t i = 0; i < changes; i++) {
		size_t at = random_number(3)
				    ? MT_HEADER_BYTES + random_number(*size - MT_HEADER_BYTES)
				    : used_header[random_number(sizeof(used_header) /
								sizeof(*used_header))] +
					      random_number(192);
		uint64_t value = interesting();
		size_t width = (size_t)1 << random_number(4);

		at &= ~(width - 1);
		if (random_number(3) == 0)
			value = file[at] ^ ((uint64_t)1 << random_number(8));
		if (at + width <= *size)
			memcpy(file + at, &value, width);
	}
	if (!random_number(8))
		*size = MT_HEADER_BYTES + random_number(*size - MT_HEADER_BYTES);
}

#ifdef FUZZING_WITH_LIBFUZZER

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

/* From nothing no mutation finds a header that is larger than most inputs: traces are made here. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
	random_state = (uint64_t)seed * 2 + 1;
	if (size <= MT_HEADER_BYTES || !random_number(50)) {
		unsigned char *file = make_trace(&size);

		size = size < most ? size : most;
		memcpy(data, file, size);
		free(file);
	}
	if (size <= MT_HEADER_BYTES || random_number(2))
		return LLVMFuzzerMutate(data, size, most);
	mutate(data, &size);
	return size;
}

#endif
