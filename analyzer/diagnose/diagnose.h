/*
 * The diagnosis of a report: rules.def, applied to the metrics of each rank. It has findings, one
 * of which may be the cause why the job ran out of memory or wastes it, and causes that are ruled
 * out.
 */
#ifndef MEMTRACE_DIAGNOSE_H
#define MEMTRACE_DIAGNOSE_H

#include "diagnose/rule_table.h"
#include "util/buf.h"
#include "metrics/metrics.h"

struct report;

#define SAVING_UNKNOWN INT64_MIN

enum severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE };

struct evidence {
	const char *name; /* of metrics.def */
	enum metric_unit unit;
	int64_t value;
};

/* The meaning of the bytes of a saving: how they bound the reduction of a whole step's need. */
enum saving_bound {
	SAVING_ABOUT,
	SAVING_AT_LEAST,
	SAVING_AT_FAILURE, /* it is unknown; the bytes are the remedy's part of what was live at the
			      failure */
};

struct remedy {
	char *action;
	bytes saving; /* of the peak; may be SAVING_UNKNOWN */
	enum saving_bound bound;
};

/* How often a rule was the first finding in jobs whose cause is known, and how often rightly
 * (docs/population.md). */
struct measured {
	uint32_t right, named;
};

struct finding {
	const char *rule, *title, *source;
	size_t rank; /* index into the report's ranks */
	enum severity severity;
	int is_cause;         /* the cause of the rank's failure, or of its waste */
	int is_informational; /* true of many jobs; nothing needs to change */
	const char *confidence;
	const struct measured *measured; /* NULL: it never was */
	bytes weight;
	char *message, *stack; /* stack: a label, or NULL */
	struct evidence *evidence;
	size_t evidence_count;
	struct remedy *remedies;
	size_t remedy_count, remedy_room;
	int tier, order;
};

struct diagnosis {
	/* The rank that is shown in detail comes first, then the others by number. The findings of
	 * a rank are sorted by importance. */
	struct finding *findings;
	size_t count, room;
	char **ruled_out; /* of the rank that is shown in detail */
	size_t ruled_out_count, ruled_out_room;
};

/* `r`: all ranks are added and sorted. Sets the metrics that compare ranks. */
void diagnose(struct diagnosis *d, const struct report *r);
void diagnosis_release(struct diagnosis *d);
/* The cause for a rank, or NULL. */
const struct finding *diagnosis_cause(const struct diagnosis *d, size_t rank);

#endif
