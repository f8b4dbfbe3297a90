/* Written by hand, not with jansson: an estimate may be larger than its integers. */
#include "render/estimate_output.h"
#include "estimate/fit.h"

#include "util/json_text.h"

#include <stdio.h>
#include <string.h>

static void put_string(struct buf *out, const char *text)
{
	add_json_string(out, (struct str){ text, strlen(text) });
}

static void put_key(struct buf *out, const char *key)
{
	char last = out->length ? out->text[out->length - 1] : '{';

	if (last != '{')
		buf_puts(out, ",");
	put_string(out, key);
	buf_puts(out, ":");
}

static void put_next(struct buf *out)
{
	if (out->text[out->length - 1] != '[')
		buf_puts(out, ",");
}

static void put_word(struct buf *out, const char *key, const char *text)
{
	put_key(out, key);
	put_string(out, text);
}

static void put_number(struct buf *out, const char *key, wide number)
{
	char text[48];

	put_key(out, key);
	buf_puts(out, wide_text(number, text));
}

static void put_real(struct buf *out, const char *key, double number)
{
	put_key(out, key);
	buf_addf(out, "%.17g", number);
}

static void put_config(struct buf *out, const struct config *c)
{
	put_key(out, "config");
	buf_puts(out, "{");
#define PUT_INT(name) put_number(out, #name, c->name)
#define PUT_REAL(name) put_real(out, #name, c->name)
#define PUT_BOOL(name) put_key(out, #name), buf_puts(out, c->name ? "true" : "false")
#define PUT_TEXT(name) put_word(out, #name, c->name)
#define FIELD(name, type, help)           \
	if (config_has(c, CONFIG_##name)) \
		PUT_##type(name);
#include "config/fields.def"
#undef FIELD
	buf_puts(out, "}");
}

/* What the device holds beyond the stage's terms: together they are device_bytes. */
static void put_outside(struct buf *out, const struct stage *s)
{
	put_key(out, "outside");
	buf_puts(out, "[");
	for (size_t i = 0; i < s->outside_count; i++) {
		put_next(out);
		buf_puts(out, "{");
		put_word(out, "id", s->outside[i].id);
		put_word(out, "component", s->outside[i].component);
		put_word(out, "kind", s->outside[i].kind);
		put_number(out, "bytes", s->outside[i].bytes);
		put_word(out, "source", s->outside[i].source);
		buf_puts(out, "}");
	}
	buf_puts(out, "]");
}

/* What our own system says of a stage. */
static void put_peak(struct buf *out, const struct estimate *e, const struct stage *s)
{
	if (!s->peak_phase)
		return;
	put_number(out, "steady_bytes", s->steady);
	put_number(out, "peak_bytes", s->total);
	put_word(out, "peak_phase", s->peak_phase);
	put_number(out, "reserved_bytes", s->reserved);
	put_number(out, "device_bytes", s->device);
	if (s->in_device)
		put_word(out, "outcome",
			 s->in_device == FIT_FITS ? "fits" : "out_of_memory");
	put_outside(out, s);
	put_key(out, "terms");
	buf_puts(out, "[");
	for (size_t i = 0; i < estimate_term_count(e); i++)
		if (s->terms[i] || s->steady_terms[i]) {
			put_next(out);
			buf_puts(out, "{");
			put_word(out, "id", estimate_term(e, i)->id);
			put_number(out, "bytes", s->terms[i]);
			put_number(out, "steady_bytes", s->steady_terms[i]);
			buf_puts(out, "}");
		}
	buf_puts(out, "]");
}

static void put_stages(struct buf *out, const struct estimate *e)
{
	put_key(out, "per_stage");
	buf_puts(out, "[");
	if (!e->stage_count) {
		buf_puts(out, "{\"stage\":0");
		put_number(out, "total_bytes", e->total);
		buf_puts(out, "}");
	}
	for (size_t i = 0; i < e->stage_count; i++) {
		const struct stage *s = &e->stages[i];

		put_next(out);
		buf_puts(out, "{");
		put_number(out, "stage", (wide)i);
		if (s->layers % s->layers_of)
			put_real(out, "layers", (double)s->layers / (double)s->layers_of);
		else
			put_number(out, "layers", s->layers / s->layers_of);
		put_number(out, "microbatches_in_flight", s->in_flight);
		put_number(out, "model_states", s->model_states);
		put_number(out, "activations", s->activations);
		put_number(out, "total_bytes", s->total);
		put_peak(out, e, s);
		buf_puts(out, "}");
	}
	buf_puts(out, "]");
}

static void put_terms(struct buf *out, const struct estimate *e)
{
	put_key(out, "terms");
	buf_puts(out, "[");
	for (size_t i = 0; i < estimate_term_count(e); i++) {
		const struct term *t = estimate_term(e, i);

		put_next(out);
		buf_puts(out, "{");
		put_word(out, "id", t->id);
		put_word(out, "component", t->component);
		put_word(out, "title", t->title);
		put_number(out, "bytes", estimate_bytes(e, i));
		put_word(out, "formula", t->printed);
		put_word(out, "source", t->source);
		if (t->kind)
			put_word(out, "kind", t->kind);
		buf_puts(out, "}");
	}
	buf_puts(out, "]");
}

static void put_constants(struct buf *out, const struct estimate *e)
{
	if (!e->constant_count)
		return;
	put_key(out, "constants");
	buf_puts(out, "[");
	for (size_t i = 0; i < e->constant_count; i++) {
		const struct constant *c = &e->constants[i];

		put_next(out);
		buf_puts(out, "{");
		put_word(out, "id", c->id);
		put_word(out, "kind", c->kind);
		put_number(out, "bytes", c->bytes);
		put_word(out, "source", c->source);
		buf_puts(out, "}");
	}
	buf_puts(out, "]");
}

static void put_rows(struct buf *out, const struct estimate *e)
{
	if (!e->row_count)
		return;
	put_key(out, "rows");
	buf_puts(out, "[");
	for (size_t i = 0; i < e->row_count; i++) {
		const struct option_row *r = &e->rows[i];

		put_next(out);
		buf_puts(out, "{");
		if (r->offload_param)
			put_word(out, "offload_param", r->offload_param);
		put_word(out, "offload_optimizer", r->offload_optimizer);
		if (r->zero_init >= 0) {
			put_key(out, "zero_init");
			buf_puts(out, r->zero_init ? "true" : "false");
		}
		put_number(out, "per_cpu_bytes", r->cpu);
		put_number(out, "per_gpu_bytes", r->gpu);
		buf_puts(out, "}");
	}
	buf_puts(out, "]");
}

static void put_results(struct buf *out, const struct estimate *e)
{
	for (size_t i = 0; i < e->result_count; i++)
		if (e->results[i].text)
			put_word(out, e->results[i].key, e->results[i].text);
		else
			put_number(out, e->results[i].key, e->results[i].number);
	if (e->strategy_count) {
		put_key(out, "strategies");
		buf_puts(out, "{");
		for (size_t i = 0; i < e->strategy_count; i++)
			put_number(out, e->strategies[i].name, e->strategies[i].bytes);
		buf_puts(out, "}");
	}
	put_rows(out, e);
}

static void put_symbols(struct buf *out, const struct estimate *e)
{
	put_key(out, "symbols");
	buf_puts(out, "{");
	for (size_t i = 0; i < e->system->symbol_count; i++)
		put_number(out, e->system->symbols[i].letter, e->dims.value[i]);
	buf_puts(out, "}");
}

static void put_notes(struct buf *out, const struct answer *a, const struct estimate *e)
{
	put_key(out, "notes");
	buf_puts(out, "[");
	for (size_t i = 0; i < e->note_count; i++) {
		put_next(out);
		put_string(out, e->notes[i]);
	}
	for (unsigned i = 0; i < a->config->note_count; i++) {
		put_next(out);
		put_string(out, a->config->notes[i]);
	}
	buf_puts(out, "]");
}

static void put_estimate(struct buf *out, const struct answer *a, const struct estimate *e)
{
	buf_puts(out, "{");
	put_word(out, "system", e->system->name);
	put_word(out, "title", e->system->title);
	put_word(out, "source", e->system->source);
	put_number(out, "total_bytes", e->total);
	if (a->memory)
		put_word(out, "color", fit_word(estimate_fit(e, a->memory)));
	put_stages(out, e);
	put_terms(out, e);
	put_symbols(out, e);
	put_results(out, e);
	put_constants(out, e);
	put_word(out, "leaves_out", e->system->leaves_out);
	put_notes(out, a, e);
	buf_puts(out, "}");
}

void estimate_json(const struct answer *a, struct buf *out)
{
	buf_puts(out, "{");
	put_config(out, a->config);
	if (a->memory)
		put_number(out, "device_memory_bytes", a->memory);
	put_key(out, "estimates");
	buf_puts(out, "[");
	for (size_t i = 0; i < a->count; i++) {
		put_next(out);
		put_estimate(out, a, &a->estimates[i]);
	}
	buf_puts(out, "]");
	put_key(out, "refused");
	buf_puts(out, "[");
	for (size_t i = 0; i < a->refusal_count; i++) {
		put_next(out);
		buf_puts(out, "{");
		put_word(out, "system", a->refusals[i].system->name);
		put_word(out, "reason", a->refusals[i].reason);
		buf_puts(out, "}");
	}
	buf_puts(out, "]}\n");
}
