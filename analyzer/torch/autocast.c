#include "torch/autocast.h"

#include "torch/ops.h"
#include "util/util.h"

void begin_autocast(struct machine *m, enum dtype type)
{
	m->autocast = type;
}

void clear_autocast(struct machine *m)
{
	while (m->cast_count)
		tensor_unref(m, &m->cast[--m->cast_count]->cast);
}

void end_autocast(struct machine *m)
{
	clear_autocast(m);
	m->autocast = F32;
}

tensor autocasted(struct machine *m, tensor x)
{
	return m->autocast && x.type == F32 ? to(m, x, m->autocast) : tensor_ref(x);
}

/* at::autocast::cached_cast keeps the copy of a leaf that needs gradients until autocast ends. */
tensor autocast_weight(struct machine *m, struct param *p)
{
	enum term_id term = m->current_term;

	if (!m->autocast || p->value.type != F32)
		return tensor_ref(p->value);
	if (!p->cast.storage) {
		m->current_term = TERM_AUTOCAST_CACHE;
		p->cast = to(m, p->value, m->autocast);
		m->current_term = term;
		if (!p->cast.storage)
			return none;
		m->cast = grow(m->cast, m->cast_count, &m->cast_room, sizeof(*m->cast));
		m->cast[m->cast_count++] = p;
	}
	return tensor_ref(p->cast);
}
