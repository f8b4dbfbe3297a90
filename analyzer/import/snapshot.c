#include "import/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "import/annotations.h"
#include "import/mapped.h"
#include "import/placed.h"
#include "import/snapshot_records.h"

/* The stack of the module alone, which put_heading() adds first. */
#define BEFORE 1

int snapshot_is_pickle(const unsigned char *first)
{
	return first[0] == 0x80 && first[1] >= 2 && first[1] <= 5;
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

static int is_failure(struct pickled event)
{
	return value_is(dict_get(event, "action"), "oom");
}

static void put_failure(struct snapshot_reading *s, struct pickled event)
{
	struct mt_record r = snapshot_record_of(s, event);

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
	if (is_failure(event))
		put_failure(s, event);
	else if (a && a->frees)
		snapshot_free(s, snapshot_record_of(s, event), a->kind, address, size);
	else if (a && size > 0)
		snapshot_alloc(s, snapshot_record_of(s, event), a->kind, address, size);
}

/* An allocation from before the first event. Its stack is that of the block, if it is live at the
 * end. */
static void put_earlier(struct snapshot_reading *s, int kind, uint64_t address, int64_t size,
			struct pickled frames)
{
	snapshot_alloc(s,
		       (struct mt_record){ .device = (uint8_t)s->device,
					   .stack = snapshot_stack(s, frames),
					   .thread = s->python },
		       kind, address, size);
}

/* The action of an event, and the kind of its object; NULL: none that is read. */
static const struct action *read_event(struct pickled event, uint64_t *address, int64_t *size)
{
	*address = (uint64_t)value_size(dict_get(event, "addr"), 0);
	*size = value_size(dict_get(event, "size"), 0);
	return *size > 0 && *size < BYTES_LIMIT ? action_of(event) : NULL;
}

/* Writes the blocks that an event frees and that no earlier event allocated. Adds to `seen` the
 * blocks of all events. */
static void put_freed_later(struct snapshot_reading *s, struct placed **seen,
			    const struct items *events)
{
	for (size_t i = 0; i < events->count; i++) {
		uint64_t address;
		int64_t size;
		const struct action *a = read_event(events->at[i], &address, &size);

		if (!a || a->kind == MT_MAP || placed_find(*seen, s->device, a->kind, address))
			continue;
		placed_add(seen, s->device, a->kind, address, size);
		if (a->frees)
			put_earlier(s, a->kind, address, size, (struct pickled){ 0 });
	}
}

static void remove_range(void **ranges, uint64_t begin, uint64_t end)
{
	struct cut cut;

	while (mapped_cut(ranges, begin, end, &cut))
		;
}

/* Writes the memory that was mapped before the first event: the memory that is mapped at the
 * end, with the events undone. */
static void put_mapped_before(struct snapshot_reading *s, const struct items *events)
{
	const struct items *segments = list_items(s->segments);
	void *ranges = NULL;
	struct mapped was;

	for (size_t i = 0; i < segments->count; i++) {
		struct pickled segment = segments->at[i];
		uint64_t begin = (uint64_t)value_size(dict_get(segment, "address"), 0);
		int64_t size = value_size(dict_get(segment, "total_size"), 0);

		if (!dict_get(segment, "is_expandable").integer || size <= 0 ||
		    size >= BYTES_LIMIT || value_size(dict_get(segment, "device"), 0) != s->device)
			continue;
		remove_range(&ranges, begin, begin + (uint64_t)size);
		was = (struct mapped){ begin, begin + (uint64_t)size,
				       snapshot_stack(s, dict_get(segment, "frames")) };
		mapped_add(&ranges, was);
	}
	for (size_t i = events->count; i-- > 0;) {
		uint64_t begin;
		int64_t size;
		const struct action *a = read_event(events->at[i], &begin, &size);

		if (!a || a->kind != MT_MAP)
			continue;
		remove_range(&ranges, begin, begin + (uint64_t)size);
		was = (struct mapped){ begin, begin + (uint64_t)size, BEFORE };
		if (a->frees)
			mapped_add(&ranges, was);
	}
	while (mapped_take(&ranges, 0, UINT64_MAX, &was))
		snapshot_alloc(s,
			       (struct mt_record){ .device = (uint8_t)s->device,
						   .stack = was.stack,
						   .thread = s->python },
			       MT_MAP, was.begin, mapped_size(was));
}

/* PyTorch 2.0 has the block's history instead, the latest allocation first. */
static struct pickled frames_of(struct pickled block)
{
	const struct items *history = list_items(dict_get(block, "history"));

	return dict_get(history->count ? history->at[0] : block, "frames");
}

/* The blocks of a segment that are live at the end and that no event mentions. A list that several
 * segments of a damaged file share is read once. */
static void put_blocks(struct snapshot_reading *s, struct placed *seen, struct pickled list,
		       uint64_t address)
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
		    asked < BYTES_LIMIT && !placed_find(seen, s->device, MT_TENSOR_ALLOC, address))
			put_earlier(s, MT_TENSOR_ALLOC, address, asked, frames_of(block));
		address += (uint64_t)size; /* PyTorch 2.0 has no addresses of blocks */
	}
}

/* Writes the blocks that are live at the end and were allocated before the first event. */
static void put_live_throughout(struct snapshot_reading *s, struct placed *seen)
{
	for (size_t i = 0; i < list_items(s->segments)->count; i++) {
		struct pickled segment = list_items(s->segments)->at[i];
		uint64_t address = (uint64_t)value_size(dict_get(segment, "address"), 0);
		int64_t total = value_size(dict_get(segment, "total_size"), 0);

		if (value_size(dict_get(segment, "device"), 0) != s->device || total >= BYTES_LIMIT)
			continue;
		if (!dict_get(segment, "is_expandable").integer && total > 0 &&
		    !placed_find(seen, s->device, MT_DEVICE_ALLOC, address))
			put_earlier(s, MT_DEVICE_ALLOC, address, total,
				    dict_get(segment, "frames"));
		put_blocks(s, seen, dict_get(segment, "blocks"), address);
	}
}

