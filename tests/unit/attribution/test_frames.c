/* The rows of frames.def: a pattern that a forward pass can match makes no parameter. */
#include <string.h>

#include "fixture.h"

#include "attribution/attribution.h"
#include "attribution/frames.h"
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
		 hook = write_frame(&f->w, "keep", "/job/train.py", 3);
	uint32_t module = write_module(&f->w, "/x/torch/lib/libc10_cuda.so");
	uint32_t own = write_stack(&f->w, module, hook, closure, step, 0),
		 inner = write_stack(&f->w, module, step, closure, step, 0),
		 state_of = write_stack(&f->w, module, step, 0, 0, 0);

	fixture_event(f, MT_TENSOR_ALLOC, 1 << 20, MIB, own);
	fixture_report(f);
	assert_false(tables_stack_flags(&f->trace.tables, own) & STACK_OPTIMIZER);
	assert_false(tables_stack_info(&f->trace.tables, own)->tags & TAGGED(OPTIMIZER));
	assert_true(tables_stack_flags(&f->trace.tables, inner) & STACK_OPTIMIZER);
	assert_true(tables_stack_flags(&f->trace.tables, state_of) & STACK_OPTIMIZER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_forward_pass_makes_a_parameter),
		cmocka_unit_test_setup_teardown(a_closure_is_not_the_optimizers, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
