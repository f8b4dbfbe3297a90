/* Forward passes and duplicates among live blocks, of a stack table made by hand: a job's code at
 * line 10 makes a batch, and calls the model at line 11 or 12; the model has two lines. */
#include "fixture.h"

#include "attribution/attribution.h"
#include "attribution/duplicates.h"
#include "attribution/passes.h"
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

static void make(struct scene *s)
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

static void span(struct scene *s, uint64_t start_ns, enum phase phase, uint32_t step)
{
	s->spans[s->all.count++] =
		(struct span){ .start_ns = start_ns, .phase = (uint8_t)phase, .step = step };
}

static void block(struct scene *s, uint64_t time_ns, uint32_t stack, bytes size,
		  enum category category)
{
	s->list[s->live.count++] = (struct lifetime){
		.alloc = { .time_ns = time_ns, .stack = stack, .bytes = size },
		.category = (uint8_t)category,
	};
}

/* A batch, and a forward pass of two blocks of 10 and 20 MiB. */
static void forward(struct scene *s, uint64_t time_ns, int again)
{
	block(s, time_ns, BATCH, MIB, CATEGORY_INPUTS);
	block(s, time_ns + 1, again ? FIRST_AGAIN : FIRST, 10 * MIB, CATEGORY_ACTIVATIONS);
	block(s, time_ns + 2, again ? SECOND_AGAIN : SECOND, 20 * MIB, CATEGORY_ACTIVATIONS);
}

static struct live_passes passes(const struct scene *s, uint32_t request, uint64_t at_ns)
{
	return passes_live(&s->live, &s->all, &s->tables, request, at_ns);
}

static void one_pass_is_no_finding(void **state)
{
	struct scene s;
	struct live_passes p;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_FORWARD, 1);
	forward(&s, 100, 0);
	p = passes(&s, SECOND, 110);
	assert_int_equal(p.count, 1);
	assert_int_equal(p.newest, 30 * MIB);
	assert_int_equal(p.waiting + p.kept + p.again, 0);
}

/* Three forward passes, and the fourth fails: the first three wait for a backward pass. */
static void losses_that_are_summed_wait(void **state)
{
	struct scene s;
	struct live_passes p;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_FORWARD, 1);
	for (uint64_t i = 1; i <= 3; i++)
		forward(&s, 100 * i, 0);
	block(&s, 400, BATCH, MIB, CATEGORY_INPUTS);
	p = passes(&s, FIRST, 401);
	assert_int_equal(p.waiting_count, 3);
	assert_int_equal(p.waiting, 90 * MIB);
	assert_int_equal(p.kept, 0);
}

/* The graph of the first step is alive in the second one. */
static void a_graph_that_outlives_its_backward_pass_is_kept(void **state)
{
	struct scene s;
	struct live_passes p;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_FORWARD, 1);
	forward(&s, 100, 0);
	span(&s, 200, PHASE_BACKWARD, 1);
	span(&s, 300, PHASE_FORWARD, 2);
	forward(&s, 400, 0);
	p = passes(&s, MT_NO_STACK, 500);
	assert_int_equal(p.kept_count, 1);
	assert_int_equal(p.kept, 30 * MIB);
	assert_int_equal(p.waiting, 0);
	assert_int_equal(p.kept_stack, SECOND);
	/* In the backward pass of the second step, its own activations are not kept. */
	span(&s, 600, PHASE_BACKWARD, 2);
	p = passes(&s, MT_NO_STACK, 700);
	assert_int_equal(p.kept, 30 * MIB);
	assert_int_equal(p.waiting, 0);
}

static void another_line_calls_the_model_again(void **state)
{
	struct scene s;
	struct live_passes p;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_FORWARD, 1);
	forward(&s, 100, 0);
	p = passes(&s, FIRST_AGAIN, 200);
	assert_int_equal(p.again, 30 * MIB);
	assert_int_equal(p.again_stack, FIRST_AGAIN);
	assert_int_equal(p.waiting + p.kept, 0);
}

/* A model of three parameters with Adam's states, in a forward pass. */
static void training(struct scene *s)
{
	make(s);
	span(s, 0, PHASE_SETUP, 1);
	for (uint64_t i = 0; i < 3; i++)
		block(s, 1 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_PARAMETERS);
	for (uint64_t i = 0; i < 6; i++)
		block(s, 10 + i, OPTIMIZER, (bytes)(i / 2 + 1) * MIB, CATEGORY_OPTIMIZER_STATES);
	span(s, 20, PHASE_FORWARD, 2);
}

static void one_model_has_no_duplicates(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	training(&s);
	d = duplicates_live(&s.live, &s.all, &s.tables, 30);
	assert_int_equal(d.copies + d.states + d.unstepped, 0);
}

static void a_second_model_is_found(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	training(&s);
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 21 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_OTHER);
	d = duplicates_live(&s.live, &s.all, &s.tables, 30);
	assert_int_equal(d.copies, 6 * MIB);
	assert_int_equal(d.copies_count, 3);
	assert_int_equal(d.states, 0);
}

static void a_second_optimizer_is_found(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	training(&s);
	for (uint64_t i = 0; i < 6; i++)
		block(&s, 16, OPTIMIZER, (bytes)(i / 2 + 1) * MIB, CATEGORY_OPTIMIZER_STATES);
	d = duplicates_live(&s.live, &s.all, &s.tables, 30);
	assert_int_equal(d.states, 12 * MIB);
}

static void a_gradient_without_states_is_not_stepped(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	training(&s);
	block(&s, 21, MT_NO_STACK, MIB, CATEGORY_GRADIENTS);
	block(&s, 21, MT_NO_STACK, 2 * MIB, CATEGORY_GRADIENTS);
	block(&s, 22, MT_NO_STACK, 64 * MIB, CATEGORY_GRADIENTS);
	d = duplicates_live(&s.live, &s.all, &s.tables, 30);
	assert_int_equal(d.unstepped, 64 * MIB);
}

static void data_that_is_made_at_once_is_a_set(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	training(&s);
	for (uint64_t i = 0; i < 5; i++)
		block(&s, 4 + i, BATCH, 8 * MIB, CATEGORY_OTHER);
	d = duplicates_live(&s.live, &s.all, &s.tables, 30);
	assert_int_equal(d.data, 40 * MIB);
	assert_int_equal(d.data_blocks, 5);
	assert_int_equal(d.copies, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_pass_is_no_finding),
		cmocka_unit_test(losses_that_are_summed_wait),
		cmocka_unit_test(a_graph_that_outlives_its_backward_pass_is_kept),
		cmocka_unit_test(another_line_calls_the_model_again),
		cmocka_unit_test(one_model_has_no_duplicates),
		cmocka_unit_test(a_second_model_is_found),
		cmocka_unit_test(a_second_optimizer_is_found),
		cmocka_unit_test(a_gradient_without_states_is_not_stepped),
		cmocka_unit_test(data_that_is_made_at_once_is_a_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
