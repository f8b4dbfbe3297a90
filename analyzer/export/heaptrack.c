/*
 * heaptrack's data file (format 2: src/analyze/accumulatedtracedata.cpp of heaptrack 1.4),
 * compressed by gzip. Numbers are hexadecimal, indices of strings, instruction pointers and traces
 * begin at 1, those of allocations at 0.
 *
 *   s TEXT   i POINTER MODULE FUNCTION FILE LINE   t INSTRUCTION PARENT   a SIZE TRACE   +
 * ALLOCATION   - ALLOCATION   c MILLISECONDS
 */
#include "attribution/attribution.h"
#include "attribution/stack_text.h"
#include "export/events.h"
#include "export/export.h"
#include "util/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* A block's size and stack, or a node of the tree of stacks: what has a number in the file. */
struct numbered {
	uint64_t key[2];
	uint32_t number;
	UT_hash_handle hh;
};

struct heaptrack {
	struct export *x;
	const struct input *in;
	struct numbered *nodes, *sizes;
	uint32_t node_count, size_count, string_count, instruction_count;
	uint32_t *strings, *frames, *stacks; /* numbers, 0: not written yet */
	uint32_t *threads;                   /* traces of blocks without a stack */
	uint64_t last_ms;
	struct buf text;
	z_stream z;
	unsigned char *packed;
};

#define PACKED (256u << 10)

static void deflate_text(struct heaptrack *h, int flush)
{
	h->z.next_in = (unsigned char *)h->text.text;
	h->z.avail_in = (unsigned)h->text.length;
	do {
		h->z.next_out = h->packed;
		h->z.avail_out = PACKED;
		if (deflate(&h->z, flush) == Z_STREAM_ERROR)
			BUG("deflate");
		output_add(&h->x->out, h->packed, PACKED - h->z.avail_out);
	} while (!h->z.avail_out);
	h->text.length = 0;
}

static void end_line(struct heaptrack *h)
{
	buf_puts(&h->text, "\n");
	if (h->text.length >= PACKED)
		deflate_text(h, Z_NO_FLUSH);
}

static uint32_t number_of(struct numbered **all, uint32_t *count, uint64_t a, uint64_t b,
			  int *is_new)
{
	uint64_t key[2] = { a, b };
	struct numbered *found;

	/* NOLINTNEXTLINE(clang-analyzer-core.*): the bytes of both numbers are set */
	HASH_FIND(hh, *all, key, sizeof(key), found);
	*is_new = !found;
	if (!found) {
		found = xcalloc(1, sizeof(*found));
		memcpy(found->key, key, sizeof(key));
		found->number = (*count)++;
		HASH_ADD(hh, *all, key, sizeof(found->key), found);
	}
	return found->number;
}

static uint32_t add_string(struct heaptrack *h, struct str s)
{
	size_t from;

	buf_puts(&h->text, "s ");
	from = h->text.length;
	buf_add_clean(&h->text, s);
	if (h->text.length == from)
		buf_puts(&h->text, "?");
	end_line(h);
	return ++h->string_count;
}

static uint32_t string_number(struct heaptrack *h, uint32_t id)
{
	if (!h->strings[id])
		h->strings[id] = add_string(h, tables_string(&h->in->trace.tables, id));
	return h->strings[id];
}

/* An instruction pointer is only a number that tells frames apart. */
static uint32_t add_instruction(struct heaptrack *h, uint32_t function, uint32_t file,
				uint32_t line)
{
	h->instruction_count++;
	buf_addf(&h->text, "i %" PRIx32 " 0 %" PRIx32 " %" PRIx32 " %" PRIx32, h->instruction_count,
		 function, file, line);
	end_line(h);
	return h->instruction_count;
}

static uint32_t frame_number(struct heaptrack *h, uint32_t id)
{
	const struct mt_frame *f = tables_frame(&h->in->trace.tables, id);
	uint32_t function, file;

	if (!h->frames[id]) {
		function = string_number(h, f->function);
		file = string_number(h, f->file);
		h->frames[id] = add_instruction(h, function, file, f->line);
	}
	return h->frames[id];
}

