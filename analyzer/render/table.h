/* A table of text: columns as wide as their cells, and fewer of them where the page is narrow. */
#ifndef MEMTRACE_TABLE_H
#define MEMTRACE_TABLE_H

#include "render/page.h"

#define TABLE_COLUMNS 16

enum align { ALIGN_LEFT, ALIGN_RIGHT };

struct column {
	const char *title;
	enum align align;
	int rank; /* the highest go first where there is no room; 0: stays */
	int cut;  /* if that is not enough, its texts are cut */
};

struct table {
	const struct column *columns;
	size_t column_count;
	char **cells; /* row by row */
	enum paint *paints;
	size_t cell_count, room, paint_room;
};

/* A next cell; rows are complete when each column has one. The text is copied. */
void table_cell(struct table *t, enum paint paint, const char *text);
/* Titles and rows, then the table is empty. A column without any text is left out. */
void table_put(struct page *p, struct table *t);

#endif
