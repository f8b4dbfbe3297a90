/*
 * The memory that a job should need. A system is one published method of estimating it, as its
 * source states it: a table of terms that add up to the total, and a function that reads the
 * letters of the formulas from the configuration. Each system has a file in systems/. All sizes are
 * bytes of one GPU.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "util/buf.h"
#include "config/config.h"
#include "util/err.h"
#include "estimate/dimension.h"
#include "util/util.h"

/* Wide enough for every product within the limits of inputs.h: expressions divide last, and nothing
 * overflows. */
typedef __int128 wide;

#define MAX_SYMBOLS 32
#define MAX_TERMS 12
#define MAX_RESULTS 16
#define MAX_STRATEGIES 16
#define MAX_OPTION_ROWS 6
#define MAX_CONSTANTS 6

/* The values of the letters in a system's formulas; each system has its own letters. */
struct dims {
	wide value[MAX_SYMBOLS];
};

struct symbol {
	const char *letter, *meaning;
};

/* A term of an estimate: the formula as its source prints it, and the function that computes it. */
struct term {
	const char *id, *component, *title, *printed, *source;
	wide (*of)(const struct dims *dims);
	const char *kind; /* as in struct constant; NULL: a formula of the source */
};

/* A result beside the terms: a number, or a word if `text` is set. */
struct result {
	const char *key, *text;
	wide number;
};

/* A size that the GPU, a version or the environment fixes. `kind`: "exact" (from code or a
 * setting), "measured" or "assumed". */
struct constant {
	const char *id, *kind, *source;
	wide bytes;
};

struct named_bytes {
	const char *name;
	wide bytes;
};

/* A row of the table of document 002. NULL and -1: the column is empty in this row. */
struct option_row {
	const char *offload_param, *offload_optimizer;
	int zero_init;
	wide cpu, gpu;
};

/* Memory of the device outside the blocks of the allocator: the rest of `device` beside `total`. */
struct outside {
	const char *id, *component, *kind, *source;
	wide bytes;
};

struct stage {
	wide layers, layers_of; /* layers / layers_of, which need not be whole */
	wide in_flight, model_states, activations, total;
	/* Only of system memtrace; peak_phase is NULL in all others. */
	wide steady, reserved, device;
	const char *peak_phase;
	wide *terms, *steady_terms; /* bytes of each term of the estimate */
	struct outside *outside;
	size_t outside_count;
	enum in_device { FIT_UNKNOWN, FIT_FITS, FIT_OUT_OF_MEMORY } in_device;
};

struct estimate {
	const struct system *system;
	struct dims dims;
	wide bytes[MAX_TERMS]; /* of the system's terms */
	/* The terms of this job with their bytes, if the system has no fixed table of terms; else
	 * NULL. */
	struct term *job_terms;
	wide *job_bytes;
	size_t job_term_count;
	wide total;
	/* A combination that the source prints no formula for, though it has one for each part;
	 * NULL: none. */
	const char *beyond;
	/* DETAIL_ENDS: the states alone do not fit, and `total` has nothing else. */
	int only_states;
	/* The members below are filled as `detail` says. */
	int detail;
	struct result results[MAX_RESULTS];
	size_t result_count;
	struct named_bytes strategies[MAX_STRATEGIES];
	size_t strategy_count;
	struct constant constants[MAX_CONSTANTS];
	size_t constant_count;
	struct option_row rows[MAX_OPTION_ROWS];
	size_t row_count;
	struct stage *stages; /* empty if the source knows no pipeline stages */
	size_t stage_count;
	char **notes;
	size_t note_count, note_room;
};

struct system {
	const char *name, *title, *source, *leaves_out;
	int is_run; /* an estimate runs the model: milliseconds for each stage */
	/* The data loader of the jobs that the source measured built an attention mask for each
	 * sample: a plan assumes it where nothing about masks is declared. */
	int builds_masks;
	struct space space;
	const struct term *terms;
	size_t term_count;
	const struct symbol *symbols;
	size_t symbol_count;
	/* Reads the letters from the configuration. -1: the source has no formula for the job. Also
	 * sets job_terms if the system has no fixed table of terms. */
	int (*read)(const struct config *c, struct estimate *out, struct err *e);
	/* Adds the results beside the terms; may be NULL. */
	void (*add_results)(const struct config *c, struct estimate *out);
};

/* Parts of an estimate: the terms only; all; all but the notes; of the stages only those that can
 * be the largest, and none after one that does not fit; only the others. */
enum detail { DETAIL_TERMS, DETAIL_ALL, DETAIL_STAGES, DETAIL_ENDS, DETAIL_BETWEEN };

/* Estimates the job by `system`. -1: the system cannot, and the message says why. The caller
 * releases `out` in both cases. */
int estimate_make(struct estimate *out, const struct system *system, const struct config *c,
		  int detail, struct err *e);
/* Bytes of the largest stage. */
wide estimate_most(const struct estimate *e);
void estimate_release(struct estimate *out);

/* The terms of an estimate and their bytes: those of the job, or those of the system. */
static inline size_t estimate_term_count(const struct estimate *e)
{
	return e->job_terms ? e->job_term_count : e->system->term_count;
}

static inline const struct term *estimate_term(const struct estimate *e, size_t i)
{
	return e->job_terms ? &e->job_terms[i] : &e->system->terms[i];
}

static inline wide estimate_bytes(const struct estimate *e, size_t i)
{
	return e->job_terms ? e->job_bytes[i] : e->bytes[i];
}

wide estimate_sum(const struct system *system, const struct dims *dims);
/* Bytes of all terms of one component. */
wide estimate_component(const struct estimate *e, const char *component);

__attribute__((format(printf, 2, 3))) void estimate_note(struct estimate *out, const char *format,
							 ...);
void estimate_add_result(struct estimate *out, const char *key, wide number);
void estimate_add_word(struct estimate *out, const char *key, const char *text);
void estimate_add_constant(struct estimate *out, const struct constant *c);

/* n / d rounded to the nearest whole number, halves up; n >= 0 and d > 0. */
static inline wide divide(wide n, wide d)
{
	if (n <= INT64_MAX && d <= INT64_MAX / 2)
		return ((uint64_t)n + (uint64_t)d / 2) / (uint64_t)d;
	return (n + d / 2) / d;
}

static inline wide largest(wide a, wide b)
{
	return a > b ? a : b;
}

/* Any number in decimal; `text` has room for 48. */
const char *wide_text(wide number, char *text);

#endif
