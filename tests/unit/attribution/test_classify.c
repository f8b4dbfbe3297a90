/* Categories of blocks, by phase, lifetime and stack, in jobs of known numbers. */
#include "steps_job.h"

/* 4 MiB of parameters, 4 of gradients, 8 of states; the peak is in the second step's backward. */
static void phase_and_lifetime_decide_the_category(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	make(f, f->setup, 4 * MIB);
	for (unsigned step = 0; step < 2; step++) {
		uint64_t x = make(f, f->input, 2 * MIB), a = make(f, f->model, 32 * MIB),
			 held = make(f, f->model, 16 * MIB),
			 t = make_in_backward(f, f->small, 64 * MIB), g;

		drop_in_backward(f, t, 64 * MIB);
		drop_in_backward(f, a, 32 * MIB);
		g = make_in_backward(f, f->small, 4 * MIB);
		if (!step)
			make(f, f->optimizer, 8 * MIB);
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
		drop(f, f->zero_grad, g, 4 * MIB);
		drop(f, f->input, held, 16 * MIB);
		drop(f, f->input, x, 2 * MIB);
	}
	d = run(f);
	assert_int_equal(d->peak.step, 2);
	assert_int_equal(d->peak.phase, PHASE_BACKWARD);
	assert_int_equal(of(d, CATEGORY_PARAMETERS), 4);
	assert_int_equal(of(d, CATEGORY_OPTIMIZER_STATES), 8);
	assert_int_equal(of(d, CATEGORY_INPUTS), 2);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 32);
	assert_int_equal(of(d, CATEGORY_TEMPORARIES), 64 + 16);
	assert_int_equal(of(d, CATEGORY_GRADIENTS), 0);
	assert_int_equal(d->at_peak.bytes, d->peak.allocated);
}

/* The trace ends in the first backward pass: a block of a parameter's size is its gradient. */
static void in_an_unfinished_backward_pass_the_size_decides(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	make(f, f->setup, 4 * MIB);
	make(f, f->input, 2 * MIB);
	make(f, f->model, 32 * MIB);
	make_in_backward(f, f->small, 4 * MIB);
	make_in_backward(f, f->small, 9 * MIB);
	d = run(f);
	assert_int_equal(of(d, CATEGORY_PARAMETERS), 4);
	assert_int_equal(of(d, CATEGORY_INPUTS), 2);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 32);
	assert_int_equal(of(d, CATEGORY_GRADIENTS), 4);
	assert_int_equal(of(d, CATEGORY_TEMPORARIES), 9);
}

/* The allocator gave the parameter 1 MiB more than its gradient; no parameter is left for a second
 * block of that size. */
static void a_gradient_may_be_smaller_than_its_parameter(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	make(f, f->setup, 12 * MIB);
	make(f, f->setup, 6 * MIB);
	make(f, f->input, 2 * MIB);
	make(f, f->model, 32 * MIB);
	make_in_backward(f, f->small, 11 * MIB);
	make_in_backward(f, f->small, 11 * MIB);
	make_in_backward(f, f->small, 6 * MIB);
	make_in_backward(f, f->small, 9 * MIB);
	d = run(f);
	assert_int_equal(of(d, CATEGORY_GRADIENTS), 17);
	assert_int_equal(of(d, CATEGORY_TEMPORARIES), 20);
}

/* A data set has a constructor as a module has; this job moves its modules. */
static void what_a_constructor_makes_may_be_data(void **state)
{
	struct fixture *f = *state;
	uint32_t line = write_frame(&f->w, "Snapshots.__init__", "/job/data.py", 3);
	const struct device *d;

	make(f, f->setup, 4 * MIB);
	make(f, stack(f, line, 0, 0), 50 * MIB);
	d = run(f);
	assert_int_equal(of(d, CATEGORY_PARAMETERS), 4);
	assert_int_equal(of(d, CATEGORY_OTHER), 50);
}

/* Once the model was called, a class without a forward method is none of a module. */
static void a_class_without_a_forward_method_holds_data(void **state)
{
	struct fixture *f = *state;
	uint32_t data = write_frame(&f->w, "Snapshots.__init__", "/job/data.py", 3),
		 head = write_frame(&f->w, "Head.__init__", "/job/net.py", 5);
	const struct device *d;

	write_frame(&f->w, "Head.forward", "/job/net.py", 9);
	make(f, f->setup, 4 * MIB);
	make(f, stack(f, data, 0, 0), 50 * MIB);
	make(f, stack(f, head, 0, 0), 20 * MIB);
	make(f, f->model, MIB);
	d = run(f);
	assert_int_equal(of(d, CATEGORY_PARAMETERS), 24);
	assert_int_equal(of(d, CATEGORY_INPUTS), 50);
}

