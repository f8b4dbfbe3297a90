/* The order of allocations in Megatron-LM's first step: the optimizer's states are allocated in the
 * blocks that it frees. The sequences are those of Megatron-core 0.16.1 with PyTorch 2.15 on the
 * simulated device: two ranks of tensor parallelism, h = 512, s = 1024, b = 4, v = 50432. */
#include "systems/memtrace.h"
#include "megatron/compiled.h"
#include "megatron/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "give.h"
#include "on_machine.h"

#define ROWS (4 * 1024)
#define WIDTH 512

static void give_job(struct config *c, int zero)
{
	config_init(c);
	GIVE(c, framework, xstrdup("megatron-core"));
	GIVE(c, arch, xstrdup("gpt"));
	GIVE(c, precision, xstrdup("bf16-mixed"));
	GIVE(c, attention, xstrdup("eager"));
	GIVE(c, torch_version, xstrdup("2.15.0"));
	GIVE(c, gpu, xstrdup("H100-80GB"));
	GIVE(c, num_layers, 2);
	GIVE(c, hidden_size, WIDTH);
	GIVE(c, num_attention_heads, 8);
	GIVE(c, seq_length, 1024);
	GIVE(c, micro_batch_size, 4);
	GIVE(c, vocab_size, 50432);
	GIVE(c, hidden_dropout, 0.1);
	GIVE(c, tensor_model_parallel_size, 2);
	GIVE(c, zero_stage, zero);
}

/* The events of a term in a phase of the first step, of blocks above 1 MiB: "+4194304 -4194304 …"
 */
static char *events_at(struct config *c, struct rank_coordinates at, const char *phase,
		       const char *term)
{
	struct err e = { 0 };
	char *text, *found = xcalloc(1, 1 << 16);
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (memtrace_run(c, at, f, NULL, NULL, &e))
		fail_msg("%s", e.text);
	fclose(f);
	for (char *rest, *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char sign, where[32], what[64];
		long long n;
		int step;

		assert_int_equal(
			sscanf(line, "%c %lld %*d %d %31s %63s", &sign, &n, &step, where, what), 5);
		if (step || n <= MIB || strcmp(where, phase) || strcmp(what, term) ||
		    strlen(found) > 1 << 15)
			continue;
		sprintf(found + strlen(found), "%c%lld ", sign, n);
	}
	free(text);
	config_release(c);
	return found;
}

static char *events_of(struct config *c, const char *phase, const char *term)
{
	return events_at(c, (struct rank_coordinates){ .at = { [AXIS_PP] = 0 } }, phase, term);
}

static void assert_masters(int zero, const char *expected)
{
	struct config c;
	char *found;

	give_job(&c, zero);
	found = events_of(&c, "initialization", "optimizer_states.master");
	assert_string_equal(found, expected);
	free(found);
}

/* Float16OptimizerWithFloat16Params goes through the model's parameters, the embedding first: a
 * bf16 copy and an fp32 copy of 25216 x 512, then of 1024 x 512 and of the layers. */
static void test_masters_in_the_models_order(void **state)
{
	(void)state;
	assert_masters(0,
		       "+25821184 +51642368 -25821184 +2097152 +1572864 +2097152 +2097152 +1572864 "
		       "+2097152 +2097152 ");
}

/* The distributed optimizer goes through its buffers, which are in reverse order. */
static void test_masters_of_the_distributed_optimizer(void **state)
{
	(void)state;
	assert_masters(1,
		       "+2097152 +2097152 +1572864 +2097152 +2097152 +1572864 +2097152 +25821184 "
		       "+51642368 -25821184 ");
}

static char *masters_at(struct rank_coordinates at, int context, int instances)
{
	struct config c;

	give_job(&c, 1);
	GIVE(&c, transformer_impl, xstrdup("transformer_engine"));
	free(c.attention);
	GIVE(&c, attention, xstrdup("flash"));
	GIVE(&c, data_parallel_size, 4 / context);
	GIVE(&c, context_parallel_size, context);
	GIVE(&c, num_distributed_optimizer_instances, instances);
	return events_at(&c, at, "initialization", "optimizer_states.master");
}

