/* Runs every pipeline stage by the model of its family, tensor by tensor. The largest stage is the
 * estimate. */
#include "systems/memtrace.h"
#include "distributed/device_overhead.h"
#include "estimate/device.h"
#include "families/families.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

#define MAX_RANKS_RUN 8

static const struct symbol symbols[] = {
	{ "L", "layers" },
	{ "h", "hidden size" },
	{ "a", "attention heads" },
	{ "k", "key/value heads" },
	{ "d", "width of a head" },
	{ "f", "width of the feed-forward network" },
	{ "v", "rows of the embedding" },
	{ "s", "sequence length" },
	{ "b", "micro-batch size" },
	{ "t", "tensor-parallel size" },
	{ "p", "pipeline stages" },
	{ "m", "micro-batches of a step" },
};

static void set_symbols(struct estimate *out, const struct hparams *s)
{
	const int64_t values[ARRAY_SIZE(symbols)] = { s->layers, s->hidden, s->heads,
						      s->groups, s->head,   s->ffn,
						      s->vocab,  s->tokens, s->batch,
						      s->tp,     s->pp,     s->microbatches };

	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		out->dims.value[i] = values[i];
}

static wide states(const struct machine_peak *steady)
{
	wide sum = 0;

	for (int t = 0; t < TERMS; t++)
		if (!strcmp(term_rows[t].component, "parameters") ||
		    !strcmp(term_rows[t].component, "gradients") ||
		    !strcmp(term_rows[t].component, "optimizer_states"))
			sum += steady->bytes[t];
	return sum;
}

static void fill_stage(struct stage *to, const struct hparams *s, struct machine *m)
{
	const struct allocator_totals *totals = allocator_totals(m->allocator);

	to->layers = s->layers;
	to->layers_of = s->pp;
	to->in_flight = m->in_flight;
	to->total = m->peak.allocated;
	to->steady = m->steady.allocated;
	to->reserved = totals->peak_reserved;
	to->peak_phase = step_phase_title(m->peak.phase);
	to->model_states = states(&m->steady);
	to->activations = to->total - to->model_states;
	to->terms = xcalloc(TERMS, sizeof(*to->terms));
	to->steady_terms = xcalloc(TERMS, sizeof(*to->steady_terms));
	for (int t = 0; t < TERMS; t++) {
		to->terms[t] = m->peak.bytes[t];
		to->steady_terms[t] = m->steady.bytes[t];
	}
}

/* The kind of a term. "exact": the frameworks' code gives the tensors' sizes from the declared
 * ones. */
static const char *kind_of(const struct estimate *out, int term)
{
	static const char *const kinds[TERMS] = {
#define TERM(name, id, component, title, formula, source)
#define KIND(name, kind) [TERM_##name] = kind,
#include "torch/terms.def"
#undef TERM
	};

	for (size_t i = 0; i < out->constant_count; i++)
		if (!strcmp(out->constants[i].id, term_rows[term].id))
			return out->constants[i].kind;
	return kinds[term] ? kinds[term] : "exact";
}

static void make_terms(struct estimate *out, const struct stage *worst)
{
	out->job_terms = xcalloc(TERMS, sizeof(*out->job_terms));
	out->job_bytes = xcalloc(TERMS, sizeof(*out->job_bytes));
	out->job_term_count = TERMS;
	for (int t = 0; t < TERMS; t++) {
		out->job_terms[t] = (struct term){ .id = term_rows[t].id,
						   .component = term_rows[t].component,
						   .title = term_rows[t].title,
						   .printed = term_rows[t].formula,
						   .source = term_rows[t].source,
						   .kind = kind_of(out, t) };
		out->job_bytes[t] = worst->terms[t];
	}
	out->total = worst->total;
}

struct job_model {
	struct hparams hparams;
	struct constants constants;
	struct allocator_settings settings;
};

static int read_model(struct job_model *j, struct inputs *in)
{
	if (family_read(&j->hparams, in) < 0 || constants_read(&j->constants, &j->settings, in) < 0)
		return -1;
	return family_check(&j->hparams, in);
}

