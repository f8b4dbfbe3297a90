/* The rows of frames.def: a pattern that a forward pass can match makes no parameter. */
#include <string.h>

#include "fixture.h"

#include "attribution/attribution.h"
#include "attribution/frames.h"
#include "attribution/stack_text.h"
#include "util/buf.h"
#include "util/glob.h"

static const struct row {
	const char *kind, *file, *function;
} rows[] = {
#define FLAG(flag, file, function)
#define HINT(hint, file, function) { #hint, file, function },
#define TAG(tag, file, function)
#define FRAME(kind, file, function)
#define SIGNATURE(key, value, file, function)
#include "attribution/frames.def"
#undef FLAG
#undef HINT
#undef TAG
#undef FRAME
#undef SIGNATURE
};

/* Functions on the stack of every forward pass: of a module of the model, of a tuner of PEFT around
 * it, of a quantised layer, and of torch.nn.Module itself. */
static const char *const forward[] = {
	"forward",
	"Linear.forward",
	"Linear4bit.forward",
	"PeftModel.forward",
	"BaseTuner.forward",
	"Module._call_impl",
	"LoraModel._enable_peft_forward_hooks",
	"Params4bit.__torch_function__",
	"LoraVariant.forward",
	"Linear._mixed_batch_forward",
	"PreTrainedModel.loss_function",
};

static void no_forward_pass_makes_a_parameter(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < ARRAY_SIZE(forward) && !strcmp(rows[i].kind, "PARAMETERS");
		     k++)
			if (str_matches((struct str){ forward[k], strlen(forward[k]) },
					rows[i].function))
				fail_msg("HINT(PARAMETERS, \"%s\", \"%s\") matches %s",
					 rows[i].file, rows[i].function, forward[k]);
}

/* A closure runs the forward pass, the backward pass and the job's hooks within the optimizer's
 * step, as Lightning does it: what these make is not the optimizer's. */
static void a_closure_is_not_the_optimizers(void **state)
{
	struct fixture *f = *state;
	uint32_t step = write_frame(&f->w, "Adam.step", "/x/torch/optim/adam.py", 1),
		 closure = write_frame(&f->w, "main.<locals>.closure", "/job/train.py", 2),
		 hook = write_frame(&f->w, "keep", "/job/train.py", 3),
		 any = write_frame(&f->w, "Optimizer.profile_hook_step.<locals>.wrapper",
				   "/x/torch/optim/optimizer.py", 4);
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so");
	uint32_t own = write_stack(&f->w, module, hook, closure, step, 0),
		 loss = write_stack(&f->w, module, hook, closure, any, 0),
		 inner = write_stack(&f->w, module, step, closure, step, 0),
		 state_of = write_stack(&f->w, module, step, 0, 0, 0);

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, own);
	fixture_report(f);
	assert_false(tables_stack_flags(&f->trace.tables, own) & STACK_OPTIMIZER);
	assert_false(tables_stack_info(&f->trace.tables, own)->tags & TAGGED(OPTIMIZER));
	assert_false(tables_stack_info(&f->trace.tables, loss)->tags & TAGGED(ANY_STEP));
	assert_true(tables_stack_flags(&f->trace.tables, inner) & STACK_OPTIMIZER);
	assert_true(tables_stack_flags(&f->trace.tables, state_of) & STACK_OPTIMIZER);
}

/* MultiheadAttention makes queries, keys and values in one product, of no Linear module: these are
 * no scores. */
static void a_projection_of_attention_is_linear(void **state)
{
	struct fixture *f = *state;
	uint32_t project = write_frame(&f->w, "_in_projection_packed", "/x/torch/nn/functional.py",
				       1),
		 attend = write_frame(&f->w, "multi_head_attention_forward",
				      "/x/torch/nn/functional.py", 2);
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so");
	uint32_t queries = write_stack(&f->w, module, project, attend, 0, 0),
		 scores = write_stack(&f->w, module, attend, 0, 0, 0);

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, queries);
	fixture_report(f);
	assert_true(tables_stack_info(&f->trace.tables, queries)->tags & TAGGED(LINEAR));
	assert_true(tables_stack_info(&f->trace.tables, queries)->tags & TAGGED(ATTENTION));
	assert_false(tables_stack_info(&f->trace.tables, scores)->tags & TAGGED(LINEAR));
}

