/* Of a rank that has just what is predicted, and then something else: what is assigned, missing and
 * unexplained always adds up, and the wrong value is named. */
#include "match/match.h"
#include "match/match_explain.h"
#include "match/match_what_if.h"
#include "systems/memtrace.h"
#include "readers/native.h"
#include "systems/systems.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)

struct made_rank {
	struct rank rank;
	struct config config;
	size_t room;
};

static void hold_block(struct made_rank *r, bytes size, enum category c, const char *stack)
{
	r->rank.peak_blocks = grow(r->rank.peak_blocks, r->rank.peak_block_count, &r->room,
				   sizeof(*r->rank.peak_blocks));
	r->rank.peak_blocks[r->rank.peak_block_count++] = (struct peak_block){ size, c, stack };
	r->rank.peak_allocated += size;
	r->rank.peak.by_category[c] += size;
}

static void copy_blocks(const struct machine *m, void *context)
{
	for (size_t i = 0; i < m->peak_count; i++) {
		enum category c = 0;

		while (strcmp(category_key(c), term_rows[m->peak_blocks[i].term].component))
			c++;
		hold_block(context, m->peak_blocks[i].size, c, "a;b");
	}
}

static const char *const gpt[][2] = {
	{ "framework", "nanogpt" },
	{ "arch", "gpt" },
	{ "num_layers", "3" },
	{ "hidden_size", "256" },
	{ "num_attention_heads", "4" },
	{ "ffn_hidden_size", "1024" },
	{ "vocab_size", "5000" },
	{ "seq_length", "128" },
	{ "max_position_embeddings", "128" },
	{ "micro_batch_size", "4" },
	{ "position_embedding_type", "learned_absolute" },
	{ "precision", "fp32" },
	{ "attention", "eager" },
	{ "optimizer", "adamw" },
	{ "optimizer_implementation", "fused" },
};

static int setup(void **state)
{
	struct made_rank *r = calloc(1, sizeof(*r));
	struct err e = { 0 };

	if (!r)
		return -1;
	config_init(&r->config);
	for (size_t i = 0; i < ARRAY_SIZE(gpt); i++)
		if (config_set(&r->config, gpt[i][0], gpt[i][1], "test", &e) < 0)
			return -1;
	r->rank.rank = NO_RANK;
	if (memtrace_run(&r->config, (struct rank_coordinates){ .at = { [AXIS_PP] = 0 } }, NULL,
			 copy_blocks, r, &e) < 0)
		return -1;
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct made_rank *r = *state;

	free(r->rank.peak_blocks);
	config_release(&r->config);
	free(r);
	return 0;
}

static void match_up(struct match *m, const struct made_rank *r, const struct system *system,
		     double tolerance)
{
	struct tolerances t = { .total = tolerance };
	struct err e = { 0 };
	bytes assigned = 0, unexplained = 0, missing = 0, estimated = 0;
	uint64_t blocks = 0;

	for (size_t c = 0; c < CATEGORIES; c++)
		t.component[c] = -1;
	assert_int_equal(match_make(m, &r->rank, system, &r->config, &t, &e), 0);
	for (size_t i = 0; i < m->term_count; i++) {
		assigned += m->terms[i].observed;
		estimated += m->terms[i].estimated;
		blocks += m->terms[i].blocks;
	}
	for (size_t i = 0; i < m->unexplained_count; i++) {
		unexplained += m->unexplained[i].bytes;
		blocks += m->unexplained[i].blocks;
	}
	for (size_t i = 0; i < m->missing_count; i++)
		missing += m->missing[i].bytes;
	assert_int_equal(assigned + unexplained, m->observed);
	assert_int_equal(estimated, m->estimated);
	assert_int_equal(blocks, r->rank.peak_block_count);
	assert_int_equal(match_gap(m), unexplained + missing);
}

static void all_is_found(void **state)
{
	struct match m;

	match_up(&m, *state, &memtrace, 0);
	assert_int_equal(m.unexplained_count, 0);
	assert_int_equal(m.missing_count, 0);
	assert_int_equal(m.estimated, m.observed);
	assert_false(m.fails);
	match_release(&m);
}

