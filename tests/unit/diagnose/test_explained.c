/* What explains a symptom is chosen before it: copies, graphs, other steps, other places. */
#include "choice.h"

/* With create_graph, what a backward pass made stays with the graph and looks like gradients. */
static void a_graph_that_is_kept_makes_no_gradients_of_the_base(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.tags = TAGGED(ADAPTER);
	m.gradients = 900 * MIB;
	m.adapters = 10 * MIB;
	m.left = 600 * MIB;
	m.left_blocks = 60;
	assert_cause(&m, "BASE_TRAINED");
	m.kept = 600 * MIB;
	m.passes_kept = 1;
	assert_int_equal(assert_cause(&m, "GRAPH_KEPT"), 600 * MIB);
}

/* There is one tensor of half the size, and all that is made of it has twice that. */
static void what_follows_from_one_tensor_is_converted(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 1600 * MIB;
	m.huge = m.doubled_block = 300 * MIB;
	m.huge_sum = m.doubled = 1200 * MIB;
	m.huge_blocks = m.doubled_blocks = 4;
	assert_cause(&m, "HUGE_TENSORS");
	m.doubled_once = 1;
	assert_int_equal(assert_cause(&m, "ACT_UPCAST"), 600 * MIB);
}

/* Each backward pass of three leaves 200 MiB: gradients, or a graph with gradients in it. */
static void gradients_of_each_pass_are_no_graph(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 4;
	m.leak_steps = 3;
	m.leak_bytes = m.leak_autograd = 600 * MIB;
	m.gradients = 680 * MIB;
	assert_int_equal(assert_cause(&m, "GRADIENTS_KEPT"), 600 * MIB);
	m.leak_autograd = 400 * MIB;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	/* What the backward pass makes of a graph is no gradient of a parameter. */
	m.leak_autograd = 600 * MIB;
	m.gradients = 160 * MIB;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

/* In the second step there are two copies of each gradient of the first step, and some of this
 * one's. One copy of each, for a plot of all steps, is a history. */
static void copies_of_each_gradient_are_no_history(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_optimizer = 1;
	m.gradients = 200 * MIB;
	m.left = 400 * MIB;
	m.left_now = m.left_behind = 100 * MIB;
	m.left_steps = 2;
	m.gradient_copies = 500 * MIB;
	m.gradient_copies_stay = 1;
	assert_int_equal(assert_cause(&m, "GRADIENT_COPIES"), 500 * MIB);
	m.left = 200 * MIB;
	m.gradient_copies = 300 * MIB;
	assert_int_equal(assert_cause(&m, "EARLIER_STEP_KEPT"), 200 * MIB);
	/* Two steps have left a copy each, and this one has not come that far. */
	m.left = m.gradient_copies = 400 * MIB;
	m.left_now = m.left_behind = 0;
	assert_int_equal(assert_cause(&m, "EARLIER_STEP_KEPT"), 400 * MIB);
	/* Copies that are small beside all that is there are no cause of their own. */
	m.left = 120 * MIB;
	m.left_now = m.left_behind = 30 * MIB;
	m.gradients = 60 * MIB;
	m.gradient_copies = 150 * MIB;
	assert_int_equal(assert_cause(&m, "EARLIER_STEP_KEPT"), 120 * MIB);
	m.gradients = 200 * MIB;
	m.left = 400 * MIB;
	/* Tensors of other sizes are left too. */
	m.left_now = m.left_behind = 100 * MIB;
	m.gradient_copies = 300 * MIB;
	assert_int_equal(assert_cause(&m, "EARLIER_STEP_KEPT"), 400 * MIB);
}

/* An evaluation needs 900 MiB more than a step; earlier steps have left 600 MiB of that. */
static void what_steps_have_left_is_not_the_evaluations(void **state)
{
	struct metrics m = failure();
	struct diagnosis d;

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.activations = 0;
	m.size_growth = 900 * MIB;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.left = 100 * MIB;
	assert_int_equal(assert_cause(&m, "EVAL_BATCH_LARGE"), 800 * MIB);
	/* The reader sees both numbers. */
	d = diagnosis_of(&m);
	assert_non_null(strstr(d.findings[0].message, "900.0 MiB"));
	assert_non_null(strstr(d.findings[0].message, "100.0 MiB"));
	diagnosis_release(&d);
	m.left = 600 * MIB;
	assert_cause(&m, "EARLIER_STEP_KEPT");
}

/* An evaluation needs 900 MiB more than a step. */
static void results_of_no_module_are_no_batch(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.activations = 0;
	m.size_growth = 900 * MIB;
	m.huge = 350 * MIB;
	m.huge_sum = 1050 * MIB;
	m.huge_blocks = 3;
	m.run_model = 30;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	/* All scores of a ranking, behind the calls of the model. */
	m.run_model = 0;
	assert_cause(&m, "HUGE_TENSORS");
	/* They are not what the evaluation needs more. */
	m.huge_sum = 300 * MIB;
	assert_cause(&m, "EVAL_BATCH_LARGE");
}

/* An evaluation made 20 GiB, of which 700 MiB are left: a block of each of 20 calls, 560 MiB. The
 * call that made the last ones counts as a pass that waits. */
static void one_result_of_each_pass_is_no_graph(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.run_evaluates = 1;
	m.run_new = m.run_model = 90;
	m.run_live = 700 * MIB;
	m.run_born = 20 * GIB;
	m.run_blocks = 40;
	m.run_repeats = 20;
	m.run_repeat_bytes = 560 * MIB;
	m.run_repeat_stacks = 1;
	m.passes_waiting = 1;
	m.waiting = 532 * MIB;
	assert_cause(&m, "EVAL_ACCUMULATION");
	/* Half of all that the passes made is there. */
	m.run_born = 1400 * MIB;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
}

/* A list of 600 MiB and what torch.cat() made of it, 600 MiB and a little beside them: the place of
 * the list has nearly half of what is there, and a request of as much comes from it too. */
static void a_list_and_its_concatenation_are_of_one_place(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.activations = 0;
	m.requested = m.huge = 600 * MIB;
	m.short_by = 300 * MIB;
	m.huge_sum = 1200 * MIB;
	m.huge_blocks = 2;
	m.run_live = 1810 * MIB;
	m.run_born = 2400 * MIB;
	m.run_repeats = 9;
	m.run_repeat_bytes = 600 * MIB;
	m.run_repeat_stacks = 1;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.run_live = 2100 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
}

/* A graph of a backward pass holds blocks of autograd's threads, which have no parameter. */
static void what_a_step_has_left_may_look_like_gradients(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.optimizer_states = 40 * MIB;
	m.gradients = m.unstepped = 700 * MIB;
	assert_cause(&m, "GRADIENTS_UNUSED");
	m.left = 300 * MIB;
	assert_cause(&m, "EARLIER_STEP_KEPT");
}

/* A first backward pass has made 300 MiB of gradients, and 500 MiB that stay beside them. */
static void a_backward_pass_of_gradients_keeps_nothing_else(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 1;
	m.backward_kept = 500 * MIB;
	m.backward_kept_blocks = 40;
	m.backward_gradients = 300 * MIB;
	assert_int_equal(assert_cause(&m, "BACKWARD_KEPT"), 500 * MIB);
	/* Few are on their way from node to node. */
	m.backward_kept_blocks = 6;
	assert_cause(&m, "ACT_PEAK");
	/* Derivatives after inputs alone, as a model of physics has them, are needed. */
	m.backward_kept_blocks = 40;
	m.backward_gradients = 0;
	assert_cause(&m, "ACT_PEAK");
}

/* Of 2 GiB, 240 MiB are 12 %, and a quarter of the activations. */
static void scores_that_are_a_quarter_of_the_activations_count(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 940 * MIB;
	m.attention = 240 * MIB;
	m.attention_block = 60 * MIB;
	m.attention_blocks = 5;
	assert_cause(&m, "ATTN_QUADRATIC");
	m.activations = 980 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* After the first step of the optimizer, all that it trains has states. */
static void the_first_step_shows_what_has_no_state(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.step = m.steps = 1;
	m.gradients = 300 * MIB;
	m.unstepped = 280 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.optimizer_states = 40 * MIB;
	m.run_born = 500 * MIB;
	m.run_live = 50 * MIB;
	m.run_evaluates = 1;
	assert_int_equal(assert_cause(&m, "GRADIENTS_UNUSED"), 280 * MIB);
	/* The first layer, whose output is there. */
	m.run_live = m.run_born = 40 * MIB;
	assert_cause(&m, "ACT_PEAK");
	/* The generator of a GAN has stepped first; the discriminator, which has gradients from
	 * that, is called for its own step. */
	m.run_live = 400 * MIB;
	m.run_born = 500 * MIB;
	m.run_evaluates = 0;
	assert_cause(&m, "ACT_PEAK");
	/* It is in its backward pass. */
	m.in_forward = 0;
	m.in_backward = 1;
	assert_cause(&m, "ACT_PEAK");
}

/* A cache that takes a token in each call has taken none in the call over the prompt. */
static void a_prompts_cache_is_of_no_fixed_size(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.inference = m.in_prefill = 1;
	m.steps = 0;
	m.kv_cache = 600 * MIB;
	m.pass_live = 700 * MIB;
	assert_cause(&m, "KV_CACHE_STATIC");
	m.tags = TAGGED(KV_GROWS);
	assert_cause(&m, "INFERENCE_BATCH");
	m.pass_live = 500 * MIB;
	assert_cause(&m, "KV_CACHE_OF_PROMPTS");
	m.kv_token = MIB;
	assert_cause(&m, "KV_CACHE");
}

/* The cache has 300 MiB in one piece. A request of 1 MiB cannot have it on any stream: it is none
 * of the pool of small blocks. */
static void a_small_request_has_a_pool_of_its_own(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.device_free = 0;
	m.cached = 320 * MIB;
	m.largest_free = 300 * MIB;
	m.has_largest_free = 1;
	m.requested = m.short_by = 2 * MIB;
	assert_cause(&m, "FRAG_STREAM_POOLS");
	m.requested = m.short_by = MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* The buckets of DistributedDataParallel are none of the job's own tensors; FSDP puts whole
 * parameters together. */
static void data_on_the_gpu_are_told_beside_buckets(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.data = 900 * MIB;
	m.data_blocks = 1;
	m.tags = TAGGED(DDP) | TAGGED(BUCKET);
	m.buckets = 200 * MIB;
	assert_int_equal(assert_cause(&m, "DATA_ON_GPU"), 900 * MIB);
	m.tags |= TAGGED(FSDP);
	m.parameters = 1000 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* A base of 8 bits under adapters, and a checkpoint of its weights, their average and two states of
 * each in fp32: sixteen times as much. A model that lies in the checkpoint's own tensors has
 * nothing beside it. Nothing of 8 bits is trained without adapters: then it is a data set that was
 * read. */
static void a_checkpoint_may_be_much_larger_than_the_model(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.loaded = 1600 * MIB;
	m.parameters = 100 * MIB;
	m.activations = 0;
	m.tags = TAGGED(ADAPTER);
	assert_cause(&m, "RESUME_DUPLICATE_STATE");
	m.parameters = 90 * MIB;
	m.activations = GIB;
	assert_cause(&m, "ACT_PEAK");
	m.parameters = 190 * MIB;
	m.tags = 0;
	assert_cause(&m, "ACT_PEAK");
	m.parameters = 210 * MIB;
	assert_cause(&m, "RESUME_DUPLICATE_STATE");
}

/* Behind the training steps, another place calls the model again and again, and keeps graphs: no
 * losses of a step, which are of the place that trained before. No name speaks of evaluation. */
static void passes_of_another_place_are_not_summed(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.waiting = 700 * MIB;
	m.passes_waiting = 7;
	m.run_live = 900 * MIB;
	m.run_born = GIB;
	m.run_model = 95;
	m.run_blocks = 200;
	assert_int_equal(assert_cause(&m, "LOSSES_SUMMED"), 700 * MIB);
	m.run_new = 95;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	/* Before the first step is over, every place is new. */
	m.step = 1;
	m.steps = 0;
	assert_cause(&m, "LOSSES_SUMMED");
}

/* Two models that are alike, both called with a graph: a reference, or two towers. When one of them
 * alone has gradients, it is a reference. */
static void two_towers_may_both_be_trained(void **state)
{
	struct metrics m = failure();
	int confidence;

	(void)state;
	m.twin = 100 * MIB;
	m.again = 800 * MIB;
	m.again_kept = 1;
	m.gradients = 100 * MIB;
	assert_cause(&m, "REFERENCE_GRAPH");
	confidence = confidence_of_cause(&m);
	m.gradients = 0;
	m.step = m.steps = 1;
	assert_cause(&m, "REFERENCE_GRAPH");
	assert_int_equal(confidence_of_cause(&m), confidence - 1);
	m.gradients = 200 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* Tensors of a function of generation are no data, and none that parts of a batch would make. */
static void what_a_generation_holds_is_no_data(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 100 * MIB;
	m.data = m.huge_sum = 1200 * MIB;
	m.data_blocks = m.huge_blocks = 4;
	m.huge = 300 * MIB;
	assert_cause(&m, "DATA_ON_GPU");
	m.evaluated = 1200 * MIB;
	m.evaluated_blocks = 4;
	assert_cause(&m, "EVAL_TENSORS");
	/* A cache of keys and values is known by its frames. */
	m.kv_cache = 1200 * MIB;
	m.huge_sum = m.huge_blocks = 0;
	m.kv_token = MIB;
	assert_cause(&m, "KV_CACHE");
}

static void what_is_made_under_no_grad_is_no_data(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 100 * MIB;
	m.data = m.huge_sum = m.huge = 1200 * MIB;
	m.data_blocks = m.huge_blocks = 1;
	assert_cause(&m, "DATA_ON_GPU");
	m.data_of_no_grad = 1;
	assert_cause(&m, "HUGE_TENSORS");
}

/* 800 MiB in pieces: a request of 900 MiB, more than all tensors of its step, is the cause; one of
 * 256 MiB is not. Tensors that had more before show that the memory is enough for the request. */
static void a_huge_request_finds_no_piece(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.cached = 800 * MIB;
	m.outside = GIB;
	m.allocated = 1200 * MIB;
	m.largest_free = 100 * MIB;
	m.has_largest_free = 1;
	m.allocated_peak = 3 * GIB;
	m.activations = 100 * MIB;
	assert_cause(&m, "FRAG_EXTERNAL");
	m.requested = m.huge = m.huge_sum = 900 * MIB;
	m.short_by = 700 * MIB;
	m.huge_blocks = 1;
	assert_cause(&m, "FRAG_EXTERNAL");
	/* Another tensor of that size is there. */
	m.huge_sum = 1800 * MIB;
	m.huge_blocks = 2;
	assert_cause(&m, "HUGE_TENSORS");
	m.huge_sum = 900 * MIB;
	m.huge_blocks = 1;
	m.allocated_peak = 2 * GIB;
	assert_cause(&m, "HUGE_TENSORS");
}

/* What backward passes leave before any optimizer shows may be derivatives within one loss. */
static void a_leak_is_surer_behind_an_optimizer(void **state)
{
	struct metrics m = failure();
	int confidence;

	(void)state;
	m.step = m.steps = 4;
	m.leak_steps = 3;
	m.leak_bytes = 800 * MIB;
	m.leak_autograd = 600 * MIB;
	m.tags = TAGGED(OPTIMIZER);
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	confidence = confidence_of_cause(&m);
	m.tags = 0;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	assert_int_equal(confidence_of_cause(&m), confidence - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_graph_that_is_kept_makes_no_gradients_of_the_base),
		cmocka_unit_test(what_follows_from_one_tensor_is_converted),
		cmocka_unit_test(copies_of_each_gradient_are_no_history),
		cmocka_unit_test(gradients_of_each_pass_are_no_graph),
		cmocka_unit_test(what_steps_have_left_is_not_the_evaluations),
		cmocka_unit_test(results_of_no_module_are_no_batch),
		cmocka_unit_test(one_result_of_each_pass_is_no_graph),
		cmocka_unit_test(a_list_and_its_concatenation_are_of_one_place),
		cmocka_unit_test(what_a_step_has_left_may_look_like_gradients),
		cmocka_unit_test(a_backward_pass_of_gradients_keeps_nothing_else),
		cmocka_unit_test(scores_that_are_a_quarter_of_the_activations_count),
		cmocka_unit_test(the_first_step_shows_what_has_no_state),
		cmocka_unit_test(a_prompts_cache_is_of_no_fixed_size),
		cmocka_unit_test(a_small_request_has_a_pool_of_its_own),
		cmocka_unit_test(data_on_the_gpu_are_told_beside_buckets),
		cmocka_unit_test(a_checkpoint_may_be_much_larger_than_the_model),
		cmocka_unit_test(passes_of_another_place_are_not_summed),
		cmocka_unit_test(two_towers_may_both_be_trained),
		cmocka_unit_test(what_a_generation_holds_is_no_data),
		cmocka_unit_test(what_is_made_under_no_grad_is_no_data),
		cmocka_unit_test(a_huge_request_finds_no_piece),
		cmocka_unit_test(a_leak_is_surer_behind_an_optimizer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
