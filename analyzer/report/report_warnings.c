#include "report/report_warnings.h"

#include <memtrace/not_simulated.h>

#include "util/buf.h"
#include "util/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void report_warn(struct rank *r, const char *format, ...)
{
	struct buf b = { 0 };
	va_list args;
	char *text;

	va_start(args, format);
	text = xvasprintf(format, args);
	va_end(args);
	buf_add_clean(&b, (struct str){ text, strlen(text) });
	free(text);
	r->warnings = grow(r->warnings, r->warning_count, &r->warning_room, sizeof(*r->warnings));
	r->warnings[r->warning_count++] = buf_take(&b);
}

static const char *lost_text(uint32_t reason)
{
	switch (reason) {
#define X(name, id, message) \
	case MT_LOST_##name: \
		return message;
		MT_LOST_LIST(X)
#undef X
	}
	return "for a reason that this memtrace does not know";
}

void report_add_warnings(struct rank *r, const struct trace *t, const struct replay *p)
{
	const struct mt_header *h = &t->header;

	r->lost_events = h->lost_events;
	r->lost_stacks = h->lost_stacks;
	r->lost_reason = h->lost_reason ? lost_text(h->lost_reason) : NULL;
	if (h->lost_events)
		report_warn(
			r,
			"%llu events were not recorded (%s%s%s): what is live is no longer exact",
			(unsigned long long)h->lost_events,
			r->lost_reason ? r->lost_reason : "no reason given",
			h->lost_errno > 0 ? ": " : "",
			h->lost_errno > 0 ? strerror(h->lost_errno) : "");
	else if (h->lost_reason && h->lost_reason != MT_LOST_TABLES_FULL)
		report_warn(r, "%s", r->lost_reason);
	if (h->lost_stacks > h->busy_stacks)
		report_warn(r, "%llu stacks were not kept: the tables are full",
			    (unsigned long long)(h->lost_stacks - h->busy_stacks));
	if (h->busy_stacks)
		report_warn(r, "%llu stacks were not kept: the tables were busy",
			    (unsigned long long)h->busy_stacks);
	if (p->given_up)
		report_warn(r, "%llu records were discarded to stay within MEMTRACE_BUDGET",
			    (unsigned long long)p->given_up);
	if (p->open_gaps)
		report_warn(r,
			    "what was live after %u of the gaps is not known: sizes are not exact",
			    p->open_gaps);
	if (t->truncated || p->truncated)
		report_warn(r, "the file is truncated: read up to its last whole record");
	if (t->skipped_segments)
		report_warn(r,
			    "the file is damaged: %u segments do not fit into it and were skipped",
			    t->skipped_segments);
	if (t->tables.damaged)
		report_warn(r, "the file is damaged: %u table entries make no sense",
			    t->tables.damaged);
	if (p->damaged)
		report_warn(r, "the file is damaged: %llu records make no sense",
			    (unsigned long long)p->damaged);
	if (p->without_device)
		report_warn(r, "%llu records do not say which device they are about",
			    (unsigned long long)p->without_device);
	if (p->unknown_kinds || t->tables.unknown)
		report_warn(
			r,
			"%llu records and %u table entries are of kinds that this memtrace does not know",
			(unsigned long long)p->unknown_kinds, t->tables.unknown);
	if (p->frees_unknown)
		report_warn(r, "%llu frees of addresses that were not live",
			    (unsigned long long)p->frees_unknown);
	if (p->allocs_twice)
		report_warn(r, "%llu allocations at addresses that were live already",
			    (unsigned long long)p->allocs_twice);
	if (trace_changed(t))
		report_warn(r,
			    "the job took old records back while they were read: run this again");
}

void report_warn_of_simulation(struct rank *r, const struct trace *t)
{
	char line[1200];
	const char *slash = strrchr(t->path, '/');
	char *path = xasprintf("%.*s" NOT_SIMULATED_FILE, slash ? (int)(slash + 1 - t->path) : 0,
			       t->path);
	FILE *f = t->header.flags & MT_FLAG_SIMULATED ? fopen(path, "re") : NULL;

	while (f && r->warning_count < 64 && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		report_warn(r, "simulated device: %s", line);
	}
	if (f)
		fclose(f);
	free(path);
}

void report_warn_of_moments(struct rank *r, const struct device *d, const struct mt_device *running)
{
	struct buf size = { 0 };

	if (r->peak.unrecorded)
		report_warn(
			r,
			"the highest peak is known from the running counters only; the stacks are "
			"those of the highest recorded one, %lld bytes",
			(long long)d->peak.allocated);
	if (r->device_peak.unrecorded) {
		size_add(&size, r->peak_device, 0);
		report_warn(
			r,
			"the moment of the device's peak, %s, is not in the trace: who held its memory is not known",
			size.text);
	}
	if (running->ooms > d->oom_records)
		report_warn(r, "%llu of %llu allocations that failed are not in the trace",
			    (unsigned long long)(running->ooms - d->oom_records),
			    (unsigned long long)running->ooms);
	buf_release(&size);
}
