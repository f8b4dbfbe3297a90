#define _GNU_SOURCE
#include "keyframe.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "liveset.h"
#include "recorder.h"

#define LEVELS 64 /* devices × (RESERVED, POOL_RESERVED, DEVICE_SAMPLE) at most 48 */

static struct {
	struct liveset live;
	struct mt_record level[LEVELS];
	unsigned levels;
	int broken; /* no memory: no more keyframes, so nothing is reused */
} k;

void keyframe_reset(void)
{
	memset(&k, 0, sizeof(k));
}

/* Replaces the last record of this kind and device. */
static void set_level(const struct mt_record *r)
{
	unsigned i;

	for (i = 0; i < k.levels; i++)
		if (k.level[i].kind == r->kind && k.level[i].device == r->device)
			break;
	if (i == LEVELS)
		return;
	k.level[i] = *r;
	if (i == k.levels)
		k.levels++;
}

static void apply(const struct mt_record *r)
{
	switch (r->kind) {
#define EVENT(name, id, layer, effect, meaning) \
	case MT_##name:                         \
		EFFECT_##effect;                \
		break;
#define EFFECT_ALLOC                      \
	if (liveset_add(&k.live, r) != 0) \
	k.broken = 1
#define EFFECT_FREE                                                                   \
	{                                                                             \
		struct mt_record *found =                                             \
			liveset_find(&k.live, liveset_begun_by(r->kind), r->address); \
		if (found)                                                            \
			liveset_remove(&k.live, found);                               \
	}
#define EFFECT_LEVEL set_level(r)
#define EFFECT_SAMPLE set_level(r)
#define EFFECT_FAIL
#include <memtrace/events.def>
#undef EVENT
	}
}

/* Copies a record; one that its writer has reserved and not finished is waited for a little, then
 * taken as lost (0). */
static int take(const struct mt_record *from, struct mt_record *to)
{
	struct timespec little = { .tv_nsec = 100000 };
	uint64_t last;

	for (unsigned i = 0; i < 20; i++) {
		/* the word that recorder_write() stores last */
		last = __atomic_load_n((const uint64_t *)(const void *)&from->place,
				       __ATOMIC_ACQUIRE);
		memcpy(&to->place, &last, sizeof(last));
		if (to->kind) {
			to->time_ns = from->time_ns;
			to->address = from->address;
			to->bytes = from->bytes;
			return 1;
		}
		nanosleep(&little, NULL);
	}
	return 0;
}

static int write_keyframe(const struct recorder_full *full)
{
	struct mt_segment *s = full->following;
	struct mt_record *out = recorder_keyframe_space(full, k.live.count + k.levels);
	uint64_t n = k.levels;

	if (!out)
		return -1;
	memcpy(out, k.level, k.levels * sizeof(*out));
	for (size_t i = 0; k.live.slot && i <= k.live.mask; i++)
		if (k.live.slot[i].kind)
			out[n++] = k.live.slot[i];
	s->keyframe_records = n;
	__atomic_store_n(&s->has_keyframe, 1, __ATOMIC_RELEASE);
	madvise(out, s->keyframe_capacity * sizeof(*out), MADV_DONTNEED);
	return 0;
}

void keyframe_work(void)
{
	struct recorder_full full;
	struct mt_record r;

	while (!k.broken && recorder_next_full(&full)) {
		for (uint64_t i = 0; i < full.count; i++)
			if (take(&full.records[i], &r))
				apply(&r);
		if (k.broken)
			return;
		if (write_keyframe(&full) != 0)
			return; /* no space: recording stops by itself when it needs a segment */
		recorder_full_done(&full);
	}
}
