#include "render/estimate_json.h"

#include <stdint.h>

#include "estimate/fit.h"
#include "render/json_util.h"
#include "render/json_write.h"

/* estimate_make() refuses totals above INT64_MAX; no other number of an estimate is larger. */
static json_t *bytes_json(wide n)
{
	return json_integer((json_int_t)(n > INT64_MAX ? INT64_MAX : n));
}

static void set_number(json_t *object, const char *key, wide n)
{
	set(object, key, bytes_json(n));
}

static void set_word(json_t *object, const char *key, const char *word)
{
	set(object, key, text(word));
}

static void add(json_t *array, json_t *value)
{
	json_array_append_new(array, value);
}

/* Every field that is given. */
static json_t *config_json(const struct config *c)
{
	json_t *o = json_object();

#define SET_INT(name) set_number(o, #name, c->name)
#define SET_REAL(name) set(o, #name, json_real(c->name))
#define SET_BOOL(name) set(o, #name, json_boolean(c->name))
#define SET_TEXT(name) set_word(o, #name, c->name)
#define FIELD(name, type, help)           \
	if (config_has(c, CONFIG_##name)) \
		SET_##type(name);
#include "config/fields.def"
#undef FIELD
	return o;
}

/* Memory of the device beyond the stage's terms: with them it is device_bytes. */
static json_t *outside_json(const struct stage *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->outside_count; i++) {
		const struct outside *x = &s->outside[i];
		json_t *o = json_object();

		set_word(o, "id", x->id);
		set_word(o, "component", x->component);
		set_word(o, "kind", x->kind);
		set_number(o, "bytes", x->bytes);
		set_word(o, "source", x->source);
		add(list, o);
	}
	return list;
}

static json_t *stage_terms_json(const struct estimate *e, const struct stage *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < estimate_term_count(e); i++) {
		json_t *o;

		if (!s->terms[i] && !s->steady_terms[i])
			continue;
		o = json_object();
		set_word(o, "id", estimate_term(e, i)->id);
		set_number(o, "bytes", s->terms[i]);
		set_number(o, "steady_bytes", s->steady_terms[i]);
		add(list, o);
	}
	return list;
}

/* The members that only the system `memtrace` gives. */
static void set_peak(json_t *o, const struct estimate *e, const struct stage *s)
{
	if (!s->peak_phase)
		return;
	set_number(o, "steady_bytes", s->steady);
	set_number(o, "peak_bytes", s->total);
	set_word(o, "peak_phase", s->peak_phase);
	set_number(o, "reserved_bytes", s->reserved);
	set_number(o, "device_bytes", s->device);
	if (s->in_device)
		set_word(o, "outcome", s->in_device == FIT_FITS ? "fits" : "out_of_memory");
	set(o, "outside", outside_json(s));
	set(o, "terms", stage_terms_json(e, s));
}

static json_t *stage_json(const struct estimate *e, size_t i)
{
	const struct stage *s = &e->stages[i];
	json_t *o = json_object();

	set_number(o, "stage", (wide)i);
	if (s->layers % s->layers_of)
		set(o, "layers", json_real((double)s->layers / (double)s->layers_of));
	else
		set_number(o, "layers", s->layers / s->layers_of);
	set_number(o, "microbatches_in_flight", s->in_flight);
	set_number(o, "model_states", s->model_states);
	set_number(o, "activations", s->activations);
	set_number(o, "total_bytes", s->total);
	set_peak(o, e, s);
	return o;
}

static json_t *stages_json(const struct estimate *e)
{
	json_t *list = json_array(), *only;

	for (size_t i = 0; i < e->stage_count; i++)
		add(list, stage_json(e, i));
	if (!e->stage_count) {
		only = json_object();
		set_number(only, "stage", 0);
		set_number(only, "total_bytes", e->total);
		add(list, only);
	}
	return list;
}

static json_t *terms_json(const struct estimate *e)
{
	json_t *list = json_array();

	for (size_t i = 0; i < estimate_term_count(e); i++) {
		const struct term *t = estimate_term(e, i);
		json_t *o = json_object();

		set_word(o, "id", t->id);
		set_word(o, "component", t->component);
		set_word(o, "title", t->title);
		set_number(o, "bytes", estimate_bytes(e, i));
		set_word(o, "formula", t->printed);
		set_word(o, "source", t->source);
		if (t->kind)
			set_word(o, "kind", t->kind);
		add(list, o);
	}
	return list;
}

static json_t *constants_json(const struct estimate *e)
{
	json_t *list = json_array();

	for (size_t i = 0; i < e->constant_count; i++) {
		const struct constant *c = &e->constants[i];
		json_t *o = json_object();

		set_word(o, "id", c->id);
		set_word(o, "kind", c->kind);
		set_number(o, "bytes", c->bytes);
		set_word(o, "source", c->source);
		add(list, o);
	}
	return list;
}