/* accelerate puts a function named forward() in the place of a model's: it is no module of its own,
 * and no place of the job's. */
static void a_wrapper_is_not_the_modules_forward(void **state)
{
	struct fixture *f = *state;
	uint32_t model = write_frame(&f->w, "GPT2LMHeadModel.forward",
				     "/x/transformers/models/gpt2/modeling_gpt2.py", 700),
		 call = write_frame(&f->w, "ConvertOutputsToFp32.__call__",
				    "/x/accelerate/utils/operations.py", 931),
		 closure = write_frame(&f->w, "convert_outputs_to_fp32.<locals>.forward",
				       "/x/accelerate/utils/operations.py", 943),
		 module = write_frame(&f->w, "Module._call_impl",
				      "/x/site-packages/torch/nn/modules/module.py", 1798),
		 loss = write_frame(&f->w, "Trainer.compute_loss", "/x/transformers/trainer.py",
				    2164);
	uint32_t allocator = write_module(&f->w, "/x/torch/lib/libc10_cuda.so");
	uint32_t inside = write_stack(&f->w, allocator, model, call, closure, module),
		 around = write_stack(&f->w, allocator, call, closure, module, loss);
	struct buf path = { 0 }, label = { 0 };

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, inside);
	fixture_event(f, MT_TENSOR_ALLOC, 2 << 20, MIB, around);
	fixture_report(f);
	stack_add_module(&f->trace.tables, inside, &path);
	stack_add_label(&f->trace.tables, around, &label);
	assert_string_equal(path.text, "GPT2LMHeadModel");
	assert_string_equal(label.text, "Trainer.compute_loss  trainer.py:2164");
	buf_release(&path);
	buf_release(&label);
}

/* Names that people give to evaluations, and none of training. */
static void names_tell_an_evaluation(void **state)
{
	static const char *const evaluates[] = { "evaluate",      "Learner.evaluate", "eval_epoch",
						 "Job.eval_step", "evaluate_model",   "accuracy",
						 "top1_accuracy", "val_epoch" },
				 *const others[] = { "train_epoch", "retrieval", "step",
						     "evaluator" };
	struct fixture *f = *state;
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so"), stacks[12];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(evaluates) + ARRAY_SIZE(others); i++) {
		const char *name = i < ARRAY_SIZE(evaluates) ? evaluates[i]
							     : others[i - ARRAY_SIZE(evaluates)];

		stacks[n] = write_stack(&f->w, module,
					write_frame(&f->w, name, "/job/train.py", (uint32_t)i + 1),
					0, 0, 0);
		fixture_event(f, MT_TENSOR_ALLOC, (uint64_t)(i + 1) << 20, MIB, stacks[n++]);
	}
	fixture_report(f);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(
			!!(tables_stack_info(&f->trace.tables, stacks[i])->tags & TAGGED(EVALUATE)),
			i < ARRAY_SIZE(evaluates));
}

/* As Python 3.10 and PyTorch's snapshots name functions: a file tells the class, or any class will
 * do; a class that a row names for all files is not told. */
