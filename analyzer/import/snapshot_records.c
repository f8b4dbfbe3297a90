#include "import/snapshot_records.h"

#include "import/mapped.h"
#include "import/placed.h"

uint64_t snapshot_time_ns(const struct snapshot_reading *s, struct pickled event)
{
	uint64_t at = (uint64_t)value_size(dict_get(event, "time_us"), 0);
	uint64_t since = at > s->start_us ? at - s->start_us : 0;

	return since < UINT64_MAX / 4000 ? since * 1000 : 0;
}

struct mt_record snapshot_record_of(struct snapshot_reading *s, struct pickled event)
{
	struct pickled frames = dict_get(event, "frames");
	uint64_t at_ns = snapshot_time_ns(s, event);
	uint32_t stack = snapshot_stack(s, frames);
	int in_autograd = s->has_stacks && (frames.type != VALUE_LIST || frames.items->mark);

	s->now_ns = at_ns > s->now_ns ? at_ns : s->now_ns;
	return (struct mt_record){ .time_ns = s->now_ns,
				   .device = (uint8_t)s->device,
				   .stack = stack,
				   .thread = in_autograd ? s->autograd : s->python };
}

/* The counters of the header, which stay exact if events are missing. */
static void count(struct snapshot_reading *s, int64_t allocated, int64_t reserved)
{
	struct mt_device *d = &s->image.header.device[s->device];

	s->allocated = bytes_add(s->allocated, allocated);
	s->reserved = bytes_add(s->reserved, reserved);
	d->allocated = s->allocated > 0 ? (uint64_t)s->allocated : 0;
	d->reserved = s->reserved > 0 ? (uint64_t)s->reserved : 0;
	d->allocated_peak = d->allocated > d->allocated_peak ? d->allocated : d->allocated_peak;
	d->reserved_peak = d->reserved > d->reserved_peak ? d->reserved : d->reserved_peak;
	d->allocs += allocated > 0;
	d->frees += allocated < 0;
	d->last_time_ns = s->now_ns;
}

void snapshot_put_reserved(struct snapshot_reading *s)
{
	image_record(&s->image, &(struct mt_record){ .time_ns = s->now_ns,
						     .bytes = s->reserved,
						     .kind = MT_RESERVED,
						     .thread = MT_NO_THREAD,
						     .device = (uint8_t)s->device });
}

static void put_map(struct snapshot_reading *s, struct mt_record r, struct mapped range)
{
	r.kind = MT_MAP;
	r.stack = range.stack;
	r.address = range.begin;
	r.bytes = mapped_size(range);
	image_record(&s->image, &r);
}

/* Ends what is mapped of a range: what remains of a map is a new one. Returns the bytes. */
static int64_t put_unmap(struct snapshot_reading *s, struct mt_record r, uint64_t begin,
			 uint64_t end)
{
	struct cut cut;
	int64_t size = 0;

	while (mapped_cut(&s->maps, begin, end, &cut)) {
		r.kind = MT_UNMAP;
		r.address = cut.was.begin;
		r.bytes = -mapped_size(cut.was);
		image_record(&s->image, &r);
		size += mapped_size(cut.was);
		for (int i = 0; i < 2; i++) {
			size -= mapped_size(cut.rest[i]);
			if (mapped_size(cut.rest[i]))
				put_map(s, r, cut.rest[i]);
		}
	}
	return size;
}

void snapshot_alloc(struct snapshot_reading *s, struct mt_record r, int kind, uint64_t address,
		    int64_t size)
{
	struct mapped range = { address, address + (uint64_t)size, r.stack };

	if (kind == MT_MAP) {
		count(s, 0, -put_unmap(s, r, range.begin, range.end));
		mapped_add(&s->maps, range);
		put_map(s, r, range);
	} else {
		r.kind = (uint8_t)kind;
		r.address = address;
		r.bytes = size;
		placed_add(&s->live, s->device, kind, address, size);
		image_record(&s->image, &r);
	}
	count(s, kind == MT_TENSOR_ALLOC ? size : 0, kind == MT_TENSOR_ALLOC ? 0 : size);
	if (kind != MT_TENSOR_ALLOC)
		snapshot_put_reserved(s);
}

void snapshot_free(struct snapshot_reading *s, struct mt_record r, int kind, uint64_t address,
		   int64_t size)
{
	struct placed *p = placed_find(s->live, s->device, kind, address);

	if (kind == MT_MAP) {
		count(s, 0, -put_unmap(s, r, address, address + (uint64_t)size));
	} else if (p) {
		r.kind = (uint8_t)(kind + 1); /* events.def: a FREE event has the next id */
		r.address = address;
		r.bytes = -p->size;
		image_record(&s->image, &r);
		placed_drop(&s->live, p);
		count(s, kind == MT_TENSOR_ALLOC ? r.bytes : 0,
		      kind == MT_TENSOR_ALLOC ? 0 : r.bytes);
	} else {
		return;
	}
	if (kind != MT_TENSOR_ALLOC)
		snapshot_put_reserved(s);
}
