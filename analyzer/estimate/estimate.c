#include "estimate/estimate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

wide estimate_sum(const struct system *system, const struct dims *dims)
{
	wide sum = 0;

	for (size_t i = 0; i < system->term_count; i++)
		sum += system->terms[i].of(dims);
	return sum;
}

wide estimate_component(const struct estimate *e, const char *component)
{
	wide sum = 0;

	for (size_t i = 0; i < estimate_term_count(e); i++)
		if (!strcmp(estimate_term(e, i)->component, component))
			sum += estimate_bytes(e, i);
	return sum;
}

/* Is a number above INT64_MAX? 8 EiB on a GPU is no job, and no integer in JSON either. */
static int is_too_large(const struct estimate *e)
{
	wide most = estimate_most(e);

	for (size_t i = 0; i < e->result_count; i++)
		most = largest(most, e->results[i].number);
	for (size_t i = 0; i < e->strategy_count; i++)
		most = largest(most, e->strategies[i].bytes);
	for (size_t i = 0; i < e->row_count; i++)
		most = largest(most, largest(e->rows[i].cpu, e->rows[i].gpu));
	return most > INT64_MAX;
}

int estimate_make(struct estimate *out, const struct system *system, const struct config *c,
		  int detail, struct err *e)
{
	memset(out, 0, offsetof(struct estimate, results));
	out->result_count = out->strategy_count = out->row_count = out->constant_count = 0;
	out->stages = NULL;
	out->stage_count = 0;
	out->job_terms = NULL;
	out->job_bytes = NULL;
	out->notes = NULL;
	out->note_count = out->note_room = 0;
	out->system = system;
	out->detail = detail;
	if (system->read(c, out, e) < 0)
		return -1;
	for (size_t i = 0; i < system->term_count; i++) {
		out->bytes[i] = system->terms[i].of(&out->dims);
		out->total += out->bytes[i];
	}
	if (detail && system->add_results)
		system->add_results(c, out);
	if (is_too_large(out))
		return err_set(e, "%s: more than 8 EiB on a GPU: check the sizes of the job",
			       system->name);
	return 0;
}

wide estimate_most(const struct estimate *e)
{
	wide most = e->total;

	for (size_t i = 0; i < e->stage_count; i++)
		most = largest(most, e->stages[i].total);
	return most;
}

static void stages_release(struct stage *stages, size_t count)
{
	for (size_t i = 0; stages && i < count; i++) {
		free(stages[i].terms);
		free(stages[i].steady_terms);
		free(stages[i].outside);
	}
	free(stages);
}

void estimate_release(struct estimate *out)
{
	for (size_t i = 0; i < out->note_count; i++)
		free(out->notes[i]);
	free(out->notes);
	stages_release(out->stages, out->stage_count);
	free(out->job_terms);
	free(out->job_bytes);
	memset(out, 0, sizeof(*out));
}

void estimate_note(struct estimate *out, const char *format, ...)
{
	va_list args;
	char *note;

	if (out->detail != DETAIL_ALL)
		return;
	va_start(args, format);
	note = xvasprintf(format, args);
	va_end(args);
	/* Several reads may find the same: the note is added once. */
	for (size_t i = 0; i < out->note_count; i++)
		if (!strcmp(out->notes[i], note)) {
			free(note);
			return;
		}
	out->notes = grow(out->notes, out->note_count, &out->note_room, sizeof(*out->notes));
	out->notes[out->note_count++] = note;
}

static struct result *next_result(struct estimate *out, const char *key)
{
	if (out->result_count == MAX_RESULTS)
		BUG("results");
	out->results[out->result_count] = (struct result){ .key = key };
	return &out->results[out->result_count++];
}

void estimate_add_result(struct estimate *out, const char *key, wide number)
{
	next_result(out, key)->number = number;
}

void estimate_add_word(struct estimate *out, const char *key, const char *text)
{
	next_result(out, key)->text = text;
}

void estimate_add_constant(struct estimate *out, const struct constant *c)
{
	if (out->constant_count == MAX_CONSTANTS)
		BUG("constants");
	out->constants[out->constant_count++] = *c;
}

const char *wide_text(wide number, char *text)
{
	char digits[48];
	unsigned __int128 left =
		number < 0 ? -(unsigned __int128)number : (unsigned __int128)number;
	int n = 0, at = 0;

	do
		digits[n++] = (char)('0' + (int)(left % 10));
	while (left /= 10);
	if (number < 0)
		text[at++] = '-';
	while (n)
		text[at++] = digits[--n];
	text[at] = '\0';
	return text;
}
