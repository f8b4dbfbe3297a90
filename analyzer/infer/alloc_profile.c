#include "infer/alloc_profile.h"

#include <stdlib.h>
#include <string.h>

#include "attribution/frames.h"
#include "trace/trace.h"
#include "trace/visit.h"

#define MOST_MADE 200000 /* parameters of one rank that are looked at */
#define MOST_SIZES 65536 /* that are told apart */

const struct sign marks[] = {
#define MARK(key, value, file, function) { #key, value, file, function },
#include "infer/signatures.def"
#undef MARK
};
const size_t mark_count = ARRAY_SIZE(marks);
static_assert(ARRAY_SIZE(marks) <= 64, "marks are bits of one number");

struct walking {
	struct census *c;
	const struct tables *tables;
	uint32_t apply_line;  /* of Module._apply: where it moves parameters; buffers come later */
	uint32_t bucket_line; /* of ZeRO-3's bucket; 0: not seen */
	enum maker last;
	struct mt_record pending; /* a block of which it is not known yet whether it stays */
	int forward_seen;
};

void census_count(struct size_count **list, size_t *count, size_t *room, bytes size)
{
	size_t low = 0, high = *count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if ((*list)[middle].size < size)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < *count && (*list)[low].size == size) {
		(*list)[low].count++;
		return;
	}
	if (*count >= MOST_SIZES)
		return;
	*list = grow(*list, *count, room, sizeof(**list));
	memmove(*list + low + 1, *list + low, (*count - low) * sizeof(**list));
	(*list)[low] = (struct size_count){ size, 1 };
	(*count)++;
}

static void add_made(struct census *c, enum maker m, bytes size)
{
	struct made *to = &c->made[m];

	if (to->count >= MOST_MADE)
		return;
	to->sizes = grow(to->sizes, to->count, &to->room, sizeof(*to->sizes));
	to->sizes[to->count++] = size;
}

/* MAKERS: it makes no parameter. */
static enum maker maker_of(const struct walking *w, uint32_t place)
{
	const struct tables *t = w->tables;
	const struct place *p = tables_place(t, place);

	switch (place_makes(tables_place_flags(t, place))) {
	case MAKES_APPLY:
		return tables_place_info(t, place)->line == w->apply_line ? MAKER_APPLY : MAKERS;
	case MAKES_NORM:
		return MAKER_INIT;
	case MAKES_PARAMETERS:
		break;
	default:
		return MAKERS;
	}
	for (uint32_t i = 0; i < p->frame_count; i++)
		if (str_matches(tables_string(t, tables_frame(t, p->frames[i])->file),
				"*/torch/distributed/fsdp/*"))
			return MAKER_SHARDED;
	return MAKER_INIT;
}

static void see_bucket(struct census *c, const struct mt_record *r)
{
	if (r->bytes > c->bucket)
		c->bucket = r->bytes;
	if (!c->bucket_places || c->bucket_place != r->place)
		c->bucket_places += c->bucket_places < 2;
	c->bucket_place = r->place;
}

/* Of the lines of ZeRO-3's set-up that make blocks which stay, the first makes the bucket. */
static void see_set_up(struct walking *w, const struct mt_record *r)
{
	uint32_t line = tables_place_info(w->tables, r->place)->line;

	if (!w->bucket_line)
		w->bucket_line = line;
	if (line == w->bucket_line)
		see_bucket(w->c, r);
}

/* A block that the next event does not free. */
static void settle(struct walking *w)
{
	const struct mt_record *r = &w->pending;
	uint32_t flags = tables_place_flags(w->tables, r->place);
	enum maker m;

	if (!r->kind)
		return;
	if (w->forward_seen || r->bytes <= 0)
		return;
	if (!(flags & PLACE_FRAMES)) {
		add_made(w->c, w->last, r->bytes);
		census_count(&w->c->small, &w->c->small_count, &w->c->small_room, r->bytes);
		return;
	}
	if (place_makes(flags) == MAKES_IPG_AND_GRADIENTS)
		see_set_up(w, r);
	m = maker_of(w, r->place);
	if (m == MAKERS)
		return;
	w->last = m;
	add_made(w->c, m, r->bytes);
}

