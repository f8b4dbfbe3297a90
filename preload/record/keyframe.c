#define _GNU_SOURCE
#include "record/keyframe.h"

#include <string.h>

#include "record/live_set.h"
#include "base/lock.h"
#include "record/losses.h"
#include "record/segments.h"

#define LEVELS \
	65 /* one for each device and kind of EFFECT_LEVEL and EFFECT_SAMPLE (four); the step */
#define PREPARE_EVERY 32768 /* records */
#define LOST_AFTER_NS \
	200000000u /* a record that stays reserved and unwritten for so long is lost */

static struct {
	struct live_set live;
	struct mt_record level[LEVELS];
	unsigned levels;
	int broken;        /* no memory: no more keyframes, so nothing is reused */
	uint64_t at;       /* number of replayed records in the present segment */
	uint64_t stuck_ns; /* when record `at` was first seen unwritten; 0: it is written */
} keyframe;

void keyframe_reset(void)
{
	memset(&keyframe, 0, sizeof(keyframe));
}

/* Replaces the last record of this kind and device. */
static void set_level(const struct mt_record *r)
{
	unsigned i;

	for (i = 0; i < keyframe.levels; i++)
		if (keyframe.level[i].kind == r->kind && keyframe.level[i].device == r->device)
			break;
	if (i == LEVELS)
		return;
	keyframe.level[i] = *r;
	if (i == keyframe.levels)
		keyframe.levels++;
}

static void apply(const struct mt_record *r)
{
	switch (r->kind) {
#define EVENT(name, id, layer, effect, meaning) \
	case MT_##name:                         \
		EFFECT_##effect;                \
		break;
#define EFFECT_ALLOC                              \
	if (live_set_add(&keyframe.live, r) != 0) \
	keyframe.broken = 1
#define EFFECT_FREE                                                                                \
	{                                                                                          \
		struct mt_record *found =                                                          \
			live_set_find(&keyframe.live, live_set_allocated_by(r->kind), r->address); \
		if (found)                                                                         \
			live_set_remove(&keyframe.live, found);                                    \
	}
#define EFFECT_LEVEL set_level(r)
#define EFFECT_SAMPLE set_level(r)
#define EFFECT_FAIL
#define EFFECT_NOTE
#include <memtrace/events.def>
#undef EVENT
	}
}

/* Copies a record. Returns 0 if it is reserved and not written yet. */
static int copy_record(const struct mt_record *from, struct mt_record *to)
{
	/* recorder_write() stores this word last */
	uint64_t last =
		__atomic_load_n((const uint64_t *)(const void *)&from->stack, __ATOMIC_ACQUIRE);

	memcpy(&to->stack, &last, sizeof(last));
	if (!to->kind)
		return 0;
	to->time_ns = from->time_ns;
	to->address = from->address;
	to->bytes = from->bytes;
	return 1;
}

/* Writes the live set as the keyframe of the following segment. Returns -1 if there is no room now.
 */
static int write_keyframe(const struct filled_segment *filled)
{
	struct mt_segment *s = filled->following;
	uint64_t n = keyframe.levels;
	int wanted;
	struct mt_record *out = segments_keyframe(filled, keyframe.live.count + n, &wanted);

	if (!out)
		return wanted ? -1 : 0;
	memcpy(out, keyframe.level, keyframe.levels * sizeof(*out));
	for (size_t i = 0; keyframe.live.slot && i <= keyframe.live.mask; i++)
		if (keyframe.live.slot[i].kind)
			out[n++] = keyframe.live.slot[i];
	s->keyframe_records = n;
	__atomic_store_n(&s->has_keyframe, 1, __ATOMIC_RELEASE);
	return 0;
}

/* Returns 1 if the unwritten record counts as lost. Before that the replay stops in front of it:
 * the thread that reserved it may only wait for a processor. */
static int is_lost(void)
{
	uint64_t now = now_ns();

	if (!keyframe.stuck_ns)
		keyframe.stuck_ns = now;
	return now - keyframe.stuck_ns > LOST_AFTER_NS;
}

/* Replays a segment. Returns 1 if it reached the end. */
static int replay(const struct filled_segment *filled)
{
	struct mt_record r;

	for (; keyframe.at < filled->count; keyframe.at++) {
		if (keyframe.at % PREPARE_EVERY == 0)
			segments_prepare_next(); /* must not wait for the end of the replay */
		if (copy_record(&filled->records[keyframe.at], &r))
			apply(&r);
		else if (is_lost())
			losses_count(MT_LOST_BUSY);
		else
			return 0;
		keyframe.stuck_ns = 0;
	}
	return !keyframe.broken;
}

int keyframe_work(void)
{
	struct filled_segment filled;

	while (!keyframe.broken && segments_next_filled(&filled)) {
		if (!replay(&filled))
			return keyframe.stuck_ns != 0;
		if (write_keyframe(&filled) != 0)
			return 0; /* no space: recording stops by itself when it needs a segment */
		keyframe.at = 0;
		segments_replayed(&filled);
	}
	return 0;
}
