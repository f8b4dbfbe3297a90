#include "estimate/inputs.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum field_kind { KIND_INT, KIND_REAL, KIND_BOOL, KIND_TEXT };

static const struct field {
	const char *name;
	enum field_kind kind;
	size_t offset;
} fields[] = {
#define FIELD(name, type, help) { #name, KIND_##type, offsetof(struct config, name) },
#include "config/fields.def"
#undef FIELD
};

static const void *at(const struct inputs *in, enum config_field f)
{
	return (const char *)in->c + fields[f].offset;
}

/* "num_layers is 0 (--set), expected ..."; a field may also be refused because nothing declares it.
 */
static void fail(struct inputs *in, enum config_field f, const char *expected)
{
	char value[128] = "";

	if (in->failed)
		return;
	in->failed = 1;
	if (!config_has(in->c, f)) {
		err_set(in->e, "%s is not declared, expected %s", fields[f].name, expected);
		return;
	}
	switch (fields[f].kind) {
	case KIND_INT:
		snprintf(value, sizeof(value), "%lld", (long long)*(const int64_t *)at(in, f));
		break;
	case KIND_REAL:
		snprintf(value, sizeof(value), "%g", *(const double *)at(in, f));
		break;
	case KIND_BOOL:
		snprintf(value, sizeof(value), "%s", *(const int *)at(in, f) ? "true" : "false");
		break;
	case KIND_TEXT:
		snprintf(value, sizeof(value), "\"%.100s\"", *(char *const *)at(in, f));
		break;
	}
	err_set(in->e, "%s is %s (%s), expected %s", fields[f].name, value, in->c->origin[f],
		expected);
}

void input_reject(struct inputs *in, enum config_field f, const char *expected)
{
	fail(in, f, expected);
}

static wide read_number(struct inputs *in, enum config_field f, wide least, wide most)
{
	int64_t n = *(const int64_t *)at(in, f);
	char expected[96], top[48];

	if (n >= least && n <= most)
		return n;
	snprintf(expected, sizeof(expected), "a number from %d to %s", (int)least,
		 wide_text(most, top));
	fail(in, f, expected);
	return 1;
}

/* One message for all keys that are missing, with what to type. */
__attribute__((cold, noinline)) static void name_missing(struct inputs *in, enum config_field f)
{
	const char *system = in->out->system->name;
	struct buf names = { 0 }, typed = { 0 };
	int count = 0;

	in->missing[f / 64] |= UINT64_C(1) << f % 64;
	for (int i = 0; i < CONFIG_FIELDS; i++)
		if (in->missing[i / 64] >> i % 64 & 1) {
			buf_addf(&names, "%s%s", count++ ? ", " : "", fields[i].name);
			buf_addf(&typed, " --set %s=N", fields[i].name);
		}
	in->is_missing = 1;
	/* the message of fewer keys */
	in->e->text[0] = '\0';
	err_set(in->e, "%s %s missing: %s needs %s (in a configuration file, or%s)", names.text,
		count > 1 ? "are" : "is", system, count > 1 ? "them" : "it", typed.text);
	buf_release(&names);
	buf_release(&typed);
}

wide input_required(struct inputs *in, enum config_field f, wide most)
{
	if (config_has(in->c, f))
		return read_number(in, f, 1, most);
	if (!in->failed || in->is_missing)
		name_missing(in, f);
	in->failed = 1;
	return 1;
}

wide input_or(struct inputs *in, enum config_field f, wide otherwise, wide most)
{
	return config_has(in->c, f) ? read_number(in, f, 1, most) : otherwise;
}

wide input_or_zero(struct inputs *in, enum config_field f, wide otherwise, wide most)
{
	return config_has(in->c, f) ? read_number(in, f, 0, most) : otherwise;
}

int input_flag(struct inputs *in, enum config_field f, int otherwise)
{
	return config_has(in->c, f) ? *(const int *)at(in, f) : otherwise;
}

int input_word(struct inputs *in, enum config_field f, int otherwise, const char *words)
{
	const char *text, *word = words;
	char expected[256];

	if (!config_has(in->c, f))
		return otherwise;
	text = *(char *const *)at(in, f);
	for (int i = 0;; i++) {
		size_t n = strcspn(word, "|");

		if (strlen(text) == n && !strncmp(word, text, n))
			return i;
		if (!word[n])
			break;
		word += n + 1;
	}
	snprintf(expected, sizeof(expected), "one of %s", words);
	fail(in, f, expected);
	return otherwise;
}

