#include "export/input.h"

#include <stdio.h>

#include "replay/accounting.h"

int input_open(struct input *in, const char *path, struct err *e)
{
	const struct replay_options options = { .keep_peak_blocks = 1 };

	*in = (struct input){ 0 };
	if (trace_open_header(&in->trace, path, e) < 0 || trace_load(&in->trace, e) < 0)
		return -1;
	replay_trace(&in->replay, &in->trace, &options);
	return 0;
}

void input_close(struct input *in)
{
	replay_release(&in->replay);
	trace_release(&in->trace);
}

int input_is_block(const struct input *in, const struct mt_record *r)
{
	return r->device < MT_MAX_DEVICES &&
	       account_is_block(&in->replay.device[r->device], &in->trace.tables, r);
}

int input_is_segment(const struct input *in, const struct mt_record *r)
{
	return r->device < MT_MAX_DEVICES &&
	       account_is_segment(&in->replay.device[r->device], &in->trace.tables, r);
}

int input_is_failure(const struct input *in, const struct mt_record *r)
{
	if (r->device >= MT_MAX_DEVICES)
		return r->kind == MT_TENSOR_OOM; /* the device is not known */
	return account_is_failure(&in->replay.device[r->device], &in->trace.tables, r);
}

/* NULL: the end. */
static const struct moment *find_moment(const struct device *d, enum export_moment moment)
{
	if (moment == MOMENT_FAILURE && d->failure_count)
		return &d->failures[d->failure_count - 1].when;
	return moment == MOMENT_PEAK ? &d->peak : NULL;
}

/* NULL: the trace has none. */
static const struct device *find_device(const struct input *in, int chosen, unsigned *ordinal)
{
	const struct device *most = NULL;

	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		const struct device *d = &in->replay.device[i];

		if (!d->seen || (chosen >= 0 && i != (unsigned)chosen) ||
		    (most && d->peak.allocated <= most->peak.allocated))
			continue;
		most = d;
		*ordinal = i;
	}
	return most;
}

int input_choose(struct input *in, int device, enum export_moment moment, struct err *e)
{
	const struct device *d = find_device(in, device, &in->device);
	const struct moment *m = d ? find_moment(d, moment) : NULL;

	if (!d)
		return err_set(e, "%s: no event of a device", in->trace.path);
	if (moment == MOMENT_FAILURE && !m)
		return err_set(e, "%s: no allocation failed", in->trace.path);
	in->until =
		m ? in->trace.segments[m->at.segment].first_sequence + m->at.record : UINT64_MAX;
	in->end_ns = m ? m->time_ns : in->replay.last_time_ns;
	return 0;
}

const struct span *input_span(const struct input *in, unsigned device, uint64_t time_ns)
{
	return device < MT_MAX_DEVICES ? spans_at(&in->replay.device[device].spans, time_ns) : NULL;
}

static const struct meta *meta_of(const struct input *in, const char *prefix, unsigned device)
{
	char key[32];

	snprintf(key, sizeof(key), "%s%u", prefix, device);
	return tables_meta(&in->trace.tables, key);
}

enum peak_scope input_scope(const struct input *in, unsigned device)
{
	const struct meta *found = meta_of(in, MT_META_PEAK_OF, device);

	return found ? peak_scope_find(found->value) : PEAK_OF_JOB;
}

uint64_t input_before(const struct input *in, unsigned device)
{
	const struct meta *found = meta_of(in, MT_META_BEFORE, device);
	uint64_t count = 0;

	for (size_t i = 0; found && i < found->value.length && count < UINT64_MAX / 100; i++)
		count = 10 * count + (uint64_t)(found->value.at[i] - '0') % 10;
	return count;
}

uint64_t input_real_ns(const struct input *in, uint64_t time_ns)
{
	return in->trace.header.start_realtime_ns + time_ns;
}
