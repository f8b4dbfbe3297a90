#include "import/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "import/annotations.h"
#include "import/snapshot_stacks.h"
#include "util/hash.h"

/* A block or a segment by its address on a device: what its end frees. */
struct placed {
	uint64_t key[2]; /* device and kind, address */
	int64_t size;
	UT_hash_handle hh;
};

int snapshot_is_pickle(const unsigned char *first)
{
	return first[0] == 0x80 && first[1] >= 2 && first[1] <= 5;
}

static struct placed *find(struct snapshot_reading *s, int kind, uint64_t address)
{
	uint64_t key[2] = { s->device | (unsigned)kind << 8, address };
	struct placed *found;

	HASH_FIND(hh, s->live, key, sizeof(key), found);
	return found;
}

static void add(struct snapshot_reading *s, int kind, uint64_t address, int64_t size)
{
	struct placed *p = find(s, kind, address);

	if (!p) {
		p = xcalloc(1, sizeof(*p));
		p->key[0] = s->device | (unsigned)kind << 8;
		p->key[1] = address;
		HASH_ADD(hh, s->live, key, sizeof(p->key), p);
	}
	p->size = size;
}

static void drop(struct snapshot_reading *s, struct placed *p)
{
	HASH_DEL(s->live, p);
	free(p);
}

/* Since the first event. */
static uint64_t time_ns(const struct snapshot_reading *s, struct pickled event)
{
	uint64_t at = (uint64_t)value_size(dict_get(event, "time_us"), 0);
	uint64_t since = at > s->start_us ? at - s->start_us : 0;

	return since < UINT64_MAX / 4000 ? since * 1000 : 0;
}

