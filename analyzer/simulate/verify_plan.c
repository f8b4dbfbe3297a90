#include "simulate/verify_plan.h"

#include "util/launch.h"
#include "simulate/until_oom.h"
#include "simulate/summary.h"
#include "util/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS_A_NODE = 8, STAGES = 3 };

static char *replace(char *text, const char *name, const char *value)
{
	char *place = xasprintf("{%s}", name), *filled = simulation_fill(text, place, value);

	free(place);
	free(text);
	return filled;
}

static char *fill_word(const char *word, const struct plan_layout *l)
{
	char number[32], *text = xstrdup(word);

	for (int d = 0; d < DIMENSIONS; d++) {
		if (d == DIM_RECOMPUTE) {
			int64_t how = l->size[d] == UNSET ? RECOMPUTE_NONE : l->size[d];

			text = replace(text, dimensions[d].name, recompute_names[how]);
			continue;
		}
		snprintf(number, sizeof(number), "%lld",
			 (long long)(l->size[d] == UNSET ? (d == DIM_ZERO ? 0 : 1) : l->size[d]));
		text = replace(text, dimensions[d].name, number);
	}
	snprintf(number, sizeof(number), "%lld",
		 (long long)(l->micro_batches == UNSET ? 1 : l->micro_batches));
	return replace(text, "micro_batches", number);
}

/* One rank of the first stage, the second, and the last. */
static size_t choose_ranks(const struct plan *p, const struct plan_layout *l, int *ranks)
{
	int64_t stages = l->size[DIM_PP] == UNSET ? 1 : l->size[DIM_PP], each = p->gpus / stages;
	size_t n = 0;

	ranks[n++] = 0;
	if (stages > 2)
		ranks[n++] = (int)each;
	if (stages > 1)
		ranks[n++] = (int)((stages - 1) * each);
	return n;
}

static int verify_layout(const struct plan *p, const struct plan_layout *l, const char *directory,
			 char *const *command, bytes *peak, enum verdict *verdict, struct err *e)
{
	struct outcome outcomes[STAGES] = { 0 };
	struct report r = { 0 };
	struct simulation s = { .directory = directory,
				.world = (int)p->gpus,
				.gpus_a_node = GPUS_A_NODE };
	int ranks[STAGES], status;
	size_t words = 0;
	char **filled;

	while (command[words])
		words++;
	filled = xcalloc(words + 1, sizeof(*filled));
	for (size_t i = 0; i < words; i++)
		filled[i] = fill_word(command[i], l);
	s.command = filled;
	s.ranks = ranks;
	s.rank_count = choose_ranks(p, l, ranks);
	status = simulation_run(&s, outcomes, e);
	*peak = 0;
	if (!status) {
		summary_read(directory, &r);
		*verdict = summary_verdict(outcomes, s.rank_count, &r);
		for (size_t i = 0; i < r.count; i++)
			*peak = r.ranks[i].peak_allocated > *peak ? r.ranks[i].peak_allocated
								  : *peak;
	}
	report_release(&r);
	for (size_t i = 0; i < s.rank_count; i++)
		free(outcomes[i].last_key);
	for (size_t i = 0; i < words; i++)
		free(filled[i]);
	free(filled);
	return status;
}

static const char *const verdicts[] = { "runs", "out of memory", "failed" };

static void put_object(struct buf *out, size_t layout, bytes peak, enum verdict verdict)
{
	buf_addf(out, "%s{\"layout\":%zu,\"simulated_bytes\":%lld,\"verdict\":\"%s\"}",
		 layout ? "," : "", layout, (long long)peak, verdicts[verdict]);
}

static void put_row(struct buf *out, const struct plan_layout *l, bytes peak, enum verdict verdict)
{
	struct buf estimate = { 0 }, simulated = { 0 };

	for (int d = 0; d < DIMENSIONS; d++) {
		if (l->size[d] == UNSET || (d == DIM_VPP && l->size[d] == 1) ||
		    (d == DIM_EP && l->size[d] == 1))
			continue;
		if (d == DIM_RECOMPUTE)
			buf_addf(out, "%s %s  ", dimensions[d].name, recompute_names[l->size[d]]);
		else
			buf_addf(out, "%s %lld  ", dimensions[d].name, (long long)l->size[d]);
	}
	size_add(&estimate, (bytes)l->total, 0);
	size_add(&simulated, peak, 0);
	buf_addf(out, " estimate %s  simulated %s  %+.1f %%  %s\n", estimate.text, simulated.text,
		 100.0 * ((double)peak / (double)l->total - 1), verdicts[verdict]);
	buf_release(&estimate);
	buf_release(&simulated);
}

static int prepare(const char *gpu, struct err *e)
{
	char count[8];

	snprintf(count, sizeof(count), "%d", GPUS_A_NODE);
	if (launch_preload("libcudasim.so", e) < 0 || launch_preload("libmemtrace.so", e) < 0 ||
	    launch_set_triton(e) < 0 || simulation_inject(0, e) < 0)
		return -1;
	setenv("CUDASIM_GPUS", count, 1);
	if (gpu)
		setenv("CUDASIM_GPU", gpu, 1);
	return getenv("MEMTRACE_DIR") ? 0 : launch_set_directory("memtrace", e);
}

int verify_plan(const struct plan *plan, int count, const char *gpu, char *const *command, int json,
		struct buf *out, int *fitting, struct err *e)
{
	*fitting = 0;
	if (prepare(gpu, e) < 0)
		return -1;
	for (size_t i = 0; i < plan->fitting.count && i < (size_t)count; i++) {
		const struct plan_layout *l = &plan->fitting.at[i];
		char *directory = xasprintf("%s/layout-%zu", getenv("MEMTRACE_DIR"), i + 1);
		enum verdict verdict = FAILED;
		bytes peak;
		int status = verify_layout(plan, l, directory, command, &peak, &verdict, e);

		free(directory);
		if (status < 0)
			return -1;
		if (json)
			put_object(out, i, peak, verdict);
		else
			put_row(out, l, peak, verdict);
		*fitting += verdict == FITS;
	}
	return 0;
}
