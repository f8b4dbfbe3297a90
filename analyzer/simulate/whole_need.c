#include "simulate/whole_need.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/new_traces.h"
#include "simulate/rank_env.h"
#include "simulate/simulation.h"
#include "simulate/summary.h"
#include "util/launch.h"

#define TIMES 16                       /* as much memory as the device that was too small */
#define MOST_MEMORY (INT64_C(1) << 43) /* the simulated device's own limit */

static int prepare(const struct failed_job *job, const char *directory, struct err *e)
{
	bytes memory = job->total > 0 && job->total < MOST_MEMORY / TIMES ? job->total * TIMES
									  : MOST_MEMORY;
	char number[32];

	for (char *const *word = job->command; *word; word++)
		if (strstr(*word, "***"))
			return err_set(
				e,
				"the command line in the trace has a secret, which is not in the trace: run it with memtrace simulate --memory SIZE -- COMMAND");
	if (job->working && chdir(job->working) < 0)
		return err_set(e, "cannot go to the job's directory %s: %s", job->working,
			       strerror(errno));
	if (launch_preload("libcudasim.so", e) < 0 || launch_preload("libmemtrace.so", e) < 0 ||
	    launch_set_triton(e) < 0 || launch_set_directory(directory, e) < 0 ||
	    rank_env_inject(job->steps, e) < 0)
		return -1;
	snprintf(number, sizeof(number), "%lld", (long long)memory);
	setenv("CUDASIM_MEMORY", number, 1);
	snprintf(number, sizeof(number), "%d", job->gpus);
	setenv("CUDASIM_GPUS", number, 1);
	if (job->gpu)
		setenv("CUDASIM_GPU", job->gpu, 1);
	return 0;
}

/* Takes the metrics from the report. */
static void read_need(struct report *r, struct measured_need *need)
{
	struct rank *most = NULL;

	for (size_t i = 0; i < r->count; i++) {
		if (!most || r->ranks[i].peak_allocated > most->peak_allocated)
			most = &r->ranks[i];
		need->device = larger_of(need->device, r->ranks[i].peak_device);
	}
	if (!most)
		return;
	need->allocated = larger_of(most->peak_allocated, 0);
	if (!most->ooms_seen) {
		need->metrics = most->metrics;
		most->metrics = NULL;
	}
}

int whole_need_measure(const struct failed_job *job, const char *directory,
		       const struct messages *messages, struct measured_need *need, struct err *e)
{
	int rank = job->rank, is_alone = rank != NO_RANK && job->world > 1;
	struct simulation s = { .directory = directory,
				.command = job->command,
				.ranks = &rank,
				.rank_count = 1,
				.whole = !is_alone,
				.world = job->world,
				.gpus_a_node = job->gpus,
				.steps = job->steps,
				.output_to_stderr = 1,
				.messages = messages };
	struct outcome outcome = { .rank = rank };
	struct report r = { 0 };
	int64_t since = new_traces_now();
	enum verdict verdict;
	int status = prepare(job, directory, e);

	*need = (struct measured_need){ .directory = directory, .steps = job->steps };
	if (!status)
		status = simulation_run(&s, &outcome, e);
	if (!status) {
		summary_read(directory, since, 1, &r);
		verdict = summary_verdict(&outcome, 1, &r);
		read_need(&r, need);
		need->is_least = verdict == OUT_OF_MEMORY;
		if (verdict == FAILED || !r.count)
			status = err_set(
				e,
				"the job cannot run again here: it ended with status %d (see its messages above)",
				outcome.status);
	}
	free(outcome.last_key);
	report_release(&r);
	return status;
}
