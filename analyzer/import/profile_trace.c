#include "import/profile_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/annotations.h"
#include "import/json_scan.h"
#include "import/placed.h"
#include "import/profile.h"
#include "import/profile_stacks.h"

struct profile_writing {
	struct image image;
	struct profile p;
	struct profile_stacks stacks;
	struct placed *live;
	int64_t first_ns;
	uint32_t module, before; /* the stack of what was allocated before the profile */
	uint16_t python, autograd;
	int64_t allocated[MT_MAX_DEVICES], reserved[MT_MAX_DEVICES];
	int64_t amiss[MT_MAX_DEVICES];  /* of PyTorch's counter, at the last event */
	int64_t unseen[MT_MAX_DEVICES]; /* bytes of the block that stands for other events */
};

/* The address of the block that stands for what the profile does not show, on each device. */
#define UNSEEN(device) (1 + (uint64_t)(device))

static int is_white(unsigned char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

int profile_is_likely(const unsigned char *first)
{
	return first[0] == '{' || (is_white(first[0]) && (first[1] == '{' || is_white(first[1]))) ||
	       json_scan_is_gzip(first);
}

/* Writes an allocation or a free, and keeps the counters of the header. */
static void put_block(struct profile_writing *w, struct mt_record r, uint64_t address, int64_t size)
{
	struct mt_device *d = &w->image.header.device[r.device];
	struct placed *was = placed_find(w->live, r.device, MT_TENSOR_ALLOC, address);

	if (size > 0) {
		if (was) /* its free was not seen */
			put_block(w, r, address, -was->size);
		r.kind = MT_TENSOR_ALLOC;
		r.bytes = size;
		placed_add(&w->live, r.device, MT_TENSOR_ALLOC, address, size);
	} else {
		if (!was)
			return;
		r.kind = MT_TENSOR_FREE;
		r.bytes = -was->size;
		placed_drop(&w->live, was);
	}
	r.address = address;
	image_record(&w->image, &r);
	w->allocated[r.device] = bytes_add(w->allocated[r.device], r.bytes);
	d->allocated = (uint64_t)larger_of(w->allocated[r.device], 0);
	d->allocated_peak = d->allocated > d->allocated_peak ? d->allocated : d->allocated_peak;
	d->allocs += size > 0;
	d->frees += size < 0;
	d->last_time_ns = r.time_ns;
}

static void put_reserved(struct profile_writing *w, struct mt_record r, int64_t reserved)
{
	struct mt_device *d = &w->image.header.device[r.device];

	if (reserved < 0 || reserved == w->reserved[r.device])
		return;
	w->reserved[r.device] = reserved;
	d->reserved = (uint64_t)reserved;
	d->reserved_peak = d->reserved > d->reserved_peak ? d->reserved : d->reserved_peak;
	r.kind = MT_RESERVED;
	r.address = 0;
	r.bytes = reserved;
	r.thread = MT_NO_THREAD;
	r.stack = MT_NO_STACK;
	image_record(&w->image, &r);
}

/* A block stands for the allocations that the profile does not show: those before it began, and
 * those of threads that it does not follow. */
static void put_unseen(struct profile_writing *w, struct mt_record r, int64_t size)
{
	const struct placed *was =
		placed_find(w->live, r.device, MT_TENSOR_ALLOC, UNSEEN(r.device));

	r.stack = w->before;
	if (was)
		put_block(w, r, UNSEEN(r.device), -was->size);
	w->unseen[r.device] = size > 0 ? size : 0;
	if (size > 0)
		put_block(w, r, UNSEEN(r.device), size);
}

/* Two threads may be noted out of order: PyTorch's counter says that events are missing if it
 * differs twice by as much. */
static void compare(struct profile_writing *w, struct mt_record r, int64_t allocated)
{
	int64_t amiss = allocated < 0 ? 0 : allocated - w->allocated[r.device];

	if (amiss && amiss == w->amiss[r.device]) {
		put_unseen(w, r, bytes_add(w->unseen[r.device], amiss));
		amiss = 0;
	}
	w->amiss[r.device] = amiss;
}

static void put_event(struct profile_writing *w, const struct profile_event *e)
{
	struct mt_record r = { .time_ns = (uint64_t)(e->at_ns - w->first_ns), .device = e->device };
	int in_backward;

	r.stack = stacks_at(&w->stacks, e->thread, e->at_ns, &in_backward);
	r.thread = in_backward ? w->autograd : w->python;
	if (e->failed) {
		r.kind = MT_TENSOR_OOM;
		r.bytes = larger_of(e->bytes, 0);
		r.address = MT_UNKNOWN;
		image_record(&w->image, &r);
		w->image.header.device[e->device].ooms++;
		return;
	}
	put_block(w, r, e->address, e->bytes);
	put_reserved(w, r, e->reserved);
	compare(w, r, e->allocated);
}

/* Writes the blocks that events free and that no earlier event allocated; the rest of PyTorch's
 * counter before the first event is one block. */
static void put_earlier(struct profile_writing *w)
{
	struct placed *seen = NULL;
	int64_t before[MT_MAX_DEVICES], reserved[MT_MAX_DEVICES];
	char begun[MT_MAX_DEVICES] = { 0 };

	for (size_t i = 0; i < w->p.event_count; i++) {
		const struct profile_event *e = &w->p.events[i];
		const struct mt_record r = { .device = e->device,
					     .stack = w->before,
					     .thread = w->python };

		if (e->failed)
			continue;
		if (!begun[e->device]) {
			begun[e->device] = 1;
			before[e->device] = e->allocated - e->bytes;
			reserved[e->device] = e->reserved;
		}
		if (placed_find(seen, e->device, MT_TENSOR_ALLOC, e->address))
			continue;
		placed_add(&seen, e->device, MT_TENSOR_ALLOC, e->address, 0);
		if (e->bytes < 0)
			put_block(w, r, e->address, -e->bytes);
	}
	placed_release(&seen);
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		const struct mt_record r = { .device = (uint8_t)i, .thread = w->python };

		if (!begun[i])
			continue;
		image_peak_of(&w->image, i, "profile");
		put_unseen(w, r, before[i] - w->allocated[i]);
		put_reserved(w, r, reserved[i]);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct profile_event *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static void put_annotations(struct profile_writing *w)
{
	struct annotations a = { 0 };

	for (size_t i = 0; i < w->p.range_count; i++) {
		const struct profile_range *r = &w->p.ranges[i];
		const char *text = w->p.name_texts[r->name];
		const struct str name = { text, strlen(text) };

		if (r->kind != RANGE_NAMED)
			continue;
		annotations_add(&a, (uint64_t)(r->begin_ns - w->first_ns), 0, name);
		annotations_add(&a, (uint64_t)(r->end_ns - w->first_ns), 1, name);
	}
	annotations_finish(&a, &w->image, w->module);
}

/* frames.def knows it. */
static uint32_t stack_before(struct profile_writing *w)
{
	static const struct str function = { "(allocated before the profile)", 30 },
				file = { "profile", 7 };
	const struct mt_frame frame = { .function = image_string(&w->image, function),
					.file = image_string(&w->image, file) };
	const uint32_t words[] = { w->module, image_frame(&w->image, &frame) };

	return image_stack(&w->image, words, ARRAY_SIZE(words));
}

#define NOTE                                                                              \
	"read from a profiler's trace: memory outside PyTorch's allocator is not known, " \
	"nor what was allocated before the profile began"
#define WITHOUT                                                                              \
	"; it has no Python stacks (with_stack=True): parameters and inputs that were made " \
	"during the profile are among the activations"

static void put_heading(struct profile_writing *w)
{
	const char *note = w->p.has_python ? NOTE : NOTE WITHOUT;
	struct mt_header *h = &w->image.header;

	image_begin(&w->image);
	h->start_realtime_ns = (uint64_t)w->first_ns;
	if (w->p.base_ns > 0 && w->p.base_ns < INT64_MAX / 2)
		h->start_realtime_ns += (uint64_t)w->p.base_ns;
	h->rank = w->p.rank;
	h->world_size = w->p.world_size;
	h->pid = w->p.pid;
	strcpy(h->run_id, "profile");
	if (w->p.host)
		snprintf(h->host, sizeof(h->host), "%s", w->p.host);
	w->module = image_module(&w->image, "libc10_cuda.so");
	w->before = stack_before(w);
	w->python = image_thread(&w->image, "python");
	w->autograd = image_thread(&w->image, "pt_autograd_0");
	image_meta(&w->image, MT_META_NOTE "import", (struct str){ note, strlen(note) });
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		char key[32];

		if (!w->p.gpu[i])
			continue;
		snprintf(key, sizeof(key), MT_META_GPU_NAME "%d", i);
		image_meta(&w->image, key, (struct str){ w->p.gpu[i], strlen(w->p.gpu[i]) });
		h->device[i].total_bytes = (uint64_t)larger_of(w->p.memory[i], 0);
	}
}

static int convert(struct profile_writing *w, struct err *e)
{
	int status = 0;

	qsort(w->p.events, w->p.event_count, sizeof(*w->p.events), by_time);
	w->first_ns = w->p.events[0].at_ns;
	for (size_t i = 0; i < w->p.range_count; i++)
		if (w->p.ranges[i].kind == RANGE_NAMED)
			w->first_ns = smaller_of(w->first_ns, w->p.ranges[i].begin_ns);
	put_heading(w);
	stacks_begin(&w->stacks, &w->p, &w->image, w->module);
	put_earlier(w);
	put_annotations(w);
	for (size_t i = 0; i < w->p.event_count; i++)
		put_event(w, &w->p.events[i]);
	if (stacks_are_too_many(&w->stacks))
		status = err_set(e,
				 "the profile has too many different stacks: profile fewer steps");
	stacks_end(&w->stacks);
	placed_release(&w->live);
	return status;
}

unsigned char *profile_to_trace(const void *data, size_t size, uint64_t *length, struct err *e)
{
	struct profile_writing w = { 0 };
	unsigned char *file = NULL;

	if (profile_read(&w.p, data, size, e) == 0 && convert(&w, e) == 0)
		file = image_finish(&w.image, length);
	else
		image_release(&w.image);
	profile_release(&w.p);
	return file;
}
