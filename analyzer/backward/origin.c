#include "backward/origin.h"

#include "attribution/attribution.h"
#include "attribution/stack_text.h"

#include <string.h>

/* The id of a frame, counted from the outermost one. */
static uint32_t frame_at(const struct stack *s, uint32_t i)
{
	return s->frames[s->frame_count - 1 - i];
}

static int is_same(const struct tables *t, uint32_t a, uint32_t b)
{
	struct str x = tables_string(t, a), y = tables_string(t, b);

	return a == b || (x.length == y.length && (!x.length || !memcmp(x.at, y.at, x.length)));
}

/* Adds the line of the stack's next frame to those of the origin, if it is the same function's. */
static void add_line(struct origin *o, const struct tables *t, const struct stack *now,
		     const struct stack *more)
{
	const struct mt_frame *a, *b;

	if (now->frame_count <= o->frames || more->frame_count <= o->frames)
		goto unknown;
	a = tables_frame(t, frame_at(now, o->frames));
	b = tables_frame(t, frame_at(more, o->frames));
	if (!is_same(t, a->function, b->function) || !is_same(t, a->file, b->file) ||
	    frame_is(t, frame_at(now, o->frames), FRAME_LIBRARY))
		goto unknown;
	if (!o->first_line)
		o->first_line = o->last_line = a->line;
	o->first_line = b->line < o->first_line ? b->line : o->first_line;
	o->last_line = b->line > o->last_line ? b->line : o->last_line;
	return;
unknown:
	o->first_line = o->last_line = 0;
}

void origin_add(struct origin *o, const struct tables *t, uint32_t stack)
{
	const struct stack *now = tables_stack(t, o->stack), *more = tables_stack(t, stack);
	uint32_t n = 0;

	if (!o->stack) {
		*o = (struct origin){ .stack = stack, .frames = more->frame_count };
		return;
	}
	if (stack == o->stack)
		return;
	while (n < o->frames && n < more->frame_count && frame_at(now, n) == frame_at(more, n))
		n++;
	if (n < o->frames) {
		o->frames = n;
		o->first_line = o->last_line = 0;
		add_line(o, t, now, more);
	} else if (o->first_line) {
		add_line(o, t, now, more);
	}
}

uint32_t origin_next_line(const struct origin *o, const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);

	return o->first_line && s->frame_count > o->frames
		       ? tables_frame(t, frame_at(s, o->frames))->line
		       : 0;
}

int origin_is_useful(const struct origin *o, const struct tables *t)
{
	const struct stack *s = tables_stack(t, o->stack);
	uint32_t kept = origin_length(o);

	if (!o->stack || !kept)
		return 0;
	if (kept == s->frame_count || !(tables_stack_flags(t, o->stack) & STACK_MODULE))
		return 1;
	for (uint32_t i = 0; i < kept; i++)
		if (frame_is(t, frame_at(s, i), FRAME_FORWARD))
			return 1;
	return 0;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15u ^ hash >> 29;
}

uint64_t origin_hash(const struct origin *o, const struct tables *t)
{
	const struct stack *s = tables_stack(t, o->stack);
	uint64_t hash =
		mix(mix(mix(o->frames, (uint64_t)o->first_line << 32 | o->last_line), o->node),
		    (uint64_t)o->is_unclear);

	for (uint32_t i = 0; i < o->frames; i++)
		hash = mix(hash, frame_at(s, i));
	if (o->first_line)
		hash = mix(hash, tables_frame(t, frame_at(s, o->frames))->function);
	return hash;
}

void origin_add_label(const struct origin *o, const struct tables *t, struct buf *b)
{
	const struct stack *s = tables_stack(t, o->stack);

	if (!o->first_line) {
		stack_add_outer_label(t, o->stack, o->frames, b);
		return;
	}
	stack_add_function(t, frame_at(s, o->frames), b);
	buf_addf(b, ":%u", o->first_line);
	if (o->last_line != o->first_line)
		buf_addf(b, "-%u", o->last_line);
}

int origin_add_node(const struct origin *o, const struct tables *t, struct buf *b)
{
	if (o->stack || !o->node)
		return 0;
	buf_puts(b, "(no Python stack, autograd node ");
	buf_add_clean(b, tables_string(t, o->node));
	buf_puts(b, ")");
	return 1;
}
