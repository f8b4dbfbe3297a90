#include "replay/owner_usage.h"

/* Both sums change, or none does: they must agree in a damaged trace too. */
static void add_both(bytes *part, bytes *all, bytes delta)
{
	if (bytes_add(*part, delta) == *part || bytes_add(*all, delta) == *all)
		return;
	*part += delta;
	*all += delta;
}

void usage_add(struct owner_usage *h, enum owner o, bytes delta)
{
	add_both(&h->owned[o], &h->owned_all, delta);
}

void usage_add_pool(struct owner_usage *h, enum owner o, bytes delta)
{
	add_both(&h->pool_used[o], &h->pool_used_all, delta);
	h->pool_last = o;
}

/* The allocator frees segments before it reports a lower `reserved`, so the two are compared when
 * it reports. If none of its own calls was seen, nothing is known to be adopted. */
void usage_reported(struct owner_usage *h, bytes reserved)
{
	h->last_reported = reserved;
	h->segments_at_report = h->segments;
	h->adopted = h->has_segments && !h->pool_is_reserved && reserved > h->segments
			     ? reserved - h->segments
			     : 0;
}

bytes usage_reserved(const struct owner_usage *h)
{
	bytes change = h->segments - h->segments_at_report;

	/* The allocator reports growth at once. Only memory that it freed since its last report,
	 * and allocated again, is not reported. */
	if (change >= 0 || h->pool_is_reserved)
		return h->last_reported;
	return h->last_reported + change > 0 ? h->last_reported + change : 0;
}

/* The part of `adopted` that an owner's bytes cover. */
static bytes adopted_from(const struct owner_usage *h, enum owner o, bytes adopted)
{
	bytes owned = h->owned[o] > 0 ? h->owned[o] : 0;

	return adopted < owned ? adopted : owned;
}

bytes usage_adopted(const struct owner_usage *h, bytes by[OWNERS])
{
	bytes pytorch = adopted_from(h, OWNER_PYTORCH, h->adopted),
	      nccl = adopted_from(h, OWNER_NCCL, h->adopted - pytorch);

	if (by) {
		by[OWNER_PYTORCH] -= pytorch;
		by[OWNER_NCCL] -= nccl;
	}
	return pytorch + nccl;
}

/* The level is that of the default pool, and may be reported a little later than the use. */
bytes usage_pool(const struct owner_usage *h)
{
	return h->pool_is_reserved || h->pool_used_all > h->pool_level ? h->pool_used_all
								       : h->pool_level;
}

void usage_share_pool(const struct owner_usage *h, bytes to[OWNERS])
{
	bytes held = usage_pool(h), used = 0, shared = 0;
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
