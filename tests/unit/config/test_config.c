/* The set of fields: values and their limits, merging, deriving, contradictions, counting. Expected
 * values are worked out by hand. */
#include "config_fixture.h"
#include "util/buf.h"
#include "patterns/layer_pattern.h"
#include "render/config_show.h"
#include "config/pipeline_layout.h"
#include "readers/native.h"
#include "readers/derive.h"
#include "config/parameter_count.h"

/* "a=1 b=2" */
static int set_all(const char *pairs)
{
	char text[1024], *save = NULL;

	snprintf(text, sizeof(text), "%s", pairs);
	for (char *pair = strtok_r(text, " ", &save); pair; pair = strtok_r(NULL, " ", &save)) {
		char *equals = strchr(pair, '=');

		*equals = 0;
		if (config_set(&config, pair, equals + 1, "--set", &why))
			return -1;
	}
	return 0;
}

static void assert_message(const char *const *parts)
{
	for (; *parts; parts++)
		if (!strstr(why.text, *parts))
			fail_msg("\"%s\" does not name %s", why.text, *parts);
}

static void every_field_is_found_by_its_name(void **state)
{
	(void)state;
	for (int f = 0; f < CONFIG_FIELDS; f++) {
		assert_int_equal(config_find(config_name(f)), f);
		assert_true(strlen(config_help(f)) > 3);
		assert_false(config_has(&config, f));
	}
	assert_int_equal(config_find("no_such_field"), -1);
}

/* Every field rejects a wrong value, names the values that it accepts, and keeps its old value. */
static void every_field_refuses_malformed_values(void **state)
{
	static const char *const numbers[] = { "",      "x",    "12abc",
					       "nan",   "inf",  "-5",
					       "1e300", "0x10", "true",
					       "[1]",   "{}",   "1 2",
					       " ",     "--",   "99999999999999999999" };

	(void)state;
	for (int f = 0; f < CONFIG_FIELDS; f++) {
		const char *type = config_type(f);

		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
			if (!strcmp(type, "TEXT") ||
			    (!strcmp(type, "BOOL") && !strcmp(numbers[i], "true")))
				continue;
			memset(&why, 0, sizeof(why));
			assert_int_equal(
				config_set(&config, config_name(f), numbers[i], "job.json:7", &why),
				-1);
			assert_non_null(strstr(why.text, config_name(f)));
			assert_non_null(strstr(why.text, "job.json:7"));
			assert_non_null(strstr(why.text, "must be"));
			assert_false(config_has(&config, f));
		}
	}
}

static void sizes_are_not_zero(void **state)
{
	static const char *const sizes[] = { "num_layers",
					     "hidden_size",
					     "num_attention_heads",
					     "seq_length",
					     "vocab_size",
					     "tensor_model_parallel_size",
					     "pipeline_model_parallel_size",
					     "context_parallel_size",
					     "data_parallel_size",
					     "world_size",
					     "micro_batch_size",
					     "num_microbatches",
					     "global_batch_size" };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(&why, 0, sizeof(why));
		assert_int_equal(config_set(&config, sizes[i], "0", "--set", &why), -1);
		assert_non_null(strstr(why.text, "from 1 to"));
	}
}

static void values_have_one_form(void **state)
{
	(void)state;
	assert_int_equal(
		set_all("reduce_bucket_size=5e8 swiglu=True normalization=rmsnorm recompute_modules=['core_attn','mlp']"),
		0);
	assert_int_equal(config.reduce_bucket_size, 500000000);
	assert_true(config.swiglu);
	assert_string_equal(config.normalization, "RMSNorm");
	assert_string_equal(config.recompute_modules, "core_attn,mlp");
	/* "none", if it is no choice of the field, unsets it. */
	assert_int_equal(
		set_all("recompute_granularity=full recompute_granularity=none offload_param=none"),
		0);
	assert_false(config_has(&config, CONFIG_recompute_granularity));
	assert_string_equal(config.offload_param, "none");
}

