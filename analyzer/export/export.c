#include "export/export.h"

#include "report/report.h"
#include "util/terminal.h"

#include <stdlib.h>
#include <string.h>

const struct export_format export_formats[] = {
#define FORMAT(id, name, flags, summary) { name, summary, flags, &export_##id },
#include "export/formats.def"
#undef FORMAT
	{ 0 },
};

/* The traces that are written. */
struct exported_traces {
	const char **paths;
	size_t count;
	size_t of; /* so many that it could have been */
};

/* The highest peak that the header counts, of PyTorch's tensors, else of the device. */
static int64_t peak_of(const struct mt_header *h)
{
	uint64_t peak = 0;

	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		const struct mt_device *d = &h->device[i];
		uint64_t own = d->allocated_peak ? d->allocated_peak : d->device_peak;

		peak = own > peak ? own : peak;
	}
	return peak < INT64_MAX ? (int64_t)peak : INT64_MAX;
}

/* Sets the peak of a trace of the rank; -1 for a trace of another one. */
static int ask_header(const char *path, int rank, int64_t *peak, struct err *e)
{
	struct trace t;
	int status = trace_open_header(&t, path, e);

	*peak = -1;
	if (!status && (rank == NO_RANK || rank_number(t.header.rank) == rank))
		*peak = peak_of(&t.header);
	trace_release(&t);
	return status;
}

static void note_left_out(struct buf *notes, const struct err *why)
{
	buf_addf(notes, "memtrace: left out: %s\n", why->text);
}

static int none_was_read(struct err *e)
{
	return err_set(e, "none of the traces can be read");
}

/* The traces of the rank; for a format of one process the one of them with the highest peak. */
static int choose(struct exported_traces *c, const struct trace_files *files,
		  const struct export_options *o, struct buf *notes, struct err *e)
{
	int only_one = o->format->flags & EXPORT_ONE_RANK && files->count > 1;
	int asks = only_one || o->rank != NO_RANK;
	int64_t most = 0, peak = 0;

	c->paths = xcalloc(files->count, sizeof(*c->paths));
	for (size_t i = 0; i < files->count; i++) {
		struct err why = { 0 };

		if (asks && ask_header(files->paths[i], o->rank, &peak, &why) < 0) {
			if (files->count == 1)
				return err_set(e, "%s", why.text);
			note_left_out(notes, &why);
		}
		if (peak < 0)
			continue;
		c->of++;
		if (only_one && c->count && peak <= most)
			continue;
		c->paths[only_one ? 0 : c->count] = files->paths[i];
		c->count = only_one ? 1 : c->count + 1;
		most = peak;
	}
	if (c->count)
		return 0;
	return o->rank == NO_RANK ? none_was_read(e) : err_set(e, "no trace of rank %d", o->rank);
}

static void note_choice(const struct exported_traces *c, int rank, struct buf *notes)
{
	buf_addf(notes,
		 "memtrace: the format has one process: %s, whose peak is the highest of %zu ",
		 c->paths[0], c->of);
	if (rank == NO_RANK)
		buf_puts(notes, "(--rank chooses another)\n");
	else
		buf_addf(notes, "of rank %d (name another trace for that)\n", rank);
}

/* Chooses the moment for a format that has one process. */
static int choose_moment(const struct export_options *o, struct input *in, struct err *e)
{
	unsigned flags = o->format->flags;
	enum export_moment moment = o->moment;

	if (moment == MOMENT_OF_FORMAT)
		moment = flags & EXPORT_AT_PEAK ? MOMENT_PEAK : MOMENT_END;
	return flags & EXPORT_ONE_RANK ? input_choose(in, o->device, moment, e) : 0;
}

/* Says of which part of the job the events are, if not of all: formats cannot tell it. */
static void note_scopes(struct buf *notes, const struct input *in)
{
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		enum peak_scope scope = input_scope(in, i);

		if (!in->replay.device[i].seen || scope == PEAK_OF_JOB)
			continue;
		buf_puts(notes, "memtrace: ");
		buf_add_clean(notes, (struct str){ in->trace.path, strlen(in->trace.path) });
		buf_addf(notes, ": peaks of device %u %s\n", i, peak_scope_title(scope));
	}
}

static int add_trace(struct export *x, const char *path, int64_t process, struct err *e)
{
	struct input in;
	int status = input_open(&in, path, e);

	in.process = process;
	if (!status)
		status = choose_moment(x->options, &in, e);
	if (!status)
		status = x->options->format->writer->add(x, &in, e);
	if (!status)
		note_scopes(x->notes, &in);
	input_close(&in);
	return status;
}

static int add_traces(struct export *x, const struct exported_traces *c, struct err *e)
{
	size_t failed = 0;

	if (c->of > c->count)
		note_choice(c, x->options->rank, x->notes);
	for (size_t i = 0; i < c->count; i++) {
		struct err why = { 0 };

		if (add_trace(x, c->paths[i], (int64_t)i + 1, &why) < 0) {
			if (c->count == 1 || (x->out.file && ferror(x->out.file)))
				return err_set(e, "%s", why.text);
			note_left_out(x->notes, &why);
			failed++;
		}
		term_progress(NULL, (double)(i + 1) / (double)c->count);
	}
	return failed == c->count ? none_was_read(e) : 0;
}

static int write_traces(const struct exported_traces *c, const struct export_options *o,
			struct buf *notes, struct err *e)
{
	const struct export_writer *w = o->format->writer;
	struct export x = { .options = o, .notes = notes };
	int status = output_begin(&x.out, o->path, o->standard,
				  (o->format->flags & EXPORT_TO_FILE) != 0, e);

	if (!status && w->begin)
		status = w->begin(&x, e);
	if (!status)
		status = add_traces(&x, c, e);
	if (w->end && w->end(&x, status < 0, e) < 0)
		status = -1;
	return output_end(&x.out, status < 0, e);
}

int export_traces(const struct trace_files *files, const struct export_options *o,
		  struct buf *notes, struct err *e)
{
	struct exported_traces c = { 0 };
	int status = choose(&c, files, o, notes, e);

	if (!status)
		status = write_traces(&c, o, notes, e);
	free(c.paths);
	return status;
}
