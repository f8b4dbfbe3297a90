#include "replay/accounting.h"

#include "attribution/attribution.h"
#include "trace/event.h"

#include <string.h>

void account_owners(const struct device *d, bytes to[OWNERS])
{
	const struct owner_usage *h = &d->usage;
	bytes rest = d->now.untracked, context = d->context < rest ? d->context : rest;
	bytes hidden = d->comms.hidden > 0 ? d->comms.hidden : 0;

	memcpy(to, h->owned, sizeof(h->owned));
	to[OWNER_PYTORCH] += d->counted_from_runtime ? h->runtime_bytes : d->now.reserved;
	to[OWNER_GRAPHS] += h->graphs;
	usage_adopted(h, to);
	usage_share_pool(h, to);
	rest -= context;
	if (hidden > rest)
		hidden = rest;
	to[OWNER_CONTEXT] += context;
	to[OWNER_NCCL] += hidden;
	to[OWNER_UNEXPLAINED] += rest - hidden;
}

/* After the usage changed: `other`, and `reserved` if it is counted from the runtime. */
static void update_levels(struct device *d)
{
	const struct owner_usage *h = &d->usage;

	d->now.other = h->owned_all + h->graphs;
	if (d->counted_from_runtime)
		d->now.reserved = h->runtime_bytes + usage_pool(h);
	else
		d->now.other += usage_pool(h) - usage_adopted(h, NULL);
}

void account_level(struct device *d, const struct mt_record *r)
{
	if (r->kind == MT_RESERVED) {
		d->reserved_levels++;
		if (!d->counted_from_runtime) {
			d->now.reserved = r->bytes;
			usage_reported(&d->usage, r->bytes);
		}
	} else {
		*(r->kind == MT_GRAPH_RESERVED ? &d->usage.graphs : &d->usage.pool_level) =
			r->bytes;
	}
	update_levels(d);
}

/* The bytes that NCCL's recorded calls allocated. */
static bytes tracked_of_nccl(const struct device *d)
{
	return d->usage.owned[OWNER_NCCL] + d->usage.pool_used[OWNER_NCCL];
}

void account_sample(struct device *d)
{
	bytes tracked = d->now.reserved + d->now.other, used;

	if (d->sample_total <= 0 || d->sample_free > (uint64_t)d->sample_total)
		return;
	d->total = d->sample_total;
	used = d->sample_total - (bytes)d->sample_free;
	comms_sample(&d->comms, used - tracked + tracked_of_nccl(d), tracked_of_nccl(d));
	d->now.untracked = used > tracked ? used - tracked : 0;
	/* A trace that begins with a communicator has its first sample after the creation. */
	if (!d->sampled && d->now.untracked > d->comms.hidden)
		d->context = d->now.untracked - (d->comms.hidden > 0 ? d->comms.hidden : 0);
	d->sampled = 1;
}

int account_is_segment_kind(unsigned alloc_kind)
{
	return alloc_kind == MT_DEVICE_ALLOC || alloc_kind == MT_PHYSICAL_ALLOC ||
	       alloc_kind == MT_POOL_ALLOC;
}

static int is_of_pytorch(const struct tables *t, const struct mt_record *r)
{
	return (tables_stack_flags(t, r->stack) & STACK_PYTORCH) != 0;
}

int account_is_block(const struct device *d, const struct tables *t, const struct mt_record *r)
{
	unsigned alloc = event_alloc_kind(r->kind);

	if (!d->counted_from_runtime)
		return alloc == MT_TENSOR_ALLOC;
	return account_is_segment_kind(alloc) && is_of_pytorch(t, r);
}

int account_is_segment(const struct device *d, const struct tables *t, const struct mt_record *r)
{
	return !d->counted_from_runtime && event_is_segment(event_alloc_kind(r->kind)) &&
	       is_of_pytorch(t, r);
}

int account_is_failure(const struct device *d, const struct tables *t, const struct mt_record *r)
{
	if (r->kind == MT_DEVICE_FAIL)
		return d->counted_from_runtime || (r->stack && !is_of_pytorch(t, r));
	return r->kind == MT_TENSOR_OOM;
}

/* The runtime refuses the segment twice, before the cache is freed and after. Expandable segments
 * grow by pages, which may be smaller than the request. */
bytes account_refused(struct device *d, const struct tables *t, const struct mt_record *r)
{
	bytes segment;

	if (r->kind == MT_DEVICE_FAIL && is_of_pytorch(t, r)) {
		d->refused = r->bytes;
		d->refused_allocs = d->tensor_allocs;
	}
	if (r->kind != MT_TENSOR_OOM)
		return 0;
	segment = d->refused_allocs == d->tensor_allocs && d->refused >= r->bytes ? d->refused : 0;
	d->refused = 0;
	return segment;
}

/* The stack that allocated the memory of an ALLOC or FREE event: another module may free it. */
static uint32_t origin_of(struct account *a, const struct mt_record *r, unsigned alloc_kind)
{
	struct mt_record allocated;

	if (alloc_kind == r->kind) {
		live_set_add(&a->live, r);
		return r->stack;
	}
	return live_set_take(&a->live, alloc_kind, r->address, &allocated) ? allocated.stack
									   : r->stack;
}

