#include "attribution/forward_blocks.h"

#include "attribution/attribution.h"

#include <stdlib.h>

void forward_blocks_release(struct forward_blocks *f)
{
	free(f->ring);
	*f = (struct forward_blocks){ 0 };
}

uint64_t forward_blocks_oldest(const struct forward_blocks *f)
{
	uint64_t kept = f->count > FORWARD_BLOCKS ? f->count - FORWARD_BLOCKS : 0;

	return kept > f->first ? kept : f->first;
}

uint64_t forward_blocks_framed(const struct forward_blocks *f, uint64_t position)
{
	uint64_t back = forward_block_at(f, position)->unframed;

	return position >= forward_blocks_oldest(f) + back ? position - back : NO_POSITION;
}

uint64_t forward_blocks_beginning(const struct forward_blocks *f, uint64_t position)
{
	uint64_t found = forward_blocks_framed(f, position), first = forward_blocks_oldest(f);

	if (found == NO_POSITION)
		return first;
	return found >= first + forward_block_at(f, found)->run
		       ? found - forward_block_at(f, found)->run
		       : first;
}

void forward_blocks_add(struct forward_blocks *f, const struct tables *t, const struct mt_record *r)
{
	const struct forward_block *last;
	struct forward_block *to;
	uint64_t framed;

	if (!f->ring)
		f->ring = xcalloc(FORWARD_BLOCKS, sizeof(*f->ring));
	last = f->count ? forward_block_at(f, f->count - 1) : NULL;
	framed = f->count ? forward_blocks_framed(f, f->count - 1) : NO_POSITION;
	to = &f->ring[f->count++ % FORWARD_BLOCKS];
	*to = (struct forward_block){ .time_ns = r->time_ns,
				      .address = (uint32_t)r->address,
				      .bytes = r->bytes,
				      .stack = r->stack };
	/* The clocks of two threads may differ a little. */
	if (last && last->time_ns > to->time_ns)
		to->time_ns = last->time_ns;
	if (!(tables_stack_flags(t, r->stack) & STACK_FRAMES))
		to->unframed = last ? last->unframed + 1 : 1;
	else if (framed != NO_POSITION && forward_block_at(f, framed)->stack == r->stack)
		to->run = forward_block_at(f, framed)->run + (uint32_t)(f->count - 1 - framed);
}

/* Saved blocks are freed in the reverse order of the forward pass, so each is near the one before.
 */
uint64_t forward_blocks_find(struct forward_blocks *f, const struct mt_record *was)
{
	uint64_t first = forward_blocks_oldest(f), high = f->count, low = first, step = 1;

	if (f->found_last >= first && f->found_last < high &&
	    forward_block_at(f, f->found_last)->time_ns >= was->time_ns)
		high = f->found_last;
	while (high - first > step && low == first) {
		if (forward_block_at(f, high - step)->time_ns < was->time_ns)
			low = high - step;
		else
			step *= 2;
	}
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (forward_block_at(f, middle)->time_ns < was->time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < f->count && low < high + 8; low++)
		if (forward_block_at(f, low)->address == (uint32_t)was->address &&
		    forward_block_at(f, low)->bytes == was->bytes)
			return f->found_last = low;
	return NO_POSITION;
}
