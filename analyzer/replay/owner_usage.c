#include "replay/owner_usage.h"

/* Both sums move, or none does: they must go on agreeing in a damaged trace too. */
static void add_both(bytes *part, bytes *all, bytes delta)
{
	if (bytes_add(*part, delta) == *part || bytes_add(*all, delta) == *all)
		return;
	*part += delta;
	*all += delta;
}

void holdings_add(struct holdings *h, enum owner o, bytes delta)
{
	add_both(&h->owned[o], &h->owned_all, delta);
}

void holdings_add_pool(struct holdings *h, enum owner o, bytes delta)
{
	add_both(&h->pool_used[o], &h->pool_used_all, delta);
	h->pool_last = o;
}

/* The allocator's own frees come before it says that it holds less, so `reserved` is compared when
 * it is told. Where none of its own calls was seen, nothing can be said. */
void holdings_reserved(struct holdings *h, bytes reserved)
{
	h->told = reserved;
	h->told_segments = h->segments;
	h->lent = h->has_segments && !h->pool_is_reserved && reserved > h->segments
			  ? reserved - h->segments
			  : 0;
}

bytes holdings_now_reserved(const struct holdings *h)
{
	bytes change = h->segments - h->told_segments;

	/* More it tells at once; only what it gave back and took again is not told. */
	if (change >= 0 || h->pool_is_reserved)
		return h->told;
	return h->told + change > 0 ? h->told + change : 0;
}

/* No more than there is. */
static bytes lent_by(const struct holdings *h, enum owner o, bytes lent)
{
	bytes owned = h->owned[o] > 0 ? h->owned[o] : 0;

	return lent < owned ? lent : owned;
}

bytes holdings_lent(const struct holdings *h, bytes by[OWNERS])
{
	bytes pytorch = lent_by(h, OWNER_PYTORCH, h->lent),
	      nccl = lent_by(h, OWNER_NCCL, h->lent - pytorch);

	if (by) {
		by[OWNER_PYTORCH] -= pytorch;
		by[OWNER_NCCL] -= nccl;
	}
	return pytorch + nccl;
}

/* The level may be told a moment later than the use, and is the default pool's. */
bytes holdings_pool(const struct holdings *h)
{
	return h->pool_is_reserved || h->pool_used_all > h->pool_level ? h->pool_used_all
								       : h->pool_level;
}

void holdings_share_pool(const struct holdings *h, bytes to[OWNERS])
{
	bytes held = holdings_pool(h), used = 0, shared = 0;
	enum owner most = h->pool_last;

	for (unsigned o = 0; o < OWNERS; o++) {
		if (h->pool_used[o] <= 0)
			continue;
		if (!used || h->pool_used[o] > h->pool_used[most])
			most = (enum owner)o;
		used = bytes_add(used, h->pool_used[o]);
	}
	for (unsigned o = 0; o < OWNERS && used > 0 && held > 0; o++) {
		bytes share;

		if (h->pool_used[o] <= 0)
			continue;
		share = (bytes)((__int128)held * h->pool_used[o] / used);
		to[o] += share;
		shared += share;
	}
	to[most] += held - shared;
}

static const struct sampled *latest(const struct communicators *c, uint64_t back)
{
	return &c->samples[(c->sample_count - 1 - back) % SAMPLES_KEPT];
}

void comms_sample(struct communicators *c, bytes used, bytes tracked)
{
	c->samples[c->sample_count++ % SAMPLES_KEPT] = (struct sampled){ used, tracked };
}

/*
 * The writer samples the device before and after a creation, so it began at the sample since when
 * the use grew by exactly what it took. Without one it began at the last sample, or at the one
 * before if NCCL took nothing since: too early rather than too late.
 */
static bytes hidden_of(const struct communicators *c, bytes took, bytes tracked)
{
	bytes before = 0;

	if (c->sample_count) {
		int is_after = latest(c, 0)->tracked == tracked && c->sample_count > 1;

		before = latest(c, (uint64_t)is_after)->tracked;
	}
	for (uint64_t i = 1; i < c->sample_count && i < SAMPLES_KEPT; i++)
		if (latest(c, 0)->used - latest(c, i)->used == took) {
			before = latest(c, i)->tracked;
			tracked = latest(c, 0)->tracked;
			break;
		}
	if (tracked > before)
		took -= tracked - before;
	return took > 0 ? took : 0;
}

void comms_hide(struct communicators *c, struct communicator *made, bytes tracked)
{
	if (made->bytes > 0 && c->count < COMMS_KEPT)
		made->hidden = hidden_of(c, made->bytes, tracked);
	/* The next one begins after this one. */
	if (c->sample_count)
		c->samples[0] = *latest(c, 0);
	c->sample_count = c->sample_count != 0;
}

uint32_t comms_add(struct communicators *c, const struct communicator *made)
{
	c->seen++;
	if (c->count == COMMS_KEPT)
		return COMMS_KEPT;
	c->hidden += made->hidden; /* at most COMMS_KEPT times REPLAY_MAX_BYTES */
	c->list = grow(c->list, c->count, &c->room, sizeof(*c->list));
	c->list[c->count] = *made;
	return (uint32_t)c->count++;
}

bytes comms_end(struct communicators *c, uint32_t index, uint64_t time_ns)
{
	struct communicator *x;

	if (index >= c->count || c->list[index].destroyed_ns != UINT64_MAX)
		return 0;
	x = &c->list[index];
	x->destroyed_ns = time_ns;
	c->hidden -= x->hidden;
	return x->hidden;
}
