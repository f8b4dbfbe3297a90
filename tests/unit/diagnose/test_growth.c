/* What grows, what an evaluation keeps, and what the first step of a training tells. */
#include "choice.h"

/* Of 40 steps, 35 needed more than the one before: a bank of 41 MiB, and what is computed of it. */
static void a_tensor_that_grows_in_each_step_explains_the_failure(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 41;
	m.growing = 100 * MIB;
	m.growing_first = 4 * MIB;
	m.growing_last = 100 * MIB;
	m.growing_times = 35;
	m.peak_growth = 300 * MIB;
	assert_cause(&m, "GROWING_TENSOR");
	/* The request had not fitted without that growth. */
	m.short_by = 400 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.short_by = 128 * MIB;
	m.growing_times = 20;
	assert_cause(&m, "ACT_PEAK");
}

/* A library's evaluation adds each batch's results to one tensor. */
static void results_that_are_put_together_are_an_accumulation(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.run_evaluates = 1;
	m.growing = m.evaluated = 900 * MIB;
	m.growing_times = 3;
	m.run_live = GIB;
	m.run_born = 10 * GIB;
	assert_cause(&m, "GROWING_TENSOR");
	m.growing_gathers = 1;
	m.run_repeat_bytes = 900 * MIB;
	m.run_repeats = 4;
	assert_cause(&m, "EVAL_ACCUMULATION");
}

/* Generation in an evaluation: of 1,300 MiB, 720 are keys and values. */
static void a_cache_of_generation_is_no_graph(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.activations = 300 * MIB;
	m.run_live = 1300 * MIB;
	m.run_born = 2400 * MIB;
	m.run_new = m.run_model = 88;
	m.run_blocks = 17;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.kv_cache = 720 * MIB;
	m.tags = TAGGED(KV_GROWS);
	assert_cause(&m, "KV_CACHE_OF_PROMPTS");
	/* Caches of all tokens so far, and many other lines' blocks: a graph keeps them. */
	m.run_kept_stacks = 11;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
}

/* The prefill of a request beside the caches of nineteen others. */
static void caches_of_other_requests_come_before_this_one(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_forward = m.in_evaluation = m.inference = m.in_prefill = m.run_calls = 1;
	m.kv_cache = GIB;
	m.kv_kept = 900 * MIB;
	m.tags = TAGGED(KV_GROWS);
	m.kv_caches_kept = 19;
	/* They may be layers of the first call. */
	m.inference_calls = 1;
	assert_cause(&m, "KV_CACHE_OF_PROMPTS");
	m.inference_calls = 40;
	assert_cause(&m, "KV_CACHES_KEPT");
}

/* Eight branches of an answer, each with a copy of the prompt's cache: one of them is needed. */
static void copies_of_a_cache_come_before_large_tensors(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_forward = 1;
	m.kv_cache = 900 * MIB;
	m.huge = 100 * MIB;
	m.huge_blocks = 9;
	m.huge_sum = 900 * MIB;
	m.kv_copies = 800 * MIB;
	assert_int_equal(assert_cause(&m, "KV_CACHE_COPIED"), 700 * MIB);
}

/* Backward passes of five steps left 900 MiB, which are no gradients. */
static void a_graph_of_second_order_is_no_list_of_losses(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 6;
	m.leak_bytes = m.leak_autograd = 900 * MIB;
	m.leak_steps = 5;
	m.gradients = m.backward_gradients = 50 * MIB;
	m.activations = 100 * MIB;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	m.backward_kept = 890 * MIB;
	m.backward_kept_blocks = 800;
	assert_cause(&m, "BACKWARD_KEPT");
}

/* Whole gradients of a sharded model, and 200 MiB that earlier steps left. */
static void what_is_left_does_not_hide_larger_gradients(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.activations = 100 * MIB;
	m.left = 200 * MIB;
	m.left_blocks = 200;
	m.tags = TAGGED(FSDP);
	assert_cause(&m, "EARLIER_STEP_KEPT");
	m.gradients = m.unsharded_gradients = 700 * MIB;
	assert_cause(&m, "FSDP_NO_SYNC_GRADS");
}

/* A unit of 200 MiB is most of two shards of 200; of those in host memory nothing is known. */
static void shards_in_host_memory_have_no_known_size(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.activations = 1200 * MIB;
	m.tags = TAGGED(FSDP);
	m.world_size = 2;
	m.gathered = m.gathered_largest = 300 * MIB;
	m.gathered_blocks = 1;
	m.sharded = 200 * MIB;
	assert_cause(&m, "FSDP_WRAP_COARSE");
	m.sharded = 0;
	assert_cause(&m, "ACT_PEAK");
}