static void bare_names_are_those_of_methods(void **state)
{
	struct fixture *f = *state;
	uint32_t linear = write_frame(&f->w, "forward", "/x/torch/nn/modules/linear.py", 1),
		 own = write_frame(&f->w, "forward", "/job/model.py", 2),
		 call = write_frame(&f->w, "_call_impl", "/x/torch/nn/modules/module.py", 3),
		 made = write_frame(&f->w, "__init__", "/x/torch/nn/modules/linear.py", 4),
		 average = write_frame(&f->w, "step", "/x/diffusers/training_utils.py", 5),
		 llama = write_frame(&f->w, "forward",
				     "/x/transformers/models/llama/modeling_llama.py", 6);
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so");
	uint32_t in_linear = write_stack(&f->w, module, linear, call, own, 0),
		 in_own = write_stack(&f->w, module, own, call, own, 0),
		 in_init = write_stack(&f->w, module, made, 0, 0, 0),
		 within = write_stack(&f->w, module, linear, own, made, 0),
		 in_average = write_stack(&f->w, module, average, 0, 0, 0),
		 in_llama = write_stack(&f->w, module, llama, 0, 0, 0);
	struct buf path = { 0 };
	const struct tables *t;

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, in_linear);
	fixture_report(f);
	t = &f->trace.tables;
	assert_true(tables_stack_info(t, in_linear)->tags & TAGGED(LINEAR));
	assert_true(tables_stack_info(t, in_linear)->tags & TAGGED(MODEL));
	assert_false(tables_stack_info(t, in_own)->tags & (TAGGED(LINEAR) | TAGGED(ATTENTION)));
	assert_true(frame_is(t, own, FRAME_FORWARD));
	assert_true(tables_stack_flags(t, in_init) & STACK_INIT);
	/* A constructor may call a model: of a data set, of features for example. */
	assert_false(tables_stack_flags(t, within) & STACK_INIT);
	assert_int_equal(stack_hint(tables_stack_flags(t, in_init)), HINT_PARAMETERS);
	assert_int_equal(stack_hint(tables_stack_flags(t, in_average)), HINT_NOTHING);
	assert_true(tables_stack_flags(t, in_llama) & STACK_MODULE);
	for (size_t i = 0; i < signature_count; i++)
		if (!strcmp(signatures[i].key, "experts_implementation"))
			assert_false(t->signatures & UINT64_C(1) << i);
	stack_add_module(t, in_linear, &path);
	assert_string_equal(path.text, "linear");
	buf_release(&path);
}

/* Where other functions have qualified names, a bare one is no method. */
static void a_function_without_a_class_is_no_method(void **state)
{
	struct fixture *f = *state;
	uint32_t method = write_frame(&f->w, "GPT.forward", "/job/model.py", 1),
		 function = write_frame(&f->w, "forward", "/x/torch/nn/modules/linear.py", 2);
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so");
	uint32_t stack = write_stack(&f->w, module, function, method, 0, 0);

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, stack);
	fixture_report(f);
	assert_false(tables_stack_info(&f->trace.tables, stack)->tags & TAGGED(LINEAR));
}

/* transformers' caches: one takes a token in each call, the other has its whole length at once. */
static void only_a_dynamic_cache_grows(void **state)
{
	struct fixture *f = *state;
	const char *file = "/x/transformers/cache_utils.py";
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so");
	uint32_t layer = write_stack(&f->w, module,
				     write_frame(&f->w, "DynamicLayer.update", file, 1), 0, 0, 0),
		 cache = write_stack(&f->w, module,
				     write_frame(&f->w, "DynamicCache.update", file, 2), 0, 0, 0),
		 fixed = write_stack(&f->w, module,
				     write_frame(&f->w, "StaticLayer.lazy_initialization", file, 3),
				     0, 0, 0);

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, layer);
	fixture_report(f);
	assert_true(tables_stack_info(&f->trace.tables, layer)->tags & TAGGED(KV_GROWS));
	assert_true(tables_stack_info(&f->trace.tables, cache)->tags & TAGGED(KV_GROWS));
	assert_false(tables_stack_info(&f->trace.tables, fixed)->tags & TAGGED(KV_GROWS));
}

/* torchtune and gpt-fast allocate caches in a module of their own; so do jobs that follow them. */
static void a_class_may_be_a_cache(void **state)
{
	static const char *const made_by[] = { "KVCache.__init__", "KvCache.grow",
					       "Decoder.setup_caches", "Cache.__init__" };
	struct fixture *f = *state;
	uint32_t module = write_module(&f->w, "/torch/lib/libc10_cuda.so");
	uint32_t stacks[ARRAY_SIZE(made_by)];

	for (size_t i = 0; i < ARRAY_SIZE(made_by); i++) {
		stacks[i] = write_stack(
			&f->w, module, write_frame(&f->w, made_by[i], "/job/model.py", 2), 0, 0, 0);
		fixture_event(f, MT_TENSOR_ALLOC, (i + 1) << 21, MIB, stacks[i]);
	}
	/* Three of the four blocks. */
	assert_int_equal(fixture_replay(f, 1)->at_peak.by_category[CATEGORY_KV_CACHE], 3 * MIB);
}

