#include "export/export.h"

#include "report/report.h"
#include "util/terminal.h"

const struct export_format export_formats[] = {
#define FORMAT(id, name, flags, summary) { name, summary, flags, &export_##id },
#include "export/formats.def"
#undef FORMAT
	{ 0 },
};

/* The highest peak that the header counts, of PyTorch's tensors, else of the device. */
static uint64_t peak_of(const char *path)
{
	struct err ignored = { 0 };
	struct trace t;
	uint64_t peak = 0;

	if (trace_open_header(&t, path, &ignored) == 0)
		for (int i = 0; i < MT_MAX_DEVICES; i++) {
			const struct mt_device *d = &t.header.device[i];
			uint64_t own = d->allocated_peak ? d->allocated_peak : d->device_peak;

			peak = own > peak ? own : peak;
		}
	trace_release(&t);
	return peak;
}

static size_t highest_peak(const struct trace_files *files)
{
	uint64_t most = 0;
	size_t found = 0;

	for (size_t i = 0; i < files->count; i++) {
		uint64_t peak = peak_of(files->paths[i]);

		if (peak > most) {
			most = peak;
			found = i;
		}
	}
	return found;
}

static int add_trace(struct export *x, const char *path, size_t *added, struct err *e)
{
	int chosen = x->options->rank, status;
	struct input in;

	status = input_open(&in, path, e);
	if (!status && (chosen == NO_RANK || rank_number(in.trace.header.rank) == chosen)) {
		status = x->options->format->writer->add(x, &in, e);
		++*added;
	}
	input_close(&in);
	return status;
}

static int add_traces(struct export *x, const struct trace_files *files, struct buf *notes,
		      struct err *e)
{
	int only_one = x->options->format->flags & EXPORT_ONE_RANK && x->options->rank == NO_RANK;
	size_t from = only_one ? highest_peak(files) : 0;
	size_t to = only_one ? from + 1 : files->count, added = 0;

	if (only_one && files->count > 1)
		buf_addf(notes,
			 "memtrace: the format has one process: %s, whose peak is the highest of "
			 "%zu (--rank chooses another)\n",
			 files->paths[from], files->count);
	for (size_t i = from; i < to; i++) {
		struct err why = { 0 };

		if (add_trace(x, files->paths[i], &added, &why) < 0) {
			if (to - from == 1 || (x->out.file && ferror(x->out.file)))
				return err_set(e, "%s", why.text);
			buf_addf(notes, "memtrace: left out: %s\n", why.text);
		}
		term_progress(NULL, (double)(i - from + 1) / (double)(to - from));
	}
	if (!added)
		return err_set(e, "no trace of rank %d", x->options->rank);
	return 0;
}

int export_traces(const struct trace_files *files, const struct export_options *o,
		  struct buf *notes, struct err *e)
{
	const struct export_writer *w = o->format->writer;
	struct export x = { .options = o };
	int status = output_begin(&x.out, o->path, o->standard,
				  (o->format->flags & EXPORT_TO_FILE) != 0, e);

	if (!status && w->begin)
		status = w->begin(&x, e);
	if (!status)
		status = add_traces(&x, files, notes, e);
	if (w->end && w->end(&x, status < 0, e) < 0)
		status = -1;
	return output_end(&x.out, status < 0, e);
}