static void one_is_gone_and_one_is_new(void **state)
{
	struct made_rank *r = *state;
	struct peak_block *last = &r->rank.peak_blocks[r->rank.peak_block_count - 1];
	bytes size = last->bytes;
	struct match m;

	last->bytes = 7 * MIB;
	last->stack = "new";
	r->rank.peak_allocated += 7 * MIB - size;
	r->rank.peak.by_category[last->category] += 7 * MIB - size;
	match_up(&m, r, &memtrace, 1);
	assert_int_equal(m.unexplained_count, 1);
	assert_string_equal(m.unexplained[0].stack, "new");
	assert_int_equal(m.unexplained[0].bytes, 7 * MIB);
	assert_int_equal(m.missing_count, 1);
	assert_int_equal(m.missing[0].bytes, size);
	assert_int_equal(m.missing[0].blocks, 1);
	match_release(&m);
}

/* What the counters saw beyond the recorded blocks is unexplained, without a stack. */
static void unrecorded_bytes(void **state)
{
	struct made_rank *r = *state;
	struct match m = { 0 };
	struct tolerances t = { .total = 1 };
	struct err e = { 0 };

	r->rank.peak_allocated += 12345 * 512;
	r->rank.peak.by_category[CATEGORY_OTHER] += 12345 * 512;
	assert_int_equal(match_make(&m, &r->rank, &memtrace, &r->config, &t, &e), 0);
	assert_int_equal(m.unexplained_count, 1);
	assert_int_equal(m.unexplained[0].bytes, 12345 * 512);
	assert_int_equal(m.unexplained[0].blocks, 0);
	match_release(&m);
}

static void every_system_adds_up(void **state)
{
	static const char *const names[] = { "memtrace", "nanogpt", "training-memory-blog" };
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct match m;

		match_up(&m, *state, system_find(names[i], &e), 1);
		match_release(&m);
	}
}

static void nothing_is_held(void **state)
{
	struct made_rank *r = *state;
	struct match m;

	r->rank.peak_block_count = 0;
	r->rank.peak_allocated = 0;
	memset(r->rank.peak.by_category, 0, sizeof(r->rank.peak.by_category));
	match_up(&m, r, &memtrace, 0.5);
	assert_true(m.fails);
	assert_int_equal(m.unexplained_count, 0);
	assert_int_equal(match_gap(&m), m.estimated);
	match_release(&m);
}

/* Sizes at the end of what a trace may hold neither overflow nor hide what is missing. */
static void enormous_blocks(void **state)
{
	struct made_rank *r = *state;
	struct match m;

	for (int i = 0; i < 40; i++)
		hold_block(r, INT64_C(1) << 50, CATEGORY_OTHER, i % 2 ? "x" : "y");
	match_up(&m, r, &memtrace, 0.5);
	assert_int_equal(m.unexplained_count, 2);
	assert_int_equal(m.unexplained[0].blocks, 20);
	assert_int_equal(m.unexplained[0].bytes, INT64_C(20) << 50);
	assert_int_equal(m.missing_count, 0);
	match_release(&m);
}

/* ---- causes, and other configurations ---- */

static void declare(struct made_rank *r, const char *key, const char *value)
{
	struct err e = { 0 };

	assert_int_equal(config_set(&r->config, key, value, "test", &e), 0);
}

/* What explains that a value was declared wrongly. */
static void explain(struct match *m, struct made_rank *r)
{
	struct tolerances t = { .total = 0.01 };

	match_up(m, r, &memtrace, t.total);
	match_explain(m, &r->config, &t);
}

static void the_wrong_value_is_named(void **state)
{
	struct made_rank *r = *state;
	struct match m;

	declare(r, "micro_batch_size", "2");
	explain(&m, r);
	assert_true(m.fails);
	assert_true(m.cause_count >= 1);
	assert_string_equal(m.causes[0].key, "micro_batch_size");
	assert_string_equal(m.causes[0].declared, "2");
	assert_string_equal(m.causes[0].value, "4");
	assert_int_equal(m.causes[0].gap, 0);
	match_release(&m);
}

/* 50257 and 50304 rows may be the same blocks, with other tails: the peak tells. */
static void of_values_that_explain_the_same_the_nearer_peak_is_first(void **state)
{
	struct made_rank *r = *state;
	struct err e = { 0 };
	struct match m;

	free(r->rank.peak_blocks);
	r->rank = (struct rank){ .rank = NO_RANK };
	r->room = 0;
	declare(r, "vocab_size", "50304");
	assert_int_equal(memtrace_run(&r->config,
				      (struct rank_coordinates){ .at = { [AXIS_PP] = 0 } }, NULL,
				      copy_blocks, r, &e),
			 0);
	declare(r, "vocab_size", "32000");
	explain(&m, r);
	assert_true(m.cause_count >= 1);
	assert_string_equal(m.causes[0].key, "vocab_size");
	assert_string_equal(m.causes[0].value, "50304");
	assert_int_equal(m.causes[0].error_bytes, 0);
	match_release(&m);
}

