/* Caches of keys and values, by the lives of their blocks. */
#include "steps_job.h"

/* A stack of transformers' cache, under the model. */
static uint32_t cache_stack(struct fixture *f)
{
	return stack(f,
		     write_frame(&f->w, "DynamicLayer.update",
				 "/p/site-packages/transformers/cache_utils.py", 1),
		     write_frame(&f->w, "Net.forward", "/job/net.py", 3),
		     write_frame(&f->w, "main", "/job/train.py", 10));
}

/* Six calls without a backward pass, and without torch.no_grad() on a stack: keys that each call
 * replaces by larger ones are a cache. */
static void a_cache_that_grows_is_one_without_no_grad(void **state)
{
	struct fixture *f = *state;
	uint32_t update = cache_stack(f);
	uint64_t keys = 0;

	for (bytes call = 1; call <= 6; call++) {
		uint64_t x = make(f, f->input, MIB), a = make(f, f->model, 2 * MIB),
			 grown = make(f, update, 4 * call * MIB);

		if (keys)
			drop(f, update, keys, 4 * (call - 1) * MIB);
		keys = grown;
		drop(f, f->model, a, 2 * MIB);
		drop(f, f->input, x, MIB);
	}
	assert_int_equal(of(run(f), CATEGORY_KV_CACHE), 24 + 20);
}

/* copy.deepcopy(model.state_dict()): keys that a pass has made may have the size of a parameter. */
static void copies_of_a_models_state_are_no_cache(void **state)
{
	struct fixture *f = *state;
	uint32_t copy = stack(f, write_frame(&f->w, "deepcopy", "/usr/lib/python3.11/copy.py", 2),
			      write_frame(&f->w, "main", "/job/train.py", 30), 0);

	make(f, f->setup, 4 * MIB);
	make(f, copy, 4 * MIB);
	make(f, cache_stack(f), 4 * MIB);
	assert_int_equal(fixture_replay(f, 1)->at_peak.by_category[CATEGORY_KV_CACHE], 0);
}

/* Two layers of a cache, and a copy of one for another answer; a copy of another size is none. */
static void copies_of_a_cache_are_a_cache(void **state)
{
	struct fixture *f = *state;
	uint32_t module = write_module(&f->w, "/torch/lib/libc10_cuda.so");
	uint32_t cache = write_stack(&f->w, module,
				     write_frame(&f->w, "DynamicLayer.update",
						 "/x/transformers/cache_utils.py", 1),
				     0, 0, 0),
		 copy = write_stack(
			 &f->w, module,
			 write_frame(&f->w, "deepcopy", "/usr/lib/python3.11/copy.py", 2),
			 write_frame(&f->w, "answers", "/job/tree.py", 3), 0, 0);

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 21, MIB, cache);
	fixture_event(f, MT_TENSOR_ALLOC, 2 << 21, MIB, cache);
	fixture_event(f, MT_TENSOR_ALLOC, 3 << 21, MIB, copy);
	fixture_event(f, MT_TENSOR_ALLOC, 4 << 21, MIB / 2, copy);
	assert_int_equal(fixture_replay(f, 1)->at_peak.by_category[CATEGORY_KV_CACHE], 3 * MIB);
}

/* The first call, without torch.no_grad() on a stack: four layers leave keys, and nothing else. */
static void a_cache_of_many_layers_alone_is_one_without_no_grad(void **state)
{
	struct fixture *f = *state;
	uint32_t update = cache_stack(f);

	make(f, f->setup, 4 * MIB);
	make(f, f->input, MIB);
	for (int layer = 0; layer < 4; layer++) {
		uint64_t a = make(f, f->model, 32 * MIB);

		make(f, update, 8 * MIB);
		drop(f, f->model, a, 32 * MIB);
	}
	make(f, f->model, 64 * MIB);
	assert_int_equal(of(run(f), CATEGORY_KV_CACHE), 32);
}

/* The same beside what a graph keeps: keys of a training that does not switch the cache off. */
static void a_cache_beside_a_graph_is_of_activations(void **state)
{
	struct fixture *f = *state;
	uint32_t update = cache_stack(f);

	make(f, f->setup, 4 * MIB);
	make(f, f->input, MIB);
	for (int layer = 0; layer < 4; layer++) {
		make(f, f->model, 32 * MIB);
		make(f, update, 8 * MIB);
	}
	assert_int_equal(of(run(f), CATEGORY_KV_CACHE), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_cache_that_grows_is_one_without_no_grad),
		CASE(a_cache_of_many_layers_alone_is_one_without_no_grad),
		CASE(a_cache_beside_a_graph_is_of_activations),
		CASE(copies_of_a_cache_are_a_cache),
		CASE(copies_of_a_models_state_are_no_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
