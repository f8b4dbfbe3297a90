/* The terms' functions: exact at the limits of their inputs, fast, and safe beyond the limits. */
#include "estimate/inputs.h"
#include "estimate/fit.h"
#include "systems/deepspeed_zero.h"
#include "systems/llama_4d.h"
#include "systems/nanogpt.h"
#include "systems/systems.h"
#include "systems/training_memory_blog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "give.h"

static void give_shape(struct config *c, int64_t layers, int64_t width, int64_t ffn, int64_t heads,
		       int64_t tokens, int64_t batch, int64_t rows)
{
	config_init(c);
	GIVE(c, num_layers, layers);
	GIVE(c, hidden_size, width);
	GIVE(c, ffn_hidden_size, ffn);
	GIVE(c, num_attention_heads, heads);
	GIVE(c, seq_length, tokens);
	GIVE(c, micro_batch_size, batch);
	GIVE(c, vocab_size, rows);
	GIVE(c, num_parameters, MAX_PARAMETERS);
	GIVE(c, total_params, MAX_PARAMETERS);
	GIVE(c, largest_layer_params, MAX_PARAMETERS);
	GIVE(c, zero_stage, 1);
}

static void give_layout(struct config *c, int64_t t, int64_t p, int64_t cp, int64_t d)
{
	GIVE(c, tensor_model_parallel_size, t);
	GIVE(c, pipeline_model_parallel_size, p);
	GIVE(c, context_parallel_size, cp);
	GIVE(c, data_parallel_size, d);
}

static void add_up(const struct system *s, const struct config *c)
{
	struct estimate made;
	struct err e = { 0 };
	wide sum = 0;

	if (estimate_make(&made, s, c, 1, &e) && !strstr(e.text, "8 EiB"))
		fail_msg("%s: %s", s->name, e.text);
	for (size_t i = 0; i < s->term_count; i++) {
		assert_true(made.bytes[i] >= 0);
		assert_true(made.bytes[i] == s->terms[i].of(&made.dims));
		sum += made.bytes[i];
	}
	assert_true(sum == made.total && sum > 0);
	for (size_t i = 0; i < made.result_count; i++)
		assert_true(made.results[i].number >= 0);
	for (size_t i = 0; i < made.stage_count; i++)
		assert_true(made.stages[i].total > 0);
	estimate_release(&made);
}

/* Every product of the largest inputs fits; UndefinedBehaviorSanitizer checks it. An estimate
 * beyond 8 EiB is computed and then refused. */
static void nothing_overflows(void **state)
{
	static const int64_t layouts[][4] = {
		{ 1, 1, 1, 1 },
		{ MAX_RANKS, MAX_LAYERS, MAX_RANKS, MAX_RANKS },
		{ 7, 9999, 11, 13 },
		{ 1, MAX_LAYERS, 1, 1 },
	};
	static const char *const variants[] = { "none", "printed", "consistent" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(layouts) * ARRAY_SIZE(variants); i++) {
		const int64_t *layout = layouts[i % ARRAY_SIZE(layouts)];
		struct config c;

		give_shape(&c, MAX_LAYERS, MAX_WIDTH, MAX_FFN, MAX_HEADS, MAX_TOKENS, MAX_BATCH,
			   MAX_ROWS);
		give_layout(&c, layout[0], layout[1], layout[2], layout[3]);
		GIVE(&c, bytes_low, 8);
		GIVE(&c, bytes_high, 8);
		GIVE(&c, grad_bytes, 4);
		GIVE(&c, activation_checkpoint_factor, 9999.999);
		GIVE(&c, additional_buffer_factor, 999999.999);
		GIVE(&c, gqa_variant, xstrdup(variants[i / ARRAY_SIZE(layouts)]));
		GIVE(&c, num_gpus_per_node, layout[3]);
		GIVE(&c, num_nodes, layout[2]);
		add_up(&training_memory_blog, &c);
		add_up(&nanogpt, &c);
		add_up(&llama_4d, &c);
		for (int zero = 2; zero <= 3; zero++) {
			GIVE(&c, zero_stage, zero);
			add_up(&deepspeed_zero, &c);
		}
		config_release(&c);
	}
}

static void refused(const struct system *s, const struct config *c, const char *key)
{
	struct estimate made;
	struct err e = { 0 };

	assert_int_equal(estimate_make(&made, s, c, 1, &e), -1);
	if (!strstr(e.text, key))
		fail_msg("\"%s\" does not name %s", e.text, key);
	estimate_release(&made);
}

