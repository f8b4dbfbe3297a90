#include "html/stream_write.h"

#include <stdlib.h>

#include "attribution/attribution.h"
#include "attribution/stack_text.h"
#include "json/json_util.h"
#include "json/json_write.h"

/* Up to so many events the page's clock counts nanoseconds, above them microseconds. */
#define FINE_EVENTS 2000000
#define MICROSECOND 1000
/* If that clock takes more of the page than these bytes, a tenth of 20 MB, it counts longer units:
 * times are then exact to a unit. The order of events stays exact. */
#define CLOCK_BYTES 2000000
#define MILLISECOND 1000000

/* Stacks that the stream uses, numbered anew. */
struct used_stacks {
	uint32_t *number; /* of each stack of the trace; 0: not used */
	uint32_t *list;
	size_t count, room;
};

static uint32_t use_stack(struct used_stacks *u, const struct tables *t, uint32_t stack)
{
	if (stack >= t->stack_count)
		stack = MT_NO_STACK;
	if (!u->number[stack]) {
		u->list = grow(u->list, u->count, &u->room, sizeof(*u->list));
		u->list[u->count++] = stack;
		u->number[stack] = (uint32_t)u->count;
	}
	return u->number[stack] - 1;
}

#define BLOB_END "</script>\n"

static unsigned begin_blob(struct buf *blobs, unsigned *next)
{
	buf_addf(blobs, "<script type=\"text/plain\" id=\"b%u\">", *next);
	return (*next)++;
}

/* Adds an element with what deflated_add() wrote. */
static json_t *put_blob(struct buf *blobs, unsigned *next, struct buf *deflated)
{
	unsigned id = begin_blob(blobs, next);

	buf_add(blobs, deflated->text, deflated->length);
	buf_puts(blobs, BLOB_END);
	buf_release(deflated);
	return json_integer(id);
}

struct deflating *blob_begin(struct buf *blobs, unsigned *next)
{
	begin_blob(blobs, next);
	return deflating_new(blobs);
}

json_t *blob_end(struct buf *blobs, const unsigned *next, struct deflating *d)
{
	deflating_end(d);
	buf_puts(blobs, BLOB_END);
	return json_integer(*next - 1);
}

json_t *blob_write(struct buf *blobs, unsigned *next, const void *data, size_t length)
{
	struct deflating *d = blob_begin(blobs, next);

	deflating_add(d, data, length);
	return blob_end(blobs, next, d);
}

static struct buf deflated_column(struct page_column *c)
{
	struct buf coded = { 0 }, deflated = { 0 };

	column_take(c, &coded);
	deflated_add(&deflated, coded.text, coded.length);
	buf_release(&coded);
	return deflated;
}

static void put_column(json_t *to, const char *name, struct page_column *c, struct buf *blobs,
		       unsigned *next)
{
	struct buf deflated = deflated_column(c);

	set(to, name, put_blob(blobs, next, &deflated));
}

static struct buf deflated_times(const struct stream *s, uint64_t unit)
{
	struct page_column c;
	uint64_t before = 0;

	column_init(&c, 0);
	for (size_t i = 0; i < s->events; i++) {
		column_add(&c, (int64_t)(s->times[i] / unit - before));
		before = s->times[i] / unit;
	}
	return deflated_column(&c);
}

static void write_times(const struct stream *s, json_t *to, struct buf *blobs, unsigned *next)
{
	uint64_t unit = s->events > FINE_EVENTS ? MICROSECOND : 1;
	struct buf deflated = deflated_times(s, unit);

	while (unit >= MICROSECOND && unit < MILLISECOND && deflated.length > CLOCK_BYTES) {
		unit *= 10;
		buf_release(&deflated);
		deflated = deflated_times(s, unit);
	}
	set(to, "unit_ns", json_integer((json_int_t)unit));
	set(to, "time", put_blob(blobs, next, &deflated));
}

/* The block of each free, in two ways: how many blocks ago it was allocated, which a training loop
 * repeats; and its slot among the live ones, which is a small number in any order. A new block
 * takes the next slot; the slot of a freed block goes to the block in the last slot. */
struct free_columns {
	struct page_column distance, slot;
	int64_t ago[2]; /* the numbers before the last ones */
	uint32_t *live, *slot_of;
	size_t live_count;
};

static void predict_free(struct page_column *c, int64_t number, int64_t *ago)
{
	int64_t earlier = c->last;

	column_predict(c, number, column_context(earlier, *ago), -1);
	*ago = earlier;
}

static void begin_frees(struct free_columns *f, const struct stream *s)
{
	*f = (struct free_columns){ .live = xcalloc(s->block_count + 1, sizeof(*f->live)),
				    .slot_of = xcalloc(s->block_count + 1, sizeof(*f->slot_of)) };
	column_init(&f->distance, 1);
	column_init(&f->slot, 1);
}

