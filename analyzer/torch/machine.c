#include "torch/machine.h"
#include "torch/streams.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

const char *phase_title(enum phase p)
{
	static const char *const names[PHASES] = { "initialization", "forward",   "loss",
						   "backward",       "reduction", "optimizer",
						   "steady" };

	return names[p];
}

void machine_init(struct machine *m, const struct allocator_settings *s, int64_t device)
{
	memset(m, 0, sizeof(*m));
	m->allocator = allocator_new(s, device);
	m->as = TERM_OTHER;
}

void machine_release(struct machine *m)
{
	for (size_t i = 0; i < m->storage_count; i++)
		free(m->storages[i]);
	free(m->storages);
	for (struct node *n = m->spare_nodes, *next; n; n = next) {
		next = n->before;
		free(n);
	}
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
	for (size_t i = 0; m->keep_blocks && i < m->live_count; i++) {
		const struct storage *s = m->live[i];

		m->peak_blocks =
			grow(m->peak_blocks, m->peak_count, &m->peak_room, sizeof(*m->peak_blocks));
		m->peak_blocks[m->peak_count++] =
			(struct held){ s->term, s->bytes, allocation_size(s->block) };
	}
}

static void event(struct machine *m, char sign, const struct storage *s)
{
	m->event_count++;
	if (m->events)
		fprintf(m->events, "%c %lld %d %d %s %s\n", sign, (long long)s->bytes, s->stream,
			m->step, phase_title(m->phase), role_rows[s->term].id);
}

/* Takes a block for `s`. 0: out of memory. */
static int take(struct machine *m, struct storage *s)
{
	const struct allocator_totals *totals;

	streams_collect(m);
	s->block = allocator_take(m->allocator, s->bytes, s->stream);
	if (!s->block) {
		m->out_of_memory = 1;
		return 0;
	}
	m->live = grow(m->live, m->live_count, &m->live_room, sizeof(*m->live));
	s->at = (unsigned)m->live_count;
	m->live[m->live_count++] = s;
	m->by_term[s->term] += allocation_size(s->block);
	totals = allocator_totals(m->allocator);
	if (totals->allocated > m->peak.allocated) {
		m->peak.allocated = totals->allocated;
		m->peak.phase = m->phase;
		m->peak.step = m->step;
		m->peak_pending = 1;
	}
	event(m, '+', s);
	stream_work(m, s->stream, 1); /* what fills it */
	return 1;
}

static void give(struct machine *m, struct storage *s)
{
	machine_settle(m);
	event(m, '-', s);
	m->by_term[s->term] -= allocation_size(s->block);
	if (s->used)
		streams_lend(m, s->block, s->used);
	else
		allocator_give(m->allocator, s->block);
	s->block = NULL;
	s->used = 0;
	m->live[s->at] = m->live[--m->live_count];
	m->live[s->at]->at = s->at;
}

static struct storage *new_storage(struct machine *m)
{
	struct storage *s = m->spare;

	if (s) {
		m->spare = s->next;
	} else {
		s = xcalloc(1, sizeof(*s));
		m->storages =
			grow(m->storages, m->storage_count, &m->storage_room, sizeof(*m->storages));
		m->storages[m->storage_count++] = s;
	}
	return s;
}

tensor make_as(struct machine *m, enum role term, int64_t n, enum dtype type)
{
	struct storage *s;

	if (m->stopped || n <= 0 || m->out_of_memory)
		return (tensor){ .at = NULL };
	s = new_storage(m);
	*s = (struct storage){
		.bytes = n * dtype_width(type), .refs = 1, .stream = m->stream, .term = term
	};
	if (!m->in_graph && !take(m, s)) {
		s->next = m->spare;
		m->spare = s;
		return (tensor){ .at = NULL };
	}
	return (tensor){ .at = s, .n = n, .type = type };
}

tensor make_on(struct machine *m, int stream, enum role term, int64_t n, enum dtype type)
{
	int before = m->stream;
	tensor t;

	m->stream = stream;
	t = make_as(m, term, n, type);
	m->stream = before;
	return t;
}

void storage_empty(struct machine *m, tensor t)
{
	if (t.at && t.at->block)
		give(m, t.at);
}

void storage_fill(struct machine *m, tensor t, enum dtype type)
{
	t.at->bytes = t.n * dtype_width(type);
	if (!t.at->block && !m->out_of_memory)
		take(m, t.at);
}

tensor storage_like(struct machine *m, tensor t)
{
	struct storage *s = new_storage(m);

	*s = (struct storage){
		.bytes = t.at->bytes, .refs = 1, .stream = t.at->stream, .term = t.at->term
	};
	t.at = s;
	return t;
}

void storage_move(struct machine *m, tensor from, tensor to)
{
	struct storage *s = to.at;

	s->block = from.at->block;
	s->bytes = from.at->bytes;
	s->stream = from.at->stream;
	s->used = from.at->used;
	s->at = from.at->at;
	from.at->block = NULL;
	from.at->used = 0;
	if (s->block)
		m->live[s->at] = s;
}

tensor make(struct machine *m, int64_t n, enum dtype type)
{
	return make_as(m, m->as, n, type);
}

tensor hold(tensor t)
{
	if (t.at)
		t.at->refs++;
	return t;
}

void drop(struct machine *m, tensor *t)
{
	struct storage *s = t->at;

	t->at = NULL;
	if (!s || --s->refs)
		return;
	if (s->block)
		give(m, s);
	s->next = m->spare;
	m->spare = s;
}

void let(struct machine *m, tensor *t, tensor now)
{
	tensor old = *t;

	*t = now;
	drop(m, &old);
}

void scratch(struct machine *m, int64_t size)
{
	tensor t = make(m, size, U8);

	drop(m, &t);
}

void retag(struct machine *m, tensor t, enum role term)
{
	if (!t.at || !t.at->block || t.at->term == term)
		return;
	machine_settle(m);
	m->by_term[t.at->term] -= allocation_size(t.at->block);
	m->by_term[term] += allocation_size(t.at->block);
	t.at->term = term;
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
