/* memtrace export: traces in the formats of other tools. */
#include "cmd/command.h"
#include "export/export.h"
#include "export/rows.h"
#include "report/report.h"
#include "session/session.h"
#include "util/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TABLE_NAMES "blocks|device_traces|segments|stacks|records|processes"

static struct {
	const char *format, *path, *run, *table, *moment;
	int rank, device;
} given = { .rank = NO_RANK, .device = -1 };

static const struct opt rows[] = {
	{ "format", 'f', OPT_TEXT, &given.format, "FORMAT", "the format (see below)", 0, 0 },
	{ "output", 'o', OPT_TEXT, &given.path, "FILE", "write to FILE (standard output)", 0, 0 },
	{ "table", 0, OPT_TEXT, &given.table, TABLE_NAMES,
	  "the table of ndjson and csv (blocks); sqlite has all of them", 0, 0 },
	{ "at", 0, OPT_TEXT, &given.moment, "peak|oom|end",
	  "the moment: collapsed has the blocks that are live then (peak), pytorch ends there (end)",
	  0, 0 },
	{ "rank", 0, OPT_COUNT, &given.rank, "N", "only this rank", 0, 1 << 24 },
	{ "device", 0, OPT_COUNT, &given.device, "N",
	  "the device of collapsed and heaptrack, and of pytorch's --at (the one with the highest peak)",
	  0, MT_MAX_DEVICES - 1 },
	RUN_OPTION(&given.run),
};

static const struct export_format *find_format(const char *name, struct err *e)
{
	const char *names[32] = { 0 }, *near;
	struct buf list = { 0 };

	for (size_t i = 0; export_formats[i].name; i++) {
		if (!strcmp(export_formats[i].name, name))
			return &export_formats[i];
		names[i] = export_formats[i].name;
	}
	for (size_t i = 0; names[i]; i++)
		buf_addf(&list, "%s %s", i ? "," : "", names[i]);
	near = nearest(name, names);
	if (near)
		err_set(e, "--format: \"%s\" is not known; did you mean %s?", name, near);
	else
		err_set(e, "--format: \"%s\" is not known; the formats are%s", name, list.text);
	buf_release(&list);
	return NULL;
}

static int find_table(const char *name, int *table, struct err *e)
{
	*table = TABLE_blocks;
	for (int i = 0; name && i <= TABLE_COUNT; i++) {
		if (i == TABLE_COUNT)
			return err_set(e, "--table: \"%s\" is none of " TABLE_NAMES, name);
		*table = i;
		if (!strcmp(export_tables[i].name, name))
			break;
	}
	return 0;
}

static int find_moment(const char *name, enum export_moment *moment, struct err *e)
{
	static const char *const names[] = {
#define X(id, text) text,
		EXPORT_MOMENTS(X)
#undef X
	};

	*moment = MOMENT_OF_FORMAT;
	for (size_t i = 0; name && i < ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], name))
			*moment = (enum export_moment)i;
	if (name && *moment == MOMENT_OF_FORMAT)
		return err_set(e, "--at: \"%s\" is none of peak, oom, end", name);
	return 0;
}

/* An option that the format would ignore. */
static int refuse(const char *option, unsigned needs, const struct export_format *f, struct err *e)
{
	struct buf names = { 0 };

	if (f->flags & needs)
		return 0;
	for (size_t i = 0; export_formats[i].name; i++)
		if (export_formats[i].flags & needs)
			buf_addf(&names, "%s%s", names.length ? ", " : "", export_formats[i].name);
	err_set(e, "%s is not for --format %s; it is for %s", option, f->name, names.text);
	buf_release(&names);
	return -1;
}

static int check_options(const struct export_format *f, struct err *e)
{
	if (given.moment && refuse("--at", EXPORT_MOMENT, f, e) < 0)
		return -1;
	if (given.table && refuse("--table", EXPORT_TABLE, f, e) < 0)
		return -1;
	return given.device >= 0 ? refuse("--device", EXPORT_ONE_RANK, f, e) : 0;
}

static int fill(struct export_options *o, size_t traces, struct err *e)
{
	*o = (struct export_options){
		.path = given.path, .standard = stdout, .rank = given.rank, .device = given.device
	};
	if (o->path && !strcmp(o->path, "-"))
		o->path = NULL;
	if (!traces)
		return err_set(e, "export needs a trace: a file, or a directory of traces");
	if (!given.format)
		return err_set(e, "export needs --format (see: memtrace export --help)");
	o->format = find_format(given.format, e);
	if (!o->format || find_table(given.table, &o->table, e) < 0 ||
	    find_moment(given.moment, &o->moment, e) < 0 || check_options(o->format, e) < 0)
		return -1;
	if (o->format->flags & EXPORT_TO_FILE && !o->path)
		return err_set(e, "--format %s needs -o FILE", o->format->name);
	if (o->format->flags & EXPORT_BINARY && !o->path && isatty(STDOUT_FILENO))
		return err_set(e, "--format %s is not for a terminal; add -o FILE",
			       o->format->name);
	return 0;
}

static int run(char **paths, size_t count)
{
	struct export_options o;
	struct session s = { 0 };
	struct buf notes = { 0 };
	struct err e = { 0 };
	int status = fill(&o, count, &e);

	if (!status)
		status = session_find(&s, paths, count, given.run, &notes, &e);
	if (!status)
		status = export_traces(&s.files, &o, &notes, &e);
	term_progress_end();
	if (notes.length)
		fputs(notes.text, stderr);
	session_release(&s);
	buf_release(&notes);
	return status < 0 ? command_fail(STATUS_USAGE, &e) : STATUS_SUCCESS;
}

static void more_help(void)
{
	puts("\nFormats:");
	for (size_t i = 0; export_formats[i].name; i++)
		printf("  %-11s %s\n", export_formats[i].name, export_formats[i].summary);
	puts("\nTables of sqlite, ndjson and csv:");
	for (size_t i = 0; i < TABLE_COUNT; i++) {
		size_t columns;
		const struct export_column *c = table_columns((enum table_id)i, &columns);

		printf("  %-13s  %s:\n                ", export_tables[i].name,
		       export_tables[i].meaning);
		for (size_t k = 0, width = 0; k < columns; k++) {
			width += strlen(c[k].name) + 1;
			if (width > 60) {
				fputs("\n                ", stdout);
				width = strlen(c[k].name) + 1;
			}
			printf(" %s", c[k].name);
		}
		puts("");
	}
}

const struct command cmd_export = {
	.name = "export",
	.summary = "write traces in the formats of other tools",
	.usage = "--format FORMAT [-o FILE] TRACE...",
	.about = "Writes traces in the format of another tool.\n"
		 "TRACE is a file, or a directory of traces.\n" ABOUT_ATTEMPT,
	.more_help = more_help,
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.run = run,
};
