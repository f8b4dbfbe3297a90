#include "json/estimate_json.h"

#include <stdint.h>

#include "estimate/fit.h"
#include "json/json_util.h"
#include "json/json_write.h"

/* estimate_make() refuses totals above INT64_MAX; no other number of an estimate is larger. */
static void set_number(json_t *object, const char *key, wide n)
{
	set(object, key, put_WIDE(n));
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

static json_t *one_outside_json(const struct outside *x)
{
	json_t *j = json_object();

#define OUTSIDE PUT_MEMBER
#include "estimate/members.def"
	return j;
}

/* Memory of the device beyond the stage's terms: with them it is device_bytes. */
static json_t *outside_json(const struct stage *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->outside_count; i++)
		add(list, one_outside_json(&s->outside[i]));
	return list;
}

static json_t *stage_term_json(const struct estimate *of, const struct stage *x, size_t i)
{
	json_t *j = json_object();

#define STAGE_TERM PUT_MEMBER
#include "estimate/members.def"
	return j;
}

static json_t *stage_terms_json(const struct estimate *of, const struct stage *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < estimate_term_count(of); i++)
		if (s->terms[i] || s->steady_terms[i])
			add(list, stage_term_json(of, s, i));
	return list;
}

/* A number of layers need not be whole. */
static json_t *layers_json(const struct stage *s)
{
	return s->layers % s->layers_of ? json_real((double)s->layers / (double)s->layers_of)
					: put_WIDE(s->layers / s->layers_of);
}

static const char *in_device_word(enum in_device in_device)
{
	static const char *const words[] = {
		[FIT_FITS] = "fits", [FIT_OUT_OF_MEMORY] = "out_of_memory"
	};

	return in_device == FIT_UNKNOWN ? NULL : words[in_device];
}

static json_t *stage_json(const struct estimate *of, const struct stage *x)
{
	json_t *j = json_object();

#define STAGE PUT_MEMBER
#include "estimate/members.def"
	if (x->peak_phase) {
#define PEAK PUT_MEMBER
#include "estimate/members.def"
	}
	return j;
}

static json_t *only_stage_json(const struct estimate *x)
{
	json_t *j = json_object();

#define ONLY_STAGE PUT_MEMBER
#include "estimate/members.def"
	return j;
}

static json_t *stages_json(const struct estimate *e)
{
	json_t *list = json_array();

	for (size_t i = 0; i < e->stage_count; i++)
		add(list, stage_json(e, &e->stages[i]));
	if (!e->stage_count)
		add(list, only_stage_json(e));
	return list;
}

static json_t *term_json(const struct estimate *of, size_t i)
{
	const struct term *x = estimate_term(of, i);
	json_t *j = json_object();

#define TERM PUT_MEMBER
#include "estimate/members.def"
	return j;
}

static json_t *terms_json(const struct estimate *e)
{
	json_t *list = json_array();

	for (size_t i = 0; i < estimate_term_count(e); i++)
		add(list, term_json(e, i));
	return list;
}

static json_t *constant_json(const struct constant *x)
{
	json_t *j = json_object();

#define CONSTANT PUT_MEMBER
#include "estimate/members.def"
	return j;
}

static json_t *constants_json(const struct estimate *e)
{
	json_t *list = json_array();

	for (size_t i = 0; i < e->constant_count; i++)
		add(list, constant_json(&e->constants[i]));
	return list;
}

static json_t *option_row_json(const struct option_row *x)
{
	json_t *j = json_object();

#define OPTION_ROW PUT_MEMBER
#include "estimate/members.def"
	return j;
}

/* The table of DeepSpeed's own tool. */
static json_t *rows_json(const struct estimate *e)
{
	json_t *list = json_array();

	for (size_t i = 0; i < e->row_count; i++)
		add(list, option_row_json(&e->rows[i]));
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

static json_t *one_json(const struct answer *of, const struct estimate *x)
{
	json_t *j = json_object();

#define ESTIMATE PUT_MEMBER
#include "estimate/members.def"
	set_results(j, x);
	if (x->constant_count)
		set(j, "constants", constants_json(x));
	set_word(j, "leaves_out", x->system->leaves_out);
	set(j, "notes", notes_json(of, x));
	return j;
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
