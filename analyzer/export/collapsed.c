/* Collapsed stacks: "outermost;...;innermost BYTES", a line for each stack of the blocks that are
 * live at a moment. */
#include "attribution/stack_text.h"
#include "export/events.h"
#include "export/export.h"

#include <stdlib.h>

/* Bytes of each stack, and of each thread for blocks without a stack. */
struct sums {
	const struct input *in;
	bytes *stacks, *threads;
};

static void add_block(void *context, const struct mt_record *r)
{
	struct sums *s = context;
	const struct tables *t = &s->in->trace.tables;

	if (r->device != s->in->device || !input_is_block(s->in, r))
		return;
	if (tables_stack(t, r->stack)->frame_count)
		s->stacks[r->stack] = bytes_add(s->stacks[r->stack], r->bytes);
	else
		s->threads[r->thread] = bytes_add(s->threads[r->thread], r->bytes);
}

static void put_line(struct export *x, struct buf *line, bytes n)
{
	for (size_t i = 0; i < line->length; i++) /* a name may contain any character */
		if ((unsigned char)line->text[i] < ' ')
			line->text[i] = '?';
	buf_addf(line, " %lld\n", (long long)n);
	output_add(&x->out, line->text, line->length);
	line->length = 0;
}

static void put_lines(struct export *x, const struct sums *s)
{
	const struct tables *t = &s->in->trace.tables;
	struct buf line = { 0 };

	for (uint32_t i = 0; i < t->stack_count; i++)
		if (s->stacks[i]) {
			stack_add_text(t, i, &line);
			put_line(x, &line, s->stacks[i]);
		}
	for (uint32_t i = 0; i < 1u << 16; i++)
		if (s->threads[i]) {
			stack_add_missing(t, (uint16_t)i, &line);
			put_line(x, &line, s->threads[i]);
		}
	buf_release(&line);
}

static int add(struct export *x, const struct input *in, struct err *e)
{
	struct sums s = { .in = in,
			  .stacks = xcalloc(in->trace.tables.stack_count, sizeof(*s.stacks)),
			  .threads = xcalloc(1u << 16, sizeof(*s.threads)) };
	const struct event_sink sink = { .context = &s, .until = in->until, .live = add_block };

	(void)e;
	(void)events_visit(&in->trace, &sink); /* what a cut file still has */
	put_lines(x, &s);
	free(s.stacks);
	free(s.threads);
	return 0;
}

const struct export_writer export_collapsed = { .add = add };