static void a_right_declaration_has_no_cause(void **state)
{
	struct made_rank *r = *state;
	struct match m;

	explain(&m, r);
	assert_int_equal(m.cause_count, 0);
	match_release(&m);
}

/* Blocks of a peak that is met are of another moment, and say nothing against what is declared. */
static void a_peak_that_is_met_has_no_cause(void **state)
{
	struct made_rank *r = *state;
	struct tolerances t = { .total = 0.01 };
	struct match m;

	declare(r, "micro_batch_size", "2");
	match_up(&m, r, &memtrace, 0.01);
	m.estimated = m.observed;
	match_explain(&m, &r->config, &t);
	assert_int_equal(m.cause_count, 0);
	match_release(&m);
}

static void causes_are_copied(void **state)
{
	struct made_rank *r = *state;
	struct match m, other;

	declare(r, "micro_batch_size", "2");
	explain(&m, r);
	match_up(&other, r, &memtrace, 0.01);
	assert_true(match_is_alike(&m, &other));
	match_explain_as(&other, &m);
	match_release(&m);
	assert_string_equal(other.causes[0].value, "4");
	assert_string_equal(other.causes[0].declared, "2");
	other.observed++;
	assert_false(match_is_alike(&other, &m));
	match_release(&other);
}

/* A document has terms of its first stage alone. */
static void a_later_stage_without_terms_is_refused(void **state)
{
	struct made_rank *r = *state;
	struct tolerances any = { .total = 1 };
	struct err e = { 0 };
	const struct system *system = system_find("llama-4d", &e);
	struct match m;

	declare(r, "precision", "bf16-mixed");
	declare(r, "pipeline_model_parallel_size", "2");
	r->rank.world_size = 2;
	r->rank.rank = 0;
	match_up(&m, r, system, 1000);
	match_release(&m);
	r->rank.rank = 1;
	assert_int_equal(match_make(&m, &r->rank, system, &r->config, &any, &e), -1);
	assert_non_null(strstr(e.text, "only totals of stage 1"));
	match_release(&m);
}

static void what_if_keeps_or_scales_what_was_missed(void **state)
{
	struct made_rank *r = *state;
	struct match m;
	struct err e = { 0 };
	bytes estimated;

	match_up(&m, r, &memtrace, 1);
	assert_int_equal(match_what_if(&m, &r->config, "num_layers=6", &e), 0);
	estimated = m.what_if.estimated;
	assert_true(estimated > m.estimated);
	assert_int_equal(m.what_if.low, estimated);
	assert_int_equal(m.what_if.high, estimated);
	match_release(&m);

	hold_block(r, 64 * MIB, CATEGORY_OTHER, "x");
	match_up(&m, r, &memtrace, 1);
	assert_int_equal(match_what_if(&m, &r->config, "num_layers=6,micro_batch_size=4", &e), 0);
	assert_int_equal(m.what_if.estimated, estimated);
	assert_int_equal(m.what_if.low, estimated + 64 * MIB);
	assert_true(m.what_if.high > m.what_if.low);
	assert_int_equal(match_what_if(&m, &r->config, "num_layers", &e), -1);
	assert_int_equal(match_what_if(&m, &r->config, "=3", &e), -1);
	assert_int_equal(match_what_if(&m, &r->config, "num_layers=none", &e), -1);
	match_release(&m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_is_found),
		TEST(one_is_gone_and_one_is_new),
		TEST(unrecorded_bytes),
		TEST(every_system_adds_up),
		TEST(nothing_is_held),
		TEST(enormous_blocks),
		TEST(the_wrong_value_is_named),
		TEST(of_values_that_explain_the_same_the_nearer_peak_is_first),
		TEST(a_right_declaration_has_no_cause),
		TEST(a_peak_that_is_met_has_no_cause),
		TEST(causes_are_copied),
		TEST(a_later_stage_without_terms_is_refused),
		TEST(what_if_keeps_or_scales_what_was_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
