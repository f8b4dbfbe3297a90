/* Complete estimates, from the configuration to the total, that one core makes in a second. */
#include "estimate/inputs.h"
#include "systems/deepspeed_zero.h"
#include "systems/llama_4d.h"
#include "systems/nanogpt.h"
#include "systems/training_memory_blog.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "give.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void bench(const struct system *s, struct config *c)
{
	const long rounds = 1000000;
	struct err e = { 0 };
	double began = now(), seconds;
	wide sum = 0;

	for (long i = 0; i < rounds; i++) {
		struct estimate made;

		/* A different job each time, so that no result can be reused. */
		c->seq_length = 1024 + i % 4096;
		c->data_parallel_size = 1 + i % 64;
		if (estimate_make(&made, s, c, 0, &e)) {
			fprintf(stderr, "%s: %s\n", s->name, e.text);
			exit(1);
		}
		sum += made.total;
	}
	seconds = now() - began;
	printf("%-22s %6.2f million estimates a second a core (checksum %llx)\n", s->name,
	       (double)rounds / seconds / 1e6, (unsigned long long)sum);
}

int main(void)
{
	struct config c;

	config_init(&c);
	GIVE(&c, num_layers, 32);
	GIVE(&c, hidden_size, 4096);
	GIVE(&c, ffn_hidden_size, 14336);
	GIVE(&c, num_attention_heads, 32);
	GIVE(&c, num_query_groups, 8);
	GIVE(&c, vocab_size, 128256);
	GIVE(&c, seq_length, 8192);
	GIVE(&c, micro_batch_size, 1);
	GIVE(&c, tensor_model_parallel_size, 4);
	GIVE(&c, pipeline_model_parallel_size, 4);
	GIVE(&c, data_parallel_size, 4);
	GIVE(&c, num_parameters, 8030261248);
	GIVE(&c, total_params, 8030261248);
	GIVE(&c, largest_layer_params, 525336576);
	GIVE(&c, zero_stage, 1);
	bench(&training_memory_blog, &c);
	bench(&nanogpt, &c);
	bench(&llama_4d, &c);
	GIVE(&c, zero_stage, 3);
	bench(&deepspeed_zero, &c);
	config_release(&c);
	return 0;
}
