#include "render/estimate_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimate/fit.h"
#include "render/page.h"

#define LABEL 17
#define COLUMN 14
#define STAGES_SHOWN 64

static const char *const components[] = {
	"parameters", "buffers",    "gradients",     "optimizer_states", "activations",
	"inputs",     "workspaces", "communication", "temporaries",      "other",
};

/* "1.87" GiB, or the exact bytes. */
static const char *number(const struct style *style, wide n, char *text)
{
	double gib = (double)n / (double)(INT64_C(1) << 30);

	if (style->raw_bytes)
		return wide_text(n, text);
	snprintf(text, 48, gib < 1e12 ? "%.2f" : "%.4g", gib);
	return text;
}

static const char *unit(const struct style *style)
{
	return style->raw_bytes ? "bytes" : "GiB";
}

static void put_cell(struct page *p, int width, enum paint paint, const char *text)
{
	int pad = width - (int)utf8_width(text);

	buf_addf(p->out, "%*s", pad > 1 ? pad : 1, "");
	page_paint(p, paint, text);
}

static enum paint fit_paint(enum fit f)
{
	return f == FIT_GREEN ? PAINT_CACHED : f == FIT_YELLOW ? PAINT_WARNING : PAINT_ALARM;
}

static int cell_width(const struct answer *a, const struct style *style)
{
	int width = COLUMN;
	char text[48];

	for (size_t i = 0; i < a->count; i++) {
		int n = (int)strlen(number(style, a->estimates[i].total, text)) + 2;

		width = n > width ? n : width;
	}
	return width;
}

/* A name that is too long for its column takes two lines: "training-" above "memory-blog". */
static const char *lower_name(const char *name)
{
	const char *cut = strchr(name, '-');

	return strlen(name) < COLUMN - 1 || !cut ? name : cut + 1;
}

static void put_header(struct page *p, const struct answer *a, int width)
{
	int column = 0;

	for (size_t i = 0; i < a->count; i++) {
		const char *name = a->estimates[i].system->name;
		int end = LABEL + width * ((int)i + 1);
		char upper[64];

		if (name == lower_name(name))
			continue;
		snprintf(upper, sizeof(upper), "%.*s", (int)(lower_name(name) - name), name);
		put_cell(p, end - column, PAINT_BOLD, upper);
		column = end;
	}
	buf_addf(p->out, "%s%-*s", column ? "\n" : "", LABEL, unit(p->style));
	for (size_t i = 0; i < a->count; i++)
		put_cell(p, width, PAINT_BOLD, lower_name(a->estimates[i].system->name));
	buf_puts(p->out, "\n");
}

static void put_component(struct page *p, const struct answer *a, const char *component, int width)
{
	char text[48];
	wide most = 0;

	for (size_t i = 0; i < a->count; i++)
		most = largest(most, estimate_component(&a->estimates[i], component));
	if (!most)
		return;
	buf_addf(p->out, "%-*s", LABEL, component);
	for (size_t i = 0; i < a->count; i++) {
		wide n = estimate_component(&a->estimates[i], component);

		put_cell(p, width, PAINT_NONE, n ? number(p->style, n, text) : "-");
	}
	buf_puts(p->out, "\n");
}

static void put_fits(struct page *p, const struct answer *a, int width)
{
	char label[64], text[48];

	if (!a->memory)
		return;
	snprintf(label, sizeof(label), "of %s %s", number(p->style, a->memory, text),
		 unit(p->style));
	buf_addf(p->out, "%-*s", LABEL, label);
	for (size_t i = 0; i < a->count; i++) {
		enum fit f = estimate_fit(&a->estimates[i], a->memory);

		put_cell(p, width, fit_paint(f), fit_word(f));
	}
	buf_puts(p->out, "\n");
}

static void put_columns(struct page *p, const struct answer *a)
{
	int width = cell_width(a, p->style);
	char text[48];

	put_header(p, a, width);
	for (size_t i = 0; i < ARRAY_SIZE(components); i++)
		put_component(p, a, components[i], width);
	buf_addf(p->out, "%-*s", LABEL, "total");
	for (size_t i = 0; i < a->count; i++)
		put_cell(p, width, PAINT_BOLD, number(p->style, a->estimates[i].total, text));
	buf_puts(p->out, "\n");
	put_fits(p, a, width);
}

