/* What the inference takes from a trace: parameters in their order, and the forward pass. */
#include "fixture.h"

#include "attribution/attribution.h"
#include "infer/alloc_profile.h"

static uint32_t stack_of(struct fixture *f, const char *function, const char *file,
			 const char *caller)
{
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so");

	return write_stack(&f->w, module, write_frame(&f->w, function, file, 1),
			   write_frame(&f->w, caller, "/job/train.py", 2), 0, 0);
}

static void take(struct fixture *f, struct alloc_profile *c)
{
	fixture_report(f);
	alloc_profile_take(c, &f->trace);
}

/* model.cuda() and then model.to(torch.bfloat16): what the second call replaces is freed. A layer's
 * norm is too small to have a stack. */
static void a_converted_model_counts_once(void **state)
{
	struct fixture *f = *state;
	const char *file = "/x/torch/nn/modules/module.py";
	uint32_t moved = stack_of(f, "Module._apply", file, "main");
	const bytes first[] = { 8 * MIB, 4096, 8 * MIB, 4096 };
	struct alloc_profile c;

	for (uint64_t i = 0; i < 4; i++)
		fixture_event(f, MT_TENSOR_ALLOC, (i + 1) << 32, first[i], i % 2 ? f->c10 : moved);
	for (uint64_t i = 0; i < 4; i++) {
		fixture_event(f, MT_TENSOR_ALLOC, (i + 1) << 40, first[i] / 2,
			      i % 2 ? f->c10 : moved);
		fixture_event(f, MT_TENSOR_FREE, (i + 1) << 32, first[i], moved);
	}
	take(f, &c);
	assert_int_equal(c.parameters[SOURCE_APPLY].count, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(c.parameters[SOURCE_APPLY].sizes[i], first[i] / 2);
	alloc_profile_release(&c);
}

/* Blocks of an evaluation have the sizes of its own batch. A job whose loop is in a function of
 * such a name has these alone. */
static void an_evaluation_is_no_training(void **state)
{
	struct fixture *f = *state;
	const char *file = "/x/transformers/models/gpt2/modeling_gpt2.py";
	uint32_t evaluated = stack_of(f, "GPT2Block.forward", file, "evaluate"),
		 trained = stack_of(f, "GPT2Attention.forward", file, "main");
	struct alloc_profile c;

	fixture_event(f, MT_TENSOR_ALLOC, UINT64_C(1) << 32, 8 * MIB, evaluated);
	fixture_event(f, MT_TENSOR_ALLOC, UINT64_C(2) << 32, 4 * MIB, trained);
	take(f, &c);
	assert_int_equal(c.forward.count, 1);
	assert_int_equal(c.forward.list[0].size, 4 * MIB);
	assert_string_equal(c.model_type, "gpt2");
	alloc_profile_release(&c);
}

static void a_loop_may_have_the_name_of_an_evaluation(void **state)
{
	struct fixture *f = *state;
	uint32_t evaluated = stack_of(f, "GPT.forward", "/job/model.py", "evaluate");
	struct alloc_profile c;

	fixture_event(f, MT_TENSOR_ALLOC, UINT64_C(1) << 32, 8 * MIB, evaluated);
	take(f, &c);
	assert_int_equal(c.forward.count, 1);
	assert_int_equal(c.forward.list[0].size, 8 * MIB);
	assert_string_equal(c.model_type, "");
	alloc_profile_release(&c);
}

/* The folder of a model's code, and the type that config.json has. */
static void a_folder_tells_the_model_type(void **state)
{
	static const struct {
		const char *file, *type;
	} cases[] = {
		{ "/x/transformers/models/gpt2/modeling_gpt2.py", "gpt2" },
		{ "/x/transformers/models/gemma3/modeling_gemma3.py", "gemma3_text" },
		{ "/x/transformers/models/xlm_roberta/modeling_xlm_roberta.py", "xlm-roberta" },
		{ "/x/transformers/models/no_such/modeling_no_such.py", "no_such" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct alloc_profile c;

		fixture_teardown(state);
		fixture_setup(state);
		fixture_event(*state, MT_TENSOR_ALLOC, UINT64_C(1) << 32, 8 * MIB,
			      stack_of(*state, "Block.forward", cases[i].file, "main"));
		take(*state, &c);
		assert_string_equal(c.model_type, cases[i].type);
		alloc_profile_release(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_converted_model_counts_once, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(an_evaluation_is_no_training, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_folder_tells_the_model_type, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_loop_may_have_the_name_of_an_evaluation,
						fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
