/* What runs before a span, and between two times. */
#ifndef MEMTRACE_SPAN_ORDER_H
#define MEMTRACE_SPAN_ORDER_H

#include "attribution/spans.h"

/* Is the model called between two times? Its results are no data. */
int span_order_has_model(const struct spans *spans, uint64_t from_ns, uint64_t to_ns);
/* The last activity before a span that is not the job's own code. */
uint8_t span_order_activity_before(const struct spans *spans, const struct span *s);
/* Is it a time behind the optimizer's step, and before the next forward pass? */
int span_order_is_behind_optimizer(const struct spans *spans, const struct span *now);

#endif
