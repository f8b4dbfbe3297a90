/* Live blocks of a stack table made by hand: a job's code at line 10 makes a batch, and calls the
 * model at line 11 or 12; the model has two lines. */
#ifndef MEMTRACE_TEST_SCENE_H
#define MEMTRACE_TEST_SCENE_H

#include "fixture.h"

#include "attribution/attribution.h"
#include "util/util.h"

#define MIB (INT64_C(1) << 20)
#define BLOCKS 64

/* Frames and stacks by number; 0 is the unknown entry. */
enum { FRAME_BATCH = 1, FRAME_CALL, FRAME_CALL_AGAIN, FRAME_FIRST, FRAME_SECOND, FRAMES };
enum { BATCH = 1, FIRST, SECOND, FIRST_AGAIN, SECOND_AGAIN, OPTIMIZER, STACKS };

struct scene {
	struct mt_frame frames[FRAMES];
	struct stack stacks[STACKS];
	struct stack_info info[STACKS];
	unsigned char kinds[FRAMES];
	struct tables tables;
	struct span spans[8];
	struct spans all;
	struct lifetime list[BLOCKS];
	struct lifetimes live;
};

static const uint32_t stack_frames[STACKS][2] = {
	[BATCH] = { FRAME_BATCH },
	[FIRST] = { FRAME_FIRST, FRAME_CALL },
	[SECOND] = { FRAME_SECOND, FRAME_CALL },
	[FIRST_AGAIN] = { FRAME_FIRST, FRAME_CALL_AGAIN },
	[SECOND_AGAIN] = { FRAME_SECOND, FRAME_CALL_AGAIN },
	[OPTIMIZER] = { FRAME_BATCH },
};

static inline void make(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	for (uint32_t i = 1; i < FRAMES; i++)
		s->frames[i] =
			(struct mt_frame){ .function = i < FRAME_FIRST ? 1 : 2, .line = 9 + i };
	s->kinds[FRAME_FIRST] = s->kinds[FRAME_SECOND] = FRAME_FORWARD;
	for (uint32_t i = 1; i < STACKS; i++) {
		int is_model = i >= FIRST && i <= SECOND_AGAIN;

		s->stacks[i] = (struct stack){ .frame_count = is_model ? 2 : 1,
					       .frames = stack_frames[i] };
		s->info[i].flags = STACK_FRAMES | (is_model ? STACK_MODULE : 0) |
				   (i == OPTIMIZER ? STACK_OPTIMIZER : 0);
		s->info[i].model_hash = is_model ? stack_frames[i][0] : 0;
		s->info[i].caller_hash = stack_frames[i][is_model];
	}
	s->tables.frames = s->frames;
	s->tables.frame_count = FRAMES;
	s->tables.stacks = s->stacks;
	s->tables.stack_count = STACKS;
	s->tables.stack_info = s->info;
	s->tables.frame_kinds = s->kinds;
	s->all.list = s->spans;
	s->live.list = s->list;
}

static inline void span(struct scene *s, uint64_t start_ns, enum phase phase, uint32_t step)
{
	s->spans[s->all.count++] =
		(struct span){ .start_ns = start_ns, .phase = (uint8_t)phase, .step = step };
}

static inline void block(struct scene *s, uint64_t time_ns, uint32_t stack, bytes size,
			 enum category category)
{
	s->list[s->live.count++] = (struct lifetime){
		.alloc = { .time_ns = time_ns, .stack = stack, .bytes = size },
		.category = (uint8_t)category,
	};
}

/* A model of three parameters with Adam's states, in a forward pass. */
static inline void training(struct scene *s)
{
	make(s);
	span(s, 0, PHASE_SETUP, 1);
	for (uint64_t i = 0; i < 3; i++)
		block(s, 1 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_PARAMETERS);
	for (uint64_t i = 0; i < 6; i++)
		block(s, 10 + i, OPTIMIZER, (bytes)(i / 2 + 1) * MIB, CATEGORY_OPTIMIZER_STATES);
	span(s, 20, PHASE_FORWARD, 2);
}

#endif
