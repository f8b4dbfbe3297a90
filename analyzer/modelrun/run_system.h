/* The second way of our own system: the model itself, run on the simulated device. */
#ifndef MODELRUN_RUN_SYSTEM_H
#define MODELRUN_RUN_SYSTEM_H

#include "estimate/estimate.h"
#include "modelrun/model_run.h"
#include "util/opt.h"

/* Of --how. */
enum how { HOW_AUTO, HOW_FORMULA, HOW_RUN };
#define HOW_WORDS "auto|formula|run"

/* The rows of an option table. */
#define HOW_OPTIONS(how, python)                                                                \
	{ "how",                                                                                \
	  0,                                                                                    \
	  OPT_CHOICE,                                                                           \
	  how,                                                                                  \
	  HOW_WORDS,                                                                            \
	  "memtrace's own estimate: by formula, by a run of the model, or the first that can",  \
	  0,                                                                                    \
	  0 },                                                                                  \
	{                                                                                       \
		"python", 0, OPT_TEXT, python, "PATH",                                          \
			"the Python that runs the model: one with torch and transformers", 0, 0 \
	}

extern const struct system memtrace_by_run;

/* Estimates by our own system. HOW_AUTO takes the formula if the job is modelled, and else runs it.
 */
int own_estimate(struct estimate *out, const struct config *c, enum how how,
		 const struct run_options *o, struct err *e);
/* The system that own_estimate() would take, for a caller that estimates itself. */
const struct system *own_system(const struct config *c, enum how how, const struct run_options *o);

#endif
