#include "top/status_line.h"

#include "top/frame_words.h"
#include "util/shell.h"
#include "util/size.h"

void status_line_row(struct buf *b, const struct process_row *r, const char *directory)
{
	const struct live_process *p = r->process;

	frame_name(b, p);
	switch (p->state) {
	case LIVE_DAMAGED:
		buf_puts(b, " has a trace that cannot be read");
		return;
	case LIVE_OOM:
		buf_puts(b, " ran out of memory; the reason: memtrace report ");
		shell_add_path(b, directory);
		return;
	case LIVE_KILLED:
		buf_puts(b, " was killed");
		break;
	case LIVE_FAILED:
		buf_addf(b, " ended with status %d", p->exit_status);
		break;
	case LIVE_SILENT:
		buf_puts(b, " runs without an event for ");
		frame_time(b, p->age_s);
		return;
	default:
		buf_puts(b, " grows by ");
		size_add(b, r->device->tail.trend.growth, 0);
		buf_addf(b, " a step: its GPU is full in %lld steps at most",
			 (long long)live_steps_until_full(r->device));
		if (r->device->tail.trend.step_s > 0) {
			buf_puts(b, ", ");
			frame_time(b, r->device->tail.trend.step_s *
					      (double)live_steps_until_full(r->device));
		}
		return;
	}
	if (p->age_s >= 0) {
		buf_puts(b, "; its last event was ");
		frame_time(b, p->age_s);
		buf_puts(b, " ago");
	}
}

void status_line_fullest(struct buf *b, const struct process_row *rows, size_t count)
{
	const struct process_row *fullest = NULL;
	bytes least = 0;

	for (size_t i = 0; i < count; i++) {
		const struct live_device *d = rows[i].device;
		bytes room = d ? d->total - live_device_bytes(d) : 0;

		if (!d || !d->total || !live_state_runs(rows[i].process->state) ||
		    (fullest && room >= least))
			continue;
		fullest = &rows[i];
		least = room;
	}
	if (!fullest)
		return;
	buf_puts(b, "the least room is on the GPU of ");
	frame_name(b, fullest->process);
	buf_puts(b, ": ");
	size_add(b, larger_of(least, 0), 0);
	buf_puts(b, " of ");
	size_add(b, fullest->device->total, 0);
}
