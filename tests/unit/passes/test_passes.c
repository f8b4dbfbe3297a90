/* Forward passes among live blocks. */
#include "scene.h"

#include "passes/passes.h"

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

/* def forward(self, x): return self.head(self.blocks(self.first(x))), with two layers: the head's
 * block has the stack of the first one. */
static void a_head_on_the_line_of_the_first_layer_begins_no_pass(void **state)
{
	struct scene s;

	(void)state;
	for (int is_head = 0; is_head < 2; is_head++) {
		make(&s);
		s.kinds[FRAME_CALL] = FRAME_MODULE_CALL;
		span(&s, 0, PHASE_FORWARD, 1);
		block(&s, 100, FIRST, 32 * MIB, CATEGORY_ACTIVATIONS);
		block(&s, 101, SECOND, 20 * MIB, CATEGORY_ACTIVATIONS);
		block(&s, 102, SECOND, 20 * MIB, CATEGORY_ACTIVATIONS);
		block(&s, 103, FIRST, is_head ? MIB : 32 * MIB, CATEGORY_ACTIVATIONS);
		assert_int_equal(passes(&s, SECOND, 110).count, is_head ? 1 : 2);
	}
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
	assert_int_equal(p.left.behind, 0);
}

/* The job's own code makes 2 MiB behind the first step and behind the second one, where the next
 * step begins to count: the third step has what the second one has left, and none that it needs. */
static void what_follows_a_step_is_left_of_it(void **state)
{
	struct scene s;
	struct live_passes p;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	span(&s, 90, PHASE_FORWARD, 1);
	span(&s, 200, PHASE_FORWARD, 2);
	block(&s, 210, BATCH, 2 * MIB, CATEGORY_INPUTS);
	span(&s, 300, PHASE_FORWARD, 3);
	block(&s, 310, BATCH, 2 * MIB, CATEGORY_INPUTS);
	p = passes(&s, MT_NO_STACK, 320);
	assert_int_equal(p.left.bytes, 2 * MIB);
	assert_int_equal(p.left.now, 2 * MIB);
	assert_int_equal(p.left.behind, 2 * MIB);
	/* A third one is more than a step leaves: this step makes it. */
	block(&s, 311, BATCH, 2 * MIB, CATEGORY_TEMPORARIES);
	p = passes(&s, MT_NO_STACK, 320);
	assert_int_equal(p.left.behind, 2 * MIB);
}

/* A recurrent cell that the job's own loop calls, h = cell(x[t], h): one pass, however often. */
static void an_unrolled_cell_is_one_pass(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	s.kinds[FRAME_CALL] = FRAME_MODULE_CALL;
	span(&s, 0, PHASE_FORWARD, 1);
	for (uint64_t i = 1; i <= 7; i++) {
		block(&s, 100 * i, FIRST, 10 * MIB, CATEGORY_ACTIVATIONS);
		block(&s, 100 * i + 1, SECOND, 20 * MIB, CATEGORY_ACTIVATIONS);
		block(&s, 100 * i + 2, SECOND, 20 * MIB, CATEGORY_ACTIVATIONS);
	}
	assert_int_equal(passes(&s, FIRST, 900).waiting, 0);
}

/* One call of the model, and then the loss of one image after another, as detectors have it. */
static void losses_of_one_pass_do_not_wait(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	s.info[SECOND_AGAIN].flags = STACK_FRAMES | STACK_LOSS;
	span(&s, 0, PHASE_FORWARD, 1);
	forward(&s, 100, 0);
	for (uint64_t i = 2; i <= 5; i++) {
		block(&s, 100 * i, BATCH, MIB, CATEGORY_ACTIVATIONS);
		block(&s, 100 * i + 1, SECOND_AGAIN, 20 * MIB, CATEGORY_ACTIVATIONS);
	}
	assert_int_equal(passes(&s, BATCH, 900).waiting, 0);
	assert_int_equal(passes(&s, BATCH, 900).newest, (30 + 4 * 21) * MIB);
	/* And once more for the next batch: the first one's blocks wait. */
	forward(&s, 600, 0);
	assert_int_equal(passes(&s, BATCH, 900).waiting, (30 + 4 * 21) * MIB);
}

/* A penalty on gradients: a backward pass, over in this step, has made gradients of two parameters
 * and `more` that stays. Then comes another forward pass, of this step or of the next. */
