#include "session/job_assume.h"

#include "config/parameter_count.h"
#include "readers/derive.h"
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

int job_assume(struct config *c, struct buf *assumptions, struct err *e)
{
	int64_t most = config_most_tokens(c);

	if (!c->model_file)
		return 0;
	if (!config_has(c, CONFIG_micro_batch_size) &&
	    assume(c, CONFIG_micro_batch_size, 1, assumptions, e))
		return -1;
	if (!config_has(c, CONFIG_seq_length)) {
		int is_all = most > 0 && most <= MOST_TOKENS;

		if (assume(c, CONFIG_seq_length, is_all ? most : MOST_TOKENS, assumptions, e))
			return -1;
		if (is_all)
			buf_puts(assumptions, " (the model's most)");
		else if (most)
			buf_addf(assumptions, " (of the model's %lld)", (long long)most);
	}
	if (!config_has(c, CONFIG_precision))
		buf_addf(assumptions, "%sprecision bf16-mixed", assumptions->length ? ", " : "");
	return config_derive(c, e);
}
