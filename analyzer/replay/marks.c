#include "replay/marks.h"

#include <stdlib.h>
#include <string.h>

#include "replay/replay.h"
#include "trace/tables.h"
#include "util/hash.h"

struct phase_index {
	uint32_t key[2]; /* parent, name */
	uint32_t phase;
	UT_hash_handle hh;
};

/* The name of a mark: the function of the only frame. */
static uint32_t name_of(const struct tables *t, const struct mt_record *r)
{
	const struct stack *s = tables_stack(t, r->stack);

	return s->frame_count ? tables_frame(t, s->frames[0])->function : 0;
}

/* The peaks since the last mark belong to every phase that was open. */
static void add_peaks(struct replay *r)
{
	struct marks *m = &r->marks;

	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &r->device[i];

		for (size_t k = 0; k < m->open_count; k++) {
			bytes *peak = &m->phases[m->open[k].phase].peak[i];

			*peak = d->since_mark > *peak ? d->since_mark : *peak;
		}
		if (d->since_mark > m->since_moment[i])
			m->since_moment[i] = d->since_mark;
		d->since_mark = d->now.allocated;
	}
}

static uint32_t innermost(const struct marks *m)
{
	return m->open_count ? m->open[m->open_count - 1].phase : 0;
}

/* The phase of this name within another one, new or known. */
static uint32_t phase_within(struct marks *m, uint32_t parent, uint32_t name)
{
	uint32_t key[2] = { parent, name };
	struct phase_index *found;

	/* NOLINTNEXTLINE(clang-analyzer-core.*): the bytes of both numbers are set */
	HASH_FIND(hh, m->index, key, sizeof(key), found);
	if (found)
		return found->phase;
	if (!m->phase_count) { /* phase 0 */
		m->phases = grow(m->phases, 0, &m->phase_room, sizeof(*m->phases));
		m->phases[m->phase_count++] = (struct named_phase){ 0 };
	}
	if (m->phase_count == MAX_NAMED_PHASES) {
		m->left_out++;
		return parent;
	}
	m->phases = grow(m->phases, m->phase_count, &m->phase_room, sizeof(*m->phases));
	m->phases[m->phase_count] = (struct named_phase){ .parent = parent, .name = name };
	found = xcalloc(1, sizeof(*found));
	memcpy(found->key, key, sizeof(key));
	found->phase = (uint32_t)m->phase_count++;
	HASH_ADD(hh, m->index, key, sizeof(found->key), found);
	return found->phase;
}

static size_t open_at(const struct marks *m, uint64_t id)
{
	size_t i = m->open_count;

	while (i && m->open[i - 1].id != id)
		i--;
	return i; /* 1 + its index; 0: it is not open */
}

/* `is_again`: the event is of a keyframe, and the phase has begun before. */
static void begin(struct marks *m, uint64_t id, uint32_t name, uint64_t time_ns, int is_again)
{
	uint32_t phase;
	size_t left_out = m->left_out;

	if (open_at(m, id))
		return;
	if (m->open_count == MAX_OPEN_PHASES) {
		m->left_out++;
		return;
	}
	phase = phase_within(m, innermost(m), name);
	/* Within other phases than before the gap, it is a phase of its own. */
	if (m->left_out == left_out && !(is_again && m->phases[phase].times) &&
	    !m->phases[phase].times++)
		m->phases[phase].first_ns = time_ns;
	m->open[m->open_count++] = (struct open_phase){ id, phase };
}

static void end(struct marks *m, uint64_t id)
{
	size_t at = open_at(m, id);

	if (!at)
		return;
	memmove(&m->open[at - 1], &m->open[at], (m->open_count - at) * sizeof(*m->open));
	m->open_count--;
}

