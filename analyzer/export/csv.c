/* Rows of a table as comma-separated values (RFC 4180), with a line of names. An absent value is
 * empty. */
#include "export/export.h"
#include "export/rows.h"

#include <string.h>

static void put_text(struct output *o, struct str text)
{
	output_add(o, "\"", 1);
	for (const char *at = text.at, *end = text.at + text.length; at < end;) {
		const char *quote = memchr(at, '"', (size_t)(end - at));
		const char *until = quote ? quote + 1 : end;

		output_add(o, at, (size_t)(until - at));
		if (quote)
			output_add(o, "\"", 1); /* a quote is doubled */
		at = until;
	}
	output_add(o, "\"", 1);
}

static void put_row(void *context, enum table_id table, const struct cell *cells)
{
	struct output *o = context;
	size_t count;

	table_columns(table, &count);
	for (size_t i = 0; i < count; i++) {
		if (i)
			output_add(o, ",", 1);
		if (cells[i].type == CELL_TEXT)
			put_text(o, cells[i].text);
		else if (cells[i].type == CELL_INTEGER)
			output_add_integer(o, cells[i].integer);
	}
	output_add(o, "\n", 1);
}

static int begin(struct export *x, struct err *e)
{
	size_t count;
	const struct export_column *columns =
		table_columns((enum table_id)x->options->table, &count);

	(void)e;
	for (size_t i = 0; i < count; i++) {
		if (i)
			output_add(&x->out, ",", 1);
		output_add(&x->out, columns[i].name, strlen(columns[i].name));
	}
	output_add(&x->out, "\n", 1);
	return 0;
}

static int add(struct export *x, const struct input *in, struct err *e)
{
	(void)e;
	rows_of(in, 1u << x->options->table, put_row, &x->out);
	return 0;
}

const struct export_writer export_csv = { .begin = begin, .add = add };
