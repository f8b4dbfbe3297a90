#include "attribution/stack_text.h"

#include "attribution/attribution.h"
#include "util/glob.h"

#include <string.h>

/* A semicolon is between frames only: in a name it is a colon. */
static void clean_name(struct buf *b, size_t from)
{
	for (; from < b->length; from++)
		if (b->text[from] == ';')
			b->text[from] = ':';
}

static void add_name(struct buf *b, struct str name)
{
	size_t from = b->length;

	if (name.length)
		buf_add_utf8(b, name);
	else
		buf_puts(b, "?");
	clean_name(b, from);
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

/* The innermost frame from `from` outwards that is not PyTorch's own, else `from`. */
static uint32_t shown_frame(const struct tables *t, const struct stack *p, uint32_t from)
{
	for (uint32_t i = from; i < p->frame_count; i++) {
		const struct mt_frame *f = tables_frame(t, p->frames[i]);
		if (!frame_is(t, p->frames[i], FRAME_LIBRARY) && !is_no_frame(t, f))
			return i;
	}
	return from;
}

/* The name of a file without its folders. */
static struct str name_of_file(struct str file)
{
	size_t slash = file.length;

	while (slash && file.at[slash - 1] != '/')
		slash--;
	return file.length ? (struct str){ file.at + slash, file.length - slash } : file;
}

/* Without the line. */
static void add_function(const struct tables *t, const struct mt_frame *f, const char *between,
			 struct buf *b)
{
	struct str function = tables_string(t, f->function);
	struct str file = name_of_file(tables_string(t, f->file));
	const struct str unknown = { "?", 1 };

	buf_add_clean(b, function.length ? function : unknown);
	buf_puts(b, between);
	buf_add_clean(b, file.length ? file : unknown);
}

static void add_short_frame(const struct tables *t, const struct mt_frame *f, const char *between,
			    struct buf *b)
{
	add_function(t, f, between, b);
	if (f->line)
		buf_addf(b, ":%u", f->line);
}

void stack_add_missing(const struct tables *t, uint16_t thread, struct buf *b)
{
	struct thread of = tables_thread(t, thread);
	size_t from = b->length;

	buf_puts(b, "(no Python stack");
	if (of.name.length) {
		buf_puts(b, ", thread ");
		buf_add_clean(b, of.name);
		clean_name(b, from);
	}
	buf_puts(b, ")");
}

void stack_add_label(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);

	if (p->frame_count)
		add_short_frame(t, tables_frame(t, p->frames[shown_frame(t, p, 0)]), "  ", b);
}

void stack_add_outer_label(const struct tables *t, uint32_t stack, uint32_t frames, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);

	if (frames && frames <= p->frame_count)
		add_short_frame(
			t, tables_frame(t, p->frames[shown_frame(t, p, p->frame_count - frames)]),
			"  ", b);
}

void stack_add_function(const struct tables *t, uint32_t frame, struct buf *b)
{
	add_function(t, tables_frame(t, frame), "  ", b);
}

void stack_add_inner(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);

	if (p->frame_count && shown_frame(t, p, 0))
		add_short_frame(t, tables_frame(t, p->frames[0]), " ", b);
}

/* The class of a forward() method. If the name is bare, the name of the file is used instead. */
static struct str class_of(const struct tables *t, const struct mt_frame *f)
{
	struct str name = tables_string(t, f->function),
		   file = name_of_file(tables_string(t, f->file));

	if (str_matches(name, "*.forward"))
		return (struct str){ name.at, name.length - strlen(".forward") };
	return (struct str){ file.at,
			     file.length - (str_matches(file, "*.py") ? strlen(".py") : 0) };
}

void stack_add_module(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);
	int called = 0;

	if (!(tables_stack_flags(t, stack) & STACK_MODULE))
		return;
	for (uint32_t i = p->frame_count; i-- > 0;) {
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
		buf_add_clean(b, class_of(t, tables_frame(t, p->frames[i])));
	}
}
