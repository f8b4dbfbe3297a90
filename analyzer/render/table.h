/* A table of text: columns as wide as their cells, and fewer columns on a narrow page. */
#ifndef MEMTRACE_TABLE_H
#define MEMTRACE_TABLE_H

#include "render/page.h"

#define TABLE_COLUMNS 16

enum align { ALIGN_LEFT, ALIGN_RIGHT };

struct column {
	const char *title;
	enum align align;
	int rank; /* columns with the highest rank are left out first; 0: never */
	int cut;  /* cut its texts if the table is still too wide */
};

struct table {
	const struct column *columns;
	size_t column_count;
	char **cells; /* row by row */
	enum paint *paints;
	size_t cell_count, room, paint_room;
};

/* Adds the next cell, row by row. The text is copied. */
void table_cell(struct table *t, enum paint paint, const char *text);
/* Prints titles and rows, and empties the table. A column without any text is left out. */
void table_put(struct page *p, struct table *t);

#endif
