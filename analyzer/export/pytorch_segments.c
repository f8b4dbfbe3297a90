/* The segments of a memory snapshot: each with its live blocks, and the gaps between them as
 * inactive blocks. */
#include "export/pytorch_segments.h"

#include <stdlib.h>

#include "replay/live_blocks.h"

#define SMALL_SEGMENT (2 << 20) /* c10/core/AllocatorConfig.h: kSmallBuffer */
#define SMALL_BLOCK (1 << 20)   /* kSmallSize: larger requests are not in small segments */

/* By device, then by address; a segment before the block at its start. */
static int by_place(const void *a, const void *b)
{
	const struct mt_record *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static void put_block(struct snapshot_writer *w, uint64_t address, bytes size,
		      const struct mt_record *live)
{
	struct pickle *p = &w->pickle;

	pickle_dict(p);
	pickle_group(p);
	snapshot_number(w, WORD_address, (int64_t)address);
	snapshot_number(w, WORD_size, size);
	snapshot_number(w, WORD_requested_size, live ? size : 0);
	snapshot_word(w, WORD_state);
	snapshot_word(w, live ? WORD_active_allocated : WORD_inactive);
	if (live) {
		snapshot_frames(w, live);
	} else {
		snapshot_word(w, WORD_frames);
		pickle_list(p);
	}
	pickle_set_items(p);
}

/* The key "blocks" and its value. */
static void put_blocks(struct snapshot_writer *w, const struct mt_record *segment,
		       const struct mt_record *block, size_t count)
{
	uint64_t at = segment->address, end = at + (uint64_t)segment->bytes;

	snapshot_word(w, WORD_blocks);
	pickle_list(&w->pickle);
	pickle_group(&w->pickle);
	for (size_t i = 0; i < count; i++) {
		if (block[i].address > at)
			put_block(w, at, (bytes)(block[i].address - at), NULL);
		put_block(w, block[i].address, block[i].bytes, &block[i]);
		at = block[i].address + (uint64_t)block[i].bytes;
	}
	if (end > at)
		put_block(w, at, (bytes)(end - at), NULL);
	pickle_append_items(&w->pickle);
}

void snapshot_segment(struct snapshot_writer *w, const struct mt_record *segment,
		      const struct mt_record *block, size_t count)
{
	int is_mapped = segment->kind == MT_MAP, is_of_host = segment->device == MT_NO_DEVICE,
	    is_small;
	struct pickle *p = &w->pickle;
	bytes live = 0;

	for (size_t i = 0; i < count; i++)
		live = bytes_add(live, block[i].bytes);
	is_small = is_of_host  ? 1 /* PyTorch has no other ones */
		   : is_mapped ? count && block[0].bytes <= SMALL_BLOCK
			       : segment->bytes == SMALL_SEGMENT;
	snapshot_item(w);
	pickle_dict(p);
	pickle_group(p);
	snapshot_number(w, WORD_device, is_of_host ? -1 : segment->device);
	snapshot_number(w, WORD_address, (int64_t)segment->address);
	snapshot_number(w, WORD_total_size, segment->bytes);
	snapshot_number(w, WORD_allocated_size, live);
	snapshot_number(w, WORD_active_size, live);
	snapshot_number(w, WORD_requested_size, live);
	snapshot_number(w, WORD_stream, 0);
	snapshot_word(w, WORD_segment_type);
	snapshot_word(w, is_small ? WORD_small : WORD_large);
	snapshot_word(w, WORD_segment_pool_id);
	snapshot_pool(w);
	snapshot_word(w, WORD_is_expandable);
	pickle_boolean(p, is_mapped);
	snapshot_frames(w, segment);
	put_blocks(w, segment, block, count);
	pickle_set_items(p);
}

/* Moves the segments to the front. Returns their number. */
static size_t segments_first(struct snapshot_writer *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->live_count; i++)
		if (input_is_segment(w->in, &w->live[i])) {
			struct mt_record other = w->live[n];

			w->live[n++] = w->live[i];
			w->live[i] = other;
		}
	return n;
}

void snapshot_segments(struct snapshot_writer *w)
{
	size_t all = segments_first(w), blocks = w->live_count - all, k = 0, kept;
	const struct mt_record *block = w->live + all;

	if (all)
		qsort(w->live, all, sizeof(*w->live), by_place);
	if (blocks)
		qsort(w->live + all, blocks, sizeof(*w->live), by_place);
	kept = live_blocks_merge_mapped(w->live, all);
	snapshot_word(w, WORD_segments);
	pickle_list(&w->pickle);
	for (size_t i = 0; i < kept; i++) {
		struct mt_record end = w->live[i];
		size_t from;

		while (k < blocks && by_place(&block[k], &w->live[i]) < 0)
			k++; /* in no segment that was seen */
		end.address += (uint64_t)end.bytes;
		for (from = k; k < blocks && by_place(&block[k], &end) < 0;)
			k++;
		snapshot_segment(w, &w->live[i], block + from, k - from);
	}
	snapshot_list_end(w);
}