static struct mt_record record_of(struct snapshot_reading *s, struct pickled event)
{
	struct pickled frames = dict_get(event, "frames");
	uint64_t at_ns = time_ns(s, event);
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

static void put_reserved(struct snapshot_reading *s)
{
	image_record(&s->image, &(struct mt_record){ .time_ns = s->now_ns,
						     .bytes = s->reserved,
						     .kind = MT_RESERVED,
						     .thread = MT_NO_THREAD,
						     .device = (uint8_t)s->device });
}

static void put_alloc(struct snapshot_reading *s, struct mt_record r, int kind, uint64_t address,
		      int64_t size)
{
	r.kind = (uint8_t)kind;
	r.address = address;
	r.bytes = size;
	add(s, kind, address, size);
	image_record(&s->image, &r);
	count(s, kind == MT_TENSOR_ALLOC ? size : 0, kind == MT_TENSOR_ALLOC ? 0 : size);
	if (kind != MT_TENSOR_ALLOC)
		put_reserved(s);
}

static void put_free(struct snapshot_reading *s, struct mt_record r, int kind, uint64_t address,
		     int64_t size)
{
	struct placed *p = find(s, kind, address);
	int is_block = kind == MT_TENSOR_ALLOC;

	/* A part of what was mapped may be unmapped, or several parts at once: then only the level
	 * of reserved memory changes. */
	size = p && kind != MT_MAP ? p->size : size;
	if (p && p->size == size) {
		r.kind = (uint8_t)(kind + 1); /* events.def: a FREE event has the next id */
		r.address = address;
		r.bytes = -size;
		image_record(&s->image, &r);
		drop(s, p);
	} else if (kind != MT_MAP) {
		return;
	}
	count(s, is_block ? -size : 0, is_block ? 0 : -size);
	if (!is_block)
		put_reserved(s);
}

static const struct action {
	const char *name;
	int kind, frees;
} actions[] = {
	{ "alloc", MT_TENSOR_ALLOC, 0 },
	{ "free_completed", MT_TENSOR_ALLOC, 1 },
	{ "segment_alloc", MT_DEVICE_ALLOC, 0 },
	{ "segment_free", MT_DEVICE_ALLOC, 1 },
	{ "segment_map", MT_MAP, 0 },
	{ "segment_unmap", MT_MAP, 1 },
};

static const struct action *action_of(struct pickled event)
{
	struct pickled name = dict_get(event, "action");

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		if (value_is(name, actions[i].name))
			return &actions[i];
	return NULL;
}

static void put_failure(struct snapshot_reading *s, struct pickled event)
{
	struct mt_record r = record_of(s, event);

	r.kind = MT_TENSOR_OOM;
	r.bytes = value_size(dict_get(event, "size"), 0);
	r.address = (uint64_t)value_size(dict_get(event, "device_free"), -1);
	image_record(&s->image, &r);
	s->image.header.device[s->device].ooms++;
}

static void put_event(struct snapshot_reading *s, struct pickled event)
{
	const struct action *a = action_of(event);
	uint64_t address = (uint64_t)value_size(dict_get(event, "addr"), 0);
	int64_t size = value_size(dict_get(event, "size"), 0);

	size = size < BYTES_LIMIT ? size : 0;
	if (!a && value_is(dict_get(event, "action"), "oom"))
		put_failure(s, event);
	else if (a && a->frees)
		put_free(s, record_of(s, event), a->kind, address, size);
	else if (a && size > 0)
		put_alloc(s, record_of(s, event), a->kind, address, size);
}

/* An allocation from before the first event. Its stack is that of the block, if it is live at the
 * end. */
static void put_earlier(struct snapshot_reading *s, int kind, uint64_t address, int64_t size,
			struct pickled frames)
{
	put_alloc(s,
		  (struct mt_record){ .device = (uint8_t)s->device,
				      .stack = snapshot_stack(s, frames),
				      .thread = s->python },
		  kind, address, size);
}

/* What an event frees and no event before it allocated. Notes in `seen` what the events mention.
 * Returns what they add to the reserved bytes. */
static int64_t put_freed_later(struct snapshot_reading *s, struct snapshot_reading *seen,
			       const struct items *events)
{
	int64_t reserved = 0;

	for (size_t i = 0; i < events->count; i++) {
		const struct action *a = action_of(events->at[i]);
		uint64_t address = (uint64_t)value_size(dict_get(events->at[i], "addr"), 0);
		int64_t size = value_size(dict_get(events->at[i], "size"), 0);

		if (!a || size <= 0 || size >= BYTES_LIMIT)
			continue;
		if (a->kind != MT_TENSOR_ALLOC)
			reserved = bytes_add(reserved, a->frees ? -size : size);
		if (find(seen, a->kind, address))
			continue;
		add(seen, a->kind, address, size);
		if (a->frees && a->kind != MT_MAP)
			put_earlier(s, a->kind, address, size, (struct pickled){ 0 });
	}
	return reserved;
}

/* PyTorch 2.0 has the block's history instead, the latest allocation first. */
static struct pickled frames_of(struct pickled block)
{
	const struct items *history = list_items(dict_get(block, "history"));

	return dict_get(history->count ? history->at[0] : block, "frames");
}

/* The blocks of a segment that are live at the end and that no event mentions. A list that several
 * segments of a damaged file share is read once. */
static void put_blocks(struct snapshot_reading *s, struct snapshot_reading *seen,
		       struct pickled list, uint64_t address)
{
	const struct items *blocks = list_items(list);

