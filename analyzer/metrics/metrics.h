/*
 * Metrics: the quantities that the rules of a diagnosis compare (metrics.def), for one device of
 * one trace. They need a third pass over the trace, since they depend on results of the first two:
 * the moment that is diagnosed, and the sizes of blocks that are live then.
 */
#ifndef MEMTRACE_METRICS_H
#define MEMTRACE_METRICS_H

#include <memtrace/trace.h>
#include <stddef.h>

#include "attribution/frames.h"
#include "util/util.h"

struct config;
struct replay;
struct tables;
struct trace;

struct metrics {
#define METRIC(id, unit, meaning) int64_t id;
#include "metrics/metrics.def"
#undef METRIC
	/* The one metric that is not a number: the frameworks on the stacks, a bit each of enum
	 * stack_tag. */
	stack_tags tags;
	/* Stacks for evidence: of the leak, of the blocks that repeat, of the request, or of most
	 * of the bytes of the metric of that name; MT_NO_STACK unknown. */
	uint32_t leak_stack, left_stack, repeat_stack, request_stack, evaluated_stack, huge_stack;
	uint32_t data_stack, growing_stack;
	uint32_t setup_stack, hooked_stack, doubled_stack;
	uint32_t pinned_stack; /* that pins the most host memory; MT_NO_STACK unknown */
	uint16_t leak_thread;
};

#define LOOP_LINES 3 /* that keep blocks as often as one another: fewer may be results */

/* Do lines of the job's own loop keep what they compute, call by call, for a backward pass? */
static inline int metrics_own_loop(const struct metrics *m)
{
	return m->run_own_stacks >= LOOP_LINES && !m->run_evaluates;
}

/* Does the forward pass that runs at the moment make nodes of the autograd graph? Neither, if it is
 * not known of most of it. */
static inline int metrics_in_graph(const struct metrics *m)
{
	return m->in_graph && m->in_forward && m->run_in_graph >= m->run_live / 2 &&
	       m->run_no_graph <= m->run_in_graph / 4;
}

static inline int metrics_no_graph(const struct metrics *m)
{
	return m->no_graph && m->in_forward && m->run_no_graph + m->requested >= m->run_live / 2 &&
	       m->run_in_graph <= m->run_live / 5;
}

enum metric_unit { UNIT_BYTES, UNIT_COUNT, UNIT_FACTOR, UNIT_FLAG, UNIT_PERCENT };

struct metric_row {
	const char *name;
	enum metric_unit unit;
	const char *meaning;
	size_t offset;
};
extern const struct metric_row metric_rows[];
extern const size_t metric_count;

/* The metric of that name, or NULL. */
const struct metric_row *metric_find(const char *name, size_t length);
int64_t metric_value(const struct metrics *m, const struct metric_row *row);

/* Fills m[device] for each device of the trace. `c`: what the trace declares, or NULL.
 * `measures_need`: the trace is of a whole run of a job that failed, whose source tells what the
 * remedies would take from it. */
void metrics_compute(struct metrics m[MT_MAX_DEVICES], const struct trace *t,
		     const struct config *c, const struct replay *r, int measures_need);

#endif