/* The results of Megatron-core 0.16.1's parse_str_to_list() for its own examples. */
static void layouts_of_stages(void **state)
{
	static const struct {
		const char *values;
		int64_t count, first[3], layers[3], mtp;
	} cases[] = {
		{ "pipeline_model_parallel_layout=Ettt|(tt|)*29,m|L num_layers=61 mtp_num_layers=1 pipeline_model_parallel_size=16",
		  32,
		  { 0, 3, 5 },
		  { 3, 2, 2 },
		  0 },
		{ "pipeline_model_parallel_layout=Et*3|(tt|)*6mL num_layers=15 mtp_num_layers=1 pipeline_model_parallel_size=2",
		  8,
		  { 0, 3, 5 },
		  { 3, 2, 2 },
		  1 },
		{ "pipeline_model_parallel_layout=E|(t|tt)*2|L num_layers=6 pipeline_model_parallel_size=1",
		  5,
		  { 0, 0, 1 },
		  { 0, 1, 3 },
		  0 },
	};
	struct stages stages;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		config_release(&config);
		config_init(&config);
		assert_int_equal(set_all(cases[i].values), 0);
		assert_int_equal(config_stages(&config, &stages, &why), 0);
		assert_int_equal(stages.count, cases[i].count);
		for (int k = 0; k < 3; k++) {
			assert_int_equal(stages.at[k].first, cases[i].first[k]);
			assert_int_equal(stages.at[k].layers, cases[i].layers[k]);
		}
		assert_int_equal(stages.at[stages.count - 1].mtp, cases[i].mtp);
	}
}

static void an_unknown_name_suggests_the_nearest(void **state)
{
	(void)state;
	assert_int_equal(config_set(&config, "num_layer", "3", "--set", &why), -1);
	assert_non_null(strstr(why.text, "\"num_layers\"?"));
}

/* Every Megatron-core argument in snake case is accepted; one without effect gives no note. */
static void megatron_arguments_are_keys(void **state)
{
	(void)state;
	assert_int_equal(
		set_all("disable_bias_linear=true adam_beta1=0.9 num_virtual_stages_per_pipeline_rank=2 bf16=true"),
		0);
	assert_true(config_has(&config, CONFIG_add_bias_linear));
	assert_false(config.add_bias_linear);
	assert_int_equal(config.virtual_pipeline_model_parallel_size, 2);
	assert_string_equal(config.precision, "bf16-mixed");
	assert_int_equal(config.note_count, 0);
}