	if (list.type != VALUE_LIST || list.items->number)
		return;
	list.items->number = 1; /* as frames: no stack */
	for (size_t k = 0; k < blocks->count; k++) {
		struct pickled block = blocks->at[k];
		int64_t size = value_size(dict_get(block, "size"), 0);
		int64_t asked = value_size(dict_get(block, "requested_size"), size);

		address = (uint64_t)value_size(dict_get(block, "address"), (int64_t)address);
		if (value_is(dict_get(block, "state"), "active_allocated") && asked > 0 &&
		    asked < BYTES_LIMIT && !find(seen, MT_TENSOR_ALLOC, address))
			put_earlier(s, MT_TENSOR_ALLOC, address, asked, frames_of(block));
		address += (uint64_t)size; /* PyTorch 2.0 has no addresses of blocks */
	}
}

/* What is live at the end and was there before the first event. Returns the bytes of the device's
 * segments. */
static int64_t put_live_throughout(struct snapshot_reading *s, struct snapshot_reading *seen)
{
	int64_t reserved = 0;

	for (size_t i = 0; i < list_items(s->segments)->count; i++) {
		struct pickled segment = list_items(s->segments)->at[i];
		uint64_t address = (uint64_t)value_size(dict_get(segment, "address"), 0);
		int64_t total = value_size(dict_get(segment, "total_size"), 0);

		if (value_size(dict_get(segment, "device"), 0) != s->device || total >= BYTES_LIMIT)
			continue;
		reserved = bytes_add(reserved, total);
		if (!dict_get(segment, "is_expandable").integer && total > 0 &&
		    !find(seen, MT_DEVICE_ALLOC, address))
			put_earlier(s, MT_DEVICE_ALLOC, address, total,
				    dict_get(segment, "frames"));
		put_blocks(s, seen, dict_get(segment, "blocks"), address);
	}
	return reserved;
}

static void put_device(struct snapshot_reading *s, const struct items *events)
{
	struct snapshot_reading seen = { .device = s->device };
	int64_t before;

	s->now_ns = 0;
	s->reserved = s->allocated = 0;
	before = -put_freed_later(s, &seen, events);
	before = bytes_add(before, put_live_throughout(s, &seen));
	HASH_RELEASE(seen.live);
	/* With the parts of expandable segments that were mapped before. */
	s->reserved = before > s->reserved ? before : s->reserved;
	put_reserved(s);
	count(s, 0, 0);
	for (size_t i = 0; i < events->count; i++)
		put_event(s, events->at[i]);
	HASH_RELEASE(s->live);
}

#define NOTE                                                                           \
	"read from a PyTorch memory snapshot: sizes are as requested; memory outside " \
	"PyTorch's allocator and the device's peak are not known"

static void put_note(struct snapshot_reading *s, int has_history)
{
	static const char with[] = NOTE;
	static const char without[] = NOTE
		"; it has no history (torch.cuda.memory._record_memory_history() begins one), only "
		"what was live at its end";
	struct str note = has_history ? (struct str){ with, sizeof(with) - 1 }
				      : (struct str){ without, sizeof(without) - 1 };

	image_meta(&s->image, MT_META_NOTE "import", note);
}

/* All devices that have events or segments. */
static void put_devices(struct snapshot_reading *s, const struct items *devices)
{
	char has_segment[MT_MAX_DEVICES] = { 0 };
	int has_history = 0;

	for (size_t i = 0; i < list_items(s->segments)->count; i++) {
		int64_t device = value_size(dict_get(list_items(s->segments)->at[i], "device"), 0);

		if (device < MT_MAX_DEVICES)
			has_segment[device] = 1;
	}
	for (s->device = 0; s->device < MT_MAX_DEVICES; s->device++) {
		const struct items *events =
			list_items(s->device < devices->count ? devices->at[s->device]
							      : (struct pickled){ 0 });

		has_history |= events->count > 0;
		if (events->count || has_segment[s->device])
			put_device(s, events);
	}
	put_note(s, has_history);
}

static uint64_t earlier(uint64_t than, const struct items *events)
{
	uint64_t first =
		events->count ? (uint64_t)value_size(dict_get(events->at[0], "time_us"), 0) : than;

	return first < than ? first : than;
}

static uint64_t first_time(struct pickled snapshot, const struct items *devices)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < devices->count; i++)
		first = earlier(first, list_items(devices->at[i]));
	first = earlier(first, list_items(dict_get(snapshot, "external_annotations")));
	first = earlier(first, list_items(dict_get(snapshot, "host_traces")));
	return first == UINT64_MAX || first > UINT64_MAX / 2000 ? 0 : first;
}

static int have_stacks(const struct items *devices)
{
	for (size_t i = 0; i < devices->count && i < MT_MAX_DEVICES; i++) {
		const struct items *events = list_items(devices->at[i]);

		for (size_t k = 0; k < events->count; k++)
			if (list_items(dict_get(events->at[k], "frames"))->count)
				return 1;
	}
	return 0;
}

