#define _GNU_SOURCE
#include "record/image.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "record/file.h"

#define PATIENCE \
	20 /* passes to wait for a reserved record: its thread has no processor now, or died */
#define BLOCK 512u /* the header is written in blocks, only the changed ones */

void image_begin(struct image *m, struct writer_control *c)
{
	memset(m, 0, sizeof(*m));
	m->control = c;
	m->fd = -1;
	clock_remember(&m->clock, c->begin);
	for (unsigned i = 0; i < MT_MAX_SEGMENTS; i++)
		m->segment[i].first = MT_UNKNOWN;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int write_out(struct image *m, uint64_t offset, uint64_t bytes)
{
	int e = file_write(m->fd, (const char *)writer_image(m->control) + offset, bytes, offset);

	if (!e && offset + bytes > m->end)
		m->end = offset + bytes;
	return e;
}

/* Does [offset, offset + bytes) lie in the image, behind the header? */
static int is_inside(const struct image *m, uint64_t offset, uint64_t bytes)
{
	return offset >= MT_HEADER_BYTES && offset <= m->control->image_bytes &&
	       bytes <= m->control->image_bytes - offset;
}

void image_resume(struct image *m, struct writer_control *c)
{
	const struct mt_header *h = writer_image(c);

	image_begin(m, c);
	for (uint64_t i = 0; i < h->segments && i < MT_MAX_SEGMENTS; i++) {
		uint64_t first = h->segment[i].first_sequence,
			 written = atomic_load(&c->written[i]);

		if (first == MT_UNKNOWN || written < first ||
		    written - first > h->segment[i].capacity)
			continue;
		m->segment[i] =
			(struct image_segment){ .first = first,
						.done = written - first,
						.keyframe = atomic_load(&c->keyframe_written[i]) };
		if (h->segment[i].offset + (written - first) * sizeof(struct mt_record) > m->end)
			m->end =
				h->segment[i].offset + (written - first) * sizeof(struct mt_record);
		if (h->segment[i].has_keyframe &&
		    h->segment[i].keyframe_offset +
				    h->segment[i].keyframe_records * sizeof(struct mt_record) >
			    m->end)
			m->end = h->segment[i].keyframe_offset +
				 h->segment[i].keyframe_records * sizeof(struct mt_record);
	}
}

/* Copies memory word by word while threads of the job may write it. No word of 8 bytes is ever seen
 * half written. ThreadSanitizer would report the copy if this is a thread of the job, too. */
__attribute__((no_sanitize("thread"))) static void copy_words(void *to, const void *from,
							      size_t bytes)
{
	volatile const uint64_t *in = from;
	uint64_t *out = to;

	for (size_t i = 0; i < bytes / sizeof(*in); i++)
		out[i] = in[i];
}

/* Writes records; in the file, their time is in ns since the start of the trace. */
static int write_records(struct image *m, uint64_t offset, uint64_t count)
{
	static struct mt_record chunk[2048];
	const struct mt_record *from =
		(const void *)((const char *)writer_image(m->control) + offset);
	const uint64_t start = m->control->begin.ns, latest = clock_latest(&m->clock).ns;
	const struct clock_line line =
		m->control->uses_counter ? clock_latest_line(&m->clock) : (struct clock_line){ 0 };

	for (uint64_t at = 0, n; at < count; at += n) {
		int e;

		n = count - at < sizeof(chunk) / sizeof(chunk[0])
			    ? count - at
			    : sizeof(chunk) / sizeof(chunk[0]);
		copy_words(chunk, from + at, n * sizeof(chunk[0]));
		for (uint64_t i = 0; i < n; i++) {
			uint64_t ns = chunk[i].time_ns;

			if (clock_is_on_line(&line, ns))
				ns = clock_at(&line, ns);
			else if (m->control->uses_counter)
				ns = clock_ns(&m->clock, ns);
			ns = least(ns, latest);
			chunk[i].time_ns = chunk[i].kind && ns > start ? ns - start : 0;
		}
		e = file_write(m->fd, chunk, n * sizeof(chunk[0]), offset + at * sizeof(chunk[0]));
		if (e)
			return e;
	}
	if (offset + count * sizeof(chunk[0]) > m->end)
		m->end = offset + count * sizeof(chunk[0]);
	return 0;
}

/* Copies the present header; each count is read before the entries that it counts. */
static void copy_header(struct image *m)
{
	const struct mt_header *h = writer_image(m->control);
	uint64_t segments = __atomic_load_n(&h->segments, __ATOMIC_ACQUIRE),
		 tables = __atomic_load_n(&h->tables, __ATOMIC_ACQUIRE);

	copy_words(&m->next, h, sizeof(m->next));
	m->next.segments = least(segments, MT_MAX_SEGMENTS);
	m->next.tables = least(tables, MT_MAX_TABLES);
	clock_remember(&m->clock,
		       clock_read(m->control->uses_counter)); /* after the header is read */
}

/* Removes from the header of the file each run whose memory is used again: the header must not list
 * a run while its records are overwritten. */
static int withdraw_reused(struct image *m)
{
	for (unsigned i = 0; i < m->next.segments; i++) {
		struct image_segment *s = &m->segment[i];
		struct mt_segment *claimed = &m->in_file.segment[i];
		int e;

		if (m->next.segment[i].first_sequence == s->first)
			continue;
		*s = (struct image_segment){ .first = m->next.segment[i].first_sequence };
		if (!claimed->capacity || claimed->first_sequence == MT_UNKNOWN)
			continue;
		claimed->first_sequence = MT_UNKNOWN;
		claimed->has_keyframe = 0;
		e = file_write(m->fd, claimed, sizeof(*claimed),
			       (uint64_t)((const char *)claimed - (const char *)&m->in_file));
		if (e)
			return e;
	}
	return 0;
}

static int write_tables(struct image *m)
{
	for (unsigned i = 0; i < m->next.tables; i++) {
		const struct mt_table *t = &m->next.table[i];
		uint64_t used = least(t->used, t->capacity);
		int e;

		if (!is_inside(m, t->offset, used) || used <= m->table_done[i])
			continue;
		e = write_out(m, t->offset + m->table_done[i], used - m->table_done[i]);
		if (e)
			return e;
		m->table_done[i] = used;
	}
	return 0;
}

/*
 * The number of the first USED records that are complete, without a gap, and not newer than LATEST,
 * the last reading of the clocks. A record that stays reserved is given up after PATIENCE passes.
 */
static uint64_t count_complete(struct image_segment *s, const struct mt_record *records,
			       uint64_t used, uint64_t latest)
{
	uint64_t i = s->done;

	for (; i < used; i++) {
		const uint64_t *last = (const uint64_t *)(const void *)&records[i].stack;
		struct mt_record r = { 0 };
		uint64_t word = __atomic_load_n(last, __ATOMIC_ACQUIRE);

		memcpy(&r.stack, &word, sizeof(word));
		if (r.kind && records[i].time_ns <= latest)
			continue;
		if (i != s->done) {
			s->waits = 0;
			break;
		}
		if (++s->waits <= PATIENCE)
			break;
		s->waits = 0;
	}
	return i;
}

static int write_segment(struct image *m, unsigned i)
{
	const struct mt_segment *t = &m->next.segment[i];
	struct image_segment *s = &m->segment[i];
	uint64_t used = least(t->used, t->capacity), complete;
	int e;

	if (s->first == MT_UNKNOWN ||
	    !is_inside(m, t->offset, t->capacity * sizeof(struct mt_record)))
		return 0;
	if (used > s->done) {
		complete = count_complete(
			s, (const void *)((const char *)writer_image(m->control) + t->offset), used,
			clock_latest(&m->clock).counter);
		e = write_records(m, t->offset + s->done * sizeof(struct mt_record),
				  used - s->done);
		if (e)
			return e;
		s->done = complete;
	}
	if (t->has_keyframe && s->keyframe != s->first + 1 &&
	    is_inside(m, t->keyframe_offset, t->keyframe_records * sizeof(struct mt_record))) {
		e = write_records(m, t->keyframe_offset, t->keyframe_records);
		if (e)
			return e;
		s->keyframe = s->first + 1;
	}
	return 0;
}

/* Writes the blocks of m->next that differ from the file. */
static int write_header(struct image *m)
{
	const char *next = (const char *)&m->next;
	char *old = (char *)&m->in_file;

	for (size_t at = 0; at < sizeof(m->next); at += BLOCK) {
		size_t n = sizeof(m->next) - at < BLOCK ? sizeof(m->next) - at : BLOCK;
		int e;

		if (memcmp(next + at, old + at, n) == 0)
			continue;
		e = file_write(m->fd, next + at, n, at);
		if (e)
			return e;
		memcpy(old + at, next + at, n);
	}
	if (m->end < MT_HEADER_BYTES)
		m->end = MT_HEADER_BYTES;
	return 0;
}

/* Tells the recorder which records are in the file: it may reuse the memory of such segments. */
static void publish_written(struct image *m)
{
	for (unsigned i = 0; i < m->next.segments; i++) {
		const struct image_segment *s = &m->segment[i];

		if (s->first == MT_UNKNOWN)
			continue;
		atomic_store(&m->control->written[i], s->first + s->done);
		atomic_store(&m->control->keyframe_written[i], s->keyframe);
	}
}

int image_pass(struct image *m)
{
	int e;

	copy_header(m);
	e = withdraw_reused(m);
	if (!e)
		e = write_tables(m);
	for (unsigned i = 0; i < m->next.segments && !e; i++)
		e = write_segment(m, i);
	if (!e)
		e = write_header(m);
	if (!e)
		publish_written(m);
	return e;
}

void image_header_when_full(struct image *m, int error)
{
	copy_header(m);
	m->lost = 0;
	for (unsigned i = 0; i < m->next.segments; i++) {
		struct mt_segment *t = &m->next.segment[i];
		const struct image_segment *s = &m->segment[i];
		uint64_t used = least(t->used, t->capacity);

		if (t->first_sequence == MT_UNKNOWN)
			continue;
		if (t->first_sequence != s->first) { /* the run began after the last pass */
			t->first_sequence = MT_UNKNOWN;
			m->lost += used;
			continue;
		}
		m->lost += used - least(s->done, used);
		t->used = least(s->done, used);
		t->has_keyframe = t->has_keyframe && s->keyframe == s->first + 1;
	}
	for (unsigned i = 0; i < m->next.tables; i++)
		m->next.table[i].used = least(m->next.table[i].used, m->table_done[i]);
	m->next.lost_events += m->lost;
	m->next.lost_reason = MT_LOST_NO_SPACE;
	m->next.lost_errno = error;
	if (m->next.state == MT_STATE_RECORDING)
		m->next.state = MT_STATE_STOPPED;
	(void)write_header(m);
}

void image_trim(struct image *m)
{
	file_cut(m->fd, m->end);
}
