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

/* No code makes a batch in between. Then a loss shows where a forward pass ended; without one, the
 * model may call its first layer again. */
static void a_pass_ends_with_its_loss(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	s.kinds[FRAME_CALL] = FRAME_MODULE_CALL;
	span(&s, 0, PHASE_FORWARD, 1);
	for (uint64_t i = 1; i <= 2; i++) {
		block(&s, 100 * i, FIRST, 10 * MIB, CATEGORY_ACTIVATIONS);
		block(&s, 100 * i + 1, SECOND, 20 * MIB, CATEGORY_ACTIVATIONS);
		block(&s, 100 * i + 2, SECOND, 20 * MIB, CATEGORY_ACTIVATIONS);
	}
	assert_int_equal(passes(&s, FIRST, 401).waiting, 0);
	s.info[SECOND].flags |= STACK_LOSS;
	assert_int_equal(passes(&s, FIRST, 401).waiting, 100 * MIB);
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
	assert_int_equal(p.first_stack, FIRST);
	assert_int_equal(p.waiting + p.kept, 0);
}

/* What the first step's model made, and what the job's own code made in both steps, are left. */
static void blocks_of_an_earlier_step_are_left(void **state)
{
	struct scene s;
	struct live_passes p;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	block(&s, 50, BATCH, 100 * MIB, CATEGORY_INPUTS);
	span(&s, 90, PHASE_FORWARD, 1);
	forward(&s, 100, 0);
	span(&s, 200, PHASE_FORWARD, 2);
	p = passes(&s, MT_NO_STACK, 210);
	assert_int_equal(p.left.bytes, 30 * MIB);
	forward(&s, 300, 0);
	p = passes(&s, MT_NO_STACK, 310);
	assert_int_equal(p.left.bytes, 31 * MIB);
	assert_int_equal(p.left.blocks, 3);
	assert_int_equal(p.left.steps, 2);
	assert_int_equal(p.left.stack, SECOND);
	assert_int_equal(p.left.now, MIB);
}

static struct duplicates duplicates_with(const struct scene *s, uint32_t stack, bytes requested,
					 uint64_t at_ns)
{
	struct failed_request request = { stack, requested };

	return duplicates_live(&s->live, &s->all, &s->tables, &request, at_ns);
}

static struct duplicates duplicates(const struct scene *s, uint64_t at_ns)
{
	return duplicates_with(s, MT_NO_STACK, 0, at_ns);
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
	d = duplicates(&s, 30);
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
	d = duplicates(&s, 30);
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
	d = duplicates(&s, 30);
	assert_int_equal(d.states, 12 * MIB);
	/* It is about to make the last two, of the largest parameter. */
	s.live.count -= 2;
	assert_int_equal(duplicates(&s, 30).states, 6 * MIB);
	/* Adam with amsgrad has three of each. */
	training(&s);
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 16, OPTIMIZER, (bytes)(i + 1) * MIB, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(duplicates(&s, 30).states, 0);
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
	d = duplicates(&s, 30);
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
	d = duplicates(&s, 30);
	assert_int_equal(d.data, 40 * MIB);
	assert_int_equal(d.data_blocks, 5);
	assert_int_equal(d.copies, 0);
}

static void activity(struct scene *s, uint64_t start_ns, enum phase phase, enum activity a)
{
	span(s, start_ns, phase, 1);
	s->spans[s->all.count - 1].activity = (uint8_t)a;
}

/* Between the backward pass and the optimizer's step, the job's own code makes blocks of the
 * parameters' sizes; the last of them fails. */
static void copies_of_gradients_are_found(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	make(&s);
	activity(&s, 0, PHASE_SETUP, ACTIVITY_MAIN);
	activity(&s, 10, PHASE_BACKWARD, ACTIVITY_BACKWARD);
	activity(&s, 20, PHASE_OPTIMIZER, ACTIVITY_MAIN);
	for (uint64_t i = 0; i < 3; i++) {
		block(&s, 1 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_PARAMETERS);
		block(&s, 11 + i, MT_NO_STACK, (bytes)(i + 1) * MIB, CATEGORY_GRADIENTS);
	}
	block(&s, 21, BATCH, MIB, CATEGORY_TEMPORARIES);
	block(&s, 22, BATCH, 2 * MIB, CATEGORY_TEMPORARIES);
	d = duplicates_with(&s, BATCH, 3 * MIB, 30);
	assert_int_equal(d.gradient_copies, 6 * MIB);
	assert_false(d.copies_stay);
	/* All of them in one block. */
	d = duplicates_with(&s, BATCH, 6 * MIB, 30);
	assert_int_equal(d.gradient_copies, 9 * MIB);
	d = duplicates_with(&s, BATCH, 40 * MIB, 30);
	assert_int_equal(d.gradient_copies, 3 * MIB);
}

/* An optimizer that allocates nothing, in the fourth step: what this step's own code makes behind
 * the backward pass counts, and what the one before made does not. */