static void beyond_the_limits_is_refused(void **state)
{
	static const int64_t wrong[] = { INT64_MIN, -1, 0, (int64_t)1 << 40, INT64_MAX };
	struct config c;

	(void)state;
	give_shape(&c, 32, 4096, 14336, 32, 8192, 1, 128256);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
#define REFUSED(field, good)            \
	GIVE(&c, field, wrong[i]);      \
	refused(&llama_4d, &c, #field); \
	GIVE(&c, field, good);
		REFUSED(num_layers, 32)
		REFUSED(hidden_size, 4096)
		REFUSED(ffn_hidden_size, 14336)
		REFUSED(num_attention_heads, 32)
		REFUSED(num_query_groups, 32)
		REFUSED(seq_length, 8192)
		REFUSED(micro_batch_size, 1)
		REFUSED(vocab_size, 128256)
		REFUSED(tensor_model_parallel_size, 1)
		REFUSED(pipeline_model_parallel_size, 1)
		REFUSED(context_parallel_size, 1)
		REFUSED(data_parallel_size, 1)
#undef REFUSED
	}
	add_up(&llama_4d, &c);
	config_release(&c);
}

static void ratios_are_exact_or_refused(void **state)
{
	struct config c;

	(void)state;
	give_shape(&c, 1, 1, 1, 1, 1, 1, 1);
	GIVE(&c, activation_checkpoint_factor, 0.0 / 0.0);
	refused(&training_memory_blog, &c, "activation_checkpoint_factor");
	GIVE(&c, activation_checkpoint_factor, 1e300);
	refused(&training_memory_blog, &c, "activation_checkpoint_factor");
	GIVE(&c, activation_checkpoint_factor, 0.5);
	refused(&training_memory_blog, &c, "activation_checkpoint_factor");
	config_release(&c);
}

static void division_rounds_to_nearest(void **state)
{
	wide large = (wide)1 << 100;

	(void)state;
	assert_true(divide(0, 7) == 0);
	assert_true(divide(3, 7) == 0);
	assert_true(divide(4, 7) == 1);
	assert_true(divide(1, 2) == 1);
	assert_true(divide(INT64_MAX, 1) == INT64_MAX);
	assert_true(divide(INT64_MAX, INT64_MAX) == 1);
	assert_true(divide(large * 3 + 1, 2) == large / 2 * 3 + 1);
	assert_true(divide(large, large - 1) == 1);
}

static void wide_numbers_are_printed(void **state)
{
	char text[48];

	(void)state;
	assert_string_equal(wide_text(0, text), "0");
	assert_string_equal(wide_text(-1, text), "-1");
	assert_string_equal(wide_text(INT64_MIN, text), "-9223372036854775808");
	assert_string_equal(wide_text((wide)1 << 100, text), "1267650600228229401496703205376");
	assert_string_equal(wide_text(-((wide)1 << 126) * 2, text),
			    "-170141183460469231731687303715884105728");
}

static void rule_of_80_percent(void **state)
{
	(void)state;
	assert_int_equal(device_fit(80, 100), FIT_GREEN);
	assert_int_equal(device_fit(81, 100), FIT_YELLOW);
	assert_int_equal(device_fit(100, 100), FIT_YELLOW);
	assert_int_equal(device_fit(101, 100), FIT_RED);
}

static void tables_are_well_formed(void **state)
{
	(void)state;
	for (size_t i = 0; i < system_count; i++) {
		const struct system *s = systems[i];
		struct err e = { 0 };

		assert_ptr_equal(system_find(s->name, &e), s);
		for (size_t j = 0; j < s->term_count; j++) {
			assert_non_null(strstr(s->terms[j].source, "document 00"));
			for (size_t k = 0; k < j; k++)
				assert_string_not_equal(s->terms[j].id, s->terms[k].id);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_overflows),
		cmocka_unit_test(beyond_the_limits_is_refused),
		cmocka_unit_test(ratios_are_exact_or_refused),
		cmocka_unit_test(division_rounds_to_nearest),
		cmocka_unit_test(wide_numbers_are_printed),
		cmocka_unit_test(rule_of_80_percent),
		cmocka_unit_test(tables_are_well_formed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
