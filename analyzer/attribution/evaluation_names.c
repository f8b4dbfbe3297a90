#include "attribution/evaluation_names.h"

static int has(const struct evaluation_names *n, const struct mt_frame *f)
{
	for (size_t i = 0; i < n->count; i++)
		if (n->list[i].file == f->file && n->list[i].function == f->function)
			return 1;
	return 0;
}

static void add(struct evaluation_names *n, const struct mt_frame *f)
{
	if (n->count < EVALUATION_NAMES && !has(n, f))
		n->list[n->count++] = *f;
}

void evaluation_names_add(struct evaluation_names *n, const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);

	for (uint32_t i = 0; i < s->frame_count; i++)
		if (frame_is(t, s->frames[i], FRAME_EVALUATE))
			add(n, tables_frame(t, s->frames[i]));
}

void evaluation_names_join(struct evaluation_names *n, const struct evaluation_names *more)
{
	for (size_t i = 0; i < more->count; i++)
		add(n, &more->list[i]);
}

int evaluation_names_tell(const struct evaluation_names *trained, const struct tables *t,
			  uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);

	for (uint32_t i = 0; i < s->frame_count; i++)
		if (frame_is(t, s->frames[i], FRAME_EVALUATE) &&
		    !has(trained, tables_frame(t, s->frames[i])))
			return 1;
	return 0;
}