/* An instance has two consecutive ranks (intra_partial_dp_ranks_with_cp): ranks 0 and 1, then 2
 * and 3. The first has the beginning of the buffer, the layers; the second its end, most of the
 * embedding. */
static void test_shards_of_instances(void **state)
{
	char *found[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		found[i] = masters_at((struct rank_coordinates){ .at = { [AXIS_DP] = i } }, 1, 2);
	assert_string_equal(found[0], found[2]);
	assert_string_equal(found[1], found[3]);
	assert_string_not_equal(found[0], found[1]);
	for (int i = 0; i < 4; i++)
		free(found[i]);
}

/* The ranks of context parallelism are consecutive within data parallelism. */
static void test_shards_of_context_parallelism(void **state)
{
	char *data, *both;

	(void)state;
	for (int i = 0; i < 4; i++) {
		data = masters_at((struct rank_coordinates){ .at = { [AXIS_DP] = i } }, 1, 1);
		both = masters_at(
			(struct rank_coordinates){ .at = { [AXIS_DP] = i / 2, [AXIS_CP] = i % 2 } },
			2, 1);
		assert_string_equal(data, both);
		free(data);
		free(both);
	}
}

/* Embedded tokens, their sum with the positions, a copy in another layout, the mask and the result
 * of dropout. The variables of forward() live until it returns. */
static void test_embedding(void **state)
{
	struct config c;
	char *found;

	(void)state;
	give_job(&c, 0);
	found = events_of(&c, "forward", "activations.embedding");
	assert_memory_equal(
		found, "+4194304 +4194304 +4194304 -4194304 +2097152 +4194304 -4194304 -4194304 ",
		strlen("+4194304 +4194304 +4194304 -4194304 +2097152 +4194304 -4194304 -4194304 "));
	free(found);
}

static void keep_steady(const struct machine *machine, void *steady)
{
	*(int64_t *)steady = machine->steady.allocated;
}

static void check_steady(const char *key, int stage, int64_t rows, int64_t want)
{
	struct config c;
	struct err e = { 0 };
	int64_t steady = 0;

	give_job(&c, 0);
	GIVE(&c, attention_dropout, 0.1);
	GIVE(&c, tensor_model_parallel_size, !strcmp(key, "tp") ? 2 : 1);
	GIVE(&c, pipeline_model_parallel_size, !strcmp(key, "pp") ? 2 : 1);
	GIVE(&c, num_microbatches, 3);
	GIVE(&c, vocab_size, rows);
	if (memtrace_run(&c, (struct rank_coordinates){ .at = { [AXIS_PP] = stage } }, NULL,
			 keep_steady, &steady, &e))
		fail_msg("%s", e.text);
	assert_int_equal(steady, want);
	config_release(&c);
}

/* memory_allocated() after the third step of tests/jobs/declared.py with this configuration. It
 * includes tails that the allocator does not split off, so that it depends on the place of every
 * large block before. */
static void test_steady_to_the_byte(void **state)
{
	(void)state;
	check_steady("tp", 0, 50432, 333729280);
	check_steady("pp", 0, 25216, 368012800);
	check_steady("pp", 1, 25216, 367240704);
}

/* ---- kernels of torch.compile ---- */

static struct hparams hparams;
static struct megatron_rank rank;
static struct param bias;
static tensor x, residual;

static int start(void **state)
{
	start_machine(state);
	memset(&rank, 0, sizeof(rank));
	hparams = (struct hparams){ .hidden_dropout = 0.1 };
	rank.s = &hparams;
	m.family = &rank;
	m.constants.flush_buffer = 50 * MIB;
	m.constants.multiprocessors = 132;
	m.constants.threads = 132 * 2048;
	param_make(&m, &bias, 1, WIDTH, BF16, TERM_MLP_WEIGHTS);
	x = tensor_new(&m, ROWS * WIDTH, BF16);
	residual = tensor_new(&m, ROWS * WIDTH, BF16);
	machine_forget_peak(&m);
	return 0;
}

static int end(void **state)
{
	tensor_unref(&m, &x);
	tensor_unref(&m, &residual);
	tensor_unref(&m, &bias.value);
	tensor_unref(&m, &bias.grad);
	tape_free(&m, &tape);
	return end_machine(state);
}

static int64_t most(void)
{
	return allocator_totals(m.allocator)->peak_allocated;
}

static void run_backward(tensor *out)
{
	tensor gradient = tensor_new(&m, out->n, BF16);

	backward(&m, &tape, *out, gradient);
	tensor_unref(&m, out);
}

/* One result and no sum before it. The first run allocates and frees the buffer, the second does
 * not. */
static void test_activation(void **state)
{
	int64_t before = allocated();
	tensor out;

	(void)state;
	out = compiled_activation(&m, x, &bias, 0);
	assert_int_equal(allocated() - before, 4 * MIB);
	assert_int_equal(most() - before, 54 * MIB);
	run_backward(&out);
	allocator_reset_peaks(m.allocator);
	before = allocated();
	out = compiled_activation(&m, x, &bias, 0);
	assert_int_equal(most() - before, 4 * MIB);
	/* the gradients of result and input, 4 MiB each; the bias's gradient of 1 KiB, its partial
	 * sums of 4 x 512 bytes for 64 blocks of 128 threads, and their semaphores in 512 bytes */
	run_backward(&out);
	assert_int_equal(most() - before, 4 * MIB + 4 * MIB + 4 * MIB + 16 * MIB + 1024 + 512);
}

/* The mask, then the result. Megatron-LM has run this kernel at its start, with a bias and dropout
 * of 0.1. */
static void test_dropout(void **state)
{
	int64_t before = allocated();
	tensor out;

	(void)state;
	out = compiled_dropout_add(&m, &rank, x, &bias, residual);
	assert_int_equal(allocated() - before, 2 * MIB + 4 * MIB);
	assert_int_equal(most() - before, 6 * MIB);
	run_backward(&out);
	assert_int_equal(most() - before, 2 * MIB + 4 * MIB + 4 * MIB + 4 * MIB + 50 * MIB + 1024);
	allocator_reset_peaks(m.allocator);
	before = allocated();
	hparams.hidden_dropout = 0.2;
	out = compiled_dropout_add(&m, &rank, x, &bias, residual);
	assert_int_equal(most() - before, 6 * MIB + 50 * MIB);
	tensor_unref(&m, &out);
}

/* In the forward pass of a checkpointed layer the masks stay allocated until the layer returns. */
static void test_dropout_of_a_checkpointed_layer(void **state)
{
	int64_t before = allocated();
	tensor out;

	(void)state;
	m.no_grad = 1;
	out = compiled_dropout_add(&m, &rank, x, &bias, residual);
	tensor_unref(&m, &out);
	assert_int_equal(allocated() - before, 2 * MIB);
	assert_int_equal(rank.mask_count, 1);
	tensor_unref(&m, &rank.masks[0]);
	m.no_grad = 0;
}

#define COMPILED(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_masters_in_the_models_order),
		cmocka_unit_test(test_masters_of_the_distributed_optimizer),
		cmocka_unit_test(test_shards_of_instances),
		cmocka_unit_test(test_shards_of_context_parallelism),
		cmocka_unit_test(test_embedding),
		cmocka_unit_test(test_steady_to_the_byte),
		COMPILED(test_activation),
		COMPILED(test_dropout),
		COMPILED(test_dropout_of_a_checkpointed_layer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
