/* What live blocks are of a job that only calls its model: caches, results, and graphs that nobody
 * uses. */
#include "calls.h"

/* A token: each layer's keys replace those of the token before. */
static void decode(struct scene *s, size_t keys[LAYERS], bytes size)
{
	call(s);
	for (int i = 0; i < LAYERS; i++) {
		size_t next = born(s, KEYS, size);

		if (keys[i])
			dies(s, keys[i]);
		keys[i] = next;
	}
}

static void keys_that_grow_are_a_cache(void **state)
{
	struct scene s;
	size_t keys[LAYERS] = { 0 };
	struct live_inference r;
	bytes cache;

	(void)state;
	make(&s);
	born(&s, BATCH, 64 * KIB);
	span(&s, ACTIVITY_MODEL, 100, 90);
	for (int i = 0; i < 40; i++)
		decode(&s, keys, (100 + i) * KIB);
	r = found(&s, &cache);
	assert_true(r.is_inference);
	assert_false(r.keeps_graph);
	assert_int_equal(cache, LAYERS * 139 * KIB);
	assert_int_equal(r.cache, cache);
	assert_int_equal(r.cache_token, LAYERS * KIB);
	assert_int_equal(r.cache_kept, 0);
}

/* Three requests of 20 tokens, each with a cache of its own, and nothing drops them. */
static void caches_of_earlier_requests_are_told_apart(void **state)
{
	struct scene s;
	struct live_inference r;
	bytes cache;

	(void)state;
	make(&s);
	span(&s, ACTIVITY_MODEL, 100, 90);
	for (int request = 0; request < 4; request++) {
		size_t keys[LAYERS] = { 0 };

		transient(&s, HEAD, 500 * KIB);
		for (int i = 0; i < 20; i++)
			decode(&s, keys, (100 + i) * KIB);
	}
	r = found(&s, &cache);
	assert_true(r.is_inference);
	assert_int_equal(cache, 4 * LAYERS * 119 * KIB);
	assert_int_equal(r.caches_kept, 3);
	assert_int_equal(r.cache_kept, 3 * LAYERS * 119 * KIB);
	assert_int_equal(r.cache, LAYERS * 119 * KIB);
	assert_int_equal(r.cache_token, LAYERS * KIB);
}

/* What was found in a prompt's call, which 20 tokens follow; `goes_on`: what follows is known. */
static struct live_inference in_prompt(int goes_on)
{
	struct scene s;
	size_t keys[LAYERS] = { 0 };
	struct live_inference r;
	struct history *until;
	struct lifetimes l;

	make(&s);
	s.info[KEYS].flags |= (uint32_t)HINT_KV_CACHE << STACK_HINT_SHIFT;
	span(&s, ACTIVITY_MODEL, 100, 90);
	decode(&s, keys, 100 * KIB);
	l = live_of(&s);
	until = history_copy(s.history);
	history_mark(s.history);
	for (int i = 1; i <= 20; i++)
		decode(&s, keys, (100 + i) * KIB);
	r = inference_live(&l, until, goes_on ? s.history : NULL, &s.spans, &s.tables);
	if (goes_on)
		assert_int_equal(series_calls(history_series(&s.history->stacks[KEYS])), 20);
	lifetimes_release(&l);
	history_free(until);
	history_free(s.history);
	return r;
}

static void calls_after_the_prompt_show_inference(void **state)
{
	(void)state;
	assert_true(in_prompt(1).is_inference);
	assert_false(in_prompt(0).is_inference);
}

/* The whole list of keys is made anew before the old one is freed. */
static void keys_that_were_copied_are_told(void **state)
{
	struct scene s;
	size_t old[LAYERS] = { 0 };
	struct live_inference r;
	bytes cache;

	(void)state;
	make(&s);
	span(&s, ACTIVITY_MODEL, 100, 90);
	for (int i = 0; i < 40; i++) {
		size_t next[LAYERS];

		call(&s);
		for (int k = 0; k < LAYERS; k++)
			next[k] = born(&s, KEYS, (100 + i) * KIB);
		for (int k = 0; i && i < 39 && k < LAYERS; k++)
			dies(&s, old[k]);
		memcpy(old, next, sizeof(old));
	}
	r = found(&s, &cache);
	assert_int_equal(cache, LAYERS * (138 + 139) * KIB);
	assert_int_equal(r.cache_copied, LAYERS * 138 * KIB);
	assert_int_equal(r.cache_token, LAYERS * KIB);
}

/* Of the size that PyTorch's cuBLAS asks for on an H100: 32 MiB
 * (aten/src/ATen/cuda/CublasHandlePool.cpp) */
static void the_workspace_of_cublas_stays(void **state)
{
	struct scene s;
	struct lifetimes l;

	(void)state;
	make(&s);
	span(&s, ACTIVITY_MODEL, 100, 90);
	born(&s, LAYER, 32 * KIB * KIB);
	for (int i = 0; i < 3; i++)
		call(&s);
	l = live_of(&s);
	assert_int_equal(l.count, 1);
	assert_int_equal(l.list[0].category, CATEGORY_WORKSPACES);
	lifetimes_release(&l);
	history_free(s.history);
}

