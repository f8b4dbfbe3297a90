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
		drop(m, &m->cast[--m->cast_count]->cast);
}

void end_autocast(struct machine *m)
{
	clear_autocast(m);
	m->autocast = F32;
}

tensor autocasted(struct machine *m, tensor x)
{
	return m->autocast && x.type == F32 ? to(m, x, m->autocast) : hold(x);
}

/* at::autocast::cached_cast: the copy of a leaf that needs gradients is kept until autocast ends.
 */
tensor autocast_weight(struct machine *m, struct param *p)
{
	enum role as = m->as;

	if (!m->autocast || p->value.type != F32)
		return hold(p->value);
	if (!p->cast.at) {
		m->as = TERM_AUTOCAST_CACHE;
		p->cast = to(m, p->value, m->autocast);
		m->as = as;
		if (!p->cast.at)
			return none;
		m->cast = grow(m->cast, m->cast_count, &m->cast_room, sizeof(*m->cast));
		m->cast[m->cast_count++] = p;
	}
	return hold(p->cast);
}