static int is_bucket(const struct tables *t, uint32_t place)
{
	const struct place *p = tables_place(t, place);
	const struct mt_frame *f = tables_frame(t, p->frame_count ? p->frames[0] : 0);

	return p->frame_count && str_matches(tables_string(t, f->function), "*.setup_buckets") &&
	       str_matches(tables_string(t, f->file), "*/deepspeed/runtime/zero/*");
}

static void see(struct walking *w, const struct mt_record *r)
{
	uint32_t flags = tables_place_flags(w->tables, r->place);

	if (r->kind == MT_TENSOR_FREE && r->address == w->pending.address)
		w->pending.kind = 0;
	settle(w);
	w->pending.kind = 0;
	if (r->kind != MT_TENSOR_ALLOC)
		return;
	if ((flags & PLACE_MODULE) && !(flags & (PLACE_INIT | PLACE_NO_GRAD | PLACE_OPTIMIZER)) &&
	    place_makes(flags) == MAKES_NOTHING) {
		w->forward_seen = 1;
		census_count(&w->c->forward, &w->c->forward_count, &w->c->forward_room, r->bytes);
	}
	if (is_bucket(w->tables, r->place))
		see_bucket(w->c, r);
	w->pending = *r;
}

static void see_records(void *context, uint64_t segment, uint64_t first,
			const struct mt_record *records, size_t count)
{
	(void)segment;
	(void)first;
	for (size_t i = 0; i < count; i++)
		if (records[i].kind == MT_TENSOR_ALLOC || records[i].kind == MT_TENSOR_FREE)
			see(context, &records[i]);
}

static void skip(void *context)
{
	(void)context;
}

static void skip_keyframe(void *context, const struct mt_record *records, size_t count)
{
	(void)context;
	(void)records;
	(void)count;
}

static void skip_segment(void *context, uint64_t segment)
{
	(void)context;
	(void)segment;
}

static uint32_t first_apply_line(const struct tables *t)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < t->place_count; i++) {
		const struct place_info *p = tables_place_info(t, i);

		if (place_makes(p->flags) == MAKES_APPLY && p->line < least)
			least = p->line;
	}
	return least;
}

static uint64_t marks_of(const struct tables *t)
{
	uint64_t found = 0;

	for (size_t i = 1; i < t->frame_count; i++) {
		struct str file = tables_string(t, t->frames[i].file),
			   function = tables_string(t, t->frames[i].function);

		for (size_t m = 0; m < mark_count; m++)
			if (!(found >> m & 1) && str_matches(function, marks[m].function) &&
			    str_matches(file, marks[m].file))
				found |= UINT64_C(1) << m;
	}
	return found;
}

void census_take(struct census *c, const struct trace *t)
{
	struct walking w = { .c = c,
			     .tables = &t->tables,
			     .apply_line = first_apply_line(&t->tables) };
	const struct walker walker = {
		.context = &w,
		.restart = skip,
		.keyframe = skip_keyframe,
		.restarted = skip_segment,
		.records = see_records,
	};

	*c = (struct census){ .marks = marks_of(&t->tables) };
	/* a file that ends early has what it has: the replay says so */
	walk(t, &walker);
	settle(&w);
}

void census_release(struct census *c)
{
	for (int m = 0; m < MAKERS; m++)
		free(c->made[m].sizes);
	free(c->small);
	free(c->forward);
	*c = (struct census){ .marks = 0 };
}

uint64_t census_forward(const struct census *c, bytes size)
{
	for (size_t i = 0; i < c->forward_count; i++)
		if (c->forward[i].size == size)
			return c->forward[i].count;
	return 0;
}