/* The first step allocates the optimizer's states, the second is steady, and in the third the
 * allocator's cache has its final form. Two steps are enough for the peak of allocated bytes. */
static void run_stage(const struct job_model *j, struct machine *m, int64_t stage, int steps)
{
	m->steps = steps;
	m->constants = j->constants;
	family_run(m, &j->hparams, stage);
	machine_settle(m);
}

/* The number of ranks to run. FSDP1, ZeRO and Megatron's FSDP shard flat parameters, so ranks hold
 * different pieces. Megatron-LM reports its last rank. */
static int64_t different_ranks(const struct hparams *s)
{
	if (s->wrapper != FSDP1 && s->wrapper != ZERO &&
	    (s->wrapper != MEGATRON_FSDP || s->training_loop))
		return 1;
	return s->dp < MAX_RANKS_RUN ? s->dp : MAX_RANKS_RUN;
}

int memtrace_run(const struct config *c, struct rank_coordinates at, FILE *events,
		 void (*visit)(const struct machine *m, void *context), void *context,
		 struct err *e)
{
	struct estimate out = { .system = &memtrace };
	struct inputs in = { .c = c, .out = &out, .e = e };
	struct job_model j;
	struct machine m;

	if (read_model(&j, &in) < 0)
		return -1;
	j.hparams.rank = at.at[AXIS_DP] % j.hparams.dp;
	j.hparams.context_rank = at.at[AXIS_CP] % j.hparams.cp;
	j.hparams.is_placed = 1;
	machine_init(&m, &j.settings, 0);
	m.events = events;
	m.keep_blocks = visit != NULL;
	run_stage(&j, &m, at.at[AXIS_PP], 3);
	if (visit)
		visit(&m, context);
	machine_release(&m);
	return 0;
}

/* Keeps the rank with the largest total, with the largest reserved bytes of any rank. */
static void keep_worst(struct stage *kept, struct stage *now)
{
	wide reserved = largest(now->reserved, kept->reserved);
	int lost = kept->in_device == FIT_OUT_OF_MEMORY || now->in_device == FIT_OUT_OF_MEMORY;
	struct stage other = *now;

	if (now->total > kept->total) {
		other = *kept;
		*kept = *now;
	}
	kept->reserved = reserved;
	if (lost)
		kept->in_device = FIT_OUT_OF_MEMORY;
	free(other.terms);
	free(other.steady_terms);
}

/* The allocator frees its cache before it fails. If only the cache exceeds `limit` bytes, the stage
 * is run once more within them. */
static enum in_device run_within(const struct job_model *j, const struct stage *s, int64_t stage,
				 wide limit)
{
	struct machine m;
	int lost = s->total > limit;

	if (!lost && s->reserved > limit) {
		machine_init(&m, &j->settings, (int64_t)limit);
		run_stage(j, &m, stage, 3);
		lost = m.out_of_memory;
		machine_release(&m);
	}
	return lost ? FIT_OUT_OF_MEMORY : FIT_FITS;
}

static void add_stage(struct estimate *out, const struct job_model *of, int64_t stage)
{
	struct stage *kept = &out->stages[out->stage_count++];
	/* The stages between the ends fit as those do. */
	wide usable = out->detail == DETAIL_BETWEEN ? 0 : device_usable(of->hparams.config);
	wide nccl[NCCL_GROUPS], beside;
	struct job_model j = *of;

	nccl_memory(&of->hparams, &of->constants, stage, nccl);
	beside = outside_allocator(&of->constants, nccl);
	for (j.hparams.rank = 0; j.hparams.rank < different_ranks(&j.hparams); j.hparams.rank++) {
		struct stage now = { .layers = 0 };
		struct machine m;

		machine_init(&m, &j.settings, 0);
		/* The states alone can show that the stage does not fit, or one step. */
		if (out->detail == DETAIL_ENDS)
			m.enough = (int64_t)largest(usable - beside, 1);
		run_stage(&j, &m, stage, out->detail ? 3 : 2);
		fill_stage(&now, &j.hparams, &m);
		out->only_states |= !m.step;
		machine_release(&m);
		if (usable)
			now.in_device = run_within(&j, &now, stage, usable - beside);
		if (j.hparams.rank)
			keep_worst(kept, &now);
		else
			*kept = now;
	}
	outside_fill(kept, &of->constants, nccl);
}

