#include "backward/forward_blocks.h"

#include "attribution/attribution.h"

#include <stdlib.h>

void forward_blocks_release(struct forward_blocks *f)
{
	free(f->ring);
	free(f->heads);
	*f = (struct forward_blocks){ 0 };
}

uint64_t forward_blocks_framed(const struct forward_blocks *f, uint64_t position)
{
	const struct forward_block *b = forward_block_at(f, position);
	uint64_t back = b->is_framed ? 0 : b->back;

	return position >= forward_blocks_oldest(f) + back ? position - back : NO_POSITION;
}

uint64_t forward_blocks_beginning(const struct forward_blocks *f, uint64_t position)
{
	uint64_t found = forward_blocks_framed(f, position), first = forward_blocks_oldest(f);

	if (found == NO_POSITION)
		return first;
	return found >= first + forward_block_at(f, found)->back
		       ? found - forward_block_at(f, found)->back
		       : first;
}

/* The list of an address. */
static inline uint32_t *head_of(const struct forward_blocks *f, uint64_t address)
{
	return &f->heads[address * 0x9e3779b97f4a7c15u >> 32 & (FORWARD_HEADS - 1)];
}

static void begin(struct forward_blocks *f)
{
	f->ring = xcalloc(FORWARD_BLOCKS, sizeof(*f->ring));
	f->heads = xcalloc(FORWARD_HEADS, sizeof(*f->heads));
	f->last_framed = NO_POSITION;
}

void forward_blocks_add(struct forward_blocks *f, const struct tables *t, const struct mt_record *r)
{
	uint64_t position = f->count, back;
	int is_framed = tables_stack_has_frames(t, r->stack);
	uint32_t *head;

	if (!f->ring)
		begin(f);
	if (!is_framed) {
		back = position - f->last_framed;
	} else {
		if (r->stack != f->last_stack || f->last_framed == NO_POSITION ||
		    f->last_framed < forward_blocks_oldest(f))
			f->run = position;
		f->last_framed = position;
		f->last_stack = r->stack;
		back = position - f->run;
	}
	/* The clocks of two threads may differ a little. */
	f->last_ns = r->time_ns > f->last_ns ? r->time_ns : f->last_ns;
	head = head_of(f, r->address);
	f->ring[position % FORWARD_BLOCKS] =
		(struct forward_block){ .time_ns = f->last_ns,
					.bytes = r->bytes,
					.address = (uint32_t)r->address,
					.stack = r->stack,
					.older = *head,
					.is_framed = (uint32_t)is_framed,
					.back = (uint32_t)back & INT32_MAX };
	*head = (uint32_t)++f->count;
}

uint64_t forward_blocks_find(const struct forward_blocks *f, const struct mt_record *was)
{
	uint64_t oldest = forward_blocks_oldest(f), end = f->count;
	uint32_t at;

	if (!f->ring)
		return NO_POSITION;
	/* Each block of the list lies before the last one. */
	for (at = *head_of(f, was->address); at;) {
		uint64_t position = end - 1 - (uint32_t)((uint32_t)(end - 1) - (at - 1));
		const struct forward_block *b = forward_block_at(f, position);

		if (position >= end || position < oldest || b->time_ns < was->time_ns)
			break;
		if (b->address == (uint32_t)was->address && b->bytes == was->bytes)
			return position;
		end = position;
		at = b->older;
	}
	return NO_POSITION;
}
