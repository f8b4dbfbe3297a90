#include "diff/diff_items.h"

#include <stdlib.h>
#include <string.h>

const char *diff_kind_name(enum diff_kind k)
{
	static const char *const names[] = {
		"peak", "category", "owner", "phase", "stack", "config"
	};

	return names[k];
}

const struct rank *diff_side_failed(const struct diff_side *s, size_t *count)
{
	const struct rank *first = NULL;
	size_t failed = 0;

	for (size_t i = 0; i < s->count; i++)
		if (diff_has_failed(s->ranks[i]) && !failed++)
			first = s->ranks[i];
	if (count)
		*count = failed;
	return first;
}

int diff_item_is_beyond(const struct diff_item *i)
{
	const struct diff_spread *a = &i->side[SIDE_A], *b = &i->side[SIDE_B];

	return diff_item_is_known(i) && (a->most < b->least || b->most < a->least);
}

struct diff_item *diff_add_item(struct diff *d, enum diff_kind kind, const char *name,
				const char *title)
{
	struct diff_item *i;

	d->items = grow(d->items, d->count, &d->room, sizeof(*d->items));
	i = &d->items[d->count++];
	*i = (struct diff_item){ .kind = kind, .name = xstrdup(name), .title = xstrdup(title) };
	return i;
}

void diff_add_text(struct diff *d, const char *name, const char *a, const char *b)
{
	struct diff_item *i = diff_add_item(d, DIFF_CONFIG, name, name);

	i->side[SIDE_A].text = a ? xstrdup(a) : NULL;
	i->side[SIDE_B].text = b ? xstrdup(b) : NULL;
	i->is_changed = 1;
}

void diff_item_release(struct diff_item *i)
{
	free(i->name);
	free(i->title);
	free(i->side[SIDE_A].text);
	free(i->side[SIDE_B].text);
}

const struct diff_item *diff_find(const struct diff *d, enum diff_kind kind, const char *name)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->items[i].kind == kind && !strcmp(d->items[i].name, name))
			return &d->items[i];
	return NULL;
}