/* Memory of the device outside the allocator; all communicators of NCCL in one line. */
static void put_outside(struct page *p, const struct estimate *e, int label, int width)
{
	static const char *const beyond[] = { "reserved_overhead", "context", "nccl" };
	const struct stage *s = NULL;
	char text[48];

	for (size_t i = 0; i < e->stage_count && !s; i++)
		if (e->stages[i].outside_count && e->stages[i].total == e->total)
			s = &e->stages[i];
	for (size_t i = 0; s && i < ARRAY_SIZE(beyond); i++) {
		wide sum = 0;

		for (size_t j = 0; j < s->outside_count; j++)
			if (!strcmp(s->outside[j].component, beyond[i]))
				sum += s->outside[j].bytes;
		if (!sum)
			continue;
		buf_addf(p->out, "%-*s", label, beyond[i]);
		put_cell(p, width, PAINT_NONE, number(p->style, sum, text));
		buf_puts(p->out, "\n");
	}
}

static void put_terms(struct page *p, const struct answer *a)
{
	const struct estimate *e = &a->estimates[0];
	int width = cell_width(a, p->style), label = 20;
	char text[48];

	for (size_t i = 0; i < estimate_term_count(e); i++)
		label = (int)largest(label, (wide)strlen(estimate_term(e, i)->id) + 1);
	page_paint(p, PAINT_BOLD, e->system->name);
	buf_addf(p->out, "%*s\n", label + width - (int)strlen(e->system->name), unit(p->style));
	for (size_t i = 0; i < estimate_term_count(e); i++) {
		const struct term *t = estimate_term(e, i);

		if (!estimate_bytes(e, i))
			continue;
		buf_addf(p->out, "%-*s", label, t->id);
		put_cell(p, width, PAINT_NONE, number(p->style, estimate_bytes(e, i), text));
		buf_addf(p->out, "  %s\n", t->title);
	}
	buf_addf(p->out, "%-*s", label, "total");
	put_cell(p, width, PAINT_BOLD, number(p->style, e->total, text));
	if (a->memory) {
		enum fit f = estimate_fit(e, a->memory);

		buf_puts(p->out, "  ");
		page_paint(p, fit_paint(f), fit_word(f));
		buf_addf(p->out, ": of %s %s", number(p->style, a->memory, text), unit(p->style));
		if (estimate_out_of_memory(e))
			buf_puts(p->out, ", out of memory");
	}
	buf_puts(p->out, "\n");
	put_outside(p, e, label, width);
}

static void put_results(struct page *p, const struct estimate *e)
{
	char text[48];

	for (size_t i = 0; i < e->result_count; i++) {
		const struct result *r = &e->results[i];
		const char *end = strrchr(r->key, '_');
		int is_size = (end && !strcmp(end, "_bytes")) || !strncmp(r->key, "M_", 2);

		buf_addf(p->out, "%-28s", r->key);
		if (r->text)
			buf_addf(p->out, " %s\n", r->text);
		else
			buf_addf(p->out, " %s%s%s\n",
				 is_size ? number(p->style, r->number, text)
					 : wide_text(r->number, text),
				 is_size ? " " : "", is_size ? unit(p->style) : "");
	}
	for (size_t i = 0; i < e->strategy_count; i++)
		buf_addf(p->out, "  %-26s %s %s\n", e->strategies[i].name,
			 number(p->style, e->strategies[i].bytes, text), unit(p->style));
}

/* The results of system memtrace. */
static void put_peaks(struct page *p, const struct estimate *e)
{
	char text[48];

	buf_puts(
		p->out,
		"\nstage   layers  in flight         steady           peak       reserved  peak in\n");
	for (size_t i = 0; i < e->stage_count && i < STAGES_SHOWN; i++) {
		const struct stage *s = &e->stages[i];

		buf_addf(p->out, "%5zu %8.4g %10lld", i, (double)s->layers / (double)s->layers_of,
			 (long long)s->in_flight);
		put_cell(p, 15, PAINT_NONE, number(p->style, s->steady, text));
		put_cell(p, 15, PAINT_NONE, number(p->style, s->total, text));
		put_cell(p, 15, PAINT_NONE, number(p->style, s->reserved, text));
		buf_addf(p->out, "  %s\n", s->peak_phase);
	}
}

