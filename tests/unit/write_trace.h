/* Writes traces in memory, for tests, also such as no preload would write. */
#ifndef MEMTRACE_TEST_WRITE_TRACE_H
#define MEMTRACE_TEST_WRITE_TRACE_H

#include <memtrace/trace.h>
#include <stddef.h>

#define WRITE_MAX_SEGMENTS 64

struct written_segment {
	struct mt_record *events, *keyframe;
	size_t event_count, event_room, keyframe_count, keyframe_room;
	uint64_t first_sequence;
	int has_keyframe;
};

struct writer {
	struct mt_header header;
	unsigned char *table;
	size_t table_used, table_room;
	uint32_t ids[8]; /* the last id of each kind of entry */
	struct written_segment segments[WRITE_MAX_SEGMENTS];
	size_t segment_count;
	uint64_t time; /* of the next event; each event takes 1 ms */
};

/* Begins a trace of rank 0, pid 100, which ended normally, with one segment. */
void write_start(struct writer *w);
void write_release(struct writer *w);

uint32_t write_entry(struct writer *w, uint32_t kind, const void *payload, size_t bytes);
uint32_t write_string(struct writer *w, const char *text);
uint32_t write_frame(struct writer *w, const char *function, const char *file, uint32_t line);
uint32_t write_module(struct writer *w, const char *path);
/* Writes a stack of up to four frames, innermost first; 0 ends them. */
uint32_t write_stack(struct writer *w, uint32_t module, uint32_t f0, uint32_t f1, uint32_t f2,
		     uint32_t f3);
uint16_t write_thread(struct writer *w, uint32_t tid, const char *name);
void write_meta(struct writer *w, const char *key, const char *value, size_t bytes);

/* Begins a segment, `gap` records after the one before. */
void write_segment(struct writer *w, uint64_t gap);
void write_event(struct writer *w, int kind, uint64_t address, int64_t bytes, uint32_t stack,
		 uint16_t thread);
void write_event_on(struct writer *w, int device, int kind, uint64_t address, int64_t bytes,
		    uint32_t stack, uint16_t thread);
/* Writes a record into the keyframe of the last segment. */
void write_keyframe(struct writer *w, int kind, uint64_t address, int64_t bytes, uint32_t stack);

/* The complete file; the caller frees it. */
unsigned char *write_finish(const struct writer *w, size_t *size);
int write_save(const struct writer *w, const char *path);

#endif
