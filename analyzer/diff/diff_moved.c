#include "diff/diff_moved.h"
#include "util/order.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A stack that only one side has. */
struct alone {
	char *key; /* the stack and its place, without line numbers */
	size_t item;
};

static char *key_of(const struct diff_item *i)
{
	char *key = xasprintf("%s\n%s", i->name, diff_stack_place(i->stack)), *to = key;

	for (const char *at = key; *at;) {
		*to++ = *at;
		at += 1 + (*at == ':' && isdigit((unsigned char)at[1])
				   ? strspn(at + 1, "0123456789")
				   : 0);
	}
	*to = '\0';
	return key;
}

static int by_key(const void *a, const void *b)
{
	const struct alone *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	return order ? order : ORDER(x->item, y->item);
}

static int has_only(const struct diff_item *i, int side)
{
	return i->side[side].most && !i->side[!side].most;
}

/* Pairs stacks of one key: the largest of A with the largest of B, and so on. The items are sorted.
 */
static void pair(struct diff *d, const struct alone *same, size_t count)
{
	size_t a = 0, b = 0;

	for (;; a++, b++) {
		struct diff_item *x, *y;

		while (a < count && !has_only(&d->items[same[a].item], SIDE_A))
			a++;
		while (b < count && !has_only(&d->items[same[b].item], SIDE_B))
			b++;
		if (a >= count || b >= count)
			return;
		x = &d->items[same[a].item];
		y = &d->items[same[b].item];
		y->side[SIDE_A] = x->side[SIDE_A];
		y->is_changed = diff_item_is_beyond(y);
		x->side[SIDE_A] = (struct diff_spread){ 0 };
	}
}

static int is_empty(const struct diff_item *i)
{
	return i->kind == DIFF_STACK && !i->side[SIDE_A].most && !i->side[SIDE_B].most;
}

void diff_pair_moved(struct diff *d)
{
	struct alone *all = xcalloc(d->count, sizeof(*all));
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < d->count; i++)
		if (d->items[i].kind == DIFF_STACK &&
		    (has_only(&d->items[i], SIDE_A) || has_only(&d->items[i], SIDE_B)))
			all[n++] = (struct alone){ key_of(&d->items[i]), i };
	if (n)
		qsort(all, n, sizeof(*all), by_key);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && !strcmp(all[end].key, all[i].key);)
			end++;
		pair(d, all + i, end - i);
	}
	for (size_t i = 0; i < d->count; i++) {
		if (is_empty(&d->items[i]))
			diff_item_release(&d->items[i]);
		else
			d->items[kept++] = d->items[i];
	}
	d->count = kept;
	for (size_t i = 0; i < n; i++)
		free(all[i].key);
	free(all);
}