/* A data set of 1,500 samples of 3 KiB beside 20 biases: small blocks have no stack. */
static void many_small_blocks_of_one_size_are_samples(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, 4 * MIB);
	for (int i = 0; i < 20; i++)
		make(f, f->small, 1024);
	for (int i = 0; i < 1500; i++)
		make(f, f->small, 4 << 10);
	make(f, f->model, 32 * MIB);
	assert_int_equal(run(f)->at_peak.by_category[CATEGORY_INPUTS], 1500 * (4 << 10));
}

/* Fewer, or as many parameters beside them: they are what small blocks are before a call. */
static void some_small_blocks_are_parameters(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, 4 * MIB);
	for (int i = 0; i < 900; i++)
		make(f, f->small, 4 << 10);
	make(f, f->model, 32 * MIB);
	assert_int_equal(run(f)->at_peak.by_category[CATEGORY_PARAMETERS],
			 4 * MIB + 900 * (4 << 10));
}

/* The job fails in the first step of SGD, which has made the momenta of three parameters. */
static void momenta_are_states(void **state)
{
	struct fixture *f = *state;
	uint32_t line =
		stack(f, write_frame(&f->w, "_single_tensor_sgd", TORCH "optim/sgd.py", 361),
		      write_frame(&f->w, "SGD.step", TORCH "optim/sgd.py", 122),
		      write_frame(&f->w, "main", "/job/train.py", 10));

	make(f, f->setup, 40 * MIB);
	micro_batch(f);
	for (int i = 0; i < 3; i++)
		make(f, line, 10 * MIB);
	f->w.header.exit_status = 1;
	write_event(&f->w, MT_TENSOR_OOM, 10 * MIB, MIB, line, f->python);
	assert_int_equal(of(run(f), CATEGORY_OPTIMIZER_STATES), 30);
}

/* A model that is built on the GPU allocates its parameters in constructors. */
static void what_a_constructor_makes_may_be_parameters(void **state)
{
	struct fixture *f = *state;
	uint32_t line = write_frame(&f->w, "Experts.__init__", "/job/net.py", 3);

	make(f, stack(f, line, 0, 0), 50 * MIB);
	assert_int_equal(of(run(f), CATEGORY_PARAMETERS), 50);
}

static void recomputed_blocks_are_activations_or_temporaries(void **state)
{
	struct fixture *f = *state;
	const struct device *d;
	uint64_t saved, gone;

	make(f, f->model, MIB);
	saved = make_in_backward(f, f->recompute, 10 * MIB);
	gone = make_in_backward(f, f->recompute, 20 * MIB);
	write_event(&f->w, MT_TENSOR_FREE, gone, -20 * MIB, f->recompute, f->autograd);
	make_in_backward(f, f->recompute, MIB);
	make_in_backward(f, f->small, MIB);
	drop_in_backward(f, saved, 10 * MIB);
	make(f, f->optimizer, MIB);
	d = run(f);
	assert_int_equal(d->peak.part, PART_RECOMPUTE);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 11);
	assert_int_equal(of(d, CATEGORY_TEMPORARIES), 20);
}

/* DDP with gradient_as_bucket_view: the backward pass allocates no gradients that stay. */
static void buckets_may_be_the_gradients(void **state)
{
	struct fixture *f = *state;

	make(f, f->buckets, 30 * MIB);
	for (unsigned step = 0; step < 2; step++) {
		drop_in_backward(f, make(f, f->model, 10 * MIB), 10 * MIB);
		make(f, f->optimizer, MIB);
	}
	assert_int_equal(of(run(f), CATEGORY_GRADIENTS), 30);
}

static void buckets_beside_gradients_are_communication(void **state)
{
	struct fixture *f = *state;

	make(f, f->buckets, 30 * MIB);
	for (unsigned step = 0; step < 2; step++) {
		drop_in_backward(f, make(f, f->model, 10 * MIB), 10 * MIB);
		drop(f, f->zero_grad, make_in_backward(f, f->small, 30 * MIB), 30 * MIB);
	}
	assert_int_equal(of(run(f), CATEGORY_COMMUNICATION), 30);
}

/* After the failure, the exception frees the blocks of the forward pass: their categories do not
 * change. */