static bytes kept_for_a_penalty(uint32_t step, bytes more)
{
	struct scene s;

	make(&s);
	s.tables.thread_flags[1] = THREAD_AUTOGRAD;
	span(&s, 0, PHASE_SETUP, 1);
	block(&s, 10, FIRST, 4 * MIB, CATEGORY_PARAMETERS);
	block(&s, 11, FIRST, 4 * MIB, CATEGORY_PARAMETERS);
	span(&s, 90, PHASE_FORWARD, 1);
	forward(&s, 100, 0);
	span(&s, 200, PHASE_BACKWARD, 1);
	for (uint64_t i = 0; i < 3; i++) {
		block(&s, 201 + i, OPTIMIZER, i < 2 ? 4 * MIB + MIB / 4 : more, CATEGORY_GRADIENTS);
		s.list[s.live.count - 1].alloc.thread = 1;
	}
	span(&s, 300, PHASE_FORWARD, step);
	forward(&s, 400, 0);
	return passes(&s, MT_NO_STACK, 500).kept;
}

static void a_graph_of_gradients_needs_its_forward_pass(void **state)
{
	(void)state;
	assert_int_equal(kept_for_a_penalty(1, 10 * MIB), 0);
	/* Gradients of parameters are none, even if the allocator gave them a little more. */
	assert_int_equal(kept_for_a_penalty(1, MIB), 30 * MIB);
	/* The next step differentiates none of it. Without a sign of an optimizer, there is none.
	 */
	assert_int_equal(kept_for_a_penalty(2, 10 * MIB), 30 * MIB);
}

/* model(batch()), in one line of a loop: the batch shares all of its frames with the model. */
static void a_batch_that_the_line_of_the_call_makes_begins_a_pass(void **state)
{
	static const uint32_t line_of_call[] = { FRAME_CALL };
	struct scene s;
	struct live_passes p;

	(void)state;
	make(&s);
	s.stacks[BATCH].frames = line_of_call;
	span(&s, 0, PHASE_FORWARD, 1);
	for (uint64_t i = 1; i <= 4; i++)
		forward(&s, 100 * i, 0);
	/* Three pictures of one triplet, and another one's first. */
	assert_int_equal(passes(&s, SECOND, 401).waiting, 0);
	block(&s, 500, BATCH, MIB, CATEGORY_INPUTS);
	p = passes(&s, FIRST, 501);
	assert_int_equal(p.waiting_count, 4);
	assert_int_equal(p.waiting, 120 * MIB);
	assert_int_equal(p.waiting_of_line, 120 * MIB);
	/* The labels of one call, behind it. */
	make(&s);
	s.stacks[BATCH].frames = line_of_call;
	span(&s, 0, PHASE_FORWARD, 1);
	forward(&s, 100, 0);
	block(&s, 200, BATCH, MIB, CATEGORY_INPUTS);
	assert_int_equal(passes(&s, SECOND_AGAIN, 201).waiting, 0);
	/* The next step begins with its batch, and runs another line of the model. */
	make(&s);
	s.stacks[BATCH].frames = line_of_call;
	span(&s, 0, PHASE_FORWARD, 1);
	forward(&s, 100, 0);
	span(&s, 200, PHASE_BACKWARD, 1);
	span(&s, 300, PHASE_FORWARD, 2);
	block(&s, 400, BATCH, MIB, CATEGORY_INPUTS);
	block(&s, 401, SECOND_AGAIN, 20 * MIB, CATEGORY_ACTIVATIONS);
	assert_int_equal(passes(&s, MT_NO_STACK, 402).kept, 0);
}

/* A model of three equal stages on one line begins its first block again in each; a line outside of
 * it makes the next batch. */
static void stages_that_are_alike_are_one_pass_behind_a_batch(void **state)
{
	struct scene s;
	struct live_passes p;

	(void)state;
	make(&s);
	s.kinds[FRAME_CALL] = FRAME_MODULE_CALL;
	span(&s, 0, PHASE_FORWARD, 1);
	for (uint64_t i = 1; i <= 4; i++) {
		block(&s, 100 * i, BATCH, MIB, CATEGORY_INPUTS);
		for (uint64_t k = 1; k <= 3; k++) {
			block(&s, 100 * i + 3 * k, FIRST, 10 * MIB, CATEGORY_ACTIVATIONS);
			block(&s, 100 * i + 3 * k + 1, SECOND, 5 * MIB, CATEGORY_ACTIVATIONS);
			block(&s, 100 * i + 3 * k + 2, SECOND, 5 * MIB, CATEGORY_ACTIVATIONS);
		}
	}
	p = passes(&s, FIRST, 501);
	assert_int_equal(p.waiting_count, 3);
	assert_int_equal(p.waiting, 180 * MIB);
}

