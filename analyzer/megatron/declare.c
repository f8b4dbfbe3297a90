#include "megatron/declare.h"

#include "util/util.h"

struct param *declare_param(struct model_chunk *c, enum term_id term, int64_t out, int64_t in,
			    int on_host)
{
	struct param *p = xcalloc(1, sizeof(*p));
	size_t room = c->module.room;

	p->in = in;
	p->term = term;
	p->value.n = out * in;
	c->module.params =
		grow(c->module.params, c->module.count, &c->module.room, sizeof(*c->module.params));
	c->on_host = grow(c->on_host, c->module.count, &room, sizeof(*c->on_host));
	c->on_host[c->module.count] = (unsigned char)on_host;
	c->module.params[c->module.count++] = p;
	return p;
}

struct norm_weights declare_norm(struct model_chunk *c, int64_t width)
{
	int on_host = !c->rank->s->transformer_engine;
	struct norm_weights n = { declare_param(c, TERM_NORM_WEIGHTS, 1, width, on_host), NULL };

	if (c->rank->s->norm_bias)
		n.bias = declare_param(c, TERM_NORM_WEIGHTS, 1, width, on_host);
	return n;
}

struct param *declare_bias(struct model_chunk *c, enum term_id term, int64_t n)
{
	return c->rank->s->linear_bias ? declare_param(c, term, 1, n, 0) : NULL;
}

void quantize_layer(struct model_chunk *c, size_t from)
{
	for (size_t i = from; i < c->module.count; i++) {
		struct param *p = c->module.params[i];

		p->quantized = p->in > 1 && p->value.n > p->in && p->term != TERM_NORM_WEIGHTS &&
			       p->term != TERM_OTHER_WEIGHTS;
	}
}
