#include "cmd/trace_records.h"

#include "cmd/record_estimates.h"
#include "diagnose/diagnose.h"
#include "record/record.h"
#include "session/session.h"
#include "util/terminal.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* Shared by the threads that read traces. */
struct record_writing {
	pthread_mutex_t lock;
	struct record_estimates *estimates; /* NULL: not asked for */
	const struct trace_records_options *options;
	int failed;
};

static void write_records(void *context, struct report *devices, const struct config *declared)
{
	struct record_writing *w = context;
	struct diagnosis diagnosis = { 0 };
	struct buf out = { 0 };

	diagnose(&diagnosis, devices);
	for (size_t i = 0; i < devices->count; i++) {
		struct record_estimate estimate;
		int has = w->estimates && record_estimates_find(w->estimates, declared,
								&devices->ranks[i], &estimate);

		record_write(&out, &devices->ranks[i], declared, &diagnosis, i,
			     has ? &estimate : NULL);
	}
	pthread_mutex_lock(&w->lock);
	if (!w->failed && out.length)
		w->failed = w->options->on(w->options->context,
					   (struct str){ out.text, out.length }) < 0;
	pthread_mutex_unlock(&w->lock);
	buf_release(&out);
	diagnosis_release(&diagnosis);
}

int trace_records(char *const *paths, size_t count, const struct trace_records_options *options,
		  struct buf *notes, struct err *e)
{
	struct record_writing w = { .lock = PTHREAD_MUTEX_INITIALIZER, .options = options };
	struct session_options load = { .rank = NO_RANK,
					.progress = term_progress,
					.on_devices = write_records,
					.context = &w };
	struct session session;
	int status = session_find(&session, paths, count, options->run ? options->run : every_run,
				  notes, e);

	w.estimates = options->estimate ? record_estimates_new() : NULL;
	if (!status)
		status = session_read(&session, &load, notes, e);
	term_progress_end();
	if (!status && w.failed)
		status = err_set(e, "cannot write the records: %s", strerror(errno));
	record_estimates_free(w.estimates);
	session_release(&session);
	return status;
}
