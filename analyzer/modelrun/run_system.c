#include "modelrun/run_system.h"

#include "readers/hf.h"
#include "estimate/device.h"
#include "modelrun/model_run.h"
#include "modelrun/run_fields.h"
#include "systems/memtrace.h"

#include <stdlib.h>
#include <string.h>

/* A system's read() has no argument for it. */
static struct run_options given;

static void make_terms(struct estimate *out, struct stage *s, const struct model_result *r)
{
	out->job_terms = xcalloc(CATEGORIES, sizeof(*out->job_terms));
	out->job_bytes = xcalloc(CATEGORIES, sizeof(*out->job_bytes));
	out->job_term_count = CATEGORIES;
	s->terms = xcalloc(CATEGORIES, sizeof(*s->terms));
	s->steady_terms = xcalloc(CATEGORIES, sizeof(*s->steady_terms));
	for (enum category x = 0; x < CATEGORIES; x++) {
		out->job_terms[x] =
			(struct term){ .id = category_key(x),
				       .component = category_key(x),
				       .title = "at the peak of the run",
				       .printed = "",
				       .source = "the model's code on the simulated device",
				       .kind = "simulated" };
		out->job_bytes[x] = s->terms[x] = r->by_category[x];
	}
	out->total = s->total;
}

static const char *phase_title(const char *phase)
{
	static const char *const known[] = {
#define PHASE(id, key) key,
#define PART(id, key)
#include "attribution/phase.def"
#undef PHASE
#undef PART
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(known[i], phase))
			return known[i];
	return "unknown";
}

static void add_outside(struct stage *s, const char *id, const char *source, wide size)
{
	s->outside[s->outside_count++] = (struct outside){ id, id, "simulated", source, size };
}

static void fill_stage(struct stage *s, const struct config *c, const struct model_result *r)
{
	wide usable = device_usable(c), beside = r->device - r->reserved;

	*s = (struct stage){ .layers = config_has(c, CONFIG_num_layers) ? c->num_layers : 0,
			     .layers_of = 1,
			     .in_flight = 1,
			     .total = r->peak,
			     .steady = r->steady,
			     .reserved = r->reserved,
			     .device = r->device,
			     .peak_phase = phase_title(r->phase) };
	s->model_states = (wide)r->by_category[CATEGORY_PARAMETERS] +
			  r->by_category[CATEGORY_GRADIENTS] +
			  r->by_category[CATEGORY_OPTIMIZER_STATES];
	s->activations = s->total - s->model_states;
	s->outside = xcalloc(3, sizeof(*s->outside));
	add_outside(s, "reserved_overhead", "reserved bytes beyond the blocks of tensors",
		    largest(r->reserved - r->peak, 0));
	add_outside(s, "context", "the simulated device's CUDA context", r->context);
	add_outside(s, "nccl", "the simulated device's NCCL", r->nccl);
	if (usable)
		s->in_device =
			s->total + largest(beside, 0) > usable ? FIT_OUT_OF_MEMORY : FIT_FITS;
}

static int read_config(const struct config *c, struct estimate *out, struct err *e)
{
	struct model_result r;

	if (model_run(&r, c, &given, e) < 0)
		return -1;
	out->stages = xcalloc(1, sizeof(*out->stages));
	out->stage_count = 1;
	fill_stage(out->stages, c, &r);
	make_terms(out, out->stages, &r);
	estimate_add_result(out, "num_parameters", r.parameters);
	estimate_note(out, "run: %s of %s, for two steps on the simulated device", r.model,
		      r.versions);
	if (r.text_alone)
		estimate_note(
			out,
			"the batch has text alone: what an encoder of images or sounds would keep is not counted%s",
			r.takes_images ? "; images_per_sequence=N adds N images to each sequence"
				       : "");
	model_result_release(&r);
	return 0;
}

static void add_results(const struct config *c, struct estimate *out)
{
	const struct stage *s = out->stages;

	(void)c;
	estimate_add_result(out, "steady_bytes", s->steady);
	estimate_add_result(out, "peak_bytes", s->total);
	estimate_add_word(out, "peak_phase", s->peak_phase);
	estimate_add_result(out, "reserved_bytes", s->reserved);
	estimate_add_result(out, "device_bytes", s->device);
	estimate_add_word(out, "how", "run");
}

const struct system memtrace_by_run = {
	.name = "memtrace",
	.title = "the model itself, run on the simulated device",
	.source = "the code of transformers and PyTorch",
	.leaves_out =
		"what Triton and CUDA graphs take for themselves; other loops than transformers' own",
	.read = read_config,
	.add_results = add_results,
};

/* Is a job without a formula run? Keys without a file of the model are refused instead: a value
 * that no model can have would become a model of its own. */
static int is_run_else(const struct config *c, enum how how)
{
	struct err why = { "" };

	return how == HOW_AUTO && c->model_file && !run_fields_check(c, &why);
}

/* The formula of a model with images or sounds is that of its language model alone. */
static int is_run_first(const struct config *c, enum how how)
{
	return c->is_language_part && is_run_else(c, how);
}

/* Is the architecture unknown? Its sizes are not read then, and the user need not add them. */
static int is_unknown(const struct config *c)
{
	return c->model_file && config_has(c, CONFIG_model_type) && !hf_knows_type(c->model_type);
}

int own_estimate(struct estimate *out, const struct config *c, enum how how,
		 const struct run_options *o, struct err *e)
{
	struct err formula = { "" }, run = { "" };

	given = *o;
	if (how == HOW_RUN)
		return estimate_make(out, &memtrace_by_run, c, DETAIL_ALL, e);
	if (is_run_first(c, how)) {
		if (!estimate_make(out, &memtrace_by_run, c, DETAIL_ALL, &run))
			return 0;
		estimate_release(out);
		run.text[0] = '\0';
	}
	if (!estimate_make(out, &memtrace, c, DETAIL_ALL, &formula))
		return 0;
	if (is_unknown(c)) {
		formula.text[0] = '\0';
		err_set(&formula, "model_type \"%.60s\" is not modelled", c->model_type);
	}
	if (how == HOW_AUTO && c->model_file && run_fields_check(c, &run) < 0)
		return err_set(e, "no formula: %.230s; no run: %.230s", formula.text, run.text);
	if (!is_run_else(c, how))
		return err_set(e, "%s", formula.text);
	estimate_release(out);
	if (!estimate_make(out, &memtrace_by_run, c, DETAIL_ALL, &run))
		return 0;
	return err_set(e, "no formula: %.200s; no run: %.250s", formula.text, run.text);
}

const struct system *own_system(const struct config *c, enum how how, const struct run_options *o)
{
	struct estimate out;
	struct err why = { "" };
	int has_formula;

	given = *o;
	if (how == HOW_RUN || is_run_first(c, how))
		return &memtrace_by_run;
	if (!is_run_else(c, how))
		return &memtrace;
	has_formula = !estimate_make(&out, &memtrace, c, DETAIL_TERMS, &why);
	estimate_release(&out);
	return has_formula ? &memtrace : &memtrace_by_run;
}