static void the_end_of_a_failed_job_changes_no_category(void **state)
{
	struct fixture *f = *state;
	const struct device *d;
	uint64_t a;

	make(f, f->setup, 4 * MIB);
	make(f, f->buckets, 4 * MIB);
	a = make(f, f->model, 32 * MIB);
	write_event(&f->w, MT_TENSOR_OOM, 0, 64 * MIB, f->model, f->python);
	drop(f, f->model, a, 32 * MIB);
	d = run(f);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 32);
	assert_int_equal(of(d, CATEGORY_COMMUNICATION), 4);
	assert_int_equal(d->failures[0].live.by_category[CATEGORY_ACTIVATIONS], 32 * MIB);
	assert_int_equal(d->failures[0].when.phase, PHASE_FORWARD);
}

/* ":4096:2:16:8" is 8.125 MiB: one for the forward pass and one for the backward pass, both stay.
 */
static void workspaces_come_with_the_first_product(void **state)
{
	const bytes size = (4096 * 2 + 16 * 8) << 10;
	struct fixture *f = *state;

	for (unsigned step = 0; step < 3; step++) {
		uint64_t a = make(f, f->model, 10 * MIB);

		if (!step) {
			make(f, f->model, size);
			make_in_backward(f, f->small, size);
		}
		drop_in_backward(f, a, 10 * MIB);
		drop(f, f->zero_grad, make_in_backward(f, f->small, size), size);
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
	}
	assert_int_equal(run(f)->at_peak.by_category[CATEGORY_WORKSPACES], 2 * size);
}

/* Three copies of that size, which one line makes, beside a workspace of the model's. */
static void tensors_may_have_the_size_of_a_workspace(void **state)
{
	const bytes size = (4096 * 2 + 16 * 8) << 10;
	struct fixture *f = *state;

	for (unsigned i = 0; i < 3; i++)
		make(f, f->input, size);
	make(f, f->model, size);
	for (unsigned step = 0; step < 3; step++) {
		drop_in_backward(f, make(f, f->model, 10 * MIB), 10 * MIB);
		drop(f, f->zero_grad, make_in_backward(f, f->small, 5 * MIB), 5 * MIB);
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
	}
	assert_int_equal(run(f)->at_peak.by_category[CATEGORY_WORKSPACES], size);
}

/* Since PyTorch 2.15 no workspace stays. Before, the backward pass's is there before the gradients
 * of its size, if the forward pass has one of that size. */
static bytes workspaces_beside_gradients(struct fixture *f, const char *version)
{
	const bytes size = 32 * MIB;

	write_meta(&f->w, "version:torch", version, strlen(version));
	for (unsigned step = 0; step < 3; step++) {
		uint64_t a = make(f, f->model, 10 * MIB);

		if (!step && strcmp(version, "2.15.0+cu132") != 0) {
			make(f, f->model, size);
			make_in_backward(f, f->small, size);
		}
		if (!step)
			for (unsigned i = 0; i < 2; i++)
				make_in_backward(f, f->small, size);
		drop_in_backward(f, a, 10 * MIB);
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
	}
	assert_int_equal(run(f)->at_peak.by_category[CATEGORY_GRADIENTS], 2 * size);
	return f->replay.device[0].at_peak.by_category[CATEGORY_WORKSPACES];
}

static void gradients_may_have_the_size_of_a_workspace_that_stays(void **state)
{
	assert_int_equal(workspaces_beside_gradients(*state, "2.7.1+cu126"), 64 * MIB);
}

static void no_workspace_stays_in_new_versions(void **state)
{
	assert_int_equal(workspaces_beside_gradients(*state, "2.15.0+cu132"), 0);
}

/* The only gradient of its size, and the only block of it that stays. */
static void a_gradient_may_have_the_size_of_a_workspace(void **state)
{
	struct fixture *f = *state;

	write_meta(&f->w, "version:torch", "2.15.0", 6);
	for (unsigned step = 0; step < 3; step++) {
		uint64_t a = make(f, f->model, 10 * MIB);

		if (!step)
			make_in_backward(f, f->small, 32 * MIB);
		drop_in_backward(f, a, 10 * MIB);
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
	}
	assert_int_equal(run(f)->at_peak.by_category[CATEGORY_GRADIENTS], 32 * MIB);
}

static void the_environment_sets_the_size_of_workspaces(void **state)
{
	struct fixture *f = *state;

	write_meta(&f->w, "env:CUBLAS_WORKSPACE_CONFIG", ":1024:3:16:64", 13);
	make(f, f->model, 4 * MIB);
	for (unsigned step = 0; step < 2; step++) {
		drop_in_backward(f, make(f, f->model, 10 * MIB), 10 * MIB);
		make(f, f->optimizer, MIB);
	}
	assert_int_equal(of(run(f), CATEGORY_WORKSPACES), 4);
}