static void put_heading(struct snapshot_reading *s)
{
	image_begin(&s->image);
	s->image.header.start_realtime_ns = s->start_us * 1000;
	strcpy(s->image.header.run_id, "snapshot");
	s->module = image_module(&s->image, "libc10_cuda.so");
	image_stack(&s->image, &s->module, 1);
	s->python = image_thread(&s->image, "python");
	s->autograd = image_thread(&s->image, "pt_autograd_0");
}

static void put_host_event(struct snapshot_reading *s, struct mt_record r, int kind,
			   uint64_t address, int64_t size)
{
	r.kind = (uint8_t)kind;
	r.address = address;
	r.bytes = kind == MT_HOST_ALLOC ? size : -size;
	image_record(&s->image, &r);
}

/* Pinned memory of the host: what the driver gave. It is in the snapshot if
 * _record_memory_history(record_pinned_host_memory=True) asked for it. */
static void put_host(struct snapshot_reading *s, const struct items *events,
		     const struct items *segments)
{
	struct mt_record before = { .device = MT_NO_DEVICE, .stack = 1, .thread = s->python };

	s->device = MT_NO_DEVICE;
	s->now_ns = 0;
	for (size_t i = 0; i < events->count; i++) {
		struct pickled event = events->at[i];
		const struct action *a = action_of(event);
		uint64_t address = (uint64_t)value_size(dict_get(event, "addr"), 0);
		int64_t size = value_size(dict_get(event, "size"), 0);
		const struct placed *was = find(s, MT_HOST_ALLOC, address);
		int is_live = was && was->size; /* without a size: it is freed */

		if (!a || a->kind != MT_DEVICE_ALLOC || size <= 0 || size >= BYTES_LIMIT)
			continue;
		if (a->frees && !is_live)
			put_host_event(s, before, MT_HOST_ALLOC, address, size);
		if (a->frees || !is_live)
			put_host_event(s, record_of(s, event),
				       a->frees ? MT_HOST_FREE : MT_HOST_ALLOC, address, size);
		add(s, MT_HOST_ALLOC, address, a->frees ? 0 : size);
	}
	for (size_t i = 0; i < segments->count; i++) {
		uint64_t address = (uint64_t)value_size(dict_get(segments->at[i], "address"), 0);
		int64_t size = value_size(dict_get(segments->at[i], "total_size"), 0);

		if (size > 0 && size < BYTES_LIMIT && !find(s, MT_HOST_ALLOC, address))
			put_host_event(s, before, MT_HOST_ALLOC, address, size);
	}
	HASH_RELEASE(s->live);
}

/* record_function() while the history was recorded. */
static void put_annotations(struct snapshot_reading *s, struct pickled list)
{
	struct annotations annotations = { 0 };

	for (size_t i = 0; i < list_items(list)->count; i++) {
		struct pickled a = list_items(list)->at[i];
		struct pickled stage = dict_get(a, "stage");
		struct str name = snapshot_text(dict_get(a, "name"));

		if (name.length && (value_is(stage, "START") || value_is(stage, "END")))
			annotations_add(&annotations, time_ns(s, a), value_is(stage, "END"), name);
	}
	annotations_finish(&annotations, &s->image, s->module);
}

unsigned char *snapshot_to_trace(const void *data, size_t size, uint64_t *length, struct err *e)
{
	struct snapshot_reading s = { 0 };
	struct pickle_data p = { 0 };
	const struct items *devices;
	unsigned char *file = NULL;

	if (unpickle(&p, data, size, e) < 0)
		goto out;
	devices = list_items(dict_get(p.root, "device_traces"));
	s.segments = dict_get(p.root, "segments");
	if (s.segments.type != VALUE_LIST) {
		err_set(e, "the pickle is no memory snapshot: it has no segments");
		goto out;
	}
	s.start_us = first_time(p.root, devices);
	s.has_stacks = have_stacks(devices);
	put_heading(&s);
	put_devices(&s, devices);
	put_annotations(&s, dict_get(p.root, "external_annotations"));
	put_host(&s, list_items(dict_get(p.root, "host_traces")),
		 list_items(dict_get(p.root, "host_segments")));
	file = image_finish(&s.image, length);
out:
	snapshot_stacks_release(&s);
	pickle_data_release(&p);
	return file;
}
