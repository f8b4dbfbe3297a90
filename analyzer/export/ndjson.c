/*
 * Rows of a table, one JSON object a line. They are written without jansson, which takes 10 s for
 * 10 million rows of 9 columns and 15 s for rows of 14, reading the trace not included; the limit
 * of `make bench` is 10 s for all of it. Names of columns are plain, and text that is not plain
 * goes through jansson.
 */
#include "export/export.h"
#include "export/rows.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct line_parts {
	char *before[MAX_COLUMNS]; /* what stands before a value: {"rank": or ,"device": */
	size_t length[MAX_COLUMNS];
	size_t count;
};

static int write_part(const char *part, size_t length, void *context)
{
	output_add(context, part, length);
	return 0;
}

/* Does the text stand in JSON as it is? */
static int is_plain(struct str text)
{
	for (size_t i = 0; i < text.length; i++)
		if (text.at[i] < ' ' || text.at[i] > '~' || text.at[i] == '"' || text.at[i] == '\\')
			return 0;
	return 1;
}

static void add_text(struct output *o, struct str text)
{
	json_t *value;

	if (is_plain(text)) {
		output_add(o, "\"", 1);
		output_add(o, text.at, text.length);
		output_add(o, "\"", 1);
		return;
	}
	value = json_stringn_nocheck(text.at, text.length);
	if (json_dump_callback(value, write_part, o, JSON_ENCODE_ANY) < 0)
		BUG("json");
	json_decref(value);
}

static void put_row(void *context, enum table_id table, const struct cell *cells)
{
	struct export *x = context;
	const struct line_parts *l = x->state;

	(void)table;
	for (size_t i = 0; i < l->count; i++) {
		output_add(&x->out, l->before[i], l->length[i]);
		if (cells[i].type == CELL_INTEGER)
			output_add_integer(&x->out, cells[i].integer);
		else if (cells[i].type == CELL_TEXT)
			add_text(&x->out, cells[i].text);
		else
			output_add(&x->out, "null", 4);
	}
	output_add(&x->out, "}\n", 2);
}

static int begin(struct export *x, struct err *e)
{
	struct line_parts *l = xcalloc(1, sizeof(*l));
	const struct export_column *columns =
		table_columns((enum table_id)x->options->table, &l->count);

	(void)e;
	for (size_t i = 0; i < l->count; i++) {
		l->before[i] = xasprintf("%c\"%s\":", i ? ',' : '{', columns[i].name);
		l->length[i] = strlen(l->before[i]);
	}
	x->state = l;
	return 0;
}

static int add(struct export *x, const struct input *in, struct err *e)
{
	(void)e;
	rows_of(in, 1u << x->options->table, put_row, x);
	return 0;
}

static int end(struct export *x, int failed, struct err *e)
{
	struct line_parts *l = x->state;

	(void)failed;
	(void)e;
	for (size_t i = 0; l && i < l->count; i++)
		free(l->before[i]);
	free(l);
	return 0;
}

const struct export_writer export_ndjson = { .begin = begin, .add = add, .end = end };
