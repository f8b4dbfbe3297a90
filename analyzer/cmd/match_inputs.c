#include "cmd/match_inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/replay.h"
#include "report/report_build.h"
#include "util/terminal.h"
#include "trace/trace.h"

/* Was anything said about the model? What a trace knows by itself, PyTorch's version, is not that.
 */
static int is_declared(const struct config *c)
{
	static const enum config_field said[] = { CONFIG_num_layers, CONFIG_hidden_size,
						  CONFIG_seq_length, CONFIG_micro_batch_size,
						  CONFIG_model_type, CONFIG_num_parameters };

	for (size_t i = 0; i < ARRAY_SIZE(said); i++)
		if (config_has(c, said[i]))
			return 1;
	return 0;
}

static int read_trace(struct match_job *j, struct job_trace *s, const char *path,
		      const struct job *declared, int infer, struct err *e)
{
	struct replay_options replay = { .keep_peak_blocks = 1, .progress = term_progress };
	struct trace t;
	int status = -1;

	config_init(&s->config);
	s->path = path;
	if (trace_open_header(&t, path, e) == 0 && trace_load(&t, e) == 0 &&
	    config_read_trace(&s->config, &t, e) == 0 && job_read(declared, &s->config, e) == 0) {
		report_add(&j->report, &t, &replay);
		if (infer || !is_declared(&s->config)) {
			alloc_profile_take(&s->profile, &t);
			s->has_profile = 1;
		}
		status = 0;
	}
	term_progress_end();
	trace_release(&t);
	return status;
}

static struct job_trace *trace_of(const struct match_job *j, const struct rank *r)
{
	for (size_t i = 0; i < j->count; i++)
		if (!strcmp(j->traces[i].path, r->trace))
			return &j->traces[i];
	BUG("a rank of no trace");
}

const struct config *match_job_config(const struct match_job *j, const struct rank *r)
{
	return &trace_of(j, r)->config;
}

/* All ranks ran the same job: what their traces tell together holds for each. */
static int infer_job(struct match_job *j, struct err *e)
{
	struct observed_rank *w = xcalloc(j->report.count + 1, sizeof(*w));
	struct config c;
	size_t count = 0;
	int status;

	for (size_t i = 0; i < j->report.count; i++)
		if (j->report.ranks[i].peak_allocated)
			w[count++] = (struct observed_rank){ &j->report.ranks[i],
						       &trace_of(j, &j->report.ranks[i])->profile };
	config_init(&c);
	config_copy(&c, &j->traces[0].config);
	status = count ? infer(&j->inference, &c, w, count, e)
		       : err_set(e, "none of the traces has an allocation of PyTorch's");
	for (size_t i = 0; i < j->count && !status; i++)
		config_copy(&j->traces[i].config, &c);
	config_release(&c);
	free(w);
	return status;
}

int match_job_read(struct match_job *j, char **paths, size_t count, const char *run,
		   const struct job *declared, int infer, struct err *e)
{
	struct buf notes = { 0 };
	int status, open = 0;

	*j = (struct match_job){ .is_inferred = 0 };
	status = trace_files_find(&j->files, paths, count, run, &notes, e);
	if (notes.length)
		fputs(notes.text, stderr);
	buf_release(&notes);
	if (status)
		return status;
	j->traces = xcalloc(j->files.count, sizeof(*j->traces));
	while (!status && j->count < j->files.count) {
		struct job_trace *s = &j->traces[j->count];

		status = read_trace(j, s, j->files.paths[j->count], declared, infer, e);
		j->count++;
		open |= s->has_profile;
	}
	if (status)
		return status;
	report_sort(&j->report);
	j->is_inferred = open;
	return open ? infer_job(j, e) : 0;
}

void match_job_release(struct match_job *j)
{
	for (size_t i = 0; i < j->count; i++) {
		config_release(&j->traces[i].config);
		alloc_profile_release(&j->traces[i].profile);
	}
	free(j->traces);
	inference_release(&j->inference);
	report_release(&j->report);
	trace_files_release(&j->files);
}