static void add_live(struct free_columns *f, uint32_t block)
{
	f->slot_of[block] = (uint32_t)f->live_count;
	f->live[f->live_count++] = block;
}

/* `allocated`: the number of blocks that were allocated before. */
static void add_free(struct free_columns *f, uint32_t allocated, uint32_t block)
{
	uint32_t slot = f->slot_of[block], moved = f->live[--f->live_count];

	predict_free(&f->distance, (int64_t)allocated - 1 - block, &f->ago[0]);
	predict_free(&f->slot, slot, &f->ago[1]);
	f->live[slot] = moved;
	f->slot_of[moved] = slot;
}

/* Writes the shorter one. */
static void put_frees(struct free_columns *f, json_t *to, struct buf *blobs, unsigned *next)
{
	struct buf distance = deflated_column(&f->distance), slot = deflated_column(&f->slot);
	int has_slots = slot.length < distance.length;

	set(to, "by_slot", json_boolean(has_slots));
	set(to, "gone", put_blob(blobs, next, has_slots ? &slot : &distance));
	buf_release(&slot);
	buf_release(&distance);
	free(f->live);
	free(f->slot_of);
}

/* Sizes and addresses are numbers of tables: a job has few of them, and uses them again. */
struct block_columns {
	struct page_column stack, size, address, category, place;
	struct number_table sizes, addresses;
	int has_places;                /* otherwise that column is empty */
	int64_t *size_of, *address_of; /* of each block */
};

/* Addresses are exact up to 2^53, as numbers of JavaScript are. */
static int64_t page_address(uint64_t address)
{
	return (int64_t)(address & ((UINT64_C(1) << 53) - 1));
}

static void begin_columns(struct block_columns *c, const struct stream *s)
{
	*c = (struct block_columns){ .has_places = 0 };
	column_init(&c->stack, 1);
	column_init(&c->size, 1);
	column_init(&c->address, 1);
	column_init(&c->category, 1);
	column_init(&c->place, 1);
	number_table_init(&c->sizes);
	number_table_init(&c->addresses);
	c->size_of = xcalloc(s->block_count + 1, sizeof(*c->size_of));
	c->address_of = xcalloc(s->block_count + 1, sizeof(*c->address_of));
}

/* Adds a block, in the order in which they were allocated. `freed`: the block that was freed last,
 * STREAM_NEVER: none. What takes its place is often alike. */
static void add_block(struct block_columns *c, const struct stream *s, const struct device *d,
		      struct used_stacks *used, uint32_t index, uint32_t freed)
{
	const struct stream_block *b = &s->blocks[index];
	int is_first = freed == STREAM_NEVER;
	uint32_t place = backward_forward_stack(&d->backward, &b->life.alloc);
	int64_t stack = use_stack(used, s->tables, b->life.alloc.stack);
	int64_t size = number_of_value(&c->sizes, b->life.alloc.bytes);
	int64_t address = number_of_value(&c->addresses, page_address(b->life.alloc.address));
	uint32_t kind = column_context(stack, size);

	column_predict(
		&c->stack, stack, column_context(c->stack.last, c->size.last),
		is_first ? -1
			 : (int64_t)use_stack(used, s->tables, s->blocks[freed].life.alloc.stack));
	column_predict(&c->size, size, column_context(stack, c->size.last),
		       is_first ? -1 : c->size_of[freed]);
	column_predict(&c->address, address, column_context(stack, c->address.last),
		       is_first ? -1 : c->address_of[freed]);
	column_predict(&c->category, b->life.category, kind, -1);
	c->has_places |= place != MT_NO_STACK;
	column_predict(&c->place, place ? 1 + (int64_t)use_stack(used, s->tables, place) : 0, kind,
		       -1);
	c->size_of[index] = size;
	c->address_of[index] = address;
}

static void put_blocks(struct block_columns *c, json_t *to, struct buf *blobs, unsigned *next)
{
	put_column(to, "stack", &c->stack, blobs, next);
	put_column(to, "size", &c->size, blobs, next);
	put_column(to, "sizes", &c->sizes.values, blobs, next);
	put_column(to, "address", &c->address, blobs, next);
	put_column(to, "addresses", &c->addresses.values, blobs, next);
	put_column(to, "category", &c->category, blobs, next);
	if (!c->has_places) {
		column_release(&c->place);
		column_init(&c->place, 0);
	}
	put_column(to, "place", &c->place, blobs, next);
	number_table_release(&c->sizes);
	number_table_release(&c->addresses);
	free(c->size_of);
	free(c->address_of);
}

static void write_blocks(const struct stream *s, const struct device *d, struct used_stacks *used,
			 json_t *to, struct buf *blobs, unsigned *next)
{
	struct block_columns c;
	struct free_columns frees;
	uint32_t allocated = 0, last = STREAM_NEVER;
	size_t freed = 0;

	begin_columns(&c, s);
	begin_frees(&frees, s);
	for (size_t i = 0; i < s->events; i++) {
		if (s->kinds[i] == STREAM_ALLOC) {
			add_live(&frees, allocated);
			add_block(&c, s, d, used, allocated++, last);
		} else if (s->kinds[i] == STREAM_FREE) {
			last = s->freed[freed++];
			add_free(&frees, allocated, last);
		}
	}
	put_blocks(&c, to, blobs, next);
	put_frees(&frees, to, blobs, next);
}