static void put_stages(struct page *p, const struct estimate *e)
{
	char text[48];

	if (e->stage_count < 2)
		return;
	if (e->stages[0].peak_phase) {
		put_peaks(p, e);
		return;
	}
	buf_puts(p->out,
		 "\nstage   layers  in flight         states    activations          total\n");
	for (size_t i = 0; i < e->stage_count && i < STAGES_SHOWN; i++) {
		const struct stage *s = &e->stages[i];

		buf_addf(p->out, "%5zu %8.4g %10lld", i, (double)s->layers / (double)s->layers_of,
			 (long long)s->in_flight);
		put_cell(p, 15, PAINT_NONE, number(p->style, s->model_states, text));
		put_cell(p, 15, PAINT_NONE, number(p->style, s->activations, text));
		put_cell(p, 15, PAINT_NONE, number(p->style, s->total, text));
		buf_puts(p->out, "\n");
	}
	if (e->stage_count > STAGES_SHOWN)
		buf_addf(p->out, "and %zu more: see --json\n", e->stage_count - STAGES_SHOWN);
}

/* The constants, each with its kind: exact, measured or assumed. */
static void put_constants(struct page *p, const struct estimate *e)
{
	struct buf line = { 0 };
	char text[48];

	for (size_t i = 0; i < e->constant_count; i++) {
		const struct constant *c = &e->constants[i];

		buf_addf(&line, "%s: %s %s, %s: %s", c->id, number(p->style, c->bytes, text),
			 unit(p->style), c->kind, c->source);
		page_field(p, "fixed", line.text, 0);
		buf_release(&line);
		line = (struct buf){ 0 };
	}
}

/* A note, or its first clause: the explanation follows after ": " or "; ". */
static void put_note(struct page *p, const struct answer *a, const char *note)
{
	enum { LEAST = 24 };
	size_t length = strlen(note), end = LEAST;
	char *clause;

	while (end < length && strncmp(note + end, "; ", 2) != 0 &&
	       strncmp(note + end, ": ", 2) != 0)
		end++;
	if (a->verbose || end >= length) {
		page_field(p, "note", note, 0);
		return;
	}
	clause = xasprintf("%.*s", (int)end, note);
	page_field(p, "note", clause, 0);
	free(clause);
}

static void put_about(struct page *p, const struct answer *a, const struct estimate *e)
{
	buf_puts(p->out, "\n");
	page_paint(p, PAINT_BOLD, e->system->name);
	buf_addf(p->out, "  %s\n", e->system->title);
	if (a->verbose) {
		page_field(p, "source", e->system->source, 0);
		page_field(p, "without", e->system->leaves_out, 0);
		put_constants(p, e);
	}
	for (size_t i = 0; i < e->note_count; i++)
		put_note(p, a, e->notes[i]);
}

/* Our own estimate, or the only one. */
static const struct estimate *first_answer(const struct answer *a)
{
	for (size_t i = 0; i < a->count; i++)
		if (a->estimates[i].stage_count && a->estimates[i].stages[0].peak_phase)
			return &a->estimates[i];
	return NULL;
}

/* The stored runs of the job, beside the estimate and not part of it. */
static void put_history(struct page *p, const struct answer *a, const struct estimate *own)
{
	struct buf b = { 0 };

	buf_puts(&b, a->history.sentence);
	if (own && a->history.runs) {
		buf_puts(&b, ": with it, ");
		page_size(p, &b, (bytes)((double)own->total * a->history.ratio));
		buf_puts(&b, " in tensors");
	}
	page_field(p, "history", b.text, 0);
	buf_release(&b);
}

void estimate_text(const struct answer *a, const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };
	const struct estimate *own = first_answer(a);

	if (own)
		estimate_headline(&p, a, own);
	if (a->history.is_asked)
		put_history(&p, a, own);
	if (a->count == 1 && !a->refusal_count) {
		put_terms(&p, a);
		buf_puts(out, "\n");
		put_results(&p, &a->estimates[0]);
		put_stages(&p, &a->estimates[0]);
		if (a->estimates[0].row_count) {
			buf_puts(out, "\n");
			estimate_deepspeed(&a->estimates[0], out);
		}
	} else {
		put_columns(&p, a);
	}
	for (size_t i = 0; i < a->count; i++)
		put_about(&p, a, &a->estimates[i]);
	for (size_t i = 0; i < a->refusal_count; i++) {
		buf_puts(out, "\n");
		page_paint(&p, PAINT_BOLD, a->refusals[i].system->name);
		buf_puts(out, "  cannot say it\n");
		page_field(&p, "because", a->refusals[i].reason, 0);
	}
	if (a->config->note_count)
		buf_puts(out, "\n");
	for (unsigned i = 0; i < a->config->note_count; i++)
		put_note(&p, a, a->config->notes[i]);
	if (!a->verbose)
		buf_puts(out, "\n--verbose: whole notes, sources, fixed sizes\n");
}

