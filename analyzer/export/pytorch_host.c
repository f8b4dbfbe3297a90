/* Pinned memory of the host in a memory snapshot. What the driver gave is a segment with one block:
 * which part PyTorch's allocator of pinned memory holds back is not in a trace. */
#include "export/pytorch_host.h"

#include <stdlib.h>

#include "export/events.h"
#include "export/pytorch_segments.h"
#include "trace/event.h"

struct host_writer {
	struct snapshot_writer *w;
	struct mt_record *live;
	size_t count, room;
};

static int is_pinned(const struct mt_record *r)
{
	int kind = event_alloc_kind(r->kind);

	return kind == MT_HOST_ALLOC || kind == MT_HOST_REGISTER;
}

static void on_event(void *context, uint64_t sequence, const struct mt_record *r,
		     const struct mt_record *allocated)
{
	const struct host_writer *h = context;

	(void)sequence;
	(void)allocated;
	if (!is_pinned(r))
		return;
	if (r->bytes > 0) {
		snapshot_event(h->w, WORD_segment_alloc, r);
		snapshot_event(h->w, WORD_alloc, r);
	} else {
		snapshot_event(h->w, WORD_free_requested, r);
		snapshot_event(h->w, WORD_free_completed, r);
		snapshot_event(h->w, WORD_segment_freed, r);
	}
}

static void on_live(void *context, const struct mt_record *allocated)
{
	struct host_writer *h = context;

	if (!is_pinned(allocated))
		return;
	h->live = grow(h->live, h->count, &h->room, sizeof(*h->live));
	h->live[h->count] = *allocated;
	h->live[h->count++].device = MT_NO_DEVICE;
}

static int by_address(const void *a, const void *b)
{
	const struct mt_record *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

void snapshot_host(struct snapshot_writer *w)
{
	const struct host *host = &w->in->replay.host;
	struct host_writer h = { .w = w };
	const struct event_sink sink = {
		.context = &h, .until = w->in->until, .event = on_event, .live = on_live
	};

	snapshot_word(w, WORD_host_traces);
	pickle_list(&w->pickle);
	if (host->pinned_peak || host->registered_peak)
		(void)events_visit(&w->in->trace, &sink); /* what a cut file still has */
	snapshot_list_end(w);
	if (h.count)
		qsort(h.live, h.count, sizeof(*h.live), by_address);
	snapshot_word(w, WORD_host_segments);
	pickle_list(&w->pickle);
	for (size_t i = 0; i < h.count; i++)
		snapshot_segment(w, &h.live[i], &h.live[i], 1);
	snapshot_list_end(w);
	free(h.live);
}
