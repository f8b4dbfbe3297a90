/* The order of layouts, and --fix. */
#include "plan/plan.h"
#include "plan/plan_layouts.h"
#include "systems/llama_4d.h"

#include <stdlib.h>
#include <string.h>

#include "estimate/inputs.h"
#include "util/order.h"

const struct dimension_row dimensions[DIMENSIONS] = {
#define X(id, name, key, label, what) { #name, label, what, CONFIG_##key },
	DIMENSION_ROWS(X)
#undef X
};

const char *const recompute_names[RECOMPUTES] = { "none", "selective", "full" };

void plan_init(struct plan *plan, const struct config *config)
{
	memset(plan, 0, sizeof(*plan));
	plan->config = config;
	plan->margin = 20;
	for (size_t i = 0; i < DIMENSIONS; i++)
		plan->fix[i] = UNSET;
}

/* System memtrace is exact but takes milliseconds for a layout: it suits a search that --fix or
 * --max narrows. */
const struct system *plan_default_system(void)
{
	return &llama_4d;
}

void plan_release(struct plan *plan)
{
	plan_layouts_release(&plan->fitting);
	plan_layouts_release(&plan->discarded);
}

/* ---- which is better ---- */

static int64_t model_ranks(const struct plan_layout *l)
{
	return l->size[DIM_TP] * l->size[DIM_PP] * l->size[DIM_CP];
}

/* Less communication comes first. ZeRO-1 comes before no ZeRO: it communicates as much and holds
 * less. */
static int zero_rank(const struct plan_layout *l)
{
	static const int ranks[] = { 1, 0, 2, 3 };

	return ranks[l->size[DIM_ZERO]];
}

/* The order of document 003: layouts that fit, few GPUs for one model, large micro-batches, small
 * bubbles. The document does not order the rest; here less recomputation, less communication and
 * less memory come first. */
static int document_order(const struct plan_layout *x, const struct plan_layout *y)
{
	int by;

	if ((by = ORDER(model_ranks(x), model_ranks(y))) ||
	    (by = ORDER(y->size[DIM_MBS], x->size[DIM_MBS])) ||
	    (by = ORDER(x->bubble, y->bubble)) ||
	    (by = ORDER(x->size[DIM_RECOMPUTE], y->size[DIM_RECOMPUTE])) ||
	    (by = ORDER(zero_rank(x), zero_rank(y))) || (by = ORDER(x->total, y->total)))
		return by;
	for (size_t i = 0; i < DIMENSIONS; i++)
		if ((by = ORDER(x->size[i], y->size[i])))
			return by;
	return 0;
}

static int by_document(const void *a, const void *b)
{
	const struct plan_layout *x = a, *y = b;
	int by = ORDER((int)x->fit, (int)y->fit);

	return by ? by : document_order(x, y);
}

static int by_time(const void *a, const void *b)
{
	const struct plan_layout *x = a, *y = b;
	int by;

	if ((by = ORDER((int)x->fit, (int)y->fit)) ||
	    (by = ORDER(x->time.seconds, y->time.seconds)))
		return by;
	return document_order(x, y);
}

/* ---- what is the same ---- */

/* Dimensions that change nothing but the estimate. The others also change the bubble and the
 * communication. */
#define QUIET (BIT(DIM_MBS) | BIT(DIM_EP) | BIT(DIM_RECOMPUTE) | BIT(DIM_ZERO))

/* Compares two layouts in the estimate, the bubble and all dimensions that are not QUIET. */
static int same_run(const struct plan_layout *x, const struct plan_layout *y)
{
	int by = ORDER(x->total, y->total);

	for (size_t i = 0; i < DIMENSIONS && !by; i++)
		if (!(QUIET & BIT(i)))
			by = ORDER(x->size[i], y->size[i]);
	return by ? by : ORDER(x->bubble, y->bubble);
}

/* Sorts equal layouts next to each other, in the order of their rank. */
static int alike_together(const void *a, const void *b)
{
	const struct plan_layout *x = *(const struct plan_layout *const *)a;
	const struct plan_layout *y = *(const struct plan_layout *const *)b;
	int by = same_run(x, y);

	return by ? by : ORDER(x - y, 0);
}

static int differ_once(const struct plan_layout *x, const struct plan_layout *y)
{
	int differ = 0;

	for (size_t i = 0; i < DIMENSIONS; i++)
		differ += x->size[i] != y->size[i];
	return differ == 1;
}

/* Removes layouts that differ only in a value that the system ignores; the best of them is kept. */
static void drop_alike(struct plan_layouts *list)
{
	const struct plan_layout **by = xcalloc(list->count + 1, sizeof(struct plan_layout *));
	char *drop = xcalloc(list->count + 1, 1);
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++)
		by[i] = &list->at[i];
	qsort(by, list->count, sizeof(*by), alike_together);
	for (size_t i = 0; i < list->count; i++)
		for (size_t j = i; j-- && !same_run(by[j], by[i]);)
			drop[by[i] - list->at] |= (char)differ_once(by[j], by[i]);
	for (size_t i = 0; i < list->count; i++) {
		if (drop[i])
			free(list->at[i].stages);
		else
			list->at[kept++] = list->at[i];
	}
	list->count = kept;
	free(by);
	free(drop);
}

void plan_sort(struct plan_layouts *list, enum plan_order order)
{
	if (list->count)
		qsort(list->at, list->count, sizeof(*list->at),
		      order == ORDER_TIME ? by_time : by_document);
}

void plan_rank(struct plan_layouts *list, enum plan_order order)
{
	plan_sort(list, order);
	drop_alike(list);
}

/* ---- what is asked for ---- */

static int64_t fixed_value(enum dimension dim, const char *text)
{
	char *end;
	long long value = strtoll(text, &end, 10);
	int is_stage = dim == DIM_ZERO;

	for (int i = 0; dim == DIM_RECOMPUTE && i < RECOMPUTES; i++)
		if (!strcmp(text, recompute_names[i]))
			return i;
	if (dim == DIM_RECOMPUTE || end == text || *end || value < !is_stage ||
	    value > (is_stage ? 3 : MAX_RANKS))
		return UNSET;
	return value;
}

int plan_fix(struct plan *plan, const char *pair, struct err *e)
{
	const char *equals = strchr(pair, '=');
	size_t n = equals ? (size_t)(equals - pair) : 0;

	for (size_t i = 0; n && i < DIMENSIONS; i++) {
		const char *key = config_name(dimensions[i].key), *name = dimensions[i].name;

		if ((strlen(name) != n || strncmp(name, pair, n)) &&
		    (strlen(key) != n || strncmp(key, pair, n)))
			continue;
		plan->fix[i] = fixed_value((enum dimension)i, equals + 1);
		if (plan->fix[i] != UNSET)
			return 0;
	}
	return err_set(
		e,
		"--fix is \"%s\", expected tp, pp, cp, dp, vpp, ep or mbs = a number from 1 to "
		"1000000, zero = 0 to 3, or recompute = none, selective or full",
		pair);
}