/* Can only the first two stages and the last be the largest? Later ones hold fewer micro-batches of
 * as many equal layers. */
static int ends_are_largest(const struct hparams *s)
{
	const struct config *c = s->config;

	return s->pp > 3 && s->layers % s->pp == 0 &&
	       !VALUE_OR(c, account_for_embedding_in_pipeline_split, 0) &&
	       !VALUE_OR(c, account_for_loss_in_pipeline_split, 0) &&
	       !GIVEN(c, decoder_first_pipeline_num_layers) &&
	       !GIVEN(c, decoder_last_pipeline_num_layers) &&
	       !GIVEN(c, pipeline_model_parallel_layout) &&
	       (VALUE_OR(c, num_experts, 0) <= 1 || !GIVEN(c, moe_layer_freq) ||
		!strcmp(c->moe_layer_freq, "1"));
}

static void add_stages(struct estimate *out, const struct job_model *j)
{
	int64_t pp = j->hparams.pp;
	int ends = out->detail == DETAIL_ENDS, between = out->detail == DETAIL_BETWEEN;
	int split = (ends || between) && ends_are_largest(&j->hparams);

	out->stages = xcalloc((size_t)pp, sizeof(*out->stages));
	for (int64_t stage = 0; stage < pp; stage++) {
		if (split && (stage > 1 && stage < pp - 1) != between)
			continue;
		add_stage(out, j, stage);
		if (ends && out->stages[out->stage_count - 1].in_device == FIT_OUT_OF_MEMORY)
			break;
	}
}

static int read_config(const struct config *c, struct estimate *out, struct err *e)
{
	struct inputs in = { .c = c, .out = out, .e = e };
	const struct stage *worst;
	struct job_model j;

	if (read_model(&j, &in) < 0)
		return -1;
	set_symbols(out, &j.hparams);
	constants_list(&j.constants, &j.hparams, out);
	add_stages(out, &j);
	worst = out->stages;
	for (size_t i = 1; i < out->stage_count; i++)
		if (out->stages[i].total > worst->total)
			worst = &out->stages[i];
	make_terms(out, worst);
	estimate_note(out,
		      "device_bytes has %lld MiB for the CUDA context, as measured on an A100 "
		      "(document 001), and NCCL's communicators as modelled after its source; "
		      "workspaces are those of CublasHandlePool.cpp for the GPU",
		      (long long)j.constants.context >> 20);
	return 0;
}

static void add_results(const struct config *c, struct estimate *out)
{
	const struct stage *worst = &out->stages[0];

	(void)c;
	for (size_t i = 1; i < out->stage_count; i++)
		if (out->stages[i].total > worst->total)
			worst = &out->stages[i];
	estimate_add_result(out, "steady_bytes", worst->steady);
	estimate_add_result(out, "peak_bytes", worst->total);
	estimate_add_word(out, "peak_phase", worst->peak_phase);
	estimate_add_result(out, "reserved_bytes", worst->reserved);
	estimate_add_result(out, "device_bytes", worst->device);
}

const struct system memtrace = {
	.name = "memtrace",
	.title = "tensor by tensor, with the caching allocator's own rules",
	.source = "what PyTorch, transformers, Megatron-core and DeepSpeed allocate",
	.leaves_out = "what cuDNN, Triton and CUDA graphs take for themselves",
	.is_run = 1,
	.space = { BIT(DIM_TP) | BIT(DIM_PP) | BIT(DIM_CP) | BIT(DIM_DP) | BIT(DIM_VPP) |
			   BIT(DIM_EP) | BIT(DIM_MBS),
		   BIT(RECOMPUTES) - 1, BIT(4) - 1 },
	.symbols = symbols,
	.symbol_count = ARRAY_SIZE(symbols),
	.read = read_config,
	.add_results = add_results,
};
