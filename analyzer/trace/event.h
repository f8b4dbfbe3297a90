/* The events of events.def: which ALLOC a FREE belongs to, and layers. */
#ifndef MEMTRACE_EVENT_H
#define MEMTRACE_EVENT_H

#include <memtrace/trace.h>

#define RECORD_MAX_BYTES (INT64_C(1) << 50) /* 1 PiB: no event is larger */
#define RECORD_MAX_NS (1ull << 60)          /* 36 years after the start of the trace */

/* The ALLOC event of what an event allocates or frees: of an ALLOC itself. 0 for every other kind.
 */
static inline unsigned event_alloc_kind(unsigned kind)
{
	static const unsigned char kinds[256] = {
#define EVENT(name, id, layer, effect, meaning) [id] = EFFECT_##effect(id),
#define EFFECT_ALLOC(id) id
#define EFFECT_FREE(id) (id) - 1 /* by construction of events.def, checked in event.c */
#define EFFECT_FAIL(id) 0
#define EFFECT_LEVEL(id) 0
#define EFFECT_SAMPLE(id) 0
#define EFFECT_NOTE(id) 0
#include <memtrace/events.def>
#undef EVENT
#undef EFFECT_ALLOC
#undef EFFECT_FREE
#undef EFFECT_FAIL
#undef EFFECT_LEVEL
#undef EFFECT_SAMPLE
#undef EFFECT_NOTE
	};

	return kinds[kind];
}

/* The layer of an event (enum mt_layer), 0 if there is no such event. */
static inline unsigned event_layer(unsigned kind)
{
	static const unsigned char layers[256] = {
#define EVENT(name, id, layer, effect, meaning) [id] = MT_LAYER_##layer,
#include <memtrace/events.def>
#undef EVENT
	};

	return layers[kind];
}

/* Can this ALLOC event be a segment of the caching allocator, or a mapped part of an expandable
 * one? It is, if the module of its stack is the allocator's. */
static inline int event_is_segment(unsigned alloc_kind)
{
	return alloc_kind == MT_DEVICE_ALLOC || alloc_kind == MT_MAP;
}

/* Damage shows as a size or a time beyond all bounds, or as an ALLOC of less than nothing. The
 * bytes of a FREE are negative; as unsigned numbers, sizes of the wrong sign are beyond the bound.
 */
static inline int record_is_valid(const struct mt_record *r)
{
	unsigned alloc = event_alloc_kind(r->kind);
	uint64_t size = (uint64_t)r->bytes;

	if (alloc && alloc != r->kind)
		size = -size;
	return size <= RECORD_MAX_BYTES && r->time_ns <= RECORD_MAX_NS;
}

#endif
