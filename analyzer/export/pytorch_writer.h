/* The writer of PyTorch's memory snapshot, and what its parts are written of: pytorch.c has the
 * events, pytorch_segments.c the segments, pytorch_settings.c the settings, pytorch_host.c pinned
 * memory. */
#ifndef MEMTRACE_EXPORT_PYTORCH_WRITER_H
#define MEMTRACE_EXPORT_PYTORCH_WRITER_H

#include "export/export.h"
#include "export/pickle.h"

enum snapshot_word {
#define WORD(id, text) WORD_##id,
#include "export/pytorch.def"
#undef WORD
	SNAPSHOT_WORDS
};

/* Texts, frames, stacks and threads without one are written once; their numbers are NOT_REMEMBERED
 * before that. */
struct snapshot_writer {
	struct export *x;
	const struct input *in;
	struct pickle pickle;
	unsigned device; /* whose events are written */
	uint64_t before; /* records that are to come, of what was there before the history */
	uint32_t words[SNAPSHOT_WORDS], pool;
	uint32_t *strings, *frames, *stacks, *threads;
	size_t in_group;        /* items of the open group of the list that is written */
	struct mt_record *live; /* segments and blocks at the end */
	size_t live_count, live_room;
};

void snapshot_word(struct snapshot_writer *w, enum snapshot_word word);
void snapshot_number(struct snapshot_writer *w, enum snapshot_word key, int64_t value);
/* The key "frames" and its value, those of the record. */
void snapshot_frames(struct snapshot_writer *w, const struct mt_record *r);
/* The pool (0, 0). */
void snapshot_pool(struct snapshot_writer *w);
/* Before each item of a long list; after the last one. */
void snapshot_item(struct snapshot_writer *w);
void snapshot_list_end(struct snapshot_writer *w);

/* An event of a trace that is written as a list. */
void snapshot_event(struct snapshot_writer *w, enum snapshot_word action,
		    const struct mt_record *r);

#endif
