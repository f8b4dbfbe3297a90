/* Walking over a trace's records in order: what the passes of the replay have in common. */
#ifndef MEMTRACE_WALK_H
#define MEMTRACE_WALK_H

#include "replay/replay.h"

struct walker {
	void *context;
	/* A keyframe follows: forget what was live. */
	void (*restart)(void *context);
	/* Records of a keyframe: what is live, not what happens. */
	void (*keyframe)(void *context, const struct mt_record *records, size_t count);
	/* The keyframe is complete. */
	void (*restarted)(void *context, uint64_t segment);
	/* Records of a segment, `first` being the index of the first one. */
	void (*records)(void *context, uint64_t segment, uint64_t first,
			const struct mt_record *records, size_t count);
	/* How far the walk is, 0 to 1. */
	void (*progress)(void *context, double part);
};

/* Returns 0, or -1 if the file ended early. */
int walk(const struct trace *t, const struct walker *w);

/* Which ALLOC event a FREE event answers, or 0 if `kind` is no FREE. An ALLOC gives itself. */
static inline unsigned walk_alloc_kind(unsigned kind)
{
	static const unsigned char kinds[256] = {
#define EVENT(name, id, layer, effect, meaning) [id] = EFFECT_##effect(id),
#define EFFECT_ALLOC(id) id
#define EFFECT_FREE(id) (id) - 1 /* by construction of events.def, checked in walk.c */
#define EFFECT_FAIL(id) 0
#define EFFECT_LEVEL(id) 0
#define EFFECT_SAMPLE(id) 0
#include <memtrace/events.def>
#undef EVENT
#undef EFFECT_ALLOC
#undef EFFECT_FREE
#undef EFFECT_FAIL
#undef EFFECT_LEVEL
#undef EFFECT_SAMPLE
	};

	return kinds[kind];
}

/* The layer of an event, 0 if `kind` is none. */
static inline unsigned walk_layer(unsigned kind)
{
	static const unsigned char layers[256] = {
#define EVENT(name, id, layer, effect, meaning) [id] = MT_LAYER_##layer,
#include <memtrace/events.def>
#undef EVENT
	};

	return layers[kind];
}

/* Is this record one that can be believed? */
static inline int walk_is_sound(const struct mt_record *r)
{
	unsigned alloc = walk_alloc_kind(r->kind);

	if (r->bytes > REPLAY_MAX_BYTES || r->bytes < -REPLAY_MAX_BYTES ||
	    r->time_ns > REPLAY_MAX_NS)
		return 0;
	return alloc && alloc != r->kind ? r->bytes <= 0 : r->bytes >= 0;
}

/* The two passes. */
struct assumptions {
	int stand_in[MT_MAX_DEVICES];
};
void curves_pass(struct replay *r, const struct trace *t, const struct assumptions *a,
		 const struct replay_options *o);
void blocks_pass(struct replay *r, const struct trace *t, const struct replay_options *o);

#endif