/* A history that has no events of memory says nothing, as that of a device that is not used. */
static int has_history(const struct items *events)
{
	for (size_t i = 0; i < events->count; i++)
		if (action_of(events->at[i]) || is_failure(events->at[i]))
			return 1;
	return 0;
}

static void put_device(struct snapshot_reading *s, const struct items *events)
{
	struct placed *seen = NULL;
	size_t first = s->image.count;

	s->now_ns = 0;
	s->reserved = s->allocated = 0;
	put_freed_later(s, &seen, events);
	put_mapped_before(s, events);
	put_live_throughout(s, seen);
	placed_release(&seen);
	snapshot_put_reserved(s);
	image_before(&s->image, s->device, s->image.count - first);
	if (!has_history(events)) {
		image_peak_of(&s->image, s->device, "moment");
	} else if (s->reserved || s->allocated) {
		image_peak_of(&s->image, s->device, "history");
		s->begins_late = 1;
	}
	for (size_t i = 0; i < events->count; i++)
		put_event(s, events->at[i]);
	placed_release(&s->live);
	mapped_release(&s->maps);
}

#define NOTE                                                                           \
	"read from a PyTorch memory snapshot: sizes are as requested; memory outside " \
	"PyTorch's allocator is not known"

#define WITHOUT                                                                              \
	"; it has no history (torch.cuda.memory._record_memory_history() begins one), only " \
	"what was live at its end"
#define BEGINS_LATE                                                                       \
	"; its history lacks the beginning: it has more events than max_entries of "      \
	"torch.cuda.memory._record_memory_history(), or that was called after the first " \
	"allocations"

static void put_note(struct snapshot_reading *s, int is_recorded)
{
	const char *note = !is_recorded ? NOTE WITHOUT : s->begins_late ? NOTE BEGINS_LATE : NOTE;

	image_meta(&s->image, MT_META_NOTE "import", (struct str){ note, strlen(note) });
}

/* All devices that have events or segments. */
static void put_devices(struct snapshot_reading *s, const struct items *devices)
{
	char has_segment[MT_MAX_DEVICES] = { 0 };
	int is_recorded = 0;

	for (size_t i = 0; i < list_items(s->segments)->count; i++) {
		int64_t device = value_size(dict_get(list_items(s->segments)->at[i], "device"), 0);

		if (device < MT_MAX_DEVICES)
			has_segment[device] = 1;
	}
	for (s->device = 0; s->device < MT_MAX_DEVICES; s->device++) {
		const struct items *events =
			list_items(s->device < devices->count ? devices->at[s->device]
							      : (struct pickled){ 0 });

		is_recorded |= has_history(events);
		if (has_history(events) || has_segment[s->device])
			put_device(s, events);
	}
	put_note(s, is_recorded);
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
	struct mt_record before = { .device = MT_NO_DEVICE, .stack = BEFORE, .thread = s->python };

	s->device = MT_NO_DEVICE;
	s->now_ns = 0;
	for (size_t i = 0; i < events->count; i++) {
		struct pickled event = events->at[i];
		const struct action *a = action_of(event);
		uint64_t address = (uint64_t)value_size(dict_get(event, "addr"), 0);
		int64_t size = value_size(dict_get(event, "size"), 0);
		const struct placed *was = placed_find(s->live, s->device, MT_HOST_ALLOC, address);
		int is_live = was && was->size; /* without a size: it is freed */

		if (!a || a->kind != MT_DEVICE_ALLOC || size <= 0 || size >= BYTES_LIMIT)
			continue;
		if (a->frees && !is_live)
			put_host_event(s, before, MT_HOST_ALLOC, address, size);
		if (a->frees || !is_live)
			put_host_event(s, snapshot_record_of(s, event),
				       a->frees ? MT_HOST_FREE : MT_HOST_ALLOC, address, size);
		placed_add(&s->live, s->device, MT_HOST_ALLOC, address, a->frees ? 0 : size);
	}
	for (size_t i = 0; i < segments->count; i++) {
		uint64_t address = (uint64_t)value_size(dict_get(segments->at[i], "address"), 0);
		int64_t size = value_size(dict_get(segments->at[i], "total_size"), 0);

		if (size > 0 && size < BYTES_LIMIT &&
		    !placed_find(s->live, s->device, MT_HOST_ALLOC, address))
			put_host_event(s, before, MT_HOST_ALLOC, address, size);
	}
	placed_release(&s->live);
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
			annotations_add(&annotations, snapshot_time_ns(s, a),
					value_is(stage, "END"), name);
	}
	annotations_finish(&annotations, &s->image, s->module);
}

/* PYTORCH_CUDA_ALLOC_CONF of the job; PyTorch 2.0 does not write it. */
static void put_settings(struct snapshot_reading *s, struct pickled settings)
{
	struct pickled conf = dict_get(settings, "PYTORCH_CUDA_ALLOC_CONF");

	if (conf.type != VALUE_TEXT)
		return;
	image_meta(&s->image, MT_META_SETTINGS, snapshot_text(conf));
	if (conf.length)
		image_meta(&s->image, MT_META_ENV "PYTORCH_CUDA_ALLOC_CONF", snapshot_text(conf));
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
	put_settings(&s, dict_get(p.root, "allocator_settings"));
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