/* A call of PyTorch's allocator, which reports: the bytes are in `reserved` already. */
static int record_segment(struct device *d, const struct mt_record *r, unsigned alloc_kind)
{
	struct owner_usage *h = &d->usage;

	if (alloc_kind != MT_POOL_ALLOC) {
		h->has_segments = 1;
		account_add(&h->segments, r->bytes);
		if (usage_reserved(h) == d->now.reserved)
			return 0;
		d->now.reserved = usage_reserved(h);
		return ACCOUNT_OWNERS;
	}
	if (h->pool_is_reserved)
		return 0;
	h->pool_is_reserved = 1;
	h->adopted = 0;
	update_levels(d);
	return ACCOUNT_OWNERS;
}

/* Is PyTorch's allocator the only user of the pools, within the bytes that they hold? */
static int is_its_pool(const struct owner_usage *h)
{
	return h->pool_used[OWNER_PYTORCH] == h->pool_used_all &&
	       h->pool_used_all <= h->pool_level && h->pool_last == OWNER_PYTORCH;
}

int account_runtime(struct account *a, struct device *d, const struct mt_record *r)
{
	struct owner_usage *h = &d->usage;
	int was_its_pool = is_its_pool(h);
	unsigned alloc_kind = event_alloc_kind(r->kind);
	uint32_t origin = origin_of(a, r, alloc_kind);
	enum owner owner = tables_stack_owner(&a->trace->tables, origin);
	int is_allocator = tables_stack_flags(&a->trace->tables, origin) & STACK_PYTORCH &&
			   account_is_segment_kind(alloc_kind);

	if (is_allocator && !d->counted_from_runtime)
		return record_segment(d, r, alloc_kind);
	if (alloc_kind == MT_POOL_ALLOC)
		usage_add_pool(h, owner, r->bytes);
	else if (is_allocator)
		account_add(&h->runtime_bytes, r->bytes);
	else
		usage_add(h, owner, r->bytes);
	if (is_allocator)
		account_add(&d->now.allocated, r->bytes);
	if (is_allocator && alloc_kind == MT_POOL_ALLOC && was_its_pool && is_its_pool(h))
		return ACCOUNT_ALLOCATED;
	update_levels(d);
	return ACCOUNT_OWNERS | (is_allocator ? ACCOUNT_ALLOCATED : 0);
}

/* `hides`: the samples around the creation show its hidden bytes. */
static void start_comm(struct account *a, struct device *d, const struct mt_record *r,
		       uint64_t sequence, int hides)
{
	struct communicator created = { .address = r->address,
					.sequence = sequence,
					.created_ns = r->time_ns,
					.destroyed_ns = UINT64_MAX,
					.bytes = r->bytes,
					.confirmed = 1 };
	struct mt_record kept = *r;

	if (hides)
		comms_hide(&d->comms, &created, tracked_of_nccl(d));
	kept.stack = comms_add(&d->comms, &created);
	live_set_add(&a->live, &kept);
}

/* A communicator is destroyed: its hidden bytes are free. */
static void end_comm(struct device *d, uint32_t index, uint64_t time_ns)
{
	d->now.untracked -= comms_end(&d->comms, index, time_ns);
	if (d->now.untracked < 0)
		d->now.untracked = 0;
}

void account_comm(struct account *a, struct device *d, const struct mt_record *r, uint64_t sequence)
{
	const struct mt_record *known = live_set_find(&a->live, MT_COMM_INIT, r->address);

	if (known && known->device != r->device)
		known = NULL;
	if (known)
		end_comm(d, known->stack, r->time_ns);
	if (r->kind == MT_COMM_INIT)
		start_comm(a, d, r, sequence, 1);
	else if (known)
		live_set_remove(&a->live, MT_COMM_INIT, r->address);
}

/* Communicators stay live until the keyframe turns out not to name them. */
static void keep_comms(struct account *a, struct communicators *x, int device)
{
	for (size_t i = 0; i < x->count; i++) {
		x->list[i].confirmed = 0;
		if (x->list[i].destroyed_ns == UINT64_MAX)
			live_set_add(&a->live, &(struct mt_record){ .kind = MT_COMM_INIT,
								    .address = x->list[i].address,
								    .device = (uint8_t)device,
								    .stack = (uint32_t)i });
	}
}

void account_keyframe_begin(struct account *a, struct replay *replay)
{
	live_set_clear(&a->live);
	replay->host.pinned = replay->host.registered = 0;
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &replay->device[i];

		d->now.allocated = d->now.reserved = d->now.other = 0;
		d->imported = d->managed = 0;
		d->usage = (struct owner_usage){ 0 };
		keep_comms(a, &d->comms, i);
	}
}

/* A communicator that is not known was created in a gap: its hidden bytes are not known either. */
void account_keyframe_comm(struct account *a, struct device *d, const struct mt_record *r,
			   uint64_t now_ns)
{
	const struct mt_record *known = live_set_find(&a->live, MT_COMM_INIT, r->address);

	if (known && known->device == r->device && known->stack < d->comms.count) {
		struct communicator *x = &d->comms.list[known->stack];

		if (x->created_ns == r->time_ns) {
			x->confirmed = 1;
			return;
		}
		end_comm(d, known->stack, now_ns);
	}
	start_comm(a, d, r, UINT64_MAX, 0);
}

void account_keyframe_end(struct account *a, struct device *d, uint64_t now_ns)
{
	/* The keyframe has its levels before its allocations. */
	if (!d->counted_from_runtime)
		usage_reported(&d->usage, d->now.reserved);
	update_levels(d);
	for (uint32_t i = 0; i < d->comms.count; i++) {
		const struct communicator *x = &d->comms.list[i];

		if (x->confirmed || x->destroyed_ns != UINT64_MAX)
			continue;
		live_set_remove(&a->live, MT_COMM_INIT, x->address);
		end_comm(d, i, now_ns);
	}
}