/* The table of DeepSpeed's own tool. */
static json_t *rows_json(const struct estimate *e)
{
	json_t *list = json_array();

	for (size_t i = 0; i < e->row_count; i++) {
		const struct option_row *r = &e->rows[i];
		json_t *o = json_object();

		if (r->offload_param)
			set_word(o, "offload_param", r->offload_param);
		set_word(o, "offload_optimizer", r->offload_optimizer);
		if (r->zero_init >= 0)
			set(o, "zero_init", json_boolean(r->zero_init));
		set_number(o, "per_cpu_bytes", r->cpu);
		set_number(o, "per_gpu_bytes", r->gpu);
		add(list, o);
	}
	return list;
}

static void set_results(json_t *o, const struct estimate *e)
{
	json_t *strategies;

	for (size_t i = 0; i < e->result_count; i++)
		if (e->results[i].text)
			set_word(o, e->results[i].key, e->results[i].text);
		else
			set_number(o, e->results[i].key, e->results[i].number);
	if (e->strategy_count) {
		strategies = json_object();
		for (size_t i = 0; i < e->strategy_count; i++)
			set_number(strategies, e->strategies[i].name, e->strategies[i].bytes);
		set(o, "strategies", strategies);
	}
	if (e->row_count)
		set(o, "rows", rows_json(e));
}

static json_t *symbols_json(const struct estimate *e)
{
	json_t *o = json_object();

	for (size_t i = 0; i < e->system->symbol_count; i++)
		set_number(o, e->system->symbols[i].letter, e->dims.value[i]);
	return o;
}

/* The notes of the estimate, then those of the configuration. */
static json_t *notes_json(const struct answer *a, const struct estimate *e)
{
	json_t *list = json_array();

	for (size_t i = 0; i < e->note_count; i++)
		add(list, text(e->notes[i]));
	for (unsigned i = 0; i < a->config->note_count; i++)
		add(list, text(a->config->notes[i]));
	return list;
}

static json_t *one_json(const struct answer *a, const struct estimate *e)
{
	json_t *o = json_object();

	set_word(o, "system", e->system->name);
	set_word(o, "title", e->system->title);
	set_word(o, "source", e->system->source);
	set_number(o, "total_bytes", e->total);
	if (a->memory)
		set_word(o, "color", fit_word(estimate_fit(e, a->memory)));
	set(o, "per_stage", stages_json(e));
	set(o, "terms", terms_json(e));
	set(o, "symbols", symbols_json(e));
	set_results(o, e);
	if (e->constant_count)
		set(o, "constants", constants_json(e));
	set_word(o, "leaves_out", e->system->leaves_out);
	set(o, "notes", notes_json(a, e));
	return o;
}

/* The memory that stored runs of the job used, beside the estimates for them. */
static json_t *history_json(const struct answer *a)
{
	const struct answer_history *h = &a->history;
	const struct estimate *own = NULL;
	json_t *o = json_object();

	for (size_t i = 0; i < a->count; i++)
		if (!strcmp(a->estimates[i].system->name, "memtrace"))
			own = &a->estimates[i];
	set(o, "runs", json_integer((json_int_t)h->runs));
	set(o, "of", json_string(h->is_same_model ? "model" : "configuration"));
	set(o, "simulated", json_boolean(h->is_simulated));
	set(o, "median_ratio", h->runs ? json_real(h->ratio) : json_null());
	set(o, "median_deviation", h->runs ? json_real(h->deviation) : json_null());
	set(o, "corrected_bytes",
	    h->runs && own ? json_integer((json_int_t)((double)own->total * h->ratio))
			   : json_null());
	return o;
}

void estimate_json(const struct answer *a, struct buf *out)
{
	static const struct json_reals exact = { .digits = 17 };
	json_t *root = json_object(), *estimates = json_array(), *refused = json_array();

	set(root, "config", config_json(a->config));
	if (a->memory)
		set_number(root, "device_memory_bytes", a->memory);
	if (a->assumed)
		set_word(root, "assumed", a->assumed);
	for (size_t i = 0; i < a->count; i++)
		add(estimates, one_json(a, &a->estimates[i]));
	set(root, "estimates", estimates);
	for (size_t i = 0; i < a->refusal_count; i++) {
		json_t *o = json_object();

		set_word(o, "system", a->refusals[i].system->name);
		set_word(o, "reason", a->refusals[i].reason);
		add(refused, o);
	}
	set(root, "refused", refused);
	if (a->history.is_asked)
		set(root, "history", history_json(a));
	json_write(root, exact, out);
	buf_puts(out, "\n");
	json_decref(root);
}
