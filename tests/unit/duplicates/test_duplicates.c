/* What is there more often than training needs it, among live blocks. */
#include "scene.h"

#include "duplicates/duplicates.h"

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

static void one_model_has_no_duplicates(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	training(&s);
	d = duplicates(&s, 30);
	assert_int_equal(d.copies + d.states + d.unstepped, 0);
}

/* DDP's buckets hold the gradients of several parameters: those in a bucket of their own do not
 * tell how many are trained. */
static void buckets_of_gradients_tell_no_copies(void **state)
{
	struct scene s;

	(void)state;
	training(&s);
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 21 + i, BATCH, 3 * MIB, CATEGORY_PARAMETERS);
	for (uint64_t i = 0; i < 6; i++)
		block(&s, 25 + i, OPTIMIZER, 3 * MIB, CATEGORY_OPTIMIZER_STATES);
	block(&s, 31, BATCH, 6 * MIB, CATEGORY_GRADIENTS);
	block(&s, 32, BATCH, 6 * MIB, CATEGORY_GRADIENTS);
	block(&s, 33, BATCH, 3 * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(duplicates(&s, 40).copies, 0);
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

static void data_that_is_made_at_once_is_a_set(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	training(&s);
	for (uint64_t i = 0; i < 5; i++)
		block(&s, 4 + i, BATCH, 8 * MIB, CATEGORY_OTHER);
	d = duplicates(&s, 30);
	assert_int_equal(d.data.bytes, 40 * MIB);
	assert_int_equal(d.data.blocks, 5);
	assert_int_equal(d.copies, 0);
}

/* An average of all parameters of 1, 2, 3 and 5 MiB in one block of 11 MiB is no data; nor is a
 * copy of all gradients of 2 and 5 MiB. */
static void one_block_for_all_parameters_is_no_data(void **state)
{
	static const bytes sizes[] = { 11 * MIB, 9 * MIB, 7 * MIB };
	struct scene s;

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		training(&s);
		block(&s, 4, BATCH, 5 * MIB, CATEGORY_PARAMETERS);
		block(&s, 5, BATCH, sizes[i], CATEGORY_OTHER);
		assert_int_equal(duplicates(&s, 30).data.bytes, i ? sizes[i] : 0);
	}
	block(&s, 21, MT_NO_STACK, 2 * MIB, CATEGORY_GRADIENTS);
	block(&s, 21, MT_NO_STACK, 5 * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(duplicates(&s, 30).data.bytes, 0);
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
	/* The first request behind the backward pass, for all gradients, of which 2 % are rests of
	 * blocks. One of the size of a single gradient may be a hook's. */
	assert_int_equal(duplicates_with(&s, BATCH, 6020 << 10, 15).gradient_copies, 6020 << 10);
	assert_int_equal(duplicates_with(&s, FIRST, 6 * MIB, 15).gradient_copies, 0);
	assert_int_equal(duplicates_with(&s, BATCH, 5 * MIB, 15).gradient_copies, 0);
	assert_int_equal(duplicates_with(&s, BATCH, 3 * MIB, 15).gradient_copies, 0);
	block(&s, 21, BATCH, MIB, CATEGORY_TEMPORARIES);
	block(&s, 22, BATCH, 2 * MIB, CATEGORY_TEMPORARIES);
	d = duplicates_with(&s, BATCH, 3 * MIB, 30);
	assert_int_equal(d.gradient_copies, 6 * MIB);
	assert_false(d.copies_stay);
	/* All of them in one block. */
	d = duplicates_with(&s, BATCH, 6 * MIB, 30);
	assert_int_equal(d.gradient_copies, 9 * MIB);
	/* A parameter of 3 MiB in 16 bits, as float64. */
	d = duplicates_with(&s, BATCH, 12 * MIB, 30);
	assert_int_equal(d.gradient_copies, 15 * MIB);
	d = duplicates_with(&s, BATCH, 40 * MIB, 30);
	assert_int_equal(d.gradient_copies, 3 * MIB);
	/* A deep copy of the model. */
	s.info[BATCH].tags = TAGGED(COPY);
	assert_int_equal(duplicates_with(&s, BATCH, 3 * MIB, 30).gradient_copies, 0);
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

/* The second optimizer's first step, which dies after two of three momenta: of three parameters of
 * 1, 2 and 3 MiB each has its states already. */
static void states_that_a_later_step_makes_are_of_a_second_optimizer(void **state)
{
	struct scene s;

	(void)state;
	training(&s);
	span(&s, 30, PHASE_OPTIMIZER, 2);
	block(&s, 31, OPTIMIZER, MIB, CATEGORY_OPTIMIZER_STATES);
	block(&s, 32, OPTIMIZER, 2 * MIB, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(duplicates(&s, 33).states, 3 * MIB);
	/* What has no parameter's size may be made at any step. */
	s.list[s.live.count - 1].alloc.bytes = 7 * MIB;
	s.list[s.live.count - 2].alloc.bytes = 7 * MIB;
	assert_int_equal(duplicates(&s, 33).states, 0);
	/* A part of the model is trained from now on: until then it has no states. */
	training(&s);
	for (size_t i = 0; i < 3; i++)
		block(&s, 1, BATCH, (bytes)(i + 1) * MIB, CATEGORY_PARAMETERS);
	span(&s, 30, PHASE_OPTIMIZER, 2);
	for (size_t i = 0; i < 6; i++)
		block(&s, 31, OPTIMIZER, (bytes)(i / 2 + 1) * MIB, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(duplicates(&s, 33).states, 0);
	/* In its first step an optimizer makes what has no state yet. */
	training(&s);
	for (size_t i = 0; i < s.live.count; i++)
		if (s.list[i].category == CATEGORY_OPTIMIZER_STATES)
			s.list[i].alloc.time_ns = 31 + i;
	span(&s, 30, PHASE_OPTIMIZER, 2);
	assert_int_equal(duplicates(&s, 60).states, 0);
}

/* Two towers of 22 MiB in a model of 84: a part like another part is no second model. */
static void two_parts_that_are_alike_are_no_twins(void **state)
{
	static const bytes order[] = { 9, 1, 2, 1, 2, 1, 2, 4, 9, 1, 2, 1, 2, 1, 2, 4 };
	struct scene s;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	for (uint64_t i = 0; i < ARRAY_SIZE(order); i++)
		block(&s, 1 + i, BATCH, order[i] * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 30).twin, 22 * MIB);
	block(&s, 20, BATCH, 40 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 30).twin, 0);
}

/* Two models of 22 MiB, with two states of each parameter, and gradients of one of them. */
static void two_models(struct scene *s, uint32_t second)
{
	static const bytes order[] = { 9, 1, 2, 1, 2, 1, 2, 4 };

	make(s);
	span(s, 0, PHASE_SETUP, 1);
	s->info[SECOND].flags &= ~(uint32_t)STACK_MODULE;
	s->info[SECOND].tags = TAGGED(COPY);
	for (uint64_t i = 0; i < 16; i++)
		block(s, 1 + i, i < 8 ? BATCH : second, order[i % 8] * MIB, CATEGORY_PARAMETERS);
	span(s, 20, PHASE_FORWARD, 2);
	for (uint64_t i = 0; i < 8; i++)
		block(s, 21, MT_NO_STACK, order[i] * MIB, CATEGORY_GRADIENTS);
	for (uint64_t i = 0; i < 16; i++)
		block(s, 22, OPTIMIZER, order[i % 8] * MIB, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(duplicates(s, 30).twin, 22 * MIB);
	assert_int_equal(duplicates(s, 30).states, 0);
	for (uint64_t i = 0; i < 16; i++)
		block(s, 23, OPTIMIZER, order[i % 8] * MIB, CATEGORY_OPTIMIZER_STATES);
}

/* A policy is trained beside a deep copy of it, its reference: two optimizers have four states of
 * each parameter. */
static void gradients_tell_which_of_two_models_has_states(void **state)
{
	struct scene s;

	(void)state;
	two_models(&s, SECOND);
	assert_int_equal(duplicates(&s, 30).states, 44 * MIB);
}

/* Each of two models that teach each other has an optimizer; the gradients of the first one are
 * gone when it is called. */
static void two_models_may_have_an_optimizer_each(void **state)
{
	struct scene s;

	(void)state;
	two_models(&s, BATCH);
	assert_int_equal(duplicates(&s, 30).states, 0);
}

/* Two parameters lie in one block, as those of nn.LSTM, and so do their gradients; the states of
 * Adam have the single sizes, and so have the copies of gradients. */
static void states_tell_the_sizes_of_gradients(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	activity(&s, 0, PHASE_SETUP, ACTIVITY_MAIN);
	activity(&s, 10, PHASE_BACKWARD, ACTIVITY_BACKWARD);
	activity(&s, 20, PHASE_OPTIMIZER, ACTIVITY_MAIN);
	block(&s, 1, BATCH, 5 * MIB, CATEGORY_PARAMETERS);
	block(&s, 11, MT_NO_STACK, 5 * MIB, CATEGORY_GRADIENTS);
	for (uint64_t i = 0; i < 2; i++) {
		block(&s, 5, OPTIMIZER, 2 * MIB, CATEGORY_OPTIMIZER_STATES);
		block(&s, 5, OPTIMIZER, 3 * MIB, CATEGORY_OPTIMIZER_STATES);
	}
	block(&s, 21, BATCH, 2 * MIB, CATEGORY_TEMPORARIES);
	block(&s, 22, BATCH, 3 * MIB, CATEGORY_TEMPORARIES);
	block(&s, 23, BATCH, 4 * MIB, CATEGORY_TEMPORARIES);
	assert_int_equal(duplicates(&s, 30).gradient_copies, 5 * MIB);
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

/* The job's own code copies the embedding into a parameter of its own, whose block is none by its
 * frames: both have a gradient, and Adam has two states of each. */
static void a_parameter_that_only_its_gradient_shows_is_one(void **state)
{
	struct scene s;

	(void)state;
	training(&s);
	block(&s, 4, BATCH, 3 * MIB, CATEGORY_INPUTS);
	for (uint64_t i = 0; i < 2; i++) {
		block(&s, 16, OPTIMIZER, 3 * MIB, CATEGORY_OPTIMIZER_STATES);
		block(&s, 14, MT_NO_STACK, 3 * MIB, CATEGORY_GRADIENTS);
	}
	assert_int_equal(duplicates(&s, 30).states, 0);
}

/* A line keeps four tensors of 30 MiB behind the optimizer of each of four steps: they add up, and
 * are no set. Four of one step alone are. */
static void what_every_step_keeps_is_no_data(void **state)
{
	struct scene s;

	(void)state;
	training(&s);
	for (uint32_t step = 2; step <= 5; step++) {
		span(&s, 100 * step, PHASE_OPTIMIZER, step);
		s.spans[s.all.count - 1].activity = ACTIVITY_OPTIMIZER;
		for (uint64_t i = 0; i < 4; i++)
			block(&s, 100 * step + 1 + i, BATCH, 30 * MIB, CATEGORY_OTHER);
		assert_int_equal(duplicates(&s, 100 * step + 10).data.bytes,
				 step == 2 ? 120 * MIB : 0);
	}
}

/* A queue is filled before the step's forward pass and again behind its optimizer. */
static void a_queue_that_outlives_its_step_is_data(void **state)
{
	struct scene s;

	(void)state;
	training(&s);
	for (uint64_t i = 0; i < 5; i++)
		block(&s, 21 + i, BATCH, 8 * MIB, CATEGORY_INPUTS);
	span(&s, 40, PHASE_FORWARD, 2);
	s.spans[s.all.count - 1].activity = ACTIVITY_MODEL;
	assert_int_equal(duplicates(&s, 45).data.bytes, 0);
	span(&s, 50, PHASE_OPTIMIZER, 2);
	s.spans[s.all.count - 1].activity = ACTIVITY_OPTIMIZER;
	span(&s, 60, PHASE_OPTIMIZER, 2);
	s.spans[s.all.count - 1].activity = ACTIVITY_MAIN;
	for (uint64_t i = 0; i < 4; i++)
		block(&s, 61 + i, BATCH, 8 * MIB, CATEGORY_INPUTS);
	assert_int_equal(duplicates(&s, 70).data.bytes, 72 * MIB);
	assert_int_equal(duplicates(&s, 70).data.blocks, 9);
}

/* An inner loop makes weights of gradients behind a backward pass, and calls the model with them:
 * they are neither copies of gradients nor a second model. */
static void weights_of_an_inner_loop_are_no_copies(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	for (int is_inner = 0; is_inner < 2; is_inner++) {
		make(&s);
		activity(&s, 0, PHASE_SETUP, ACTIVITY_MAIN);
		activity(&s, 5, PHASE_FORWARD, ACTIVITY_MODEL);
		s.spans[1].stack = FIRST;
		s.info[FIRST].tags = is_inner ? TAGGED(OWN_WEIGHTS) : 0;
		activity(&s, 10, PHASE_BACKWARD, ACTIVITY_BACKWARD);
		activity(&s, 20, PHASE_FORWARD, ACTIVITY_MAIN);
		for (uint64_t i = 0; i < 3; i++) {
			block(&s, 1 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_PARAMETERS);
			block(&s, 11 + i, MT_NO_STACK, (bytes)(i + 1) * MIB, CATEGORY_GRADIENTS);
			block(&s, 21 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_TEMPORARIES);
		}
		d = duplicates(&s, 30);
		assert_int_equal(d.gradient_copies, is_inner ? 0 : 6 * MIB);
		assert_int_equal(d.copies, is_inner ? 0 : 6 * MIB);
	}
}

/* Before the first optimizer's step, a backward pass has made one gradient of three: the sizes of
 * parameters tell what the job's own code has copied. */
static void copies_show_before_the_first_step(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	make(&s);
	activity(&s, 0, PHASE_SETUP, ACTIVITY_MAIN);
	activity(&s, 10, PHASE_FORWARD, ACTIVITY_MODEL);
	activity(&s, 20, PHASE_BACKWARD, ACTIVITY_BACKWARD);
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 1 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_PARAMETERS);
	block(&s, 21, MT_NO_STACK, 3 * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(duplicates(&s, 30).copies, 0);
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 5 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_INPUTS);
	d = duplicates(&s, 30);
	assert_int_equal(d.copies, 6 * MIB);
	assert_int_equal(d.copies_count, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_model_has_no_duplicates),
		cmocka_unit_test(buckets_of_gradients_tell_no_copies),
		cmocka_unit_test(a_second_model_is_found),
		cmocka_unit_test(a_second_optimizer_is_found),
		cmocka_unit_test(states_that_a_later_step_makes_are_of_a_second_optimizer),
		cmocka_unit_test(data_that_is_made_at_once_is_a_set),
		cmocka_unit_test(one_block_for_all_parameters_is_no_data),
		cmocka_unit_test(copies_of_gradients_are_found),
		cmocka_unit_test(copies_of_gradients_need_no_optimizers_blocks),
		cmocka_unit_test(data_that_is_asked_for_is_no_copy),
		cmocka_unit_test(two_models_of_the_same_sizes_are_twins),
		cmocka_unit_test(two_parts_that_are_alike_are_no_twins),
		cmocka_unit_test(gradients_tell_which_of_two_models_has_states),
		cmocka_unit_test(two_models_may_have_an_optimizer_each),
		cmocka_unit_test(states_tell_the_sizes_of_gradients),
		cmocka_unit_test(a_copy_of_a_part_is_found),
		cmocka_unit_test(a_parameter_that_only_its_gradient_shows_is_one),
		cmocka_unit_test(what_every_step_keeps_is_no_data),
		cmocka_unit_test(a_queue_that_outlives_its_step_is_data),
		cmocka_unit_test(weights_of_an_inner_loop_are_no_copies),
		cmocka_unit_test(copies_show_before_the_first_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
