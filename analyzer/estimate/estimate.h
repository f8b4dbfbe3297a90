/*
 * What should a job need? A system is one published way to estimate, kept as its source states it:
 * a table of terms that add up to the total, and what it reads from the configuration. One file a
 * system, one row of systems[] in model.c.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "util/buf.h"
#include "config/config.h"
#include "util/err.h"
#include "estimate/dimension.h"
#include "util/util.h"

/* Wide enough for every product that the limits in read.h allow: expressions divide last, and
 * nothing overflows. */
typedef __int128 wide;

#define SYMBOLS_MOST 32
#define TERMS_MOST 12
#define RESULTS_MOST 16
#define STRATEGIES_MOST 16
#define OPTION_ROWS_MOST 6
#define CONSTANTS_MOST 6

/* The letters of a system's formulas, with a job's values; each system numbers its own. */
struct dims {
	wide value[SYMBOLS_MOST];
};

struct symbol {
	const char *letter, *meaning;
};

/* One line of a source: the formula as printed, and the function that computes it in bytes. */
struct term {
	const char *id, *component, *title, *printed, *source;
	wide (*of)(const struct dims *dims);
	const char *kind; /* as of a constant; NULL: the source's formula */
};

/* A result beyond the terms: a count of bytes or things, or (`text`) a word. */
struct result {
	const char *key, *text;
	wide number;
};

/* What a GPU, a version or an environment fixes: "exact" where code or a setting says it, "measured", or "assumed". */
struct constant {
	const char *id, *kind, *source;
	wide bytes;
};

struct named_bytes {
	const char *name;
	wide bytes;
};

/* Document 002: a row of its table. NULL and -1: the row does not say. */
struct option_row {
	const char *offload_param, *offload_optimizer;
	int zero_init;
	wide cpu, gpu;
};

/* Memory of the device that the allocator did not hand out: what `device` has beyond `total`. */
struct outside {
	const char *id, *component, *kind, *source;
	wide bytes;
};

struct stage {
	wide layers, layers_of; /* layers / layers_of: the sources divide what does not divide */
	wide in_flight, model_states, activations, total;
	/* `memtrace` alone; peak_phase NULL: the source does not say */
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
	wide bytes[TERMS_MOST]; /* of the system's terms */
	/* NULL: the terms are the system's own; else those of this job, each bytes in `sizes` */
	struct term *made;
	wide *sizes;
	size_t made_count;
	wide total;
	/* What the source prints no formula for, though it has one for each part; NULL: it has one. */
	const char *beyond;
	/* The rest only where `detail` was asked for. */
	int detail;
	struct result results[RESULTS_MOST];
	size_t result_count;
	struct named_bytes strategies[STRATEGIES_MOST];
	size_t strategy_count;
	struct constant constants[CONSTANTS_MOST];
	size_t constant_count;
	struct option_row rows[OPTION_ROWS_MOST];
	size_t row_count;
	struct stage *stages; /* none: the source knows no stages */
	size_t stage_count;
	char **notes;
	size_t note_count, note_room;
};

struct system {
	const char *name, *title, *source, *leaves_out;
	struct space space;
	const struct term *terms;
	size_t term_count;
	const struct symbol *symbols;
	size_t symbol_count;
	/* Configuration to letters; refuses what the source cannot express. Makes the terms where the
	 * system has none of its own. */
	int (*read)(const struct config *c, struct estimate *out, struct err *e);
	/* Results beyond the terms. */
	void (*add_results)(const struct config *c, struct estimate *out);
};

/* How much of an estimate is made: the terms; with results, stages and notes; without the notes. */
enum detail { DETAIL_TERMS, DETAIL_ALL, DETAIL_STAGES };

/* What `system` says of the job. -1: it cannot say it, and the message tells why. `out`
 * is released in both cases. */
int estimate_make(struct estimate *out, const struct system *system, const struct config *c,
		  int detail, struct err *e);
/* The largest stage's bytes. */
wide estimate_most(const struct estimate *e);
void estimate_release(struct estimate *out);

/* The terms of an estimate, and the bytes of each. */
static inline size_t estimate_term_count(const struct estimate *e)
{
	return e->made ? e->made_count : e->system->term_count;
}

static inline const struct term *estimate_term(const struct estimate *e, size_t i)
{
	return e->made ? &e->made[i] : &e->system->terms[i];
}

static inline wide estimate_bytes(const struct estimate *e, size_t i)
{
	return e->made ? e->sizes[i] : e->bytes[i];
}

wide estimate_sum(const struct system *system, const struct dims *dims);
/* The bytes of every term of one component, or of all that are in none of `components`. */
wide estimate_component(const struct estimate *e, const char *component);

__attribute__((format(printf, 2, 3))) void estimate_note(struct estimate *out, const char *format,
							 ...);
void estimate_add_result(struct estimate *out, const char *key, wide number);
void estimate_add_word(struct estimate *out, const char *key, const char *text);
void estimate_add_constant(struct estimate *out, const struct constant *c);

/* The nearest whole number; of two, the larger. For n >= 0 and d > 0. */
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