/* A list of outputs with their autograd graphs, and a list of tensors that the job allocates. */
static void blocks_that_add_up_are_no_buffers(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	for (unsigned step = 0; step < 20; step++) {
		make(f, f->input, 2 * MIB);
		make(f, f->model, 3 * MIB);
		make_in_backward(f, f->small, MIB);
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
	}
	d = run(f);
	assert_true(of(d, CATEGORY_ACTIVATIONS) >= 3 * 19);
	assert_true(of(d, CATEGORY_OTHER) >= 2 * 18);
	assert_int_equal(of(d, CATEGORY_BUFFERS), 0);
}

/* Allocated once, in the first forward pass. */
static void a_block_allocated_once_by_a_module_is_a_buffer(void **state)
{
	struct fixture *f = *state;

	make(f, f->evaluation, 7 * MIB);
	for (unsigned step = 0; step < 4; step++) {
		drop_in_backward(f, make(f, f->model, 10 * MIB), 10 * MIB);
		make(f, f->optimizer, MIB);
	}
	assert_int_equal(of(run(f), CATEGORY_BUFFERS), 7);
}

/* A resumed job: 4 MiB of parameters, and 8 of states that the optimizer reads before any step. */
static void states_of_a_checkpoint_are_states(void **state)
{
	struct fixture *f = *state;
	struct writer *w = &f->w;
	uint32_t main = write_frame(w, "main", "/job/train.py", 10),
		 load = write_frame(w, "Optimizer.load_state_dict", TORCH "optim/optimizer.py", 12),
		 cast = write_frame(w, "Optimizer.load_state_dict.<locals>._cast",
				    TORCH "optim/optimizer.py", 13);
	const struct device *d;

	make(f, f->setup, 4 * MIB);
	make(f, stack(f, cast, load, main), 4 * MIB);
	make(f, stack(f, cast, load, main), 4 * MIB);
	make(f, f->model, 32 * MIB);
	d = run(f);
	assert_int_equal(of(d, CATEGORY_PARAMETERS), 4);
	assert_int_equal(of(d, CATEGORY_OPTIMIZER_STATES), 8);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 32);
}

/* A job that never sets its gradients to zero: they are freed with the model, by the thread that
 * ends the job, after the last backward pass. A backward pass frees what it has used itself. */
static void gradients_that_are_freed_at_the_end_are_gradients(void **state)
{
	struct fixture *f = *state;
	const struct device *d;
	uint64_t g = 0;

	make(f, f->setup, 4 * MIB);
	for (unsigned step = 0; step < 3; step++) {
		uint64_t a = make(f, f->model, 32 * MIB),
			 t = make_in_backward(f, f->small, 4 * MIB);

		drop_in_backward(f, a, 32 * MIB);
		if (!step) {
			g = t;
			make(f, f->optimizer, 4 * MIB);
		} else {
			drop_in_backward(f, t, 4 * MIB);
		}
	}
	drop(f, f->small, g, 4 * MIB);
	d = run(f);
	assert_int_equal(d->peak.step, 2);
	assert_int_equal(of(d, CATEGORY_GRADIENTS), 4);
	assert_int_equal(of(d, CATEGORY_TEMPORARIES), 4);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(phase_and_lifetime_decide_the_category),
		CASE(in_an_unfinished_backward_pass_the_size_decides),
		CASE(a_gradient_may_be_smaller_than_its_parameter),
		CASE(recomputed_blocks_are_activations_or_temporaries),
		CASE(many_small_blocks_of_one_size_are_samples),
		CASE(some_small_blocks_are_parameters),
		CASE(what_a_constructor_makes_may_be_data),
		CASE(what_a_constructor_makes_may_be_parameters),
		CASE(momenta_are_states),
		CASE(a_class_without_a_forward_method_holds_data),
		CASE(buckets_may_be_the_gradients),
		CASE(buckets_beside_gradients_are_communication),
		CASE(the_end_of_a_failed_job_changes_no_category),
		CASE(workspaces_come_with_the_first_product),
		CASE(tensors_may_have_the_size_of_a_workspace),
		CASE(gradients_may_have_the_size_of_a_workspace_that_stays),
		CASE(no_workspace_stays_in_new_versions),
		CASE(a_gradient_may_have_the_size_of_a_workspace),
		CASE(the_environment_sets_the_size_of_workspaces),
		CASE(blocks_that_add_up_are_no_buffers),
		CASE(a_block_allocated_once_by_a_module_is_a_buffer),
		CASE(states_of_a_checkpoint_are_states),
		CASE(gradients_that_are_freed_at_the_end_are_gradients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
