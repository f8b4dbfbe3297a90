/* Rows of a table as comma-separated values (RFC 4180), with a line of names. An absent value is
 * empty. */
#include "export/export.h"
#include "export/rows.h"

#include <stdlib.h>
#include <string.h>

static void put_text(struct buf *line, struct str text)
{
	buf_puts(line, "\"");
	for (const char *at = text.at, *end = text.at + text.length; at < end;) {
		const char *quote = memchr(at, '"', (size_t)(end - at));
		const char *until = quote ? quote + 1 : end;

		buf_add(line, at, (size_t)(until - at));
		buf_puts(line, quote ? "\"" : ""); /* a quote is doubled */
		at = until;
	}
	buf_puts(line, "\"");
}

/* printf() would take most of the time of an export. */
static void put_integer(struct buf *line, int64_t value)
{
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	char digits[24];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + rest % 10);
	while (rest /= 10);
	if (value < 0)
		digits[--at] = '-';
	buf_add(line, digits + at, sizeof(digits) - at);
}

static void put_row(void *context, enum table_id table, const struct cell *cells)
{
	struct export *x = context;
	struct buf *line = x->state;
	size_t count;

	table_columns(table, &count);
	line->length = 0;
	for (size_t i = 0; i < count; i++) {
		buf_puts(line, i ? "," : "");
		if (cells[i].type == CELL_TEXT)
			put_text(line, cells[i].text);
		else if (cells[i].type == CELL_INTEGER)
			put_integer(line, cells[i].integer);
	}
	buf_puts(line, "\n");
	output_add(&x->out, line->text, line->length);
}

static int begin(struct export *x, struct err *e)
{
	size_t count;
	const struct export_column *columns =
		table_columns((enum table_id)x->options->table, &count);
	struct buf *line = xcalloc(1, sizeof(*line));

	(void)e;
	for (size_t i = 0; i < count; i++)
		buf_addf(line, "%s%s", i ? "," : "", columns[i].name);
	buf_puts(line, "\n");
	output_add(&x->out, line->text, line->length);
	x->state = line;
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
	(void)failed;
	(void)e;
	if (x->state)
		buf_release(x->state);
	free(x->state);
	return 0;
}

const struct export_writer export_csv = { .begin = begin, .add = add, .end = end };