static void add_moment(struct replay *r, uint32_t name, uint64_t time_ns)
{
	struct marks *m = &r->marks;
	struct named_moment *new;

	if (m->moment_count == MAX_NAMED_MOMENTS) {
		m->left_out++;
		return;
	}
	m->moments = grow(m->moments, m->moment_count, &m->moment_room, sizeof(*m->moments));
	new = &m->moments[m->moment_count++];
	*new = (struct named_moment){ .name = name, .time_ns = time_ns };
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		new->allocated[i] = r->device[i].now.allocated;
		new->peak[i] = m->since_moment[i];
		m->since_moment[i] = new->allocated[i];
	}
}

/* Is a phase with this name open? */
static int is_inside(const struct marks *m, const struct tables *t, const char *name)
{
	for (size_t i = 0; i < m->open_count; i++) {
		struct str open = tables_string(t, m->phases[m->open[i].phase].name);

		if (open.length == strlen(name) && !memcmp(open.at, name, open.length))
			return 1;
	}
	return 0;
}

/* Sets the innermost open phase of each device. */
static void set_innermost(struct replay *r, const struct tables *t, const char *phase)
{
	int outside = phase && !is_inside(&r->marks, t, phase);

	if (phase && !outside)
		r->marks.wanted = phase;
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		r->device[i].now.named_phase = innermost(&r->marks);
		r->device[i].is_outside = outside;
	}
}

static void mark_step(struct replay *r, const struct mt_record *mark)
{
	r->marks.steps_seen++;
	for (int i = 0; i < MT_MAX_DEVICES; i++)
		r->device[i].spans.step_mark = (uint32_t)mark->bytes;
}

void marks_event(struct replay *r, const struct tables *t, const char *phase,
		 const struct mt_record *mark)
{
	add_peaks(r);
	switch (mark->kind) {
	case MT_PHASE_BEGIN:
		begin(&r->marks, mark->address, name_of(t, mark), mark->time_ns, 0);
		break;
	case MT_PHASE_END:
		end(&r->marks, mark->address);
		break;
	case MT_STEP:
		mark_step(r, mark);
		return;
	case MT_MARK:
		add_moment(r, name_of(t, mark), mark->time_ns);
		return;
	}
	set_innermost(r, t, phase);
	/* Bytes that were allocated before the phase count in its peak too. */
	add_peaks(r);
}

void marks_gap(struct replay *r)
{
	struct marks *m = &r->marks;

	add_peaks(r);
	m->before_count = m->open_count;
	for (size_t i = 0; i < m->open_count; i++)
		m->before_gap[i] = m->open[i].id;
	m->open_count = 0;
	for (int i = 0; i < MT_MAX_DEVICES; i++)
		r->device[i].since_mark = 0;
}

static int by_id(const void *a, const void *b)
{
	const struct mt_record *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

void marks_keyframe(struct replay *r, const struct mt_record *records, size_t count)
{
	struct marks *m = &r->marks;

	for (size_t i = 0; i < count; i++) {
		if (records[i].kind == MT_STEP)
			mark_step(r, &records[i]);
		if (records[i].kind != MT_PHASE_BEGIN)
			continue;
		m->restored = grow(m->restored, m->restored_count, &m->restored_room,
				   sizeof(*m->restored));
		m->restored[m->restored_count++] = records[i];
	}
}

static int was_open(const struct marks *m, uint64_t id)
{
	for (size_t i = 0; i < m->before_count; i++)
		if (m->before_gap[i] == id)
			return 1;
	return 0;
}

void marks_keyframe_end(struct replay *r, const struct tables *t, const char *phase)
{
	struct marks *m = &r->marks;

	if (m->restored_count)
		qsort(m->restored, m->restored_count, sizeof(*m->restored), by_id);
	for (size_t i = 0; i < m->restored_count; i++) {
		const struct mt_record *b = &m->restored[i];

		begin(m, b->address, name_of(t, b), b->time_ns, was_open(m, b->address));
	}
	m->restored_count = 0;
	set_innermost(r, t, phase);
}

void marks_end(struct replay *r)
{
	add_peaks(r);
}

void marks_release(struct marks *m)
{
	free(m->phases);
	free(m->moments);
	free(m->restored);
	HASH_RELEASE(m->index);
	*m = (struct marks){ 0 };
}
