/* Programs that are put together at random: each question has an answer, and nothing is read beside
 * the text, which sanitizers would see. */
#include "source_job.h"

#include "../fuzz/inputs.h"
#include "source/computed.h"
#include "source/generated.h"
#include "source/last_token.h"
#include "source/optimizer_states.h"
#include "source/settings.h"
#include "source/summed.h"
#include "source/unoptimized.h"
#include "source/unrolled.h"

#define PROGRAMS 400
#define WORDS 120

static const char *const words[] = {
	"\n",
	"\n    ",
	"\n        ",
	"\n\t",
	" ",
	",",
	"(",
	")",
	"[",
	"]",
	"{",
	"}",
	":",
	"=",
	"+",
	"+=",
	"*",
	".",
	"'",
	"\"",
	"\"\"\"",
	"#",
	"\\",
	"if ",
	"elif ",
	"else",
	"for ",
	"in ",
	"while ",
	"with ",
	"def ",
	"class ",
	"return ",
	"not ",
	"lambda ",
	"self",
	"net",
	"head",
	"opt",
	"x",
	"params",
	"Adam",
	"SGD",
	"AdamW(",
	".parameters()",
	".named_parameters()",
	".step()",
	".backward()",
	".append(",
	".double()",
	".to(",
	"float64",
	"torch.no_grad()",
	"set_default_dtype(",
	"64-true",
	"sys.argv",
	"'--flag'",
	"add_argument(",
	"store_true",
	".startswith(",
	"[:, -1]",
	"-1",
	"momentum=0.9",
	"build_optimizer(",
	"DDP(",
	"'params':",
	"range(8)",
	"gradient_checkpointing=True",
	"\xff",
	"\r\n",
};

static void ask(struct job *j, uint32_t made)
{
	struct job_source *s = source(j);

	job_source_is_unoptimized(s, made);
	job_source_is_summed(s, made);
	job_source_is_unrolled(s, made);
	job_source_is_generated(s, made);
	job_source_takes_last(s, made);
	job_source_computes(s, made);
	job_source_recomputes(s);
	job_source_is_float64(s);
	job_source_states(s);
	job_source_infers(s);
	job_source_end(s);
}

static void any_program_can_be_asked(void **state)
{
	for (int i = 0; i < PROGRAMS; i++) {
		char text[WORDS * 32] = "net(x)  # CALL\n";
		struct job j;
		uint32_t made;

		for (int k = 0; k < WORDS; k++)
			strcat(text, words[random_number(ARRAY_SIZE(words))]);
		begin(&j, *state, text);
		made = call(&j, "# CALL");
		/* Any line may be on a stack. */
		for (size_t k = 1; k < j.tables.frame_count; k++)
			j.frames[k].line = 1 + (uint32_t)random_number(40);
		ask(&j, made);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { IN_DIRECTORY(any_program_can_be_asked) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
