/* The page of a job: one HTML file that needs nothing else. */
#ifndef MEMTRACE_HTML_H
#define MEMTRACE_HTML_H

#include "report/report.h"
#include "util/buf.h"

/* Every event is in the page for at most so many ranks, unless `ranks` names others. */
#define HTML_WHOLE_RANKS 8

/* A JSON text that a view of the page reads: "diff", "match", "simulated". */
struct html_part {
	const char *name;
	struct buf json;
};
#define HTML_PARTS 3

struct html_options {
	const char *ranks; /* "0,8-15": the ranks whose events are in the page; NULL: see above */
	int redact;
	int is_of_records;             /* there are no traces to read events from */
	const struct html_part *parts; /* the first without a name ends them; NULL: none */
	/* The two jobs of a comparison, and what it says: the two ranks of the page's report are of
	 * one each. Else NULL. */
	struct report *jobs[2];
	const char *comparison, *answer;              /* `answer`: what it says first */
	void (*progress)(void *context, double part); /* NULL: none */
};

/* Are the libraries that a page needs in this program? If not, `e` says what to do. */
int html_is_possible(struct err *e);
/* Reads the traces of the report again. `report` is diagnosed; it is as before when this returns.
 */
int html_page(struct report *report, const struct html_options *o, struct buf *out, struct err *e);

#endif