/* Is `letter` a word of `formula`? */
static int uses(const char *formula, const char *letter)
{
	size_t n = strlen(letter);

	for (const char *at = formula; *at;) {
		size_t word = 0;

		while (isalnum((unsigned char)at[word]) || at[word] == '_')
			word++;
		if (word == n && !strncmp(at, letter, n))
			return 1;
		at += word ? word : 1;
	}
	return 0;
}

static void explain_term(struct page *p, const struct estimate *e, size_t i)
{
	const struct system *s = e->system;
	const struct term *t = estimate_term(e, i);
	struct buf line = { 0 };
	char text[48];

	page_paint(p, PAINT_BOLD, t->id);
	buf_addf(p->out, "  %s: %s\n", s->name, t->title);
	page_field(p, "formula", t->printed, 0);
	page_field(p, "source", t->source, 0);
	if (t->kind)
		page_field(p, "kind", t->kind, 0);
	for (size_t j = 0; j < s->symbol_count; j++)
		if (uses(t->printed, s->symbols[j].letter))
			buf_addf(p->out, "  %-5s = %-14s %s\n", s->symbols[j].letter,
				 wide_text(e->dims.value[j], text), s->symbols[j].meaning);
	buf_addf(&line, "%s bytes", wide_text(estimate_bytes(e, i), text));
	snprintf(text, sizeof(text), " = %.2f GiB",
		 (double)estimate_bytes(e, i) / (double)(1 << 30));
	buf_puts(&line, text);
	page_field(p, "result", line.text, 0);
	buf_release(&line);
}

int estimate_explain(const struct answer *a, const char *id, const struct style *style,
		     struct buf *out)
{
	struct page p = { .out = out, .style = style };
	int found = 0;

	for (size_t i = 0; i < a->count; i++) {
		const struct system *s = a->estimates[i].system;
		size_t n = strlen(s->name);
		int own = !strncmp(id, s->name, n) && id[n] == '.';

		for (size_t j = 0; j < estimate_term_count(&a->estimates[i]); j++) {
			if (strcmp(own ? id + n + 1 : id, estimate_term(&a->estimates[i], j)->id))
				continue;
			buf_puts(out, found++ ? "\n" : "");
			explain_term(&p, &a->estimates[i], j);
		}
	}
	return found;
}

void estimate_deepspeed(const struct estimate *e, struct buf *out)
{
	const wide *x = e->dims.value;
	long long letters[5];

	/* P, X, n, m, N are the first letters of the system. */
	for (int i = 0; i < 5; i++)
		letters[i] = (long long)x[i];
	buf_puts(out, "Estimated memory needed for params, optim states and gradients for a:\n");
	buf_addf(out, "HW: Setup with %lld node%s, %lld GPU%s per node.\n", letters[3],
		 letters[3] > 1 ? "s" : "", letters[2], letters[2] > 1 ? "s" : "");
	buf_addf(out, "SW: Model with %lldM total params", letters[0] / 1000000);
	if (e->rows[0].zero_init >= 0)
		buf_addf(out, ", %lldM largest layer params", letters[1] / 1000000);
	buf_puts(out, ".\n  per CPU  |  per GPU |   Options\n");
	for (size_t i = 0; i < e->row_count; i++) {
		const struct option_row *r = &e->rows[i];
		double unit_bytes = (double)(1 << 30);

		buf_addf(out, " %7.2fGB | %6.2fGB | ", (double)r->cpu / unit_bytes,
			 (double)r->gpu / unit_bytes);
		if (r->offload_param)
			buf_addf(out, "offload_param=%-4s, offload_optimizer=%-4s, zero_init=%d\n",
				 r->offload_param, r->offload_optimizer, r->zero_init);
		else
			buf_addf(out, "offload_optimizer=%s\n", r->offload_optimizer);
	}
}