/* The number of the node for a frame called from `parent` (0: the outermost). */
static uint32_t node_number(struct heaptrack *h, uint32_t instruction, uint32_t parent)
{
	int is_new;
	uint32_t number = number_of(&h->nodes, &h->node_count, instruction, parent, &is_new) + 1;

	if (is_new) {
		buf_addf(&h->text, "t %" PRIx32 " %" PRIx32, instruction, parent);
		end_line(h);
	}
	return number;
}

static uint32_t thread_number(struct heaptrack *h, uint16_t thread)
{
	struct buf name = { 0 };
	uint32_t function;

	if (!h->threads[thread]) {
		stack_add_missing(&h->in->trace.tables, thread, &name);
		function = add_string(h, (struct str){ name.text, name.length });
		h->threads[thread] = node_number(h, add_instruction(h, function, 0, 0), 0);
		buf_release(&name);
	}
	return h->threads[thread];
}

static uint32_t trace_number(struct heaptrack *h, const struct mt_record *r)
{
	const struct tables *t = &h->in->trace.tables;
	const struct stack *s = tables_stack(t, r->stack);
	uint32_t node = 0;

	if (!s->frame_count)
		return thread_number(h, r->thread);
	if (h->stacks[r->stack])
		return h->stacks[r->stack];
	for (uint32_t i = s->frame_count; i-- > 0;)
		node = node_number(h, frame_number(h, s->frames[i]), node);
	h->stacks[r->stack] = node;
	return node;
}

static void on_event(void *context, uint64_t sequence, const struct mt_record *r,
		     const struct mt_record *allocated)
{
	struct heaptrack *h = context;
	const struct mt_record *block = r->bytes > 0 ? r : allocated;
	uint32_t trace, size;
	int is_new;

	(void)sequence;
	if (r->device != h->in->device || !block || !block->bytes || !input_is_block(h->in, r))
		return;
	if (r->time_ns / 1000000 > h->last_ms) {
		h->last_ms = r->time_ns / 1000000;
		buf_addf(&h->text, "c %" PRIx64, h->last_ms);
		end_line(h);
	}
	trace = trace_number(h, block);
	size = number_of(&h->sizes, &h->size_count, (uint64_t)block->bytes, trace, &is_new);
	if (is_new) {
		buf_addf(&h->text, "a %" PRIx64 " %" PRIx32, (uint64_t)block->bytes, trace);
		end_line(h);
	}
	buf_addf(&h->text, "%c %" PRIx32, r->bytes > 0 ? '+' : '-', size);
	end_line(h);
}

static void add_head(struct heaptrack *h)
{
	struct str rest = tables_argv(&h->in->trace.tables);

	buf_puts(&h->text, "v 10400 2\nX");
	while (rest.length) {
		size_t n = strnlen(rest.at, rest.length);

		buf_puts(&h->text, " ");
		buf_add_clean(&h->text, (struct str){ rest.at, n });
		n += n < rest.length; /* the zero between two arguments */
		rest = (struct str){ rest.at + n, rest.length - n };
	}
	end_line(h);
}

static int add(struct export *x, const struct input *in, struct err *e)
{
	const struct tables *t = &in->trace.tables;
	struct heaptrack h = { .x = x,
			       .in = in,
			       .strings = xcalloc(t->string_count, sizeof(*h.strings)),
			       .frames = xcalloc(t->frame_count, sizeof(*h.frames)),
			       .stacks = xcalloc(t->stack_count, sizeof(*h.stacks)),
			       .threads = xcalloc(1u << 16, sizeof(*h.threads)),
			       .packed = xcalloc(1, PACKED) };
	const struct event_sink sink = { .context = &h, .until = in->until, .event = on_event };

	(void)e;
	if (deflateInit2(&h.z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		BUG("deflateInit2");
	add_head(&h);
	(void)events_visit(&in->trace, &sink); /* a file that ends early has a note in report */
	deflate_text(&h, Z_FINISH);
	deflateEnd(&h.z);
	HASH_RELEASE(h.nodes);
	HASH_RELEASE(h.sizes);
	buf_release(&h.text);
	free(h.strings);
	free(h.frames);
	free(h.stacks);
	free(h.threads);
	free(h.packed);
	return 0;
}

const struct export_writer export_heaptrack = { .add = add };
