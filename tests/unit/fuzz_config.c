/*
 * Every reader of the declared configuration over hostile input: the first byte chooses JSON, YAML,
 * a command line or an environment; the rest is its text (arguments and variables: one a line).
 *
 * With clang -fsanitize=fuzzer this is a fuzz target. As a plain program: fuzz_config FILE… runs
 * over files, and fuzz_config -n COUNT [SEED] mutates examples of its own, COUNT times.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "config/formats.h"

#define LINES_MOST 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned split(char *text, char **lines)
{
	unsigned n = 0;

	while (n < LINES_MOST && text) {
		lines[n++] = text;
		text = strchr(text, '\n');
		if (text)
			*text++ = 0;
	}
	return n;
}

static int read_one(struct config *c, unsigned kind, char *text, size_t length, struct err *e)
{
	/* lenient, so that no file that the input happens to name ends the reading */
	struct reading r = { c, "", "input", NULL, e, 1, 0, NULL };
	char *lines[LINES_MOST];

	if (kind < 2)
		return config_read_text(&r, text, length, "input", (int)kind);
	if (kind == 2)
		return config_read_arguments(c, (int)split(text, lines), lines, NULL, 0, 1, e);
	return config_read_arguments(c, 0, NULL, lines, split(text, lines), 1, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { "" };
	struct buf out = { 0 };
	struct config c;
	char *text;
	int status;

	if (size == 0 || size > 100000)
		return 0;
	text = calloc(size, 1);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	config_init(&c);
	status = read_one(&c, data[0] % 4, text, size - 1, &e);
	if (!status)
		status = config_derive(&c, &e);
	/* who fails says why */
	if (status && !e.text[0])
		abort();
	config_show(&c, &out);
	buf_release(&out);
	config_release(&c);
	free(text);
	return 0;
}

#ifndef FUZZING_WITH_LIBFUZZER

static const char *const examples[] = {
	"0{\"num_layers\":2,\"hidden_size\":64,\"world_size\":8,\"moe_layer_freq\":\"([0]*3+[1]*4)\",\"num_experts\":4,\"swiglu\":true}",
	"0{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
	"\"vocab_size\":100,\"text_config\":{\"model_type\":\"qwen3_moe\",\"mlp_only_layers\":[1],\"num_experts\":4}}",
	"0{\"model_type\":\"deepseek_v3\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
	"\"vocab_size\":100,\"n_routed_experts\":4,\"moe_intermediate_size\":8,\"q_lora_rank\":null,\"n_shared_experts\":2}",
	"0{\"model_type\":\"t5\",\"d_model\":64,\"d_ff\":128,\"num_layers\":2,\"num_heads\":4,\"vocab_size\":100,\"feed_forward_proj\":\"gated-gelu\"}",
	"0{\"zero_optimization\":{\"stage\":3,\"reduce_bucket_size\":\"auto\",\"offload_param\":{\"device\":\"cpu\"}},\"bf16\":{\"enabled\":\"auto\"}}",
	"1distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_offload_params: true\n",
	"1model:\n  num_layers: 4\n  hidden_size: 64\ntrain:\n  micro_batch_size: 2\noptimizer: &a [1, 2]\nddp: *a\n",
	"2torchrun\n--nproc-per-node\n8\npretrain_gpt.py\n--num-layers=12\n--hidden-size\n512\n--num-attention-heads\n8\n--bf16\n--swiglu\n"
	"--micro-batch-size\n1\n--global-batch-size\n64\n--tensor-model-parallel-size\n2",
	"2train.py\n--per_device_train_batch_size\n2\n--deepspeed_config\neyJ6ZXJvX29wdGltaXphdGlvbiI6eyJzdGFnZSI6MX19\n--fsdp\nfull_shard",
	"2-m\ntorchtitan.train\n--training.seq_len\n64\n--parallelism.pipeline_parallel_degree=2\n--training.local_batch_size\n4",
	"3ACCELERATE_MIXED_PRECISION=fp16\nFSDP_SHARDING_STRATEGY=1\nACCELERATE_USE_FSDP=true\nWORLD_SIZE=8",
};

static uint64_t state = 1;

static uint64_t random_number(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

/* What readers care about, put anywhere. */
static const char *const pieces[] = { "0",           "-1",
				      "1e308",       "9223372036854775807",
				      "99999999999", "null",
				      "true",        "\"auto\"",
				      "{}",          "[]",
				      "[",           "{",
				      "\"",          "\\",
				      "\n",          ":",
				      ",",           "--",
				      "=",           "&a ",
				      "*a",          "- ",
				      "1.5",         "\xff",
				      "text_config", "\"model_type\":\"gpt2\"" };

static size_t mutate(char *text, size_t length, size_t room)
{
	for (uint64_t changes = 1 + random_number(5); changes; changes--) {
		const char *piece = pieces[random_number(sizeof(pieces) / sizeof(*pieces))];
		size_t at = 1 + random_number(length), n = strlen(piece), gone = random_number(12);

		if (at > length)
			continue;
		if (random_number(3) == 0 && at < length) {
			text[at] ^= (char)(1 << random_number(7));
			continue;
		}
		if (gone > length - at)
			gone = length - at;
		if (length - gone + n > room)
			continue;
		memmove(text + at + n, text + at + gone, length - at - gone);
		memcpy(text + at, piece, n);
		length = length - gone + n;
	}
	return length;
}

static int fuzz_alone(uint64_t count, uint64_t seed)
{
	state = seed * 2 + 1;
	for (uint64_t i = 0; i < count; i++) {
		const char *example = examples[random_number(sizeof(examples) / sizeof(*examples))];
		size_t length = strlen(example);
		char text[2048], *exact;

		memcpy(text, example, length);
		length = mutate(text, length, sizeof(text));
		exact = malloc(length); /* so that reading past its end is seen */
		if (!exact)
			return 1;
		memcpy(exact, text, length);
		LLVMFuzzerTestOneInput((const uint8_t *)exact, length);
		free(exact);
	}
	printf("%llu mutated configurations\n", (unsigned long long)count);
	return 0;
}

static int run_file(const char *path)
{
	static char text[100000];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f) {
		perror(path);
		return 1;
	}
	n = fread(text, 1, sizeof(text), f);
	fclose(f);
	LLVMFuzzerTestOneInput((const uint8_t *)text, n);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc > 2 && !strcmp(argv[1], "-n"))
		return fuzz_alone(strtoull(argv[2], NULL, 10),
				  argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
	for (int i = 1; i < argc; i++)
		status |= run_file(argv[i]);
	return status;
}

#endif
