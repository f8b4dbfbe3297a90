/*
 * The events of one device of a trace, for a page: every block with its stack, size, address,
 * lifetime and category; the allocator's segments; failures; and the bytes of each owner wherever
 * they change. A moment of the page is an event's number here.
 */
#ifndef MEMTRACE_STREAM_H
#define MEMTRACE_STREAM_H

#include "attribution/lifetime.h"
#include "attribution/owner.h"
#include "html/columns.h"
#include "replay/live_set.h"
#include "replay/replay.h"

/* Kinds of events in a page: X(name, number). page/decode.js has the same numbers. */
#define STREAM_EVENTS(X)                                                        \
	X(ALLOC, 1)                                                             \
	X(FREE, 2)                                                              \
	X(SEGMENT, 3)                                                           \
	X(SEGMENT_END, 4)                                                       \
	X(LEVELS, 5) /* no memory of PyTorch's changed, an owner's bytes did */ \
	X(FAILURE, 6)                                                           \
	X(GAP, 7) /* records are lost before the events that follow */
enum stream_kind {
#define X(name, number) STREAM_##name = number,
	STREAM_EVENTS(X)
#undef X
};

#define STREAM_NEVER UINT32_MAX

struct stream_block {
	struct lifetime life;
	uint32_t allocated, freed; /* events; STREAM_NEVER: live at the end */
	uint8_t settled;           /* how much its category is worth, see stream_classify.c */
	uint8_t confirmed;         /* live behind the gap that is being read */
};

struct stream_segment {
	uint64_t address;
	bytes bytes;
	uint32_t stack;
	uint8_t kind;      /* of the event; 0 once it has ended */
	uint8_t confirmed; /* as of a block */
};

/* A new level: of `reserved` (series 0) or of an owner (1 + enum owner). */
struct stream_level {
	uint32_t event, series;
	bytes level;
};

#define STREAM_SERIES (1 + OWNERS)

struct stream {
	int device;
	const struct tables *tables;
	struct live_set live; /* `stack` is an index of `blocks` or `segments` */
	unsigned char *kinds;
	uint64_t *times;
	size_t events, kinds_room, times_room;
	struct stream_block *blocks;
	size_t block_count, block_room;
	uint32_t *freed; /* blocks, and below them segments, in the order of their events */
	size_t freed_count, freed_room;
	struct stream_segment *segments;
	size_t segment_count, segment_room;
	uint32_t *ended;
	size_t ended_count, ended_room;
	struct stream_level *levels;
	size_t level_count, level_room;
	bytes now[STREAM_SERIES];
	struct {
		bytes levels[STREAM_SERIES];
		uint32_t event;
		int is_due;
	} sample;                   /* the levels of the last event, if that is a sample */
	struct mt_record *restored; /* of the keyframe behind a gap */
	size_t restored_count, restored_room;
	int quiet; /* nothing was allocated since the last block */
};

/* Streams of one device; `r` is the result of the replay. */
void stream_init(struct stream *s, const struct tables *t, int device);
void stream_release(struct stream *s);
/* After the replay: no event follows. */
void stream_end(struct stream *s);
struct replay_observer stream_observer(struct stream *s);

#endif
