#include "live/process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "trace/event.h"
#include "trace/converted.h"
#include "trace/trace.h"
#include "util/buf.h"

#define LAST_RECORDS 64 /* a thread that died may have left some of the last ones unwritten */

const char *live_state_key(enum live_state s)
{
	static const char *const keys[] = {
#define X(id, key) key,
		LIVE_STATES(X)
#undef X
	};

	return keys[s];
}

int64_t live_steps_until_full(const struct live_device *d)
{
	if (!d->total || !d->tail.is_known)
		return -1;
	return trend_steps_until(&d->tail.trend, d->total - d->other - d->untracked);
}

int live_process_is_over(const struct live_process *p)
{
	double silence = p->age_s < 0 ? p->duration_s : p->age_s;

	return !live_state_runs(p->state) ||
	       (p->state == LIVE_UNKNOWN && silence > LIVE_PATIENCE_S);
}

static double seconds_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A counter of a header that may be damaged. */
static bytes counter(uint64_t value)
{
	return value > (uint64_t)BYTES_LIMIT ? 0 : (bytes)value;
}

static void read_devices(struct live_process *p, const struct mt_header *h)
{
	size_t n = 0;

	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		const struct mt_device *from = &h->device[i];
		struct live_device *to = &p->devices[n];

		if (!from->total_bytes && !from->allocs && !from->reserved_peak &&
		    !from->device_peak && !from->ooms && !from->refused)
			continue;
		if (to->ordinal != i || n >= p->device_count)
			to->tail = (struct live_tail){ 0 };
		*to = (struct live_device){
			.ordinal = i,
			.total = counter(from->total_bytes),
			.allocated = counter(from->allocated),
			.allocated_peak = counter(from->allocated_peak),
			.reserved = counter(from->reserved),
			.reserved_peak = counter(from->reserved_peak),
			.other = counter(from->other),
			.untracked = counter(from->untracked),
			.device_peak = counter(from->device_peak),
			.allocs = from->allocs,
			.frees = from->frees,
			.ooms = from->ooms,
			.refused = from->refused,
			.tail = to->tail,
		};
		n++;
	}
	p->device_count = n;
}

static uint64_t used(const struct mt_segment *s)
{
	return s->used < s->capacity ? s->used : s->capacity;
}

/* The time of the last record in a segment; -1: it has none. */
static int64_t last_in(const struct trace *t, const struct mt_segment *s)
{
	const struct extent x = { .offset = s->offset, .records = used(s) };
	struct mt_record last[LAST_RECORDS];
	int64_t time = -1;
	size_t n;

	if (x.offset < MT_HEADER_BYTES || x.offset > INT64_MAX || x.records > INT64_MAX / 64)
		return -1;
	n = trace_read(t, &x, x.records > LAST_RECORDS ? x.records - LAST_RECORDS : 0, last,
		       LAST_RECORDS);
	for (size_t i = 0; i < n; i++)
		if (last[i].kind && record_is_valid(&last[i]))
			time = larger_of(time, (int64_t)last[i].time_ns);
	return time;
}

/* Counts the records, and finds the time of the last one: it is in the latest segment, or in the
 * one before if that is still empty. */
static int64_t read_records(struct live_process *p, const struct trace *t)
{
	const struct mt_segment *latest = NULL, *before = NULL;
	const struct mt_header *h = &t->header;
	int64_t time = -1;

	p->records = 0;
	for (uint64_t i = 0; i < h->segments; i++) {
		const struct mt_segment *s = &h->segment[i];

		if (s->first_sequence > UINT64_MAX / 4 || !s->capacity || !used(s))
			continue;
		if (!latest || s->first_sequence >= latest->first_sequence) {
			before = latest;
			latest = s;
		} else if (!before || s->first_sequence > before->first_sequence) {
			before = s;
		}
	}
	if (latest) {
		p->records = latest->first_sequence + used(latest);
		time = last_in(t, latest);
	}
	return time < 0 && before ? last_in(t, before) : time;
}

