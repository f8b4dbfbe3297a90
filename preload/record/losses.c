#include "record/losses.h"

#include <stdatomic.h>

#include "record/helper.h"

static struct mt_header *header;
static atomic_int is_counting;

void losses_begin(struct mt_header *h, int counting)
{
	header = h;
	atomic_store(&is_counting, counting);
}

void losses_count(enum mt_lost reason)
{
	uint32_t nothing = MT_LOST_NOTHING;

	if (!atomic_load_explicit(&is_counting, memory_order_relaxed))
		return;
	__atomic_compare_exchange_n(&header->lost_reason, &nothing, (uint32_t)reason, 0,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	if (__atomic_fetch_add(&header->lost_events, 1, __ATOMIC_RELAXED) == 0)
		helper_wake();
}

void losses_end(void)
{
	atomic_store(&is_counting, 0);
}
