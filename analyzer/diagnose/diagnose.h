/*
 * Why did the job run out of memory, or waste it? rules.def, over the metrics of each rank:
 * findings, the cause among them, and what was looked at and ruled out.
 */
#ifndef MEMTRACE_DIAGNOSE_H
#define MEMTRACE_DIAGNOSE_H

#include "util/buf.h"
#include "metrics/metrics.h"

struct report;

#define SAVING_UNKNOWN INT64_MIN

enum severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE };
const char *severity_name(enum severity s);

struct evidence {
	const char *name; /* of metrics.def */
	enum metric_unit unit;
	int64_t value;
};

struct remedy {
	char *action;
	bytes saving; /* SAVING_UNKNOWN */
};

struct finding {
	const char *rule, *title, *source;
	size_t rank; /* index into the report's ranks */
	enum severity severity;
	int is_cause;  /* of that rank's failure, or of its waste */
	int is_informational; /* true of many jobs, and nothing to change */
	const char *confidence;
	bytes weight;
	char *message, *stack; /* stack: a label, or NULL */
	struct evidence *evidence;
	size_t evidence_count, evidence_room;
	struct remedy *remedies;
	size_t remedy_count, remedy_room;
	int tier, order;
};

struct diagnosis {
	struct finding *findings; /* the shown rank's first, then by rank; each rank's ordered */
	size_t count, room;
	char **ruled_out; /* for the shown rank */
	size_t ruled_out_count, ruled_out_room;
};

/* After all ranks were added and sorted. */
void diagnose(struct diagnosis *d, const struct report *r);
void diagnosis_release(struct diagnosis *d);
/* The cause that was found for a rank, or NULL. */
const struct finding *diagnosis_cause(const struct diagnosis *d, size_t rank);

/* A message with its {metrics} filled in; they are added to `f` if that is there. */
void diagnose_fill(struct buf *out, const char *format, const struct metrics *m,
		   struct finding *f);

/* The table of rules itself. */
struct rule_row {
	const char *id, *severity, *title, *when, *message, *source, *undetectable;
};
/* NULL after the last. */
const struct rule_row *rule_at(size_t i);

#endif
