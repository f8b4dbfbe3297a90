/* The preload's small parts: settings, sizes, secrets, the live set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <memtrace/size.h>

#include "liveset.h"
#include "settings.h"
#include "text.h"
#include "who.h"

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		int ok;
		uint64_t bytes;
	} cases[] = {
		{ "0", 1, 0 },
		{ "65536", 1, 65536 },
		{ "64KiB", 1, 65536 },
		{ "512MiB", 1, 536870912 },
		{ "1.5 GiB", 1, 1610612736 },
		{ "80GB", 1, 80000000000 },
		{ "2TiB", 1, 2199023255552 },
		{ "1kb", 1, 1000 },
		{ "8388607TiB", 1, 9223370937343148032 },
		{ "8388608TiB", 0, 0 },
		{ "99999999999999999999", 0, 0 },
		{ "", 0, 0 },
		{ "x", 0, 0 },
		{ "12 parsecs", 0, 0 },
		{ "-1", 0, 0 },
		{ ".", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = 0;
		assert_int_equal(memtrace_parse_size(cases[i].text, &bytes), cases[i].ok ? 0 : -1);
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void test_text(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 118908520, "113.4 MiB" },
		{ 301989888, "288.0 MiB" },
		{ 24746716160, "23.0 GiB" },
		{ 1610612736, "1.5 GiB" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct text t = { 0 };
		text_size(&t, cases[i].bytes);
		assert_string_equal(t.s, cases[i].text);
	}
}

static char complaints[256];

static void complain(const char *name, const char *expected)
{
	strncat(complaints, name, strcspn(name, "="));
	strcat(complaints, expected ? "! " : "? ");
}

static void test_settings(void **state)
{
	(void)state;
	setenv("MEMTRACE_BUDGET", "64MiB", 1);
	setenv("MEMTRACE_STACK_MIN", "many", 1);
	setenv("MEMTRACE_QUIET", "yes", 1);
	setenv("MEMTRACE_RANKS", "0,8-15", 1);
	setenv("MEMTRACE_BUDGETS", "1", 1);
	settings_read(complain);
	assert_string_equal(complaints, "MEMTRACE_STACK_MIN! MEMTRACE_QUIET! MEMTRACE_BUDGETS? ");
	assert_int_equal(settings.BUDGET, 64 << 20);
	assert_int_equal(settings.STACK_MIN, 65536);
	assert_int_equal(settings.QUIET, 0);
	assert_true(settings_rank_chosen(settings.RANKS, 0));
	assert_true(settings_rank_chosen(settings.RANKS, 8));
	assert_true(settings_rank_chosen(settings.RANKS, 15));
	assert_false(settings_rank_chosen(settings.RANKS, 1));
	assert_false(settings_rank_chosen(settings.RANKS, 16));
	assert_true(settings_rank_chosen("", 5));
}

static void test_secrets(void **state)
{
	static const struct {
		const char *name, *value;
		int secret;
	} cases[] = {
		{ "WANDB_API_KEY", "x", 1 },
		{ "HF_TOKEN", "abc", 1 },
		{ "--hf-token", "abc", 1 },
		{ "AWS_SECRET_ACCESS_KEY", "x", 1 },
		{ "--password", "x", 1 },
		{ "MASTER_ADDR", "10.0.0.1", 0 },
		{ "--moe-token-dispatcher-type", "alltoall", 0 },
		{ "--tokenizer-type", "GPT2BPETokenizer", 0 },
		{ "--data-path", "/data/a", 0 },
		{ "--path", "/x", 0 },
		{ "--load", "s3://user:secret@bucket/x", 1 },
		{ "--load", "s3://bucket/x", 0 },
		{ "--url", "http://h:8080/a@b", 0 },
		{ "X", "hf_abcdefghijklmnopqrst", 1 },
		{ "X", "sk-1", 0 },
		{ "NCCL_DEBUG", "INFO", 0 },
		{ "PYTORCH_CUDA_ALLOC_CONF", "a:b", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (who_is_secret(cases[i].name, strlen(cases[i].name), cases[i].value) !=
		    cases[i].secret)
			fail_msg("%s=%s", cases[i].name, cases[i].value);
}

/* Random adds and removes against a plain array. */
static void test_liveset(void **state)
{
	static struct {
		uint64_t address;
		int live;
		int64_t bytes;
	} model[3000];
	struct liveset set = { 0 };
	size_t count = 0;

	(void)state;
	srand(1);
	for (size_t i = 0; i < 3000; i++)
		model[i].address = 0x7f0000000000 + (uint64_t)i * 512;
	for (int step = 0; step < 200000; step++) {
		size_t i = (size_t)rand() % 3000;
		struct mt_record *found = liveset_find(&set, MT_TENSOR_ALLOC, model[i].address);
		assert_int_equal(found != NULL, model[i].live);
		if (found) {
			assert_int_equal(found->bytes, model[i].bytes);
			liveset_remove(&set, found);
			count--;
		} else {
			model[i].bytes = step;
			assert_int_equal(
				liveset_add(&set, &(struct mt_record){ .address = model[i].address,
								       .bytes = step,
								       .kind = MT_TENSOR_ALLOC }),
				0);
			count++;
		}
		model[i].live = !model[i].live;
		assert_int_equal(set.count, count);
	}
	assert_int_equal(liveset_freed_by(MT_POOL_ALLOC), MT_POOL_FREE);
	assert_int_equal(liveset_begun_by(MT_HOST_FREE), MT_HOST_ALLOC);
	assert_int_equal(liveset_begun_by(MT_TENSOR_ALLOC), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),    cmocka_unit_test(test_text),
		cmocka_unit_test(test_settings), cmocka_unit_test(test_secrets),
		cmocka_unit_test(test_liveset),
	};

	return cmocka_run_group_tests_name("preload parts", tests, NULL, NULL);
}