/* What a call with gradients makes stays; the next call's end drops it. */
static void a_graph_without_a_backward_pass_is_unused(void **state)
{
	struct scene s;
	struct live_inference r;
	bytes cache;

	(void)state;
	make(&s);
	for (int i = 0; i < 4; i++) {
		size_t first = s.live_count;

		born(&s, FIRST, 100 * KIB);
		for (int k = 0; k < 8; k++) {
			born(&s, LAYER, 400 * KIB);
			born(&s, LAYER_OUT, 100 * KIB);
		}
		span(&s, ACTIVITY_MODEL, 20, 3);
		for (size_t k = first; i < 3 && k < s.live_count; k++)
			dies(&s, k);
		span(&s, ACTIVITY_MAIN, 0, 17);
	}
	r = found(&s, &cache);
	assert_true(r.is_inference);
	assert_true(r.keeps_graph);
	assert_int_equal(r.layers, 8);
	assert_int_equal(r.activations, 8 * 500 * KIB + 100 * KIB);
}

/* The first forward pass of a training job fails: nothing shows that no backward pass would have
 * come. */
static void a_first_forward_pass_may_train(void **state)
{
	struct scene s;
	bytes cache;

	(void)state;
	make(&s);
	born(&s, FIRST, 100 * KIB);
	for (int k = 0; k < 8; k++) {
		born(&s, LAYER, 400 * KIB);
		transient(&s, HEAD, 400 * KIB);
		born(&s, LAYER_OUT, 100 * KIB);
	}
	span(&s, ACTIVITY_MODEL, 25, 8);
	assert_false(found(&s, &cache).is_inference);
}

/* With the loss on a stack, the job is about to train. */
static void a_loss_rules_inference_out(void **state)
{
	struct scene s;
	bytes cache;

	(void)state;
	make(&s);
	s.info[HEAD].flags |= STACK_LOSS;
	span(&s, ACTIVITY_MODEL, 100, 90);
	for (int i = 0; i < 10; i++) {
		call(&s);
		transient(&s, HEAD, 200 * KIB);
	}
	assert_false(found(&s, &cache).is_inference);
}

static void a_backward_pass_rules_inference_out(void **state)
{
	struct scene s;
	bytes cache;

	(void)state;
	make(&s);
	span(&s, ACTIVITY_MODEL, 100, 90);
	for (int i = 0; i < 10; i++)
		call(&s);
	span(&s, ACTIVITY_BACKWARD, 10, 10);
	assert_false(found(&s, &cache).is_inference);
}

/* More blocks than marks: the clock of a time is at most a mark's distance off. */
static void the_clock_is_thinned_out(void **state)
{
	struct history *h = history_new(2);
	struct mt_record r = { .kind = MT_TENSOR_ALLOC, .stack = 1, .bytes = KIB };

	(void)state;
	for (r.time_ns = 1; r.time_ns <= 100000; r.time_ns++)
		history_add(h, &r);
	assert_int_equal(h->clock, 100000 * KIB);
	assert_true(h->mark_count <= HISTORY_MARKS);
	for (uint64_t at = 1000; at <= 100000; at += 1000)
		assert_in_range(history_clock(h, at), (at - 1 - h->every) * KIB, at * KIB);
	history_free(h);
}

/* A simulation of thirty rounds around a small network: `lines` of the job's own code keep a block
 * of each round. */
static int is_inference_around(uint32_t lines, bytes size)
{
	struct scene s;
	bytes cache;

	make(&s);
	for (uint32_t i = 0; i < lines; i++)
		s.info[KEYS - i].flags = STACK_FRAMES;
	for (int round = 0; round < 30; round++) {
		span(&s, ACTIVITY_MODEL, 2, 2);
		transient(&s, FIRST, 100 * KIB);
		transient(&s, HEAD, 100 * KIB);
		span(&s, ACTIVITY_MAIN, 5, 2);
		for (uint32_t i = 0; i < lines; i++) {
			transient(&s, KEYS - i, size);
			born(&s, KEYS - i, size);
		}
	}
	return found(&s, &cache).is_inference;
}

static void lines_that_keep_each_round_wait_for_a_backward_pass(void **state)
{
	(void)state;
	assert_false(is_inference_around(3, 100 * KIB));
	/* Two may be results; and so may three that are small beside what the model makes. */
	assert_true(is_inference_around(2, 100 * KIB));
	assert_true(is_inference_around(3, 10 * KIB));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_that_grow_are_a_cache),
		cmocka_unit_test(caches_of_earlier_requests_are_told_apart),
		cmocka_unit_test(calls_after_the_prompt_show_inference),
		cmocka_unit_test(keys_that_were_copied_are_told),
		cmocka_unit_test(the_workspace_of_cublas_stays),
		cmocka_unit_test(a_graph_without_a_backward_pass_is_unused),
		cmocka_unit_test(a_first_forward_pass_may_train),
		cmocka_unit_test(a_loss_rules_inference_out),
		cmocka_unit_test(a_backward_pass_rules_inference_out),
		cmocka_unit_test(lines_that_keep_each_round_wait_for_a_backward_pass),
		cmocka_unit_test(the_clock_is_thinned_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
