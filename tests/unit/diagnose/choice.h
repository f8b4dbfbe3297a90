/* Quantities written by hand: those of a device of 4 GiB that 2 GiB of tensors and a request fill.
 */
#ifndef MEMTRACE_TEST_CHOICE_H
#define MEMTRACE_TEST_CHOICE_H

#include "diagnose/diagnose.h"
#include "metrics/metrics.h"
#include "report/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

static inline struct metrics failure(void)
{
	return (struct metrics){ .failed = 1,
				 .died = 1,
				 .requested = 256 * MIB,
				 .short_by = 128 * MIB,
				 .device_total = 4 * GIB,
				 .device_free = 128 * MIB,
				 .allocated = 2 * GIB,
				 .reserved = 2 * GIB,
				 .outside = 2 * GIB - 128 * MIB,
				 .peak_needed = 2 * GIB + 256 * MIB,
				 .step = 2,
				 .steps = 2,
				 .in_backward = 1,
				 .parameters = 200 * MIB,
				 .activations = GIB };
}

/* The same, where a forward pass asks. */
static inline struct metrics failure_in_forward(void)
{
	struct metrics m = failure();

	m.in_backward = 0;
	m.in_forward = 1;
	return m;
}

/* The diagnosis of one rank with these metrics. The caller releases it. */
static inline struct diagnosis diagnosis_of(struct metrics *m)
{
	struct rank rank = { .end = END_OOM, .metrics = m };
	struct report report = { .ranks = &rank, .count = 1 };
	struct diagnosis d = { 0 };

	diagnose(&d, &report);
	assert_non_null(diagnosis_cause(&d, 0));
	return d;
}

/* Asserts the cause; returns what its first remedy saves. */
static inline int64_t assert_cause(struct metrics *m, const char *rule)
{
	struct diagnosis d = diagnosis_of(m);
	int64_t saving = diagnosis_cause(&d, 0)->remedies[0].saving;

	assert_string_equal(diagnosis_cause(&d, 0)->rule, rule);
	diagnosis_release(&d);
	return saving;
}

/* 2 for a cause of high confidence, 1, 0 for one of low. */
static inline int confidence_of_cause(struct metrics *m)
{
	struct diagnosis d = diagnosis_of(m);
	const char *said = diagnosis_cause(&d, 0)->confidence;
	int confidence = !strcmp(said, "high") ? 2 : !strcmp(said, "medium");

	diagnosis_release(&d);
	return confidence;
}

/* Asserts the cause; returns the remedy of that number, without its action. */
static inline struct remedy remedy_of(struct metrics *m, const char *rule, size_t number)
{
	struct rank rank = { .end = END_OOM, .metrics = m };
	struct report report = { .ranks = &rank, .count = 1 };
	struct diagnosis d = { 0 };
	struct remedy found;

	diagnose(&d, &report);
	assert_non_null(diagnosis_cause(&d, 0));
	assert_string_equal(diagnosis_cause(&d, 0)->rule, rule);
	assert_true(number < diagnosis_cause(&d, 0)->remedy_count);
	found = diagnosis_cause(&d, 0)->remedies[number];
	found.action = NULL;
	diagnosis_release(&d);
	return found;
}

static inline void assert_saving(struct metrics *m, const char *rule, enum saving_bound bound,
				 int64_t saving)
{
	struct remedy r = remedy_of(m, rule, 0);

	assert_int_equal(r.bound, bound);
	assert_int_equal(r.saving, saving);
}

#endif
