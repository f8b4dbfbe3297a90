#include "simulate/verify_plan.h"

#include "session/new_traces.h"
#include "util/launch.h"
#include "simulate/command_template.h"
#include "simulate/rank_env.h"
#include "simulate/simulation.h"
#include "simulate/summary.h"
#include "util/shell.h"
#include "util/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS_A_NODE = 8, STAGES = 3 };

/* Placeholders of a layout: every dimension, and micro_batches. */
enum { PLACEHOLDERS = DIMENSIONS + 1, DIGITS = 24 };

static void fill_placeholders(const struct plan_layout *l, char numbers[PLACEHOLDERS][DIGITS],
			      struct placeholder *placeholders)
{
	int64_t batches = l->micro_batches == UNSET ? 1 : l->micro_batches;

	for (int d = 0; d < DIMENSIONS; d++) {
		int64_t size = l->size[d] == UNSET ? (d == DIM_ZERO ? 0 : 1) : l->size[d];
		int64_t how = l->size[d] == UNSET ? RECOMPUTE_NONE : l->size[d];

		snprintf(numbers[d], DIGITS, "%lld", (long long)size);
		placeholders[d] = (struct placeholder){ dimensions[d].name,
							d == DIM_RECOMPUTE ? recompute_names[how]
									   : numbers[d] };
	}
	snprintf(numbers[DIMENSIONS], DIGITS, "%lld", (long long)batches);
	placeholders[DIMENSIONS] = (struct placeholder){ "micro_batches", numbers[DIMENSIONS] };
}

/* Chooses a rank of the first stage, the second, and the last; returns how many. */
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

static int verify_layout(const struct plan *p, const struct plan_layout *l,
			 const struct simulation *like, struct verified_layout *v, struct err *e)
{
	struct placeholder placeholders[PLACEHOLDERS];
	char numbers[PLACEHOLDERS][DIGITS];
	struct outcome outcomes[STAGES] = { 0 };
	struct report r = { 0 };
	struct simulation s = *like;
	int ranks[STAGES], status;
	int64_t since = new_traces_now();
	char **command;

	fill_placeholders(l, numbers, placeholders);
	command = template_fill(s.command, placeholders, PLACEHOLDERS);
	s.command = command;
	s.ranks = ranks;
	s.rank_count = choose_ranks(p, l, ranks);
	status = simulation_run(&s, outcomes, e);
	if (!status) {
		summary_read(s.directory, since, 0, &r);
		v->verdict = summary_verdict(outcomes, s.rank_count, &r);
		for (size_t i = 0; i < r.count; i++)
			if (r.ranks[i].peak_allocated > v->peak)
				v->peak = r.ranks[i].peak_allocated;
	}
	report_release(&r);
	for (size_t i = 0; i < s.rank_count; i++)
		free(outcomes[i].last_key);
	template_release(command);
	return status;
}

static const char *const verdicts[] = { "runs", "out of memory", "failed" };

json_t *verify_plan_json(const struct verified_layout *list, size_t count)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(rows, json_pack("{s:I,s:I,s:s}", "layout", (json_int_t)i,
						      "simulated_bytes", (json_int_t)list[i].peak,
						      "verdict", verdicts[list[i].verdict]));
	return rows;
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
	    launch_set_triton(e) < 0 || rank_env_inject(0, e) < 0)
		return -1;
	setenv("CUDASIM_GPUS", count, 1);
	if (gpu)
		setenv("CUDASIM_GPU", gpu, 1);
	return getenv("MEMTRACE_DIR") ? 0 : launch_set_directory("memtrace", e);
}

/* Of the traces of a layout. */
static char *layout_directory(size_t i)
{
	return xasprintf("%s/layout-%zu", getenv("MEMTRACE_DIR"), i + 1);
}

void verify_plan_text(const struct plan *plan, const struct verified_layout *list, size_t count,
		      struct buf *out)
{
	for (size_t i = 0; i < count; i++)
		put_row(out, &plan->fitting.at[i], list[i].peak, list[i].verdict);
	if (count)
		buf_puts(out, "See where it goes: memtrace html");
	/* A page shows two at most. */
	for (size_t i = 0; i < count && i < 2; i++) {
		char *directory = layout_directory(i);

		buf_puts(out, " ");
		shell_add_path(out, directory);
		free(directory);
	}
	if (count)
		buf_puts(out, "\n");
}

int verify_plan(const struct plan *plan, const struct verify_options *options,
		struct verified_layout *list, size_t count, struct err *e)
{
	int status = prepare(options->gpu, e);

	for (size_t i = 0; i < count && !status; i++) {
		char *directory = layout_directory(i);
		const struct simulation s = { .directory = directory,
					      .command = options->command,
					      .world = (int)plan->gpus,
					      .gpus_a_node = GPUS_A_NODE,
					      .output_to_stderr = options->output_to_stderr,
					      .messages = options->messages };

		list[i] = (struct verified_layout){ .verdict = FAILED };
		status = verify_layout(plan, &plan->fitting.at[i], &s, &list[i], e);
		free(directory);
	}
	return status;
}
