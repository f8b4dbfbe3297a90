/* Megatron-core's PipelineParallelLayerLayout: E is the embedding, t a layer, m a layer of
 * multi-token prediction, L the loss; | begins the next stage; x*3 and (xy)*3 repeat. */
#include "config/pipeline_layout.h"

#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "util/util.h"

#define MAX_LETTERS 100000

struct layout_text {
	const char *at;
	struct stages *out;
	int64_t letters, layers, mtp, losses;
	int64_t work; /* letters read and repetitions of groups, empty ones included */
};

static int letter(struct layout_text *t, char c)
{
	struct stages *s = t->out;
	struct stage_layers *stage = &s->at[s->count - 1];

	/* The order is embedding, layers, layers of multi-token prediction, loss. */
	if (++t->letters > MAX_LETTERS || t->losses || (c == 'E') != (t->letters == 1) ||
	    (c == 't' && t->mtp))
		return -1;
	switch (c) {
	case 'E':
	case ',':
		return 0;
	case 'L':
		t->losses++;
		return 0;
	case 't':
		stage->layers++;
		t->layers++;
		return 0;
	case 'm':
		stage->mtp++;
		t->mtp++;
		return 0;
	case '|':
		if (s->count == MAX_STAGES)
			return -1;
		s->at[s->count++] = (struct stage_layers){ .first = t->layers };
		return 0;
	default:
		return -1;
	}
}

/* The number of repetitions: 3 for "*3", 1 if no "*" follows. */
static int64_t times(struct layout_text *t)
{
	char *end;
	int64_t n;

	if (*t->at != '*')
		return 1;
	if (t->at[1] < '0' || t->at[1] > '9')
		return -1;
	n = strtoll(t->at + 1, &end, 10);
	t->at = end;
	return n > MAX_LETTERS ? -1 : n;
}

static int letters(struct layout_text *t, const char *end)
{
	while (t->at < end) {
		char c = *t->at++;
		int64_t n = times(t);

		if (n < 0 || ++t->work > MAX_LETTERS)
			return -1;
		for (; n > 0; n--)
			if (letter(t, c))
				return -1;
	}
	return 0;
}

static int group(struct layout_text *t)
{
	const char *start = ++t->at, *end = strchr(start, ')');
	int64_t n;

	if (!end)
		return -1;
	t->at = end + 1;
	n = *t->at == '*' ? times(t) : -1;
	for (const char *after = t->at; n > 0; n--) {
		t->at = start;
		if (++t->work > MAX_LETTERS || letters(t, end))
			return -1;
		t->at = after;
	}
	return n;
}

static int parse(struct layout_text *t)
{
	while (*t->at) {
		const char *open = strchr(t->at, '(');

		if (letters(t, open ? open : t->at + strlen(t->at)) || (open && group(t)))
			return -1;
	}
	return t->losses == 1 ? 0 : -1;
}

int config_stages(const struct config *c, struct stages *out, struct err *e)
{
	struct layout_text t = { .at = c->pipeline_model_parallel_layout, .out = out };
	int64_t p = config_has(c, CONFIG_pipeline_model_parallel_size)
			    ? c->pipeline_model_parallel_size
			    : 1;
	int64_t mtp = config_has(c, CONFIG_mtp_num_layers) ? c->mtp_num_layers : 0;

	out->count = 1;
	out->at[0] = (struct stage_layers){ .first = 0 };
	if (parse(&t))
		return err_set(
			e,
			"pipeline_model_parallel_layout is \"%s\" (%s), expected stages such as "
			"Et*3|(tt|)*6mL: E, t, m, L, | and *N, E first and L last",
			c->pipeline_model_parallel_layout,
			c->origin[CONFIG_pipeline_model_parallel_layout]);
	if (out->count % p || t.mtp != mtp ||
	    (config_has(c, CONFIG_num_layers) && t.layers != c->num_layers))
		return err_set(
			e,
			"pipeline_model_parallel_layout (%s) has %lld stages, %lld layers and "
			"%lld of multi-token prediction: expected a multiple of %lld stages, %lld "
			"layers, %lld",
			c->origin[CONFIG_pipeline_model_parallel_layout], (long long)out->count,
			(long long)t.layers, (long long)t.mtp, (long long)p,
			(long long)c->num_layers, (long long)mtp);
	return 0;
}

/* Writes the layout of the stages in the form of --pipeline-model-parallel-layout: "Ett|ttmL", with
 * an m for each predicted token. */
static void derive_stages(struct config *c)
{
	const char *at = c->hybrid_layer_pattern;
	struct buf layout = { 0 };

	buf_puts(&layout, "E");
	for (; *at && *at != '/'; at++)
		buf_puts(&layout, *at == '|' ? "|" : "t");
	for (; *at; at++)
		if (*at == '/')
			buf_puts(&layout, "m");
	buf_puts(&layout, "L");
	config_derived_text(c, CONFIG_pipeline_model_parallel_layout, layout.text,
			    "the stages of hybrid_layer_pattern");
	buf_release(&layout);
}

void config_derive_hybrid(struct config *c)
{
	const char *at = c->hybrid_layer_pattern;
	int64_t layers = 0, predictions = 0;

	if (!config_has(c, CONFIG_hybrid_layer_pattern))
		return;
	for (; *at; at++) {
		layers += *at != '|' && *at != '/' && !predictions;
		predictions += *at == '/';
	}
	/* Megatron-LM, too, takes the pattern's number */
	config_derived_int(c, CONFIG_num_layers, layers, "the layers of hybrid_layer_pattern");
	if (predictions)
		config_derived_int(c, CONFIG_mtp_num_layers, predictions,
				   "the predictions of hybrid_layer_pattern");
	if (strchr(c->hybrid_layer_pattern, '|') &&
	    !config_has(c, CONFIG_pipeline_model_parallel_layout))
		derive_stages(c);
	if (!config_has(c, CONFIG_model_type))
		config_derived_text(c, CONFIG_model_type, "hybrid", "hybrid_layer_pattern");
}
