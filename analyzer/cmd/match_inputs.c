#include "cmd/match_inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/trace_config.h"
#include "util/terminal.h"

/* The context of read_trace(). */
struct request {
	struct match_trace *traces;
	const struct job *declared;
	int infer;
};

/* Whether a value of the model is declared. PyTorch's version does not count, because every trace
 * has it. */
static int is_declared(const struct config *c)
{
	static const enum config_field model[] = { CONFIG_num_layers, CONFIG_hidden_size,
						   CONFIG_seq_length, CONFIG_micro_batch_size,
						   CONFIG_model_type, CONFIG_num_parameters };

	for (size_t i = 0; i < ARRAY_SIZE(model); i++)
		if (config_has(c, model[i]))
			return 1;
	return 0;
}

static int read_trace(void *context, size_t file, const struct trace *t, struct err *e)
{
	const struct request *q = context;
	struct match_trace *m = &q->traces[file];

	if (trace_config_read(&m->config, t, e) < 0 || job_read(q->declared, &m->config, e) < 0)
		return -1;
	if (q->infer || !is_declared(&m->config)) {
		alloc_profile_take(&m->profile, t);
		m->has_profile = 1;
	}
	return 0;
}

static struct match_trace *trace_of(const struct match_inputs *m, const struct rank *r)
{
	struct match_trace *found;

	HASH_FIND_STR(m->by_path, r->trace, found);
	if (!found)
		BUG("a rank of no trace");
	return found;
}

const struct config *match_inputs_config(const struct match_inputs *m, const struct rank *r)
{
	return &trace_of(m, r)->config;
}

/* Infers one configuration from the traces of all ranks, because they ran the same job. */
static int infer_job(struct match_inputs *m, struct err *e)
{
	const struct report *r = &m->session.report;
	struct observed_rank *observed = xcalloc(r->count + 1, sizeof(*observed));
	struct config c;
	size_t count = 0;
	int status;

	for (size_t i = 0; i < r->count; i++)
		if (r->ranks[i].peak_allocated)
			observed[count++] =
				(struct observed_rank){ &r->ranks[i],
							&trace_of(m, &r->ranks[i])->profile };
	config_init(&c);
	config_copy(&c, &m->traces[0].config);
	status = count ? infer(&m->inferred, &c, observed, count, e)
		       : err_set(e, "none of the traces has an allocation of PyTorch's");
	for (size_t i = 0; i < m->session.files.count && !status; i++)
		config_copy(&m->traces[i].config, &c);
	config_release(&c);
	free(observed);
	return status;
}

static int read_session(struct match_inputs *m, const struct job *declared, int infer,
			struct err *e)
{
	const struct trace_files *files = &m->session.files;
	struct request q = { .declared = declared, .infer = infer };
	const struct session_options o = {
		.rank = NO_RANK,
		.keep_peak_blocks = 1,
		.needs_every_trace = 1,
		.progress = term_progress,
		.on_trace = read_trace,
		.context = &q,
	};
	struct buf notes = { 0 };
	int status;

	m->traces = q.traces = xcalloc(files->count, sizeof(*m->traces));
	for (size_t i = 0; i < files->count; i++) {
		struct match_trace *t = &m->traces[i];

		config_init(&t->config);
		t->path = files->paths[i];
		HASH_ADD_KEYPTR(hh, m->by_path, t->path, strlen(t->path), t);
	}
	status = session_read(&m->session, &o, &notes, e);
	term_progress_end();
	buf_release(&notes);
	return status;
}

int match_inputs_read(struct match_inputs *m, char **paths, size_t count, const char *run,
		      const struct job *declared, int infer, struct err *e)
{
	struct buf notes = { 0 };
	int status;

	*m = (struct match_inputs){ .traces = NULL };
	status = session_find(&m->session, paths, count, run, &notes, e);
	if (notes.length)
		fputs(notes.text, stderr);
	buf_release(&notes);
	if (status || read_session(m, declared, infer, e) < 0)
		return -1;
	for (size_t i = 0; i < m->session.files.count; i++)
		m->is_inferred |= m->traces[i].has_profile;
	return m->is_inferred ? infer_job(m, e) : 0;
}

void match_inputs_release(struct match_inputs *m)
{
	HASH_CLEAR(hh, m->by_path);
	for (size_t i = 0; m->traces && i < m->session.files.count; i++) {
		config_release(&m->traces[i].config);
		alloc_profile_release(&m->traces[i].profile);
	}
	free(m->traces);
	inferred_release(&m->inferred);
	session_release(&m->session);
}