static wide common_divisor(wide a, wide b)
{
	while (b) {
		wide rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

void input_ratio(struct inputs *in, enum config_field f, double otherwise, double least,
		 double most, wide *n, wide *d)
{
	double value = config_has(in->c, f) ? *(const double *)at(in, f) : otherwise;
	char expected[96];
	wide common;

	*n = *d = 1;
	/* In this form the condition rejects NaN too. */
	if (!(value >= least && value <= most)) {
		snprintf(expected, sizeof(expected), "a number from %g to %g", least, most);
		fail(in, f, expected);
		return;
	}
	*n = (wide)(value * 1000 + 0.5);
	*d = 1000;
	common = common_divisor(*n, *d);
	*n /= common;
	*d /= common;
}

void input_reject_other_optimizers(struct inputs *in)
{
	const char *name = VALUE_OR(in->c, optimizer, NULL);

	if (name && strcmp(name, "adam") && strcmp(name, "adamw"))
		input_reject(in, CONFIG_optimizer,
			     "adam or adamw: the document has formulas for Adam alone");
}

int input_zero_stage(struct inputs *in, int otherwise)
{
	const struct config *c = in->c;

	if (GIVEN(c, zero_stage))
		return (int)read_number(in, CONFIG_zero_stage, 0, 3);
	if (VALUE_OR(c, fsdp, 0))
		return 3;
	if (GIVEN(c, use_distributed_optimizer))
		return c->use_distributed_optimizer ? 1 : 0;
	return otherwise;
}

wide input_microbatches(struct inputs *in, wide micro_batch, wide data_parallel)
{
	wide all;

	if (GIVEN(in->c, num_microbatches) || !GIVEN(in->c, global_batch_size))
		return input_or(in, CONFIG_num_microbatches,
				input_or(in, CONFIG_gradient_accumulation_steps, 1, MAX_BATCH),
				MAX_BATCH);
	all = input_or(in, CONFIG_global_batch_size, 1, INT64_C(1) << 50);
	if (all % (micro_batch * data_parallel))
		estimate_note(in->out,
			      "global_batch_size %lld is not a multiple of micro_batch_size times "
			      "data_parallel_size: rounded up to whole micro-batches",
			      (long long)all);
	all = (all + micro_batch * data_parallel - 1) / (micro_batch * data_parallel);
	if (all > MAX_BATCH)
		input_reject(in, CONFIG_global_batch_size,
			     "at most 1000000 micro-batches a data-parallel rank");
	return largest(all, 1);
}

wide input_vocabulary(struct inputs *in)
{
	const struct config *c = in->c;
	wide v, multiple;

	if (GIVEN(c, padded_vocab_size))
		return input_or(in, CONFIG_padded_vocab_size, 1, MAX_ROWS);
	v = input_required(in, CONFIG_vocab_size, MAX_ROWS);
	if (!GIVEN(c, make_vocab_size_divisible_by))
		return v;
	multiple = input_or(in, CONFIG_make_vocab_size_divisible_by, 1, MAX_RANKS) *
		   input_or(in, CONFIG_tensor_model_parallel_size, 1, MAX_RANKS);
	return (v + multiple - 1) / multiple * multiple;
}

enum precision input_precision(struct inputs *in)
{
	return (enum precision)input_word(
		in, CONFIG_precision, PRECISION_BF16_MIXED,
		"fp32|fp16|bf16|fp8|fp16-mixed|bf16-mixed|fp8-mixed|fp16-autocast|bf16-autocast");
}

/* Options of a job that no document models, with their names. */
static const struct unmodelled {
	enum config_field field;
	const char *what;
} unmodelled_sizes[] = {
	{ CONFIG_virtual_pipeline_model_parallel_size, "interleaved pipeline stages" },
	{ CONFIG_expert_model_parallel_size, "expert parallelism" },
	{ CONFIG_mtp_num_layers, "multi-token prediction" },
}, unmodelled_words[] = {
	{ CONFIG_recompute_granularity, "recomputation" },
}, unmodelled_flags[] = {
	{ CONFIG_multi_latent_attention, "latent attention" },
	{ CONFIG_cpu_offloading, "activations in host memory" },
	{ CONFIG_optimizer_cpu_offload, "optimizer states in host memory" },
};

static void note_one(struct inputs *in, const struct unmodelled *u)
{
	estimate_note(in->out, "%s (%s) is not modelled by this document", u->what,
		      fields[u->field].name);
}

void input_note_unmodelled(struct inputs *in)
{
	if (in->out->detail != DETAIL_ALL)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(unmodelled_sizes); i++)
		if (config_has(in->c, unmodelled_sizes[i].field) &&
		    *(const int64_t *)at(in, unmodelled_sizes[i].field) >
			    (unmodelled_sizes[i].field != CONFIG_mtp_num_layers))
			note_one(in, &unmodelled_sizes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(unmodelled_words); i++)
		if (config_has(in->c, unmodelled_words[i].field))
			note_one(in, &unmodelled_words[i]);
	for (size_t i = 0; i < ARRAY_SIZE(unmodelled_flags); i++)
		if (input_flag(in, unmodelled_flags[i].field, 0))
			note_one(in, &unmodelled_flags[i]);
}

void input_note_division(struct inputs *in, enum config_field f, wide n, enum config_field by,
			 wide d)
{
	if (in->out->detail == DETAIL_ALL && n % d)
		estimate_note(
			in->out,
			"%s %lld is not a multiple of %s %lld: the formula divides all the same",
			fields[f].name, (long long)n, fields[by].name, (long long)d);
}
