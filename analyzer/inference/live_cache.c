#include "inference/live_cache.h"

#include "attribution/attribution.h"
#include "attribution/frames.h"

/* Where the blocks of the newest request begin: calls of two requests lie apart. Adds up those of
 * the requests before. */
static size_t find_newest(struct live_inference *r, const struct history *h,
			  const struct live_block *b, size_t n, bytes period, uint32_t *requests)
{
	const struct stack_history *s = &h->stacks[b->stack];
	bytes sum = 0, before = 0, least = period / 2 + history_step(h);
	uint32_t kept = 0;
	size_t newest = 0;

	for (size_t i = 0; i < n; i++) {
		if (i && period && b[i].clock - b[i - 1].clock > least) {
			before = bytes_add(before, sum);
			sum = 0;
			newest = i;
			kept++;
			*requests += b[i - 1].clock + history_step(h) >= s->series_clock;
		}
		sum = bytes_add(sum, b[i].size);
	}
	r->cache_kept = bytes_add(r->cache_kept, before);
	r->caches_kept = kept > r->caches_kept ? kept : r->caches_kept;
	return newest;
}

/* Are the blocks those of one request, of which a call makes new ones from the old? */
static int are_copied(const struct series *s, size_t n)
{
	return s->replaced && series_calls(s) > 1 && series_replaces(s) && n > s->each &&
	       n <= 2 * (size_t)s->each;
}

int cache_is_of_one_call(const struct history *whole, const struct tables *t, uint32_t stack,
			 size_t n)
{
	uint64_t model = tables_stack_info(t, stack)->model_hash;

	for (uint32_t i = 1; i < whole->stack_count; i++) {
		const struct series *s = history_series(&whole->stacks[i]);

		if ((i == stack || (model && tables_stack_info(t, i)->model_hash == model)) &&
		    series_calls(s) > 1 && series_replaces(s) && n <= s->each)
			return 1;
	}
	return 0;
}

void live_cache_add(struct live_inference *r, const struct history *h, const struct live_block *b,
		    size_t n, bytes period, int is_one)
{
	const struct stack_history *s = &h->stacks[b->stack];
	uint32_t requests = 1, layers, rounds;
	int copied = are_copied(&s->now, n);
	size_t newest = copied || is_one ? 0 : find_newest(r, h, b, n, period, &requests);

	for (size_t i = newest; i < n; i++)
		r->cache = bytes_add(r->cache, b[i].size);
	for (size_t i = 0; copied && i + s->now.each < n; i++)
		r->cache_copied = bytes_add(r->cache_copied, b[i].size);
	/* A call that replaces the whole list of its layers' blocks has two of them at a time. */
	layers = (uint32_t)(n - newest);
	if (s->least > newest && s->least - (uint32_t)newest < layers)
		layers = s->least - (uint32_t)newest;
	/* Requests of one length make one series. The latest call may have begun only. */
	rounds = (s->series_allocs / requests + layers - 1) / layers;
	if (s->series_allocs / layers / requests > 1 && s->last > s->series_first)
		r->cache_token =
			bytes_add(r->cache_token, (s->last - s->series_first) /
							  (bytes)(rounds - 1) * (bytes)layers);
}
