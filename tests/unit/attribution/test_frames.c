/* The rows of frames.def: a pattern that a forward pass can match makes no parameter. */
#include <string.h>

#include "fixture.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_forward_pass_makes_a_parameter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