/* A block of a U-Net that has attention and convolutions is named after the former. */
static void a_block_with_attention_does_not_attend(void **state)
{
	static const char *const attend[] = { "SelfAttn.forward", "CausalSelfAttn",
					      "flash_attn_func", "AttnProcessor2_0.__call__",
					      "LlamaSdpaAttention.forward" };
	struct fixture *f = *state;
	uint32_t module = write_module(&f->w, "/torch/lib/libc10_cuda.so");
	uint32_t block = write_stack(&f->w, module,
				     write_frame(&f->w, "AttnUpBlock2D.forward", "/job/unet.py", 1),
				     0, 0, 0);
	uint32_t stacks[ARRAY_SIZE(attend)];

	for (size_t i = 0; i < ARRAY_SIZE(attend); i++)
		stacks[i] = write_stack(&f->w, module,
					write_frame(&f->w, attend[i], "/job/unet.py", 2), 0, 0, 0);
	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, block);
	fixture_report(f);
	assert_false(tables_stack_info(&f->trace.tables, block)->tags & TAGGED(ATTENDS));
	for (size_t i = 0; i < ARRAY_SIZE(attend); i++)
		assert_true(tables_stack_info(&f->trace.tables, stacks[i])->tags & TAGGED(ATTENDS));
}

static uint32_t stack_of_file(struct fixture *f, uint32_t module, const char *function,
			      const char *file)
{
	static uint32_t line;

	return write_stack(&f->w, module, write_frame(&f->w, function, file, ++line), 0, 0, 0);
}

/* The model's name is the folder of its file: of several, that with most frames. */
static void a_folder_names_the_model(void **state)
{
	struct fixture *f = *state;
	const char *gpt2 = "/x/transformers/models/gpt2/modeling_gpt2.py";
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so"), stack;
	const struct signature named = { "model_type", "*", "*/transformers/models/*", "*" },
			       other = { "model_type", "*", "*/others/*", "*" };
	struct str folder;

	stack_of_file(f, module, "_BaseAutoModelClass.from_config",
		      "/x/transformers/models/auto/auto_factory.py");
	stack = stack_of_file(f, module, "GPT2Block.forward", gpt2);
	stack_of_file(f, module, "GPT2Attention.forward", gpt2);
	stack_of_file(f, module, "main", "/x/transformers/models");
	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, stack);
	fixture_report(f);
	folder = signature_folder(&f->trace.tables, &named);
	assert_int_equal(folder.length, 4);
	assert_memory_equal(folder.at, "gpt2", 4);
	assert_int_equal(signature_folder(&f->trace.tables, &other).length, 0);
}

/* GPT-2's layers are of no class of PyTorch's. */
static void a_conv1d_makes_parameters(void **state)
{
	struct fixture *f = *state;
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so");
	uint32_t made = stack_of_file(f, module, "Conv1D.__init__",
				      "/x/transformers/pytorch_utils.py"),
		 run = stack_of_file(f, module, "Conv1D.forward",
				     "/x/transformers/pytorch_utils.py");

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, made);
	fixture_report(f);
	assert_int_equal(stack_hint(tables_stack_flags(&f->trace.tables, made)), HINT_PARAMETERS);
	assert_int_equal(stack_hint(tables_stack_flags(&f->trace.tables, run)), HINT_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_class_may_be_a_cache, fixture_setup,
						fixture_teardown),
		cmocka_unit_test(no_forward_pass_makes_a_parameter),
		cmocka_unit_test_setup_teardown(a_closure_is_not_the_optimizers, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_projection_of_attention_is_linear, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_wrapper_is_not_the_modules_forward, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(names_tell_an_evaluation, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(bare_names_are_those_of_methods, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_function_without_a_class_is_no_method,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(a_block_with_attention_does_not_attend,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(only_a_dynamic_cache_grows, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_folder_names_the_model, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_conv1d_makes_parameters, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