static void patterns(void **state)
{
	static const struct {
		const char *text, *is;
	} cases[] = {
		{ "1", "1" },
		{ "2", "2" },
		{ "[0,1,1]", "[0,1,1]" },
		{ "([0]*1+[1]*2)", "[0,1,1]" },
		{ " ( [0] * 1 + [1,0] * 2 )", "[0,1,0,1,0]" },
		{ "3*[1]", "[1,1,1]" },
		{ "[1]*(2)", "[1,1]" },
		{ "", NULL },
		{ "0", NULL },
		{ "[2]", NULL },
		{ "[0,1", NULL },
		{ "([0,1]", NULL },
		{ "(", NULL },
		{ "[1]*99999999", NULL },
		{ "[1]+2", NULL },
		{ "((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))",
		  NULL },
		{ "[1] x", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *is = layer_pattern(cases[i].text);

		if (!is != !cases[i].is || (is && strcmp(is, cases[i].is)))
			fail_msg("%s is %s, not %s", cases[i].text, is ? is : "refused",
				 cases[i].is ? cases[i].is : "refused");
		free(is);
	}
	assert_int_equal(set_all("num_experts=8 moe_layer_freq=[0,1,1]"), 0);
	assert_int_equal(config_moe_layer(&config, 0), 0);
	assert_int_equal(config_moe_layer(&config, 2), 1);
	assert_int_equal(config_moe_layer(&config, 3), 0);
	assert_int_equal(set_all("moe_layer_freq=3"), 0);
	assert_int_equal(config_moe_layer(&config, 3), 1);
	assert_int_equal(config_moe_layer(&config, 4), 0);
}

static void layouts_are_derived(void **state)
{
	(void)state;
	assert_int_equal(
		set_all("world_size=64 tensor_model_parallel_size=4 pipeline_model_parallel_size=2 context_parallel_size=2 "
			"micro_batch_size=2 global_batch_size=128 num_layers=16 num_layers_per_virtual_pipeline_stage=2 "
			"vocab_size=50257 make_vocab_size_divisible_by=128"),
		0);
	assert_int_equal(config_derive(&config, &why), 0);
	assert_int_equal(config.data_parallel_size, 4);                   /* 64 / 16 */
	assert_int_equal(config.num_microbatches, 16);                    /* 128 / (2 x 4) */
	assert_int_equal(config.virtual_pipeline_model_parallel_size, 4); /* 16 / 2 / 2 */
	assert_int_equal(config.padded_vocab_size, 50688);                /* 99 x 512 */
	assert_true(config_is_derived(&config, CONFIG_data_parallel_size));
	/* The same fields, derived again after a change. */
	assert_int_equal(set_all("tensor_model_parallel_size=8"), 0);
	assert_int_equal(config_derive(&config, &why), 0);
	assert_int_equal(config.data_parallel_size, 2);
	assert_int_equal(config.num_microbatches, 32);
	assert_int_equal(config.padded_vocab_size, 51200);
}

static void contradictions_stop(void **state)
{
	static const struct {
		const char *set;
		const char *parts[4];
	} cases[] = {
		{ "world_size=8 tensor_model_parallel_size=2 data_parallel_size=2",
		  { "world_size 8", "= 4" } },
		{ "world_size=10 tensor_model_parallel_size=4",
		  { "world_size 10", "not a multiple", "= 4" } },
		{ "global_batch_size=64 micro_batch_size=2 data_parallel_size=4 num_microbatches=4",
		  { "global_batch_size 64", "= 32" } },
		{ "zero_stage=1 fsdp=true", { "zero_stage 1", "fsdp" } },
		{ "zero_stage=0 use_distributed_optimizer=true",
		  { "zero_stage 0", "use_distributed_optimizer" } },
		{ "num_microbatches=2 gradient_accumulation_steps=4",
		  { "num_microbatches 2", "gradient_accumulation_steps 4" } },
		{ "num_layers=10 pipeline_model_parallel_size=4 num_layers_per_virtual_pipeline_stage=2",
		  { "num_layers 10" } },
		{ "world_size=1 tensor_model_parallel_size=1000000 pipeline_model_parallel_size=1000000 context_parallel_size=1000000 "
		  "data_parallel_size=100000000",
		  { "world_size 1" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		config_release(&config);
		memset(&why, 0, sizeof(why));
		assert_int_equal(set_all(cases[i].set), 0);
		if (!config_derive(&config, &why))
			fail_msg("accepted: %s", cases[i].set);
		assert_message(cases[i].parts);
	}
}

static void layouts_must_divide(void **state)
{
	static const struct {
		const char *set;
		const char *parts[4];
	} cases[] = {
		{ "hidden_size=100 num_attention_heads=12",
		  { "hidden_size 100", "num_attention_heads 12" } },
		{ "hidden_size=96 num_attention_heads=12 num_query_groups=5",
		  { "num_attention_heads 12", "num_query_groups 5" } },
		{ "num_attention_heads=12 tensor_model_parallel_size=8",
		  { "num_attention_heads 12", "tensor_model_parallel_size 8" } },
		{ "num_attention_heads=12 num_query_groups=3 tensor_model_parallel_size=4",
		  { "num_query_groups 3" } },
		{ "num_layers=10 pipeline_model_parallel_size=4",
		  { "num_layers 10", "pipeline_model_parallel_size 4" } },
		{ "num_layers=10 pipeline_model_parallel_size=4 decoder_first_pipeline_num_layers=3",
		  { "7 layers on 3 stages" } },
		{ "num_layers=16 pipeline_model_parallel_size=4 virtual_pipeline_model_parallel_size=3",
		  { "4 layers", "size 3" } },
		{ "seq_length=100 context_parallel_size=4",
		  { "seq_length 100", "context_parallel_size 4" } },
		{ "seq_length=1001 tensor_model_parallel_size=2 sequence_parallel=true",
		  { "seq_length 1001" } },
		{ "ffn_hidden_size=1001 tensor_model_parallel_size=2", { "ffn_hidden_size 1001" } },
		{ "num_experts=6 expert_model_parallel_size=4",
		  { "num_experts 6", "expert_model_parallel_size 4" } },
		{ "num_experts=2 moe_router_topk=4", { "moe_router_topk 4", "num_experts 2" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		config_release(&config);
		memset(&why, 0, sizeof(why));
		assert_int_equal(set_all(cases[i].set), 0);
		/* The native format accepts it; a framework rejects it. */
		assert_int_equal(config_derive(&config, &why), 0);
		if (!config_check_layout(&config, &why))
			fail_msg("accepted: %s", cases[i].set);
		assert_message(cases[i].parts);
	}
}

static void parameters_of_gpt2(void **state)
{
	int64_t total, largest;

	(void)state;
	assert_int_equal(config_count_parameters(&config, &total, &largest, &why), -1);
	memset(&why, 0, sizeof(why));
	assert_int_equal(
		set_all("arch=gpt num_layers=12 hidden_size=768 num_attention_heads=12 vocab_size=50257 max_position_embeddings=1024 "
			"position_embedding_type=learned_absolute"),
		0);
	assert_int_equal(config_count_parameters(&config, &total, &largest, &why), 0);
	/* 12 (12 h^2 + 13 h) + (50257 + 1024) h + 2 h */
	assert_int_equal(total, 124439808);
	assert_int_equal(largest, 50257 * 768);
}

/* By hand: h = 256, queries and keys 64, values 256 wide. A gated delta net has 256 (2 64 + 2 256 +
 * 2 4) + 4 (2 64 + 256) + 2 4 + 64 + 256^2 = 233032, attention with a gate 256 (2 256 + 2 128) +
 * 256^2 = 262144. */
static void parameters_of_delta_nets(void **state)
{
	static const char *const freqs[] = { "4", "[1,1,0,1]", "[1]*2+[0]+[1]" };
	int64_t total, largest;
	char freq[64];

	(void)state;
	assert_int_equal(
		set_all("arch=llama num_layers=4 hidden_size=256 num_attention_heads=4 num_query_groups=2 ffn_hidden_size=512 vocab_size=1000 "
			"position_embedding_type=rope experimental_attention_variant=gated_delta_net linear_conv_kernel_dim=4 "
			"linear_key_head_dim=32 linear_value_head_dim=64 linear_num_key_heads=2 linear_num_value_heads=4 "
			"attention_output_gate=true"),
		0);
	for (size_t i = 0; i < sizeof(freqs) / sizeof(freqs[0]); i++) {
		snprintf(freq, sizeof(freq), "linear_attention_freq=%s", freqs[i]);
		assert_int_equal(set_all(freq), 0);
		assert_int_equal(config_count_parameters(&config, &total, &largest, &why), 0);
		assert_int_equal(total, 3 * 233032 + 262144 + 4 * 3 * 256 * 512 + 9 * 256 +
						2 * 1000 * 256);
	}
	assert_int_equal(config_linear_layer(&config, 1), 1);
	assert_int_equal(config_linear_layer(&config, 2), 0);
	assert_int_equal(config_linear_layer(&config, 3), 1);
	assert_int_equal(set_all("linear_attention_freq=1"), 0);
	assert_int_equal(config_linear_layer(&config, 0), 0);
}

static void copies_are_deep(void **state)
{
	struct config copy;

	(void)state;
	config_init(&copy);
	assert_int_equal(set_all("num_layers=3 precision=bf16 moe_layer_freq=2"), 0);
	config_note(&config, "a note");
	config_note(&config, "a note");
	config_copy(&copy, &config);
	config_unset(&config, CONFIG_precision);
	assert_int_equal(copy.num_layers, 3);
	assert_string_equal(copy.precision, "bf16");
	assert_int_equal(copy.note_count, 1);
	config_release(&copy);
}

static void shows_key_value_source(void **state)
{
	struct buf b = { 0 };

	(void)state;
	assert_int_equal(set_all("num_layers=3 clip_grad=0.5 swiglu=on"), 0);
	config_show(&config, &b);
	assert_non_null(strstr(b.text, "num_layers                                   3"));
	assert_non_null(strstr(b.text, "0.5"));
	assert_non_null(strstr(b.text, "true"));
	assert_non_null(strstr(b.text, "--set"));
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_field_is_found_by_its_name),
		T(every_field_refuses_malformed_values),
		T(sizes_are_not_zero),
		T(layouts_of_stages),
		T(values_have_one_form),
		T(an_unknown_name_suggests_the_nearest),
		T(megatron_arguments_are_keys),
		T(patterns),
		T(layouts_are_derived),
		T(contradictions_stop),
		T(layouts_must_divide),
		T(parameters_of_gpt2),
		T(parameters_of_delta_nets),
		T(copies_are_deep),
		T(shows_key_value_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