/* A loop that calls a model of six lines with its last result, and drops a loss in between. */
static void calls_that_other_code_separates_are_passes(void **state)
{
	static const uint32_t lines[STACKS][2] = {
		{ 0 },
		{ FRAME_BATCH, FRAME_CALL },
		{ FRAME_FIRST, FRAME_CALL },
		{ FRAME_SECOND, FRAME_CALL },
		{ FRAME_CALL_AGAIN, FRAME_CALL },
		{ FRAME_FIRST, FRAME_CALL },
		{ FRAME_SECOND, FRAME_CALL },
	};
	struct scene s;
	struct live_passes p;

	(void)state;
	for (int is_apart = 0; is_apart < 2; is_apart++) {
		make(&s);
		s.kinds[FRAME_CALL] = FRAME_MODULE_CALL;
		for (uint32_t k = 1; k < STACKS; k++) {
			s.stacks[k] = (struct stack){ .frame_count = 2, .frames = lines[k] };
			s.info[k].model_hash = k;
		}
		for (uint64_t i = 0; i < 5; i++) {
			if (!i || is_apart)
				span(&s, 100 * i, PHASE_FORWARD, 1);
			s.spans[s.all.count - 1].activity = ACTIVITY_MODEL;
			for (uint32_t k = 1; k < STACKS; k++)
				block(&s, 100 * i + k, k, 10 * MIB, CATEGORY_ACTIVATIONS);
		}
		p = passes(&s, MT_NO_STACK, 500);
		assert_int_equal(p.waiting_count, is_apart ? 4 : 0);
		assert_int_equal(p.waiting_of_line, is_apart ? 4 * 60 * MIB : 0);
	}
}

/* A generator draws, and its discriminator judges real examples first. */
static void a_generator_has_no_part_in_a_step_of_its_discriminator(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	s.info[FIRST].tags = s.info[SECOND].tags = TAGGED(GENERATOR);
	s.info[FIRST_AGAIN].tags = s.info[SECOND_AGAIN].tags = TAGGED(DISCRIMINATOR);
	span(&s, 0, PHASE_FORWARD, 1);
	forward(&s, 100, 0);
	block(&s, 200, FIRST_AGAIN, 8 * MIB, CATEGORY_ACTIVATIONS);
	block(&s, 201, FIRST_AGAIN, 8 * MIB, CATEGORY_ACTIVATIONS);
	block(&s, 202, SECOND_AGAIN, 2 * MIB, CATEGORY_ACTIVATIONS);
	/* One call: it may be the step of the generator. */
	assert_int_equal(passes(&s, SECOND_AGAIN, 203).generator, 0);
	assert_int_equal(passes(&s, FIRST_AGAIN, 203).generator, 30 * MIB);
	/* A function that trains the discriminator calls the generator. */
	s.info[FIRST].tags |= TAGGED(DISCRIMINATOR_STEP);
	assert_int_equal(passes(&s, SECOND_AGAIN, 203).generator, 10 * MIB);
	/* There, the model beside the discriminator is the generator, whatever its name is. */
	s.info[FIRST].tags = s.info[SECOND].tags = TAGGED(DISCRIMINATOR_STEP);
	assert_int_equal(passes(&s, SECOND_AGAIN, 203).generator, 0);
	s.info[FIRST_AGAIN].tags |= TAGGED(DISCRIMINATOR_STEP);
	assert_int_equal(passes(&s, SECOND_AGAIN, 203).generator, 30 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_pass_is_no_finding),
		cmocka_unit_test(a_head_on_the_line_of_the_first_layer_begins_no_pass),
		cmocka_unit_test(losses_that_are_summed_wait),
		cmocka_unit_test(a_pass_ends_with_its_loss),
		cmocka_unit_test(a_graph_that_outlives_its_backward_pass_is_kept),
		cmocka_unit_test(another_line_calls_the_model_again),
		cmocka_unit_test(a_graph_of_gradients_needs_its_forward_pass),
		cmocka_unit_test(blocks_of_an_earlier_step_are_left),
		cmocka_unit_test(what_follows_a_step_is_left_of_it),
		cmocka_unit_test(an_unrolled_cell_is_one_pass),
		cmocka_unit_test(losses_of_one_pass_do_not_wait),
		cmocka_unit_test(a_batch_that_the_line_of_the_call_makes_begins_a_pass),
		cmocka_unit_test(stages_that_are_alike_are_one_pass_behind_a_batch),
		cmocka_unit_test(calls_that_other_code_separates_are_passes),
		cmocka_unit_test(a_generator_has_no_part_in_a_step_of_its_discriminator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