static void write_segments(const struct stream *s, struct used_stacks *used, json_t *to,
			   struct buf *blobs, unsigned *next)
{
	struct page_column c, ended;

	column_init(&c, 0);
	column_init(&ended, 0);
	for (size_t i = 0; i < s->segment_count; i++) {
		column_add(&c, page_address(s->segments[i].address));
		column_add(&c, s->segments[i].bytes);
		column_add(&c, use_stack(used, s->tables, s->segments[i].stack));
	}
	for (size_t i = 0; i < s->ended_count; i++)
		column_add(&ended, s->ended[i]);
	put_column(to, "segments", &c, blobs, next);
	put_column(to, "ended", &ended, blobs, next);
}

static void write_levels(const struct stream *s, json_t *to, struct buf *blobs, unsigned *next)
{
	struct page_column at, series, level;

	column_init(&at, 0);
	column_init(&series, 0);
	column_init(&level, 0);
	for (size_t i = 0; i < s->level_count; i++) {
		column_add(&at, s->levels[i].event);
		column_add(&series, s->levels[i].series);
		column_add(&level, s->levels[i].level);
	}
	put_column(to, "level_at", &at, blobs, next);
	put_column(to, "level_of", &series, blobs, next);
	put_column(to, "level", &level, blobs, next);
}

static json_t *text_of(struct buf *b)
{
	json_t *j = text(b->text ? b->text : "");

	buf_release(b);
	return j;
}

static json_t *name_text(struct str s)
{
	struct buf b = { 0 };

	buf_add_clean(&b, s);
	return text_of(&b);
}

static json_t *file_text(struct str s, const struct redaction *hide)
{
	struct buf b = { 0 };

	buf_add_clean(&b, s);
	redact_path(hide, &b);
	return text_of(&b);
}

/* Frames as [function, file, line], stacks as lists of them, innermost first. */
static json_t *stacks_json(const struct tables *t, const struct used_stacks *used,
			   const struct redaction *hide)
{
	json_t *root = json_object(), *frames = json_array(), *stacks = json_array();
	uint32_t *number = xcalloc(t->frame_count + 1, sizeof(*number)), count = 0;

	for (size_t i = 0; i < used->count; i++) {
		const struct stack *stack = tables_stack(t, used->list[i]);
		json_t *row = json_object(), *list = json_array();
		struct buf label = { 0 }, module = { 0 };

		for (uint32_t k = 0; k < stack->frame_count; k++) {
			uint32_t id = stack->frames[k];
			const struct mt_frame *f = tables_frame(t, id);

			if (!number[id]) {
				json_t *frame = json_array();

				json_array_append_new(frame,
						      name_text(tables_string(t, f->function)));
				json_array_append_new(frame,
						      file_text(tables_string(t, f->file), hide));
				json_array_append_new(frame, json_integer(f->line));
				json_array_append_new(frames, frame);
				number[id] = ++count;
			}
			json_array_append_new(list, json_integer(number[id] - 1));
		}
		stack_add_label(t, used->list[i], &label);
		stack_add_module(t, used->list[i], &module);
		set(row, "frames", list);
		if (stack->left_out)
			set(row, "left_out", json_integer(stack->left_out));
		redact(hide, &label);
		set(row, "label", text_of(&label));
		set(row, "module", text_of(&module));
		set(row, "library", file_text(tables_module(t, stack->module), hide));
		json_array_append_new(stacks, row);
	}
	free(number);
	set(root, "frames", frames);
	set(root, "stacks", stacks);
	return root;
}

json_t *stream_write(const struct stream *s, const struct device *d, const struct redaction *hide,
		     struct buf *blobs, unsigned *next)
{
	struct used_stacks used = { .number = xcalloc(s->tables->stack_count + 1,
						      sizeof(*used.number)) };
	json_t *to = json_object(), *tables;
	struct buf text = { 0 };

	set(to, "events", json_integer((json_int_t)s->events));
	set(to, "blocks", json_integer((json_int_t)s->block_count));
	set(to, "kinds", blob_write(blobs, next, s->kinds, s->events));
	write_times(s, to, blobs, next);
	write_blocks(s, d, &used, to, blobs, next);
	write_segments(s, &used, to, blobs, next);
	write_levels(s, to, blobs, next);
	tables = stacks_json(s->tables, &used, hide);
	json_write(tables, (struct json_reals){ 6, 1 }, &text);
	set(to, "tables", blob_write(blobs, next, text.text, text.length));
	json_decref(tables);
	buf_release(&text);
	free(used.number);
	free(used.list);
	return to;
}
