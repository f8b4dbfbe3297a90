#include "attribution/stack_text.h"

#include "attribution/attribution.h"

#include <string.h>

static void add_name(struct buf *b, struct str name)
{
	if (name.length)
		buf_add_utf8(b, name);
	else
		buf_puts(b, "?");
}

/* Says that deeper frames are not kept. */
static int is_no_frame(const struct tables *t, const struct mt_frame *f)
{
	return !f->line && !tables_string(t, f->file).length;
}

void stack_add_text(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);

	for (uint32_t i = p->frame_count; i-- > 0;) {
		const struct mt_frame *f = tables_frame(t, p->frames[i]);

		add_name(b, tables_string(t, f->function));
		if (is_no_frame(t, f)) {
			buf_puts(b, i ? ";" : "");
			continue;
		}
		buf_puts(b, " ");
		add_name(b, tables_string(t, f->file));
		buf_addf(b, ":%u%s", f->line, i ? ";" : "");
	}
}

/* The innermost frame that is not PyTorch's own, else the innermost. */
static uint32_t shown_frame(const struct tables *t, const struct stack *p)
{
	for (uint32_t i = 0; i < p->frame_count; i++) {
		const struct mt_frame *f = tables_frame(t, p->frames[i]);
		if (!frame_is(t, p->frames[i], FRAME_LIBRARY) && !is_no_frame(t, f))
			return i;
	}
	return 0;
}

static void add_short_frame(const struct tables *t, const struct mt_frame *f, const char *between,
			    struct buf *b)
{
	struct str function = tables_string(t, f->function), file = tables_string(t, f->file);
	const struct str unknown = { "?", 1 };
	size_t slash = file.length;

	while (slash && file.at[slash - 1] != '/')
		slash--;
	if (file.length)
		file = (struct str){ file.at + slash, file.length - slash };
	buf_add_clean(b, function.length ? function : unknown);
	buf_puts(b, between);
	buf_add_clean(b, file.length ? file : unknown);
	buf_addf(b, ":%u", f->line);
}

void stack_add_label(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);

	if (p->frame_count)
		add_short_frame(t, tables_frame(t, p->frames[shown_frame(t, p)]), "  ", b);
}

void stack_add_inner(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);

	if (p->frame_count && shown_frame(t, p))
		add_short_frame(t, tables_frame(t, p->frames[0]), " ", b);
}

void stack_add_module(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);
	const size_t suffix = strlen(".forward");
	int called = 0;

	if (!(tables_stack_flags(t, stack) & STACK_MODULE))
		return;
	for (uint32_t i = p->frame_count; i-- > 0;) {
		struct str name = tables_string(t, tables_frame(t, p->frames[i])->function);

		if (frame_is(t, p->frames[i], FRAME_MODULE_CALL)) {
			called = 1;
			continue;
		}
		/* Decorators may lie between the call and the module's own function. */
		if (!called || !frame_is(t, p->frames[i], FRAME_FORWARD))
			continue;
		called = 0;
		if (b->length)
			buf_puts(b, ".");
		buf_add_clean(b, (struct str){ name.at, name.length - suffix });
	}
}
