#include "write_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_STEP 1000000

static void *checked(void *p)
{
	if (!p)
		abort();
	return p;
}

void write_start(struct writer *w)
{
	memset(w, 0, sizeof(*w));
	memcpy(w->header.magic, MT_MAGIC, sizeof(w->header.magic));
	w->header.version = MT_VERSION;
	w->header.byte_order = MT_BYTE_ORDER;
	w->header.header_bytes = MT_HEADER_BYTES;
	w->header.record_bytes = sizeof(struct mt_record);
	w->header.state = MT_STATE_ENDED;
	w->header.start_realtime_ns = 1700000000000000000u;
	w->header.pid = 100;
	w->header.world_size = 1;
	strcpy(w->header.host, "testhost");
	strcpy(w->header.run_id, "run1");
	w->segment_count = 1;
}

void write_release(struct writer *w)
{
	for (size_t i = 0; i < w->segment_count; i++) {
		free(w->segments[i].events);
		free(w->segments[i].keyframe);
	}
	free(w->table);
}

uint32_t write_entry(struct writer *w, uint32_t kind, const void *payload, size_t bytes)
{
	struct mt_entry entry = { .kind = kind, .bytes = (uint32_t)bytes };
	size_t padded = (sizeof(entry) + bytes + 7) & ~(size_t)7;

	if (kind != MT_ENTRY_META && kind < 8)
		entry.id = ++w->ids[kind];
	if (w->table_used + padded > w->table_room) {
		w->table_room = (w->table_used + padded) * 2;
		w->table = checked(realloc(w->table, w->table_room));
	}
	memset(w->table + w->table_used, 0, padded);
	memcpy(w->table + w->table_used, &entry, sizeof(entry));
	if (bytes)
		memcpy(w->table + w->table_used + sizeof(entry), payload, bytes);
	w->table_used += padded;
	return entry.id;
}

uint32_t write_string(struct writer *w, const char *text)
{
	return write_entry(w, MT_ENTRY_STRING, text, strlen(text));
}

uint32_t write_frame(struct writer *w, const char *function, const char *file, uint32_t line)
{
	struct mt_frame frame = { .line = line };

	frame.function = write_string(w, function);
	frame.file = write_string(w, file);
	return write_entry(w, MT_ENTRY_FRAME, &frame, sizeof(frame));
}

uint32_t write_module(struct writer *w, const char *path)
{
	return write_entry(w, MT_ENTRY_MODULE, path, strlen(path));
}

uint32_t write_stack(struct writer *w, uint32_t module, uint32_t f0, uint32_t f1, uint32_t f2,
		     uint32_t f3)
{
	uint32_t words[] = { module, f0, f1, f2, f3 };
	size_t n = 1;

	while (n < 5 && words[n])
		n++;
	return write_entry(w, MT_ENTRY_STACK, words, n * sizeof(words[0]));
}

uint16_t write_thread(struct writer *w, uint32_t tid, const char *name)
{
	char payload[64];

	memcpy(payload, &tid, sizeof(tid));
	memcpy(payload + sizeof(tid), name, strlen(name));
	return (uint16_t)write_entry(w, MT_ENTRY_THREAD, payload, sizeof(tid) + strlen(name));
}

void write_meta(struct writer *w, const char *key, const char *value, size_t bytes)
{
	size_t n = strlen(key) + 1;
	char *payload = checked(malloc(n + bytes));

	memcpy(payload, key, n);
	memcpy(payload + n, value, bytes);
	write_entry(w, MT_ENTRY_META, payload, n + bytes);
	free(payload);
}

void write_segment(struct writer *w, uint64_t gap)
{
	const struct written_segment *last = &w->segments[w->segment_count - 1];

	if (w->segment_count == WRITE_MAX_SEGMENTS)
		abort();
	w->segments[w->segment_count++].first_sequence =
		last->first_sequence + last->event_count + gap;
}

static void append(struct mt_record **records, size_t *count, size_t *room, struct mt_record r)
{
	if (*count == *room) {
		*room = *room ? *room * 2 : 64;
		*records = checked(realloc(*records, *room * sizeof(r)));
	}
	(*records)[(*count)++] = r;
}

void write_event_on(struct writer *w, int device, int kind, uint64_t address, int64_t bytes,
		    uint32_t stack, uint16_t thread)
{
	struct written_segment *s = &w->segments[w->segment_count - 1];

	w->time += TIME_STEP;
	append(&s->events, &s->event_count, &s->event_room,
	       (struct mt_record){ .time_ns = w->time,
				   .address = address,
				   .bytes = bytes,
				   .stack = stack,
				   .thread = thread,
				   .kind = (uint8_t)kind,
				   .device = (uint8_t)device });
}

void write_event(struct writer *w, int kind, uint64_t address, int64_t bytes, uint32_t stack,
		 uint16_t thread)
{
	write_event_on(w, kind == MT_HOST_ALLOC || kind == MT_HOST_FREE ? MT_NO_DEVICE : 0, kind,
		       address, bytes, stack, thread);
}

void write_keyframe(struct writer *w, int kind, uint64_t address, int64_t bytes, uint32_t stack)
{
	struct written_segment *s = &w->segments[w->segment_count - 1];

	s->has_keyframe = 1;
	append(&s->keyframe, &s->keyframe_count, &s->keyframe_room,
	       (struct mt_record){
		       .address = address, .bytes = bytes, .stack = stack, .kind = (uint8_t)kind });
}

unsigned char *write_finish(const struct writer *w, size_t *size)
{
	struct mt_header *h;
	unsigned char *file;
	uint64_t at = MT_HEADER_BYTES;

	*size = MT_HEADER_BYTES + w->table_used;
	for (size_t i = 0; i < w->segment_count; i++)
		*size += (w->segments[i].event_count + w->segments[i].keyframe_count) *
			 sizeof(struct mt_record);
	file = checked(calloc(1, *size));
	memcpy(file, &w->header, sizeof(w->header));
	h = (struct mt_header *)(void *)file;
	h->tables = 1;
	h->table[0] = (struct mt_table){ at, w->table_used, w->table_used };
	if (w->table_used)
		memcpy(file + at, w->table, w->table_used);
	at += w->table_used;
	h->segments = w->segment_count;
	if (!h->end_ns)
		h->end_ns = w->time;
	for (size_t i = 0; i < w->segment_count; i++) {
		const struct written_segment *s = &w->segments[i];
		size_t keyframe = s->keyframe_count * sizeof(struct mt_record),
		       events = s->event_count * sizeof(struct mt_record);

		h->segment[i] = (struct mt_segment){
			.offset = at + keyframe,
			.capacity = s->event_count,
			.used = s->event_count,
			.first_sequence = s->first_sequence,
			.keyframe_offset = at,
			.keyframe_capacity = s->keyframe_count,
			.keyframe_records = s->keyframe_count,
			.has_keyframe = (uint64_t)s->has_keyframe,
		};
		if (keyframe)
			memcpy(file + at, s->keyframe, keyframe);
		if (events)
			memcpy(file + at + keyframe, s->events, events);
		at += keyframe + events;
	}
	return file;
}

int write_save(const struct writer *w, const char *path)
{
	size_t size;
	unsigned char *file = write_finish(w, &size);
	FILE *f = fopen(path, "wb");
	int status = -1;

	if (f) {
		status = fwrite(file, 1, size, f) == size ? 0 : -1;
		status |= fclose(f);
	}
	free(file);
	return status;
}
