#include "session/job_assume.h"

#include "config/parameter_count.h"
#include "readers/derive.h"
#include "readers/hf.h"
#include "util/buf.h"

#define MOST_TOKENS 4096
#define ASSUMED "default: assumed"

static int assume(struct config *c, enum config_field f, int64_t value, struct buf *assumptions,
		  struct err *e)
{
	buf_addf(assumptions, "%s%s %lld", assumptions->length ? ", " : "", config_name(f),
		 (long long)value);
	return config_set_int(c, f, value, ASSUMED, e);
}

static int assume_tokens(struct config *c, struct buf *assumptions, struct err *e)
{
	int64_t most = config_most_tokens(c);
	int is_all = most > 0 && most <= MOST_TOKENS;

	if (config_has(c, CONFIG_seq_length))
		return 0;
	if (assume(c, CONFIG_seq_length, is_all ? most : MOST_TOKENS, assumptions, e))
		return -1;
	if (is_all)
		buf_puts(assumptions, " (the model's most)");
	else if (most)
		buf_addf(assumptions, " (of the model's %lld)", (long long)most);
	return 0;
}

static void tell_precision(const struct config *c, struct buf *assumptions)
{
	if (!config_has(c, CONFIG_precision))
		buf_addf(assumptions, "%sprecision bf16-mixed", assumptions->length ? ", " : "");
}

int job_assume(struct config *c, struct buf *assumptions, struct err *e)
{
	if (!c->model_file)
		return 0;
	if (!config_has(c, CONFIG_micro_batch_size) &&
	    assume(c, CONFIG_micro_batch_size, 1, assumptions, e))
		return -1;
	if (assume_tokens(c, assumptions, e))
		return -1;
	tell_precision(c, assumptions);
	return config_derive(c, e);
}

/* A plan divides layers that are alike; what else such a model has is not in the numbers. */
static void tell_decoder(const struct config *c, struct buf *assumptions)
{
	const char *before = assumptions->length ? ", " : "";

	if (config_has(c, CONFIG_model_type) && !hf_knows_type(c->model_type))
		buf_addf(assumptions, "%smodel_type %s is a decoder of these sizes", before,
			 c->model_type);
	else if (c->is_language_part)
		buf_addf(assumptions, "%sthe language model (text_config) alone", before);
}

int job_assume_plan(struct config *c, int64_t gpus, struct buf *assumptions, struct err *e)
{
	if (!c->model_file)
		return 0;
	if (assume_tokens(c, assumptions, e))
		return -1;
	if (!config_has(c, CONFIG_global_batch_size)) {
		if (assume(c, CONFIG_global_batch_size, gpus, assumptions, e))
			return -1;
		buf_puts(assumptions, " (a sequence for each GPU)");
	}
	if (assumptions->length)
		tell_precision(c, assumptions);
	tell_decoder(c, assumptions);
	return 0;
}