static enum live_state state_of(const struct live_process *p, const struct trace *t,
				double silent_s)
{
	int ended = t->header.state == MT_STATE_ENDED, failed = 0;

	for (size_t i = 0; i < p->device_count; i++)
		failed |= p->devices[i].ooms || p->devices[i].refused;
	if (ended && !t->header.exit_status)
		return LIVE_ENDED;
	if (ended && !failed)
		return t->header.exit_status > 0 ? LIVE_FAILED : LIVE_ENDED;
	if (!ended && t->lock == LOCK_HELD)
		return p->age_s > silent_s ? LIVE_SILENT : LIVE_RUNNING;
	/* The lock is on another host. */
	if (!ended && t->lock == LOCK_UNKNOWN)
		return p->age_s >= 0 && p->age_s <= silent_s ? LIVE_RUNNING : LIVE_UNKNOWN;
	return failed ? LIVE_OOM : LIVE_KILLED;
}

/* The monotonic clock of a job that runs on this host is ours. */
static void read_times(struct live_process *p, const struct trace *t)
{
	const struct mt_header *h = &t->header;
	int is_ours = t->lock == LOCK_HELD;
	double start = (double)(is_ours ? h->start_monotonic_ns : h->start_realtime_ns) / 1e9,
	       since = seconds_of(is_ours ? CLOCK_MONOTONIC : CLOCK_REALTIME) - start;
	int64_t last = read_records(p, t);

	since = since < 0 ? 0 : since;
	p->start_ns = h->start_realtime_ns;
	p->last_s = last < 0 ? -1 : (double)last / 1e9;
	p->age_s = last < 0 ? -1 : since > p->last_s ? since - p->last_s : 0;
	p->duration_s = h->state == MT_STATE_ENDED ? (double)h->end_ns / 1e9
			: t->lock == LOCK_FREE     ? (last < 0 ? 0 : p->last_s)
						   : since;
}

static void set_text(char **to, const char *text)
{
	struct buf b = { 0 };

	buf_add_clean(&b, (struct str){ text, strlen(text) });
	free(*to);
	*to = buf_take(&b);
}

static void read_header(struct live_process *p, const struct trace *t, double silent_s)
{
	const struct mt_header *h = &t->header;

	set_text(&p->host, h->host);
	set_text(&p->run, h->run_id);
	p->rank = h->rank < 0 ? -1 : h->rank;
	p->local_rank = h->local_rank < 0 ? -1 : h->local_rank;
	p->world_size = h->world_size < 0 ? -1 : h->world_size;
	p->restart = h->restart_count < 0 ? 0 : h->restart_count;
	p->pid = h->pid;
	p->simulated = (h->flags & MT_FLAG_SIMULATED) != 0;
	p->lost_events = h->lost_events;
	p->exit_status = h->state == MT_STATE_ENDED ? h->exit_status : -1;
	read_devices(p, h);
	read_times(p, t);
	p->state = state_of(p, t, silent_s);
}

static void set_damaged(struct live_process *p, const char *why)
{
	set_text(&p->why, why);
	p->state = LIVE_DAMAGED;
	p->rank = p->local_rank = p->world_size = p->exit_status = -1;
	p->age_s = p->last_s = -1;
	p->device_count = 0;
}

/* Has a file that is complete, or damaged, changed since it was read? */
static int has_changed(struct live_process *p)
{
	struct stat st;
	int64_t changed_ns;
	int same;

	if (stat(p->path, &st) < 0)
		return 1;
	changed_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	same = p->host && !live_state_runs(p->state) && p->file_size == (uint64_t)st.st_size &&
	       p->file_changed_ns == changed_ns;
	p->file_size = (uint64_t)st.st_size;
	p->file_changed_ns = changed_ns;
	return !same;
}

void live_process_read(struct live_process *p, double silent_s)
{
	struct err why = { 0 };
	struct trace t;

	if (!has_changed(p))
		return;
	if (trace_open_header(&t, p->path, &why) < 0) {
		set_text(&p->host, "");
		set_text(&p->run, "");
		set_damaged(p, why.text);
	} else if (trace_is_imported(&t)) {
		struct buf why_not = { 0 };

		buf_addf(&why_not, "%s, not a trace of memtrace", t.converted->kind);
		set_text(&p->host, "");
		set_text(&p->run, "");
		set_damaged(p, why_not.text);
		buf_release(&why_not);
	} else {
		free(p->why);
		p->why = NULL;
		read_header(p, &t, silent_s);
	}
	trace_release(&t);
}

void live_process_release(struct live_process *p)
{
	free(p->path);
	free(p->why);
	free(p->host);
	free(p->run);
	*p = (struct live_process){ 0 };
}
