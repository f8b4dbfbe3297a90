#include "torch/machine.h"
#include "torch/streams.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

const char *step_phase_title(enum step_phase p)
{
	static const char *const names[STEP_PHASES] = { "initialization", "forward",   "loss",
							"backward",       "reduction", "optimizer",
							"steady" };

	return names[p];
}

void machine_init(struct machine *m, const struct allocator_settings *s, int64_t device)
{
	memset(m, 0, sizeof(*m));
	m->allocator = allocator_new(s, device);
	m->current_term = TERM_OTHER;
	m->part = TERMS;
}

void machine_release(struct machine *m)
{
	slabs_release(&m->storages);
	slabs_release(&m->nodes);
	free(m->live);
	free(m->cast);
	free(m->peak_blocks);
	streams_release(m);
	allocator_release(m->allocator);
}

/* ---- tensors ---- */

void machine_settle(struct machine *m)
{
	if (!m->peak_pending)
		return;
	m->peak_pending = 0;
	memcpy(m->peak.bytes, m->by_term, sizeof(m->by_term));
	m->peak_count = 0;
	for (size_t i = 0; i < m->live_count; i++) {
		const struct storage *s = m->live[i];

		m->peak_blocks =
			grow(m->peak_blocks, m->peak_count, &m->peak_room, sizeof(*m->peak_blocks));
		m->peak_blocks[m->peak_count++] =
			(struct machine_block){ s->term, s->bytes, allocation_size(s->block) };
	}
}

static void event(struct machine *m, char sign, const struct storage *s)
{
	m->event_count++;
	if (m->events)
		fprintf(m->events, "%c %lld %d %d %s %s %lld\n", sign, (long long)s->bytes,
			s->stream, m->step, step_phase_title(m->phase), term_rows[s->term].id,
			(long long)allocation_size(s->block));
}

static void add_live(struct machine *m, struct storage *s)
{
	m->live = grow(m->live, m->live_count, &m->live_room, sizeof(*m->live));
	s->at = (unsigned)m->live_count;
	m->live[m->live_count++] = s;
}

/* Allocates a block for `s`. 0: out of memory. */
static int storage_alloc(struct machine *m, struct storage *s)
{
	const struct allocator_totals *totals;

	streams_process_events(m);
	s->block = allocator_malloc(m->allocator, s->bytes, s->stream);
	if (!s->block) {
		m->out_of_memory = 1;
		return 0;
	}
	if (m->keep_blocks)
		add_live(m, s);
	m->by_term[s->term] += allocation_size(s->block);
	totals = allocator_totals(m->allocator);
	if (totals->allocated > m->peak.allocated) {
		m->peak.allocated = totals->allocated;
		m->peak.phase = m->phase;
		m->peak.step = m->step;
		m->peak_pending = 1;
	}
	event(m, '+', s);
	stream_work(m, s->stream, 1); /* the kernel that fills the block */
	return 1;
}

static void storage_free(struct machine *m, struct storage *s)
{
	machine_settle(m);
	event(m, '-', s);
	m->by_term[s->term] -= allocation_size(s->block);
	if (s->used)
		streams_defer_free(m, s->block, s->used);
	else
		allocator_free(m->allocator, s->block);
	s->block = NULL;
	s->used = 0;
	if (!m->keep_blocks)
		return;
	m->live[s->at] = m->live[--m->live_count];
	m->live[s->at]->at = s->at;
}

static struct storage *new_storage(struct machine *m)
{
	struct storage *s = m->spare;

	if (!s)
		return slabs_get(&m->storages, sizeof(*s));
	m->spare = s->next;
	return s;
}

tensor tensor_new_as(struct machine *m, enum term_id term, int64_t n, enum dtype type)
{
	struct storage *s;

	if (m->stopped || n <= 0 || m->out_of_memory)
		return (tensor){ .storage = NULL };
	s = new_storage(m);
	*s = (struct storage){
		.bytes = n * dtype_width(type), .refs = 1, .stream = m->stream, .term = term
	};
	if (!m->in_graph && !storage_alloc(m, s)) {
		s->next = m->spare;
		m->spare = s;
		return (tensor){ .storage = NULL };
	}
	return (tensor){ .storage = s, .n = n, .type = type };
}

tensor tensor_new_on(struct machine *m, int stream, enum term_id term, int64_t n, enum dtype type)
{
	int before = m->stream;
	tensor t;

	m->stream = stream;
	t = tensor_new_as(m, term, n, type);
	m->stream = before;
	return t;
}

void storage_empty(struct machine *m, tensor t)
{
	if (t.storage && t.storage->block)
		storage_free(m, t.storage);
}

void storage_fill(struct machine *m, tensor t, enum dtype type)
{
	t.storage->bytes = t.n * dtype_width(type);
	if (!t.storage->block && !m->out_of_memory)
		storage_alloc(m, t.storage);
}

tensor storage_like(struct machine *m, tensor t)
{
	struct storage *s = new_storage(m);

	*s = (struct storage){ .bytes = t.storage->bytes,
			       .refs = 1,
			       .stream = t.storage->stream,
			       .term = t.storage->term };
	t.storage = s;
	return t;
}

void storage_move(struct machine *m, tensor from, tensor to)
{
	struct storage *s = to.storage;

	s->block = from.storage->block;
	s->bytes = from.storage->bytes;
	s->stream = from.storage->stream;
	s->used = from.storage->used;
	s->at = from.storage->at;
	from.storage->block = NULL;
	from.storage->used = 0;
	if (s->block && m->keep_blocks)
		m->live[s->at] = s;
}

tensor tensor_new(struct machine *m, int64_t n, enum dtype type)
{
	int apart = m->part < TERMS && m->current_term != TERM_WORKSPACE;

	return tensor_new_as(m, apart ? m->part : m->current_term, n, type);
}

tensor tensor_ref(tensor t)
{
	if (t.storage)
		t.storage->refs++;
	return t;
}

tensor tensor_part(tensor t, int64_t n)
{
	tensor_ref(t);
	t.n = n;
	return t;
}

void tensor_unref(struct machine *m, tensor *t)
{
	struct storage *s = t->storage;

	t->storage = NULL;
	if (!s || --s->refs)
		return;
	if (s->block)
		storage_free(m, s);
	s->next = m->spare;
	m->spare = s;
}

void tensor_assign(struct machine *m, tensor *t, tensor now)
{
	tensor old = *t;

	*t = now;
	tensor_unref(m, &old);
}

void scratch(struct machine *m, int64_t size)
{
	tensor t = tensor_new(m, size, U8);

	tensor_unref(m, &t);
}

void tensor_set_term(struct machine *m, tensor t, enum term_id term)
{
	if (!t.storage || !t.storage->block || t.storage->term == term)
		return;
	machine_settle(m);
	m->by_term[t.storage->term] -= allocation_size(t.storage->block);
	m->by_term[term] += allocation_size(t.storage->block);
	t.storage->term = term;
}

int machine_continues(const struct machine *m)
{
	return m->step < m->steps && !m->out_of_memory &&
	       !(m->enough && m->peak.allocated > m->enough);
}

void machine_steady(struct machine *m)
{
	machine_settle(m);
	memcpy(m->steady.bytes, m->by_term, sizeof(m->by_term));
	m->steady.allocated = allocator_totals(m->allocator)->allocated;
	m->steady.phase = STEADY;
	m->steady.step = m->step;
}

void machine_forget_peak(struct machine *m)
{
	machine_settle(m);
	m->initial_peak = m->peak.allocated;
	m->peak.allocated = 0;
	allocator_reset_peaks(m->allocator);
}