/* The first step of the optimizer asks for a state; NCCL has 484 MiB. */
static void the_first_optimizer_step_comes_before_nccl(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_optimizer = m.step = m.steps = 1;
	m.nccl = 484 * MIB;
	m.optimizer_states = 200 * MIB;
	assert_cause(&m, "NCCL_BUFFERS");
	m.request_is_state = 1;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
}

/* Before the first call, three lines have made 400 MiB each, and one asks for as much. */
static void a_computation_is_no_data(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = m.steps = 0;
	m.in_setup = m.step = 1;
	m.allocated = 1250 * MIB;
	m.requested = m.huge = 400 * MIB;
	m.huge_sum = m.huge_own = 1600 * MIB;
	m.huge_blocks = 4;
	m.setup_line = 1200 * MIB;
	m.setup_blocks = 2;
	m.huge_lines = 1;
	assert_cause(&m, "DATA_IN_SETUP");
	m.huge_lines = 3;
	assert_cause(&m, "HUGE_TENSORS");
}

/* The first backward pass makes gradients of the whole model, which do not fit beside it. */
static void gradients_that_will_not_fit_are_told(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 100 * MIB;
	m.step = m.steps = 1;
	m.gradients = 500 * MIB;
	m.parameters = 1200 * MIB;
	m.requested = 32 * MIB;
	m.short_by = 10 * MIB;
	m.device_free = 22 * MIB;
	m.cached = 200 * MIB;
	m.has_largest_free = 1;
	m.largest_free = 26 * MIB;
	m.reserved = m.allocated + m.cached;
	m.outside = 4 * GIB - m.reserved - m.device_free;
	m.static_percent = 90;
	assert_cause(&m, "STATIC_PEAK");
	m.static_percent = 110;
	assert_cause(&m, "STATIC_OVER_BUDGET");
}

/* An evaluation of two calls: a line of its layers has fourteen blocks, and many lines have some.
 */
static void layers_of_each_call_are_a_graph(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.step = m.steps = 8;
	m.activations = 1900 * MIB;
	m.run_live = 2000 * MIB;
	m.run_born = 4200 * MIB;
	m.run_new = m.run_model = 98;
	m.run_blocks = 33;
	m.run_calls = 2;
	m.run_repeats = 14;
	m.run_repeat_bytes = 840 * MIB;
	m.run_kept_stacks = 3;
	m.run_layer_stacks = 4;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	/* As many calls have a result each. */
	m.run_calls = 14;
	assert_cause(&m, "EVAL_ACCUMULATION");
}

/* Behind one step only, half as much again is a larger batch. */
static void a_large_batch_of_the_second_step_is_an_outlier(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.size_growth = 900 * MIB;
	m.size_ratio = 149;
	assert_cause(&m, "ACT_PEAK");
	m.size_ratio = 150;
	assert_cause(&m, "BATCH_OUTLIER");
}

/* Ten masks of 64 MiB, which could be one. */
static void masks_of_each_layer_are_told(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_forward = 1;
	m.buffers = 640 * MIB;
	m.buffer_blocks = 10;
	assert_int_equal(assert_cause(&m, "BUFFERS_LARGE"), 576 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tensor_that_grows_in_each_step_explains_the_failure),
		cmocka_unit_test(results_that_are_put_together_are_an_accumulation),
		cmocka_unit_test(a_cache_of_generation_is_no_graph),
		cmocka_unit_test(caches_of_other_requests_come_before_this_one),
		cmocka_unit_test(copies_of_a_cache_come_before_large_tensors),
		cmocka_unit_test(a_graph_of_second_order_is_no_list_of_losses),
		cmocka_unit_test(what_is_left_does_not_hide_larger_gradients),
		cmocka_unit_test(the_first_optimizer_step_comes_before_nccl),
		cmocka_unit_test(a_computation_is_no_data),
		cmocka_unit_test(gradients_that_will_not_fit_are_told),
		cmocka_unit_test(layers_of_each_call_are_a_graph),
		cmocka_unit_test(a_large_batch_of_the_second_step_is_an_outlier),
		cmocka_unit_test(masks_of_each_layer_are_told),
		cmocka_unit_test(shards_in_host_memory_have_no_known_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