static void copies_of_gradients_need_no_optimizers_blocks(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	for (uint32_t step = 3; step <= 4; step++) {
		span(&s, 100 * step, PHASE_BACKWARD, step);
		s.spans[s.all.count - 1].activity = ACTIVITY_BACKWARD;
		span(&s, 100 * step + 20, PHASE_OPTIMIZER, step);
		s.spans[s.all.count - 1].activity = ACTIVITY_MAIN;
		block(&s, 100 * step + 21, BATCH, 2 * MIB, CATEGORY_TEMPORARIES);
	}
	block(&s, 1, BATCH, 2 * MIB, CATEGORY_PARAMETERS);
	block(&s, 401, MT_NO_STACK, 2 * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(duplicates(&s, 430).gradient_copies, 2 * MIB);
}

/* Behind the optimizer's step, the job's own code asks for data; or for a copy of a parameter. */
static void data_that_is_asked_for_is_no_copy(void **state)
{
	struct scene s;

	(void)state;
	training(&s);
	activity(&s, 25, PHASE_OPTIMIZER, ACTIVITY_OPTIMIZER);
	assert_true(duplicates_with(&s, BATCH, 40 * MIB, 30).request_is_own);
	assert_false(duplicates_with(&s, BATCH, 3 * MIB, 30).request_is_own);
	assert_false(duplicates_with(&s, FIRST, 40 * MIB, 30).request_is_own);
	activity(&s, 26, PHASE_FORWARD, ACTIVITY_MODEL);
	assert_false(duplicates_with(&s, BATCH, 40 * MIB, 30).request_is_own);
}

/* An embedding, four layers of two sizes, and a head like the embedding: not two models. With the
 * same once more, in another order behind the embedding, it is two. */
static void two_models_of_the_same_sizes_are_twins(void **state)
{
	static const bytes order[][10] = { { 9, 1, 2, 1, 2, 1, 2, 1, 2, 9 },
					   { 9, 9, 1, 1, 1, 1, 2, 2, 2, 2 } };
	struct scene s;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	for (uint64_t k = 0; k < 2; k++) {
		struct duplicates d;

		for (uint64_t i = 0; i < 10; i++)
			block(&s, 1 + 10 * k + i, BATCH, order[k][i] * MIB, CATEGORY_PARAMETERS);
		d = duplicates(&s, 30);
		assert_int_equal(d.twin, k ? 30 * MIB : 0);
	}
}

/* Two of three parameters are copied before the model's first call, which no module does; and what
 * the model has in these sizes itself is no copy. */
static void a_copy_of_a_part_is_found(void **state)
{
	struct scene s;

	(void)state;
	training(&s);
	for (uint64_t i = 0; i < 6; i++)
		block(&s, 4 + i, BATCH, (bytes)(i + 4) * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 30).copies, 0);
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 16 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_INPUTS);
	assert_int_equal(duplicates(&s, 30).copies, 6 * MIB);
	s.spans[0].activity = ACTIVITY_MODEL;
	assert_int_equal(duplicates(&s, 30).copies, 0);
}

/* One deep copy of a model may be a reference; three are no references. */
static void deep_copies_are_found(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	s.info[SECOND].flags &= ~(uint32_t)STACK_MODULE;
	s.info[SECOND].tags = TAGGED(COPY);
	block(&s, 1, BATCH, 10 * MIB, CATEGORY_PARAMETERS);
	block(&s, 2, SECOND, 10 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 30).twin, 10 * MIB);
	assert_int_equal(duplicates(&s, 30).copies, 0);
	block(&s, 3, SECOND, 10 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 30).copies, 20 * MIB);
	s.info[SECOND].flags |= STACK_INIT;
	assert_int_equal(duplicates(&s, 30).twin, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_pass_is_no_finding),
		cmocka_unit_test(losses_that_are_summed_wait),
		cmocka_unit_test(a_pass_ends_with_its_loss),
		cmocka_unit_test(a_graph_that_outlives_its_backward_pass_is_kept),
		cmocka_unit_test(another_line_calls_the_model_again),
		cmocka_unit_test(blocks_of_an_earlier_step_are_left),
		cmocka_unit_test(one_model_has_no_duplicates),
		cmocka_unit_test(a_second_model_is_found),
		cmocka_unit_test(a_second_optimizer_is_found),
		cmocka_unit_test(a_gradient_without_states_is_not_stepped),
		cmocka_unit_test(data_that_is_made_at_once_is_a_set),
		cmocka_unit_test(copies_of_gradients_are_found),
		cmocka_unit_test(copies_of_gradients_need_no_optimizers_blocks),
		cmocka_unit_test(data_that_is_asked_for_is_no_copy),
		cmocka_unit_test(two_models_of_the_same_sizes_are_twins),
		cmocka_unit_test(a_copy_of_a_part_is_found),
		cmocka_unit_test(deep_copies_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
